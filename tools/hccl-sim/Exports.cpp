// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Exports.h"

#include <map>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/schedule/Export.h"
#include "tools/common/Table.h"

namespace hpu::tools {
namespace {

using base::strCat;
using collectives::Program;
using collectives::ProgramStep;
using collectives::StepKind;

/// Of the schedule of all ranks: it is in memory as a whole, with times, while documents are made of it.
constexpr int64_t kMostSteps = int64_t{1} << 21, kMostChakraRanks = 2048;

std::string exactUs(int64_t ps) {
  std::string fraction = std::to_string(ps % 1'000'000);
  return strCat(ps / 1'000'000, ".", std::string(6 - fraction.size(), '0'), fraction);
}

}  // namespace

StatusOr<std::vector<int32_t>> exportedRanks(const std::string& option, const std::vector<int32_t>& asked,
                                             int32_t ranks) {
  std::vector<int32_t> list = asked;
  if (list.empty()) {
    if (ranks > kMostExportedRanks)
      return invalidArgument(strCat(option, ": ", ranks, " ranks are more than the ", kMostExportedRanks,
                                    " that are written at once; name some with --ranks, as in --ranks 0-7"));
    for (int32_t rank = 0; rank < ranks; ++rank) list.push_back(rank);
  }
  if (list.size() > static_cast<size_t>(kMostExportedRanks))
    return invalidArgument(
        strCat(option, ": --ranks names ", list.size(), " ranks; at most ", kMostExportedRanks, " are written"));
  return list;
}

std::string chakraPath(const std::string& prefix, int32_t rank) {
  return strCat(prefix, ".", rank, ".json");
}

StatusOr<std::vector<std::string>> chakraDocuments(const SimResult& result, const std::vector<int32_t>& ranks) {
  const collectives::Plan& plan = *result.plan;
  if (plan.map().ranks() > kMostChakraRanks)
    return resourceExhausted(strCat("--export-chakra: a schedule of ", plan.map().ranks(), " ranks; at most ",
                                    kMostChakraRanks, " are exported: take fewer nodes"));
  std::map<int32_t, int64_t> stepsOfRole;
  int64_t steps = 0;
  for (int32_t rank = 0; rank < plan.map().ranks(); ++rank) {
    auto [at, isNew] = stepsOfRole.try_emplace(plan.roleOf(rank), 0);
    if (isNew) at->second = static_cast<int64_t>(plan.program(rank).steps.size());
    steps += at->second;
  }
  if (steps > kMostSteps)
    return resourceExhausted(strCat("--export-chakra: the schedule of ", plan.map().ranks(), " ranks has ", steps,
                                    " steps, more than the ", kMostSteps, " that are exported; take fewer nodes"));
  const collectives::Schedule schedule = collectives::assemble(plan);
  std::vector<std::string> documents = collectives::exportChakra(schedule, result.site->fabric.mesh, ranks);
  if (documents.size() != ranks.size()) return internalError("the plan's messages do not match: it cannot be exported");
  return documents;
}

std::string scheduleText(const SimResult& result, const std::vector<int32_t>& ranks) {
  const collectives::Plan& plan = *result.plan;
  std::map<std::pair<int32_t, int32_t>, collectives::StepTime> times;
  for (const auto& span : result.timing.spans) times[{span.rank, span.step}] = {span.startPs, span.endPs};
  std::string text =
      strCat("# ", collectives::problemText(plan.problem()), "\n# algorithm ", plan.algorithm(), ", ", plan.chunks(),
             " chunks; fabric ", result.site->fabric.name, "; modelled: ", exactUs(result.timePs), " us; bound ",
             exactUs(result.lowerBoundPs), " us\n");
  Table table = Table::ofWords({"rank", "step", "what", "from", "to", "bytes", "after", "start_us", "end_us"});
  for (int32_t rank : ranks) {
    const Program program = plan.program(rank);
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const ProgramStep& step = program.steps[i];
      std::string from, to = collectives::rangeText(step.dst), after;
      for (const auto& source : step.sources) from += strCat(from.empty() ? "" : "+", collectives::rangeText(source));
      if (step.peer >= 0) {
        const std::string peer =
            strCat("rank ", collectives::resolve(plan.map(), rank, program.peers[static_cast<size_t>(step.peer)]));
        (step.kind == StepKind::kSend ? to : from) = peer;
      }
      for (int32_t before : step.after) after += strCat(after.empty() ? "" : ",", before);
      const collectives::StepTime time = times[{rank, static_cast<int32_t>(i)}];
      table.row({strCat(rank), strCat(i), std::string(collectives::stepName(step.kind)), from, to, strCat(step.bytes),
                 after.empty() ? "-" : after, exactUs(time.startPs), exactUs(time.endPs)});
    }
  }
  return text + table.text(0) + "\n";
}

}  // namespace hpu::tools
