// SPDX-License-Identifier: Apache-2.0
// Drawing: a picture of an operation: the fabric, the steps of some ranks over time, and how busy the ports were.
// The one thing to know: a file needs nothing from outside, and its numbers are in it as JSON (the element with the id
// "openhpu-data"), so that other programs can read what is drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/Json.h"
#include "tools/hccl-sim/Simulation.h"

namespace hpu::tools {

struct DrawnStep {
  int32_t rank = 0, step = 0, peer = -1;
  std::string what;  ///< "send", "receive", "copy", "reduce".
  bool leavesNode = false;
  int64_t bytes = 0, startPs = 0, endPs = 0;
};
struct DrawnPort {
  std::string name;
  int64_t busyPs = 0, bytes = 0, firstPs = 0, lastPs = 0, waitedPs = 0, alike = 1;
};
struct DrawnNode {
  int32_t node = 0, leaf = 0, ranks = 0;
  std::string remark;  ///< What differs from other nodes.
};
struct Drawing {
  std::string title;
  int64_t timePs = 0, lowerBoundPs = 0;
  std::string fabric;
  int32_t nodes = 0, devicesPerNode = 0, rails = 0, nodesPerLeaf = 0;
  double oversubscription = 1;
  std::vector<DrawnNode> drawnNodes;  ///< At most eight.
  std::vector<DrawnStep> steps;       ///< By rank, then start; at most kMostDrawnSteps.
  int64_t stepsLeftOff = 0;
  std::vector<DrawnPort> ports;  ///< The busiest, at most 24.
};
inline constexpr size_t kMostDrawnSteps = 20000;

/// Of the spans and ports that the result has.
Drawing drawingOf(const SimResult& result, std::string title);
Json drawingJson(const Drawing& drawing);
std::string drawingSvg(const Drawing& drawing);
/// The same picture in a page, with the ports as a table.
std::string drawingHtml(const Drawing& drawing);

}  // namespace hpu::tools
