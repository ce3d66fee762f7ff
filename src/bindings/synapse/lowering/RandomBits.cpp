// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/RandomBits.h"

#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

Value seedOf(NodeContext& c, size_t input, uint32_t otherwise) {
  if (!c.hasInput(input) || c.isShapeTensor(input)) return compose::seedNumber(c, otherwise);
  Value seed = c.input(input);
  if (!c.ok()) return {};
  if (isFloat(c.element(seed)) || numElements(c.shape(seed)) != 1)
    return c.fail(strCat(c.inputName(input), " must be one integer"));
  return c.reshape(c.cast(seed, ElementType::kU32), {});
}

}  // namespace hpu::synapse
