// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/Format.h"
#include "base/Suggest.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

// All values begin in the same column.
constexpr size_t kValueColumn = 40;

/// Lines of "name : value" with indentation by depth.
class Log {
 public:
  void heading(int depth, std::string_view name) { line(depth, name); }
  void value(int depth, std::string_view name, const std::string& text) {
    std::string start = std::string(static_cast<size_t>(depth) * 8, ' ') + std::string(name);
    if (start.size() >= kValueColumn) {  // A long name has a line of its own.
      text_ += start + '\n';
      start.clear();
    }
    start.resize(kValueColumn, ' ');
    text_ += start + ": " + (text.empty() ? "N/A" : text) + '\n';
  }
  void number(int depth, std::string_view name, double number, std::string_view unit) {
    value(depth, name, base::strCat(static_cast<int64_t>(std::llround(number)), " ", unit));
  }
  void line(int depth, std::string_view name) {
    text_ += std::string(static_cast<size_t>(depth) * 8, ' ') + std::string(name) + '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

const char* active(bool is) {
  return is ? "Active" : "Not Active";
}

void product(Log& log, const DeviceView& d) {
  const node::DeviceStatus& status = d.status;
  log.value(1, "Product Name", status.name);
  log.value(1, "Model Number", "SIM-" + status.name);
  log.value(1, "Serial Number", status.serial);
  log.value(1, "Module status", status.lost ? "Lost" : d.known() ? "Operational" : "No answer");
  log.value(1, "Module ID", std::to_string(status.moduleId));
  for (const char* name : {"PCB Assembly Version", "PCB Version", "HL Revision"}) log.value(1, name, "");
  log.value(1, "AIP UUID", status.uuid);
  log.value(1, "AIP Status", "Simulated");
  for (const char* name : {"Firmware [FIT] Version", "Firmware [SPI] Version", "Firmware [UBOOT] Version",
                           "Firmware [OS] Version", "CPLD Version"})
    log.value(1, name, "");
}

void bus(Log& log, const DeviceView& d) {
  unsigned domain = 0, bus = 0, device = 0;
  (void)sscanf(d.status.pciAddress.c_str(), "%x:%x:%x", &domain, &bus, &device);
  auto hex = [](unsigned number, int digits) {
    char text[16];
    snprintf(text, sizeof text, "0x%0*x", digits, number);
    return std::string(text);
  };
  log.heading(1, "PCI");
  log.value(2, "Bus", hex(bus, 2));
  log.value(2, "Device", hex(device, 2));
  log.value(2, "Domain", hex(domain, 4));
  log.value(2, "Rev", "");
  log.value(2, "Device Id", hex(d.board().pciDeviceId, 8));
  log.value(2, "Bus Id", d.status.pciAddress);
  log.value(2, "Sub System Id", "");
  log.heading(2, "AIP Link Info");
  std::string speed = base::strCat(d.board().pcieGigatransfers, "GT/s");
  std::string width = base::strCat("x", d.board().pcieLanes);
  log.heading(3, "Link Speed");
  for (const char* name : {"Max", "Current"}) log.value(4, name, speed);
  log.heading(3, "Link Width");
  for (const char* name : {"Max", "Current"}) log.value(4, name, width);
  log.heading(2, "Throughput (simulated time)");
  log.number(3, "Rx", d.readings.receivedPerSecond / 1000, "KB/s");
  log.number(3, "Tx", d.readings.sentPerSecond / 1000, "KB/s");
}

void fan(Log& log, const DeviceView&) {
  log.heading(1, "Fan Speed");
  log.value(2, "", "");
}

void clock(Log& log, const DeviceView& d) {
  auto clocks = [&](const char* heading, double mme, double tpc) {
    log.heading(1, heading);
    log.number(2, "[1] soc", mme, "MHz");
    log.number(2, "[2] mme", mme, "MHz");
    log.number(2, "[3] tpc", tpc, "MHz");
  };
  log.value(1, "Clock Profile", d.clocks.profile);
  clocks("Clocks", d.clocks.mme, d.clocks.tpc);
  clocks("Clocks Max", d.clocks.mmeMax, d.clocks.tpcMax);
  clocks("Clocks Limit", d.clocks.mmeMax, d.clocks.tpcMax);
  log.heading(1, "Clocks Throttle Reasons (modelled)");
  bool any = d.readings.thermalThrottled || d.readings.powerThrottled;
  log.value(2, "HW Slowdown", active(any));
  log.value(3, "Thermal Slowdown", active(d.readings.thermalThrottled));
  log.value(3, "Power Slowdown", active(d.readings.powerThrottled));
}

void memory(Log& log, const DeviceView& d) {
  const node::DeviceStatus& status = d.status;
  log.value(1, "Memory Type", "HBM");
  log.heading(1, "Memory Usage");
  log.number(2, "Total", static_cast<double>(toMiB(status.totalBytes)), "MB");
  auto told = [&](const char* name, int64_t mebibytes) {
    log.value(2, name, d.known() ? base::strCat(mebibytes, " MB") : "");
  };
  told("Used", toMiB(status.usedBytes));
  told("Free", toMiB(status.totalBytes) - toMiB(status.usedBytes));
  told("Peak", toMiB(status.peakBytes));
}

void ecc(Log& log, const DeviceView& d) {
  log.heading(1, "ECC Errors");
  log.value(2, "Mode", "Enabled");
  log.value(2, "Corrected", std::to_string(d.faults(node::Fault::kCorrectedEcc)));
  log.value(2, "Uncorrected", std::to_string(d.faults(node::Fault::kUncorrectedEcc)));
}

void utilization(Log& log, const DeviceView& d) {
  const telemetry::Readings& r = d.readings;
  log.heading(1, "Utilization (simulated time)");
  auto share = [&](std::string_view name, double part) {
    log.value(2, name, d.readable() ? base::strCat(toPercent(part), " %") : "");
  };
  share("AIP", r.utilization);
  for (Engine engine : {Engine::kMme, Engine::kTpc, Engine::kDma, Engine::kNic})
    share(engineName(engine), r.engine[static_cast<int>(engine)]);
  log.value(2, "Window",
            base::formatNs(r.deviceNs) + " simulated, " + base::formatNs(r.hostNs) + " on the host" +
                (r.sinceAcquired ? ", since acquired" : ""));
  log.value(2, "Queue Depth", std::to_string(d.status.queuedWork));
  log.value(2, "Last Error", d.status.lastError.empty() ? "none" : d.status.lastError);
}

void temperature(Log& log, const DeviceView& d) {
  log.heading(1, "Temperature (modelled)");
  if (!d.readable())
    log.value(2, "[ 1] On Chip", "");
  else
    log.number(2, "[ 1] On Chip", d.readings.celsius, "C");
  log.value(2, "[ 2] On Board", "");
}

void power(Log& log, const DeviceView& d) {
  log.heading(1, "Power Readings (modelled)");
  log.value(2, "Power Management", "");
  if (!d.readable())
    log.value(2, "Power Draw", "");
  else
    log.number(2, "Power Draw", d.readings.watts, "W");
  log.number(2, "Power Max", d.board().capWatts, "W");
  log.number(2, "Power Limit", d.board().capWatts, "W");
  log.number(2, "Energy", d.readings.joules * 1000, "mJ");
}

void net(Log& log, const DeviceView& d) {
  log.heading(1, "Network Information");
  for (int port = 0; port < d.board().ports; ++port) {
    std::array<uint8_t, 6> mac = telemetry::macAddress(d.status, port);
    char name[24], address[32];
    snprintf(name, sizeof name, "[%2d] MAC", port + 1);
    snprintf(address, sizeof address, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
    log.value(2, name, address);
  }
}

void rowReplacement(Log& log, const DeviceView&) {
  log.heading(1, "Replaced Rows");
  // The memory has no spare rows.
  for (const char* name : {"Single Bit ECC", "Double Bit ECC", "Pending"}) log.value(2, name, "N/A");
}

void process(Log& log, const DeviceView& d) {
  log.heading(1, "Processes");
  if (d.processes().empty()) log.value(2, "Process ID", "");
  for (const node::ProcessStatus* process : d.processes()) {
    log.value(2, "Process ID", process->pid > 0 ? std::to_string(process->pid) : "");
    log.value(3, "Name", process->name);
    log.value(3, "Type", process == &d.status.owner ? "C" : "M");
    log.number(3, "Used Memory", static_cast<double>(toMiB(process->usedBytes)), "MB");
    log.value(3, "Streams", std::to_string(process->streams));
  }
}

struct Section {
  const char* name;
  void (*print)(Log&, const DeviceView&);
};
// hl-smi's order; ECC, UTILIZATION and PROCESS are ours.
constexpr Section kSections[] = {{"PRODUCT", product},
                                 {"BUS", bus},
                                 {"FAN", fan},
                                 {"MEMORY", memory},
                                 {"ECC", ecc},
                                 {"UTILIZATION", utilization},
                                 {"TEMPERATURE", temperature},
                                 {"POWER", power},
                                 {"CLOCK", clock},
                                 {"NET", net},
                                 {"ROW_REPLACEMENT", rowReplacement},
                                 {"PROCESS", process}};

void logHead(Log& log, const NodeView& view) {
  log.line(0, "");
  log.line(0, "================ HL-SMI LOG ================");
  log.line(0, "");
  log.value(0, "Timestamp", view.timestamp);
  log.value(0, "Driver Version", view.driverVersion);
  log.value(0, "HL-SMI Version", view.version);
  log.value(0, "Simulated Node", view.identity);
  log.line(0, "");
  log.value(0, "Attached AIPs", std::to_string(view.attached));
}

void deviceHead(Log& log, const DeviceView& device) {
  log.line(0, "");
  log.line(0,
           base::strCat("[", device.status.index, "] AIP (accel", device.status.index, ") ", device.status.pciAddress));
}

std::string withoutLastNewline(std::string text) {
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace

std::vector<std::string> logSections() {
  std::vector<std::string> names;
  for (const Section& section : kSections) names.emplace_back(section.name);
  return names;
}

StatusOr<std::vector<std::string>> parseSections(std::string_view text) {
  std::vector<std::string> chosen, all = logSections();
  if (text.empty()) return all;
  while (true) {
    size_t comma = text.find(',');
    std::string word(text.substr(0, comma));
    for (char& c : word) c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
    if (std::find(all.begin(), all.end(), word) == all.end())
      return invalidArgument(base::strCat("--display: unknown section '", text.substr(0, comma),
                                          "'; valid sections are ", base::join(all),
                                          base::didYouMean(text.substr(0, comma), all)));
    chosen.push_back(word);
    if (comma == std::string_view::npos) return chosen;
    text.remove_prefix(comma + 1);
  }
}

std::string formatLog(const NodeView& view, const std::vector<std::string>& sections) {
  Log log;
  logHead(log, view);
  for (const DeviceView& device : view.devices) {
    deviceHead(log, device);
    for (const Section& section : kSections)
      if (std::find(sections.begin(), sections.end(), section.name) != sections.end()) section.print(log, device);
  }
  return withoutLastNewline(log.take());
}

std::string formatFirmware(const NodeView& view) {
  Log log;
  for (const DeviceView& device : view.devices) {
    deviceHead(log, device);
    for (const char* component : {"erom", "fuse", "cpld", "uboot", "arcmp", "preboot", "eeprom"}) {
      log.heading(1, component);
      log.value(2, "component", "");
      log.value(2, "fw os", "");
    }
  }
  return withoutLastNewline(log.take());
}

}  // namespace hpu::smi
