// SPDX-License-Identifier: Apache-2.0
// Records of a recipe from what stands for them in the sched dialect: operands and MME descriptors.
// The one thing to know: this is a change of form only; nothing is checked.
#pragma once

#include "compiler/dialect/sched/SchedOps.h"
#include "recipe/Recipe.h"

namespace hpu::sched {

recipe::Operand toOperand(OperandAttr operand);
recipe::MmeDesc toMmeDesc(MmeOp op);

}  // namespace hpu::sched
