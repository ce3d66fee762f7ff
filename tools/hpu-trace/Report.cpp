// SPDX-License-Identifier: Apache-2.0
// Formatting of times, shares and operation rows.
#include "tools/hpu-trace/Report.h"

#include <algorithm>
#include <cstdio>

#include "runtime/trace/Export.h"

namespace hpu::tools {

using trace::Track;

namespace {

std::string formatPicoseconds(double value) {
  const char* unit = "ps";
  for (const char* next : {"ns", "us", "ms", "s"}) {
    if (value < 1000 && value > -1000) break;
    value /= 1000;
    unit = next;
  }
  char text[48];
  std::snprintf(text, sizeof text, "%.4g %s", value, unit);
  return text;
}

}  // namespace

std::string formatTime(Picoseconds time) {
  return formatPicoseconds(static_cast<double>(time));
}
std::string formatHostTime(int64_t nanoseconds) {
  return formatPicoseconds(static_cast<double>(nanoseconds) * 1e3);
}

std::string formatShare(Picoseconds part, Picoseconds whole) {
  if (whole <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

std::string printable(std::string_view text) {
  std::string out = trace::toUtf8(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

Json termsJson(const Terms& terms) {
  Json json = Json::object();
  for (size_t t = 0; t < terms.size(); ++t)
    json.set(perfmodel::termName(static_cast<perfmodel::Term>(t)), microseconds(terms[t]));
  return json;
}

Json topJson(const std::vector<TopRow>& rows, size_t most, Picoseconds whole) {
  Json json = Json::array();
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const TopRow& row = rows[i];
    Json entry = Json::object();
    entry.set("name", row.name).set("engine", row.engine).set("nodes", row.node).set("node_ops", row.nodeOp);
    entry.set("fused", row.fused);
    entry.set("count", row.work.count).set("total_us", microseconds(row.work.busy));
    entry.set("share", whole > 0 ? static_cast<double>(row.work.busy) / static_cast<double>(whole) : 0.0);
    entry.set("min_us", microseconds(row.work.shortest)).set("max_us", microseconds(row.work.longest));
    entry.set("sync_us", microseconds(row.work.sync));
    entry.set("bound_by", row.work.boundBy()).set("main_loss", perfmodel::termName(row.work.mainLoss()));
    entry.set("hbm_bytes", static_cast<int64_t>(row.work.hbmBytes))
        .set("sram_bytes", static_cast<int64_t>(row.work.sramBytes));
    entry.set("terms_us", termsJson(row.work.terms));
    json.append(std::move(entry));
  }
  return json;
}

Table topTable(const std::vector<TopRow>& rows, size_t most, Picoseconds whole) {
  Table table({Column::number("share"), Column::number("time"), Column::number("count").leaveOut(3),
               Column::word("engine").leaveOut(1), Column::word("bound by").leaveOut(2), Column::text("main loss"),
               Column::name("name").key().least(kLeastName), Column::name("nodes").leaveOut(4).least(kLeastName)});
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const TopRow& row = rows[i];
    perfmodel::Term loss = row.work.mainLoss();
    std::string lost = loss == perfmodel::Term::kIdeal
                           ? "-"
                           : std::string(perfmodel::termName(loss)) + " " +
                                 formatShare(row.work.terms[static_cast<size_t>(loss)], row.work.busy + row.work.sync);
    table.row({formatShare(row.work.busy, whole), formatTime(row.work.busy), std::to_string(row.work.count), row.engine,
               std::string(row.work.boundBy()), lost, printable(row.name), printable(row.node)});
  }
  return table;
}

bool recorded(const Analysis& a, int track) {
  return a.notRecorded.empty() || a.engines[static_cast<size_t>(track)].count > 0;
}

void summaryJson(Json& json, const TraceData& trace, const Analysis& a, const std::vector<TopRow>& top, size_t most,
                 const std::vector<std::string>& advice) {
  json.set("device_time_us", microseconds(a.deviceTime));
  json.set("host_time_us", static_cast<double>(a.hostNs) / 1e3);
  json.set("devices", static_cast<int64_t>(a.devices)).set("launches", a.launches);
  Json engines = Json::object();
  for (int t = 0; t < kNumTracks; ++t) {
    auto i = static_cast<size_t>(t);
    const WorkSum& e = a.engines[i];
    std::string_view name = trackName(static_cast<Track>(t));
    if (!a.present[i]) {
      // An engine that the target lacks is null; the links only appear when they were used.
      if (t <= static_cast<int>(Track::kDma)) engines.set(name, Json());
      continue;
    }
    Json entry = Json::object();
    if (!recorded(a, t)) {
      for (const char* key : {"device_time_us", "busy_us", "busy_percent", "sync_us", "exposed_us", "slices",
                              "bound_by", "hbm_bytes", "sram_bytes", "terms_us"})
        entry.set(key, Json());
      engines.set(name, std::move(entry));
      continue;
    }
    entry.set("device_time_us", microseconds(e.busy)).set("busy_us", microseconds(e.busy));
    entry.set("busy_percent",
              a.deviceTimeSum > 0 ? 100.0 * static_cast<double>(e.busy) / static_cast<double>(a.deviceTimeSum) : 0.0);
    entry.set("sync_us", microseconds(e.sync)).set("exposed_us", microseconds(a.exposed(static_cast<Track>(t))));
    entry.set("slices", e.count).set("bound_by", e.boundBy());
    entry.set("hbm_bytes", static_cast<int64_t>(e.hbmBytes)).set("sram_bytes", static_cast<int64_t>(e.sramBytes));
    entry.set("terms_us", termsJson(e.terms));
    engines.set(name, std::move(entry));
  }
  json.set("engines", std::move(engines));
  const bool whole = a.notRecorded.empty();
  json.set("not_recorded", whole ? Json() : Json(a.notRecorded));
  auto time = [&](Picoseconds value) { return whole ? Json(microseconds(value)) : Json(); };
  Json overlap = Json::object();
  overlap.set("mme_tpc_us", time(a.overlap(Track::kMme, Track::kTpc)));
  overlap.set("mme_dma_us", time(a.overlap(Track::kMme, Track::kDma)));
  overlap.set("tpc_dma_us", time(a.overlap(Track::kTpc, Track::kDma)));
  overlap.set("mme_nic_us", time(a.overlap(Track::kMme, Track::kNic)));
  overlap.set("tpc_nic_us", time(a.overlap(Track::kTpc, Track::kNic)));
  json.set("overlap", std::move(overlap));
  Json idle = Json::object();
  idle.set("waiting_for_signals_us", time(a.idleInLaunch)).set("nothing_launched_us", time(a.idleOutside));
  json.set("idle", std::move(idle));
  json.set("why_not_peak_us", whole ? termsJson(a.all.terms) : Json());
  json.set("attributed_fraction", whole ? Json(a.attributedFraction()) : Json());
  json.set("dropped_events", trace.dropped).set("stopped", trace.stopped);
  json.set("top", topJson(top, most, a.all.busy));
  Json host = Json::array();
  for (size_t i = 0; i < std::min<size_t>(a.host.size(), 10); ++i) {
    const HostRow& row = a.host[i];
    host.append(Json::object()
                    .set("name", row.name)
                    .set("category", row.category)
                    .set("count", row.count)
                    .set("self_us", static_cast<double>(row.selfNs) / 1e3)
                    .set("total_us", static_cast<double>(row.totalNs) / 1e3));
  }
  json.set("host", std::move(host));
  Json sentences = Json::array();
  for (const std::string& sentence : advice) sentences.append(sentence);
  json.set("advice", std::move(sentences));
}

}  // namespace hpu::tools
