// SPDX-License-Identifier: Apache-2.0
// RoceNetwork: links over RoCE v2 queue pairs (collectives/roce). Ranks meet over TCP, tell each other their queue
// pairs there, and keep that connection to hear at once when a process has ended; all frames and data take the queue
// pair: frames as SEND, data as WRITE into the window's memory, whose key nobody else knows.
#pragma once

#include <memory>
#include <string>

#include "collectives/roce/udp/Endpoint.h"
#include "collectives/roce/udp/Faults.h"
#include "collectives/transport/net/Network.h"

namespace hpu::collectives::net {

struct RoceOptions {
  uint32_t pathMtu = 0;  ///< 256 to 4096; 0: the largest that the interfaces of both ends take.
  /// A pcap file of all that this process sends and receives, "%p" in its name is the process's id; empty: none.
  std::string capture;
  roce::FaultOptions faults;  ///< Of what arrives; for tests.
  /// A peer whose process lives, but of which no packet has come for so long though one was awaited, is given up.
  int64_t silenceMs = 13'000;
  int64_t firstPsn = -1;  ///< Of each link of this end, for tests; < 0: random ones.
};

/// Of this process, local address and options: the same object as long as somebody has it. Errors: as tcpNetwork, and
/// of the options.
StatusOr<std::shared_ptr<Network>> roceNetwork(const Address& local, const RoceOptions& options);
/// What all networks of this process have counted so far. Any thread.
roce::Endpoint::Counters roceCounters();

}  // namespace hpu::collectives::net
