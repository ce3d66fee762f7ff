// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Runs.h"

#include <algorithm>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "collectives/fabric/FabricFile.h"
#include "tools/common/OutputCheck.h"
#include "tools/hccl-perf/Workload.h"
#include "tools/hccl-sim/Exports.h"

namespace hpu::tools {
namespace {

using base::strCat;
using collectives::Fabric;

/// A fabric before it is changed, for so many nodes.
class FabricSource {
 public:
  static StatusOr<FabricSource> open(const SimArguments& arguments) {
    FabricSource source;
    HPU_ASSIGN(source.target_, parseTarget(arguments.target));
    if (arguments.topology.empty()) return source;
    const std::vector<std::string> names = collectives::namedFabrics();
    source.isFile_ = std::find(names.begin(), names.end(), arguments.topology) == names.end();
    source.name_ = arguments.topology;
    if (source.isFile_) {
      StatusOr<Fabric> file = collectives::readFabric(arguments.topology);
      if (!file.ok() && file.status().code() == StatusCode::kNotFound)
        return notFound(strCat("--topology ", arguments.topology, ": neither a file nor one of ", base::join(names),
                               base::didYouMean(arguments.topology, names)));
      HPU_ASSIGN(source.file_, std::move(file));
    }
    HPU_ASSIGN(Fabric one, source.isFile_ ? StatusOr<Fabric>(source.file_) : collectives::namedFabric(source.name_));
    source.ownNodes_ = one.nodes;
    if (arguments.targetGiven && one.target != source.target_)
      return invalidArgument(strCat("--target ", arguments.target, ": the topology '", arguments.topology, "' is of ",
                                    targetName(one.target), "; leave --target out"));
    return source;
  }

  /// How many nodes the topology has; 0 without one.
  int32_t ownNodes() const { return ownNodes_; }
  StatusOr<Fabric> of(int32_t nodes) const {
    if (name_.empty()) return collectives::standardFabric(target_, nodes);
    if (!isFile_) return collectives::namedFabric(name_, nodes);
    if (nodes > file_.nodes)
      return invalidArgument(strCat("--nodes ", nodes, ": the topology '", name_, "' has ", file_.nodes, " nodes"));
    return file_;
  }

