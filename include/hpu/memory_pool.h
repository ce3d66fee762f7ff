// SPDX-License-Identifier: Apache-2.0
// MemoryPool: memory of a device in the order of a stream: what a stream frees, its next work may use at once.
// The one thing to know: a buffer of a pool is for work that is enqueued on its stream after the allocation (or on
// streams that wait for such work) and before the free; neither call waits for the device.
//
//   HPU_ASSIGN(auto pool, hpu::MemoryPool::create(device));
//   HPU_ASSIGN(auto scratch, pool.allocate(bytes, stream));
//   HPU_RETURN_IF_ERROR(executable.launch(stream, {in, scratch}, {out}));
//   HPU_RETURN_IF_ERROR(pool.free(std::move(scratch), stream));   // The launch still uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hpu/device.h"
#include "hpu/memory.h"
#include "hpu/status.h"
#include "hpu/stream.h"

namespace hpu {

struct MemoryPoolOptions {
  std::string label = "pool";  ///< Names its memory in statistics and errors.
  int64_t maxBytes = 0;        ///< Of HBM that it may hold, without what is still waited for; 0: what the device has.
  /// Of unused memory that it keeps; more goes back to the device when its work is done. < 0: all.
  int64_t keepBytes = -1;
};

struct MemoryPoolInfo {
  int64_t usedBytes = 0, peakUsedBytes = 0;          ///< Of live buffers, rounded as they are allocated.
  int64_t reservedBytes = 0, peakReservedBytes = 0;  ///< Of HBM that it holds.
  int64_t allocations = 0;                           ///< Calls that succeeded.
  int64_t reusedInOrder = 0;  ///< Of these: memory that the same stream had freed, perhaps still in use by it.
  int64_t reusedDone = 0;     ///< Memory of another stream whose work was done.
};

class MemoryPoolState;

/// A shared handle; any thread may call anything. Memory goes back to the device when the pool's last handle and its
/// last buffer are gone. When the device is full, its pools give up what they do not use before an allocation fails.
class HPU_API MemoryPool {
 public:
  MemoryPool();  ///< Empty; only assignable.
  ~MemoryPool();
  bool valid() const { return state_ != nullptr; }
  static StatusOr<MemoryPool> create(const Device& device, const MemoryPoolOptions& options = {}) {
    return create(device, options, sizeof(MemoryPoolOptions));
  }
  static StatusOr<MemoryPool> create(const Device& device, const MemoryPoolOptions& options, size_t optionsBytes);
  /// The one that Stream::allocate uses; made with the first call.
  static StatusOr<MemoryPool> defaultOf(const Device& device);

  /// For work on `stream` from now on. Errors: as Device::allocate; kResourceExhausted also at maxBytes;
  /// kInvalidArgument (another device's stream). In a capture the memory is the graph's: it stays the same in every
  /// replay, and what the capture frees is used again in the same capture only.
  StatusOr<Buffer> allocate(int64_t bytes, const Stream& stream);
  /// Behind what was enqueued on `stream`. Handles and views that are left keep the memory from being used again until
  /// they are gone; use them no more. Work that was given an address only (functions of the program, external work) is
  /// not known to use the memory: keep a handle, or Buffer::keepAlive(), until it is done. After a reset of the device
  /// memory of buffers from before it is used again when nothing holds it any more, whoever freed it. A buffer that is
  /// let go without this call goes back when the work that uses it is done. Errors: kInvalidArgument (no buffer of this
  /// pool, or a view of one), kFailedPrecondition (freed already).
  Status free(Buffer buffer, const Stream& stream);
  /// Gives unused memory whose work is done back to the device until at most `keepBytes` are left of it; how much.
  int64_t trim(int64_t keepBytes = 0);
  MemoryPoolInfo info() const;
  void resetPeaks();

 private:
  std::shared_ptr<MemoryPoolState> state_;
};

}  // namespace hpu
