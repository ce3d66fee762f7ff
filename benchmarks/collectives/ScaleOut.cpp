// SPDX-License-Identifier: Apache-2.0
// collectives_scaleout: the modelled device time of collectives on several nodes of eight, each algorithm's best number
// of chunks, against what the fabric's rates allow at best. "hcl" is a model of another library's algorithms. With
// --gate it is a test: exit code 2 when a bar is missed.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/Choose.h"
#include "collectives/scaleout/PlanTimer.h"
#include "collectives/scaleout/Program.h"
#include "tools/common/Cli.h"
#include "tools/common/Fixed.h"

namespace hpu::benchmarks {
namespace {

using base::strCat;
using collectives::Collective;
using collectives::Fabric;
using collectives::PlanAlgorithm;
using collectives::Problem;
using collectives::RankMap;
using tools::ExitCode;
using tools::fixed;
using tools::Json;
using tools::Tool;

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                       Collective::kAllToAll,  Collective::kBroadcast,     Collective::kReduce};
constexpr int64_t kGiB = int64_t{1} << 30;

// The bars at 1 GiB, as shares of what the wires carry; headers take 2 %.
constexpr double kMost = 0.98, kLeast = 0.96, kLeastOfMany = 0.95, kLeastRooted = 0.94;
/// Of nodes with different numbers of ranks: from 256 MiB on.
constexpr double kLeastUneven = 0.85;
constexpr int64_t kLargeUneven = 256 << 20;
/// 1 KiB on the most nodes over 1 KiB on two.
constexpr double kMostGrowth = 4;

struct Options {
  std::string target = "all", collective = "all", algorithm;
  int nodes = 0, chunks = 0;
  int64_t least = 1 << 10, most = kGiB, step = 32;
  bool gate = false, all = false, uneven = false;
};

/// Numbers of ranks of nodes.
const std::vector<std::vector<int32_t>>& unevenNodes() {
  static const std::vector<std::vector<int32_t>> all = [] {
    std::vector<std::vector<int32_t>> cases{{8, 4}, {8, 7}, {8, 8, 3}, {8, 8, 8, 3}, {8, 6, 4, 2}};
    for (const int32_t last : {7, 4}) {
      cases.emplace_back(8, 8);
      cases.back().back() = last;
      cases.emplace_back(16, 8);
      cases.back().back() = last;
    }
    cases.emplace_back(std::vector<int32_t>{8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4});
    return cases;
  }();
  return all;
}

/// "8 + 4", "15 x 8 + 7".
std::string nodesText(const std::vector<int32_t>& sizes) {
  std::string text;
  for (size_t i = 0; i < sizes.size();) {
    size_t end = i;
    while (end < sizes.size() && sizes[end] == sizes[i]) end++;
    text += strCat(i > 0 ? " + " : "", end - i > 2 ? strCat(end - i, " x ", sizes[i]) : strCat(sizes[i]));
    i = end - i > 2 ? end : i + 1;
  }
  return text;
}

Problem problemOf(Collective collective, int32_t ranks, int64_t bytes) {
  Problem p;
  p.collective = collective;
  p.ranks = ranks;
  p.count = bytes / p.elementBytes;
  if (collective == Collective::kReduceScatter || collective == Collective::kAllGather ||
      collective == Collective::kAllToAll)
    p.count = std::max<int64_t>(1, p.count / ranks);
  return p;
}

struct Timed {
  std::string algorithm;
  int32_t chunks = 1;
  int64_t ps = 0;
};

class ScaleOut {
 public:
  ScaleOut(Tool& tool, const Options& options) : tool_(tool), options_(options) {}

