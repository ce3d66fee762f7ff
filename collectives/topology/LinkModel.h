// SPDX-License-Identifier: Apache-2.0
// LinkModel: what connects the devices of a node, and what moving and reducing data costs on them.
// The one thing to know: rates are data of the target (src/arch); the constants that were fitted
// name what they were fitted to, and are the same for all targets.
#pragma once

#include <cstdint>

#include "hpu/target.h"

namespace hpu::collectives {

struct LinkModel {
  Target target = Target::kGaudi2;
  /// One direction between two devices of the node, bytes a nanosecond on the wire (ports x rate).
  double linkBytesPerNs = 0;
  double wireEfficiency = 1;  ///< Payload's share of the wire: packet headers.
  int64_t startPs = 0;        ///< From a rank's arrival to its first step.
  int64_t messagePs = 0;  ///< From a message's last byte sent to the receiver's next step: latency.
  int64_t messageIssuePs =
      0;  ///< The sender's link is taken this long beside the bytes, for each message.
  double reduceBytesPerNs = 0;  ///< Of all bytes that a reduction reads and writes.
  double copyBytesPerNs = 0;    ///< Of all bytes that a copy on the device reads and writes.
  int64_t stepPs = 0;           ///< Start of a copy or reduction.
  double payloadBytesPerNs() const { return linkBytesPerNs * wireEfficiency; }
};

/// The node of eight devices of a target, full mesh. Thread-safe; lives for ever.
const LinkModel& linkModel(Target target);

}  // namespace hpu::collectives