 private:
  Target target_ = Target::kGaudi2;
  std::string name_;
  bool isFile_ = false;
  int32_t ownNodes_ = 0;
  Fabric file_;
};

struct Change {
  std::string label;
  std::vector<WhatIf> whatIfs;
};

StatusOr<std::vector<Change>> changesOf(const SimArguments& arguments) {
  std::vector<WhatIf> fixed;
  std::string label;
  for (const std::string& text : arguments.whatIfs) {
    HPU_ASSIGN(WhatIf whatIf, parseWhatIf(text));
    label += strCat(label.empty() ? "" : " ", whatIf.text());
    fixed.push_back(std::move(whatIf));
  }
  if (arguments.sweep.empty()) {
    if (fixed.empty()) return std::vector<Change>{{"", {}}};
    return std::vector<Change>{{"before", {}}, {label, fixed}};
  }
  HPU_ASSIGN(std::vector<WhatIf> values, parseSweep(arguments.sweep));
  std::vector<Change> changes;
  for (WhatIf& value : values) {
    // What is the same in all columns is named in each: it is not in the topology either.
    Change change{label.empty() ? value.text() : strCat(label, " ", value.text()), fixed};
    change.whatIfs.push_back(std::move(value));
    changes.push_back(std::move(change));
  }
  return changes;
}

StatusOr<std::vector<std::string>> algorithmsOf(const SimArguments& arguments, bool isMessages) {
  if (isMessages && (!arguments.algorithm.empty() || !arguments.compare.empty()))
    return invalidArgument(strCat(arguments.op, " is messages alone: there are no algorithms to choose from"));
  if (!arguments.algorithm.empty() && !arguments.compare.empty())
    return invalidArgument("--algorithm and --compare exclude each other");
  std::vector<std::string> known;
  for (const auto& algorithm : collectives::planAlgorithms()) known.emplace_back(algorithm.name);
  const auto check = [&](std::string_view option, const std::string& name) {
    if (std::find(known.begin(), known.end(), name) != known.end()) return okStatus();
    return notFound(strCat(option, ": there is no algorithm '", name, "'; there are ", base::join(known),
                           base::didYouMean(name, known)));
  };
  if (arguments.compare.empty()) {
    if (!arguments.algorithm.empty()) HPU_RETURN_IF_ERROR(check("--algorithm", arguments.algorithm));
    return std::vector<std::string>{arguments.algorithm};
  }
  std::vector<std::string> wanted;
  for (const std::string& name : arguments.compare) {
    if (name != "all") HPU_RETURN_IF_ERROR(check("--compare", name));
    for (const std::string& each : name == "all" ? known : std::vector<std::string>{name})
      if (std::find(wanted.begin(), wanted.end(), each) == wanted.end()) wanted.push_back(each);
  }
  return wanted;
}

Status checkUses(const SimArguments& arguments, SimOp op) {
  if (arguments.sendersGiven && op != SimOp::kIncast) return invalidArgument("--senders is incast's alone");
  if (arguments.shiftGiven && op != SimOp::kSendRecv) return invalidArgument("--shift is send_recv's alone");
  Work probe;
  probe.op = op;
  if (arguments.rootGiven && !probe.rooted()) return invalidArgument(strCat("--root: ", arguments.op, " has no root"));
  if (!arguments.ranks.empty() && !arguments.exports())
    return invalidArgument("--ranks names those that --export-chakra, --export-schedule or --draw write");
  if (arguments.draw.empty() || arguments.draw == "/dev/stdout") return okStatus();
  for (const char* ending : {".svg", ".html"})
    if (arguments.draw.ends_with(ending)) return okStatus();
  return invalidArgument(strCat("--draw ", arguments.draw, ": give a name that ends in .svg or .html"));
}

Status checkOutputs(const SimArguments& arguments, Runs& runs) {
  if (!arguments.exports()) return okStatus();
  if (runs.runs.size() != 1)
    return invalidArgument(strCat("exports and drawings are of one operation; this asks for ", runs.runs.size(),
                                  ": give one size, node count, fabric and algorithm"));
  if (!arguments.draw.empty() && arguments.draw == arguments.schedule)
    return invalidArgument(strCat("--draw and --export-schedule both write '", arguments.draw, "'"));
  const auto& map = runs.runs[0].site->map;
  HPU_ASSIGN(runs.exportedRanks, parseRanks(arguments.ranks, map.ranks()));
  if (!arguments.draw.empty()) {
    HPU_RETURN_IF_ERROR(checkWritableFile("--draw", arguments.draw));
    if (runs.exportedRanks.empty() && arguments.chakra.empty() && arguments.schedule.empty())
      runs.exportedRanks.assign(map.ranksOf(0).begin(), map.ranksOf(0).end());
  }
  const std::string option = !arguments.chakra.empty()     ? "--export-chakra"
                             : !arguments.schedule.empty() ? "--export-schedule"
                                                           : "--draw";
  HPU_ASSIGN(runs.exportedRanks, exportedRanks(option, runs.exportedRanks, map.ranks()));
  if (!arguments.schedule.empty()) HPU_RETURN_IF_ERROR(checkWritableFile("--export-schedule", arguments.schedule));
  if (!arguments.chakra.empty())
    for (int32_t rank : runs.exportedRanks)
      HPU_RETURN_IF_ERROR(checkWritableFile("--export-chakra", chakraPath(arguments.chakra, rank)));
  return okStatus();
}

}  // namespace

StatusOr<Runs> runsOf(const SimArguments& arguments) {
  HPU_ASSIGN(SimOp op, parseSimOp(arguments.op));
  HPU_RETURN_IF_ERROR(checkUses(arguments, op));
  HPU_ASSIGN(FabricSource source, FabricSource::open(arguments));
  std::vector<int32_t> nodeCounts = {source.ownNodes()};
  if (!arguments.nodes.empty() || source.ownNodes() == 0) {
    HPU_ASSIGN(nodeCounts, parseNodeCounts(arguments.nodes));
  }
  if (arguments.ranksPerNode < 0) return invalidArgument("--ranks-per-node must be at least 1");
  Work probe;
  probe.op = op;
  HPU_ASSIGN(std::vector<std::string> algorithms, algorithmsOf(arguments, probe.isMessages()));
  HPU_ASSIGN(std::vector<Change> changes, changesOf(arguments));
  WorkOptions options{op, ElementType::kF32, arguments.root, arguments.shift,
                      arguments.sendersGiven ? arguments.senders : -1};

  Runs runs;
  runs.comparesAlgorithms = !arguments.compare.empty();
  std::vector<int64_t> sizes = op == SimOp::kBarrier ? std::vector<int64_t>{0} : arguments.sizes;
  int64_t rounded = 0;
  std::string roundedNote;
  for (const Change& change : changes)
    for (int32_t nodes : nodeCounts) {
      const int64_t perNode = arguments.ranksPerNode > 0 ? arguments.ranksPerNode : 1;
      HPU_RETURN_IF_ERROR(checkDevices(nodes, perNode));
      HPU_ASSIGN(Fabric fabric, source.of(nodes));
      HPU_RETURN_IF_ERROR(
          checkDevices(nodes, arguments.ranksPerNode > 0 ? arguments.ranksPerNode : fabric.devicesPerNode));
      HPU_ASSIGN(options.type, parseDataType(arguments.type, fabric.target));
      std::vector<std::string> notes;
      HPU_ASSIGN(fabric, changed(std::move(fabric), nodes, change.whatIfs, notes));
      for (std::string& note : notes)
        if (std::find(runs.notes.begin(), runs.notes.end(), note) == runs.notes.end())
          runs.notes.push_back(std::move(note));
      HPU_ASSIGN(std::shared_ptr<const Site> site,
                 siteOf(std::move(fabric), nodes, arguments.ranksPerNode, change.label));
      HPU_ASSIGN(std::vector<int64_t> arrivals, parseArrivals(arguments.late, site->map.ranks()));
      for (int64_t size : sizes) {
        HPU_ASSIGN(Work work, workOf(options, site->map, size));
        if (work.bytes() != work.askedBytes && rounded++ == 0)
          roundedNote = strCat(size, " bytes are not whole elements for each of ", site->map.ranks(),
                               " ranks: ", work.bytes(), " bytes are priced");
        for (const std::string& algorithm : algorithms) runs.runs.push_back({site, work, algorithm, arrivals});
      }
    }
  if (rounded > 1) roundedNote += strCat(" (and ", rounded - 1, " more are rounded)");
  if (rounded > 0) runs.notes.push_back(roundedNote);
  if (std::find(nodeCounts.begin(), nodeCounts.end(), 1) != nodeCounts.end() && !probe.isMessages())
    runs.notes.push_back(
        "one node: these are the algorithms between nodes; hccl-perf --no-data prices those of a node");
  runs.isComparison = changes.size() > 1 || algorithms.size() > 1 || nodeCounts.size() > 1;
  // Algorithms stand beside each other; fabrics and node counts then have lines of their own.
  runs.side = algorithms.size() > 1 ? Side::kAlgorithms : changes.size() > 1 ? Side::kFabrics : Side::kNodes;
  HPU_RETURN_IF_ERROR(checkOutputs(arguments, runs));
  return runs;
}

StatusOr<SimResult> priceRun(const Runs& runs, const Run& run, const SimArguments& arguments) {
  SimOptions options;
  options.algorithm = run.algorithm;
  options.arrivalPs = run.arrivalPs;
  options.fold = !arguments.noFold;
  options.wantPorts = arguments.explain || !arguments.draw.empty();
  options.wantLastSpans = arguments.explain;
  options.spansOf = runs.exportedRanks;
  StatusOr<SimResult> result = simulate(run.site, run.work, options);
  if (result.ok() || !runs.comparesAlgorithms) return result;
  const StatusCode code = result.status().code();
  if (code != StatusCode::kUnimplemented && code != StatusCode::kNotFound) return result;
  SimResult none;
  none.site = run.site;
  none.work = run.work;
  none.algorithm = run.algorithm;
  none.reason = result.status().message();
  return none;
}

}  // namespace hpu::tools
