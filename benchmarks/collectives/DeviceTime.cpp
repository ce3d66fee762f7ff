// SPDX-License-Identifier: Apache-2.0
// collectives_device_time: the modelled device time of collectives on the devices of a node,
// against what their links allow at best. It needs no runtime: schedules, link model and tuner
// only. With --gate it is a test: exit code 2 when a bar is missed.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/tuner/Tuner.h"
#include "tools/common/Cli.h"
#include "tools/common/Fixed.h"

namespace hpu::benchmarks {
namespace {

using base::strCat;
using collectives::Choice;
using collectives::Collective;
using collectives::Problem;
using tools::ExitCode;
using tools::fixed;
using tools::Json;
using tools::Tool;

constexpr Collective kCollectives[] = {Collective::kAllReduce,   Collective::kAllGather, Collective::kReduceScatter,
                                       Collective::kAllToAll,    Collective::kBroadcast, Collective::kReduce,
                                       Collective::kPointToPoint};
constexpr int64_t kMiB = int64_t{1} << 20;

// The bars, as shares of what the wires carry: at 256 MiB, and never.
constexpr double kLeast = 0.96, kLeastTwoHops = 0.95, kMost = 0.99;

/// The least share at any size, by the textbook's law of a pipeline over two hops: in k slices it takes (1 + 1/k) of
/// the wire's time and k latencies, at best wire + 2 sqrt(wire x latency). Headers take 2 % of the wire, and an
/// operation that cannot be pipelined pays its latency twice. A schedule below that is not what such links allow.
double leastShare(double boundPs, const collectives::LinkModel& link) {
  const auto latencyPs = static_cast<double>(link.startPs + link.messagePs + link.messageIssuePs);
  return boundPs / (1.02 * boundPs + 2 * latencyPs + 2 * std::sqrt(latencyPs * boundPs));
}

/// What the vendor publishes of Gaudi 3 (docs.habana.ai, Collectives Performance), 8 devices.
struct Published {
  Collective collective;
  int64_t bytes;  // Of all ranks together, as nccl-tests counts.
  double busbw;   // GB/s.
};
constexpr Published kGaudi3[] = {{Collective::kAllReduce, 256 * kMiB, 512.957},
                                 {Collective::kAllGather, 8 * 16 * kMiB, 509.189}};
constexpr double kPublishedWithin = 0.01;

struct Options {
  std::string target = "all", collective = "all";
  int devices = 0;
  int64_t elementBytes = 4, least = 1 << 10, most = 1 << 30, step = 4;
  bool gate = false, candidates = false;
};

/// Sizes are totals, as nccl-tests has them.
Problem problemOf(Collective collective, int devices, int64_t bytes, int64_t elementBytes) {
  Problem p;
  p.collective = collective;
  p.ranks = devices;
  p.elementBytes = static_cast<int32_t>(elementBytes);
  p.partialBytes = static_cast<int32_t>(elementBytes < 4 ? 4 : elementBytes);
  p.count = bytes / elementBytes;
  p.destination = devices - 1;
  if (collective == Collective::kReduceScatter || collective == Collective::kAllGather ||
      collective == Collective::kAllToAll)
    p.count /= devices;
  return p;
}

std::string sizeText(int64_t bytes) {
  if (bytes >= kMiB && bytes % kMiB == 0) return strCat(bytes / kMiB, " MiB");
  if (bytes >= 1024 && bytes % 1024 == 0) return strCat(bytes / 1024, " KiB");
  return strCat(bytes, " B");
}

class DeviceTime {
 public:
  DeviceTime(Tool& tool, const Options& options) : tool_(tool), options_(options) {}

  StatusOr<ExitCode> run() {
    if (options_.elementBytes < 1 || options_.elementBytes > 8 || options_.least < 1 ||
        options_.most < options_.least || options_.most > (int64_t{1} << 40) || options_.step > 1024 ||
        options_.step < 2)
      return invalidArgument(
          "sizes must ascend from --min to --max (up to 1024 G) by a --factor of 2 to 1024, and "
          "elements have 1 to 8 bytes");
    if (options_.devices < 0 || options_.devices == 1 || options_.devices > 8)
      return invalidArgument(strCat("a node has no ", options_.devices, " devices to talk: 2 to 8"));
    for (const Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3})
      if (options_.target == "all" || options_.target == targetName(target)) HPU_RETURN_IF_ERROR(measure(target));
    tool_.print(table_);
    if (options_.candidates) tool_.print(reasons_);
    tool_.json().set("rows", rows_).set("missed", static_cast<int64_t>(missed_.size()));
    for (const std::string& line : missed_) tool_.note(line);
    return options_.gate && !missed_.empty() ? ExitCode::kMismatch : ExitCode::kOk;
  }

 private:
  Tool& tool_;
  const Options& options_;
  tools::Table table_ = tools::Table::ofWords({"target", "devices", "collective", "size", "time us", "algbw GB/s",
                                               "busbw GB/s", "of the links", "algorithm", "slices"});
  Json rows_ = Json::array();
  std::string reasons_;
  std::vector<std::string> missed_;

