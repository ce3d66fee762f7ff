// SPDX-License-Identifier: Apache-2.0
// NodeView: what hpu-smi shows, gathered from two samples of the node; the formats are functions of it.
// The one thing to know: it holds everything, also the time of day, so that formats are pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/node.h"
#include "hpu/status.h"
#include "hpu/telemetry.h"

namespace hpu::smi {

struct DeviceView {
  node::DeviceStatus status;
  telemetry::Readings readings;
  telemetry::Clocks clocks;

  const telemetry::Board& board() const { return telemetry::board(status.target); }
  bool free() const { return status.owner.pid == 0; }
  /// The owner has answered at some time, so that memory and counts are its own.
  bool known() const { return free() || status.updatedAtNs != 0; }
  /// Whether a port's link is up is known: of one that leaves the box its owner says so.
  bool tellsLink(int port) const { return known() || !board().isExternal(port); }
  /// There are readings: neither lost nor unknown.
  bool readable() const { return known() && !status.lost; }
  /// "free", "in use", "lost", or "no answer" of an owner that is stopped.
  std::string_view state() const;
  uint64_t faults(node::Fault fault) const { return status.faults[static_cast<int>(fault)]; }
  /// The owner, if any, and the processes that map the device's memory.
  std::vector<const node::ProcessStatus*> processes() const;
};

struct NodeView {
  std::string identity, version, driverVersion;
  std::string timestamp;  ///< "Sat Nov 21 22:23:45 UTC 2026".
  size_t attached = 0;    ///< Devices of the node, shown or not.
  std::vector<DeviceView> devices;
};

/// `before` may be the same as `after`; readings then show what a window without simulated time shows.
/// Errors: kInvalidArgument (a clock profile that this version does not know).
StatusOr<NodeView> makeView(const node::NodeStatus& before, const node::NodeStatus& after, int64_t realtimeNs);

/// Keeps the devices that `selector` names: PCI addresses (the domain may be left out), indices, UUIDs or
/// serial numbers, separated by commas. Errors: kNotFound, listing the node's devices.
Status selectDevices(NodeView& view, std::string_view selector);

/// "Sat Nov 21 22:23:45 UTC 2026".
std::string timestampText(int64_t realtimeNs);
int64_t toMiB(int64_t bytes);
/// A share of 1 in whole percent.
int64_t toPercent(double share);

}  // namespace hpu::smi
