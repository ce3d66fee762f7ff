// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Ports.h"

#include <algorithm>

#include "arch/PortNumber.h"
#include "base/FloatEnvironment.h"
#include "base/Format.h"
#include "collectives/topology/Traffic.h"

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

static_assert(kRailPort == node::kRail && kMostPorts == node::kLinks);
/// What goes by a port (portOf).
node::PortTraffic& carriedBy(OperationPorts& use, uint32_t port) {
  node::LinkTraffic& link = use.links[arch::linkOfPort(port)];
  return arch::isSendingPort(port) ? link.sent : link.received;
}

}  // namespace

uint32_t portOf(const RankLinks& own, int peer, bool send) {
  const bool isNear = own.placement.sameNode(own.rank, peer);
  return arch::portNumber(isNear ? own.placement.device[static_cast<size_t>(peer)] : kRailPort, send);
}

std::string messageName(const RankLinks& own, bool send, int peer) {
  std::string name = base::strCat(send ? "send to " : "recv from ", peer);
  if (!own.cluster || own.placement.sameNode(own.rank, peer)) return name;
  const Place here = own.cluster->map.place(own.rank);
  return base::strCat(name, ", rail ", own.cluster->fabric.railOf(here.node, here.device));
}

std::optional<TransferLeg::Way> wayOf(const RankLinks& own, int peer, bool send, int64_t bytes) {
  if (!own.cluster) return std::nullopt;
  base::FloatScope floats;
  const Fabric& fabric = own.cluster->fabric;
  const int32_t here = own.cluster->map.place(own.rank).node, there = own.cluster->map.place(peer).node;
  if (here == there) {
    if (fabric.rateOf(here) == 1) return std::nullopt;
    const int64_t linkPs = fabric.linkPs(here, bytes);
    return TransferLeg::Way{false, linkPs, linkPs, own.links.messagePs};
  }
  TransferLeg::Way way;
  way.rail = true;
  way.busyPs = fabric.railPs(here, bytes);
  way.throughPs = std::max(way.busyPs, fabric.railPs(there, bytes));
  way.messagePs = fabric.railMessagePs + (fabric.leafOf(here) != fabric.leafOf(there) ? fabric.uplinkPs : 0);
  return way;
}

int64_t busyPs(const RankLinks& own, int peer, bool send, int64_t bytes) {
  base::FloatScope floats;
  const std::optional<TransferLeg::Way> way = wayOf(own, peer, send, bytes);
  return way ? way->busyPs : own.links.linkPs(bytes);
}

namespace {

/// From the end of a port's use, at least.
int64_t tailPs(const RankLinks& own) {
  return own.cluster ? std::min(own.links.messagePs, own.cluster->fabric.railMessagePs) : own.links.messagePs;
}

}  // namespace

OperationPorts portsOf(const OperationTimer& timer, const RankLinks& own) {
  OperationPorts ports;
  const std::shared_ptr<const RankUse> use = timer.use(own.rank);
  for (const RankUse::Link& link : use->links) {
    const uint32_t port = portOf(own, link.peer, link.send);
    addUse(ports, port, link.busyPs);
    carriedBy(ports, port) += link.traffic;
  }
  ports.startPs = own.links.startPs;
  ports.tailPs = tailPs(own);
  ports.leastPs = use->leastPs;
  return ports;
}

OperationPorts portsOf(const std::vector<Transfer>& transfers, const RankLinks& own) {
  OperationPorts ports;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer == own.rank) continue;
    const uint32_t port = portOf(own, transfer.peer, transfer.send);
    const int64_t bytes = transfer.count * elementSize(transfer.type);
    const int64_t takesPs = busyPs(own, transfer.peer, transfer.send, bytes);
    addUse(ports, port, takesPs);
    const Framing framing =
        own.placement.sameNode(own.rank, transfer.peer) ? linkFraming(own.links) : railFraming(own.cluster->fabric);
    carriedBy(ports, port) += framing.of(bytes, takesPs);
  }
  ports.startPs = own.links.startPs;
  ports.tailPs = tailPs(own);
  return ports;
}

void setPorts(CollectiveOperation& operation, const ExternalPorts& ports, const std::vector<int64_t>& readyPs) {
  for (size_t i = 0; i < readyPs.size(); ++i) {
    const uint32_t port = ports.uses[i].port;
    operation.portsPs[arch::isSendingPort(port) ? 0 : 1][arch::linkOfPort(port)] = readyPs[i];
    operation.portsBusy |= readyPs[i] != 0;
  }
}

}  // namespace hpu::collectives