  StatusOr<ExitCode> run() {
    if (options_.uneven) {
      HPU_RETURN_IF_ERROR(uneven());
      return finish();
    }
    for (const Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
      if (options_.target != "all" && options_.target != targetName(target)) continue;
      for (const Collective collective : kCollectives) {
        if (options_.collective != "all" && options_.collective != collectiveName(collective)) continue;
        int64_t smallPs = 0;
        for (const int nodes : options_.nodes ? std::vector<int>{options_.nodes} : std::vector<int>{2, 4, 16, 128}) {
          const Fabric fabric = collectives::standardFabric(target, nodes);
          HPU_ASSIGN(const RankMap map, RankMap::all(fabric));
          for (int64_t bytes = options_.least; bytes <= options_.most; bytes *= options_.step)
            HPU_RETURN_IF_ERROR(row(fabric, map, collective, bytes, smallPs));
        }
      }
    }
    return finish();
  }

 private:
  ExitCode finish() {
    if (table_.size() > 1) tool_.print(tools::formatTable(table_));
    if (unevenTable_.size() > 1) tool_.print(tools::formatTable(unevenTable_));
    tool_.json().set("rows", rows_).set("uneven_rows", unevenRows_).set("missed", static_cast<int64_t>(missed_.size()));
    for (const std::string& line : missed_) tool_.note(line);
    return options_.gate && !missed_.empty() ? ExitCode::kMismatch : ExitCode::kOk;
  }

  Tool& tool_;
  const Options& options_;
  std::vector<std::vector<std::string>> table_ = {{"target", "nodes", "collective", "size", "algorithm", "chunks",
                                                   "time us", "of the fabric", "hcl (modelled) us"}};
  Json rows_ = Json::array(), unevenRows_ = Json::array();
  std::vector<std::vector<std::string>> unevenTable_ = {{"target", "ranks of nodes", "collective", "size", "algorithm",
                                                         "chunks", "time us", "of the fabric", "pairwise us"}};
  std::vector<std::string> missed_;

  StatusOr<Timed> best(const PlanAlgorithm& algorithm, const Problem& p, const RankMap& map, const Fabric& fabric) {
    Timed best;
    const std::vector<int32_t> choices =
        options_.chunks > 0 ? std::vector<int32_t>{options_.chunks} : algorithm.chunkChoices(p, map, fabric);
    for (const int32_t chunks : choices) {
      const auto plan = algorithm.make(p, map, {chunks});
      HPU_ASSIGN(const collectives::PlanTiming timing, timePlan(*plan, fabric));
      const int64_t ps = *std::max_element(timing.endPs.begin(), timing.endPs.end());
      if (options_.all)
        tool_.note(strCat("  ", map.nodes(), " ", collectiveName(p.collective), " ", base::formatBytes(problemBytes(p)),
                          " ", algorithm.name, " ", plan->chunks(), ": ", fixed(static_cast<double>(ps) / 1e6, 2),
                          " us, ", timing.classes, " classes, ", timing.events, " events"));
      if (best.algorithm.empty() || ps < best.ps) best = {std::string(algorithm.name), plan->chunks(), ps};
    }
    return best;
  }

  /// What choosePlan takes where nodes have different numbers of ranks, beside pairwise.
  Status uneven() {
    for (const Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
      if (options_.target != "all" && options_.target != targetName(target)) continue;
      for (const std::vector<int32_t>& sizes : unevenNodes()) {
        const Fabric fabric = collectives::standardFabric(target, static_cast<int32_t>(sizes.size()));
        std::vector<collectives::Place> places;
        for (size_t n = 0; n < sizes.size(); n++)
          for (int32_t l = 0; l < sizes[n]; l++) places.push_back({static_cast<int32_t>(n), l});
        HPU_ASSIGN(const RankMap map, RankMap::create(fabric, places));
        for (const Collective collective : kCollectives) {
          if (options_.collective != "all" && options_.collective != collectiveName(collective)) continue;
          for (int64_t bytes = options_.least; bytes <= options_.most; bytes *= options_.step)
            HPU_RETURN_IF_ERROR(
                unevenRow(fabric, map, nodesText(sizes), problemOf(collective, map.ranks(), bytes), bytes));
        }
      }
    }
    return {};
  }

