// SPDX-License-Identifier: Apache-2.0
// SegmentWork: SharedWork over the segment's counters and the ranks' mapped memories.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/transport/SharedWork.h"
#include "collectives/transport/shm/Segment.h"
#include "runtime/node/PeerMemory.h"

namespace hpu::collectives::shm {

/// What SharedWork::keepWhileWorking has kept in this process: lets go of what nobody uses any more.
/// Called now and then.
void letGoOfKept();

class SegmentWork final : public SharedWork {
 public:
  /// All ranks have a memory.
  SegmentWork(std::shared_ptr<Segment> segment, int rank, std::vector<std::shared_ptr<node::PeerMemory>> memories);

  /// Before the record of `sequence` is published.
  void clear(uint64_t sequence);

  std::byte* memory(int rank, uint64_t deviceAddress, int64_t bytes) const override;
  void prepare(int rank, const std::byte* data, int64_t bytes) const override {
    memories_[static_cast<size_t>(rank)]->prepare(data, bytes);
  }
  int cpus() const override;
  uint32_t take(int rank, uint64_t sequence) override;
  void finish(int rank, uint64_t sequence, bool done) override;
  uint32_t finished(int rank, uint64_t sequence) const override;
  bool works(int rank, uint64_t sequence) const override;
  bool allPresent() const override;
  void ringFirst(int count) override;
  void keepWhileWorking(uint64_t sequence, std::shared_ptr<const void> memory) override;

 private:
  WorkSlot& slot(int rank, uint64_t sequence) const { return segment_->block(rank).work[sequence % kRecords]; }
  bool inChild() const { return generation_ != forkGeneration(); }
  const std::shared_ptr<Segment> segment_;
  const int rank_;
  const std::vector<std::shared_ptr<node::PeerMemory>> memories_;
  const uint32_t generation_ = forkGeneration();
  mutable std::atomic<int> cpus_{0};  // 0: not counted yet.
};

}  // namespace hpu::collectives::shm
