// SPDX-License-Identifier: Apache-2.0
// What a board's ports show of what its device's links have carried. Which cable goes where is ours: boxes differ, and
// so do the modules of one box; the number of ports for each peer and outwards is the boards'.
#include <bit>
#include <iterator>

#include "hpu/telemetry.h"

namespace hpu::telemetry {
namespace {

/// How many of the ports in `mask` come before one.
int placeIn(uint64_t mask, int port) {
  return std::popcount(mask & ((uint64_t{1} << port) - 1));
}

/// Share `place` of `shares` even ones, the first ones with the rest. It never becomes less as the total grows.
uint64_t shareOf(int64_t total, int place, int shares) {
  return static_cast<uint64_t>(total / shares + (place < total % shares ? 1 : 0));
}

void append(std::vector<PortCounter>& counters, const std::string_view (&names)[5], const node::PortTraffic& traffic,
            int place, int shares) {
  counters.push_back({names[0], shareOf(traffic.bytes, place, shares)});
  counters.push_back({names[1], shareOf(traffic.payloadBytes, place, shares)});
  counters.push_back({names[2], shareOf(traffic.packets, place, shares)});
  counters.push_back({names[3], shareOf(traffic.messages, place, shares)});
  counters.push_back({names[4], static_cast<uint64_t>(traffic.busyPs / 1000)});
}

constexpr std::string_view kSent[] = {"tx_bytes", "tx_payload_bytes", "tx_packets", "tx_messages", "tx_busy_ns"};
constexpr std::string_view kReceived[] = {"rx_bytes", "rx_payload_bytes", "rx_packets", "rx_messages", "rx_busy_ns"};
constexpr std::string_view kNetwork[node::kNumNetworkCounters] = {
    "tx_datagrams", "rx_datagrams",     "retransmitted",   "timeouts",  "naks",
    "not_ready",    "missed_responses", "bad_icrc",        "malformed", "strays",
    "duplicates",   "out_of_order",     "congestion_marks"};

}  // namespace

bool linkUp(const node::DeviceStatus& status, int port) {
  const Board& facts = board(status.target);
  return facts.hasPort(port) && !status.lost && (!facts.isExternal(port) || status.railUsers > 0);
}

int portPeer(const node::DeviceStatus& status, int port) {
  const Board& facts = board(status.target);
  if (!facts.hasPort(port) || facts.isExternal(port)) return -1;
  const int other = placeIn(facts.portMask & ~facts.externalPortMask, port) / facts.linksPerPeer();
  if (other >= node::kDevices - 1) return -1;
  return other < status.index ? other : other + 1;
}

std::vector<PortCounter> portCounters(const node::DeviceStatus& status, int port) {
  const Board& facts = board(status.target);
  std::vector<PortCounter> counters;
  if (!facts.hasPort(port)) return counters;
  const bool external = facts.isExternal(port);
  const int peer = portPeer(status, port);
  const int shares = external ? std::popcount(facts.externalPortMask) : facts.linksPerPeer();
  const uint64_t mask = external ? facts.externalPortMask : facts.portMask & ~facts.externalPortMask;
  const int place = placeIn(mask, port) % shares;
  const node::LinkTraffic none;
  const node::LinkTraffic& link = external ? status.links[node::kRail] : peer >= 0 ? status.links[peer] : none;
  append(counters, kSent, link.sent, place, shares);
  append(counters, kReceived, link.received, place, shares);
  for (int i = 0; i < node::kNumNetworkCounters; ++i)
    counters.push_back({kNetwork[i], external ? status.network[i] : 0});
  return counters;
}

std::string_view networkCounterName(node::NetworkCounter counter) {
  const auto index = static_cast<size_t>(counter);
  return index < std::size(kNetwork) ? std::string_view(kNetwork[index]) : "unknown";
}

}  // namespace hpu::telemetry
