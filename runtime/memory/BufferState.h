// SPDX-License-Identifier: Apache-2.0
// BufferState: what a Buffer handle shares; Allocation: the memory behind it, which enqueued work
// owns too. The one thing to know: with the last handle the buffer is freed for the program; its
// memory is used again when the work that was enqueued with it is done as well (a pool's perhaps before: by work
// behind it).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hpu/memory.h"
#include "hpu/status.h"

namespace hpu {

class DeviceState;
class MemoryPoolState;

/// Memory of the device's allocator, or of a pool. Immutable; any thread may use it.
class Allocation {
 public:
  /// `pool`: whose memory it is; null: the device's.
  Allocation(std::shared_ptr<DeviceState> device, uint64_t address, int64_t bytes,
             std::shared_ptr<MemoryPoolState> pool = nullptr);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  const std::shared_ptr<DeviceState>& device() const { return device_; }
  const std::shared_ptr<MemoryPoolState>& pool() const { return pool_; }
  uint64_t address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  /// Bytes that belong to it: what was asked for, rounded up to the allocator's alignment.
  int64_t capacity() const;

 private:
  const std::shared_ptr<DeviceState> device_;  // Goes after the pool, which needs it.
  const std::shared_ptr<MemoryPoolState> pool_;
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
  /// A view of a part of `whole`, which is no view itself; the range lies in it.
  BufferState(std::shared_ptr<BufferState> whole, int64_t offset, int64_t bytes);
  ~BufferState();
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;

  const std::shared_ptr<Allocation>& allocation() const { return allocation_; }
  const std::shared_ptr<DeviceState>& device() const { return allocation_->device(); }
  uint64_t address() const { return allocation_->address() + static_cast<uint64_t>(offset_); }
  int64_t bytes() const { return bytes_; }
  /// Bytes that belong to it; of a view that does not reach the end of its buffer just its own.
  int64_t capacity() const;
  /// Null: it is no view.
  const std::shared_ptr<BufferState>& whole() const { return whole_; }

 private:
  const std::shared_ptr<BufferState> whole_;
  const std::shared_ptr<Allocation> allocation_;
  const Visibility visibility_;
  const int64_t offset_, bytes_;
};

}  // namespace hpu
