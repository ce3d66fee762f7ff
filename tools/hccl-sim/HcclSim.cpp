// SPDX-License-Identifier: Apache-2.0
// hccl-sim: what a collective costs on many nodes, and why. Nothing runs: all times are those of our model.
#include <signal.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/fabric/FabricFile.h"
#include "tools/common/Cli.h"
#include "tools/hccl-perf/Workload.h"
#include "tools/hccl-sim/Drawing.h"
#include "tools/hccl-sim/Explanation.h"
#include "tools/hccl-sim/Exports.h"
#include "tools/hccl-sim/Report.h"
#include "tools/hccl-sim/Runs.h"

namespace hpu::tools {
namespace {

using base::strCat;

struct Sizes {
  int64_t minBytes = 32 << 20, maxBytes = 32 << 20, stepBytes = 0, bytes = 0;
  double factor = 2;
};

StatusOr<std::vector<int64_t>> sizesOf(Tool& tool, Sizes sizes) {
  if (tool.given("--bytes")) {
    for (const char* other : {"--min-bytes", "--max-bytes", "--factor", "--step-bytes"})
      if (tool.given(other)) return invalidArgument(strCat("--bytes is the one size: leave ", other, " out"));
    sizes.minBytes = sizes.maxBytes = sizes.bytes;
  } else if (tool.given("--min-bytes") != tool.given("--max-bytes")) {
    (tool.given("--min-bytes") ? sizes.maxBytes : sizes.minBytes) =
        tool.given("--min-bytes") ? std::max(sizes.minBytes, sizes.maxBytes) : std::min(sizes.minBytes, sizes.maxBytes);
  }
  return sizesBetween(sizes.minBytes, sizes.maxBytes, sizes.stepBytes, sizes.factor);
}

/// Ctrl-C waits until the file is whole, so that no half of one is left behind.
class InterruptsHeld {
 public:
  InterruptsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~InterruptsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  InterruptsHeld(const InterruptsHeld&) = delete;
  InterruptsHeld& operator=(const InterruptsHeld&) = delete;

 private:
  sigset_t before_;
};

Status writeExports(Tool& tool, const SimArguments& arguments, const SimResult& result,
                    const std::vector<int32_t>& ranks, const std::string& head) {
  Json& files = tool.json()["files"] = Json::array();
  const auto write = [&](const std::string& path, const std::string& text) -> Status {
    HPU_RETURN_IF_ERROR(tool.writes(path));
    const InterruptsHeld held;
    HPU_RETURN_IF_ERROR(base::writeFileAtomic(path, text));
    files.append(path);
    if (path != "/dev/stdout") tool.print("# wrote " + path);
    return okStatus();
  };
  if (!arguments.chakra.empty()) {
    HPU_ASSIGN(std::vector<std::string> documents, chakraDocuments(result, ranks));
    for (size_t i = 0; i < ranks.size(); ++i)
      HPU_RETURN_IF_ERROR(write(chakraPath(arguments.chakra, ranks[i]), documents[i]));
  }
  if (!arguments.schedule.empty()) HPU_RETURN_IF_ERROR(write(arguments.schedule, scheduleText(result, ranks)));
  if (!arguments.draw.empty()) {
    const Drawing drawing = drawingOf(result, strCat(head.substr(2), ": ", result.work.bytes(), " bytes, ",
                                                     result.algorithm, ", ", result.plan->chunks(), " chunks"));
    HPU_RETURN_IF_ERROR(
        write(arguments.draw, arguments.draw.ends_with(".svg") ? drawingSvg(drawing) : drawingHtml(drawing)));
  }
  return okStatus();
}

void explainAll(Tool& tool, const std::vector<SimResult>& results) {
  for (const SimResult& result : results) {
    const std::string label = result.site->label.empty() ? "" : ", " + result.site->label;
    tool.print(strCat("\n# ", result.work.bytes(), " bytes, ", result.site->map.nodes(),
                      result.site->map.nodes() == 1 ? " node" : " nodes", label, ", ", result.algorithm));
    if (result.plan)
      for (const std::string& line : explanationText(result, explain(result), tool.width())) tool.print(line);
    else
      tool.print(result.reason);
  }
  tool.print("");
  for (const std::string& line : constantsText(results.back().site->fabric, tool.width())) tool.print(line);
}

StatusOr<ExitCode> body(Tool& tool, SimArguments& arguments, const Sizes& sizes) {
  arguments.targetGiven = tool.given("--target");
  arguments.sendersGiven = tool.given("--senders");
  arguments.shiftGiven = tool.given("--shift");
  arguments.rootGiven = tool.given("--root");
  if (tool.given("--ranks-per-node") && arguments.ranksPerNode < 1)
    return invalidArgument("--ranks-per-node must be at least 1");
  HPU_ASSIGN(arguments.sizes, sizesOf(tool, sizes));
  HPU_ASSIGN(Runs runs, runsOf(arguments));
  if (!arguments.targetGiven && arguments.topology.empty()) tool.note("no --target: gaudi2");
  for (const std::string& note : runs.notes) tool.note(note);

  std::vector<SimResult> results;
  for (size_t i = 0; i < runs.runs.size(); ++i) {
    tool.progress(strCat("pricing ", i + 1, " of ", runs.runs.size()));
    HPU_ASSIGN(SimResult result, priceRun(runs, runs.runs[i], arguments));
    // Ports and steps of many results are large; those of ranks are asked for no more.
    result.timing.endPs = {};
    results.push_back(std::move(result));
  }
  tool.progress("");

  const std::string head = headText(results);
  tool.printAlways(head);
  tool.printAlways(runs.isComparison ? sideBySide(results, runs.side) : resultsTable(results));
  if (arguments.explain) explainAll(tool, results);

  const auto& fabric = results.back().site->fabric;
  Json& json = tool.json();
  json.set("collective", arguments.op).set("target", targetName(fabric.target)).set("topology", fabric.name);
  json.set("modelled", true);
  Json lines = Json::array();
  for (const SimResult& result : results) {
    Json line = resultJson(result);
    if (arguments.explain && result.plan) line.set("explain", explanationJson(result, explain(result)));
    if (results.size() == 1)
      for (const char* key : {"nodes", "devices", "bytes", "algorithm", "time_us", "algbw_GBps", "busbw_GBps",
                              "lower_bound_us", "events", "wall_ms"})
        json.set(key, line[key]);
    lines.append(std::move(line));
  }
  json.set("results", std::move(lines));
  json.set("constants", constantsJson(fabric));
  if (arguments.exports()) HPU_RETURN_IF_ERROR(writeExports(tool, arguments, results[0], runs.exportedRanks, head));
  return ExitCode::kOk;
}

}  // namespace
}  // namespace hpu::tools

