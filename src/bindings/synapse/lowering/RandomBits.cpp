// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/RandomBits.h"

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Indexing.h"

namespace hpu::synapse {

namespace {

Value word(NodeContext& c, uint32_t value) {
  return c.constant({ElementType::kU32, {}}, &value, sizeof value);
}

Value rotate(NodeContext& c, Value x, int bits) {
  Value up = c.op("shift_left", {x, word(c, static_cast<uint32_t>(bits))});
  Value down = c.op("shift_right", {x, word(c, static_cast<uint32_t>(32 - bits))});
  return c.op("bit_or", {up, down});
}

/// The row-major position of each element; counters of single dims, so that no large constant is stored.
Value positions(NodeContext& c, const Shape& shape) {
  auto rank = static_cast<int64_t>(shape.size());
  Value sum;
  uint32_t stride = 1;
  for (int64_t d = rank; d-- > 0;) {
    int64_t size = shape[static_cast<size_t>(d)];
    Value part = c.cast(counter(c, size, d, rank), ElementType::kU32);
    if (stride != 1) part = c.mul(part, word(c, stride));
    sum = sum.handle ? c.add(sum, part) : part;
    stride *= static_cast<uint32_t>(size);
  }
  return sum.handle ? sum : word(c, 0);
}

}  // namespace

RandomWords randomWords(NodeContext& c, const Shape& shape, Value seed, uint32_t stream) {
  if (numElements(shape) > int64_t{UINT32_MAX}) {
    c.unsupported(strCat("more than 2^32 random numbers of one node"));
    return {};
  }
  constexpr uint32_t kParity = 0x1BD11BDA;
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  Value keys[3] = {seed, word(c, stream), c.op("bit_xor", {seed, word(c, kParity ^ stream)})};
  Value x0 = c.add(positions(c, shape), keys[0]), x1 = c.add(c.expand(word(c, 0), shape), keys[1]);
  for (int round = 0; round < 20; ++round) {
    x0 = c.add(x0, x1);
    x1 = c.op("bit_xor", {rotate(c, x1, kRotations[round % 8]), x0});
    if (round % 4 != 3) continue;
    int injection = round / 4 + 1;
    x0 = c.add(x0, keys[injection % 3]);
    x1 = c.add(x1, c.add(keys[(injection + 1) % 3], word(c, static_cast<uint32_t>(injection))));
  }
  return {x0, x1};
}

Value seedOf(NodeContext& c, size_t input, uint32_t otherwise) {
  if (!c.hasInput(input) || c.isShapeTensor(input)) return word(c, otherwise);
  Value seed = c.input(input);
  if (!c.ok()) return {};
  if (isFloat(c.element(seed)) || numElements(c.shape(seed)) != 1)
    return c.fail(strCat(c.inputName(input), " must be one integer"));
  return c.reshape(c.cast(seed, ElementType::kU32), {});
}

Value uniformOf(NodeContext& c, Value words) {
  Value top = c.op("shift_right", {words, word(c, 8)});
  return c.mul(c.toF32(c.cast(top, ElementType::kI32)), 1.0 / 16777216);
}

Value keptMask(NodeContext& c, const Shape& shape, Value seed, double keep) {
  Value u = uniformOf(c, randomWords(c, shape, seed).first);
  return c.op("less", {u, c.scalarLike(u, keep)});
}

}  // namespace hpu::synapse
