// SPDX-License-Identifier: Apache-2.0
// Generators of ops about shapes, and of those that make tensors from few numbers.
#include <algorithm>
#include <numeric>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const Local kExact{.ulps = 0};

bool constant(Builder& b, const std::string&) {
  // A value that others may read; Constant nodes for shapes and the like come with their readers.
  std::string x = b.fixed(b.draw(b.rng.pick(kAll), b.drawShape(0, 4, 300)));
  return b.emit("Identity", {x}, kExact);
}

bool constantOfShape(Builder& b, const std::string& op) {
  Attributes attributes;
  if (b.rng.chance(0.8)) attributes.push_back({"value", b.draw(b.rng.pick(kNumbers + kBools), {1})});
  return b.emit(op, {b.ints(b.drawShape(0, 5, 2000))}, kExact, attributes);
}

bool shapeOf(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll});
  Attributes attributes;
  if (op == "Shape" && b.opset() >= 15 && b.rng.chance(0.5)) {
    attributes.push_back({"start", b.rng.between(-3, 2)});
    if (b.rng.chance(0.5)) attributes.push_back({"end", b.rng.between(-2, 9)});
  }
  return b.emit(op, {x}, kExact, attributes);
}

bool range(Builder& b, const std::string& op) {
  ElementType type = b.rng.pick(Types{ElementType::kF32, ElementType::kI64, ElementType::kI32, ElementType::kI16});
  double delta = static_cast<double>(b.rng.pick(Ints{1, 2, 3, -1, -2})),
         start = static_cast<double>(b.rng.between(-20, 20));
  if (type == ElementType::kF32) delta /= 4;
  double limit = start + delta * b.rng.uniform(0.5, 60);
  if (type != ElementType::kF32) limit = static_cast<double>(static_cast<int64_t>(limit));
  return b.emit(op, {b.scalar(type, start), b.scalar(type, limit), b.scalar(type, delta)}, {.ulps = 2});
}

bool eyeLike(Builder& b, const std::string& op) {
  Attributes attributes;
  if (b.rng.chance(0.6)) attributes.push_back({"k", b.rng.between(-4, 4)});
  if (b.rng.chance(0.6)) attributes.push_back({"dtype", int64_t{onnxType(b.rng.pick(kNumbers))}});
  return b.emit(op, {b.operand({kNumbers, 2, 2})}, kExact, attributes);
}

bool trilu(Builder& b, const std::string& op) {
  std::vector<std::string> inputs = {b.operand({kAll, 2})};
  if (b.rng.chance(0.6)) inputs.push_back(b.scalar(ElementType::kI64, static_cast<double>(b.rng.between(-5, 5))));
  Attributes attributes;
  if (b.rng.chance(0.7)) attributes.push_back({"upper", b.rng.below(2)});
  return b.emit(op, inputs, kExact, attributes);
}

bool oneHot(Builder& b, const std::string& op) {
  int64_t depth = b.rng.between(1, 17);
  HostTensor indices =
      b.draw(b.rng.pick(Types{ElementType::kI64, ElementType::kI32, ElementType::kF32}), b.drawShape(0, 3, 300));
  for (int64_t k = 0; k < indices.count(); ++k)
    setNumber(indices, k, static_cast<double>(b.rng.between(b.opset() >= 11 ? -depth - 2 : 0, depth + 1)));
  auto rank = static_cast<int64_t>(indices.type.shape.size()) + 1;
  Attributes attributes;
  if (b.rng.chance(0.7)) attributes.push_back({"axis", b.axis(rank)});
  ElementType type = b.rng.pick(Types{ElementType::kF32, ElementType::kI64, ElementType::kI32});
  return b.emit(op,
                {b.input(std::move(indices)),
                 b.scalar(ElementType::kI64, static_cast<double>(depth), b.rng.chance(0.5)), b.weight(type, {2})},
                kExact, attributes);
}

