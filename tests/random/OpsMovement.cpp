// SPDX-License-Identifier: Apache-2.0
// Generators of ops that move elements.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const Local kExact{.ulps = 0};

bool transpose(Builder& b, const std::string& op) {
  std::string x = b.operand({.types = kAll, .empty = true});
  Ints order(b.shape(x).size());
  std::iota(order.begin(), order.end(), 0);
  if (b.rng.chance(0.15)) return b.emit(op, {x}, kExact);
  b.rng.shuffle(order);
  return b.emit(op, {x}, kExact, {{"perm", order}});
}

bool concat(Builder& b, const std::string& op) {
  std::string x = b.operand({.types = kAll, .minRank = 1, .empty = true});
  Shape shape = b.shape(x);
  int64_t axis = b.axis(b.rank(x));
  size_t at = static_cast<size_t>(axis < 0 ? axis + b.rank(x) : axis);
  std::vector<std::string> parts = {x};
  for (int64_t more = b.rng.between(0, b.rng.chance(0.05) ? 20 : 3); more > 0; --more) {
    Shape other = shape;
    other[at] = b.rng.chance(0.4) ? shape[at] : b.rng.between(1, 5);
    parts.push_back(b.operand(b.element(x), other));
  }
  b.rng.shuffle(parts);
  return b.emit(op, parts, kExact, {{"axis", axis}});
}

bool slice(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 1});
  Ints axes(b.shape(x).size()), starts, ends, steps;
  std::iota(axes.begin(), axes.end(), 0);
  b.rng.shuffle(axes);
  axes.resize(static_cast<size_t>(b.rng.between(1, b.rank(x))));
  bool hasSteps = b.opset() >= 10 && b.rng.chance(0.6);
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  for (int64_t& axis : axes) {
    int64_t size = b.shape(x)[static_cast<size_t>(axis)],
            step = hasSteps ? b.rng.pick(Ints{1, 1, 2, 3, -1, -2, -3, 7}) : 1;
    int64_t first = b.rng.below(size), last = step > 0 ? b.rng.between(first, size - 1) : b.rng.between(0, first);
    // `last` is the last element that may be taken; an end lies one beyond it.
    int64_t end = step > 0 ? last + 1 : last - 1;
    if (step > 0 && last == size - 1 && b.rng.chance(0.5))
      end = b.rng.pick(Ints{size + 5, kFar, (int64_t{1} << 31) - 1});
    if (end == -1) end = b.rng.pick(Ints{-size - 1, -kFar, -(int64_t{1} << 31)});
    if (step > 0 && end > 0 && end < size && b.rng.chance(0.3)) end -= size;
    if (first == size - 1 && step < 0 && b.rng.chance(0.3)) first = b.rng.pick(Ints{size + 3, kFar});
    starts.push_back(first > 0 && first < size && b.rng.chance(0.3) ? first - size : first);
    ends.push_back(end);
    steps.push_back(step);
    if (b.rng.chance(0.2)) axis -= b.rank(x);
  }
  if (b.opset() < 10) return b.emit(op, {x}, kExact, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  std::vector<std::string> inputs = {x, b.ints(starts), b.ints(ends), b.ints(axes)};
  if (hasSteps) inputs.push_back(b.ints(steps));
  return b.emit(op, inputs, kExact);
}

bool split(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 1});
  int64_t axis = b.axis(b.rank(x)), size = b.shape(x)[static_cast<size_t>(axis < 0 ? axis + b.rank(x) : axis)];
  Attributes attributes;
  if (axis != 0 || b.rng.chance(0.5)) attributes.push_back({"axis", axis});
  if (b.rng.chance(0.4)) {
    int64_t parts = b.rng.between(1, std::min<int64_t>(size, 5));
    if (b.opset() < 18 && size % parts != 0) return false;
    if (b.opset() >= 18) attributes.push_back({"num_outputs", parts});
    return b.emit(op, {x}, kExact, attributes, static_cast<size_t>(parts));
  }
  Ints sizes;
  for (int64_t left = size; left > 0; left -= sizes.back())
    sizes.push_back(sizes.size() == 3 ? left : b.rng.between(1, left));
  if (b.opset() < 13) {
    attributes.push_back({"split", sizes});
    return b.emit(op, {x}, kExact, attributes, sizes.size());
  }
  return b.emit(op, {x, b.ints(sizes)}, kExact, attributes, sizes.size());
}

