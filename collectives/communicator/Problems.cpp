// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Problems.h"

#include "base/Format.h"
#include "collectives/reduction/Reduction.h"

namespace hpu::collectives {

static_assert(static_cast<int>(Operation::kAllReduce) == static_cast<int>(Collective::kAllReduce) &&
              static_cast<int>(Operation::kGather) == static_cast<int>(Collective::kGather) &&
              static_cast<int>(Operation::kPointToPoint) == static_cast<int>(Collective::kPointToPoint));

Problem problemOf(Operation operation, int ranks, int64_t count, ElementType type, int root, int destination) {
  Problem problem;
  problem.collective = static_cast<Collective>(operation);
  problem.ranks = ranks;
  problem.root = root;
  problem.destination = destination;
  if (problem.collective == Collective::kBarrier) {
    problem.elementBytes = problem.partialBytes = 1;
    return problem;
  }
  problem.count = count;
  problem.elementBytes = static_cast<int32_t>(elementSize(type));
  problem.partialBytes = isReducing(problem.collective) && canReduce(type)
                             ? static_cast<int32_t>(elementSize(accumulatorType(type)))
                             : problem.elementBytes;
  return problem;
}

Status checkProblem(const Problem& problem, int64_t count, ElementType type) {
  constexpr int64_t kMostBytes = int64_t{1} << 56;
  if (elementSize(type) == 0) return invalidArgument(base::strCat(static_cast<int>(type), " is not an element type"));
  if (count < 0) return invalidArgument(base::strCat("a count of ", count));
  if (count > kMostBytes / elementSize(type) / problem.ranks)
    return invalidArgument(
        base::strCat(count, " elements of ", problem.ranks, " ranks are more than a device's memory can be"));
  if (problem.root < 0 || problem.root >= problem.ranks)
    return invalidArgument(base::strCat("the root ", problem.root, " is not a rank of ", problem.ranks));
  if (problem.destination < 0 || problem.destination >= problem.ranks)
    return invalidArgument(base::strCat("the destination ", problem.destination, " is not a rank of ", problem.ranks));
  if (isReducing(problem.collective) && !canReduce(type))
    return invalidArgument(base::strCat("elements of type ", elementTypeName(type), " cannot be reduced"));
  return okStatus();
}

}  // namespace hpu::collectives
