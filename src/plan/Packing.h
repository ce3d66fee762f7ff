// SPDX-License-Identifier: Apache-2.0
// Chooses how many neighbouring pixels of an MME product are computed as one (recipe/MmePacking.h): a pure library over
// recipe structs. The one thing to know: the factor with which a unit's slices take the array and memory least time is
// taken, the smaller one of equals, so a product that is not faster packed stays as it is.
#pragma once

#include "plan/Issue.h"

namespace hpu::plan {

struct Packing {
  uint32_t op = recipe::kNone;  ///< An MME op.
  int64_t factor = 1;           ///< More than 1.
};

/// Packs the MME ops of a unit's commands and prices their commands so. Ops that cannot be packed, or had better not
/// be, are not in the result.
std::vector<Packing> packCommands(const IssueContext& context, std::vector<SlicedCommand>& commands);

/// The same for one op, whose commands `own` are. `isSampled`: by the price of its first command, as all are alike but
/// at edges. Returns the factor.
int64_t packOp(const IssueContext& context, uint32_t op, const std::vector<SlicedCommand*>& own, bool isSampled);

}  // namespace hpu::plan
