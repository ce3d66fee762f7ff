// SPDX-License-Identifier: Apache-2.0
// Data files of ONNX's backend tests: tensors, sequences of them, and optionals of either.
// The one thing to know: a file does not say which of them it is; the model's input or output does.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/OnnxModel.h"
#include "hpu/status.h"

namespace hpu::importer {

struct OnnxData {
  bool isAbsent = false;            ///< An optional without an element.
  std::vector<TensorData> tensors;  ///< One, but of a sequence its elements.
};

/// Errors: kDataLoss (not the message that `info` says), and those of readOnnxTensor.
StatusOr<OnnxData> readOnnxData(const std::string& path, const ValueInfo& info);

}  // namespace hpu::importer
