// SPDX-License-Identifier: Apache-2.0
// hccl-perf: measures collectives as nccl-tests does, in wall time and in modelled device time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/communicator/Problems.h"
#include "collectives/fabric/FabricFile.h"
#include "collectives/scaleout/PlanClock.h"
#include "collectives/schedule/Export.h"
#include "collectives/tuner/Tuner.h"
#include "collectives/tuner/TunerTable.h"
#include "tools/common/Cli.h"
#include "tools/common/Interrupt.h"
#include "tools/common/OutputCheck.h"
#include "tools/hccl-perf/LaunchedRanks.h"
#include "tools/hccl-perf/LocalRanks.h"
#include "tools/hccl-perf/Report.h"
#include "tools/hccl-perf/SpreadRanks.h"
#include "tools/hccl-perf/Workload.h"

namespace hpu::tools {
namespace {

struct Arguments {
  std::string op, target = "gaudi2", root = "0", table, network;
  std::vector<std::string> types, redops;
  int64_t minBytes = 32 << 20, maxBytes = 32 << 20, stepBytes = 0;
  double factor = 2;
  int ranks = 2, nodes = 1, iterations = 20, warmup = 5;
  int64_t timeoutMs = 600000;
  bool noData = false, noCheck = false, blocking = false, threads = false, explain = false;
  bool schedule = false;
  std::string chakra;
};

StatusOr<std::vector<Workload>> workloadsOf(const Arguments& arguments, Target target) {
  HPU_ASSIGN(PerfOp op, parsePerfOp(arguments.op));
  HPU_ASSIGN(std::vector<int64_t> sizes,
             sizesBetween(arguments.minBytes, arguments.maxBytes, arguments.stepBytes, arguments.factor));
  auto expand = [](std::vector<std::string> names, const std::vector<std::string>& all) {
    return names.size() == 1 && names[0] == "all" ? all : names;
  };
  std::vector<int> roots;
  if (arguments.root == "all") {
    for (int rank = 0; rank < arguments.ranks; ++rank) roots.push_back(rank);
  } else {
    char* end = nullptr;
    long root = std::strtol(arguments.root.c_str(), &end, 10);
    if (*end || arguments.root.empty() || root < 0 || root >= arguments.ranks)
      return invalidArgument(base::strCat("--root must be a rank from 0 to ", arguments.ranks - 1, ", or all"));
    roots.push_back(static_cast<int>(root));
  }
  Workload probe;
  probe.op = op;
  std::vector<std::string> redops = expand(arguments.redops, allReduceOpNames());
  if (!probe.reduces()) redops.resize(1);
  if (!probe.rooted()) roots.resize(1);
  std::vector<Workload> works;
  for (const std::string& typeName : expand(arguments.types, allDataTypeNames())) {
    HPU_ASSIGN(ElementType type, parseDataType(typeName, target));
    for (const std::string& redopName : redops) {
      HPU_ASSIGN(collectives::ReduceOp redop, parseReduceOp(redopName));
      for (int root : roots)
        for (int64_t bytes : sizes) works.push_back(workloadOf(op, type, redop, root, arguments.ranks, bytes));
    }
  }
  return works;
}

constexpr int kDevicesPerNode = 8;

/// What chooses for the ranks as they are divided here, on the network that their communicator will take.
StatusOr<std::unique_ptr<collectives::Tuner>> makeTuner(const Arguments& arguments, Target target,
                                                        collectives::TunerTable table) {
  using namespace collectives;
  if (arguments.nodes == 1) return std::make_unique<Tuner>(linkModel(target), std::move(table));
  auto cluster = std::make_shared<Cluster>();
  HPU_ASSIGN(cluster->fabric, settingsFabric(target, arguments.nodes));
  std::vector<Place> places;
  std::vector<int32_t> used(static_cast<size_t>(arguments.nodes));
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    const int node = nodeOfRank(rank, arguments.ranks, arguments.nodes);
    places.push_back({node, used[static_cast<size_t>(node)]++});
  }
  HPU_ASSIGN(cluster->map, RankMap::create(cluster->fabric, std::move(places)));
  return std::make_unique<Tuner>(std::move(cluster), 0, std::move(table));
}

/// What the tuner says. Messages have no schedule.
StatusOr<Expected> expectedOf(collectives::Tuner& tuner, const Workload& work) {
  Expected expected;
  if (work.op == PerfOp::kSendRecv) {
    expected.algorithm = "direct";
    return expected;
  }
  collectives::Problem problem = collectives::problemOf(work.operation(), work.ranks, work.count, work.type, work.root);
  HPU_ASSIGN(std::shared_ptr<const collectives::Choice> choice, tuner.choose(problem));
  expected.predictedUs = static_cast<double>(choice->timer->predictPs()) / 1e6;
  expected.boundUs = static_cast<double>(choice->lowerBoundPs) / 1e6;
  expected.algorithm = choice->schedule->algorithm;
  if (choice->schedule->slices > 1) expected.algorithm += base::strCat(" x", choice->schedule->slices);
  expected.reason = choice->reason;
  expected.schedule = choice->schedule;
  return expected;
}

Expected expectedOf(const collectives::Prediction& prediction) {
  Expected expected;
  expected.predictedUs = static_cast<double>(prediction.predictedNs) / 1e3;
  expected.boundUs = static_cast<double>(prediction.lowerBoundNs) / 1e3;
  expected.algorithm = prediction.algorithm;
  if (prediction.slices > 1) expected.algorithm += base::strCat(" x", prediction.slices);
  expected.reason = prediction.reason;
  return expected;
}

/// With --schedule and --chakra: the steps, for people and for other programs.
Status exportSchedule(Tool& tool, const Arguments& arguments, const Expected& expected,
                      const collectives::LinkModel& links) {
  if (arguments.schedule) {
    collectives::TextOptions options;
    options.links = &links;
    tool.printAsIs(collectives::exportText(*expected.schedule, options));
  }
  if (arguments.chakra.empty()) return okStatus();
  std::vector<std::string> documents = collectives::exportChakra(*expected.schedule, links);
  for (size_t rank = 0; rank < documents.size(); ++rank)
    HPU_RETURN_IF_ERROR(tool.writes(base::strCat(arguments.chakra, ".", rank, ".json")));
  for (size_t rank = 0; rank < documents.size(); ++rank)
    HPU_RETURN_IF_ERROR(base::writeFileAtomic(base::strCat(arguments.chakra, ".", rank, ".json"), documents[rank]));
  return okStatus();
}

/// Which rank of how many: a launcher's, unless --ranks says otherwise.
StatusOr<collectives::LauncherEnvironment> launcherOf(Tool& tool, Arguments& arguments) {
  if (tool.given("--ranks")) return collectives::LauncherEnvironment();
  auto launch = collectives::launcherEnvironment();
  if (!launch.ok()) return invalidArgument(launch.status().message() + " (--ranks N starts ranks of its own)");
  if (launch->source.empty()) return launch;
  if (launch->rank != 0) tool.silence();
  if (arguments.threads)
    return invalidArgument(base::strCat("--threads: this process is rank ", launch->rank, " of ", launch->ranks, " of ",
                                        launch->source, "; give --ranks to have ranks as threads of each"));
  if (arguments.nodes != 1)
    return invalidArgument(base::strCat("--nodes: this process is rank ", launch->rank, " of ", launch->ranks, " of ",
                                        launch->source, ", whose HPU_NODE says which node it is on"));
  arguments.ranks = launch->ranks;
  return launch;
}

StatusOr<ExitCode> body(Tool& tool, Arguments& arguments) {
  HPU_ASSIGN(collectives::LauncherEnvironment launch, launcherOf(tool, arguments));
  HPU_ASSIGN(Target target, parseTarget(arguments.target));
  if (!tool.given("--target")) tool.note("no --target: gaudi2");
  if (arguments.ranks < 1) return invalidArgument("--ranks must be at least 1");
  if (arguments.nodes < 1 || arguments.nodes > arguments.ranks)
    return invalidArgument(base::strCat("--nodes ", arguments.nodes, ": each needs one of the ", arguments.ranks,
                                        " ranks at least (--ranks)"));
  if (launch.source.empty() && (arguments.ranks + arguments.nodes - 1) / arguments.nodes > kDevicesPerNode)
    return invalidArgument(base::strCat(arguments.ranks, " ranks on ", arguments.nodes, " node",
                                        arguments.nodes == 1 ? "" : "s", ": a node has ", kDevicesPerNode,
                                        " devices; give more --nodes"));
  if (arguments.nodes > 1 && arguments.threads)
    return invalidArgument("--threads: a process is of one node; ranks of several --nodes are processes");
  if (!arguments.network.empty()) ::setenv("HPU_COMM_NETWORK", arguments.network.c_str(), 1);
  if (arguments.iterations < 1 || arguments.warmup < 0)
    return invalidArgument("--iters must be at least 1 and --warmup 0");
  if (arguments.timeoutMs < 1) return invalidArgument("--timeout-ms must be at least 1");
  HPU_ASSIGN(std::vector<Workload> works, workloadsOf(arguments, target));
  collectives::TunerTable table;
  if (!arguments.table.empty()) {
    HPU_ASSIGN(table, collectives::TunerTable::load(arguments.table));
  }
  HPU_ASSIGN(const std::unique_ptr<collectives::Tuner> tunerOf, makeTuner(arguments, target, std::move(table)));
  collectives::Tuner& tuner = *tunerOf;

  tool.print(base::strCat("# ", arguments.op, ", ", arguments.ranks, arguments.threads ? " ranks as threads" : " ranks",
                          arguments.nodes == 1 ? "" : base::strCat(" on ", arguments.nodes, " nodes"),
                          launch.source.empty() ? "" : " of " + launch.source, " on ", arguments.target,
                          "; device times are modelled",
                          arguments.noData ? "; no data is moved"
                                           : base::strCat("; ", arguments.iterations, " iterations, ",
                                                          arguments.blocking ? "one at a time" : "queued")));
  const TableLines lines = reportTable(!arguments.noData, tool.width());
  if (const std::string note = lines.note(); !note.empty()) tool.print("# " + note);
  tool.printAsIs(lines.head());
  tool.json()
      .set("collective", arguments.op)
      .set("ranks", static_cast<int64_t>(arguments.ranks))
      .set("nodes", static_cast<int64_t>(arguments.nodes))
      .set("target", arguments.target);
  if (!launch.source.empty()) tool.json().set("launcher", launch.source);
  Json& results = tool.json()["results"] = Json::array();
  int64_t wrong = 0;
  Averages averages;
  auto show = [&](const Workload& work, bool inPlace, const Measurement& result, const Expected& expected,
                  bool measured) {
    tool.printAsIsAlways(lines.line(reportRow(work, inPlace, result, expected, measured)));
    fflush(stdout);  // On a pipe, too: what is measured must not be lost when the job is ended.
    if (arguments.explain) tool.print("    # " + expected.reason);
    results.append(lineJson(work, inPlace, result, expected, measured));
    wrong += std::max<int64_t>(result.wrong, 0);
    averages.add(work, result);
  };

  if (!arguments.noData && (arguments.schedule || !arguments.chakra.empty()))
    return invalidArgument("--schedule and --chakra need --no-data");
  if (arguments.nodes > 1 && (arguments.schedule || !arguments.chakra.empty()))
    return invalidArgument("--schedule and --chakra: hccl-sim writes those of several nodes");
  if (!arguments.chakra.empty() && works.size() > 1)
    return invalidArgument("--chakra writes one schedule: give one size, type and operation");
  for (int rank = 0; !arguments.chakra.empty() && rank < arguments.ranks; ++rank)
    HPU_RETURN_IF_ERROR(checkWritableFile("--chakra", base::strCat(arguments.chakra, ".", rank, ".json")));
  if (arguments.noData) {
    if (launch.rank != 0) return ExitCode::kOk;
    for (const Workload& work : works) {
      if (work.op == PerfOp::kSendRecv) return unimplemented("--no-data: messages have no schedule to price");
      HPU_ASSIGN(Expected expected, expectedOf(tuner, work));
      Measurement result;
      result.deviceUs = expected.predictedUs;
      show(work, false, result, expected, false);
      HPU_RETURN_IF_ERROR(exportSchedule(tool, arguments, expected, tuner.links()));
    }
    averages.report(tool, false);
    return ExitCode::kOk;
  }

  RankOptions options;
  options.ranks = arguments.ranks;
  options.nodes = arguments.nodes;
  options.threads = arguments.threads;
  options.target = target;
  options.timeoutMs = arguments.timeoutMs;
  options.tunerTable = arguments.table;
  options.run = {arguments.iterations, arguments.warmup, !arguments.noCheck, arguments.blocking};
  Status expectation;
  auto report = [&](const Combined& combined) {
    StatusOr<Expected> expected =
        combined.prediction ? expectedOf(*combined.prediction) : expectedOf(tuner, works[combined.work]);
    if (!expected.ok()) expectation = expected.status();
    show(works[combined.work], combined.inPlace, combined.result, expected.ok() ? *expected : Expected(), true);
  };
  std::optional<Interrupt> interrupt;
  if (launch.source.empty()) {
    interrupt.emplace("ending the ranks", tool.quiet());
    options.interrupted = [&] { return interrupt->signal() != 0; };
    Status status = runLocalRanks(works, options, report);
    if (!status.ok() && interrupt->signal() == 0) return status;
  } else if (launch.localRanks > 0 && launch.localRanks < launch.ranks) {
    HPU_RETURN_IF_ERROR(runSpreadRank(launch, works, options, report));
    if (launch.rank != 0) return ExitCode::kOk;
  } else {
    HPU_ASSIGN(ExitCode code, runLaunchedRank(launch, works, options, report));
    if (launch.rank != 0) return code;
  }
  HPU_RETURN_IF_ERROR(expectation);
  averages.report(tool, true);
  tool.json().set("wrong", wrong);
  if (wrong > 0) tool.printAlways(base::strCat("# ", wrong, " elements are wrong"));
  const int signal = interrupt ? interrupt->signal() : 0;
  tool.json().set("interrupted", signal != 0);
  if (signal == 0) return wrong == 0 ? ExitCode::kOk : ExitCode::kMismatch;
  tool.json().set("signal", signalName(signal));
  tool.note("interrupted by " + signalName(signal) + ": the figures are of what was measured before");
  return endBySignal(signal);
}

}  // namespace
}  // namespace hpu::tools

