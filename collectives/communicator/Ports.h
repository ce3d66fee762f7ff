// SPDX-License-Identifier: Apache-2.0
// Ports: what an operation takes of the ports of its rank's device, and what the device's clock has answered.
// The one thing to know: ports are numbered by devices, not ranks: ranks of one device share them.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/executor/Executor.h"
#include "collectives/schedule/Timing.h"
#include "collectives/topology/LinkModel.h"
#include "hpu/external_work.h"

namespace hpu::collectives {

/// Of a device of the node: the port towards each of them, and that from it.
uint32_t portOf(int32_t device, bool send);
/// Of a collective. `devices`: by rank, the device that it is on.
ExternalPorts portsOf(const ScheduleTimer& timer, int rank, const std::vector<int32_t>& devices,
                      const LinkModel& links);
/// Of transfers that go on together.
ExternalPorts portsOf(const std::vector<Transfer>& transfers, int rank, const std::vector<int32_t>& devices,
                      const LinkModel& links);
/// `readyPs`: by ExternalPorts::uses.
void setPorts(CollectiveOperation& operation, const ExternalPorts& ports, const std::vector<int64_t>& readyPs);

}  // namespace hpu::collectives
