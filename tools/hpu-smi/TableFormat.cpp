// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/Format.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

// Widths between the bars.
constexpr int kWide = 77, kFirst = 31, kOther = 22;

std::string rule(char left, char fill, char middle, char right, bool columns) {
  std::string line(1, left);
  if (columns) {
    line.append(kFirst, fill).append(1, middle).append(kOther, fill).append(1, middle);
    line.append(kOther, fill);
  } else {
    line.append(kWide, fill);
  }
  return line.append(1, right).append(1, '\n');
}

std::string right(const std::string& text, size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string left(const std::string& text, size_t width) {
  if (text.size() > width) return text.substr(0, width - 3) + "...";
  return text + std::string(width - text.size(), ' ');
}

/// The value ends where hl-smi's versions do.
std::string headLine(const std::string& name, const std::string& value) {
  std::string shown = value.size() > 44 ? left(value, 44) : value;
  return "| " + name + right(shown, 66 - name.size()) + "          |\n";
}

std::string number(int64_t value, const char* unit) {
  return std::to_string(value) + unit;
}

std::string deviceRows(const DeviceView& device) {
  const node::DeviceStatus& status = device.status;
  std::string uncorrected = std::to_string(device.faults(node::Fault::kUncorrectedEcc));
  std::string rows = "| " + right(std::to_string(status.index), 3) + "  " + left(status.name, 12) + "        N/A  | " +
                     left(status.pciAddress, 13) + "    N/A | " + right(uncorrected, 19) + "  |\n";
  auto reading = [&](int64_t value, const char* unit) {
    return device.readable() ? number(value, unit) : std::string("N/A");
  };
  std::string celsius = reading(std::lround(device.readings.celsius), "C");
  std::string watts = reading(std::lround(device.readings.watts), "W");
  std::string cap = number(std::lround(device.board().capWatts), "W");
  std::string used = device.known() ? number(toMiB(status.usedBytes), "MiB") : "N/A";
  std::string memory = right(used, 9) + " / " + right(number(toMiB(status.totalBytes), "MiB"), 9);
  std::string busy = reading(toPercent(device.readings.utilization), "%");
  std::string mode = status.lost ? "Lost" : device.known() ? "Default" : "No answer";
  rows += "| N/A  " + right(celsius, 4) + "   P0 " + right(watts, 5) + " / " + right(cap, 5) + "  |" + memory + " |" +
          right(busy, 7) + right(mode, 14) + " |\n";
  return rows;
}

std::string processRow(int index, const std::string& pid, const std::string& type, const std::string& name,
                       const std::string& memory) {
  return "| " + right(std::to_string(index), 3) + right(pid, 11) + "   " + left(type, 3) + "    " + left(name, 38) +
         "   " + left(memory, 10) + " |\n";
}

std::string processRows(const DeviceView& device) {
  std::string rows;
  for (const node::ProcessStatus* process : device.processes()) {
    bool owns = process == &device.status.owner;
    std::string pid = process->pid > 0 ? std::to_string(process->pid) : "N/A";
    std::string name = process->name.empty() ? "N/A" : process->name;
    rows += processRow(device.status.index, pid, owns ? "C" : "M", name,
                       device.known() ? number(toMiB(process->usedBytes), "MiB") : "N/A");
  }
  if (rows.empty()) rows = processRow(device.status.index, "N/A", "N/A", "N/A", "N/A");
  return rows;
}

}  // namespace

std::string formatSummary(const NodeView& view) {
  std::string text = rule('+', '-', '-', '+', false);
  text += headLine("HL-SMI Version:", view.version);
  text += headLine("Driver Version:", view.driverVersion);
  text += headLine("Simulated node:", view.identity);
  text += rule('|', '-', '+', '+', true);
  text += "| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n";
  text += "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |\n";
  text += rule('|', '=', '+', '|', true);
  for (const DeviceView& device : view.devices) {
    text += deviceRows(device);
    text += rule('|', '-', '+', '+', true);
  }
  text += "| Compute Processes:                                               AIP Memory |\n";
  text += "|  AIP       PID   Type   Process name                             Usage      |\n";
  text += rule('|', '=', '=', '|', false);
  for (const DeviceView& device : view.devices) text += processRows(device);
  text += rule('+', '=', '=', '+', false);
  text += "Temp and Pwr are modelled; AIP-Util is over simulated time.";
  return text;
}

}  // namespace hpu::smi
