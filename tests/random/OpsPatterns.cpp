// SPDX-License-Identifier: Apache-2.0
// Generators of groups of nodes as exporters write them, which the compiler recognises, fuses or moves as a whole.
#include <cmath>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const Local kExact{.ulps = 0};
const Local kOne{.ulps = 1};
const Local kSum{.ulps = 1, .sums = true};
const ElementType kF32 = ElementType::kF32;

/// A node with one result, whose name is in `name` afterwards.
bool add(Builder& b, std::string& name, const std::string& op, const std::vector<std::string>& inputs,
         const Local& local, const Attributes& attributes = {}) {
  if (!b.emit(op, inputs, local, attributes)) return false;
  name = b.last()[0];
  return true;
}

bool geluOfErf(Builder& b, const std::string&) {
  std::string x = b.operand({{kF32}}), y;
  if (!add(b, y, "Div", {x, b.scalar(kF32, std::sqrt(2.0))}, kOne) || !add(b, y, "Erf", {y}, {.ulps = 5}) ||
      !add(b, y, "Add", {y, b.scalar(kF32, 1)}, kOne) || !add(b, y, "Mul", {x, y}, kOne))
    return false;
  return add(b, y, "Mul", {y, b.scalar(kF32, 0.5)}, kOne);
}

bool silu(Builder& b, const std::string&) {
  std::string x = b.operand({{kF32}}), y;
  return add(b, y, "Sigmoid", {x}, {.ulps = 6, .tiny = 4e-37}) && add(b, y, "Mul", {x, y}, kOne);
}

bool layerNormOfParts(Builder& b, const std::string&) {
  Shape shape = b.drawShape(2, 4, 6000);
  std::string x = b.operand(kF32, shape, Numbers::kPlain), mean, d, v;
  auto meanOf = [&](std::string& name, const std::string& of) {
    if (b.opset() >= 18) return add(b, name, "ReduceMean", {of, b.ints({-1})}, kSum);
    return add(b, name, "ReduceMean", {of}, kSum, {{"axes", Ints{b.opset() >= 11 ? -1 : b.rank(of) - 1}}});
  };
  if (!meanOf(mean, x) || !add(b, d, "Sub", {x, mean}, kOne) ||
      !add(b, v, "Pow", {d, b.scalar(kF32, 2)}, {.ulps = 9}) || !meanOf(v, v) ||
      !add(b, v, "Add", {v, b.scalar(kF32, 1e-5)}, kOne) || !add(b, v, "Sqrt", {v}, kOne) ||
      !add(b, v, "Div", {d, v}, kOne) || !add(b, v, "Mul", {v, b.weight(kF32, {shape.back()})}, kOne))
    return false;
  return add(b, v, "Add", {v, b.weight(kF32, {shape.back()})}, kOne);
}

bool attention(Builder& b, const std::string&) {
  int64_t heads = b.rng.between(1, 3), rows = b.rng.between(1, 33), keys = b.rng.between(1, 40),
          depth = b.rng.between(1, 17);
  std::string q = b.operand(kF32, {1, heads, rows, depth}, Numbers::kPlain),
              k = b.operand(kF32, {1, heads, keys, depth}, Numbers::kPlain),
              v = b.operand(kF32, {1, heads, keys, depth}, Numbers::kPlain), s;
  if (!add(b, k, "Transpose", {k}, kExact, {{"perm", Ints{0, 1, 3, 2}}}) || !add(b, s, "MatMul", {q, k}, kSum))
    return false;
  double root = std::sqrt(static_cast<double>(depth));
  if (!(b.rng.chance(0.5) ? add(b, s, "Div", {s, b.scalar(kF32, root)}, kOne)
                          : add(b, s, "Mul", {s, b.scalar(kF32, 1 / root)}, kOne)))
    return false;
  if (b.rng.chance(0.5)) {
    HostTensor mask = b.draw(kF32, {1, 1, rows, keys}, Numbers::kPlain);
    double none = b.rng.pick(std::vector<double>{-1e4, -3.4028234e38, -1e30});
    for (int64_t i = 0; i < mask.count(); ++i) setNumber(mask, i, b.rng.chance(0.3) ? none : 0);
    if (!add(b, s, "Add", {s, b.fixed(std::move(mask))}, kOne)) return false;
  }
  return add(b, s, "Softmax", {s}, {.ulps = 24, .operandUlps = 2, .tiny = 2e-38}, {{"axis", int64_t{3}}}) &&
         add(b, s, "MatMul", {s, v}, kSum);
}