bool pad(Builder& b, const std::string& op) {
  std::string x = b.operand({b.opset() >= 11 ? kAll : kFloats, 1, 8, Numbers::kAny, 4000});
  std::vector<std::string> modes = {"constant", "constant", "reflect", "edge"};
  if (b.opset() >= 19) modes.push_back("wrap");
  std::string mode = b.rng.pick(modes);
  auto rank = static_cast<size_t>(b.rank(x));
  Ints pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = b.shape(x)[d];
    for (size_t side : {d, d + rank}) {
      int64_t most = mode == "constant" || mode == "edge" ? 3 : mode == "wrap" ? size : size - 1;
      pads[side] = b.rng.chance(0.5) ? 0 : b.rng.between(0, std::min<int64_t>(most, 4));
    }
    if (mode == "constant" && size > 2 && b.rng.chance(0.15)) pads[b.rng.chance(0.5) ? d : d + rank] = -1;
  }
  Attributes attributes = {{"mode", mode}};
  if (b.opset() < 11) {
    attributes.push_back({"pads", pads});
    if (b.rng.chance(0.5)) attributes.push_back({"value", 1.5f});
    return b.emit(op, {x}, kExact, attributes);
  }
  std::vector<std::string> inputs = {x};
  bool hasAxes = b.opset() >= 18 && b.rng.chance(0.3);
  Ints axes;
  if (hasAxes) {
    Ints some;
    for (size_t d = 0; d < rank; ++d)
      if (b.rng.chance(0.6)) axes.push_back(static_cast<int64_t>(d));
    b.rng.shuffle(axes);
    for (size_t side : {size_t{0}, rank})
      for (int64_t d : axes) some.push_back(pads[static_cast<size_t>(d) + side]);
    if (axes.empty()) return false;
    pads = some;
    for (int64_t& axis : axes)
      if (b.rng.chance(0.3)) axis -= static_cast<int64_t>(rank);
  }
  inputs.push_back(b.ints(pads));
  if (hasAxes || (mode == "constant" && b.rng.chance(0.6)))
    inputs.push_back(mode == "constant" && b.rng.chance(0.8)
                         ? b.scalar(b.element(x), b.rng.pick(std::vector<double>{0, 1, -2.5, 7}))
                         : "");
  if (hasAxes) inputs.push_back(b.ints(axes));
  return b.emit(op, inputs, kExact, attributes);
}

/// Indices of a dim of `size`, some of them negative.
HostTensor drawIndices(Builder& b, const Shape& shape, int64_t size, bool negative = true) {
  HostTensor indices = b.draw(b.rng.chance(0.7) ? ElementType::kI64 : ElementType::kI32, shape);
  for (int64_t k = 0; k < indices.count(); ++k)
    setNumber(indices, k, static_cast<double>(b.rng.between(negative ? -size : 0, size - 1)));
  return indices;
}

bool gather(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 1});
  int64_t axis = b.axis(b.rank(x)), size = b.shape(x)[static_cast<size_t>(axis < 0 ? axis + b.rank(x) : axis)];
  HostTensor indices = drawIndices(b, b.drawShape(0, 3, 40), size, b.opset() >= 11);
  std::string name = b.rng.chance(0.5) ? b.input(std::move(indices)) : b.fixed(std::move(indices));
  return b.emit(op, {x, name}, kExact, {{"axis", axis}});
}

bool gatherElements(Builder& b, const std::string& op) {
  std::string x = b.operand({kAll, 1});
  int64_t axis = b.axis(b.rank(x));
  size_t at = static_cast<size_t>(axis < 0 ? axis + b.rank(x) : axis);
  Shape shape = b.shape(x);
  for (size_t d = 0; d < shape.size(); ++d)
    if (d == at || b.rng.chance(0.2)) shape[d] = d == at ? b.rng.between(1, 9) : b.rng.between(1, shape[d]);
  HostTensor indices = drawIndices(b, shape, b.shape(x)[at]);
  std::string name = b.rng.chance(0.5) ? b.input(std::move(indices)) : b.fixed(std::move(indices));
  return b.emit(op, {x, name}, kExact, {{"axis", axis}});
}