int main(int argc, char** argv) {
  using namespace hpu::tools;
  Tool tool("hccl-sim",
            "Prices collectives on clusters of thousands of devices: modelled device time, what bounds it, and what "
            "would change it. Nothing runs; no devices are needed.");
  SimArguments arguments;
  Sizes sizes;
  tool.addPositional("OP", arguments.op, hpu::base::join(simOpNames()));
  tool.addOption("-N,--nodes", arguments.nodes,
                 "Nodes; several with commas are put side by side; without: as many as the topology has", ',');
  tool.addChoice("--target", arguments.target, {"gaudi1", "gaudi2", "gaudi3"}, "Type of the devices");
  tool.addOption("--topology", arguments.topology,
                 "File of a fabric (docs/fabric.md), or one of " + hpu::base::join(hpu::collectives::namedFabrics()) +
                     "; without: the target's standard node");
  tool.addOption("--ranks-per-node", arguments.ranksPerNode, "Only the first devices of each node");
  tool.addBytes("--bytes", sizes.bytes, "The one size");
  tool.addBytes("-b,--min-bytes", sizes.minBytes, "Smallest size (of the largest buffer of a rank)");
  tool.addBytes("-e,--max-bytes", sizes.maxBytes, "Largest size");
  tool.addBytes("-i,--step-bytes", sizes.stepBytes, "Difference of neighbouring sizes, in place of --factor");
  tool.addOption("-f,--factor", sizes.factor, "Ratio of neighbouring sizes");
  tool.addOption("-d,--dtype", arguments.type, "Data type");
  tool.addOption("-r,--root", arguments.root, "Root of broadcast, reduce, gather and scatter; receiver of incast");
  tool.addOption("--senders", arguments.senders, "Of incast: ranks of other nodes that send to one");
  tool.addOption("--shift", arguments.shift, "Of send_recv: rank r sends to rank r + shift");
  tool.addOption("--algorithm", arguments.algorithm, "This one in place of the best; hcl is the vendor's");
  tool.addOption("--compare", arguments.compare, "Algorithms side by side, with commas, or all", ',');
  tool.addFlag("--explain", arguments.explain,
               "Why this algorithm, what bounds it, where the time goes, what the times rest on");
  tool.addOption("--what-if", arguments.whatIfs,
                 "NAME=VALUE, several with commas: rails-down=NODE:RAIL, slow-node=NODE:FACTOR, oversubscription=X, "
                 "nodes-per-leaf=K, or a constant of the model; prints before and after",
                 ',');
  tool.addOption("--sweep", arguments.sweep, "NAME=VALUE,VALUE,...: a what-if with each of the values");
  tool.addOption("--late", arguments.late, "RANK:US, several with commas: ranks that arrive later than the others",
                 ',');
  tool.addFlag("--no-fold", arguments.noFold, "Simulate every rank, and not one of those that are alike");
  tool.addOption("--ranks", arguments.ranks, "Whose steps are written: 0,8-15 (all of up to 64; --draw: node 0's)",
                 ',');
  tool.addOption("--export-chakra", arguments.chakra, "Write PREFIX.RANK.json for Chakra's readers");
  tool.addOption("--export-schedule", arguments.schedule, "Write the steps with their modelled times to this file");
  tool.addOption("--draw", arguments.draw,
                 "Draw the steps and ports over time to this .svg or .html file (-: stdout, as .html)");
  tool.readsFiles("--topology");
  tool.writesFile("--draw", arguments.draw, [] { return true; });
  tool.writesFile("--export-schedule", arguments.schedule, [] { return true; });
  tool.setFooter(
      "algbw is size over time; busbw is algbw times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, "
      "reduce_scatter, all_to_all, gather and scatter, the number of senders for incast; GB/s are 10^9 bytes a "
      "second.\nThe bound is the least time that the rates of links and rails allow, without headers and latency.\n"
      "All times are those of our model.");
  return tool.run(argc, argv, [&] { return body(tool, arguments, sizes); });
}
