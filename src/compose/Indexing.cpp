// SPDX-License-Identifier: Apache-2.0
#include "compose/Indexing.h"

#include <limits>
#include <numeric>

#include "base/Format.h"

namespace hpu::compose {

using base::strCat;

namespace {
constexpr int64_t kLongestConstant = 1 << 20;
}  // namespace

Value counter(Emitter& c, int64_t size, int64_t dim, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(dim)] = size;
  // Long ones are counted on the device: a constant would be as large as what they count.
  if (size > kLongestConstant) {
    const ElementType element = size > INT32_MAX ? ElementType::kI64 : ElementType::kI32;
    return c.reshape(c.op("range", {},
                          {{"element", std::string(elementTypeName(element))},
                           {"starts", std::vector<int64_t>{0}},
                           {"sizes", std::vector<int64_t>{size}},
                           {"steps", std::vector<int64_t>{1}}}),
                     shape);
  }
  std::vector<int64_t> values(static_cast<size_t>(size));
  std::iota(values.begin(), values.end(), 0);
  return c.indices(shape, values);
}

Value insertDim(Emitter& c, Value v, int64_t dim) {
  if (!v.handle) return v;
  Shape shape = c.shape(v);
  shape.insert(shape.begin() + dim, 1);
  return c.reshape(v, shape);
}

Value removeDim(Emitter& c, Value v, int64_t dim) {
  if (!v.handle) return v;
  Shape shape = c.shape(v);
  shape.erase(shape.begin() + dim);
  return c.reshape(v, shape);
}

Value wrapIndices(Emitter& c, Value indices, int64_t size) {
  if (!indices.handle) return indices;
  if (isFloat(c.element(indices))) return c.fail("indices must be integers");
  if (size > INT32_MAX) return c.unsupported(strCat("an indexed dim of ", size, " elements"));
  Value narrow = c.cast(indices, ElementType::kI32);
  Value isNegative = c.op("less", {narrow, c.scalarLike(narrow, 0)});
  Value wrapped = c.where(isNegative, c.add(narrow, c.scalarLike(narrow, static_cast<double>(size))), narrow);
  return c.max(c.min(wrapped, c.scalarLike(narrow, static_cast<double>(size - 1))), c.scalarLike(narrow, 0));
}

Value plainIndices(Emitter& c, Value indices) {
  if (!indices.handle) return indices;
  if (isFloat(c.element(indices))) return c.fail("indices must be integers");
  return c.element(indices) == ElementType::kI64 ? indices : c.cast(indices, ElementType::kI32);
}

Value scatterAlong(Emitter& c, Value x, Value indices, Value updates, int64_t dim, std::string_view mode) {
  if (!x.handle || (updates.handle && numElements(c.shape(updates)) == 0)) return x;
  ElementType type = c.element(x);
  if (type == ElementType::kBool && mode != "replace") {  // Sums are any, products all.
    std::string_view extreme = mode == "add" ? "max" : mode == "mul" ? "min" : mode;
    Value bytes =
        scatterAlong(c, c.cast(x, ElementType::kU8), indices, c.cast(updates, ElementType::kU8), dim, extreme);
    return c.toBool(bytes);
  }
  bool isWide = isFloat(type) && (mode == "add" || mode == "mul");
  if (isWide) x = c.toF32(x), updates = c.toF32(updates);
  return c.cast(c.op("scatter_elements", {x, indices, updates}, {{"axis", dim}, {"mode", std::string(mode)}}), type);
}

Value scan(Emitter& c, Value x, int64_t dim, std::string_view op, bool exclusive, bool reverse, int64_t largest) {
  if (!x.handle) return x;
  int64_t size = c.dim(x, dim);
  double neutral = op == "mul" ? 1 : 0;
  // v moved by `by` towards the end (or the beginning), the neutral element behind it.
  auto moved = [&](Value v, int64_t by) {
    std::vector<int64_t> low(c.shape(v).size(), 0), high(low);
    (reverse ? high : low)[static_cast<size_t>(dim)] = by;
    // Steps may be longer than the dim is.
    if (largest) return c.sliceDim(c.pad(v, low, high, neutral), dim, reverse ? by : 0, size);
    return c.pad(c.sliceDim(v, dim, reverse ? by : 0, size - by), low, high, neutral);
  };
  if (exclusive) x = size > 1 || largest ? moved(x, 1) : c.full(c.type(x), neutral);
  for (int64_t by = 1; by < (largest ? largest : size) && c.ok(); by *= 2) x = c.op(op, {x, moved(x, by)});
  return x;
}

Value sortedLast(Emitter& c, ElementType type, bool descending) {
  if (isFloat(type)) {
    const double inf = std::numeric_limits<double>::infinity();
    return c.scalar(descending ? -inf : std::numeric_limits<double>::quiet_NaN(), type);
  }
  const bool isSigned =
      type == ElementType::kI8 || type == ElementType::kI16 || type == ElementType::kI32 || type == ElementType::kI64;
  const auto bits = static_cast<unsigned>(elementSize(type)) * 8;
  const uint64_t top = uint64_t{1} << (bits - 1), all = top | (top - 1);
  const uint64_t value = descending ? (isSigned ? top : 0) : (isSigned ? top - 1 : all);
  return c.constant({type, {}}, &value, bits / 8);  // Little-endian: the low bytes.
}

}  // namespace hpu::compose