  Status unevenRow(const Fabric& fabric, const RankMap& map, const std::string& nodes, const Problem& p,
                   int64_t bytes) {
    const auto timed = [&](const collectives::Plan& plan) -> StatusOr<int64_t> {
      HPU_ASSIGN(const collectives::PlanTiming timing, timePlan(plan, fabric));
      return *std::max_element(timing.endPs.begin(), timing.endPs.end());
    };
    HPU_ASSIGN(const collectives::PlanChoice choice, choosePlan(p, map, fabric));
    HPU_ASSIGN(const int64_t ps, timed(*choice.plan));
    HPU_ASSIGN(const PlanAlgorithm* const pairwise, collectives::findPlanAlgorithm("pairwise", p, map));
    HPU_ASSIGN(const int64_t pairwisePs, timed(*pairwise->make(p, map, {})));
    if (options_.all)
      for (const collectives::PlanCandidate& c : choice.candidates) {
        HPU_ASSIGN(const PlanAlgorithm* const algorithm, collectives::findPlanAlgorithm(c.algorithm, p, map));
        HPU_ASSIGN(const int64_t own, timed(*algorithm->make(p, map, {c.chunks})));
        tool_.note(strCat("  ", nodes, " ", collectiveName(p.collective), " ", base::formatBytes(bytes), " ",
                          c.algorithm, " ", c.chunks, ": ", fixed(static_cast<double>(own) / 1e6, 2), " us, ",
                          c.timed ? "timed " : "about ", fixed(static_cast<double>(c.predictedPs) / 1e6, 2)));
      }
    const double share = static_cast<double>(choice.lowerBoundPs) / static_cast<double>(ps);
    const std::string name(collectiveName(p.collective));
    unevenTable_.push_back({std::string(targetName(fabric.target)), nodes, name, base::formatBytes(bytes),
                            std::string(choice.plan->algorithm()), strCat(choice.plan->chunks()),
                            fixed(static_cast<double>(ps) / 1e6, 2), fixed(share * 100, 1) + " %",
                            fixed(static_cast<double>(pairwisePs) / 1e6, 2)});
    unevenRows_.append(Json::object()
                           .set("target", std::string(targetName(fabric.target)))
                           .set("nodes", nodes)
                           .set("collective", name)
                           .set("bytes", bytes)
                           .set("algorithm", std::string(choice.plan->algorithm()))
                           .set("chunks", choice.plan->chunks())
                           .set("time_us", static_cast<double>(ps) / 1e6)
                           .set("share_of_limit", share)
                           .set("pairwise_us", static_cast<double>(pairwisePs) / 1e6));
    const std::string what =
        strCat(targetName(fabric.target), ", nodes of ", nodes, ", ", name, " of ", base::formatBytes(bytes), ": ");
    if (bytes >= kLargeUneven && share < kLeastUneven)
      missed_.push_back(strCat(what, fixed(share * 100, 2), " % of what the fabric allows; the bar is ",
                               fixed(kLeastUneven * 100, 0)));
    // On the slow links of Gaudi 1 a node of few ranks takes by its rails what the bound has on the mesh.
    if (share > kMost && fabric.target != Target::kGaudi1)
      missed_.push_back(strCat(what, fixed(share * 100, 2), " %: more than the headers leave"));
    if (ps > pairwisePs) missed_.push_back(strCat(what, choice.plan->algorithm(), " is slower than pairwise"));
    return {};
  }

