// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/Export.h"

#include <algorithm>
#include <array>

#include "base/Format.h"

namespace hpu::collectives {
namespace {

using base::strCat;

using Row = std::vector<std::string>;

// "12.345": picoseconds as microseconds.
std::string microseconds(int64_t ps) {
  int64_t ns = (ps + 500) / 1000;
  std::string fraction = std::to_string(ns % 1000);
  return strCat(ns / 1000, ".", std::string(3 - fraction.size(), '0'), fraction);
}

std::string stepsText(const std::vector<int32_t>& steps) {
  if (steps.empty()) return "-";
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i) text += strCat(i ? "," : "", steps[i]);
  return text;
}

std::string table(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string exportText(const Schedule& schedule, const TextOptions& options) {
  const Problem& p = schedule.problem;
  std::string text = strCat(problemText(p), "\nalgorithm ", schedule.algorithm, ", ", schedule.slices,
                            schedule.slices == 1 ? " slice, " : " slices, ", schedule.steps.size(), " steps");
  if (schedule.scratchElements > 0)
    text += strCat(", scratch ", base::formatBytes(schedule.scratchElements * p.elementBytes));
  if (schedule.partialElements > 0)
    text += strCat(", partials ", base::formatBytes(schedule.partialElements * p.partialBytes));
  text += "\n";
  ScheduleTiming timing;
  if (options.links) {
    timing = timeSchedule(schedule, *options.links, std::vector<int64_t>(p.ranks, 0), true);
    int64_t end = 0;
    for (int64_t rankEnd : timing.endPs) end = std::max(end, rankEnd);
    text += strCat("modelled on ", targetName(options.links->target), ": ", microseconds(end),
                   " us; limit of the links ", microseconds(lowerBoundPs(p, *options.links)), " us\n");
  }
  text += "\n";
  std::vector<Row> rows;
  Row head{"step", "rank", "what", "from", "to", "bytes", "after"};
  if (options.links) head.insert(head.end(), {"start us", "end us"});
  rows.push_back(head);
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (options.rank >= 0 && step.rank != options.rank) continue;
    std::string from, to = rangeText(step.dst);
    for (const Range& source : step.sources) from += (from.empty() ? "" : " + ") + rangeText(source);
    const Range& size = step.kind == StepKind::kSend ? step.sources[0] : step.dst;
    if (step.kind == StepKind::kSend) to = strCat("rank ", step.peer);
    if (step.kind == StepKind::kRecv) from = strCat("rank ", step.peer);
    int64_t bytes = size.count * (size.buffer == BufferKind::kPartial ? p.partialBytes : p.elementBytes);
    Row row{std::to_string(i),     std::to_string(step.rank), std::string(stepName(step.kind)), from, to,
            std::to_string(bytes), stepsText(step.after)};
    if (options.links) {
      row.push_back(microseconds(timing.steps[i].startPs));
      row.push_back(microseconds(timing.steps[i].endPs));
    }
    rows.push_back(std::move(row));
  }
  return text + table(rows);
}

}  // namespace hpu::collectives
