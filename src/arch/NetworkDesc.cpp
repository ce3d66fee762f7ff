// SPDX-License-Identifier: Apache-2.0
// Sources: ports and rates: docs.habana.ai, Network Configuration, and the connectivity tables of
// HabanaAI/HCL (three ports of each device lead out of HLS-1, HLS-2 and HLS-3). Payload of a packet: HCL's default
// MTU_SIZE, 8 KB. Headers: RoCE v2 over IPv4 (InfiniBand architecture, annex A17).
#include "arch/NetworkDesc.h"

namespace hpu::arch {
namespace {

constexpr int32_t kPreambleAndGap = 20, kEthernet = 18, kIpv4 = 20, kUdp = 8;
constexpr int32_t kBth = 12, kIcrc = 4, kReth = 16, kAeth = 4;
constexpr int32_t kPacket = kPreambleAndGap + kEthernet + kIpv4 + kUdp + kBth + kIcrc;

constexpr NetworkDesc make(Target target, int32_t ports, int32_t portsPerPeer, int32_t scaleOutPorts, double gbit) {
  return {target, 8, ports, portsPerPeer, scaleOutPorts, gbit, 8192, kPacket, kReth, kPacket + kAeth};
}
constexpr NetworkDesc kGaudi1 = make(Target::kGaudi1, 10, 1, 3, 100);
constexpr NetworkDesc kGaudi2 = make(Target::kGaudi2, 24, 3, 3, 100);
constexpr NetworkDesc kGaudi3 = make(Target::kGaudi3, 24, 3, 3, 200);

}  // namespace

const NetworkDesc& networkDesc(Target target) {
  switch (target) {
    case Target::kGaudi1:
      return kGaudi1;
    case Target::kGaudi2:
      return kGaudi2;
    case Target::kGaudi3:
      return kGaudi3;
  }
  return kGaudi2;
}

}  // namespace hpu::arch
