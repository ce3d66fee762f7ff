// SPDX-License-Identifier: Apache-2.0
// Ports: where those who move data between devices (collectives) say what the devices' links have carried, so that
// node::query, hpu-smi and libhlml show it.
// The one thing to know: it is told once for a piece of work that has ended well, with the totals that are known
// beforehand; nothing is counted message by message.
//
//   node::LinkTraffic links[node::kLinks];
//   links[3].sent = {.messages = 1, .packets = 2, .payloadBytes = 5000, .bytes = 5200, .busyPs = 40000};
//   ports::add(0, links);
#pragma once

#include <cstdint>

#include "hpu/node.h"

namespace hpu::ports {

/// `device`: the index of a device that this process owns (its counters begin with its acquisition). Any thread.
HPU_API void add(int device, const node::LinkTraffic (&links)[node::kLinks]);
/// So many more (fewer) communicators of several nodes have a rank on the device. Any thread.
HPU_API void changeRailUsers(int device, int32_t change);
/// Where what the network of this process has met is asked for, by NetworkCounter, into `counters`; on a thread of the
/// runtime, and never in a forked child of the process that said so. The last one counts.
HPU_API void setNetworkSource(void (*source)(uint64_t (&counters)[node::kNumNetworkCounters]));

}  // namespace hpu::ports
