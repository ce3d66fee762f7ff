// SPDX-License-Identifier: Apache-2.0
// ONNX TensorProto files (.pb), the layout of ONNX's backend tests, read and written without
// protobuf so that a runtime-only build has them too. The one thing to know: every length is
// checked before it is used; a damaged file is kDataLoss with the byte offset.
#pragma once

#include <string>

#include "tools/common/HostTensor.h"

namespace hpu::tools {

/// Errors: kNotFound and others of the file; kDataLoss (truncated, data of another size than the
/// dims); kUnimplemented (strings, complex numbers, external data).
StatusOr<HostTensor> readTensorProto(const std::string& path);
StatusOr<HostTensor> parseTensorProto(const uint8_t* data, size_t size);

/// The type that TensorProto.DataType numbers; kInvalid for strings, complex numbers and what is none.
ElementType elementOfDataType(int32_t dataType);

Status writeTensorProto(const std::string& path, const HostTensor& tensor);
std::vector<uint8_t> serializeTensorProto(const HostTensor& tensor);

}  // namespace hpu::tools
