// SPDX-License-Identifier: Apache-2.0
// BufferState: what a Buffer handle shares; its memory is freed when the last owner is gone.
// The one thing to know: enqueued work owns the buffers it uses, so a free is in order with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hpu/memory.h"
#include "hpu/status.h"

namespace hpu {

class DeviceState;

/// Immutable; any thread may use it.
class BufferState {
 public:
  /// Errors: as Device::allocate.
  static StatusOr<std::shared_ptr<BufferState>> create(std::shared_ptr<DeviceState> device,
                                                       int64_t bytes, const std::string& label);
  BufferState(std::shared_ptr<DeviceState> device, uint64_t address, int64_t bytes);
  ~BufferState();
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;

  const std::shared_ptr<DeviceState>& device() const { return device_; }
  uint64_t address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes that belong to the buffer: what was asked for, rounded up to the allocator's alignment.
  int64_t capacity() const;

 private:
  const std::shared_ptr<DeviceState> device_;
  const uint64_t address_;
  const int64_t bytes_;
};

}  // namespace hpu
