// SPDX-License-Identifier: Apache-2.0
// PlanTimer: what a plan costs on a fabric, from when each rank arrives to when it is done, in integer picoseconds.
// A time from here is a time of our model.
// The one thing to know: ranks that cannot be told apart (same role, arrival and ports, and so their peers, and theirs)
// are simulated once, as a *class*; the result is that of simulating every rank, to the picosecond.
//
// The model. A message between devices of one node takes their link, as in schedule/Timing. Between nodes it takes the
// sender's rail, when both ends are ready, for its bytes; its head arrives at each next port (the leaf's uplink and the
// other leaf's downlink where there are any, then the receiver's rail) and takes it for its bytes there, when that is
// free; it is done when the last one is, and latency has passed. A port takes messages in the order in which they
// become ready for it; those of one time in the order of the steps of the rank that it belongs to (of a shared port:
// of the ranks' places, then steps). A pair's messages stay in their order. Each device does one copy or reduction at a
// time. So no mix of operations puts more on a port than its rate.
// A leaf's uplinks of a rail are nodesPerLeaf / oversubscription links (rounded down, faster by what was rounded): a
// message takes the one that is free first, so that a leaf without oversubscription delays nobody. A message that comes
// from a slower port takes a port for as long as it would at full rate; others may pass it meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/fabric/Fabric.h"
#include "collectives/scaleout/Program.h"
#include "collectives/schedule/Timing.h"

namespace hpu::collectives {

/// One direction of a link, rail or leaf; for explanations.
struct PortUse {
  enum class Kind : uint8_t { kMeshLink, kRailOut, kRailIn, kUplink, kDownlink, kEngine };
  Kind kind = Kind::kMeshLink;
  int32_t node = 0, index = 0;  ///< Of the fabric: a node's rail, link (device * slots + peer's device), engine
                                ///< (device); of a leaf: leaf, rail.
  int64_t busyPs = 0, bytes = 0, messages = 0;  ///< Busy: of a leaf's links of a rail, on the average.
  int64_t firstPs = 0, lastPs = 0;              ///< When it began its first and ended its last one.
  int64_t waitedPs = 0;                         ///< By messages that were ready, for this port.
  int32_t alike = 1;                            ///< How many ports of the cluster are like it (folded).
};
/// "node 3, rail 2 out", "leaf 1, uplinks of rail 2" ...
std::string portText(const Fabric& fabric, const PortUse& port);

/// A message (copy, reduction) on a port.
struct PortInterval {
  PortUse::Kind kind = PortUse::Kind::kMeshLink;
  int32_t node = 0, index = 0;  ///< As in PortUse.
  int32_t lane = 0;             ///< Of uplinks and downlinks.
  int64_t startPs = 0, endPs = 0;
};

struct PlanTiming {
  std::vector<int64_t> endPs;  ///< By rank.
  int64_t classes = 0, events = 0;
  std::vector<PortUse> ports;  ///< Of the representatives, when asked for; by busyPs, largest first.
  /// Begin and end of each step of some ranks, when asked for.
  struct StepSpan {
    int32_t rank = 0, step = 0;
    int64_t startPs = 0, endPs = 0;
  };
  std::vector<StepSpan> spans;
  std::vector<PortInterval> intervals;  ///< Of the representatives, when asked for; in no order.
};

struct PlanTimerOptions {
  bool fold = true;
  bool wantPorts = false;
  bool wantIntervals = false;
  std::vector<int32_t> spansOf;  ///< Ranks whose steps' times are wanted.
};

/// `arrivalPs` by rank, or empty: all at 0. `links`: what else the ranks' links and rails carry, by rank; of a link,
/// what is between two ranks of one node; of a rail that several ranks use, the latest that one of them says. Errors:
/// kInvalidArgument (a map of another fabric; ranks, arrivals and links that differ in number; ranks that share
/// devices), kInternal (a plan that cannot end).
StatusOr<PlanTiming> timePlan(const Plan& plan, const Fabric& fabric, std::span<const int64_t> arrivalPs = {},
                              const PlanTimerOptions& options = {}, const LinkState& links = {});

/// Several operations at a time on one fabric, of any maps (whose ranks are devices): each port serves all of them.
/// Ranks are simulated one by one. Ports and intervals are those of all operations, and are in the first timing only.
struct TimedOperation {
  const Plan* plan = nullptr;
  std::vector<int64_t> arrivalPs;
  LinkState links = {};  ///< As of timePlan.
};
StatusOr<std::vector<PlanTiming>> timePlans(std::span<const TimedOperation> operations, const Fabric& fabric,
                                            const PlanTimerOptions& options = {});

/// The least time that the fabric's rates allow an algorithm that sends over the rails no more than must leave a node:
/// bytes over rates on the wire, without headers and latency; the largest of the mesh's, the rails' and the uplinks'.
/// (An algorithm that sends over idle rails what the mesh could carry may be faster than the mesh's part of it.)
int64_t lowerBoundPs(const Problem& problem, const RankMap& map, const Fabric& fabric);

}  // namespace hpu::collectives
