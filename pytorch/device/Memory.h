// SPDX-License-Identifier: Apache-2.0
// Memory as libtorch sees it: tensors' blocks of HBM, and pinned host memory.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

#include "hpu_torch/api.h"
#include "pytorch/device/CachingAllocator.h"

namespace hpu_torch {

/// What storages show as their address: the device's, with the device's number in bits that no device address has,
/// because all devices begin at hpu::kHbmBase, and programs tell memory apart by data_ptr(). Nothing is mapped there on
/// the host.
inline constexpr int kDeviceShift = 40;
inline void* storageAddress(uint64_t deviceAddress, c10::DeviceIndex device) {
  return reinterpret_cast<void*>(deviceAddress | static_cast<uint64_t>(device) << kDeviceShift);  // NOLINT
}
inline uint64_t deviceAddress(const void* storageAddress) {
  return reinterpret_cast<uint64_t>(storageAddress) & ((uint64_t{1} << kDeviceShift) - 1);
}

/// Of tensors on the current device, for its current stream.
c10::Allocator* allocator();
/// Remembers, for as long as the memory lives, what dense tensor it was taken for: views of it may not show its sizes.
void noteSizes(const c10::Storage& storage, c10::IntArrayRef sizes, c10::IntArrayRef strides);
/// The block of a tensor's storage; null for an empty storage, and for memory that is not of allocator().
Block* blockOf(const c10::DataPtr& data);

/// Host memory that copies use without waiting (non_blocking=True). The runtime locks no pages, so it is ordinary
/// memory that this library frees itself: not before the copies are done, and without Python's lock.
HPU_TORCH_API c10::Allocator* pinnedAllocator();
HPU_TORCH_API bool isPinned(const void* data);
/// Of pinned memory, in bytes.
HPU_TORCH_API int64_t pinnedBytes();

}  // namespace hpu_torch
