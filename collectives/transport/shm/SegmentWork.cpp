// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/SegmentWork.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Cpus.h"

namespace hpu::collectives::shm {
namespace {

/// Memory that a rank may yet write into.
struct Kept {
  std::shared_ptr<Segment> segment;
  int rank = 0;
  uint64_t sequence = 0;
  std::shared_ptr<const void> memory;

  bool inUse() const {
    for (int peer = 0; peer < segment->ranks(); ++peer) {
      const RankBlock& block = segment->block(peer);
      // A rank that ended in an orderly way has left its part first; an aborting one may be within it.
      const auto state = static_cast<RankState>(block.state.load(std::memory_order_seq_cst));
      if (peer != rank && state != RankState::kDead && state != RankState::kLeft &&
          block.working.load(std::memory_order_seq_cst) == sequence)
        return true;
    }
    return false;
  }
};

struct AllKept {
  std::mutex mutex;
  std::vector<Kept> list;
};
AllKept& allKept() {
  static auto& kept = *new AllKept;  // Threads may end after statics.
  static constexpr base::ForkHandlers handlers = {[] { allKept().mutex.lock(); }, [] { allKept().mutex.unlock(); },
                                                  [] {
                                                    // It is the parent's.
                                                    base::abandon(allKept().list);
                                                    allKept().mutex.unlock();
                                                  }};
  [[maybe_unused]] static const bool registered = base::atFork(base::ForkRank::kKeptMemory, handlers);
  return kept;
}

}  // namespace

void letGoOfKept() {
  std::vector<Kept> ended;  // Let go without the lock: memory's owners may go with it.
  std::lock_guard lock(allKept().mutex);
  auto& list = allKept().list;
  auto used = std::partition(list.begin(), list.end(), [](const Kept& one) { return one.inUse(); });
  std::move(used, list.end(), std::back_inserter(ended));
  list.erase(used, list.end());
}

SegmentWork::SegmentWork(std::shared_ptr<Segment> segment, int rank,
                         std::vector<std::shared_ptr<node::PeerMemory>> memories)
    : segment_(std::move(segment)), rank_(rank), memories_(std::move(memories)) {
  const base::CpuSet mine = base::cpusOfThread();
  for (size_t i = 0; i < mine.size(); ++i) segment_->block(rank_).cpus[i].store(mine[i], std::memory_order_relaxed);
}

int SegmentWork::cpus() const {
  // Asked for each operation, and does not change once all ranks are there.
  if (int known = cpus_.load(std::memory_order_relaxed); known > 0) return known;
  int count = 0;
  for (size_t i = 0; i < base::CpuSet().size(); ++i) {
    uint64_t any = 0;
    for (int rank = 0; rank < segment_->ranks(); ++rank)
      any |= segment_->block(rank).cpus[i].load(std::memory_order_relaxed);
    count += std::popcount(any);
  }
  count = std::max(count, 1);
  cpus_.store(count, std::memory_order_relaxed);
  return count;
}

void SegmentWork::clear(uint64_t sequence) {
  WorkSlot& own = slot(rank_, sequence);
  own.taken.store(0, std::memory_order_relaxed);
  own.finished.store(0, std::memory_order_relaxed);
}

std::byte* SegmentWork::memory(int rank, uint64_t deviceAddress, int64_t bytes) const {
  if (rank < 0 || rank >= segment_->ranks() || inChild()) return nullptr;
  return memories_[static_cast<size_t>(rank)]->at(deviceAddress, bytes);
}

uint32_t SegmentWork::take(int rank, uint64_t sequence) {
  // Said first: who gives up after that knows of it.
  segment_->block(rank_).working.store(sequence, std::memory_order_seq_cst);
  return slot(rank, sequence).taken.fetch_add(1, std::memory_order_relaxed);
}

void SegmentWork::finish(int rank, uint64_t sequence, bool done) {
  RankBlock& own = segment_->block(rank_);
  if (done) {
    slot(rank, sequence).finished.fetch_add(1, std::memory_order_seq_cst);
    own.activity.fetch_add(1, std::memory_order_relaxed);
  }
  own.working.store(0, std::memory_order_release);
}

uint32_t SegmentWork::finished(int rank, uint64_t sequence) const {
  return slot(rank, sequence).finished.load(std::memory_order_seq_cst);
}

bool SegmentWork::works(int rank, uint64_t sequence) const {
  return segment_->block(rank).working.load(std::memory_order_seq_cst) == sequence;
}

bool SegmentWork::allPresent() const {
  for (int rank = 0; rank < segment_->ranks(); ++rank)
    if (segment_->block(rank).state.load(std::memory_order_seq_cst) != static_cast<uint32_t>(RankState::kPresent))
      return false;
  return true;
}

void SegmentWork::ringFirst(int count) {
  if (inChild()) return;
  for (int rank = 0; rank < std::min(count, segment_->ranks()); ++rank)
    if (rank != rank_) segment_->ring(rank);
}

void SegmentWork::keepWhileWorking(uint64_t sequence, std::shared_ptr<const void> memory) {
  if (!memory) return;
  Kept kept{segment_, rank_, sequence, std::move(memory)};
  // A part takes a fraction of a millisecond, unless its rank does not run.
  for (int i = 0; i < 20 && kept.inUse(); ++i) std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (!kept.inUse()) return;
  std::lock_guard lock(allKept().mutex);
  allKept().list.push_back(std::move(kept));
}

}  // namespace hpu::collectives::shm
