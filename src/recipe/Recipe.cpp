// SPDX-License-Identifier: Apache-2.0
#include "recipe/Recipe.h"

#include <algorithm>

namespace hpu::recipe {

const State* stateOf(const Program& program, const Section& section) {
  if (section.kind != SectionKind::kInput && section.kind != SectionKind::kOutput) return nullptr;
  for (const State& state : program.states)
    if ((section.kind == SectionKind::kInput ? state.input : state.output) == section.binding) return &state;
  return nullptr;
}

uint64_t stateBytes(const Program& program, const State& state) {
  auto bytes = static_cast<uint64_t>(elementSize(program.inputs[state.input].type.element));
  for (int64_t size : state.capacity) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

bool isEmpty(const Operand& operand) {
  return std::find(operand.sizes.begin(), operand.sizes.end(), 0) != operand.sizes.end();
}

uint64_t operandSpanBytes(const Operand& operand) {
  uint64_t bytes = 0;
  bool overflow = false;
  if (operand.ring.slots > 0) {
    overflow = __builtin_mul_overflow(uint64_t{operand.ring.slots}, operand.ring.slotBytes, &bytes);
    return overflow ? UINT64_MAX : bytes;
  }
  uint64_t last = 0;  // Element index of the last element.
  for (size_t d = 0; d < operand.sizes.size() && d < operand.strides.size(); ++d) {
    if (operand.sizes[d] <= 0) return 0;
    uint64_t step = 0;
    overflow |= operand.strides[d] < 0;
    overflow |= __builtin_mul_overflow(static_cast<uint64_t>(operand.sizes[d] - 1),
                                       static_cast<uint64_t>(operand.strides[d]), &step);
    overflow |= __builtin_add_overflow(last, step, &last);
  }
  overflow |= __builtin_add_overflow(last, uint64_t{1}, &last);
  overflow |= __builtin_mul_overflow(last, static_cast<uint64_t>(elementSize(operand.type)), &bytes);
  return overflow ? UINT64_MAX : bytes;
}

}  // namespace hpu::recipe
