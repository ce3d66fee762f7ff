// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>

#include "base/Format.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

/// A label's value: backslashes, quotes and newlines are escaped.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

std::string labels(const NodeView& view, const DeviceView& d) {
  return base::strCat("device=\"accel", d.status.index, "\",Serial=", quoted(d.status.serial),
                      ",UUID=", quoted(d.status.uuid), ",bus_id=", quoted(d.status.pciAddress), ",module_id=\"",
                      d.status.moduleId, "\",node=", quoted(view.identity));
}

/// Whole numbers as such, others in the shortest form.
std::string numberText(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  return base::strCat(value);
}

class Exposition {
 public:
  explicit Exposition(const NodeView& view) : view_(view) {}

  void head(std::string_view name, std::string_view help, std::string_view type) {
    text_ += base::strCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void sample(std::string_view name, const DeviceView& device, std::string_view more, double value) {
    text_ += base::strCat(name, "{", labels(view_, device), more, "} ", numberText(value), "\n");
  }
  using Get = std::function<double(const DeviceView&)>;
  void gauge(std::string_view name, std::string_view help, const Get& get) {
    head(name, help, "gauge");
    for (const DeviceView& device : view_.devices) sample(name, device, "", get(device));
  }
  /// What an owner that has not answered does not tell.
  void told(std::string_view name, std::string_view help, const Get& get) {
    head(name, help, "gauge");
    for (const DeviceView& device : view_.devices)
      if (device.known()) sample(name, device, "", get(device));
  }
  /// A gauge that a lost device does not have.
  void reading(std::string_view name, std::string_view help, const Get& get) {
    head(name, help, "gauge");
    for (const DeviceView& device : view_.devices)
      if (device.readable()) sample(name, device, "", get(device));
  }
  std::string take() {
    text_.pop_back();
    return std::move(text_);
  }

 private:
  const NodeView& view_;
  std::string text_;
};

std::string portLabels(const DeviceView& d, int port) {
  return base::strCat(",port=\"", port, "\",port_type=\"", d.board().isExternal(port) ? "external" : "internal", "\"");
}

/// What ports have carried, and what the network below the rails has met.
void addPorts(const NodeView& view, Exposition& out) {
  struct Metric {
    const char *name, *counter, *help;
    double unit;
  };
  constexpr Metric kMetrics[] = {
      {"hpu_nic_port_tx_bytes_total", "tx_bytes", "Bytes sent, with headers (modelled)", 1},
      {"hpu_nic_port_rx_bytes_total", "rx_bytes", "Bytes received, with headers (modelled)", 1},
      {"hpu_nic_port_tx_packets_total", "tx_packets", "Packets sent (modelled)", 1},
      {"hpu_nic_port_rx_packets_total", "rx_packets", "Packets received (modelled)", 1},
      {"hpu_nic_port_tx_busy_seconds_total", "tx_busy_ns", "Simulated time in which the port sent", 1e9},
      {"hpu_nic_port_rx_busy_seconds_total", "rx_busy_ns", "Simulated time in which the port received", 1e9}};
  for (const Metric& metric : kMetrics) {
    out.head(metric.name, metric.help, "counter");
    for (const DeviceView& d : view.devices) {
      if (!d.known()) continue;
      for (int port = 0; port < d.board().ports; ++port)
        for (const telemetry::PortCounter& counter : telemetry::portCounters(d.status, port))
          if (counter.name == metric.counter)
            out.sample(metric.name, d, portLabels(d, port), static_cast<double>(counter.value) / metric.unit);
    }
  }
  for (int i = 0; i < node::kNumNetworkCounters; ++i) {
    const std::string_view counter = telemetry::networkCounterName(static_cast<node::NetworkCounter>(i));
    const std::string name = base::strCat("hpu_network_", counter, "_total");
    out.head(name, "What the owner's process has met between nodes (RoCE); the same for all its devices", "counter");
    for (const DeviceView& d : view.devices)
      if (d.known()) out.sample(name, d, "", static_cast<double>(d.status.network[i]));
  }
}

}  // namespace

