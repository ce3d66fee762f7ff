// SPDX-License-Identifier: Apache-2.0
// Ports: what an operation takes of the ports of its rank's device, and what the device's clock has answered.
// The one thing to know: ports are numbered by devices, not ranks: ranks of one device share them; and all messages
// with other nodes go by one port, the device's rail (kRailPort).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/executor/Executor.h"
#include "collectives/scaleout/PlanClock.h"
#include "collectives/schedule/Timing.h"
#include "collectives/topology/LinkModel.h"
#include "hpu/external_work.h"
#include "hpu/node.h"

namespace hpu::collectives {

/// Where a rank's messages go. What it names lives longer.
struct RankLinks {
  int rank = 0;
  const Placement& placement;
  const LinkModel& links;            ///< Of a node.
  const Cluster* cluster = nullptr;  ///< Null: one node.
};

/// Of the rank's device: the port towards a peer's device of its node, or its rail; and that from there.
uint32_t portOf(const RankLinks& own, int peer, bool send);
/// "send to 3", "recv from 5, rail 1": of this rank's messages in traces, with the rail of its node that they take.
std::string messageName(const RankLinks& own, bool send, int peer);
/// How a message goes; nothing: by a link of full rate.
std::optional<TransferLeg::Way> wayOf(const RankLinks& own, int peer, bool send, int64_t bytes);
/// How long it takes that port.
int64_t busyPs(const RankLinks& own, int peer, bool send, int64_t bytes);

/// Of an operation: how long its ports are taken, and what it carries over its device's links when it is done.
struct OperationPorts : ExternalPorts {
  node::LinkTraffic links[node::kLinks];
};

/// Of a collective.
OperationPorts portsOf(const OperationTimer& timer, const RankLinks& own);
/// Of transfers that go on together.
OperationPorts portsOf(const std::vector<Transfer>& transfers, const RankLinks& own);
/// `readyPs`: by ExternalPorts::uses.
void setPorts(CollectiveOperation& operation, const ExternalPorts& ports, const std::vector<int64_t>& readyPs);

}  // namespace hpu::collectives
