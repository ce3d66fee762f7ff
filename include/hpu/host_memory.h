// SPDX-License-Identifier: Apache-2.0
// HostMemory: host memory that a device knows: allocated for it, or the program's own and mapped
// for it. The one thing to know: copies take any host pointer; memory that is known here is
// protected from being freed or unmapped while enqueued copies use it.
//
//   HPU_ASSIGN(hpu::HostMemory staging, device.allocateHost(1 << 20));
//   HPU_RETURN_IF_ERROR(stream.copyToDevice(buffer, staging.data, staging.bytes));
//   HPU_RETURN_IF_ERROR(device.freeHost(staging.data));  // In order: the copy still reads it.
#pragma once

#include <cstdint>
#include <string>

namespace hpu {

/// A plain record, not an owner: Device::freeHost or unmapHost ends what it describes.
struct HostMemory {
  void* data = nullptr;  ///< Aligned to pages when allocated.
  int64_t bytes = 0;
  bool allocated = false;  ///< By allocateHost; else mapped by mapHost or importHost.
  std::string label;
  /// Where launches and copies on the device find the same bytes, without a copy to HBM: they go over PCIe each time
  /// that they are used (docs/device-memory.md). 0: the device cannot reach them (mapped memory, unless it is
  /// importHost's).
  uint64_t deviceAddress = 0;
};

}  // namespace hpu