std::string formatPrometheus(const NodeView& view) {
  using D = const DeviceView&;
  Exposition out(view);
  // Names of Habana's exporter.
  out.reading("habanalabs_clock_soc_mhz", "Clock of the SoC, in MHz", [](D d) { return d.clocks.mme; });
  out.reading("habanalabs_clock_soc_max_mhz", "Maximum clock of the SoC, in MHz", [](D d) { return d.clocks.mmeMax; });
  out.gauge("habanalabs_device_config", "1 for each device", [](D) { return 1.0; });
  out.gauge("habanalabs_ecc_feature_mode", "Whether ECC is enabled", [](D) { return 1.0; });
  out.reading("habanalabs_energy", "Energy in mJ of the simulated time since the acquisition (modelled)",
              [](D d) { return std::round(d.readings.joules * 1000); });
  out.told("habanalabs_memory_free_bytes", "Free bytes of HBM",
           [](D d) { return static_cast<double>(d.status.totalBytes - d.status.usedBytes); });
  out.gauge("habanalabs_memory_total_bytes", "Bytes of HBM",
            [](D d) { return static_cast<double>(d.status.totalBytes); });
  out.told("habanalabs_memory_used_bytes", "Used bytes of HBM",
           [](D d) { return static_cast<double>(d.status.usedBytes); });
  out.head("habanalabs_nic_port_status", "1 when the port's link is up", "gauge");
  for (D d : view.devices)
    for (int port = 0; port < d.board().ports; ++port)
      if (d.tellsLink(port))
        out.sample("habanalabs_nic_port_status", d, portLabels(d, port), telemetry::linkUp(d.status, port) ? 1 : 0);
  out.gauge("habanalabs_pci_link_speed", "Generation of the PCIe link",
            [](D d) { return static_cast<double>(d.board().pcieGeneration); });
  out.gauge("habanalabs_pci_link_width", "Lanes of the PCIe link",
            [](D d) { return static_cast<double>(d.board().pcieLanes); });
  for (const char* name : {"habanalabs_pcie_receive_throughput", "habanalabs_pcie_rx"})
    out.reading(name, "Data that the device receives, in KB a simulated second",
                [](D d) { return std::round(d.readings.receivedPerSecond / 1000); });
  for (const char* name : {"habanalabs_pcie_transmit_throughput", "habanalabs_pcie_tx"})
    out.reading(name, "Data that the device sends, in KB a simulated second",
                [](D d) { return std::round(d.readings.sentPerSecond / 1000); });
  out.gauge("habanalabs_power_default_limit_mW", "Power limit in mW", [](D d) { return d.board().capWatts * 1000; });
  out.reading("habanalabs_power_mW", "Power in mW (modelled)", [](D d) { return std::round(d.readings.watts * 1000); });
  out.reading("habanalabs_temperature_onchip", "Temperature of the chip in degrees Celsius (modelled)",
              [](D d) { return std::round(d.readings.celsius); });
  out.reading("habanalabs_utilization", "Busy share of simulated time in percent",
              [](D d) { return std::round(d.readings.utilization * 100); });
  // Ours.
  addPorts(view, out);
  out.head("hpu_engine_utilization", "Busy share of simulated time in percent, by engine", "gauge");
  for (D d : view.devices)
    for (Engine engine : {Engine::kMme, Engine::kTpc, Engine::kDma, Engine::kNic})
      if (d.readable())
        out.sample("hpu_engine_utilization", d, base::strCat(",engine=\"", engineName(engine), "\""),
                   std::round(d.readings.engine[static_cast<int>(engine)] * 100));
  out.told("hpu_queue_depth", "Work enqueued and not done",
           [](D d) { return static_cast<double>(d.status.queuedWork); });
  out.gauge("hpu_in_use", "1 when a process owns the device", [](D d) { return d.free() ? 0.0 : 1.0; });
  out.gauge("hpu_lost", "1 when the device is lost until it is reset", [](D d) { return d.status.lost ? 1.0 : 0.0; });
  out.head("hpu_faults", "Injected faults since the acquisition", "gauge");
  constexpr const char* kFaults[node::kNumFaults] = {"corrected_ecc", "uncorrected_ecc", "non_fatal_event",
                                                     "fatal_event",   "endless_command", "lost_heartbeat",
                                                     "thermal"};
  for (D d : view.devices)
    for (int f = 0; f < node::kNumFaults; ++f)
      out.sample("hpu_faults", d, base::strCat(",fault=\"", kFaults[f], "\""), static_cast<double>(d.status.faults[f]));
  return out.take();
}

}  // namespace hpu::smi
