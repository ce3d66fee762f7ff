// SPDX-License-Identifier: Apache-2.0
// LinkModel: what connects the devices of a node, and what moving and reducing data costs on them.
// The one thing to know: rates are data of the target (src/arch); the few constants that were
// fitted name what they were fitted to, and are the same for all targets.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/topology/ModelConstant.h"
#include "hpu/target.h"

namespace hpu::collectives {

struct LinkModel {
  Target target = Target::kGaudi2;
  /// One direction between two devices of the node, bytes a nanosecond on the wire (ports x rate).
  double linkBytesPerNs = 0;
  int64_t packetBytes = 1;           ///< Payload of a full packet.
  int64_t packetsPerAck = 1;         ///< Set by setPacketsPerAck.
  int64_t packetOverheadBytes = 0;   ///< Headers, and the acknowledgements' share.
  int64_t messageOverheadBytes = 0;  ///< Once a message.
  int64_t startPs = 0;               ///< From a rank's arrival to its first step.
  int64_t messagePs = 0;             ///< From a message's last byte sent to the receiver's next step.
  int64_t messageIssuePs = 0;        ///< The link is taken this long beside the bytes.
  double reduceBytesPerNs = 0;       ///< Of all bytes that a reduction reads and writes.
  double copyBytesPerNs = 0;         ///< Of all bytes that a copy on the device reads and writes.
  int64_t stepPs = 0;                ///< Start of a copy or reduction.

  /// What large messages get of the link.
  double payloadBytesPerNs() const {
    return linkBytesPerNs * static_cast<double>(packetBytes) / static_cast<double>(packetBytes + packetOverheadBytes);
  }
  /// What a link carries while a message is on its way to the receiver's next step.
  int64_t hopBytes() const { return static_cast<int64_t>(static_cast<double>(messagePs) / 1000 * payloadBytesPerNs()); }
  /// How long a message of so many bytes takes the link; rounded up.
  int64_t linkPs(int64_t bytes) const;
  /// How long the device's memory is busy with a reduction (copy) that moves so many bytes.
  int64_t reducePs(int64_t bytes) const;
  int64_t copyPs(int64_t bytes) const;
  bool operator==(const LinkModel&) const = default;
};

/// The node of eight devices of a target, full mesh. Thread-safe; lives for ever.
const LinkModel& linkModel(Target target);
/// Any number of meshed devices of a target. `otherBytesPerNs`: each way of a device's other ports, which take of its
/// memory what copies and reductions do not get, as the links do.
LinkModel meshModel(Target target, int32_t devices, double linkBytesPerNs, double otherBytesPerNs);
/// What was chosen or fitted, with the values that the model has.
std::vector<ModelConstant> meshConstants(const LinkModel& model);
/// So many packets for each acknowledgement; at least 1.
void setPacketsPerAck(LinkModel& model, int64_t packets);

}  // namespace hpu::collectives
