// SPDX-License-Identifier: Apache-2.0
// LinkTiming: what one message over the links between two devices of a node costs in device time, and what it is on
// the wire. Rates are data of the target (NetworkDesc.h); what was chosen or fitted is the same for all targets.
// The one thing to know: collectives and copies between devices take it from here, so that both mean the same link.
#pragma once

#include <cstdint>

#include "hpu/target.h"

namespace hpu::arch {

// Chosen or fitted; collectives/topology/LinkModel.cpp says why, and in which interval the truth is believed to be.
inline constexpr double kLinkStartUs = 0.5;          ///< From the arrival of an operation to its first message.
inline constexpr double kLinkMessageUs = 1.5;        ///< From a message's last byte sent to the receiver's next step.
inline constexpr double kLinkMessageIssueUs = 0.01;  ///< The link is taken this long beside the bytes.
inline constexpr int32_t kPacketsPerAck = 1;

struct LinkTiming {
  double bytesPerNs = 0;  ///< One direction between two devices, on the wire.
  int64_t packetBytes = 1;
  int64_t packetOverheadBytes = 0;   ///< Headers, and the acknowledgements' share.
  int64_t messageOverheadBytes = 0;  ///< Once a message.
  int64_t startPs = 0, messagePs = 0, messageIssuePs = 0;

  /// A signal without data is a packet, too.
  int64_t packets(int64_t bytes) const { return bytes > 0 ? (bytes + packetBytes - 1) / packetBytes : 1; }
  int64_t wireBytes(int64_t bytes) const { return bytes + packets(bytes) * packetOverheadBytes + messageOverheadBytes; }
  /// How long a message of so many bytes takes the link; rounded up.
  int64_t busyPs(int64_t bytes) const;
};

/// How long so many bytes take a wire of that rate; rounded up.
int64_t wirePs(int64_t wireBytes, double bytesPerNs);

LinkTiming linkTiming(Target target);

}  // namespace hpu::arch
