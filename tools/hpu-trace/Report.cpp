// SPDX-License-Identifier: Apache-2.0
// Formatting of times, shares and operation rows.
#include "tools/hpu-trace/Report.h"

#include <algorithm>
#include <cstdio>

#include "runtime/trace/Export.h"

namespace hpu::tools {

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

std::vector<std::vector<std::string>> topTable(const std::vector<TopRow>& rows, size_t most, Picoseconds whole) {
  std::vector<std::vector<std::string>> table = {
      {"share", "time", "count", "engine", "bound by", "main loss", "name", "nodes"}};
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const TopRow& row = rows[i];
    perfmodel::Term loss = row.work.mainLoss();
    std::string lost = loss == perfmodel::Term::kIdeal
                           ? "-"
                           : std::string(perfmodel::termName(loss)) + " " +
                                 formatShare(row.work.terms[static_cast<size_t>(loss)], row.work.busy + row.work.sync);
    std::string nodes = printable(row.node.size() > 48 ? row.node.substr(0, 45) + "..." : row.node);
    table.push_back({formatShare(row.work.busy, whole), formatTime(row.work.busy), std::to_string(row.work.count),
                     row.engine, std::string(row.work.boundBy()), lost, printable(row.name), nodes});
  }
  return table;
}

}  // namespace hpu::tools
