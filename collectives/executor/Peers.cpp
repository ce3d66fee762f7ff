// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/Peers.h"

#include <algorithm>
#include <cstring>

#include "collectives/reduction/Reduction.h"

namespace hpu::collectives {
namespace {

// A rank that waits looks about twice as often.
constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr size_t kMostGaps = 64;

}  // namespace

Peers::Peers(Transport& transport)
    : transport_(transport),
      rank_(transport.rank()),
      ranks_(transport.ranks()),
      seen_(static_cast<size_t>(transport.ranks())),
      now_(Clock::now()),
      looked_(now_) {
  for (Seen& seen : seen_) seen.time = now_;
  gaps_.reserve(kMostGaps);
}

void Peers::look() {
  constexpr auto kPeriod = std::chrono::milliseconds(5);
  now_ = Clock::now();
  if (now_ - looked_ < kPeriod) return;
  if (now_ - looked_ > kBetweenLooks) {
    if (gaps_.size() == kMostGaps) gaps_.erase(gaps_.begin());
    gaps_.push_back({looked_, now_});
  }
  looked_ = now_;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    Seen& seen = seen_[static_cast<size_t>(peer)];
    const uint64_t heartbeat = transport_.heartbeat(peer);
    if (heartbeat != seen.heartbeat || seen.fresh) seen.time = now_;
    seen.heartbeat = heartbeat;
    seen.fresh = false;
  }
}

int64_t Peers::stillMs(int peer, Clock::time_point since) const {
  const Seen& seen = seen_[static_cast<size_t>(peer)];
  if (seen.fresh) return 0;
  const auto from = std::max(seen.time, since);
  auto still = now_ - from;
  for (const Gap& gap : gaps_) {
    const auto missed = gap.end - std::max(gap.begin, from);
    if (missed > kBetweenLooks) still -= missed - kBetweenLooks;
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(still).count();
}

bool copyInBlocks(std::byte* dst, const std::byte* src, int64_t bytes, bool stream, int64_t& at, Peers& peers,
                  Pace& pace) {
  if (dst == src) return true;  // In place: others may be reading it.
  // Overlapping ranges (a transfer to oneself) are moved at once.
  if (dst < src + bytes && src < dst + bytes && dst != src) {
    std::memmove(dst, src, static_cast<size_t>(bytes));
    at = bytes;
  }
  while (at < bytes) {
    const int64_t block = std::min(kBlockBytes, bytes - at);
    copyBytes(dst + at, src + at, block, stream);
    at += block;
    peers.advanced();
    if (at < bytes && pace.pause()) return false;
  }
  return true;
}

}  // namespace hpu::collectives
