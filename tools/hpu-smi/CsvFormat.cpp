// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "tools/hpu-smi/Formats.h"

namespace hpu::smi {
namespace {

using node::Fault;

struct Field {
  std::string_view name, unit;
  bool needsWindow;
  /// Empty: the device does not have it (shown as N/A).
  std::function<std::string(const NodeView&, const DeviceView&)> value;
};

template <typename Number>
std::string text(Number number) {
  return std::to_string(number);
}

template <typename Get>
auto fact(Get get) {
  return [get](const NodeView&, const DeviceView& d) { return get(d); };
}
/// A reading that a lost device does not give, nor one whose owner has not answered.
template <typename Get>
auto reading(Get get) {
  return fact([get](const DeviceView& d) {
    return d.readable() ? text(static_cast<int64_t>(std::llround(get(d)))) : std::string();
  });
}
/// What the owner tells, also of a lost device.
template <typename Get>
auto told(Get get) {
  return fact([get](const DeviceView& d) { return d.known() ? text(get(d)) : std::string(); });
}
auto faultCount(Fault fault) {
  return told([fault](const DeviceView& d) { return d.faults(fault); });
}
auto engineShare(Engine engine) {
  return reading([engine](const DeviceView& d) { return 100 * d.readings.engine[static_cast<int>(engine)]; });
}
auto networkCount(node::NetworkCounter counter) {
  return told([counter](const DeviceView& d) { return d.status.network[static_cast<int>(counter)]; });
}
/// Over all the device's ports, or those of its rail.
int64_t carried(const DeviceView& d, node::PortTraffic node::LinkTraffic::* way, bool railOnly) {
  int64_t bytes = 0;
  for (int link = 0; link < node::kLinks; ++link)
    if (link != d.status.index && (!railOnly || link == node::kRail)) bytes += (d.status.links[link].*way).bytes;
  return bytes;
}
std::string notThere(const NodeView&, const DeviceView&) {
  return {};
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = {
      {"timestamp", "", false, [](const NodeView& v, const DeviceView&) { return v.timestamp; }},
      {"name", "", false, fact([](const DeviceView& d) { return d.status.name; })},
      {"bus_id", "", false, fact([](const DeviceView& d) { return d.status.pciAddress; })},
      {"driver_version", "", false, [](const NodeView& v, const DeviceView&) { return v.driverVersion; }},
      {"nic_driver_version", "", false, notThere},
      {"temperature.aip", "C", true, reading([](const DeviceView& d) { return d.readings.celsius; })},
      {"module_id", "", false, fact([](const DeviceView& d) { return text(int64_t{d.status.moduleId}); })},
      {"utilization.aip", "%", true, reading([](const DeviceView& d) { return 100 * d.readings.utilization; })},
      {"utilization.memory", "%", false, told([](const DeviceView& d) {
         double total = static_cast<double>(std::max<int64_t>(d.status.totalBytes, 1));
         return toPercent(static_cast<double>(d.status.usedBytes) / total);
       })},
      {"memory.total", "MiB", false, fact([](const DeviceView& d) { return text(toMiB(d.status.totalBytes)); })},
      {"memory.free", "MiB", false,
       told([](const DeviceView& d) { return toMiB(d.status.totalBytes) - toMiB(d.status.usedBytes); })},
      {"memory.used", "MiB", false, told([](const DeviceView& d) { return toMiB(d.status.usedBytes); })},
      {"index", "", false, fact([](const DeviceView& d) { return text(int64_t{d.status.index}); })},
      {"serial", "", false, fact([](const DeviceView& d) { return d.status.serial; })},
      {"uuid", "", false, fact([](const DeviceView& d) { return d.status.uuid; })},
      {"power.draw", "W", true, reading([](const DeviceView& d) { return d.readings.watts; })},
      {"ecc.errors.uncorrected.aggregate.total", "", false, faultCount(Fault::kUncorrectedEcc)},
      {"ecc.errors.uncorrected.volatile.total", "", false, faultCount(Fault::kUncorrectedEcc)},
      {"ecc.errors.corrected.aggregate.total", "", false, faultCount(Fault::kCorrectedEcc)},
      {"ecc.errors.corrected.volatile.total", "", false, faultCount(Fault::kCorrectedEcc)},
      {"ecc.errors.dram.aggregate.total", "", false, faultCount(Fault::kUncorrectedEcc)},
      {"ecc.errors.dram-corrected.aggregate.total", "", false, faultCount(Fault::kCorrectedEcc)},
      {"ecc.errors.dram.volatile.total", "", false, faultCount(Fault::kUncorrectedEcc)},
      {"ecc.errors.dram-corrected.volatile.total", "", false, faultCount(Fault::kCorrectedEcc)},
      {"ecc.mode.current", "", false, fact([](const DeviceView&) { return std::string("Enabled"); })},
      {"ecc.mode.pending", "", false, fact([](const DeviceView&) { return std::string("Enabled"); })},
      {"stats.violation.power", "ns", false,
       told([](const DeviceView& d) { return telemetry::powerViolationNs(d.status); })},
      {"stats.violation.thermal", "ns", false, fact([](const DeviceView&) { return std::string("0"); })},
      {"clocks.current.soc", "MHz", false, reading([](const DeviceView& d) { return d.clocks.mme; })},
      {"clocks.max.soc", "MHz", false, reading([](const DeviceView& d) { return d.clocks.mmeMax; })},
      {"clocks.limit.soc", "MHz", false, reading([](const DeviceView& d) { return d.clocks.mmeMax; })},
      {"clocks.limit.tpc", "MHz", false, reading([](const DeviceView& d) { return d.clocks.tpcMax; })},
      {"pcie.link.gen.max", "", false,
       fact([](const DeviceView& d) { return text(int64_t{d.board().pcieGeneration}); })},
      {"pcie.link.gen.current", "", false,
       fact([](const DeviceView& d) { return text(int64_t{d.board().pcieGeneration}); })},
      {"pcie.link.width.max", "", false, fact([](const DeviceView& d) { return text(int64_t{d.board().pcieLanes}); })},
      {"pcie.link.width.current", "", false,
       fact([](const DeviceView& d) { return text(int64_t{d.board().pcieLanes}); })},
      {"pcie.link.speed.max", "GT/s", false,
       fact([](const DeviceView& d) { return text(std::llround(d.board().pcieGigatransfers)); })},
      {"pcie.link.speed.current", "GT/s", false,
       fact([](const DeviceView& d) { return text(std::llround(d.board().pcieGigatransfers)); })},
      // What hl-smi has not got.
      {"utilization.mme", "%", true, engineShare(Engine::kMme)},
      {"utilization.tpc", "%", true, engineShare(Engine::kTpc)},
      {"utilization.dma", "%", true, engineShare(Engine::kDma)},
      {"utilization.nic", "%", true, engineShare(Engine::kNic)},
      {"pcie.rx", "KB/s", true, reading([](const DeviceView& d) { return d.readings.receivedPerSecond / 1000; })},
      {"pcie.tx", "KB/s", true, reading([](const DeviceView& d) { return d.readings.sentPerSecond / 1000; })},
      {"nic.tx.bytes", "B", false,
       told([](const DeviceView& d) { return carried(d, &node::LinkTraffic::sent, false); })},
      {"nic.rx.bytes", "B", false,
       told([](const DeviceView& d) { return carried(d, &node::LinkTraffic::received, false); })},
      {"nic.rail.tx.bytes", "B", false,
       told([](const DeviceView& d) { return carried(d, &node::LinkTraffic::sent, true); })},
      {"nic.rail.rx.bytes", "B", false,
       told([](const DeviceView& d) { return carried(d, &node::LinkTraffic::received, true); })},
      {"nic.retransmitted", "", false, networkCount(node::NetworkCounter::kRetransmitted)},
      {"nic.bad_icrc", "", false, networkCount(node::NetworkCounter::kBadIcrc)},
      {"energy", "mJ", false, reading([](const DeviceView& d) { return d.readings.joules * 1000; })},
      {"queue.depth", "", false, told([](const DeviceView& d) { return int64_t{d.status.queuedWork}; })},
      {"pid", "", false,
       fact([](const DeviceView& d) { return d.status.owner.pid > 0 ? text(d.status.owner.pid) : std::string(); })},
      {"state", "", false, fact([](const DeviceView& d) { return std::string(d.state()); })},
  };
  return all;
}

/// Words between commas without the blanks around them.
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    out.emplace_back(word);
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<std::string> csvFieldNames() {
  std::vector<std::string> names;
  for (const Field& field : fields()) names.emplace_back(field.name);
  return names;
}

StatusOr<CsvRequest> parseCsvRequest(std::string_view fieldText, std::string_view format) {
  CsvRequest request;
  bool isCsv = false;
  for (const std::string& word : words(format)) {
    if (word == "csv")
      isCsv = true;
    else if (word == "noheader")
      request.header = false;
    else if (word == "nounits")
      request.units = false;
    else
      return invalidArgument(
          base::strCat("--format: unknown word '", word, "'; give csv, with noheader and nounits if you like"));
  }
  if (!isCsv) return invalidArgument("--format: 'csv' is missing; it is the only format there is");
  for (const std::string& word : words(fieldText)) {
    auto it = std::find_if(fields().begin(), fields().end(), [&](const Field& field) { return field.name == word; });
    if (it == fields().end())
      return invalidArgument(base::strCat("--query-aip: unknown field '", word, "'; valid fields are ",
                                          base::join(csvFieldNames()), base::didYouMean(word, csvFieldNames())));
    request.fields.push_back(static_cast<size_t>(it - fields().begin()));
    request.needsWindow |= it->needsWindow;
  }
  return request;
}

std::string formatCsvHeader(const CsvRequest& request) {
  std::string line;
  for (size_t f : request.fields) {
    const Field& field = fields()[f];
    if (!line.empty()) line += ", ";
    line += field.name;
    if (!field.unit.empty()) line += base::strCat(" [", field.unit, "]");
  }
  return line;
}

std::string formatCsvRows(const NodeView& view, const CsvRequest& request) {
  std::string lines;
  for (const DeviceView& device : view.devices) {
    if (!lines.empty()) lines += '\n';
    bool first = true;
    for (size_t f : request.fields) {
      const Field& field = fields()[f];
      std::string value = field.value(view, device);
      if (!first) lines += ", ";
      first = false;
      lines += value.empty() ? "N/A" : value;
      if (!value.empty() && request.units && !field.unit.empty()) lines += base::strCat(" ", field.unit);
    }
  }
  return lines;
}

}  // namespace hpu::smi
