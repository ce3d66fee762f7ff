// SPDX-License-Identifier: Apache-2.0
// DeviceFile: the file descriptor that synDeviceInfo names.
// The one thing to know: a simulated device has no driver, so it is one of an empty file, which programs may keep,
// compare and duplicate as they do the driver's.
#pragma once

#include <cstdint>

namespace hpu::synapse {

class DeviceFile {
 public:
  DeviceFile();
  ~DeviceFile();
  DeviceFile(const DeviceFile&) = delete;
  DeviceFile& operator=(const DeviceFile&) = delete;
  /// -1: the process had no descriptor left.
  int descriptor() const { return descriptor_; }

 private:
  /// Whether the number still is this file: a program may have closed it, and another file may have it now.
  bool isOpen() const;

  int descriptor_;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace hpu::synapse
