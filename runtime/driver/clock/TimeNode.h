// SPDX-License-Identifier: Apache-2.0
// TimeNode: the device time of one piece of work, and what it takes for the program to have seen it.
// The one thing to know: whether work is seen is a matter of the program's calls alone, never of what the device has
// done.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/driver/Driver.h"
#include "runtime/driver/clock/EngineTimeline.h"

namespace hpu::driver {

/// How far the program has seen a queue get: what it looked at, and what that depended on.
struct SeenQueue {
  std::atomic<Ticket> upTo{0};
};
/// Of work that depends on external work which the program had not seen the end of when it
/// submitted the work, or is such work: its own queue, and how far it reaches into others.
struct Dependence {
  std::shared_ptr<SeenQueue> queue;
  std::vector<std::pair<std::shared_ptr<SeenQueue>, Ticket>> others;
};

/// The device time of one piece of work; shared by those who wait for it.
struct TimeNode {
  Ticket ticket = 0;  ///< Of the item, which for a signal is the launch.
  QueueId queue = 0;
  std::shared_ptr<const Dependence> dependence;  ///< Null: none.
  bool resolved = false;
  Picoseconds start = 0, end = 0;
  /// The end as it can be foreseen when the work is submitted, from what the program has submitted so far:
  /// engines and ports that others use are not counted, nor peers that come late. Written before it is shared.
  Picoseconds foreseen = 0;
};

/// The program has not seen the end of what the node stands for.
bool unseen(const TimeNode& node);
/// The program looks at the node's time, so all it depends on is over.
void see(const TimeNode& node);

}  // namespace hpu::driver
