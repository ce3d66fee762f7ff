// SPDX-License-Identifier: Apache-2.0
// Heart: the thread of a process that tells the peers of its ranks that they live and advance, and
// its ranks that a peer's process has ended.
// The one thing to know: it sleeps in the kernel until a process ends; only ranks with a progress
// source, and peers whose end the kernel does not tell, make it look around a few times a second.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/transport/shm/Process.h"
#include "collectives/transport/shm/Segment.h"
#include "runtime/node/PeerMemory.h"

namespace hpu::collectives::shm {

/// A rank of this process, as the heart knows it.
struct Pulse {
  std::shared_ptr<Segment> segment;
  int rank = 0;
  struct Peer {
    int rank = 0;
    ProcessCard process;
    std::shared_ptr<node::PeerMemory> memory;  ///< May be null.
  };
  std::vector<Peer> others;  ///< The ranks of other processes.

  std::mutex mutex;  ///< Guards the rest; held while the source is asked.
  std::function<uint64_t()> source;
  uint64_t last = 0;
};

/// Any thread may call anything.
class Heart {
 public:
  static Heart& instance();
  /// Watches the peers of `pulse`, until remove. A peer that is gone is marked at once. Errors:
  /// kResourceExhausted.
  Status add(const std::shared_ptr<Pulse>& pulse);
  void remove(const std::shared_ptr<Pulse>& pulse);
  /// Has a source that wants to be asked, or none any more.
  void setSource(Pulse& pulse, std::function<uint64_t()> source);

 private:
  struct State;
  Heart();
  const std::unique_ptr<State> state_;
};

}  // namespace hpu::collectives::shm
