// SPDX-License-Identifier: Apache-2.0
// Fabric: the network of a cluster as data: nodes of devices that are meshed, rails from each node to switches, leaf
// switches and their uplinks. The one thing to know: everything that takes time on the way of a message is a *port*
// here (a link of the mesh, a rail's two directions, a leaf's uplink and downlink of a rail); a port serves one message
// after another, whatever operation, stream or communicator it is of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/topology/LinkModel.h"
#include "hpu/status.h"
#include "hpu/target.h"

namespace hpu::collectives {

/// What differs from the rule at one node.
struct NodeException {
  int32_t node = 0;
  double rate = 1;                 ///< Of the node's rails and mesh links: a factor in (0, 1].
  std::vector<int32_t> railsDown;  ///< Rails (by index) that carry nothing; devices of one use the next that is up.
  std::vector<int32_t> devices;    ///< Slots that are there; empty: all.
  bool operator==(const NodeException&) const = default;
};

struct Fabric {
  std::string name;
  Target target = Target::kGaudi3;
  int32_t nodes = 1;           ///< Domains in which every two devices have a link of their own.
  int32_t devicesPerNode = 8;  ///< Slots of a node.
  /// Of a rail each way, bytes a nanosecond on the wire.
  double railBytesPerNs = 0;
  /// Of a node. Device slot d uses rail d * rails / devicesPerNode: as many rails as devices is one each (Gaudi's own
  /// ports); fewer are host NICs that devices share.
  int32_t rails = 8;
  int32_t nodesPerLeaf = 0;     ///< 0: one switch for all nodes, without uplinks.
  double oversubscription = 1;  ///< A leaf's rails down over its uplinks' rate; 1: none.
  /// From the last byte on the wire of the sender to the receiver's next step, besides the time on the wire.
  int64_t railMessagePs = 0;  ///< Under one leaf.
  int64_t uplinkPs = 0;       ///< More of it when the message crosses leaves.
  int64_t railIssuePs = 0;    ///< A rail is taken this long by a message besides its bytes.
  int64_t railPacketBytes = 1, railPacketOverheadBytes = 0, railMessageOverheadBytes = 0;
  LinkModel mesh;  ///< Of the links in a node; its start, copies and reductions are the devices'.
  std::vector<NodeException> exceptions;  ///< By node, ascending, each once.
  /// All that were chosen, fitted or measured; setConstant changes one, and the fields above that follow from it.
  std::vector<ModelConstant> constants;

  /// Null unless the node differs.
  const NodeException* exceptionOf(int32_t node) const;
  double rateOf(int32_t node) const;
  /// Which rail serves a slot; -1 when the node has none that is up.
  int32_t railOf(int32_t node, int32_t device) const;
  int32_t leafOf(int32_t node) const { return nodesPerLeaf > 0 ? node / nodesPerLeaf : 0; }
  /// How long a message of so many bytes takes a rail of full rate; rounded up.
  int64_t railPs(int64_t bytes) const;
  /// The same of a node's rail; and a link of its mesh.
  int64_t railPs(int32_t node, int64_t bytes) const;
  int64_t linkPs(int32_t node, int64_t bytes) const;
  /// What large messages get of a rail.
  double railPayloadBytesPerNs() const;
  bool operator==(const Fabric&) const = default;
};

/// How long it takes at a rate of that factor (NodeException::rate); rounded up.
int64_t slowedPs(int64_t fullPs, double rate);

/// The fabric of `nodes` standard nodes of a target (HLS-1, HLS-2, HLS-3): eight meshed devices, a rail each.
Fabric standardFabric(Target target, int32_t nodes);
/// The same with other numbers and rates; standardFabric is the one with those of src/arch. Rates in bytes a
/// nanosecond.
Fabric uniformFabric(Target target, int32_t nodes, int32_t devicesPerNode, double linkBytesPerNs, int32_t rails,
                     double railBytesPerNs);

/// Sets a constant, and what follows from it:
///     start_us, message_us, message_issue_us, packets_per_ack (rails too), copy_start_us, copy_gb_per_s,
///     reduce_gb_per_s   the mesh's fields
///     switch_us         one switch with its cables: railMessagePs has one, uplinkPs two more
///     rail_nic_us       a rail's message takes this more than a mesh's (host NICs); railMessagePs
///     rail_issue_us     railIssuePs
/// Errors: kInvalidArgument (no such constant, listing them; out of range; a value outside of its interval).
Status setConstant(Fabric& fabric, ModelConstant constant);
/// Null when the fabric has none of that name.
const ModelConstant* findConstant(const Fabric& fabric, std::string_view name);

constexpr int32_t kMaxFabricDevices = 1 << 20;  ///< Nodes x devices of a node.
constexpr int32_t kMaxDevicesPerNode = 64;
// Bounds of what a fabric may say, so that times of messages up to 2^40 bytes fit into 63 bits of picoseconds.
constexpr double kLeastLinkRate = 0.1, kMostLinkRate = 1e6;  ///< Bytes a nanosecond.
constexpr double kLeastNodeRate = 0.01;                      ///< NodeException::rate.
constexpr double kMostOversubscription = 100;
constexpr int64_t kLeastPacketBytes = 256, kMostPacketBytes = 1 << 24, kMostOverheadBytes = 1024;
/// Errors: kInvalidArgument, naming the field and what it may be. Every fabric that is read from a file was checked.
Status checkFabric(const Fabric& fabric);

}  // namespace hpu::collectives
