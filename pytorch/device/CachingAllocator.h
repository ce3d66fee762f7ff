// SPDX-License-Identifier: Apache-2.0
// CachingAllocator: blocks of a device's HBM for tensors, kept when they are freed.
// The one thing to know: a block belongs to the stream that was current when it was allocated; freed, it goes to the
// next allocation of that stream at once, though work may still use it, because what comes next on the stream comes
// behind. Another stream that uses a block says so (recordStream), and the block then waits for it before it is used
// again.
#pragma once

#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/memory.h"
#include "hpu_torch/api.h"

namespace hpu_torch {

class StreamTable;
class CachingAllocator;
struct Segment;

/// A piece of a segment. Neighbours that are free are one block.
struct Block {
  Segment* segment = nullptr;
  uint64_t address = 0;  ///< Of the device.
  int64_t bytes = 0;     ///< A multiple of kBlockAlignment.
  int64_t asked = 0;     ///< Bytes that the tensor asked for; 0 when free.
  c10::StreamId stream = 0;
  enum class State : uint8_t {
    kUsed,     ///< A tensor has it.
    kWaiting,  ///< Freed; other streams are still at work on it.
    kFree,     ///< In the list of free blocks.
  } state = State::kFree;
  Block *before = nullptr, *after = nullptr;  ///< Neighbours in the segment.
  std::vector<c10::StreamId> users;           ///< Other streams that were given it.
  c10::SmallVector<int64_t, 5> sizes;         ///< Of the tensor that it was taken for, in the order of memory.
};

/// What was taken from the device in one piece.
struct Segment {
  CachingAllocator* owner = nullptr;
  hpu::Buffer buffer;
  bool isSmall = false;
  Block* first = nullptr;
  std::list<Segment*>::iterator place;
};

inline constexpr int64_t kBlockAlignment = 256;

/// In bytes, unless it says otherwise. The names that Gaudi's memory_stats has are in pytorch/python.
struct MemoryStats {
  int64_t limit = 0;                               ///< HBM of the device.
  int64_t used = 0, usedPeak = 0;                  ///< By tensors.
  int64_t reserved = 0, reservedPeak = 0;          ///< Taken from the device.
  int64_t allocations = 0, frees = 0;              ///< Calls.
  int64_t largest = 0;                             ///< Of one allocation.
  int64_t deviceAllocations = 0, deviceFrees = 0;  ///< Calls to the device.
  int64_t activeBlocks = 0, activeSegments = 0;    ///< Numbers of them.
  int64_t waiting = 0;                             ///< Freed, and still used by other streams.
  int64_t retries = 0, failures = 0;  ///< Times that the cache was given back for an allocation; that failed.
};

struct BlockInfo {
  uint64_t address;
  int64_t bytes, asked;
  c10::StreamId stream;
  Block::State state;
};
struct SegmentInfo {
  uint64_t address;
  int64_t bytes;
  bool isSmall;
  std::vector<BlockInfo> blocks;
};

/// Any thread may call anything.
class HPU_TORCH_API CachingAllocator {
 public:
  CachingAllocator(hpu::Device device, StreamTable& streams, c10::DeviceIndex index);

  /// At least `bytes` (> 0), for work on `stream`. When the device is full the cache is given back and it is tried
  /// again; throws c10::OutOfMemoryError, with what was asked for, what is free and what is cached.
  Block* allocate(int64_t bytes, c10::StreamId stream);
  /// Never throws: what a failed stream leaves unknown is kept.
  void free(Block* block) noexcept;
  /// `stream` is given work on the block's memory: the block is not used again before that is done.
  void recordStream(Block* block, c10::StreamId stream);
  /// Gives everything back to the device that no tensor is in; how many bytes.
  int64_t emptyCache();

  MemoryStats stats() const;
  void resetPeaks();
  std::vector<SegmentInfo> snapshot() const;

 private:
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const {
      if (a->stream != b->stream) return a->stream < b->stream;
      if (a->bytes != b->bytes) return a->bytes < b->bytes;
      return a->address < b->address;
    }
  };
  using FreeBlocks = std::set<Block*, Smaller>;
  FreeBlocks& freeBlocks(const Segment& segment) { return segment.isSmall ? smallFree_ : largeFree_; }

  // With the lock.
  Block* takeFree(int64_t bytes, c10::StreamId stream);
  Block* use(Block* block, int64_t bytes);
  void giveBack(Block* block);
  void addSegment(hpu::Buffer buffer, bool isSmall, c10::StreamId stream);
  void freeDone(bool wait);
  int64_t releaseSegments();
  // Without it.
  [[noreturn]] void outOfMemory(int64_t bytes, const hpu::Status& status);

  struct Waiting {
    Block* block;
    std::vector<hpu::Event> events;
  };

  hpu::Device device_;
  StreamTable& streams_;
  const c10::DeviceIndex index_;
  mutable std::mutex
      mutex_;  ///< Guards what follows. Not held while the device allocates: its hooks ask for the cache.
  FreeBlocks smallFree_, largeFree_;
  std::list<Segment*> segments_;
  std::list<Waiting> waiting_;
  MemoryStats stats_;
};

}  // namespace hpu_torch
