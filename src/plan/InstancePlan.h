// SPDX-License-Identifier: Apache-2.0
// InstancePlan: what instances of similar sizes share, and how they are made from it (Instantiate.h).
// The one thing to know: a plan is that of the fastest instance of some sizes; it serves others, smaller ones, as long
// as their units have as many slices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/TargetDesc.h"
#include "hpu/status.h"
#include "plan/InstanceMemory.h"
#include "plan/SharedWaits.h"
#include "plan/Slices.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"

namespace hpu::plan {

/// Unit and part of Dynamic::units.
using PartRefs = std::vector<std::pair<uint32_t, uint32_t>>;

struct InstancePlan {
  MemoryPlan memory;
  std::vector<uint32_t> order;  ///< Of commands, as Issued has it.
  recipe::Estimates estimates;
  std::vector<int64_t> packings;  ///< By op of the source, MmeDesc::packingFactor; 1 for other engines.

  // What instances take as it is. Null: their commands are made anew.
  std::shared_ptr<const SharedWaits> waits;
  std::shared_ptr<const recipe::Program> prototype;  ///< The instance of these sizes.
  std::vector<uint32_t> now;                         ///< By op of the source its number; kNone: it has no points.
  std::vector<std::vector<int64_t>> dropped;         ///< Spaces of those, by op.
  std::vector<IssueUnit> units;
  std::vector<PartRefs> unitParts;  ///< By unit of `units`.
  std::vector<int64_t> sliceDims;

  recipe::SizeNumbers numbers;  ///< Those that the prototype was made from.
};

/// A copy of the prototype of a plan with the numbers of an instance; the last one of several, and only what has other
/// numbers for new sizes is set and verified.
struct LikeInstance {
  recipe::Program program;
  std::shared_ptr<const InstancePlan> plan;  ///< Null: it is no copy of any.
  recipe::SizeNumbers numbers;               ///< Those that the program was made from.
};

/// All functions take a program of free dimensions and sizes within its bounds.

/// As instantiate(), with the plan.
StatusOr<std::shared_ptr<recipe::Program>> makePlanned(const recipe::Program& program, const recipe::Sizes& sizes,
                                                       const arch::TargetDesc& target,
                                                       std::shared_ptr<const InstancePlan>& plan);

/// Commands anew, and the rest of the plan; null when it does not serve these sizes.
StatusOr<std::shared_ptr<recipe::Program>> makeFrom(const InstancePlan& plan, const recipe::Program& program,
                                                    const recipe::Sizes& sizes, const arch::TargetDesc& target);

/// Makes `like` an instance of a plan that has waits, whatever it was. False when the plan's commands do not serve
/// these sizes: it is then no program, and has no plan.
StatusOr<bool> makeLike(const std::shared_ptr<const InstancePlan>& plan, const recipe::Program& program,
                        const recipe::Sizes& sizes, const arch::TargetDesc& target, LikeInstance& like);

/// kInvalidArgument unless the program has these sizes.
Status checkSizes(const recipe::Program& program, const recipe::Sizes& sizes);

/// "making the program for seq = 5".
std::string making(const recipe::Program& program, const recipe::Sizes& sizes);

}  // namespace hpu::plan
