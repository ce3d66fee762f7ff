// SPDX-License-Identifier: Apache-2.0
// hpu-trace overlap: which engines ran together, and what happened while an engine did not run.
#include <algorithm>
#include <memory>

#include "base/StatusMacros.h"
#include "tools/hpu-trace/Commands.h"
#include "tools/hpu-trace/Report.h"
#include "tools/hpu-trace/TraceFile.h"

namespace hpu::tools {
namespace {

using trace::Track;

/// "mme+tpc"; "nothing" for the empty set.
std::string setName(size_t mask) {
  std::string name;
  for (int t = 0; t < kNumTracks; ++t)
    if (mask >> t & 1) name += (name.empty() ? "" : "+") + std::string(trackName(static_cast<Track>(t)));
  return name.empty() ? "nothing" : name;
}

struct Options {
  TraceFile file;
  int64_t device = -1;
};

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  HPU_ASSIGN(TraceData trace, options.file.read(tool));
  HPU_RETURN_IF_ERROR(checkDevice(trace, options.device));
  HPU_RETURN_IF_ERROR(requireWork(trace, options.device));
  Analysis a = analyse(trace, options.device);
  Picoseconds whole = a.deviceTimeSum;
  tool.json().set("device_time_us", microseconds(whole)).set("devices", static_cast<int64_t>(a.devices));

  // Sets of engines, the longest first.
  std::vector<size_t> sets;
  for (size_t mask = 0; mask < a.together.size(); ++mask)
    if (a.together[mask] > 0) sets.push_back(mask);
  std::sort(sets.begin(), sets.end(),
            [&](size_t x, size_t y) { return a.together[x] != a.together[y] ? a.together[x] > a.together[y] : x < y; });
  Table table({Column::name("running"), Column::number("time"), Column::number("")});
  Json running = Json::object();
  for (size_t mask : sets) {
    table.row({setName(mask), formatTime(a.together[mask]), formatShare(a.together[mask], whole)});
    running.set(setName(mask), microseconds(a.together[mask]));
  }
  tool.print(table);
  tool.json().set("running_us", std::move(running));

  // For each engine, what else ran while it did not.
  Json engines = Json::object();
  tool.print("");
  table = Table({Column::word("engine"), Column::number("busy"), Column::number("alone"), Column::number("not busy"),
                 Column::text("meanwhile")});
  for (int t = 0; t < kNumTracks; ++t) {
    auto i = static_cast<size_t>(t);
    if (!a.present[i]) continue;
    Picoseconds notBusy = 0;
    for (size_t mask : sets)
      if (!(mask >> t & 1)) notBusy += a.together[mask];
    Picoseconds busy = whole - notBusy;
    Json meanwhile = Json::object();
    std::string text;
    for (size_t mask : sets) {
      if (mask >> t & 1 || mask == 0) continue;
      meanwhile.set(setName(mask), microseconds(a.together[mask]));
      text += (text.empty() ? "" : ", ") + setName(mask) + " " + formatShare(a.together[mask], whole);
    }
    meanwhile.set("waiting_for_signals", microseconds(a.idleInLaunch));
    meanwhile.set("nothing_launched", microseconds(a.idleOutside));
    if (a.idleInLaunch > 0)
      text += (text.empty() ? "" : ", ") + ("all wait for signals " + formatShare(a.idleInLaunch, whole));
    if (a.idleOutside > 0)
      text += (text.empty() ? "" : ", ") + ("nothing launched " + formatShare(a.idleOutside, whole));
    auto track = static_cast<Track>(t);
    table.row({std::string(trackName(track)), formatTime(busy) + " " + formatShare(busy, whole),
               formatShare(a.exposed(track), whole), formatShare(notBusy, whole), text.empty() ? "-" : text});
    engines.set(
        trackName(track),
        Json::object()
            .set("busy_us", microseconds(busy))
            .set("busy_percent", whole > 0 ? 100.0 * static_cast<double>(busy) / static_cast<double>(whole) : 0.0)
            .set("exposed_us", microseconds(a.exposed(track)))
            .set("not_busy_us", microseconds(notBusy))
            .set("meanwhile_us", std::move(meanwhile))
            .set("waiting_us", microseconds(a.engines[i].sync)));
  }
  tool.print(table);
  tool.json().set("engines", std::move(engines));
  Json overlap = Json::object();
  overlap.set("mme_tpc_us", microseconds(a.overlap(Track::kMme, Track::kTpc)));
  overlap.set("mme_dma_us", microseconds(a.overlap(Track::kMme, Track::kDma)));
  overlap.set("tpc_dma_us", microseconds(a.overlap(Track::kTpc, Track::kDma)));
  overlap.set("mme_nic_us", microseconds(a.overlap(Track::kMme, Track::kNic)));
  overlap.set("tpc_nic_us", microseconds(a.overlap(Track::kTpc, Track::kNic)));
  tool.json().set("overlap", std::move(overlap)).set("dropped_events", trace.dropped);
  return ExitCode::kOk;
}

}  // namespace

void addOverlapCommand(Tool& tool) {
  auto options = std::make_shared<Options>();
  CommandLine& command = tool.addCommand("overlap", "Which engines ran together, and what kept each of them waiting",
                                         [&tool, options] { return run(tool, *options); });
  options->file.addTo(command);
  command.addOption("--device", options->device, "Only this device (-1: all)");
}

}  // namespace hpu::tools