bool gatherNd(Builder& b, const std::string& op) {
  HostTensor data = b.draw(b.rng.pick(kNumbers), b.drawShape(1, 5, 2000));
  const Shape& shape = data.type.shape;
  auto rank = static_cast<int64_t>(shape.size());
  int64_t batch = b.opset() >= 12 && b.rng.chance(0.3) ? b.rng.below(rank) : 0, depth = b.rng.between(1, rank - batch);
  Shape of(shape.begin(), shape.begin() + batch);
  for (int64_t more = b.rng.below(3); more > 0; --more) of.push_back(b.rng.between(1, 4));
  of.push_back(depth);
  HostTensor indices = b.draw(ElementType::kI64, of);
  for (int64_t k = 0; k < indices.count(); ++k) {
    int64_t size = shape[static_cast<size_t>(batch + k % depth)];
    setNumber(indices, k, static_cast<double>(b.rng.between(-size, size - 1)));
  }
  Attributes attributes;
  if (batch > 0) attributes.push_back({"batch_dims", batch});
  return b.emit(op, {b.fixed(std::move(data)), b.fixed(std::move(indices))}, kExact, attributes);
}

/// Known at import or not.
std::string indicesOf(Builder& b, HostTensor indices) {
  return b.rng.chance(0.3) ? b.fixed(std::move(indices)) : b.input(std::move(indices));
}

/// "none", or one for which the order of updates to one place does not matter.
Attributes reduction(Builder& b) {
  if (b.opset() < 18 || b.rng.chance(0.6)) return {};
  return {{"reduction", std::string(b.rng.chance(0.5) ? "max" : "min")}};
}

bool scatterNd(Builder& b, const std::string& op) {
  const Attributes attributes = reduction(b);
  const std::string data = b.operand({attributes.empty() ? kAll : kNumbers, 1, 4, Numbers::kAny, 2000});
  const Shape shape = b.shape(data);
  const int64_t depth = b.rng.between(1, b.rank(data));
  int64_t places = 1;
  for (int64_t d = 0; d < depth; ++d) places *= shape[static_cast<size_t>(d)];
  const int64_t rows = b.rng.between(1, std::min<int64_t>(places, 40));
  // Places that differ: the order of writes to one place is not defined.
  Ints order(static_cast<size_t>(places));
  std::iota(order.begin(), order.end(), 0);
  b.rng.shuffle(order);
  HostTensor indices = b.draw(ElementType::kI64, {rows, depth});
  for (int64_t k = 0; k < rows; ++k) {
    int64_t rest = order[static_cast<size_t>(attributes.empty() ? k : b.rng.below(rows))];
    for (int64_t d = depth; d-- > 0;) {
      const int64_t size = shape[static_cast<size_t>(d)], at = rest % size;
      setNumber(indices, k * depth + d, static_cast<double>(b.rng.chance(0.2) ? at - size : at));
      rest /= size;
    }
  }
  Shape updates = {rows};
  updates.insert(updates.end(), shape.begin() + depth, shape.end());
  return b.emit(op, {data, indicesOf(b, std::move(indices)), b.operand(b.element(data), updates)}, kExact, attributes);
}

bool scatterElements(Builder& b, const std::string& op) {
  Attributes attributes = op == "Scatter" ? Attributes() : reduction(b);
  const std::string data = b.operand({attributes.empty() ? kAll : kNumbers, 1, 4, Numbers::kAny, 2000});
  Shape shape = b.shape(data);
  int64_t axis = b.axis(static_cast<int64_t>(shape.size()));
  size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
  int64_t size = shape[at], inner = 1;
  for (size_t d = 0; d < shape.size(); ++d) shape[d] = d == at ? b.rng.between(1, size) : b.rng.between(1, shape[d]);
  for (size_t d = at + 1; d < shape.size(); ++d) inner *= shape[d];
  Ints order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  b.rng.shuffle(order);
  HostTensor indices = b.draw(ElementType::kI64, shape);
  for (int64_t k = 0; k < indices.count(); ++k) {
    int64_t index = order[static_cast<size_t>(k / inner % shape[at])];
    setNumber(indices, k, static_cast<double>(b.rng.chance(0.2) ? index - size : index));
  }
  attributes.push_back({"axis", axis});
  return b.emit(op, {data, indicesOf(b, std::move(indices)), b.operand(b.element(data), shape)}, kExact, attributes);
}

