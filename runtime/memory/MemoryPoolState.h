// SPDX-License-Identifier: Apache-2.0
// MemoryPoolState: what MemoryPool handles and the memory of the pool's buffers share: blocks of the device's memory,
// and who may have each of them next.
// The one thing to know: an idle block is either free in the order of one stream, whose work may still use it, or for
// everybody, when nothing holds it any more. The second is told by the ends of Allocations; nothing is waited for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hpu/memory_pool.h"
#include "hpu/status.h"

namespace hpu {

class Allocation;
class BufferState;
class CaptureState;
class DeviceState;
class StreamState;

/// Any thread may call anything. No other lock is taken under its own.
class MemoryPoolState : public std::enable_shared_from_this<MemoryPoolState> {
 public:
  /// The pool is known to the device's memory, which may ask for what it does not use. Errors: kInvalidArgument.
  static StatusOr<std::shared_ptr<MemoryPoolState>> create(DeviceState& device, MemoryPoolOptions options);
  /// Whoever has the pool keeps the device: handles (handleOf) and allocations do.
  MemoryPoolState(DeviceState& device, MemoryPoolOptions options);
  ~MemoryPoolState();
  MemoryPoolState(const MemoryPoolState&) = delete;
  MemoryPoolState& operator=(const MemoryPoolState&) = delete;

  /// What a MemoryPool has: the pool, and the device with it.
  static std::shared_ptr<MemoryPoolState> handleOf(std::shared_ptr<DeviceState> device,
                                                   std::shared_ptr<MemoryPoolState> pool);

  const DeviceState& device() const { return device_; }
  const std::string& label() const { return options_.label; }

  /// As MemoryPool::allocate and free; the stream and the buffer are of this device.
  StatusOr<std::shared_ptr<BufferState>> allocate(int64_t bytes, const std::shared_ptr<StreamState>& stream);
  Status free(Buffer buffer, const std::shared_ptr<StreamState>& stream);
  int64_t trim(int64_t keepBytes);
  MemoryPoolInfo info() const;
  void resetPeaks();

  /// The program has let go of the last handle of the buffer at this address.
  void handlesGone(uint64_t address);
  /// Nothing holds an Allocation at this address any more.
  void useEnded(uint64_t address);

  /// Of a block, for a request: classes of an eighth of a power of two, so that at most that much is wasted.
  static int64_t rounded(int64_t bytes);
  /// The largest block that a request of so many (rounded) bytes takes while there is other memory.
  static int64_t largestFor(int64_t bytes);

 private:
  /// In whose order memory is freed and used again: a stream's, or that of a stream in a capture.
  struct Order {
    std::weak_ptr<StreamState> stream;
    std::weak_ptr<CaptureState> capture;
    bool operator<(const Order& other) const;
    bool sameCapture(const Order& other) const;
    bool inCapture() const { return !sameCapture(Order()); }
  };
  struct Block {
    int64_t bytes = 0;
    int uses = 0;          ///< Allocations that work or handles hold; of earlier buffers, too.
    bool live = false;     ///< The program has handles of the buffer.
    bool freed = false;    ///< free() was called for it.
    bool orderly = false;  ///< `order` counts: its stream may have the block next.
    uint64_t epoch = 0;    ///< The pool's when the buffer was allocated.
    Order allocated;       ///< Where the buffer was allocated.
    Order order;
  };
  using Blocks = std::map<uint64_t, Block>;
  using BySize = std::set<std::pair<int64_t, uint64_t>>;
  struct Piece {
    uint64_t address = 0;
    int64_t bytes = 0;
  };

  Blocks::iterator take(int64_t bytes, int64_t largest, const Order& order);
  void enlist(Blocks::iterator block);
  void unlist(Blocks::iterator block);
  void occupy(Blocks::iterator block, const Order& order);
  void noticeReset() noexcept;
  Status makeRoom(int64_t bytes, std::vector<Piece>& unused);
  StatusOr<uint64_t> reserve(int64_t bytes, bool wait, const Order& order);
  std::vector<Piece> surplus(int64_t keepBytes);
  int64_t giveBack(const std::vector<Piece>& pieces);
  StatusOr<uint64_t> find(int64_t bytes, const Order& order);

  DeviceState& device_;
  const MemoryPoolOptions options_;

  mutable std::mutex mutex_;         // Guards everything below.
  Blocks blocks_;                    ///< By address.
  BySize done_;                      ///< Idle blocks that nothing holds.
  std::map<Order, BySize> ordered_;  ///< Idle blocks, those that nothing holds among them, by who freed them.
  int64_t idleBytes_ = 0;            ///< Of blocks without a live buffer.
  uint64_t epoch_ = 0;               ///< DeviceMemory::resets() as it was last seen.
  MemoryPoolInfo info_;
};

/// Gives a buffer back to its pool; `pool`: which must be this one (null: any). Errors: as MemoryPool::free, whose text
/// begins with `call`.
Status freeToPool(Buffer buffer, const std::shared_ptr<StreamState>& stream, const MemoryPoolState* pool,
                  std::string_view call);

}  // namespace hpu
