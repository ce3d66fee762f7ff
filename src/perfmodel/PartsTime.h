// SPDX-License-Identifier: Apache-2.0
// Device time of programs with and without parts (recipe::Part), and where it goes.
// The one thing to know: each part counts as often as it can run, whatever data may decide, but loops count no longer
// than kLongestCommand, and those of which no bound is known once.
#pragma once

#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "perfmodel/Breakdown.h"
#include "recipe/Recipe.h"

namespace hpu::perfmodel {

/// How often something is decided about a part of which `iterations` run (kPartDecision each): its count is read once,
/// its condition before each iteration, and once more when that ends it.
int64_t partDecisions(bool hasCount, bool hasCondition, uint64_t trips, uint64_t iterations);

/// Program::estimates of a program of parts, from those of its parts: times add up, of memory the most counts. The
/// lower bound is without what data may leave out.
recipe::Estimates estimateOfParts(const recipe::Program& holder);

/// An op of a program, or of one of its parts.
struct ProgramOp {
  const recipe::Program* program = nullptr;
  OpBreakdown work;  ///< Of all iterations.
};
struct ProgramBreakdown {
  Breakdown whole;             ///< Without ops; decisions are gaps, in which engines are idle.
  std::vector<ProgramOp> ops;  ///< Most time on the critical path first, then most busy time.
};
/// The program must be verified. Errors: as simulate.
StatusOr<ProgramBreakdown> breakDown(const recipe::Program& program, const arch::TargetDesc& target,
                                     const arch::ClockProfile& clock);

}  // namespace hpu::perfmodel
