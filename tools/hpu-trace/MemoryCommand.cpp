// SPDX-License-Identifier: Apache-2.0
// hpu-trace memory: who moves how much in HBM and SRAM, how fast over time, and recorded counters.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "runtime/trace/ExportTracks.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

using trace::TracedDevice;
using trace::Track;

struct Options {
  TraceFile file;
  std::string groupBy = "operation";
  int64_t device = -1, limit = 20, windows = 50;
};

/// Traffic over equal windows of the device's time; a slice's bytes are spread evenly over it.
struct Traffic {
  std::vector<double> hbm, sram;
  Picoseconds window = 1;
};

Traffic trafficOf(const TracedDevice& device, int64_t windows) {
  Picoseconds start = INT64_MAX, end = INT64_MIN;
  forEachSlice(device, [&](const trace::EngineSlice& s) {
    start = std::min(start, s.start);
    end = std::max(end, s.end);
  });
  Traffic traffic;
  traffic.hbm.assign(static_cast<size_t>(windows), 0);
  traffic.sram = traffic.hbm;
  if (end <= start) return traffic;
  traffic.window = (end - start + windows - 1) / windows;
  forEachSlice(device, [&](const trace::EngineSlice& s) {
    auto length = static_cast<double>(std::max<Picoseconds>(s.end - s.start, 1));
    auto first = static_cast<size_t>((s.start - start) / traffic.window);
    for (size_t w = std::min(first, traffic.hbm.size() - 1); w < traffic.hbm.size(); ++w) {
      Picoseconds from = start + static_cast<Picoseconds>(w) * traffic.window;
      Picoseconds part = std::min(s.end, from + traffic.window) - std::max(s.start, from);
      if (part <= 0 && s.end > s.start) break;
      double share = s.end > s.start ? static_cast<double>(part) / length : 1;
      traffic.hbm[w] += share * static_cast<double>(s.bytes.hbm);
      traffic.sram[w] += share * static_cast<double>(s.bytes.sram);
      if (s.end <= s.start) break;
    }
  });
  return traffic;
}

std::string rateText(double gbps) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GB/s", gbps);
  return text;
}

