// SPDX-License-Identifier: Apache-2.0
// Problems: the public API's operations as problems that schedules solve.
#pragma once

#include <cstdint>

#include "collectives/schedule/Schedule.h"
#include "hpu/collectives.h"
#include "hpu/types.h"

namespace hpu::collectives {

/// A collective as the API has it; `count` as the call has it.
struct CollectiveArguments {
  Operation operation = Operation::kBarrier;
  uint64_t input = 0, output = 0;
  int64_t count = 0;
  ElementType type = ElementType::kI8;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1;
  int root = 0, destination = 0;
  bool operator==(const CollectiveArguments&) const = default;
};

/// `count` as the call has it. Of point-to-point `root` is the sender.
Problem problemOf(Operation operation, int ranks, int64_t count, ElementType type, int root = 0, int destination = 0);

/// Errors: kInvalidArgument (a negative count, one that no address space holds, a root that is no
/// rank, an element type that cannot be reduced).
Status checkProblem(const Problem& problem, int64_t count, ElementType type);

}  // namespace hpu::collectives