  Status row(const Fabric& fabric, const RankMap& map, Collective collective, int64_t bytes, int64_t& smallPs) {
    const Problem p = problemOf(collective, map.ranks(), bytes);
    Timed ours, hcl;
    for (const PlanAlgorithm& algorithm : collectives::planAlgorithms()) {
      if (!algorithm.accepts(p, map) || (!options_.algorithm.empty() && algorithm.name != options_.algorithm)) continue;
      // Every rank's messages to every other one: not among many ranks.
      if (algorithm.name == "pairwise" && map.ranks() > 64) continue;
      HPU_ASSIGN(const Timed timed, best(algorithm, p, map, fabric));
      Timed& kept = algorithm.name == "hcl" ? hcl : ours;
      if (kept.algorithm.empty() || timed.ps < kept.ps) kept = timed;
    }
    if (ours.algorithm.empty()) return {};
    const double share = static_cast<double>(lowerBoundPs(p, map, fabric)) / static_cast<double>(ours.ps);
    const std::string name(collectiveName(collective));
    table_.push_back({std::string(targetName(fabric.target)), strCat(map.nodes()), name, base::formatBytes(bytes),
                      ours.algorithm, strCat(ours.chunks), fixed(static_cast<double>(ours.ps) / 1e6, 2),
                      fixed(share * 100, 1) + " %",
                      hcl.algorithm.empty() ? "-" : fixed(static_cast<double>(hcl.ps) / 1e6, 2)});
    rows_.append(Json::object()
                     .set("target", std::string(targetName(fabric.target)))
                     .set("nodes", map.nodes())
                     .set("collective", name)
                     .set("bytes", bytes)
                     .set("algorithm", ours.algorithm)
                     .set("chunks", ours.chunks)
                     .set("time_us", static_cast<double>(ours.ps) / 1e6)
                     .set("share_of_limit", share)
                     .set("hcl_modelled_us", static_cast<double>(hcl.ps) / 1e6));
    const std::string what =
        strCat(targetName(fabric.target), ", ", map.nodes(), " nodes, ", name, " of ", base::formatBytes(bytes), ": ");
    const bool rooted = collective == Collective::kBroadcast || collective == Collective::kReduce;
    const double least = rooted ? kLeastRooted : map.nodes() > 16 ? kLeastOfMany : kLeast;
    if (bytes == kGiB && share < least)
      missed_.push_back(
          strCat(what, fixed(share * 100, 2), " % of what the fabric allows; the bar is ", fixed(least * 100, 0)));
    if (share > kMost) missed_.push_back(strCat(what, fixed(share * 100, 2), " %: more than the headers leave"));
    if (bytes == 1024) {
      if (map.nodes() == 2) smallPs = ours.ps;
      const double growth = smallPs > 0 ? static_cast<double>(ours.ps) / static_cast<double>(smallPs) : 1;
      if (growth > kMostGrowth) missed_.push_back(strCat(what, fixed(growth, 2), " times the time of 2 nodes"));
    }
    return {};
  }
};

}  // namespace
}  // namespace hpu::benchmarks

int main(int argc, char** argv) {
  using namespace hpu::benchmarks;
  Tool tool("collectives_scaleout",
            "Modelled device time of collectives on several nodes, and its share of what the fabric allows.");
  Options options;
  tool.addChoice("--target", options.target, {"all", "gaudi1", "gaudi2", "gaudi3"}, "Of the nodes");
  std::vector<std::string> names{"all"};
  for (const Collective collective : kCollectives) names.emplace_back(collectiveName(collective));
  tool.addChoice("--collective", options.collective, names, "What is measured");
  tool.addOption("--algorithm", options.algorithm, "Only this one");
  tool.addOption("--nodes", options.nodes, "0 for 2, 4, 16 and 128");
  tool.addOption("--chunks", options.chunks, "0 for those that each algorithm proposes");
  tool.addBytes("--min", options.least, "Smallest size, of all ranks' data together");
  tool.addBytes("--max", options.most, "Largest size");
  tool.addOption("--factor", options.step, "From one size to the next");
  tool.addFlag("--candidates", options.all, "Every algorithm and number of chunks, too");
  tool.addFlag("--uneven", options.uneven,
               "Only nodes with different numbers of ranks: what is chosen, beside pairwise");
  tool.addFlag("--gate", options.gate, "Exit code 2 when a bar is missed");
  return tool.run(argc, argv, [&]() -> hpu::StatusOr<ExitCode> { return ScaleOut(tool, options).run(); });
}
