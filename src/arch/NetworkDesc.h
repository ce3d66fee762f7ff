// SPDX-License-Identifier: Apache-2.0
// How the devices of a node of eight are connected, as data: ports, rates, packets.
// The one thing to know: every pair of devices has links of its own (full mesh); rates are of the
// wire, before headers.
#pragma once

#include <cstdint>

#include "hpu/target.h"

namespace hpu::arch {

struct NetworkDesc {
  Target target = Target::kGaudi2;
  int32_t devices = 8;  ///< Of a node.
  int32_t ports = 0;    ///< Of a device, all together.
  int32_t portsPerPeer = 0;
  int32_t scaleOutPorts = 0;  ///< Of a device, to the switches between nodes.
  double gbitPerPort = 0;
  int32_t payloadBytes = 0;        ///< Of a full packet.
  int32_t packetHeaderBytes = 0;   ///< Everything else that a data packet takes of the wire.
  int32_t messageHeaderBytes = 0;  ///< More of a message's first packet.
  int32_t ackBytes = 0;            ///< An acknowledgement on the wire.
  /// One direction between two devices, bytes a nanosecond (= GB/s).
  double bytesPerNsPerPeer() const { return portsPerPeer * gbitPerPort / 8; }
  /// One direction between a device and the switches, bytes a nanosecond.
  double scaleOutBytesPerNs() const { return scaleOutPorts * gbitPerPort / 8; }
};

/// Thread-safe; lives for ever.
const NetworkDesc& networkDesc(Target target);

}  // namespace hpu::arch
