// SPDX-License-Identifier: Apache-2.0
// The phase emit: writes a sched.program as a recipe, record by record.
#pragma once

#include <memory>

#include "compiler/dialect/sched/SchedOps.h"
#include "hpu/status.h"
#include "mlir/IR/BuiltinOps.h"
#include "recipe/CommandAccess.h"
#include "recipe/Recipe.h"

namespace hpu::emit {

struct EmitOptions {
  Target target = Target::kGaudi2;
  std::string name;                            ///< Of the program.
  bool checkSchedule = true;                   ///< Prove every hazard ordered.
  const recipe::KernelReads* reads = nullptr;  ///< For that proof: what the kernels read.
};

/// The verified program. Constants that need no reordering point into the module's own memory, which `owner`
/// has to keep alive (an MLIR context with its resources). Errors: kInternal when the module is not what
/// `kernels` leaves, or the program does not verify.
StatusOr<std::shared_ptr<recipe::Program>> emitProgram(mlir::ModuleOp module, const EmitOptions& options,
                                                       std::shared_ptr<const void> owner);

/// Sections, kernels, ops and bundles only, and nothing is verified: what a schedule is planned with.
std::shared_ptr<recipe::Program> describeProgram(sched::ProgramOp program, Target target);

/// The bytes of a sched.constant: a view into its tensor, or a new block when it has to be reordered.
StatusOr<recipe::ConstantBlob> toConstant(sched::ConstantOp op, const std::shared_ptr<const void>& owner);

}  // namespace hpu::emit
