// SPDX-License-Identifier: Apache-2.0
// collectives_scaleout: the modelled device time of collectives on several nodes of eight: of the plan that choosePlan
// takes, and of the best of all candidates, against what the fabric's rates allow at best. "hcl" is a model of another
// library's algorithms. Times are exact (timePlan), never estimates. With --gate it is a test: exit code 2 when a bar
// is missed by what is chosen.
#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
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
/// What is chosen takes at most as many times as long as the best of all candidates.
constexpr double kMostOverBest = 1.15;
constexpr int64_t kLargeUneven = 256 << 20;
/// 1 KiB on the most nodes over 1 KiB on two.
constexpr double kMostGrowth = 4;

struct Options {
  std::string target = "all", collective = "all", algorithm;
  int nodes = 0, chunks = 0;
  int64_t least = 1 << 10, most = kGiB, step = 32;
  bool gate = false, all = false, uneven = false, chosen = false;
};

/// Nodes with different numbers of ranks, and the least shares of what the fabric allows, in per cent, by kCollectives,
/// from 256 MiB on: a point to a point and a half below what is chosen for 1 GiB on the target where it is least.
struct Uneven {
  std::vector<int32_t> ranks;
  std::array<double, std::size(kCollectives)> least;
};

/// From {how many nodes, ranks of each}.
std::vector<int32_t> nodesOf(const std::vector<std::pair<int, int32_t>>& runs) {
  std::vector<int32_t> ranks;
  for (const auto& [nodes, each] : runs) ranks.insert(ranks.end(), static_cast<size_t>(nodes), each);
  return ranks;
}