bool convNormRelu(Builder& b, const std::string&) {
  int64_t in = b.rng.between(1, 9), out = b.rng.between(1, 9), kernel = b.rng.pick(Ints{1, 3, 3, 5});
  std::string x = b.operand(kF32, {b.rng.between(1, 2), in, b.rng.between(5, 17), b.rng.between(5, 17)},
                            Numbers::kPlain),
              y;
  auto vector = [&](Numbers numbers) { return b.constant(b.draw(kF32, {out}, numbers)); };
  if (!add(b, y, "Conv", {x, b.constant(b.draw(kF32, {out, in, kernel, kernel}, Numbers::kPlain))}, kSum,
           {{"strides", Ints(2, b.rng.between(1, 2))}, {"pads", Ints(4, kernel / 2)}}))
    return false;
  if (!add(b, y, "BatchNormalization",
           {y, vector(Numbers::kPlain), vector(Numbers::kPlain), vector(Numbers::kPlain), vector(Numbers::kPositive)},
           {.ulps = 4, .sums = true, .negated = {3}}))
    return false;
  if (b.rng.chance(0.4) && !add(b, y, "Add", {y, b.operand(kF32, b.shape(y), Numbers::kPlain)}, kOne)) return false;
  return add(b, y, "Relu", {y}, kExact);
}

/// torch.roll: two slices, concatenated the other way round.
bool roll(Builder& b, const std::string&) {
  std::string x = b.operand({kNumbers, 1}), head, tail;
  int64_t axis = b.rng.below(b.rank(x)), size = b.shape(x)[static_cast<size_t>(axis)];
  if (size < 2) return false;
  int64_t at = b.rng.between(1, size - 1);
  auto slice = [&](std::string& name, int64_t from, int64_t to) {
    if (b.opset() < 10)
      return add(b, name, "Slice", {x}, kExact, {{"starts", Ints{from}}, {"ends", Ints{to}}, {"axes", Ints{axis}}});
    return add(b, name, "Slice", {x, b.ints({from}), b.ints({to}), b.ints({axis})}, kExact);
  };
  return slice(head, 0, at) && slice(tail, at, size) && add(b, head, "Concat", {tail, head}, kExact, {{"axis", axis}});
}

/// The reshape, transpose and reshape of windowed attention: through rank 6.
bool windowPartition(Builder& b, const std::string&) {
  int64_t n = b.rng.between(1, 2), h = b.rng.between(1, 4), w = b.rng.between(1, 4), c = b.drawSize();
  std::string x = b.operand(b.rng.pick(kNumbers), {n, 2 * h, 2 * w, c});
  return add(b, x, "Reshape", {x, b.ints({n, h, 2, w, 2, c})}, kExact) &&
         add(b, x, "Transpose", {x}, kExact, {{"perm", Ints{0, 1, 3, 2, 4, 5}}}) &&
         add(b, x, "Reshape", {x, b.ints({n * h * w, 4, c})}, kExact);
}

/// Projections of one operand, which may become one product.
bool siblings(Builder& b, const std::string&) {
  std::string x = b.operand({{kF32}, 2, 3, Numbers::kPlain, 3000}), y;
  int64_t depth = b.shape(x).back();
  for (int64_t more = b.rng.between(2, 3); more > 0; --more) {
    int64_t columns = b.rng.between(1, 65);
    if (!add(b, y, "MatMul", {x, b.constant(b.draw(kF32, {depth, columns}, Numbers::kPlain))}, kSum)) return false;
    if (b.rng.chance(0.7) && !add(b, y, "Add", {y, b.constant(b.draw(kF32, {columns}, Numbers::kPlain))}, kOne))
      return false;
  }
  return true;
}

}  // namespace

const std::vector<Generator>& patternGenerators() {
  static const std::vector<Generator> list = {{"pattern:gelu", geluOfErf},
                                              {"pattern:silu", silu},
                                              {"pattern:layer-norm", layerNormOfParts},
                                              {"pattern:attention", attention},
                                              {"pattern:conv-norm-relu", convNormRelu},
                                              {"pattern:roll", roll},
                                              {"pattern:window-partition", windowPartition},
                                              {"pattern:siblings", siblings}};
  return list;
}

}  // namespace hpu::randomtest
