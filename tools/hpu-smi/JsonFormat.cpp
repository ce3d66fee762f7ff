// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

using tools::Json;

constexpr const char* kFaultNames[node::kNumFaults] = {"corrected_ecc", "uncorrected_ecc", "non_fatal_event",
                                                       "fatal_event",   "endless_command", "lost_heartbeat",
                                                       "thermal"};

double tenths(double value) {
  return std::round(value * 10) / 10;
}

/// Null for a device that gives no readings.
Json reading(const DeviceView& device, double value) {
  return device.readable() ? Json(value) : Json();
}
/// Null when the owner has not answered.
Json told(const DeviceView& device, Json value) {
  return device.known() ? std::move(value) : Json();
}

int64_t count(uint64_t value) {
  return static_cast<int64_t>(value);
}

Json utilizationJson(const DeviceView& device) {
  const telemetry::Readings& r = device.readings;
  Json utilization = Json::object();
  utilization.set("aip", reading(device, tenths(r.utilization * 100)));
  constexpr const char* kEngines[kNumEngines] = {"mme", "tpc", "dma", "nic"};
  for (int e = 0; e < kNumEngines; ++e) utilization.set(kEngines[e], reading(device, tenths(r.engine[e] * 100)));
  utilization.set("window", Json::object()
                                .set("device_us", static_cast<double>(r.deviceNs) / 1e3)
                                .set("host_ms", static_cast<double>(r.hostNs) / 1e6)
                                .set("since_acquired", r.sinceAcquired));
  // How much simulated time a second of the host's makes.
  double ratio = r.hostNs > 0 ? static_cast<double>(r.deviceNs) / static_cast<double>(r.hostNs) : 0;
  utilization.set("simulated_per_host", ratio);
  return utilization;
}

Json processesJson(const DeviceView& device) {
  Json processes = Json::array();
  for (const node::ProcessStatus* process : device.processes())
    processes.append(Json::object()
                         .set("pid", process->pid > 0 ? Json(process->pid) : Json())
                         .set("name", process->name)
                         .set("type", process == &device.status.owner ? "owner" : "peer")
                         .set("used_bytes", process->usedBytes)
                         .set("streams", process->streams));
  return processes;
}

Json trafficJson(const node::PortTraffic& traffic) {
  return Json::object()
      .set("bytes", traffic.bytes)
      .set("payload_bytes", traffic.payloadBytes)
      .set("packets", traffic.packets)
      .set("messages", traffic.messages)
      .set("busy_us", static_cast<double>(traffic.busyPs) / 1e6);
}

/// The links to the other devices, then the rail; each with its ports.
Json linksJson(const DeviceView& device) {
  Json links = Json::array();
  for (int link = 0; link < node::kLinks; ++link) {
    if (link == device.status.index) continue;
    Json ports = Json::array();
    bool up = false, isTold = true;
    for (int port = 0; port < 64; ++port) {
      if (!device.board().hasPort(port)) continue;
      const int peer = device.board().isExternal(port) ? node::kRail : telemetry::portPeer(device.status, port);
      if (peer != link) continue;
      ports.append(port);
      up |= telemetry::linkUp(device.status, port);
      isTold &= device.tellsLink(port);
    }
    const node::LinkTraffic& traffic = device.status.links[link];
    links.append(Json::object()
                     .set("to", link == node::kRail ? Json("rail") : Json(link))
                     .set("ports", std::move(ports))
                     .set("up", isTold ? Json(up) : Json())
                     .set("tx", told(device, trafficJson(traffic.sent)))
                     .set("rx", told(device, trafficJson(traffic.received))));
  }
  return links;
}

Json networkJson(const DeviceView& device) {
  Json network = Json::object();
  for (int i = 0; i < node::kNumNetworkCounters; ++i)
    network.set(std::string(telemetry::networkCounterName(static_cast<node::NetworkCounter>(i))),
                told(device, count(device.status.network[i])));
  return network;
}

Json deviceJson(const DeviceView& device) {
  const node::DeviceStatus& s = device.status;
  const telemetry::Readings& r = device.readings;
  const telemetry::Board& board = device.board();
  Json json = Json::object();
  json.set("index", s.index).set("name", s.name).set("uuid", s.uuid).set("bus_id", s.pciAddress);
  json.set("module_id", static_cast<int64_t>(s.moduleId)).set("serial", s.serial);
  json.set("target", targetName(s.target)).set("state", device.state());
  json.set("memory", Json::object()
                         .set("total", s.totalBytes)
                         .set("used", told(device, s.usedBytes))
                         .set("free", told(device, s.totalBytes - s.usedBytes))
                         .set("peak", told(device, s.peakBytes)));
  json.set("utilization", utilizationJson(device));
  json.set("processes", processesJson(device));
  json.set("power", Json::object()
                        .set("draw_w", reading(device, tenths(r.watts)))
                        .set("cap_w", board.capWatts)
                        .set("energy_mj", told(device, std::round(r.joules * 1000)))
                        .set("modelled", true));
  json.set("temperature", Json::object().set("aip_c", reading(device, tenths(r.celsius))).set("modelled", true));
  json.set("clocks", Json::object()
                         .set("profile", device.clocks.profile)
                         .set("soc_mhz", device.clocks.mme)
                         .set("mme_mhz", device.clocks.mme)
                         .set("tpc_mhz", device.clocks.tpc)
                         .set("mme_max_mhz", device.clocks.mmeMax)
                         .set("tpc_max_mhz", device.clocks.tpcMax));
  json.set("throttled", Json::object().set("power", r.powerThrottled).set("thermal", r.thermalThrottled));
  json.set("pcie", Json::object()
                       .set("generation", board.pcieGeneration)
                       .set("lanes", board.pcieLanes)
                       .set("rx_bytes", s.counters.h2dBytes)
                       .set("tx_bytes", s.counters.d2hBytes)
                       .set("rx_bytes_per_s", std::round(r.receivedPerSecond))
                       .set("tx_bytes_per_s", std::round(r.sentPerSecond)));
  json.set("links", linksJson(device)).set("network", networkJson(device));
  Json faults = Json::object();
  for (int f = 0; f < node::kNumFaults; ++f) faults.set(kFaultNames[f], count(s.faults[f]));
  json.set("faults", std::move(faults));
  json.set("launches", s.counters.launches).set("queue_depth", s.queuedWork);
  json.set("device_us", static_cast<double>(s.counters.deviceNs) / 1e3);
  json.set("last_error", s.lastError.empty() ? Json() : Json(s.lastError));
  return json;
}

}  // namespace

void addJson(const NodeView& view, tools::Json& document) {
  document.set("node", view.identity);
  document.set("timestamp", view.timestamp);
  document.set("version", view.version);
  document.set("driver_version", view.driverVersion);
  document.set("attached", static_cast<int64_t>(view.attached));
  Json devices = Json::array();
  for (const DeviceView& device : view.devices) devices.append(deviceJson(device));
  document.set("devices", std::move(devices));
}

}  // namespace hpu::smi
