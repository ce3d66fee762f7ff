// SPDX-License-Identifier: Apache-2.0
// PortTimes: from when on the ports of the ranks' devices are an operation's, as its timer wants to know it.
// The one thing to know: only what is later than the first message could begin is kept; mostly that is nothing, and
// costs a look at each rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/FunctionRef.h"
#include "collectives/schedule/Timing.h"
#include "collectives/topology/Placement.h"
#include "collectives/transport/Transport.h"

namespace hpu::collectives {

/// Of a rank's device, outwards and inwards, by port (Transport.h).
using PortTimes = std::array<std::array<int64_t, kMostPorts>, 2>;

/// `portsOf`: of a rank; null: none is busy. Into `state`, whose devices stay and whose memory is used again: of links
/// the later of what both ends say. `startPs`: from a rank's arrival to its first message.
void setLinks(const Placement& placement, base::FunctionRef<const PortTimes*(size_t rank)> portsOf,
              std::span<const int64_t> arrivalPs, int64_t startPs, LinkState& state);

}  // namespace hpu::collectives
