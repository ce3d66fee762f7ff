// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Spread.h"

#include <sched.h>

#include <algorithm>
#include <array>

namespace hpu::collectives::shm {
namespace {

// Between two moves of a rank: longer each time that it was drawn back soon.
constexpr std::chrono::milliseconds kLeastPause{1}, kMostPause{1000};
constexpr int kMostCpus = 1024;

}  // namespace

bool Spread::settle() {
  const int cpu = ::sched_getcpu();
  if (cpu < 0 || cpu >= kMostCpus) return false;
  RankBlock& own = segment_->block(rank_);
  own.cpu.store(static_cast<uint32_t>(cpu) + 1, std::memory_order_relaxed);
  int here = 0;
  bool turn = true;  // One of those on a core moves at a time: the last.
  for (int peer = 0; peer < segment_->ranks(); ++peer) {
    const uint32_t theirs = segment_->block(peer).cpu.load(std::memory_order_relaxed);
    if (peer == rank_ || theirs != static_cast<uint32_t>(cpu) + 1) continue;
    ++here;
    turn &= peer < rank_;
  }
  if (here == 0) return true;
  if (!turn) return false;
  std::unique_lock lock(mutex_, std::try_to_lock);
  const auto now = Clock::now();
  if (!lock || now < next_) return false;
  std::array<uint16_t, kMostCpus> peers{};
  for (int peer = 0; peer < segment_->ranks(); ++peer) {
    const uint32_t theirs = segment_->block(peer).cpu.load(std::memory_order_relaxed);
    if (peer != rank_ && theirs > 0 && theirs <= kMostCpus) ++peers[theirs - 1];
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  int best = cpu;
  for (int other = 0; other < kMostCpus; ++other)
    if (CPU_ISSET(other, &allowed) && peers[static_cast<size_t>(other)] < peers[static_cast<size_t>(best)])
      best = other;
  pause_ = std::clamp<Clock::duration>(now - next_ < pause_ ? 2 * pause_ : pause_ / 2, kLeastPause, kMostPause);
  next_ = now + pause_;
  if (best == cpu) return false;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(best, &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) return false;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
  own.cpu.store(static_cast<uint32_t>(best) + 1, std::memory_order_relaxed);
  return peers[static_cast<size_t>(best)] == 0;
}

}  // namespace hpu::collectives::shm