const std::vector<Uneven>& unevenNodes() {
  static const std::vector<Uneven> all = {
      {nodesOf({{1, 8}, {1, 4}}), {96.5, 96.5, 96.5, 96.5, 90.0, 95.0}},
      {nodesOf({{1, 8}, {1, 7}}), {96.5, 96.5, 96.5, 96.5, 86.0, 94.0}},
      {nodesOf({{1, 8}, {1, 8}, {1, 3}}), {96.5, 96.5, 96.5, 96.5, 91.0, 95.0}},
      {nodesOf({{3, 8}, {1, 3}}), {96.5, 96.5, 96.5, 96.5, 90.0, 94.5}},
      {nodesOf({{1, 8}, {1, 6}, {1, 4}, {1, 2}}), {96.5, 96.5, 96.5, 96.5, 82.5, 95.0}},
      {nodesOf({{7, 8}, {1, 7}}), {96.5, 96.5, 96.5, 96.5, 84.5, 89.0}},
      {nodesOf({{15, 8}, {1, 7}}), {96.5, 96.0, 96.0, 92.0, 82.5, 86.5}},
      {nodesOf({{7, 8}, {1, 4}}), {96.5, 96.5, 96.5, 96.5, 88.5, 92.5}},
      {nodesOf({{15, 8}, {1, 4}}), {96.5, 96.5, 96.5, 94.5, 88.0, 91.5}},
      {nodesOf({{8, 8}, {8, 4}}), {96.5, 82.5, 96.5, 96.5, 81.0, 90.0}},
  };
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
    if (!table_.empty()) tool_.print(table_);
    if (!unevenTable_.empty()) tool_.print(unevenTable_);
    tool_.json().set("rows", rows_).set("uneven_rows", unevenRows_).set("missed", static_cast<int64_t>(missed_.size()));
    for (const std::string& line : missed_) tool_.note(line);
    return options_.gate && !missed_.empty() ? ExitCode::kMismatch : ExitCode::kOk;
  }

  Tool& tool_;
  const Options& options_;
  tools::Table table_ = tools::Table::ofWords({"target", "nodes", "collective", "size", "algorithm", "chunks",
                                               "modelled us", "of the fabric", "best modelled us", "hcl modelled us"});
  Json rows_ = Json::array(), unevenRows_ = Json::array();
  tools::Table unevenTable_ = tools::Table::ofWords({"target", "ranks of nodes", "collective", "size", "algorithm",
                                                     "chunks", "modelled us", "of the fabric", "pairwise modelled us"});
  std::vector<std::string> missed_;

  StatusOr<Timed> bestOf(const PlanAlgorithm& algorithm, const Problem& p, const RankMap& map, const Fabric& fabric) {
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
                          " modelled us, ", timing.classes, " classes, ", timing.events, " events"));
      if (best.algorithm.empty() || ps < best.ps) best = {std::string(algorithm.name), plan->chunks(), ps};
    }
    return best;
  }

  /// What choosePlan takes where nodes have different numbers of ranks, beside pairwise.
  Status uneven() {
    for (const Target target : {Target::kGaudi1, Target::kGaudi2, Target::kGaudi3}) {
      if (options_.target != "all" && options_.target != targetName(target)) continue;
      for (const Uneven& one : unevenNodes()) {
        const std::vector<int32_t>& sizes = one.ranks;
        const Fabric fabric = collectives::standardFabric(target, static_cast<int32_t>(sizes.size()));
        std::vector<collectives::Place> places;
        for (size_t n = 0; n < sizes.size(); n++)
          for (int32_t l = 0; l < sizes[n]; l++) places.push_back({static_cast<int32_t>(n), l});
        HPU_ASSIGN(const RankMap map, RankMap::create(fabric, places));
        for (size_t c = 0; c < std::size(kCollectives); c++) {
          const Collective collective = kCollectives[c];
          if (options_.collective != "all" && options_.collective != collectiveName(collective)) continue;
          for (int64_t bytes = options_.least; bytes <= options_.most; bytes *= options_.step)
            HPU_RETURN_IF_ERROR(unevenRow(fabric, map, nodesText(sizes), problemOf(collective, map.ranks(), bytes),
                                          bytes, one.least[c] / 100));
        }
      }
    }
    return {};
  }

  Status unevenRow(const Fabric& fabric, const RankMap& map, const std::string& nodes, const Problem& p, int64_t bytes,
                   double least) {
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
                          c.algorithm, " ", c.chunks, ": ", fixed(static_cast<double>(own) / 1e6, 2), " modelled us, ",
                          c.timed ? "timed " : "about ", fixed(static_cast<double>(c.predictedPs) / 1e6, 2)));
      }
    const double share = static_cast<double>(choice.lowerBoundPs) / static_cast<double>(ps);
    const std::string name(collectiveName(p.collective));
    unevenTable_.row({std::string(targetName(fabric.target)), nodes, name, base::formatBytes(bytes),
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
                           .set("modelled_us", static_cast<double>(ps) / 1e6)
                           .set("share_of_limit", share)
                           .set("pairwise_modelled_us", static_cast<double>(pairwisePs) / 1e6));
    const std::string what =
        strCat(targetName(fabric.target), ", nodes of ", nodes, ", ", name, " of ", base::formatBytes(bytes), ": ");
    if (bytes >= kLargeUneven && share < least)
      missed_.push_back(
          strCat(what, fixed(share * 100, 2), " % of what the fabric allows; the bar is ", fixed(least * 100, 1)));
    // On the slow links of Gaudi 1 a node of few ranks takes by its rails what the bound has on the mesh.
    if (share > kMost && fabric.target != Target::kGaudi1)
      missed_.push_back(strCat(what, fixed(share * 100, 2), " %: more than the headers leave"));
    if (ps > pairwisePs) missed_.push_back(strCat(what, choice.plan->algorithm(), " is slower than pairwise"));
    return {};
  }

  /// What choosePlan takes, by its exact time.
  StatusOr<Timed> chosen(const Problem& p, const RankMap& map, const Fabric& fabric) {
    HPU_ASSIGN(const collectives::PlanChoice choice, choosePlan(p, map, fabric));
    HPU_ASSIGN(const collectives::PlanTiming timing, timePlan(*choice.plan, fabric));
    return Timed{std::string(choice.plan->algorithm()), choice.plan->chunks(),
                 *std::max_element(timing.endPs.begin(), timing.endPs.end())};
  }

  Status row(const Fabric& fabric, const RankMap& map, Collective collective, int64_t bytes, int64_t& smallPs) {
    const Problem p = problemOf(collective, map.ranks(), bytes);
    Timed best, hcl;
    for (const PlanAlgorithm& algorithm : collectives::planAlgorithms()) {
      if (!algorithm.accepts(p, map) || (!options_.algorithm.empty() && algorithm.name != options_.algorithm)) continue;
      // Every rank's messages to every other one: not among many ranks.
      if (algorithm.name == "pairwise" && map.ranks() > 64) continue;
      if (options_.chosen && algorithm.name != "hcl") continue;
      HPU_ASSIGN(const Timed timed, bestOf(algorithm, p, map, fabric));
      Timed& kept = algorithm.name == "hcl" ? hcl : best;
      if (kept.algorithm.empty() || timed.ps < kept.ps) kept = timed;
    }
    Timed ours = best;
    if (options_.algorithm.empty() && options_.chunks == 0) {
      HPU_ASSIGN(ours, chosen(p, map, fabric));
    }
    if (ours.algorithm.empty()) return {};
    const auto us = [](const Timed& timed) {
      return timed.algorithm.empty() ? std::string("-") : fixed(static_cast<double>(timed.ps) / 1e6, 2);
    };
    const double share = static_cast<double>(lowerBoundPs(p, map, fabric)) / static_cast<double>(ours.ps);
    const std::string name(collectiveName(collective));
    table_.row({std::string(targetName(fabric.target)), strCat(map.nodes()), name, base::formatBytes(bytes),
                ours.algorithm, strCat(ours.chunks), us(ours), fixed(share * 100, 1) + " %", us(best), us(hcl)});
    rows_.append(Json::object()
                     .set("target", std::string(targetName(fabric.target)))
                     .set("nodes", map.nodes())
                     .set("collective", name)
                     .set("bytes", bytes)
                     .set("algorithm", ours.algorithm)
                     .set("chunks", ours.chunks)
                     .set("modelled_us", static_cast<double>(ours.ps) / 1e6)
                     .set("share_of_limit", share)
                     .set("best_modelled_us", static_cast<double>(best.ps) / 1e6)
                     .set("hcl_modelled_us", static_cast<double>(hcl.ps) / 1e6));
    const std::string what = strCat(targetName(fabric.target), ", ", map.nodes(), " nodes, ", name, " of ",
                                    base::formatBytes(bytes), ", ", ours.algorithm, " in ", ours.chunks, " chunks: ");
    const bool rooted = collective == Collective::kBroadcast || collective == Collective::kReduce;
    const double least = rooted ? kLeastRooted : map.nodes() > 16 ? kLeastOfMany : kLeast;
    if (bytes == kGiB && share < least)
      missed_.push_back(
          strCat(what, fixed(share * 100, 2), " % of what the fabric allows; the bar is ", fixed(least * 100, 1)));
    if (share > kMost) missed_.push_back(strCat(what, fixed(share * 100, 2), " %: more than the headers leave"));
    if (!best.algorithm.empty() && static_cast<double>(ours.ps) > kMostOverBest * static_cast<double>(best.ps))
      missed_.push_back(strCat(what, us(ours), " modelled us, where ", best.algorithm, " in ", best.chunks,
                               " chunks takes ", us(best)));
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
  tool.addFlag("--chosen", options.chosen, "Only what is chosen and the model of HCL, not the best of all candidates");
  tool.addFlag("--uneven", options.uneven,
               "Only nodes with different numbers of ranks: what is chosen, beside pairwise");
  tool.addFlag("--gate", options.gate, "Exit code 2 when a bar is missed");
  return tool.run(argc, argv, [&]() -> hpu::StatusOr<ExitCode> { return ScaleOut(tool, options).run(); });
}