struct Counter {
  int64_t samples = 0, least = 0, most = 0, last = 0;
};

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  if (options.windows < 1 || options.windows > 100000) return invalidArgument("--windows must be 1 to 100000");
  HPU_ASSIGN(TraceData trace, options.file.read(tool));
  HPU_RETURN_IF_ERROR(checkDevice(trace, options.device));
  HPU_RETURN_IF_ERROR(requireWork(trace, options.device));
  Json devices = Json::array();
  for (const TracedDevice& d : trace.devices) {
    if (options.device >= 0 && d.index != static_cast<uint64_t>(options.device)) continue;
    const arch::TargetDesc& target = arch::targetDesc(d.target);
    Analysis a = analyse(trace, d.index);
    Traffic traffic = trafficOf(d, options.windows);
    auto rate = [&](double bytes, Picoseconds time) {
      return time > 0 ? bytes * 1e3 / static_cast<double>(time) : 0.0;
    };
    double hbmPeak = rate(*std::max_element(traffic.hbm.begin(), traffic.hbm.end()), traffic.window);
    double sramPeak = rate(*std::max_element(traffic.sram.begin(), traffic.sram.end()), traffic.window);
    auto hbm = static_cast<double>(a.all.hbmBytes), sram = static_cast<double>(a.all.sramBytes);
    Json json = Json::object();
    json.set("index", static_cast<int64_t>(d.index)).set("device_time_us", microseconds(a.deviceTime));
    tool.print(trace::deviceTitle(trace, d) + ", " + formatTime(a.deviceTime));
    Table table({Column::word("memory"), Column::number("moved"), Column::number("average"),
                 Column::number("peak window"), Column::number("ceiling")});
    auto memory = [&](const char* name, double bytes, double peak, double ceiling, const std::vector<double>& windows) {
      table.row({name, base::formatBytes(static_cast<int64_t>(bytes)), rateText(rate(bytes, a.deviceTime)),
                 rateText(peak), rateText(ceiling)});
      Json series = Json::array();
      for (double w : windows) series.append(rate(w, traffic.window));
      json.set(name, Json::object()
                         .set("bytes", static_cast<int64_t>(bytes))
                         .set("average_GBps", rate(bytes, a.deviceTime))
                         .set("peak_GBps", peak)
                         .set("ceiling_GBps", ceiling)
                         .set("windows_GBps", std::move(series)));
    };
    memory("hbm", hbm, hbmPeak, target.hbmBytesPerNs * target.hbmEfficiency, traffic.hbm);
    memory("sram", sram, sramPeak, target.sramBytesPerNs, traffic.sram);
    json.set("window_us", microseconds(traffic.window));
    tool.print(table);

    // The kernels and transfers that move it.
    std::vector<TopRow> rows = topRows(trace, parseGroupBy(options.groupBy), d.index);
    std::stable_sort(rows.begin(), rows.end(), [](const TopRow& x, const TopRow& y) {
      return x.work.hbmBytes + x.work.sramBytes > y.work.hbmBytes + y.work.sramBytes;
    });
    auto most = static_cast<size_t>(std::max<int64_t>(options.limit, 0));
    table = Table({Column::number("HBM"), Column::number("SRAM"), Column::number("waits for memory"),
                   Column::word("engine"), Column::name("name").key()});
    Json top = Json::array();
    for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
      const WorkSum& work = rows[i].work;
      Picoseconds waiting = work.terms[static_cast<size_t>(perfmodel::Term::kMemory)];
      table.row({base::formatBytes(static_cast<int64_t>(work.hbmBytes)),
                 base::formatBytes(static_cast<int64_t>(work.sramBytes)), formatShare(waiting, work.busy),
                 rows[i].engine, printable(rows[i].name)});
      top.append(Json::object()
                     .set("name", rows[i].name)
                     .set("engine", rows[i].engine)
                     .set("hbm_bytes", static_cast<int64_t>(work.hbmBytes))
                     .set("sram_bytes", static_cast<int64_t>(work.sramBytes))
                     .set("memory_us", microseconds(waiting)));
    }
    tool.print("");
    tool.print(table);
    json.set("top", std::move(top));

    // What programs recorded with hpu::trace's counters, on the device clock.
    std::map<trace::StringId, Counter> counters;
    for (const trace::CounterSample& sample : d.counters) {
      Counter& c = counters[sample.name];
      c.least = c.samples ? std::min(c.least, sample.value) : sample.value;
      c.most = c.samples ? std::max(c.most, sample.value) : sample.value;
      c.last = sample.value;
      ++c.samples;
    }
    Json values = Json::object();
    table = Table({Column::name("counter"), Column::number("samples").leaveOut(1), Column::number("least"),
                   Column::number("most"), Column::number("last")});
    for (const auto& [name, c] : counters) {
      table.row({printable(trace.text(name)), std::to_string(c.samples), std::to_string(c.least),
                 std::to_string(c.most), std::to_string(c.last)});
      values.set(trace.text(name),
                 Json::object().set("samples", c.samples).set("min", c.least).set("max", c.most).set("last", c.last));
    }
    if (!counters.empty()) {
      tool.print("");
      tool.print(table);
    }
    json.set("counters", std::move(values));
    devices.append(std::move(json));
  }
  tool.json().set("devices", std::move(devices)).set("dropped_events", trace.dropped);
  return ExitCode::kOk;
}

}  // namespace

void addMemoryCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command =
      tool.addCommand("memory", "Traffic of HBM and SRAM: by operation and over time; recorded counters",
                      [&tool, options] { return run(tool, *options); });
  options->file.addTo(command);
  command.addOption("--device", options->device, "Only this device (-1: all)");
  command.addOption("-n,--limit", options->limit, "Operations to list");
  command.addOption("--windows", options->windows, "Parts that device time is cut into for the peak");
  command.addChoice("--group-by", options->groupBy, groupByNames(), "What makes a row");
}

}  // namespace hpu::tools
