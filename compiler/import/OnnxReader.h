// SPDX-License-Identifier: Apache-2.0
// Reads .onnx files and ONNX tensor files (.pb).
// The one thing to know: errors are one line that says what is wrong, where in the file, and the mend.
#pragma once

#include <span>
#include <string>

#include "compiler/import/OnnxModel.h"
#include "hpu/status.h"

namespace hpu::importer {

/// Reads a model with the tensors that it keeps in other files of its folder. Errors: kNotFound,
/// kPermissionDenied, kDataLoss (not ONNX, truncated, tensors that do not fit their type, external data
/// that is missing or short), kInvalidArgument (a path that leaves the folder), kUnimplemented (too new,
/// larger than protobuf allows, a data type that we do not have), kResourceExhausted.
StatusOr<OnnxModel> readOnnxModel(const std::string& path);
/// As above from the bytes of a file, which may go afterwards; tensors in other files are those beside `path`.
StatusOr<OnnxModel> parseOnnxModel(std::span<const uint8_t> bytes, const std::string& path);

/// Reads a serialized TensorProto, as in the data sets of ONNX's backend tests.
StatusOr<TensorData> readOnnxTensor(const std::string& path);
StatusOr<TensorData> parseOnnxTensor(std::span<const uint8_t> bytes, const std::string& path);

/// A TensorProto file of a tensor. `data` holds type.bytes() bytes.
Status writeOnnxTensor(const std::string& path, const std::string& name, const TensorType& type, const void* data);

/// Where and why the top level of a protobuf message breaks: "field 7 at byte 120 needs 900 bytes, 34 are
/// left"; empty when its top level is whole.
std::string describeProtobufDamage(std::span<const uint8_t> bytes);

}  // namespace hpu::importer