  Status measure(Target target) {
    collectives::Tuner tuner(collectives::linkModel(target), {});
    for (const int devices : options_.devices == 0 ? std::vector<int>{2, 4, 8} : std::vector<int>{options_.devices}) {
      for (const Collective collective : kCollectives) {
        if (options_.collective != "all" && options_.collective != collectiveName(collective)) continue;
        for (int64_t bytes = options_.least; bytes <= options_.most; bytes *= options_.step)
          HPU_RETURN_IF_ERROR(row(tuner, target, devices, collective, bytes));
      }
    }
    if (target != Target::kGaudi3 || !options_.gate) return {};
    for (const Published& published : kGaudi3) {
      const Problem p = problemOf(published.collective, 8, published.bytes, 4);
      HPU_ASSIGN(const std::shared_ptr<const Choice> choice, tuner.choose(p));
      const double busbw = busFactor(p.collective, p.ranks) * static_cast<double>(published.bytes) * 1000 /
                           static_cast<double>(choice->predictedPs);
      tool_.print(strCat("gaudi3, 8 devices, ", collectiveName(p.collective), " of ", sizeText(published.bytes), ": ",
                         fixed(busbw, 2), " GB/s, published ", fixed(published.busbw, 2)));
      if (busbw < published.busbw * (1 - kPublishedWithin) || busbw > published.busbw * (1 + kPublishedWithin))
        missed_.push_back(strCat(collectiveName(p.collective), " is not what was published"));
    }
    return {};
  }

  Status row(collectives::Tuner& tuner, Target target, int devices, Collective collective, int64_t bytes) {
    const Problem p = problemOf(collective, devices, bytes, options_.elementBytes);
    if (p.count == 0) return {};
    bytes = collectives::problemBytes(p);  // Of whole elements.
    HPU_ASSIGN(const std::shared_ptr<const Choice> choice, tuner.choose(p));
    const auto ps = static_cast<double>(choice->predictedPs);
    const double share = static_cast<double>(choice->lowerBoundPs) / ps;
    const double algbw = static_cast<double>(bytes) * 1000 / ps;
    const std::string name(collectiveName(collective));
    table_.row({std::string(targetName(target)), strCat(devices), name, sizeText(bytes), fixed(ps / 1e6, 2),
                fixed(algbw, 2), fixed(algbw * busFactor(p.collective, p.ranks), 2), fixed(share * 100, 1) + " %",
                choice->schedule->algorithm, strCat(choice->schedule->slices)});
    rows_.append(Json::object()
                     .set("target", std::string(targetName(target)))
                     .set("devices", devices)
                     .set("collective", name)
                     .set("bytes", bytes)
                     .set("time_us", ps / 1e6)
                     .set("algbw_gb_s", algbw)
                     .set("busbw_gb_s", algbw * busFactor(p.collective, p.ranks))
                     .set("share_of_limit", share)
                     .set("algorithm", choice->schedule->algorithm)
                     .set("slices", choice->schedule->slices));
    if (options_.candidates)
      reasons_ += strCat(targetName(target), " ", devices, " ", name, " ", sizeText(bytes), ": ", choice->reason, "\n");
    const bool twoHops = collective == Collective::kBroadcast || collective == Collective::kReduce ||
                         collective == Collective::kPointToPoint;
    const double least = bytes == 256 * kMiB ? twoHops ? kLeastTwoHops : kLeast
                                             : leastShare(static_cast<double>(choice->lowerBoundPs), tuner.links());
    if (share < least || share > kMost)
      missed_.push_back(strCat(targetName(target), ", ", devices, " devices, ", name, " of ", sizeText(bytes), ": ",
                               fixed(share * 100, 2), " % of what the links allow; the bars are ",
                               fixed(least * 100, 2), " and ", fixed(kMost * 100, 0)));
    return {};
  }
};

}  // namespace
}  // namespace hpu::benchmarks

int main(int argc, char** argv) {
  using namespace hpu::benchmarks;
  Tool tool("collectives_device_time",
            "Modelled device time of collectives on the devices of a node, and its share of what "
            "the links allow.");
  Options options;
  tool.addChoice("--target", options.target, {"all", "gaudi1", "gaudi2", "gaudi3"}, "Of the node");
  std::vector<std::string> names{"all"};
  for (const Collective collective : kCollectives) names.emplace_back(collectiveName(collective));
  tool.addChoice("--collective", options.collective, names, "What is measured");
  tool.addOption("--devices", options.devices, "2 to 8; 0 for 2, 4 and 8");
  tool.addOption("--element-bytes", options.elementBytes, "Size of an element");
  tool.addBytes("--min", options.least, "Smallest size, of all ranks' data together");
  tool.addBytes("--max", options.most, "Largest size");
  tool.addOption("--factor", options.step, "From one size to the next");
  tool.addFlag("--reasons", options.candidates, "What the tuner chose from, for each row");
  tool.addFlag("--gate", options.gate, "Exit code 2 when a bar is missed");
  return tool.run(argc, argv, [&]() -> hpu::StatusOr<ExitCode> { return DeviceTime(tool, options).run(); });
}
