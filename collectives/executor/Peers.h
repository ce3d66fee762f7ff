// SPDX-License-Identifier: Apache-2.0
// Peers: what the parts of an executor share: the transport, how far this rank is, when each peer
// was last seen to advance, and when work should pause.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/transport/Transport.h"
#include "hpu/status.h"

namespace hpu::collectives {

using Clock = std::chrono::steady_clock;

/// What one push may do before it looks up again.
class Pace {
 public:
  virtual ~Pace() = default;
  /// Asked between blocks of work: whether to leave the rest for later.
  virtual bool pause() = 0;
};

/// Used by one thread at a time, but for progress().
class Peers {
 public:
  explicit Peers(Transport& transport);
  Transport& transport() { return transport_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// This rank did something.
  void advanced() { progress_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  /// `peer` did something that this rank saw.
  void sawPeer(int peer) { seen_[static_cast<size_t>(peer)].fresh = true; }

  /// Takes the time; looks at the heartbeats when they were not looked at for some milliseconds.
  void look();
  Clock::time_point now() const { return now_; }
  /// How long `peer` has done nothing, at most since `since`. While this rank did not look, it was
  /// busy, or its process stood still or had no core, and it does not know: of that only a moment
  /// counts.
  int64_t stillMs(int peer, Clock::time_point since) const;
  /// That is as long as `timeoutMs` allows; 0 allows any time.
  bool standsStill(int peer, Clock::time_point since, int64_t timeoutMs) const {
    return timeoutMs > 0 && stillMs(peer, since) >= timeoutMs;
  }

 private:
  struct Seen {
    uint64_t heartbeat = 0;
    Clock::time_point time;
    bool fresh = false;
  };
  Transport& transport_;
  const int rank_, ranks_;
  std::atomic<uint64_t> progress_{0};
  std::vector<Seen> seen_;
  Clock::time_point now_, looked_;
  struct Gap {
    Clock::time_point begin, end;
  };
  std::vector<Gap> gaps_;  ///< The latest long ones between two looks.
};

/// Whether what began then has passed its absolute deadline; 0: it has none.
inline bool pastDeadline(Clock::time_point begun, int64_t deadlineMs, Clock::time_point now) {
  return deadlineMs > 0 && std::chrono::duration_cast<std::chrono::milliseconds>(now - begun).count() >= deadlineMs;
}

/// Moves bytes in blocks; `at` says how far it is. False: paused.
bool copyInBlocks(std::byte* dst, const std::byte* src, int64_t bytes, bool stream, int64_t& at, Peers& peers,
                  Pace& pace);

/// A destination is written around the caches when an operation moves this much on all ranks.
inline constexpr int64_t kStreamBytes = 64 << 20;
/// Work between two looks at the pace.
inline constexpr int64_t kBlockBytes = 1 << 20;

}  // namespace hpu::collectives
