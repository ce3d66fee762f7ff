// SPDX-License-Identifier: Apache-2.0
// Atomics and no locks: a forked child may open devices whatever threads of its parent were doing.
#include "runtime/ports/Ports.h"

#include <atomic>

#include "base/AtFork.h"
#include "hpu/ports.h"

namespace hpu::ports {
namespace {

using Source = void (*)(uint64_t (&counters)[node::kNumNetworkCounters]);

struct Counters {
  std::atomic<int64_t> messages{0}, packets{0}, payloadBytes{0}, bytes{0}, busyPs{0};

  void clear() {
    for (auto* count : {&messages, &packets, &payloadBytes, &bytes, &busyPs})
      count->store(0, std::memory_order_relaxed);
  }
  void add(const node::PortTraffic& traffic) {
    if (traffic.messages == 0) return;
    messages.fetch_add(traffic.messages, std::memory_order_relaxed);
    packets.fetch_add(traffic.packets, std::memory_order_relaxed);
    payloadBytes.fetch_add(traffic.payloadBytes, std::memory_order_relaxed);
    bytes.fetch_add(traffic.bytes, std::memory_order_relaxed);
    busyPs.fetch_add(traffic.busyPs, std::memory_order_relaxed);
  }
  node::PortTraffic read() const {
    return {messages.load(std::memory_order_relaxed), packets.load(std::memory_order_relaxed),
            payloadBytes.load(std::memory_order_relaxed), bytes.load(std::memory_order_relaxed),
            busyPs.load(std::memory_order_relaxed)};
  }
};

struct Device {
  struct {
    Counters sent, received;
  } links[node::kLinks];
  std::atomic<int32_t> railUsers{0};
};

Device gDevices[node::kDevices];
std::atomic<Source> gSource{nullptr};
std::atomic<uint64_t> gSourceOf{0};  // The process that has set it.

bool isThere(int device) {
  return device >= 0 && device < node::kDevices;
}

}  // namespace

void add(int device, const node::LinkTraffic (&links)[node::kLinks]) {
  if (!isThere(device)) return;
  for (int link = 0; link < node::kLinks; ++link) {
    gDevices[device].links[link].sent.add(links[link].sent);
    gDevices[device].links[link].received.add(links[link].received);
  }
}

void changeRailUsers(int device, int32_t change) {
  if (isThere(device)) gDevices[device].railUsers.fetch_add(change, std::memory_order_relaxed);
}

void setNetworkSource(Source source) {
  gSourceOf.store(base::processGeneration(), std::memory_order_relaxed);
  gSource.store(source, std::memory_order_release);
}

void clear(int device) {
  if (!isThere(device)) return;
  for (auto& link : gDevices[device].links) {
    link.sent.clear();
    link.received.clear();
  }
  gDevices[device].railUsers.store(0, std::memory_order_relaxed);
}

void report(int device, node::DeviceStatus& status) {
  if (!isThere(device)) return;
  for (int link = 0; link < node::kLinks; ++link)
    status.links[link] = {gDevices[device].links[link].sent.read(), gDevices[device].links[link].received.read()};
  status.railUsers = gDevices[device].railUsers.load(std::memory_order_relaxed);
  if (Source source = gSource.load(std::memory_order_acquire); source && gSourceOf.load() == base::processGeneration())
    source(status.network);
}

}  // namespace hpu::ports
