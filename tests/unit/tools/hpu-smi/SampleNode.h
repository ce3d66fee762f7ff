// SPDX-License-Identifier: Apache-2.0
// A made-up node with one device of each kind and state, as two samples.
#pragma once

#include <string>

#include "hpu/node.h"
#include "tools/hpu-smi/NodeView.h"

namespace hpu::smi {

inline node::NodeStatus freeNode(int devices) {
  constexpr const char* kAddresses[] = {"0000:19:00.0", "0000:1a:00.0", "0000:33:00.0", "0000:34:00.0",
                                        "0000:9a:00.0", "0000:9b:00.0", "0000:b3:00.0", "0000:b4:00.0"};
  node::NodeStatus node;
  node.identity = "lab";
  for (int i = 0; i < devices; ++i) {
    node::DeviceStatus device;
    device.index = i;
    device.moduleId = static_cast<uint32_t>((i + 6) % 8);
    device.pciAddress = kAddresses[i];
    device.uuid = "OHPU-SIM0-01234567-0" + std::to_string(i);
    device.serial = "SIM01234567-0" + std::to_string(i);
    device.name = "HL-225";
    device.totalBytes = int64_t{96} << 30;
    node.devices.push_back(std::move(device));
  }
  return node;
}

/// Device 0 is half busy, 1 is shared by two processes and waits, 2 is lost, the owner of 3 never
/// answered, the others are free.
inline void use(node::NodeStatus& before, node::NodeStatus& after) {
  for (node::NodeStatus* node : {&before, &after}) {
    bool later = node == &after;
    node::DeviceStatus& busy = node->devices[0];
    busy.owner = {4321, "train.py", int64_t{2500} << 20, 3};
    busy.usedBytes = int64_t{2500} << 20;
    busy.peakBytes = int64_t{3000} << 20;
    busy.acquiredAtNs = 1'700'000'000'000'000'000;
    busy.updatedAtNs = busy.acquiredAtNs + (later ? 200'000'000 : 100'000'000);
    busy.counters.deviceNs = later ? 3'000'000 : 1'000'000;
    busy.counters.busyNs[static_cast<int>(Engine::kMme)] = later ? 1'500'000 : 500'000;
    busy.counters.busyNs[static_cast<int>(Engine::kTpc)] = later ? 500'000 : 0;
    busy.counters.h2dBytes = later ? 9'000'000 : 1'000'000;
    busy.counters.d2hBytes = later ? 1'000'000 : 0;
    busy.counters.launches = later ? 12 : 4;
    busy.links[1] = {{10, 20, 70'000, 73'520, 2'000'000}, {11, 22, 80'000, 83'872, 2'300'000}};
    busy.links[node::kRail] = {{5, 10, 50'000, 51'760, 1'400'000}, {6, 12, 60'000, 62'112, 1'700'000}};
    busy.railUsers = 1;
    busy.network[static_cast<int>(node::NetworkCounter::kSent)] = 400;
    busy.network[static_cast<int>(node::NetworkCounter::kRetransmitted)] = 3;
    busy.network[static_cast<int>(node::NetworkCounter::kBadIcrc)] = 1;
    busy.queuedWork = 7;
    busy.faults[static_cast<int>(node::Fault::kCorrectedEcc)] = 2;
    if (node->devices.size() < 4) continue;

    node::DeviceStatus& shared = node->devices[1];
    shared.name = "HL-325";
    shared.target = Target::kGaudi3;
    shared.clockProfile = "sustained";
    shared.totalBytes = int64_t{128} << 30;
    shared.owner = {99, "a-program-whose-name-is-longer-than-the-column-for-it", 1 << 20, 1};
    shared.peers = {{100, "peer", 1 << 20, 0}, {-1, "", 0, 0}};
    shared.usedBytes = shared.peakBytes = 1 << 20;
    shared.acquiredAtNs = shared.updatedAtNs = 1'700'000'000'000'000'000;
    shared.queuedWork = 1;
    shared.lastError = "stream 'a' on \"device 1\": out of bounds";
    shared.faults[static_cast<int>(node::Fault::kThermal)] = 1;

    node::DeviceStatus& lost = node->devices[2];
    lost.name = "HL-205";
    lost.target = Target::kGaudi1;
    lost.totalBytes = int64_t{32} << 30;
    lost.owner = {7, "serve", 0, 0};
    lost.lost = true;
    lost.acquiredAtNs = lost.updatedAtNs = 1'700'000'000'000'000'000;
    lost.faults[static_cast<int>(node::Fault::kUncorrectedEcc)] = 21;
    lost.faults[static_cast<int>(node::Fault::kFatalEvent)] = 1;

    node::DeviceStatus& silent = node->devices[3];
    silent.owner = {55, "stopped", 0, 0};
  }
}

/// The node at 22:23:45 on a November day, with fixed versions.
inline NodeView sampleView(int devices) {
  node::NodeStatus before = freeNode(devices), after = freeNode(devices);
  use(before, after);
  NodeView view = makeView(before, after, 1'795'299'825'000'000'000).value();
  view.version = "hl-1.2.3-openhpu";
  view.driverVersion = "1.2.3-openhpu-sim";
  return view;
}

}  // namespace hpu::smi
