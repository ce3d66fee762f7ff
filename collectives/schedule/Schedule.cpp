// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/Schedule.h"

#include "base/Format.h"

namespace hpu::collectives {

using base::strCat;

std::string_view collectiveName(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all-reduce";
    case Collective::kReduceScatter:
      return "reduce-scatter";
    case Collective::kAllGather:
      return "all-gather";
    case Collective::kAllToAll:
      return "all-to-all";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kReduce:
      return "reduce";
    case Collective::kGather:
      return "gather";
    case Collective::kScatter:
      return "scatter";
    case Collective::kBarrier:
      return "barrier";
    case Collective::kPointToPoint:
      return "point-to-point";
  }
  return "unknown";
}

std::optional<Collective> parseCollective(std::string_view name) {
  for (int i = 0; i < kNumCollectives; ++i)
    if (collectiveName(static_cast<Collective>(i)) == name) return static_cast<Collective>(i);
  return std::nullopt;
}

int64_t inputElements(const Problem& problem, int rank) {
  bool isRoot = rank == problem.root;
  switch (problem.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kGather:
      return problem.count;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return problem.count * problem.ranks;
    case Collective::kBroadcast:
    case Collective::kPointToPoint:
      return isRoot ? problem.count : 0;
    case Collective::kScatter:
      return isRoot ? problem.count * problem.ranks : 0;
    case Collective::kBarrier:
      return 0;
  }
  return 0;
}

int64_t outputElements(const Problem& problem, int rank) {
  switch (problem.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
    case Collective::kScatter:
      return problem.count;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return problem.count * problem.ranks;
    case Collective::kReduce:
      return rank == problem.root ? problem.count : 0;
    case Collective::kGather:
      return rank == problem.root ? problem.count * problem.ranks : 0;
    case Collective::kPointToPoint:
      return rank == problem.destination ? problem.count : 0;
    case Collective::kBarrier:
      return 0;
  }
  return 0;
}

int64_t problemBytes(const Problem& problem) {
  int64_t bytes = problem.count * problem.elementBytes;
  switch (problem.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return bytes * problem.ranks;
    default:
      return bytes;
  }
}

std::optional<int64_t> inPlaceOffset(const Problem& problem, int rank) {
  bool isRoot = rank == problem.root;
  switch (problem.collective) {
    case Collective::kAllReduce:
      return 0;
    case Collective::kBroadcast:
    case Collective::kReduce:
      return isRoot ? std::optional<int64_t>(0) : std::nullopt;
    case Collective::kReduceScatter:
      return -rank * problem.count;
    case Collective::kScatter:
      return isRoot ? std::optional<int64_t>(-rank * problem.count) : std::nullopt;
    case Collective::kAllGather:
      return rank * problem.count;
    case Collective::kGather:
      return isRoot ? std::optional<int64_t>(rank * problem.count) : std::nullopt;
    case Collective::kAllToAll:
    case Collective::kBarrier:
    case Collective::kPointToPoint:
      return std::nullopt;
  }
  return std::nullopt;
}

double busFactor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return (n - 1) / n;
    default:
      return 1;
  }
}

bool isReducing(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

std::string_view bufferName(BufferKind buffer) {
  switch (buffer) {
    case BufferKind::kInput:
      return "input";
    case BufferKind::kOutput:
      return "output";
    case BufferKind::kScratch:
      return "scratch";
    case BufferKind::kPartial:
      return "partial";
  }
  return "unknown";
}

std::string_view stepName(StepKind kind) {
  switch (kind) {
    case StepKind::kCopy:
      return "copy";
    case StepKind::kReduce:
      return "reduce";
    case StepKind::kSend:
      return "send";
    case StepKind::kRecv:
      return "receive";
  }
  return "unknown";
}

std::string rangeText(const Range& range) {
  int64_t end = 0;  // Ranges that are wrong are printed, too.
  if (__builtin_add_overflow(range.offset, range.count, &end)) end = INT64_MAX;
  return strCat(bufferName(range.buffer), "[", range.offset, ", ", end, ")");
}

std::string stepText(const Schedule& schedule, int32_t index) {
  const Step& step = schedule.steps[index];
  std::string text = strCat("step ", index, " (rank ", step.rank, ": ", stepName(step.kind));
  auto sources = [&] {
    for (size_t i = 0; i < step.sources.size(); ++i) text += (i ? ", " : " ") + rangeText(step.sources[i]);
  };
  switch (step.kind) {
    case StepKind::kCopy:
    case StepKind::kReduce:
      sources();
      text += " to " + rangeText(step.dst);
      break;
    case StepKind::kSend:
      sources();
      text += strCat(" to rank ", step.peer);
      break;
    case StepKind::kRecv:
      text += strCat(" ", rangeText(step.dst), " from rank ", step.peer);
      break;
  }
  return text + ")";
}

std::string problemText(const Problem& problem) {
  std::string text = strCat(collectiveName(problem.collective), " of ", problem.count, " elements of ",
                            problem.elementBytes, " bytes among ", problem.ranks, " ranks");
  switch (problem.collective) {
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
      text += strCat(", root ", problem.root);
      break;
    case Collective::kPointToPoint:
      text += strCat(", from ", problem.root, " to ", problem.destination);
      break;
    default:
      break;
  }
  return text;
}

void Schedule::finish() {
  ofRank.assign(problem.ranks > 0 ? problem.ranks : 0, {});
  std::vector<int32_t> counts(ofRank.size(), 0);
  auto valid = [&](const Step& step) { return step.rank >= 0 && static_cast<size_t>(step.rank) < ofRank.size(); };
  for (const Step& step : steps)
    if (valid(step)) ++counts[step.rank];
  for (size_t r = 0; r < ofRank.size(); ++r) ofRank[r].reserve(counts[r]);
  for (size_t i = 0; i < steps.size(); ++i)
    if (valid(steps[i])) ofRank[steps[i].rank].push_back(static_cast<int32_t>(i));
}

}  // namespace hpu::collectives
