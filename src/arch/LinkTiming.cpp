// SPDX-License-Identifier: Apache-2.0
#include "arch/LinkTiming.h"

#include <cmath>

#include "arch/NetworkDesc.h"

namespace hpu::arch {
namespace {

int64_t psOfUs(double us) {
  return std::llround(us * 1e6);
}

}  // namespace

int64_t wirePs(int64_t wireBytes, double bytesPerNs) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(wireBytes) / bytesPerNs * 1000));
}

int64_t LinkTiming::busyPs(int64_t bytes) const {
  return messageIssuePs + wirePs(wireBytes(bytes), bytesPerNs);
}

LinkTiming linkTiming(Target target) {
  const NetworkDesc& network = networkDesc(target);
  LinkTiming timing;
  timing.bytesPerNs = network.bytesPerNsPerPeer();
  timing.packetBytes = network.payloadBytes;
  timing.packetOverheadBytes = network.packetHeaderBytes + network.ackBytes / kPacketsPerAck;
  timing.messageOverheadBytes = network.messageHeaderBytes;
  timing.startPs = psOfUs(kLinkStartUs);
  timing.messagePs = psOfUs(kLinkMessageUs);
  timing.messageIssuePs = psOfUs(kLinkMessageIssueUs);
  return timing;
}

}  // namespace hpu::arch
