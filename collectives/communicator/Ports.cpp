// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Ports.h"

namespace hpu::collectives {
namespace {

void addUse(ExternalPorts& ports, uint32_t port, int64_t busyPs) {
  for (ExternalPorts::Use& use : ports.uses) {
    if (use.port != port) continue;
    use.busyPs += busyPs;  // Ranks of one device.
    return;
  }
  ports.uses.push_back({port, busyPs});
}

}  // namespace

uint32_t portOf(int32_t device, bool send) {
  return static_cast<uint32_t>(device) * 2 + (send ? 0 : 1);
}

ExternalPorts portsOf(const ScheduleTimer& timer, int rank, const std::vector<int32_t>& devices,
                      const LinkModel& links) {
  ExternalPorts ports;
  const std::shared_ptr<const RankUse> use = timer.use(rank);
  for (const RankUse::Link& link : use->links)
    addUse(ports, portOf(devices[static_cast<size_t>(link.peer)], link.send), link.busyPs);
  ports.startPs = links.startPs;
  ports.tailPs = links.messagePs;
  ports.leastPs = use->leastPs;
  return ports;
}

ExternalPorts portsOf(const std::vector<Transfer>& transfers, int rank, const std::vector<int32_t>& devices,
                      const LinkModel& links) {
  ExternalPorts ports;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == rank) continue;
    addUse(ports, portOf(devices[static_cast<size_t>(transfer.peer)], transfer.send),
           links.linkPs(transfer.count * elementSize(transfer.type)));
  }
  ports.startPs = links.startPs;
  ports.tailPs = links.messagePs;
  return ports;
}

void setPorts(CollectiveOperation& operation, const ExternalPorts& ports, const std::vector<int64_t>& readyPs) {
  for (size_t i = 0; i < readyPs.size(); ++i) {
    const uint32_t port = ports.uses[i].port;
    operation.portsPs[port % 2][port / 2] = readyPs[i];
    operation.portsBusy |= readyPs[i] != 0;
  }
}

}  // namespace hpu::collectives
