// SPDX-License-Identifier: Apache-2.0
// TimedWork: what each kind of work asks of a device's time, and what an observer is told when it has it.
// The one thing to know: costs are fixed when work is submitted; the clock only decides when it runs. What depends on
// the kind is told apart by visitWork (runtime/driver/WorkVisitor.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "hpu/external_work.h"
#include "recipe/Recipe.h"
#include "runtime/driver/Driver.h"
#include "runtime/driver/clock/LaunchParts.h"
#include "runtime/driver/clock/LaunchTimeline.h"
#include "runtime/driver/clock/TimeNode.h"

namespace hpu::driver {

/// What work occupies besides the engines of programs: each direction of the host link.
enum class Resource : uint8_t { kMme, kTpc, kDma, kNic, kHostToDevice, kDeviceToHost };
inline constexpr int kNumResources = 6;

class DeviceClock;
struct ExternalTime;

/// What work on the device moves over the host link, because it lies in host memory: all that is read before the work
/// begins, all that is written behind its end, each on the link's direction. Costs of 0: nothing.
struct LinkUse {
  int64_t readBytes = 0, writtenBytes = 0;
  perfmodel::Cost read, written;
  std::vector<uint32_t> outputs;  ///< Of a launch: the outputs that lie there.
};
/// Whether an output of a launch lies in host memory: it is written when all that goes over the link is.
inline bool isOutputOf(const LinkUse* link, uint32_t output) {
  return link && std::find(link->outputs.begin(), link->outputs.end(), output) != link->outputs.end();
}
/// A transfer or fill of `bytes`: cost.alone on one resource.
struct TimedTransfer {
  Resource resource = Resource::kDma;
  perfmodel::Cost cost;
  int64_t bytes = 0;
  std::string_view what;                     ///< "copy to device"; a literal.
  std::shared_ptr<const LinkUse> link = {};  ///< Null: none.
};
struct TimedProgram {
  std::shared_ptr<const LaunchTimeline> timeline;
  std::shared_ptr<const recipe::Program> program;  ///< For the observer; null: it is not told of the launch.
  /// signals[i]: the output whose last write the item's ticket plus 1 + i stands for.
  std::vector<uint32_t> signals;
  std::shared_ptr<const LinkUse> link = {};  ///< Null: none.
  /// What the program's free dimensions are, "seq = 17"; for the observer. Null: it has none.
  std::shared_ptr<const std::string> sizes = {};
  bool isInstance = false;  ///< It has a timeline of its own, as each of its sizes does.
  /// Of a program with parts whose iterations data decides: the launch has a time when it is told how many there were.
  /// Null: it has one from the start.
  std::shared_ptr<ExternalTime> outcome = {};
};
/// Ends when `node` does; `clock` is the node's own when it is another device's.
struct TimedWait {
  std::shared_ptr<const TimeNode> node;
  std::shared_ptr<DeviceClock> clock;
};
struct TimedMarker {};
/// Takes from its arrival to the end that it is told (DeviceClock::end); and ports from when it is submitted.
struct TimedExternal {
  ExternalPorts ports;
};
using TimedWork = std::variant<TimedTransfer, TimedProgram, TimedWait, TimedMarker, TimedExternal>;

/// What is known about the time of external work, or of a launch whose outcome decides it; its fields belong to the
/// clock.
struct ExternalTime {
  Ticket ticket = 0;
  QueueId queue = 0;
  bool arrived = false;  ///< `arrival` is known.
  bool ended = false, skipped = false;
  Picoseconds arrival = 0, end = 0;
  std::vector<ExternalSpan> spans;
  std::vector<uint64_t> iterations;  ///< Of a launch: as LaunchOutcome's.
};

struct ClockItem {
  Ticket ticket = 0;
  QueueId queue = 0;
  int32_t priority = 0;
  Picoseconds earliest = 0;  ///< Starts no earlier.
  TimedWork work;
  std::string label;  ///< Empty for a launch: its program's name.
};

/// What an observer (the trace) gets for each resolved transfer and launch.
struct ResolvedWork {
  const ClockItem& item;
  const std::string& queueName;
  Picoseconds ready = 0, start = 0, end = 0;
  /// Of a launch, or of one iteration of a part of it (`part`). A launch of parts as a whole has none.
  const LaunchPlacement* placement = nullptr;
  const PartRun* part = nullptr;
  const ExternalTime* external = nullptr;  ///< Of external work.
  const LinkUse* link = nullptr;           ///< Of work on host memory, with when each part of it begins.
  Picoseconds readStart = 0, writeStart = 0;
};

}  // namespace hpu::driver
