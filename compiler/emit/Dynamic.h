// SPDX-License-Identifier: Apache-2.0
// What a recipe of sizes that are given late has beside its program (recipe/Dynamic.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/import/NamedSizes.h"
#include "compiler/kernels/KernelCompiler.h"
#include "hpu/status.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"

namespace hpu::emit {

struct DynamicSource {
  sched::ProgramOp program;  ///< In a module with samples and bounds.
  const std::vector<importer::SizeGuard>& guards;
  const std::vector<kernels::SymbolicFacts>& kernels;  ///< By kernel.
  bool reorder = true;
};

/// From the same source that `emitted` was made of. Errors: kUnimplemented for a number without an expression, naming
/// the op; kResourceExhausted for more symbols than a recipe has.
StatusOr<std::shared_ptr<recipe::Dynamic>> dynamicOf(const DynamicSource& source, const recipe::Program& emitted);

}  // namespace hpu::emit
