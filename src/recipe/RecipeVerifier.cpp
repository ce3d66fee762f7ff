// SPDX-License-Identifier: Apache-2.0
#include "recipe/RecipeVerifier.h"

#include "base/StatusMacros.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

Status verifyProgram(const Program& program) {
  HPU_RETURN_IF_ERROR(verifyMemory(program));
  HPU_RETURN_IF_ERROR(verifyKernels(program));
  HPU_RETURN_IF_ERROR(verifyOps(program));
  HPU_RETURN_IF_ERROR(verifyCommands(program));
  HPU_RETURN_IF_ERROR(verifyDynamic(program));
  HPU_RETURN_IF_ERROR(verifyVariants(program));
  return verifyParts(program);
}

}  // namespace hpu::recipe
