// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/Report.h"

#include <cstdio>

#include "base/Format.h"
#include "tools/common/Fixed.h"

namespace hpu::tools {
namespace {

/// GB/s (10^9) of S bytes in `us`.
double algorithmBandwidth(const Workload& work, double us) {
  return us > 0 ? static_cast<double>(work.bytes()) / us / 1e3 : 0;
}

std::string redopText(const Workload& work) {
  return work.reduces() ? reduceOpName(work.redop) : "none";
}
int rootOf(const Workload& work) {
  return work.rooted() ? work.root : -1;
}

}  // namespace

TableLines reportTable(bool measured, int width) {
  // As wide as nccl-tests has them; the '#' that begins its heads is where the first column does.
  std::vector<Column> columns = {Column::number("#        size").unit("#         (B)").width(13, true),
                                 Column::number("count").unit("(elements)").width(13, true).gap(1).leaveOut(6),
                                 Column::word("type").width(9, true).gap(1).leaveOut(7),
                                 Column::word("redop").width(6, true).gap(1).leaveOut(8),
                                 Column::word("root").width(5, true).gap(1).leaveOut(9),
                                 Column::word("place").width(6, true).gap(1).leaveOut(1)};
  if (measured)
    columns.insert(columns.end(), {Column::number("wall time").unit("(us)").width(11, true).gap(1),
                                   Column::number("algbw").unit("(GB/s)").width(6, true).gap(1).leaveOut(4),
                                   Column::number("busbw").unit("(GB/s)").width(7, true).gap(1),
                                   Column::number("#wrong").width(7, true).gap(1)});
  columns.insert(columns.end(), {Column::number("device time").unit("(us)").width(11, true).gap(measured ? 1 : 2),
                                 Column::number("algbw").unit("(GB/s)").width(8, true).gap(1).leaveOut(3),
                                 Column::number("busbw").unit("(GB/s)").width(8, true).gap(1),
                                 Column::number("predicted").unit("(us)").width(11, true).gap(1).leaveOut(5),
                                 Column::word("algorithm").width(16).leaveOut(2)});
  return TableLines(std::move(columns), width);
}

std::vector<std::string> reportRow(const Workload& work, bool inPlace, const Measurement& result,
                                   const Expected& expected, bool measured) {
  std::vector<std::string> row = {base::strCat(work.bytes()), base::strCat(work.count),
                                  dataTypeName(work.type),    redopText(work),
                                  base::strCat(rootOf(work)), inPlace ? "in" : "out"};
  if (measured) {
    const double bandwidth = algorithmBandwidth(work, result.wallUs);
    row.insert(row.end(), {fixed(result.wallUs, 2), fixed(bandwidth, 2), fixed(bandwidth * work.busFactor(), 2),
                           result.wrong >= 0 ? base::strCat(result.wrong) : "n/a"});
  }
  const double bandwidth = algorithmBandwidth(work, result.deviceUs);
  row.insert(row.end(), {fixed(result.deviceUs, 2), fixed(bandwidth, 2), fixed(bandwidth * work.busFactor(), 2),
                         expected.predictedUs > 0 ? fixed(expected.predictedUs, 2) : "n/a", expected.algorithm});
  return row;
}

Json lineJson(const Workload& work, bool inPlace, const Measurement& result, const Expected& expected, bool measured) {
  double device = algorithmBandwidth(work, result.deviceUs), wall = algorithmBandwidth(work, result.wallUs);
  Json line;
  line.set("bytes", work.bytes())
      .set("count", work.count)
      .set("dtype", dataTypeName(work.type))
      .set("op", redopText(work));
  line.set("collective", perfOpNames()[static_cast<size_t>(work.op)]).set("root", static_cast<int64_t>(rootOf(work)));
  line.set("ranks", static_cast<int64_t>(work.ranks)).set("in_place", inPlace);
  line.set("wall_us", measured ? Json(result.wallUs) : Json());
  line.set("wall_algbw_GBps", measured ? Json(wall) : Json());
  line.set("wall_busbw_GBps", measured ? Json(wall * work.busFactor()) : Json());
  line.set("device_us", result.deviceUs)
      .set("device_algbw_GBps", device)
      .set("device_busbw_GBps", device * work.busFactor());
  line.set("predicted_us", expected.predictedUs > 0 ? Json(expected.predictedUs) : Json());
  line.set("lower_bound_us", expected.boundUs > 0 ? Json(expected.boundUs) : Json());
  line.set("algorithm", expected.algorithm).set("reason", expected.reason);
  line.set("wrong", result.wrong >= 0 ? Json(result.wrong) : Json());
  return line;
}

void Averages::add(const Workload& work, const Measurement& result) {
  wall_ += algorithmBandwidth(work, result.wallUs) * work.busFactor();
  device_ += algorithmBandwidth(work, result.deviceUs) * work.busFactor();
  ++lines_;
}

void Averages::report(Tool& tool, bool measured) const {
  if (lines_ == 0) return;
  const auto lines = static_cast<double>(lines_);
  char text[64];
  snprintf(text, sizeof text, "# Avg bus bandwidth    : %g", (measured ? wall_ : device_) / lines);
  tool.print(text);
  tool.json()
      .set("wall_avg_busbw_GBps", measured ? Json(wall_ / lines) : Json())
      .set("device_avg_busbw_GBps", device_ / lines);
}

}  // namespace hpu::tools
