// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-perf/Report.h"

#include <cstdio>

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

std::string headerText(bool measured) {
  char text[512];
  snprintf(text, sizeof text, "# %11s %13s %9s %6s %5s %6s %s %11s %8s %8s %11s  %s", "size", "count", "type", "redop",
           "root", "place", measured ? "  wall time  algbw   busbw  #wrong" : "", "device time", "algbw", "busbw",
           "predicted", "algorithm");
  std::string line = text;
  snprintf(text, sizeof text, "\n# %11s %13s %9s %6s %5s %6s %s %11s %8s %8s %11s", "(B)", "(elements)", "", "", "", "",
           measured ? "       (us) (GB/s)  (GB/s)        " : "", "(us)", "(GB/s)", "(GB/s)", "(us)");
  return line + text;
}

std::string lineText(const Workload& work, bool inPlace, const Measurement& result, const Expected& expected,
                     bool measured) {
  char text[512], wall[128] = "";
  if (measured) {
    double bandwidth = algorithmBandwidth(work, result.wallUs);
    char wrong[24] = "n/a";
    if (result.wrong >= 0) snprintf(wrong, sizeof wrong, "%lld", static_cast<long long>(result.wrong));
    snprintf(wall, sizeof wall, "%11.2f %6.2f %7.2f %7s", result.wallUs, bandwidth, bandwidth * work.busFactor(),
             wrong);
  }
  double bandwidth = algorithmBandwidth(work, result.deviceUs);
  char predicted[24] = "n/a";
  if (expected.predictedUs > 0) snprintf(predicted, sizeof predicted, "%.2f", expected.predictedUs);
  snprintf(text, sizeof text, "%13lld %13lld %9s %6s %5d %6s %s %11.2f %8.2f %8.2f %11s  %s",
           static_cast<long long>(work.bytes()), static_cast<long long>(work.count), dataTypeName(work.type).c_str(),
           redopText(work).c_str(), rootOf(work), inPlace ? "in" : "out", wall, result.deviceUs, bandwidth,
           bandwidth * work.busFactor(), predicted, expected.algorithm.c_str());
  return text;
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
