// SPDX-License-Identifier: Apache-2.0
#include "compose/Random.h"

#include <cmath>

#include "compose/Functions.h"
#include "compose/Indexing.h"

namespace hpu::compose {

namespace {

Value rotate(Emitter& c, Value x, int bits) {
  Value up = c.op("shift_left", {x, seedNumber(c, static_cast<uint32_t>(bits))});
  Value down = c.op("shift_right", {x, seedNumber(c, static_cast<uint32_t>(32 - bits))});
  return c.op("bit_or", {up, down});
}

/// The row-major position of each element; counters of single dims, so that no large constant is stored.
Value positions(Emitter& c, const Shape& shape) {
  auto rank = static_cast<int64_t>(shape.size());
  Value sum;
  uint32_t stride = 1;
  for (int64_t d = rank; d-- > 0;) {
    int64_t size = shape[static_cast<size_t>(d)];
    Value part = c.cast(counter(c, size, d, rank), ElementType::kU32);
    if (stride != 1) part = c.mul(part, seedNumber(c, stride));
    sum = sum.handle ? c.add(sum, part) : part;
    stride *= static_cast<uint32_t>(size);
  }
  return sum.handle ? sum : seedNumber(c, 0);
}

}  // namespace

Value seedNumber(Emitter& c, uint32_t seed) {
  return c.constant({ElementType::kU32, {}}, &seed, sizeof seed);
}

RandomWords randomWords(Emitter& c, const Shape& shape, Value seed, uint32_t stream) {
  if (numElements(shape) > int64_t{UINT32_MAX}) {
    c.unsupported("more than 2^32 random numbers of one node");
    return {};
  }
  constexpr uint32_t kParity = 0x1BD11BDA;
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  Value keys[3] = {seed, seedNumber(c, stream), c.op("bit_xor", {seed, seedNumber(c, kParity ^ stream)})};
  Value x0 = c.add(positions(c, shape), keys[0]), x1 = c.add(c.expand(seedNumber(c, 0), shape), keys[1]);
  for (int round = 0; round < 20; ++round) {
    x0 = c.add(x0, x1);
    x1 = c.op("bit_xor", {rotate(c, x1, kRotations[round % 8]), x0});
    if (round % 4 != 3) continue;
    int injection = round / 4 + 1;
    x0 = c.add(x0, keys[injection % 3]);
    x1 = c.add(x1, c.add(keys[(injection + 1) % 3], seedNumber(c, static_cast<uint32_t>(injection))));
  }
  return {x0, x1};
}

Value uniformOf(Emitter& c, Value words) {
  Value top = c.op("shift_right", {words, seedNumber(c, 8)});
  return c.mul(c.toF32(c.cast(top, ElementType::kI32)), 1.0 / 16777216);
}

Value normalOf(Emitter& c, const RandomWords& words) {
  Value u = uniformOf(c, words.first), v = uniformOf(c, words.second);
  // Box and Muller: sqrt(-2 log(1 - u)) cos(2 pi v); u is below 1, so the logarithm is finite.
  Value radius = c.op("sqrt", {c.mul(c.op("log", {oneMinus(c, u)}), -2)});
  return c.mul(radius, c.op("cos", {c.mul(v, 2 * M_PI)}));
}

Value keptMask(Emitter& c, const Shape& shape, Value seed, double keep) {
  Value u = uniformOf(c, randomWords(c, shape, seed).first);
  return c.op("less", {u, c.scalarLike(u, keep)});
}

Value drawClasses(Emitter& c, Value logits, int64_t samples, Value seed) {
  const Shape shape = c.shape(logits);
  if (!c.ok()) return {};
  if (shape.size() != 2) return c.fail("needs [rows, classes]");
  // The largest of the logits with Gumbel noise is a class with its probability. The middle of each of 2^24 parts: the
  // ends would be infinite.
  const Shape each = {shape[0], samples, shape[1]};
  Value u = c.add(uniformOf(c, randomWords(c, each, seed).first), 0.5 / 16777216);
  u = c.min(u, c.scalarLike(u, 1 - 1.0 / 16777216));
  Value noise = c.neg(c.op("log", {c.neg(c.op("log", {u}))}));
  Value chosen =
      c.op("arg_max", {c.add(insertDim(c, logits, 1), noise)}, {{"axis", int64_t{2}}, {"keepdims", int64_t{0}}});
  return c.cast(chosen, ElementType::kI32);
}

}  // namespace hpu::compose
