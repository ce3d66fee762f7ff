// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Report.h"

#include <algorithm>
#include <cstdio>

#include "base/Format.h"
#include "tools/common/Fixed.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {
namespace {

using base::strCat;

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}
std::string opName(const SimResult& result) {
  return simOpNames()[static_cast<size_t>(result.work.op)];
}
/// "16 x 8", "16 (124)" when nodes differ.
std::string nodesText(const SimResult& result) {
  const auto& map = result.site->map;
  return map.ranksPerNode() > 0 ? strCat(map.nodes(), " x ", map.ranksPerNode())
                                : strCat(map.nodes(), " (", map.ranks(), ")");
}
std::string label(const SimResult& result, Side side) {
  switch (side) {
    case Side::kAlgorithms:
      return result.algorithm;
    case Side::kNodes:
      return nodesText(result) + " nodes";
    case Side::kFabrics:
      break;
  }
  return result.site->label;
}
/// What one row of a comparison has in common; algorithms that were chosen may differ from column to column.
std::string rowKey(const SimResult& result, Side side) {
  return strCat(result.work.askedBytes, "|", side == Side::kNodes ? "" : nodesText(result), "|",
                side == Side::kFabrics ? "" : result.site->label);
}
template <typename Of>
bool differ(const std::vector<SimResult>& results, Of of) {
  return std::any_of(results.begin(), results.end(), [&](const SimResult& r) { return of(r) != of(results[0]); });
}

}  // namespace

std::string headText(const std::vector<SimResult>& results) {
  const SimResult& first = results[0];
  const auto& map = first.site->map;
  std::string text = strCat("# ", opName(first));
  if (first.work.op != SimOp::kBarrier) text += " of " + dataTypeName(first.work.type);
  if (first.work.op == SimOp::kIncast) {
    text += strCat(", ", first.work.senders.size(), " ranks of other nodes to rank ", first.work.problem.destination);
  } else if (first.work.rooted()) {
    text += strCat(", root ", first.work.problem.root);
  }
  if (!differ(results, nodesText))
    text += strCat(", ", map.nodes(), map.nodes() == 1 ? " node, " : " nodes, ", map.ranks(), " devices");
  text += strCat(", '", first.site->fabric.name, "' (", targetName(first.site->fabric.target),
                 "); all times are modelled device times");
  return text;
}

Table resultsTable(const std::vector<SimResult>& results) {
  const bool nodes = differ(results, nodesText);
  const bool sites = differ(results, [](const SimResult& r) { return r.site->label; });
  std::vector<Column> columns;
  if (sites) columns.push_back(Column::text("fabric"));
  if (nodes) columns.push_back(Column::number("nodes"));
  columns.insert(columns.end(),
                 {Column::number("size (B)"), Column::number("count").leaveOut(3), Column::number("time (us)"),
                  Column::number("algbw (GB/s)").leaveOut(2), Column::number("busbw (GB/s)"),
                  Column::number("of the bound"), Column::name("algorithm"), Column::number("chunks").leaveOut(1)});
  Table table(std::move(columns));
  for (const SimResult& result : results) {
    std::vector<std::string> row;
    if (sites) row.push_back(result.site->label);
    if (nodes) row.push_back(nodesText(result));
    row.push_back(strCat(result.work.bytes()));
    row.push_back(strCat(result.work.problem.count));
    if (!result.plan) {
      row.insert(row.end(), {"-", "-", "-", "-", result.algorithm, "-"});
      table.row(std::move(row));
      continue;
    }
    row.insert(row.end(), {fixed(result.timeUs(), 3), fixed(result.algbwGBps(), 3), fixed(result.busbwGBps(), 3),
                           result.lowerBoundPs > 0 ? percent(result.shareOfBound()) : "-", result.algorithm,
                           strCat(result.plan->chunks())});
    table.row(std::move(row));
  }
  return table;
}

