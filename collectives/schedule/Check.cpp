// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/Check.h"

#include <string>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/schedule/CheckOrder.h"
#include "collectives/schedule/CheckValues.h"

namespace hpu::collectives {
namespace {

using base::strCat;

Status checkProblem(const Problem& p) {
  if (static_cast<unsigned>(p.collective) >= kNumCollectives)
    return internalError(strCat("there is no collective ", p.collective));
  constexpr int32_t kMostRanks = 1 << 16;
  if (p.ranks < 1 || p.ranks > kMostRanks) return internalError(strCat("the number of ranks is ", p.ranks));
  if (p.root < 0 || p.root >= p.ranks || p.destination < 0 || p.destination >= p.ranks)
    return internalError(
        strCat("root ", p.root, " or destination ", p.destination, " is not one of the ", p.ranks, " ranks"));
  if (p.elementBytes < 1 || p.partialBytes < 1 || p.elementBytes > 64 || p.partialBytes > 64)
    return internalError(strCat("elements of ", p.elementBytes, " and ", p.partialBytes, " bytes"));
  // All of everybody's elements can be numbered.
  if (p.count < 0 || p.count > INT64_MAX / 64 / p.ranks / p.ranks)
    return internalError(strCat("the count is ", p.count));
  return {};
}

int64_t bufferElements(const Schedule& s, int32_t rank, BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput:
      return inputElements(s.problem, rank);
    case BufferKind::kOutput:
      return outputElements(s.problem, rank);
    case BufferKind::kScratch:
      return s.scratchElements;
    case BufferKind::kPartial:
      return s.partialElements;
  }
  return -1;
}

Status checkRange(const Schedule& s, int32_t index, const Range& range, bool isDestination) {
  if (static_cast<unsigned>(range.buffer) > static_cast<unsigned>(BufferKind::kPartial))
    return internalError(strCat("step ", index, " names a buffer that does not exist"));
  if (isDestination && range.buffer == BufferKind::kInput)
    return internalError(strCat(stepText(s, index), " writes the input"));
  int64_t size = bufferElements(s, s.steps[index].rank, range.buffer);
  if (range.offset < 0 || range.count < 0 || range.offset > size || range.count > size - range.offset)
    return internalError(
        strCat(stepText(s, index), " names ", rangeText(range), ", and that buffer has ", size, " elements"));
  return {};
}

Status checkShape(const Schedule& s, int32_t index) {
  const Step& step = s.steps[index];
  if (step.rank < 0 || step.rank >= s.problem.ranks)
    return internalError(strCat("step ", index, " is of rank ", step.rank, " of ", s.problem.ranks));
  if (static_cast<unsigned>(step.kind) > static_cast<unsigned>(StepKind::kRecv))
    return internalError(strCat("step ", index, " is of no known kind"));
  bool isMessage = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
  if (isMessage && (step.peer < 0 || step.peer >= s.problem.ranks || step.peer == step.rank))
    return internalError(strCat(stepText(s, index), " has no such peer"));
  size_t sources = step.sources.size();
  if (step.kind == StepKind::kReduce ? sources < 1 : sources != (step.kind == StepKind::kRecv ? 0 : 1))
    return internalError(strCat(stepText(s, index), " has ", sources, " sources"));
  for (const Range& source : step.sources) {
    HPU_RETURN_IF_ERROR(checkRange(s, index, source, false));
    if (step.kind != StepKind::kSend && source.count != step.dst.count)
      return internalError(strCat(stepText(s, index), " has ranges of different sizes"));
  }
  if (step.kind != StepKind::kSend) HPU_RETURN_IF_ERROR(checkRange(s, index, step.dst, true));
  if (step.kind == StepKind::kCopy &&
      (step.sources[0].buffer == BufferKind::kPartial) != (step.dst.buffer == BufferKind::kPartial))
    return internalError(strCat(stepText(s, index), " copies between data and partial results"));
  if (step.kind == StepKind::kReduce && !isReducing(s.problem.collective))
    return internalError(strCat(stepText(s, index), " reduces in an operation that only moves data"));
  for (int32_t before : step.after) {
    if (before < 0 || before >= index)
      return internalError(strCat(stepText(s, index), " waits for step ", before, ", which is not an earlier one"));
    if (s.steps[before].rank != step.rank)
      return internalError(strCat(stepText(s, index), " waits for ", stepText(s, before), " of another rank"));
  }
  return {};
}

Status checkShapes(const Schedule& s) {
  if (s.steps.size() > INT32_MAX / 2) return internalError(strCat("it has ", s.steps.size(), " steps"));
  constexpr int64_t kMostElements = INT64_MAX / 64;  // So that bytes can be counted.
  for (int64_t elements : {s.scratchElements, s.partialElements})
    if (elements < 0 || elements > kMostElements)
      return internalError(strCat("its scratch has ", elements, " elements"));
  for (size_t i = 0; i < s.steps.size(); ++i) HPU_RETURN_IF_ERROR(checkShape(s, static_cast<int32_t>(i)));
  std::vector<size_t> seen(s.problem.ranks, 0);
  bool finished = s.ofRank.size() == seen.size();
  for (size_t i = 0; finished && i < s.steps.size(); ++i) {
    int32_t rank = s.steps[i].rank;
    finished = seen[rank] < s.ofRank[rank].size() && s.ofRank[rank][seen[rank]] == static_cast<int32_t>(i);
    ++seen[rank];
  }
  for (size_t r = 0; finished && r < seen.size(); ++r) finished = seen[r] == s.ofRank[r].size();
  if (!finished) return internalError("its steps were changed after finish()");
  return {};
}

Status check(const Schedule& schedule) {
  HPU_RETURN_IF_ERROR(checkProblem(schedule.problem));
  HPU_RETURN_IF_ERROR(checkShapes(schedule));
  HPU_ASSIGN(Messages messages, matchMessages(schedule));
  Dependents dependents = dependentsOf(schedule);
  HPU_ASSIGN(std::vector<int32_t> order, orderSteps(schedule, messages, dependents, {}));
  ValueCheck values(schedule, messages);
  HPU_RETURN_IF_ERROR(values.run(order));
  // Again with those who read at the sender's: its send is done only after them.
  if (!values.inPlaceReaders().empty())
    HPU_RETURN_IF_ERROR(orderSteps(schedule, messages, dependents, values.inPlaceReaders()).status());
  HPU_RETURN_IF_ERROR(values.checkResults());
  if (schedule.problem.collective == Collective::kBarrier) return checkBarrier(schedule, messages, order);
  return {};
}

}  // namespace

Status checkSchedule(const Schedule& schedule) {
  Status status = check(schedule);
  if (status.ok()) return status;
  return status.withContext(
      strCat("algorithm ", schedule.algorithm, ", ", schedule.slices, " slices, ", problemText(schedule.problem)));
}

}  // namespace hpu::collectives
