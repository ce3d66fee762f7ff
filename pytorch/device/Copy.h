// SPDX-License-Identifier: Apache-2.0
// Copies between host and devices, on devices, and between them, of any strides and types.
// The one thing to know: copies are in order with the current stream of the tensor's device, and only those to pageable
// host memory, or from a large piece of it, wait.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "hpu_torch/api.h"

namespace hpu_torch {

/// Numbers of copies of this process. `overHost`: those on a device that went through host memory.
struct CopyCounters {
  std::atomic<int64_t> toDevice{0}, toHost{0}, onDevice{0}, betweenDevices{0}, overHost{0};
};
HPU_TORCH_API CopyCounters& copyCounters();

/// dst takes src's values; one of them at least is on an hpu device. `src` is broadcast.
void copyValues(const at::Tensor& src, const at::Tensor& dst, bool nonBlocking);

/// Host tensors of the same sizes, types, and values, all together one wait for each device. Their strides may differ.
std::vector<at::Tensor> toHost(const std::vector<at::Tensor>& tensors);
at::Tensor toHost(const at::Tensor& tensor);
/// [begin, end) of the bytes of an hpu storage in host memory, as a storage of its own.
at::Storage storageToHost(const c10::Storage& storage, int64_t begin, int64_t end);

/// `dst`, on an hpu device, takes the values of `host`, which has its sizes and type, and which nobody else will write:
/// it may be read after the call.
void uploadOwned(const at::Tensor& host, const at::Tensor& dst);
/// A new tensor on `device` with the values of `host`, and its strides if it is dense.
at::Tensor toDevice(const at::Tensor& host, c10::Device device);

/// All elements of `dst` take the value.
void fillValues(const at::Tensor& dst, const at::Scalar& value);

}  // namespace hpu_torch
