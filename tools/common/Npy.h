// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy and .npz files.
// The one thing to know: little-endian numbers, booleans and bf16 (stored by ml_dtypes as two void
// bytes) are read, also in Fortran order; Python objects and text are refused.
#pragma once

#include <string>
#include <vector>

#include "tools/common/HostTensor.h"

namespace hpu::tools {

/// Errors: those of the file; kDataLoss (not a .npy file, truncated); kUnimplemented (dtype).
StatusOr<HostTensor> readNpy(const std::string& path);
StatusOr<HostTensor> parseNpy(const uint8_t* data, size_t size);
/// bf16 and f8 are written as f32, which every NumPy reads.
Status writeNpy(const std::string& path, const HostTensor& tensor);
std::vector<uint8_t> serializeNpy(const HostTensor& tensor);

/// All arrays of an archive in its order, named without ".npy"; stored or deflated.
StatusOr<std::vector<HostTensor>> readNpz(const std::string& path);
/// As above; `path` names the file in messages.
StatusOr<std::vector<HostTensor>> parseNpz(const uint8_t* data, size_t size, const std::string& path);
/// Stored, not compressed. kInvalidArgument beyond 4 GiB, the limit of a plain zip file.
Status writeNpz(const std::string& path, const std::vector<HostTensor>& tensors);

/// Reads .npy, .pb, or FILE.npz:NAME, by the ending.
StatusOr<HostTensor> readTensorFile(const std::string& path);

}  // namespace hpu::tools