/// Another shape of so many elements.
Shape factored(Builder& b, int64_t count) {
  Shape shape;
  while (count > 1 && shape.size() < 7) {
    Ints divisors;
    for (int64_t d = 2; d <= count && divisors.size() < 12; ++d)
      if (count % d == 0) divisors.push_back(d);
    shape.push_back(b.rng.chance(0.3) ? count : b.rng.pick(divisors));
    count /= shape.back();
  }
  if (count > 1) shape.push_back(count);
  if (shape.size() < 8 && b.rng.chance(0.3)) shape.push_back(1);
  b.rng.shuffle(shape);
  return shape;
}

bool reshape(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll});
  Shape shape = factored(b, b.tensor(x).count()), written = shape;
  if (!written.empty() && b.rng.chance(0.4))
    written[static_cast<size_t>(b.rng.below(static_cast<int64_t>(shape.size())))] = -1;
  for (size_t d = 0; d < written.size() && d < b.shape(x).size(); ++d)
    if (written[d] == b.shape(x)[d] && b.rng.chance(0.5)) written[d] = 0;
  return b.emit(op, {x, b.ints(written)}, kExact);
}

bool flatten(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll});
  int64_t rank = b.rank(x);
  return b.emit(op, {x}, kExact, {{"axis", b.rng.between(b.opset() >= 11 ? -rank : 0, rank)}});
}

bool squeeze(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 1});
  Ints axes;
  for (int64_t d = 0; d < b.rank(x); ++d)
    if (b.shape(x)[static_cast<size_t>(d)] == 1 && b.rng.chance(0.6))
      axes.push_back(b.opset() >= 11 && b.rng.chance(0.3) ? d - b.rank(x) : d);
  if (axes.empty()) return b.emit(op, {x}, kExact);
  if (b.opset() < 13) return b.emit(op, {x}, kExact, {{"axes", axes}});
  return b.emit(op, {x, b.ints(axes)}, kExact);
}

bool unsqueeze(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 0, 7});
  int64_t more = b.rng.between(1, std::min<int64_t>(3, 8 - b.rank(x))), rank = b.rank(x) + more;
  Ints axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  b.rng.shuffle(axes);
  axes.resize(static_cast<size_t>(more));
  for (int64_t& axis : axes)
    if (b.opset() >= 11 && b.rng.chance(0.3)) axis -= rank;
  if (b.opset() < 13) return b.emit(op, {x}, kExact, {{"axes", axes}});
  return b.emit(op, {x, b.ints(axes)}, kExact);
}

bool expand(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 0, 8, Numbers::kAny, 3000});
  Shape shape = b.shape(x);
  int64_t count = b.tensor(x).count();
  for (int64_t& size : shape)
    if (size == 1 && b.rng.chance(0.6)) {
      int64_t grown = b.drawSize();
      if (count * grown < 20000) size = grown, count *= grown;
    } else if (b.rng.chance(0.2)) {
      size = 1;
    }
  if (shape.size() < 8 && b.rng.chance(0.4))
    shape.insert(shape.begin(), b.rng.between(1, 3));
  else if (b.rng.chance(0.2) && !shape.empty())
    shape.erase(shape.begin());
  return b.emit(op, {x, b.ints(shape)}, kExact);
}

bool tile(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 1, 8, Numbers::kAny, 3000});
  Ints repeats;
  for (int64_t d = 0; d < b.rank(x); ++d) repeats.push_back(b.rng.pick(Ints{1, 1, 1, 2, 3, 5}));
  return b.emit(op, {x, b.ints(repeats)}, kExact);
}

}  // namespace

const std::vector<Generator>& shapeGenerators() {
  static const std::vector<Generator> list = {{"Constant", constant}, {"ConstantOfShape", constantOfShape},
                                              {"Shape", shapeOf},     {"Size", shapeOf},
                                              {"Range", range},       {"EyeLike", eyeLike},
                                              {"Trilu", trilu},       {"OneHot", oneHot},
                                              {"Reshape", reshape},   {"Flatten", flatten},
                                              {"Squeeze", squeeze},   {"Unsqueeze", unsqueeze},
                                              {"Expand", expand},     {"Tile", tile}};
  return list;
}

}  // namespace hpu::randomtest
