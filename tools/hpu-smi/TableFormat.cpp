// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/Format.h"
#include "tools/common/Table.h"
#include "tools/common/Terminal.h"
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

/// What is shown of a device.
struct DeviceTexts {
  std::string uncorrected, celsius, watts, cap, used, total, busy, mode;
};

DeviceTexts textsOf(const DeviceView& device) {
  const node::DeviceStatus& status = device.status;
  auto reading = [&](int64_t value, const char* unit) {
    return device.readable() ? number(value, unit) : std::string("N/A");
  };
  DeviceTexts texts;
  texts.uncorrected = std::to_string(device.faults(node::Fault::kUncorrectedEcc));
  texts.celsius = reading(std::lround(device.readings.celsius), "C");
  texts.watts = reading(std::lround(device.readings.watts), "W");
  texts.cap = number(std::lround(device.board().capWatts), "W");
  texts.used = device.known() ? number(toMiB(status.usedBytes), "MiB") : "N/A";
  texts.total = number(toMiB(status.totalBytes), "MiB");
  texts.busy = reading(toPercent(device.readings.utilization), "%");
  texts.mode = status.lost ? "Lost" : device.known() ? "Default" : "No answer";
  return texts;
}

std::string deviceRows(const DeviceView& device) {
  const node::DeviceStatus& status = device.status;
  const DeviceTexts texts = textsOf(device);
  std::string rows = "| " + right(std::to_string(status.index), 3) + "  " + left(status.name, 12) + "        N/A  | " +
                     left(status.pciAddress, 13) + "    N/A | " + right(texts.uncorrected, 19) + "  |\n";
  rows += "| N/A  " + right(texts.celsius, 4) + "   P0 " + right(texts.watts, 5) + " / " + right(texts.cap, 5) + "  |" +
          right(texts.used, 9) + " / " + right(texts.total, 9) + " |" + right(texts.busy, 7) + right(texts.mode, 14) +
          " |\n";
  return rows;
}

/// A process as the tables have it.
struct ProcessTexts {
  int index;
  std::string pid, type, name, memory;
};

std::vector<ProcessTexts> processesOf(const DeviceView& device) {
  std::vector<ProcessTexts> all;
  for (const node::ProcessStatus* process : device.processes()) {
    const bool owns = process == &device.status.owner;
    all.push_back({device.status.index, process->pid > 0 ? std::to_string(process->pid) : "N/A", owns ? "C" : "M",
                   process->name.empty() ? "N/A" : process->name,
                   device.known() ? number(toMiB(process->usedBytes), "MiB") : "N/A"});
  }
  return all;
}

std::string processRow(int index, const std::string& pid, const std::string& type, const std::string& name,
                       const std::string& memory) {
  return "| " + right(std::to_string(index), 3) + right(pid, 11) + "   " + left(type, 3) + "    " + left(name, 38) +
         "   " + left(memory, 10) + " |\n";
}

std::string processRows(const DeviceView& device) {
  std::string rows;
  for (const ProcessTexts& one : processesOf(device))
    rows += processRow(one.index, one.pid, one.type, one.name, one.memory);
  if (rows.empty()) rows = processRow(device.status.index, "N/A", "N/A", "N/A", "N/A");
  return rows;
}

// ---- Where the box has no room: the same without it.

constexpr int kBox = kWide + 2;
constexpr std::string_view kLegend = "Temp and Pwr are modelled; AIP-Util is over simulated time.";

/// The items as lines of at most `width` columns, from the second one on set in: an item goes on in the next line only
/// when it is longer than one.
std::string itemLines(const std::vector<std::string>& items, int width) {
  constexpr std::string_view kIndent = "     ";
  std::string text, line;
  for (const std::string& item : items) {
    if (!line.empty() && line.size() + 2 + item.size() > static_cast<size_t>(width)) {
      text += line + "\n";
      line = kIndent;
    } else if (!line.empty()) {
      line += "  ";
    }
    line += item;
  }
  return tools::wrapped(text + line, width) + "\n";
}

std::string narrowSummary(const NodeView& view, int width) {
  std::string text =
      itemLines({"HL-SMI " + view.version, "driver " + view.driverVersion, "node " + view.identity}, width);
  for (const DeviceView& device : view.devices) {
    const DeviceTexts texts = textsOf(device);
    text += "\n" + itemLines({right(std::to_string(device.status.index), 3) + "  " + device.status.name,
                              device.status.pciAddress, "Temp " + texts.celsius,
                              "Pwr " + texts.watts + " / " + texts.cap, "Memory " + texts.used + " / " + texts.total,
                              "AIP-Util " + texts.busy, texts.mode, "Uncorr. ECC " + texts.uncorrected},
                             width);
  }
  tools::Table table({tools::Column::number("AIP").key(), tools::Column::number("PID").key(),
                      tools::Column::word("Type"), tools::Column::name("Process"), tools::Column::number("Memory")});
  for (const DeviceView& device : view.devices)
    for (const ProcessTexts& one : processesOf(device))
      table.row({std::to_string(one.index), one.pid, one.type, one.name, one.memory});
  text += "\n" + (table.empty() ? std::string("no compute processes") : table.text(width)) + "\n\n";
  text += tools::wrapped(base::strCat(kLegend, " hl-smi's box needs ", kBox, " columns."), width);
  return text;
}

}  // namespace

std::string formatSummary(const NodeView& view, int width) {
  if (width > 0 && width < kBox) return narrowSummary(view, width);
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
  text += kLegend;
  return text;
}

}  // namespace hpu::smi
