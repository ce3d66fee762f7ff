// SPDX-License-Identifier: Apache-2.0
// What can be told of an ONNX file without reading its weights: the files with external data, and the inputs with their
// declared shapes. It walks the protobuf's wire format and skips what it does not need, so a model of gigabytes
// costs microseconds. The one thing to know: it judges nothing. What is malformed ends the walk, and importing the
// model says what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hpu::importer {

struct OutlineDim {
  int64_t size = 0;    ///< 0: free.
  std::string symbol;  ///< Of a free one; may be empty.
};

/// An input that no initializer gives a value.
struct OutlineInput {
  std::string name;
  bool isTensor = false, hasShape = false;
  int32_t dataType = 0;  ///< TensorProto.DataType; 0: it is not said.
  std::vector<OutlineDim> dims;
};

struct OnnxOutline {
  bool complete = false;  ///< The walk came to the end of the file.
  /// `location`s of external data, each once, as they are written in the model.
  std::vector<std::string> externalFiles;
  /// An input (one that no initializer gives a value) has a dimension without a number, or no shape.
  bool freeInputs = false;
  std::vector<OutlineInput> inputs;  ///< In the model's order.
};

/// Reads only the bytes given. Any thread may call.
OnnxOutline outlineOnnx(const uint8_t* data, size_t bytes);

}  // namespace hpu::importer