int main(int argc, char** argv) {
  using namespace hpu::tools;
  Tool tool("hccl-perf",
            "Measures collectives as nccl-tests does: wall time of the host and modelled time of "
            "the devices side by side.");
  Arguments arguments;
  arguments.types = {"float"};
  arguments.redops = {"sum"};
  tool.addPositional("OP", arguments.op,
                     "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce or send_recv");
  tool.addOption("-n,--ranks", arguments.ranks,
                 "Ranks on this machine, each a process with a device of its own; when mpirun, "
                 "torchrun, srun or another launcher made this process a rank, it is that one");
  tool.addOption("-N,--nodes", arguments.nodes,
                 "Nodes of this machine that the ranks are divided among, each with devices of its own (HPU_NODE)");
  tool.addChoice("--transport", arguments.network, {"tcp", "roce", "verbs"},
                 "What carries data between nodes (HPU_COMM_NETWORK)");
  tool.addFlag("--threads", arguments.threads, "Ranks as threads of one process");
  tool.addChoice("--target", arguments.target, {"gaudi1", "gaudi2", "gaudi3"}, "Type of the devices");
  tool.addBytes("-b,--min-bytes", arguments.minBytes, "Smallest size (of the largest buffer of a rank)");
  tool.addBytes("-e,--max-bytes", arguments.maxBytes, "Largest size");
  tool.addBytes("-i,--step-bytes", arguments.stepBytes, "Difference of neighbouring sizes, in place of --factor");
  tool.addOption("-f,--factor", arguments.factor, "Ratio of neighbouring sizes");
  tool.addOption("-d,--dtype", arguments.types, "Data types, separated by commas, or all", ',');
  tool.addOption("-o,--op", arguments.redops, "Reductions, separated by commas, or all: sum, prod, min, max, avg", ',');
  tool.addOption("-r,--root", arguments.root, "Root of broadcast and reduce, or all");
  tool.addOption("--iters", arguments.iterations, "Timed operations of each size");
  tool.addOption("-w,--warmup", arguments.warmup, "Operations before them");
  tool.addFlag("--blocking", arguments.blocking, "Wait for each operation: latency in place of throughput");
  tool.addFlag("--no-check", arguments.noCheck, "Do not check the results");
  tool.addFlag("--no-data", arguments.noData, "Price and check the schedules; needs no devices");
  tool.addFlag("--schedule", arguments.schedule, "With --no-data: print the steps of each schedule");
  tool.addOption("--chakra", arguments.chakra,
                 "With --no-data and one size: write PREFIX.RANK.json for Chakra's readers");
  tool.addFlag("--explain", arguments.explain, "Say why the tuner chose each algorithm");
  tool.addOption("--tuner-table", arguments.table, "File of rules that choose algorithms");
  tool.readsFiles("--tuner-table");
  tool.setEnvironment({"all", "runtime", "collectives", "-HPU_RECIPE_KEYS"});
  tool.addOption("--timeout-ms", arguments.timeoutMs, "Longest time without a result");
  tool.setFooter(
      "algbw is size over time, busbw algbw times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, "
      "reduce_scatter and all_to_all; "
      "GB/s are 10^9 bytes a second. Times are those of the slowest rank. Device times are figures "
      "of our model.");
  return tool.run(argc, argv, [&] { return body(tool, arguments); });
}
