// SPDX-License-Identifier: Apache-2.0
// Traffic: what a message is on the wire: packets, and bytes with their headers. Times on links follow from it, and
// what ports count.
#pragma once

#include <cstdint>

#include "hpu/node.h"

namespace hpu::collectives {

/// How messages are cut into packets.
struct Framing {
  int64_t packetBytes = 1;          ///< Payload of a full packet.
  int64_t packetOverheadBytes = 0;  ///< Headers, and the acknowledgements' share.
  int64_t messageOverheadBytes = 0;

  /// A message of so many bytes; it took the link for `busyPs`.
  node::PortTraffic of(int64_t bytes, int64_t busyPs = 0) const {
    // A signal without data is a packet, too.
    const int64_t packets = bytes > 0 ? (bytes + packetBytes - 1) / packetBytes : 1;
    return {1, packets, bytes, bytes + packets * packetOverheadBytes + messageOverheadBytes, busyPs};
  }
};

/// Of a LinkModel or of the rails of a Fabric.
template <typename Model>
Framing linkFraming(const Model& model) {
  return {model.packetBytes, model.packetOverheadBytes, model.messageOverheadBytes};
}
template <typename Model>
Framing railFraming(const Model& model) {
  return {model.railPacketBytes, model.railPacketOverheadBytes, model.railMessageOverheadBytes};
}

}  // namespace hpu::collectives
