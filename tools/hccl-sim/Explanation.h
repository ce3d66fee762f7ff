// SPDX-License-Identifier: Apache-2.0
// Explanation: why an operation takes as long as it does: its busiest port, where the time beyond the bound goes, and
// what the rank that is done last did along its critical chain.
// The one thing to know: the parts of a port's account add up to the operation's time exactly, and so do those of the
// chain.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/Json.h"
#include "tools/hccl-sim/Simulation.h"

namespace hpu::tools {

/// One part of the time, in the order of the account.
struct TimePart {
  std::string name;   ///< Of JSON: "bound", "beyond_bound_bytes", "headers", "before", "idle", "after" ...
  std::string words;  ///< For people.
  int64_t ps = 0;
};

struct Explanation {
  /// The busiest ports, most first; of links, rails and uplinks only (no engines), at most eight. Those of equal use
  /// are one, with their number.
  std::vector<collectives::PortUse> ports;
  /// Of the first of them: the bound, and what is lost.
  std::vector<TimePart> account;
  /// Of the last rank: messages in the node, between nodes, copies and reductions, waiting; the most first.
  std::vector<TimePart> chain;
};
/// The result was simulated with wantPorts and wantLastSpans.
Explanation explain(const SimResult& result);
/// The wire's rate; 0 of engines.
double portBytesPerNs(const collectives::Fabric& fabric, const collectives::PortUse& port);

/// Lines and tables for people, in `width` columns (0: any number).
std::vector<std::string> explanationText(const SimResult& result, const Explanation& explanation, int width);
Json explanationJson(const SimResult& result, const Explanation& explanation);
/// The constants that the times rest on; `width` as above.
std::vector<std::string> constantsText(const collectives::Fabric& fabric, int width);
Json constantsJson(const collectives::Fabric& fabric);

}  // namespace hpu::tools
