// SPDX-License-Identifier: Apache-2.0
// What is data comes from src/arch. What was chosen or fitted stands here, once for all targets;
// docs/collectives.md has the figures. The two published rows that it was fitted to are of Gaudi 3
// (docs.habana.ai, Collectives Performance): all-reduce of 256 MiB of f32 on 8 devices at 512.957
// GB/s, all-gather of 16 MiB a rank at 509.189 GB/s.
#include "collectives/topology/LinkModel.h"

#include <cmath>

#include "arch/NetworkDesc.h"
#include "arch/TargetDesc.h"

namespace hpu::collectives {
namespace {

// Fitted: of 1, 2, 4, 8 ... packets for each acknowledgement, the one that is nearest to both rows.
// Acknowledgements are charged to the direction of the data, because collectives send both ways.
constexpr int64_t kPacketsPerAck = 1;

// Chosen, within what the two rows leave after the headers (2.3 and 2.7 us an operation): nothing
// is published of small messages on Gaudi.
constexpr int64_t kStartPs = 500'000;      // The stream's command reaches the NICs' queues.
constexpr int64_t kMessagePs = 1'500'000;  // One-way write between neighbours and the signal after
                                           // it: 1 to 2 us is usual for RDMA.
// NICs begin 50 to 200 million messages a second.
constexpr int64_t kMessageIssuePs = 10'000;

LinkModel make(Target target) {
  const arch::NetworkDesc& network = arch::networkDesc(target);
  const arch::TargetDesc& device = arch::targetDesc(target);
  LinkModel m;
  m.target = target;
  m.linkBytesPerNs = network.bytesPerNsPerPeer();
  m.packetBytes = network.payloadBytes;
  m.packetOverheadBytes = network.packetHeaderBytes + network.ackBytes / kPacketsPerAck;
  m.messageOverheadBytes = network.messageHeaderBytes;
  m.startPs = kStartPs;
  m.messagePs = kMessagePs;
  m.messageIssuePs = kMessageIssuePs;
  // Copies and reductions run at what the NICs leave of the memory when all are busy both ways.
  double nics = 2 * (network.devices - 1) * m.linkBytesPerNs;
  m.copyBytesPerNs = m.reduceBytesPerNs = device.hbmBytesPerNs * device.hbmEfficiency - nics;
  m.stepPs = device.dmaLaunchNs * 1000;
  return m;
}

int64_t roundUpPs(double ns) {
  return static_cast<int64_t>(std::ceil(ns * 1000));
}

}  // namespace

int64_t LinkModel::linkPs(int64_t bytes) const {
  // A signal without data is a packet, too.
  int64_t packets = bytes > 0 ? (bytes + packetBytes - 1) / packetBytes : 1;
  double wire = static_cast<double>(bytes + packets * packetOverheadBytes + messageOverheadBytes);
  return messageIssuePs + roundUpPs(wire / linkBytesPerNs);
}

int64_t LinkModel::reducePs(int64_t bytes) const {
  return stepPs + roundUpPs(static_cast<double>(bytes) / reduceBytesPerNs);
}

int64_t LinkModel::copyPs(int64_t bytes) const {
  return stepPs + roundUpPs(static_cast<double>(bytes) / copyBytesPerNs);
}

const LinkModel& linkModel(Target target) {
  static const LinkModel gaudi1 = make(Target::kGaudi1);
  static const LinkModel gaudi2 = make(Target::kGaudi2);
  static const LinkModel gaudi3 = make(Target::kGaudi3);
  switch (target) {
    case Target::kGaudi1:
      return gaudi1;
    case Target::kGaudi2:
      return gaudi2;
    case Target::kGaudi3:
      return gaudi3;
  }
  return gaudi2;
}

}  // namespace hpu::collectives
