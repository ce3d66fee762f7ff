// SPDX-License-Identifier: Apache-2.0
#include "recipe/Recipe.h"
#include "tools/hpu-run/LoadProgram.h"

namespace hpu::tools {

Precision precisionOf(const Recipe& recipe) {
  for (const recipe::Op& op : recipe.program()->ops)
    if (op.engine == Engine::kMme && op.mme.a.type == ElementType::kBF16) return Precision::kBF16;
  return Precision::kF32;
}

}  // namespace hpu::tools
