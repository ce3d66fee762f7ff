// SPDX-License-Identifier: Apache-2.0
// Buffer: a piece of a device's HBM.
// The one thing to know: its address is a device address; host code reads and writes it only by
// copies on a Stream.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hpu/status.h"

namespace hpu {

class BufferState;

struct AllocateOptions {
  std::string label;              ///< Names the holder in statistics and errors.
  uint64_t requestedAddress = 0;  ///< 0: any. Else this address (a multiple of 256), or kAlreadyExists.
  /// Where nothing fits, wait for enqueued work that holds memory. False: only what is free now will do. Inside of what
  /// a device's work calls (external work, and hooks at the end of work) nothing is waited for.
  bool wait = true;
};

/// What a program hears of its allocations (Device::setMemoryHooks); each may be empty. Called on the thread that
/// allocates or frees, which may be one of the runtime (memory is freed when the work that uses it is done), without
/// locks: they may allocate and free. Where the end of work calls them, a wait for work of a device and a reset are
/// refused (kFailedPrecondition). What they throw is logged; outOfMemory has freed nothing then.
struct MemoryHooks {
  std::function<void(uint64_t address, int64_t bytes, const std::string& label)> allocated;
  std::function<void(uint64_t address, int64_t bytes)> freed;
  /// An allocation of so many bytes does not fit, after waiting if it does. True: something was freed, try again; the
  /// error is the caller's otherwise, and after 64 attempts.
  std::function<bool(int64_t bytes)> outOfMemory;
};

enum class CopyDirection : uint8_t { kToDevice, kToHost, kOnDevice };
/// One copy of many. A side on the host is a pointer as a number.
struct CopyRange {
  uint64_t dst = 0, src = 0;
  int64_t bytes = 0;
};

/// A shared handle; the memory is freed with the last one. Any thread may use it.
class HPU_API Buffer {
 public:
  Buffer();
  ~Buffer();
  Buffer(const Buffer&);
  Buffer(Buffer&&) noexcept;  ///< Leaves an empty handle.
  Buffer& operator=(const Buffer&);
  Buffer& operator=(Buffer&&) noexcept;
  bool valid() const { return state_ != nullptr; }
  uint64_t address() const;  ///< Device address.
  int64_t size() const;      ///< Bytes asked for.
  /// A view of [offset, offset + bytes) of this buffer, which stays allocated as long as the view is. Errors:
  /// kOutOfRange, kFailedPrecondition (an empty handle).
  StatusOr<Buffer> slice(int64_t offset, int64_t bytes) const;
  /// The same bytes as the host sees them, valid as long as the buffer; nothing orders the host's accesses with
  /// streams, so synchronize first. Takes host memory for all its bytes with the call. Errors: kUnimplemented (the
  /// device's memory is not in reach of the host; copy it), kFailedPrecondition (an empty handle), kResourceExhausted.
  StatusOr<void*> hostView() const;

  /// The memory without the handle, for work that was given its address only (ExternalWork): kept until that is done,
  /// it is not freed before. Unlike a handle it does not keep memory of a pool that was freed (MemoryPool::free) from
  /// the stream's next work. Null for an empty handle.
  std::shared_ptr<const void> keepAlive() const;

  const std::shared_ptr<BufferState>& state() const { return state_; }
  explicit Buffer(std::shared_ptr<BufferState> state);

 private:
  std::shared_ptr<BufferState> state_;
};

}  // namespace hpu
