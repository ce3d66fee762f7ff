// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "tools/common/Cli.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

/// The ports to show of a device: those named, or all (inside the box only for "link").
StatusOr<std::vector<int>> portsOf(const DeviceView& device, std::string_view names, bool external) {
  const telemetry::Board& board = device.board();
  std::vector<int> ports;
  if (names.empty()) {
    for (int port = 0; port < 64; ++port)
      if (board.hasPort(port) && (external || !board.isExternal(port))) ports.push_back(port);
    return ports;
  }
  while (true) {
    size_t comma = names.find(',');
    auto port = base::parseInt(names.substr(0, comma));
    if (!port.ok() || *port < 0 || *port > 63 || !board.hasPort(static_cast<int>(*port)))
      return invalidArgument(base::strCat("--ports: device ", device.status.index, " (", device.status.name,
                                          ") has no port '", names.substr(0, comma), "'; it has 0 to ",
                                          board.ports - 1));
    ports.push_back(static_cast<int>(*port));
    if (comma == std::string_view::npos) return ports;
    names.remove_prefix(comma + 1);
  }
}

std::string portLine(int port, std::string_view value) {
  char number[32];
  snprintf(number, sizeof number, "port %2d:        ", port);
  return number + std::string(value) + '\n';
}

std::string linkText(const DeviceView& device, int port) {
  if (!device.tellsLink(port)) return "N/A";
  return telemetry::linkUp(device.status, port) ? "UP" : "DOWN";
}

/// "port  3:        UP, to device 2", and a line a counter. An owner that has not answered does not tell.
std::string statistics(const DeviceView& device, int port) {
  const int peer = telemetry::portPeer(device.status, port);
  std::string where = linkText(device, port) + ", ";
  where += peer >= 0 ? base::strCat("to device ", peer) : "external";
  std::string text = portLine(port, where);
  for (const telemetry::PortCounter& counter : telemetry::portCounters(device.status, port)) {
    char line[80];
    snprintf(line, sizeof line, "    %-20s ", std::string(counter.name).c_str());
    text += line;
    text += device.known() ? std::to_string(counter.value) : "N/A";
    text += '\n';
  }
  return text;
}

}  // namespace

StatusOr<std::string> formatNic(const NodeView& view, std::string_view kind, std::string_view ports) {
  if (kind != "link" && kind != "ports" && kind != "stats")
    return invalidArgument(base::strCat("--nic: unknown kind '", kind, "'; give link, ports or stats",
                                        base::didYouMean(kind, std::vector<std::string>{"link", "ports", "stats"})));
  std::string text;
  for (const DeviceView& device : view.devices) {
    HPU_ASSIGN(std::vector<int> shown, portsOf(device, ports, kind != "link"));
    if (view.devices.size() > 1)
      text += base::strCat("[", device.status.index, "] AIP (accel", device.status.index, ") ",
                           device.status.pciAddress, "\n");
    for (int port : shown) {
      if (kind == "stats") {
        text += statistics(device, port);
        continue;
      }
      text += portLine(port, kind == "link"                    ? linkText(device, port)
                             : device.board().isExternal(port) ? "external"
                                                               : "internal");
    }
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string formatTopology(const NodeView& view, int width) {
  std::vector<std::string> titles(1);
  for (const DeviceView& device : view.devices) titles.push_back(base::strCat("AIP", device.status.index));
  titles.insert(titles.end(), {"Module", "Bus-Id"});
  tools::Table table = tools::Table::ofWords(titles);
  for (const DeviceView& device : view.devices) {
    std::vector<std::string> row = {base::strCat("AIP", device.status.index)};
    for (const DeviceView& other : view.devices) {
      if (other.status.index == device.status.index)
        row.emplace_back("X");
      else if (other.status.target == device.status.target && !device.status.lost && !other.status.lost)
        row.push_back(base::strCat("NIC", device.board().linksPerPeer()));
      else
        row.emplace_back("PCI");
    }
    row.push_back(std::to_string(device.status.moduleId));
    row.push_back(device.status.pciAddress);
    table.row(std::move(row));
  }
  std::string text = table.text(width);
  text += "\n\n  X     the device itself\n  NICn  n Ethernet links inside the box";
  if (!view.devices.empty()) text += base::strCat(" of ", view.devices.front().board().portGigabits, " Gbit/s each");
  text += "\n  PCI   through the host: devices of different kinds, or a lost one";
  return text;
}

}  // namespace hpu::smi
