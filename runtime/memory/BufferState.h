// SPDX-License-Identifier: Apache-2.0
// BufferState: what a Buffer handle shares; Allocation: the memory behind it, which enqueued work
// owns too. The one thing to know: with the last handle the buffer is freed for the program; its
// memory is used again when the work that was enqueued with it is done as well.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hpu/memory.h"
#include "hpu/status.h"

namespace hpu {

class DeviceState;

/// Memory of the device's allocator. Immutable; any thread may use it.
class Allocation {
 public:
  Allocation(std::shared_ptr<DeviceState> device, uint64_t address, int64_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  const std::shared_ptr<DeviceState>& device() const { return device_; }
  uint64_t address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes that belong to it: what was asked for, rounded up to the allocator's alignment.
  int64_t capacity() const;

 private:
  const std::shared_ptr<DeviceState> device_;
  const uint64_t address_;
  const int64_t bytes_;
};

/// Whose addresses find a buffer.
enum class Visibility : uint8_t {
  kProgram,   ///< The program: it asked for the memory.
  kInternal,  ///< No program's: the runtime's own (constants, workspaces).
};

/// Immutable; any thread may use it.
class BufferState : public std::enable_shared_from_this<BufferState> {
 public:
  /// Errors: as Device::allocate.
  static StatusOr<std::shared_ptr<BufferState>> create(std::shared_ptr<DeviceState> device, int64_t bytes,
                                                       const AllocateOptions& options, Visibility visibility);
  BufferState(std::shared_ptr<Allocation> allocation, Visibility visibility);
  ~BufferState();
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;

  const std::shared_ptr<Allocation>& allocation() const { return allocation_; }
  const std::shared_ptr<DeviceState>& device() const { return allocation_->device(); }
  uint64_t address() const { return allocation_->address(); }
  int64_t bytes() const { return allocation_->bytes(); }
  int64_t capacity() const { return allocation_->capacity(); }

 private:
  const std::shared_ptr<Allocation> allocation_;
  const Visibility visibility_;
};

}  // namespace hpu