Table sideBySide(const std::vector<SimResult>& results, Side side) {
  std::vector<std::string> columns, keys;
  const auto add = [](std::vector<std::string>& list, std::string text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
  };
  for (const SimResult& result : results) add(columns, label(result, side)), add(keys, rowKey(result, side));
  const bool nodes = side != Side::kNodes && differ(results, nodesText);
  const bool sites = side != Side::kFabrics && differ(results, [](const SimResult& r) { return r.site->label; });
  std::vector<Column> heads = {Column::number("size (B)").key()};
  if (nodes) heads.push_back(Column::number("nodes").key());
  if (sites) heads.push_back(Column::text("fabric").key());
  for (size_t i = 0; i < columns.size(); ++i) {
    const int group = static_cast<int>(i) + 1;
    heads.insert(heads.end(),
                 {Column::text(columns[i]).unit("us").group(group), Column::number("").unit("GB/s bus").group(group),
                  Column::number("").unit("ratio").group(group)});
    if (side != Side::kAlgorithms) heads.push_back(Column::name("").unit("by").group(group));
  }
  Table table(std::move(heads));
  for (const std::string& key : keys) {
    std::vector<const SimResult*> cells(columns.size(), nullptr);
    const SimResult *any = nullptr, *fastest = nullptr;
    for (const SimResult& result : results) {
      if (rowKey(result, side) != key) continue;
      const std::string own = label(result, side);
      cells[static_cast<size_t>(std::find(columns.begin(), columns.end(), own) - columns.begin())] = &result;
      if (!any) any = &result;
      if (result.plan && (!fastest || result.timePs < fastest->timePs)) fastest = &result;
    }
    const SimResult* reference = side == Side::kAlgorithms ? fastest : cells[0];
    std::vector<std::string> row;
    row.push_back(strCat(any->work.bytes()));
    if (nodes) row.push_back(nodesText(*any));
    if (sites) row.push_back(any->site->label);
    for (const SimResult* cell : cells) {
      if (!cell || !cell->plan) {
        row.insert(row.end(), side == Side::kAlgorithms ? 3 : 4, "-");
        continue;
      }
      row.insert(row.end(), {fixed(cell->timeUs(), 3), fixed(cell->busbwGBps(), 2),
                             reference && reference->timePs > 0
                                 ? fixed(static_cast<double>(cell->timePs) / static_cast<double>(reference->timePs), 3)
                                 : "-"});
      if (side != Side::kAlgorithms) row.push_back(strCat(cell->algorithm, " x", cell->plan->chunks()));
    }
    table.row(std::move(row));
  }
  return table;
}

Json resultJson(const SimResult& result) {
  const auto& map = result.site->map;
  const Work& work = result.work;
  Json json = Json::object();
  json.set("nodes", static_cast<int64_t>(map.nodes())).set("devices", static_cast<int64_t>(map.ranks()));
  json.set("bytes", work.bytes())
      .set("asked_bytes", work.askedBytes)
      .set("count", work.problem.count)
      .set("dtype", dataTypeName(work.type));
  json.set("root", work.rooted() ? Json(static_cast<int64_t>(work.op == SimOp::kIncast ? work.problem.destination
                                                                                       : work.problem.root))
                                 : Json());
  if (work.op == SimOp::kIncast) json.set("senders", static_cast<int64_t>(work.senders.size()));
  if (!result.site->label.empty()) json.set("what_if", result.site->label);
  json.set("modelled", true).set("algorithm", result.algorithm);
  const bool priced = result.plan != nullptr;
  const auto when = [&](Json value) { return priced ? std::move(value) : Json(); };
  json.set("chunks", priced ? Json(static_cast<int64_t>(result.plan->chunks())) : Json());
  json.set("time_us", when(result.timeUs()))
      .set("algbw_GBps", when(result.algbwGBps()))
      .set("busbw_GBps", when(result.busbwGBps()))
      .set("lower_bound_us", when(result.boundUs()))
      .set("share_of_bound", result.lowerBoundPs > 0 ? when(result.shareOfBound()) : Json())
      .set("last_arrival_us", when(static_cast<double>(result.lastArrivalPs) / 1e6))
      .set("events", when(result.timing.events))
      .set("classes", when(result.timing.classes))
      .set("wall_ms", when(result.wallMs))
      .set("reason", result.reason);
  return json;
}

}  // namespace hpu::tools
