// SPDX-License-Identifier: Apache-2.0
// What is data comes from src/arch. What was chosen or fitted stands here, once for all targets;
// docs/collectives.md has the figures. The two published rows that it was fitted to are of Gaudi 3
// (docs.habana.ai, Collectives Performance): all-reduce of 256 MiB of f32 on 8 devices at 512.957
// GB/s, all-gather of 16 MiB a rank at 509.189 GB/s.
#include "collectives/topology/LinkModel.h"

#include <algorithm>
#include <cmath>

#include "arch/LinkTiming.h"
#include "arch/NetworkDesc.h"
#include "arch/TargetDesc.h"
#include "collectives/topology/Traffic.h"

namespace hpu::collectives {
namespace {

// The constants of ours: the value, the interval in which the truth is believed to be, and why.
struct Constant {
  const char* name;
  double value, low, high;
  const char* source;
};
constexpr Constant kStart = {
    "start_us", arch::kLinkStartUs, 0.2, 10,
    "chosen, within the 2.3 and 2.7 us that the two rows of Gaudi 3 leave an operation after the headers: the stream's "
    "command reaches the NICs' queues. Up to 10: users report 10 to 13 us for an exchange of two ranks of Gaudi 2 and "
    "about 16 us for an all-gather of 10 KB among four; what the host's launch has of that is not known"};
constexpr Constant kMessage = {
    "message_us", arch::kLinkMessageUs, 0.8, 6,
    "chosen: nothing is published of small messages on Gaudi; a one-way write between neighbours and the signal after "
    "it take 1 to 2 us with usual RDMA. Up to 6: with start_us up to 10 that covers what users report (16 us)"};
constexpr Constant kMessageIssue = {"message_issue_us", arch::kLinkMessageIssueUs, 0.005, 0.1,
                                    "chosen: NICs begin 50 to 200 million messages a second; nothing is published of "
                                    "Gaudi's"};
constexpr Constant kPacketsPerAck = {
    "packets_per_ack", arch::kPacketsPerAck, 1, 64,
    "fitted to the two rows of Gaudi 3: of 1, 2, 4, 8 ... the one nearest to both. Acknowledgements are charged to the "
    "direction of the data, because collectives send both ways"};
constexpr double kCopyStartLow = 0.1, kCopyStartHigh = 2;
constexpr const char* kCopyStartSource =
    "src/arch: 0.3 us was the least observed for a copy on Gaudi 2; taken for reductions and for all targets";

int64_t ps(const Constant& us) {
  return std::llround(us.value * 1e6);
}

LinkModel make(Target target) {
  const arch::NetworkDesc& network = arch::networkDesc(target);
  return meshModel(target, network.devices, network.bytesPerNsPerPeer(), 0);
}

int64_t roundUpPs(double ns) {
  return static_cast<int64_t>(std::ceil(ns * 1000));
}

}  // namespace

int64_t LinkModel::linkPs(int64_t bytes) const {
  return messageIssuePs + arch::wirePs(linkFraming(*this).of(bytes).bytes, linkBytesPerNs);
}

int64_t LinkModel::reducePs(int64_t bytes) const {
  return stepPs + roundUpPs(static_cast<double>(bytes) / reduceBytesPerNs);
}

int64_t LinkModel::copyPs(int64_t bytes) const {
  return stepPs + roundUpPs(static_cast<double>(bytes) / copyBytesPerNs);
}

LinkModel meshModel(Target target, int32_t devices, double linkBytesPerNs, double otherBytesPerNs) {
  const arch::NetworkDesc& network = arch::networkDesc(target);
  const arch::TargetDesc& device = arch::targetDesc(target);
  LinkModel m;
  m.target = target;
  m.linkBytesPerNs = linkBytesPerNs;
  m.packetBytes = network.payloadBytes;
  setPacketsPerAck(m, static_cast<int64_t>(kPacketsPerAck.value));
  m.messageOverheadBytes = network.messageHeaderBytes;
  m.startPs = ps(kStart);
  m.messagePs = ps(kMessage);
  m.messageIssuePs = ps(kMessageIssue);
  // Copies and reductions run at what the NICs leave of the memory when all are busy both ways.
  const double nics = 2 * ((devices - 1) * linkBytesPerNs + otherBytesPerNs);
  m.copyBytesPerNs = m.reduceBytesPerNs = std::max(0.0, device.hbmBytesPerNs * device.hbmEfficiency - nics);
  m.stepPs = device.dmaLaunchNs * 1000;
  return m;
}

void setPacketsPerAck(LinkModel& model, int64_t packets) {
  const arch::NetworkDesc& network = arch::networkDesc(model.target);
  model.packetsPerAck = std::max<int64_t>(1, packets);
  model.packetOverheadBytes = network.packetHeaderBytes + network.ackBytes / model.packetsPerAck;
}

std::vector<ModelConstant> meshConstants(const LinkModel& model) {
  const auto us = [](int64_t ps) { return static_cast<double>(ps) / 1e6; };
  const auto make = [](const Constant& c, double value) {
    return ModelConstant{c.name, value, std::min(c.low, value), std::max(c.high, value), c.source};
  };
  return {make(kStart, us(model.startPs)),
          make(kMessage, us(model.messagePs)),
          make(kMessageIssue, us(model.messageIssuePs)),
          make(kPacketsPerAck, static_cast<double>(model.packetsPerAck)),
          {"copy_start_us", us(model.stepPs), std::min(kCopyStartLow, us(model.stepPs)),
           std::max(kCopyStartHigh, us(model.stepPs)), kCopyStartSource}};
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
