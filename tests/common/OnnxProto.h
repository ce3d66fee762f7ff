// SPDX-License-Identifier: Apache-2.0
// Pieces of ONNX files for tests that write models. The one thing to know: this header has protobuf in it, so it is for
// sources that stay apart from MLIR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "hpu/types.h"

namespace hpu::onnxtest {

/// ONNX's number of an element type, and back (0 and kInvalid for what we do not have).
int32_t onnxType(ElementType type);
ElementType elementType(int32_t onnxType);

/// A model without nodes.
onnx::ModelProto emptyModel(int64_t opset, int64_t irVersion, const std::string& graph);
/// Name, element type and data as they lie in memory.
void fillTensor(const std::string& name, const TensorType& type, const void* data, size_t bytes,
                onnx::TensorProto* proto);
/// Name and element type; gives the shape, still of rank 0.
onnx::TensorShapeProto* fillInfo(const std::string& name, ElementType element, onnx::ValueInfoProto* info);

void setAttribute(int64_t value, onnx::AttributeProto* attribute);
void setAttribute(float value, onnx::AttributeProto* attribute);
void setAttribute(const std::string& value, onnx::AttributeProto* attribute);
void setAttribute(const std::vector<int64_t>& values, onnx::AttributeProto* attribute);
void setAttribute(const std::vector<float>& values, onnx::AttributeProto* attribute);

}  // namespace hpu::onnxtest
