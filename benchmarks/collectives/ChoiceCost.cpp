// SPDX-License-Identifier: Apache-2.0
// collectives_choice_cost: how long a rank of many nodes takes to choose what it does in an operation that is called
// for the first time, and what it did for it (ChoiceWork, the same on every machine); and how long its device time
// takes to find, which is not part of the choice. The times are those of this machine; coll_choice_cost_test has the
// bounds.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/PlanClock.h"
#include "collectives/tuner/Tuner.h"
#include "tools/common/Cli.h"
#include "tools/common/Fixed.h"

namespace hpu::benchmarks {
namespace {

using base::strCat;
using collectives::Cluster;
using collectives::Collective;
using collectives::Problem;
using tools::ExitCode;
using tools::fixed;
using tools::Json;
using tools::Tool;

struct Options {
  std::string target = "gaudi3";
  int nodes = 128, last = 8, rounds = 5;
  int64_t least = 1 << 10, most = int64_t{1} << 30, step = 1024;
  bool time = false;
};

double msOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

StatusOr<ExitCode> run(Tool& tool, const Options& options) {
  if (options.nodes < 2 || options.last < 1 || options.last > 8 || options.rounds < 1 || options.step < 2)
    return invalidArgument("--nodes is at least 2, --last 1 to 8, --rounds at least 1, --factor at least 2");
  Target target = Target::kGaudi3;
  for (const Target one : {Target::kGaudi1, Target::kGaudi2})
    if (options.target == targetName(one)) target = one;
  auto cluster = std::make_shared<Cluster>();
  cluster->fabric = collectives::standardFabric(target, options.nodes);
  std::vector<collectives::Place> places;
  for (int32_t n = 0; n < options.nodes; ++n)
    for (int32_t l = 0; l < (n + 1 == options.nodes ? options.last : 8); ++l) places.push_back({n, l});
  HPU_ASSIGN(cluster->map, collectives::RankMap::create(cluster->fabric, std::move(places)));
  const int32_t ranks = cluster->map.ranks();
  tool.print(strCat(ranks, " ranks on ", options.nodes, " nodes of ", options.target, ", the choice of rank ",
                    ranks / 2, " for its first call, milliseconds of this machine: median (least to most) of ",
                    options.rounds));
  Json rows = Json::array();
  double worst = 0;
  for (int c = 0; c < collectives::kNumCollectives; ++c)
    for (int64_t bytes = options.least; bytes <= options.most; bytes *= options.step) {
      Problem p;
      p.collective = static_cast<Collective>(c);
      p.ranks = ranks;
      p.destination = ranks - 1;
      p.count = bytes / p.elementBytes;
      if (problemBytes(p) > bytes) p.count = std::max<int64_t>(1, p.count / ranks);
      std::vector<double> ms;
      StatusOr<std::shared_ptr<const collectives::Choice>> choice = internalError("no round");
      for (int round = 0; round < options.rounds; ++round) {
        collectives::Tuner tuner(cluster, ranks / 2);
        ms.push_back(msOf([&] {
          choice = tuner.choose(p);
          if (choice.ok()) (*choice)->timer->use(ranks / 2);
        }));
        HPU_RETURN_IF_ERROR(choice.status());
      }
      std::sort(ms.begin(), ms.end());
      const collectives::Choice& chosen = **choice;
      const double median = ms[ms.size() / 2];
      worst = std::max(worst, median);
      const double timeMs = options.time ? msOf([&] { chosen.timer->predictPs(); }) : 0;
      tool.print(strCat("  ", collectiveName(p.collective), " of ", base::formatBytes(problemBytes(p)), ": ",
                        fixed(median, 2), " (", fixed(ms.front(), 2), " to ", fixed(ms.back(), 2), "); ",
                        chosen.work.estimates, " estimates, ", chosen.work.steps, " steps written, ",
                        chosen.work.simulated, " simulated, ", chosen.work.peers, " peers; ",
                        options.time ? strCat("device time in ", fixed(timeMs, 1), "; ") : std::string(),
                        chosen.schedule->algorithm, ", ", chosen.schedule->slices, " chunks"));
      rows.append(Json::object()
                      .set("collective", std::string(collectiveName(p.collective)))
                      .set("bytes", problemBytes(p))
                      .set("choice_ms", median)
                      .set("least_ms", ms.front())
                      .set("most_ms", ms.back())
                      .set("estimates", chosen.work.estimates)
                      .set("steps", chosen.work.steps)
                      .set("simulated", chosen.work.simulated)
                      .set("peers", chosen.work.peers)
                      .set("device_time_ms", timeMs)
                      .set("algorithm", chosen.schedule->algorithm)
                      .set("chunks", chosen.schedule->slices));
      if (bytes > options.most / options.step) break;
    }
  tool.print(strCat("the slowest choice: ", fixed(worst, 2), " ms"));
  tool.json().set("ranks", ranks).set("rows", rows).set("slowest_ms", worst);
  return ExitCode::kOk;
}

}  // namespace
}  // namespace hpu::benchmarks

int main(int argc, char** argv) {
  using namespace hpu::benchmarks;
  Tool tool("collectives_choice_cost", "What choosing an algorithm costs a rank of many nodes.");
  Options options;
  tool.addChoice("--target", options.target, {"gaudi1", "gaudi2", "gaudi3"}, "Of the nodes");
  tool.addOption("--nodes", options.nodes, "Nodes of eight ranks");
  tool.addOption("--last", options.last, "Ranks of the last node");
  tool.addOption("--rounds", options.rounds, "How often each choice is made");
  tool.addBytes("--min", options.least, "Smallest size, of all ranks' data together");
  tool.addBytes("--max", options.most, "Largest size");
  tool.addOption("--factor", options.step, "From one size to the next");
  tool.addFlag("--time", options.time,
               "Also how long the device time of the operation takes to find, if it is not known");
  return tool.run(argc, argv, [&]() -> hpu::StatusOr<ExitCode> { return run(tool, options); });
}