bool tensorScatter(Builder& b, const std::string& op) {
  const std::string data = b.operand({kFloats, 3, 4, Numbers::kAny, 2000});
  Shape updates = b.shape(data);
  const int64_t rank = b.rank(data), axis = b.rng.between(1, rank - 1), size = updates[static_cast<size_t>(axis)];
  const int64_t rows = updates[static_cast<size_t>(axis)] = b.rng.between(1, size);
  const bool circular = b.rng.chance(0.4);
  HostTensor positions = b.draw(ElementType::kI64, {updates[0]});
  for (int64_t k = 0; k < updates[0]; ++k)
    setNumber(positions, k, static_cast<double>(circular ? b.rng.below(size) : b.rng.between(0, size - rows)));
  Attributes attributes = {{"axis", b.rng.chance(0.5) ? axis : axis - rank}};
  if (circular || b.rng.chance(0.3)) attributes.push_back({"mode", std::string(circular ? "circular" : "linear")});
  return b.emit(op, {data, b.operand(b.element(data), updates), indicesOf(b, std::move(positions))}, kExact,
                attributes);
}

bool nonZero(Builder& b, const std::string& op) {
  return b.emit(op, {b.fixed(b.draw(b.rng.pick(kNumbers + kBools), b.drawShape(1, 4, 200)))}, kExact);
}

bool compress(Builder& b, const std::string& op) {
  const std::string x = b.operand({kAll, 1, 4, Numbers::kAny, 2000});
  const int64_t axis = b.rng.chance(0.3) ? b.rank(x) : b.axis(b.rank(x));  // The rank: of all elements in a row.
  int64_t count = 1;
  for (int64_t size : b.shape(x)) count *= size;
  if (axis < b.rank(x)) count = b.shape(x)[static_cast<size_t>(axis < 0 ? axis + b.rank(x) : axis)];
  const std::string picked = b.fixed(b.draw(ElementType::kBool, {b.rng.between(1, count)}));
  return b.emit(op, {x, picked}, kExact, axis == b.rank(x) ? Attributes() : Attributes{{"axis", axis}});
}

bool depthSpace(Builder& b, const std::string& op) {
  int64_t block = b.rng.between(2, 3);
  Shape shape = {b.rng.between(1, 3), b.rng.between(1, 4), b.rng.between(1, 6), b.rng.between(1, 6)};
  if (op == "DepthToSpace") {
    shape[1] *= block * block;
  } else {
    shape[2] *= block;
    shape[3] *= block;
  }
  Attributes attributes = {{"blocksize", block}};
  if (op == "DepthToSpace" && b.opset() >= 11 && b.rng.chance(0.6))
    attributes.push_back({"mode", std::string(b.rng.chance(0.5) ? "CRD" : "DCR")});
  return b.emit(op, {b.operand(b.rng.pick(kFloats), shape)}, kExact, attributes);
}

}  // namespace

const std::vector<Generator>& movementGenerators() {
  static const std::vector<Generator> list = {{"Transpose", transpose},
                                              {"Concat", concat},
                                              {"Slice", slice},
                                              {"Split", split},
                                              {"Pad", pad},
                                              {"Gather", gather},
                                              {"GatherElements", gatherElements},
                                              {"GatherND", gatherNd},
                                              {"ScatterND", scatterNd},
                                              {"ScatterElements", scatterElements},
                                              {"Scatter", scatterElements},
                                              {"TensorScatter", tensorScatter},
                                              {"NonZero", nonZero},
                                              {"Compress", compress},
                                              {"DepthToSpace", depthSpace},
                                              {"SpaceToDepth", depthSpace}};
  return list;
}

}  // namespace hpu::randomtest
