// SPDX-License-Identifier: Apache-2.0
// Products of quantised integers: MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv, and those of com.microsoft:
// MatMulIntegerToFloat, DynamicQuantizeMatMul, QGemm. The MME multiplies
// floats, so the operands become floats less their zero points, and what could sum up beyond 2^24, where f32 begins to
// round, is multiplied in parts, whose sums are added as i32. The products say that they are `exact`, so that no
// precision narrows them and no scale goes into their weights.
#include <cmath>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Quantized.h"

namespace hpu::importer {
namespace {

using base::strCat;

/// Along which dimension of a product's operand (or result) a list of parameters runs.
enum class Along { kRows, kColumns, kChannels, kFilters };

/// A scale or zero point as f32 that broadcasts against a tensor of `rank`; null when it is not given.
Value parameter(NodeContext& node, size_t index, int64_t rank, Along along) {
  if (!node.has(index)) return {};
  Value v = node.input(index);
  if (!v) return {};
  v = node.cast(v, node.builder().getF32Type());
  if (node.rank(v) > 1) return v;  // As in NumPy already: [..., M, 1] or [..., 1, N].
  if (node.rank(v) == 0) return v;
  const int64_t count = node.typeOf(v).getNumElements();
  if (count == 1) return node.reshape(v, Ints());
  switch (along) {
    case Along::kRows:
      return node.reshape(v, Ints{count, 1});
    case Along::kColumns:
      return v;
    case Along::kChannels:
      break;
    case Along::kFilters:
      break;
  }
  Ints shape(along == Along::kFilters ? rank : rank - 1, 1);
  shape[0] = count;
  return node.reshape(v, shape);
}

bool isInteger8(NodeContext& node, Value v) {
  ElementType type = ir::elementType(node.elementOf(v));
  return type == ElementType::kI8 || type == ElementType::kU8;
}

/// Sums up to here are f32 numbers.
constexpr double kExactSum = 0x1p24;

/// Integers that stand in floats.
struct Factor {
  Value value;
  double most = 255;                     ///< No magnitude is larger.
  const interp::Tensor* data = nullptr;  ///< The integers, if they are known and no zero point moves them.
};

/// Operand `index` less its zero point, in f32.
Factor centred(NodeContext& node, size_t index, size_t zeroPoint, Along along) {
  Factor factor;
  Value v = node.input(index);
  if (!v) return factor;
  const ElementType type = ir::elementType(node.elementOf(v));
  if (!isInteger8(node, v)) {
    node.unsupported(strCat("operands of type ", elementTypeName(type), " (i8 and u8 are)"));
    return factor;
  }
  const double low = type == ElementType::kI8 ? -128 : 0, high = low + 255;
  factor.value = node.cast(v, node.builder().getF32Type());
  Value zero = parameter(node, zeroPoint, node.rank(v), along);
  if (!zero) {
    factor.most = std::max(-low, high);
    factor.data = node.constant(index);
    return factor;
  }
  factor.value = node.op("sub", {factor.value, zero});
  if (const interp::Tensor* zeros = node.constant(zeroPoint)) {
    factor.most = 0;
    bool moves = false;
    for (int64_t i = 0; i < zeros->count(); ++i) {
      factor.most = std::max({factor.most, high - zeros->number(i), zeros->number(i) - low});
      moves |= zeros->number(i) != 0;
    }
    if (!moves) factor.data = node.constant(index);
  }
  return factor;
}

/// The magnitudes of 8-bit integers.
std::vector<uint8_t> magnitudes(const interp::Tensor& integers) {
  std::vector<uint8_t> result(integers.count());
  const bool isSigned = integers.element() == ElementType::kI8;
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = isSigned ? static_cast<uint8_t>(std::abs(integers.as<int8_t>()[i])) : integers.as<uint8_t>()[i];
  return result;
}

/// The largest sum of [.., depth, columns] over a part of the depth, of `each` elements, for any column.
double largestSum(const std::vector<uint8_t>& weights, int64_t depth, int64_t columns, int64_t each) {
  uint64_t largest = 0;
  const auto rows = static_cast<int64_t>(weights.size()) / columns;
  std::vector<uint64_t> sums(columns);
  for (int64_t row = 0; row < rows; ++row) {
    if (row % depth % each == 0) std::fill(sums.begin(), sums.end(), 0);
    for (int64_t n = 0; n < columns; ++n) sums[n] += weights[row * columns + n];
    if (row % depth % each == each - 1 || row % depth == depth - 1)
      largest = std::max(largest, *std::max_element(sums.begin(), sums.end()));
  }
  return static_cast<double>(largest);
}

/// Into how many parts of equal size (but the last) a depth must be cut so that each sums up exactly.
int64_t partsOf(const Factor& a, const Factor& b, int64_t depth, int64_t columns) {
  const std::vector<uint8_t> weights = b.data && columns > 0 ? magnitudes(*b.data) : std::vector<uint8_t>();
  int64_t parts = 1;
  for (; parts < depth; ++parts) {
    const int64_t each = (depth + parts - 1) / parts;
    if (a.most * b.most * static_cast<double>(each) <= kExactSum) break;
    if (!weights.empty() && a.most * largestSum(weights, depth, columns, each) <= kExactSum) break;
  }
  return parts;
}

/// `value` as multiples of 16 and what is left of them.
struct Digits {
  Value high, low;
};
Digits digitsOf(NodeContext& node, Value value) {
  Value unit = node.scalarLike(value, 16);
  Value high = node.op("floor", node.op("div", {value, unit}));
  return {high, node.op("sub", {value, node.op("mul", {high, unit})})};
}

Value asI32(NodeContext& node, Value sum) {
  return node.cast(sum, node.builder().getI32Type());
}

/// The sums of `multiply(a, b)` exactly, in i32: of all that they are products of there are `depth` at most.
template <typename Multiply>
Value productOfDigits(NodeContext& node, const Factor& a, const Factor& b, double depth, const Multiply& multiply) {
  constexpr double kDigit = 16;
  if (a.most * b.most * depth <= kExactSum) return asI32(node, multiply(a.value, b.value));
  Value unit = node.scalar(node.builder().getI32Type(), kDigit);
  const Digits digits = digitsOf(node, b.value);
  Factor high = {digits.high, kDigit}, low = {digits.low, kDigit - 1};
  Value sums[2];
  for (auto [sum, digit] : {std::pair(&sums[0], &high), std::pair(&sums[1], &low)}) {
    if (a.most <= kDigit || a.most * digit->most * depth <= kExactSum) {
      *sum = asI32(node, multiply(a.value, digit->value));
      continue;
    }
    const Digits others = digitsOf(node, a.value);
    Value upper = asI32(node, multiply(others.high, digit->value)), lower = multiply(others.low, digit->value);
    *sum = node.op("add", {node.op("mul", {upper, unit}), asI32(node, lower)});
  }
  return node.op("add", {node.op("mul", {sums[0], unit}), sums[1]});
}

Value product(NodeContext& node, const Factor& a, const Factor& b);

/// The same where one of them has rank 1: a row or a column, whose dimension the result does not have.
Value productOfVectors(NodeContext& node, Factor a, Factor b) {
  const bool isRow = node.rank(a.value) == 1, isColumn = node.rank(b.value) == 1;
  auto raised = [&](Value v, size_t dim) {
    ir::SymShape shape = ir::symShape(node.typeOf(v));
    shape.insert(shape.begin() + dim, ir::SymDim{1});
    return node.reshape(v, shape);
  };
  if (isRow) a.value = raised(a.value, 0);
  if (isColumn) b.value = raised(b.value, 1);
  Value result = product(node, a, b);
  if (!result) return {};
  ir::SymShape shape = ir::symShape(node.typeOf(result));
  if (isColumn) shape.pop_back();
  if (isRow) shape.erase(shape.end() - (isColumn ? 1 : 2));
  return node.reshape(result, shape);
}

/// a times b, exactly, in i32.
Value product(NodeContext& node, const Factor& a, const Factor& b) {
  if (!a.value || !b.value) return {};
  if (node.rank(a.value) == 0 || node.rank(b.value) == 0) return node.invalid("operands of rank 0"), Value();
  if (node.rank(a.value) == 1 || node.rank(b.value) == 1) return productOfVectors(node, a, b);
  auto multiply = [&](Value x, Value y) { return node.op("matmul", {x, y}, {{"exact", true}}); };
  ir::SymShape left = ir::symShape(node.typeOf(a.value)), right = ir::symShape(node.typeOf(b.value));
  const ir::SymDim depth = left.back(), columns = right.back();
  if (depth.isFree()) {
    const std::optional<shape::DimExpr> size = NodeContext::dims(node.typeOf(a.value)).back();
    return productOfDigits(node, a, b, size ? static_cast<double>(node.most(*size)) : 0x1p40, multiply);
  }
  const Factor plain = {b.value, b.most, columns.isFree() ? nullptr : b.data};
  const int64_t parts = partsOf(a, plain, depth.size, columns.size);
  if (parts <= 1) return asI32(node, multiply(a.value, b.value));
  // The parts are a batch of products; zeros fill the last one.
  const int64_t each = (depth.size + parts - 1) / parts;
  auto cut = [&](Value x, ir::SymShape shape, int64_t dim) {
    const int64_t rank = node.rank(x);
    if (const int64_t missing = parts * each - depth.size) {
      Ints low(rank, 0), high(rank, 0);
      high[dim] = missing;
      x = node.op("pad", x, {{"low", low}, {"high", high}, {"value", 0.0}});
    }
    shape[dim] = {each};
    shape.insert(shape.begin() + dim, ir::SymDim{parts});
    return node.reshape(x, shape);
  };
  const int64_t rank = node.rank(a.value);
  Value x = cut(a.value, left, rank - 1), y = cut(b.value, right, node.rank(b.value) - 2);
  Ints perm;
  for (int64_t d = 0; d < rank - 2; ++d) perm.push_back(d);
  perm.append({rank - 1, rank - 2, rank});
  Value sums = asI32(node, multiply(node.transpose(x, perm), y));
  if (!sums) return {};
  return node.op("reduce_sum", sums, {{"axes", Ints{node.rank(sums) - 3}}, {"keepdims", false}});
}

/// Channels [begin, end) of each of the groups that dim `dim` is made of.
Value channelsOfGroups(NodeContext& node, Value x, int64_t dim, int64_t groups, int64_t begin, int64_t end) {
  ir::SymShape shape = ir::symShape(node.typeOf(x));
  const int64_t each = shape[dim].size / groups;
  ir::SymShape split = shape;
  split[dim] = {each};
  split.insert(split.begin() + dim, ir::SymDim{groups});
  Value part = node.sliceDim(node.reshape(x, split), dim + 1, begin, end);
  shape[dim] = {groups * (end - begin)};
  return node.reshape(part, shape);
}

/// x convolved with w, exactly, in i32.
Value convolution(NodeContext& node, const Factor& x, const Factor& w) {
  if (!x.value || !w.value) return {};
  auto multiply = [&](Value a, Value b) { return convolve(node, a, b, true); };
  const RankedTensorType weights = node.typeOf(w.value);
  const int64_t groups = node.integer("group", 1),
                channels = node.rank(x.value) > 1 ? node.typeOf(x.value).getDimSize(1) : 0;
  bool isKnown = weights.hasStaticShape() && weights.getRank() > 2 && weights.getNumElements() > 0 && groups > 0 &&
                 channels % groups == 0 && channels / groups == weights.getDimSize(1);
  if (!isKnown) return asI32(node, multiply(x.value, w.value));  // Which says what is wrong.
  const int64_t outputs = weights.getDimSize(0), depth = weights.getDimSize(1),
                taps = weights.getNumElements() / outputs / depth;
  const double most = x.most * w.most * static_cast<double>(taps);
  const std::vector<uint8_t> filters = w.data ? magnitudes(*w.data) : std::vector<uint8_t>();
  const auto isExact = [&](int64_t each) {
    return most * static_cast<double>(each) <= kExactSum ||
           (w.data && x.most * largestSum(filters, depth * taps, 1, each * taps) <= kExactSum);
  };
  int64_t parts = 1;
  while (parts < depth && !isExact((depth + parts - 1) / parts)) ++parts;
  const int64_t each = (depth + parts - 1) / parts;
  if (!isExact(each)) return productOfDigits(node, x, w, static_cast<double>(depth * taps), multiply);
  Value sum;
  for (int64_t begin = 0; begin < depth; begin += each) {
    const int64_t end = std::min(begin + each, depth);
    Value a = x.value, b = w.value;
    if (parts > 1) {
      a = channelsOfGroups(node, a, 1, groups, begin, end);
      b = node.sliceDim(b, 1, begin, end);
    }
    Value part = asI32(node, multiply(a, b));
    sum = sum ? node.op("add", {sum, part}) : part;
  }
  return sum;
}

/// Of sums in i32 the nearest f32 numbers: what they are multiplied with.
Value asF32(NodeContext& node, Value sum) {
  return node.cast(sum, node.builder().getF32Type());
}

/// round(sum * scale) + zero point, in the type of the zero point (input `zeroPoint`), or of another input without one.
void requantise(NodeContext& node, Value sum, Value scale, size_t zeroPoint, size_t otherwise) {
  RankedTensorType type = node.inputType(node.has(zeroPoint) ? zeroPoint : otherwise);
  if (!sum || !type) return;
  ElementType to = ir::elementType(type.getElementType());
  const bool isSigned = to == ElementType::kI8;
  if (!isSigned && to != ElementType::kU8) return node.unsupported(strCat("results of type ", elementTypeName(to)));
  Value steps = node.op("round", node.op("mul", {sum, scale}));
  if (Value zero = parameter(node, zeroPoint, node.rank(sum), Along::kColumns)) steps = node.op("add", {steps, zero});
  Value inside = node.op("clip", steps, {{"min", isSigned ? -128.0 : 0.0}, {"max", isSigned ? 127.0 : 255.0}});
  node.setOutput(0, node.cast(inside, type.getElementType()));
}

void convertMatMulInteger(NodeContext& node) {
  const Factor a = centred(node, 0, 2, Along::kRows), b = centred(node, 1, 3, Along::kColumns);
  node.setOutput(0, product(node, a, b));
}

void convertConvInteger(NodeContext& node) {
  const Factor x = centred(node, 0, 2, Along::kChannels), w = centred(node, 1, 3, Along::kFilters);
  node.setOutput(0, convolution(node, x, w));
}

void convertQLinearMatMul(NodeContext& node) {
  const Factor a = centred(node, 0, 2, Along::kRows), b = centred(node, 3, 5, Along::kColumns);
  Value sum = asF32(node, product(node, a, b));
  if (!sum) return;
  int64_t rank = node.rank(sum);
  Value scale = node.op("mul", {parameter(node, 1, rank, Along::kRows), parameter(node, 4, rank, Along::kColumns)});
  requantise(node, sum, node.op("div", {scale, parameter(node, 6, rank, Along::kColumns)}), 7, 0);
}

void convertQLinearConv(NodeContext& node) {
  const Factor x = centred(node, 0, 2, Along::kChannels), w = centred(node, 3, 5, Along::kFilters);
  Value sum = convolution(node, x, w);
  if (!sum) return;
  int64_t rank = node.rank(sum);
  // The bias is in units of both scales.
  if (node.has(8)) {
    Value bias = node.input(8);
    if (!bias) return;
    Ints shape(rank - 1, 1);
    shape[0] = node.typeOf(bias).getNumElements();
    sum = node.op("add", {sum, node.reshape(bias, shape)});
  }
  Value scale =
      node.op("mul", {parameter(node, 1, rank, Along::kChannels), parameter(node, 4, rank, Along::kChannels)});
  requantise(node, asF32(node, sum), node.op("div", {scale, parameter(node, 6, rank, Along::kChannels)}), 7, 0);
}

// ---- com.microsoft -----------------------------------------------------------------------------

/// The sums as real numbers, and input `bias` on top of them, if it is given.
void setReal(NodeContext& node, Value sum, Value aScale, size_t bScale, size_t bias) {
  if (!sum) return;
  Value scale = node.op("mul", {aScale, parameter(node, bScale, node.rank(sum), Along::kColumns)});
  Value result = node.op("mul", {asF32(node, sum), scale});
  if (node.has(bias)) result = node.op("add", {result, node.cast(node.input(bias), node.builder().getF32Type())});
  node.setOutput(0, result);
}

/// a, b, their scales, their zero points, bias
void convertProductToFloat(NodeContext& node) {
  const Factor a = centred(node, 0, 4, Along::kRows), b = centred(node, 1, 5, Along::kColumns);
  if (!a.value || !b.value) return;
  setReal(node, product(node, a, b), parameter(node, 2, node.rank(a.value), Along::kRows), 3, 6);
}

/// a (floats), b, its scale and zero point, bias
void convertDynamicProduct(NodeContext& node) {
  Value real = node.input(0);
  if (!real) return;
  const std::vector<Value> made =
      composedValues(node, {real}, [](compose::Emitter& e, const std::vector<hpu::Value>& in) {
        const compose::DynamicallyQuantized own = compose::quantizedDynamically(e, e.toF32(in[0]));
        return std::vector<hpu::Value>{e.sub(e.toF32(own.integers), e.toF32(own.zero)), own.scale};
      });
  const Factor b = centred(node, 1, 3, Along::kColumns);
  if (made.size() != 2 || !b.value) return;
  setReal(node, product(node, {made[0]}, b), made[1], 2, 4);
}

/// a, its scale and zero point, b, its scale and zero point, bias (in steps of both scales), those of the result
void convertQuantizedGemm(NodeContext& node) {
  const bool turnsA = node.integer("transA", 0) != 0, turnsB = node.integer("transB", 0) != 0;
  Factor a = centred(node, 0, 2, turnsA ? Along::kColumns : Along::kRows),
         b = centred(node, 3, 5, turnsB ? Along::kRows : Along::kColumns);
  if (!a.value || !b.value) return;
  if (node.rank(a.value) != 2 || node.rank(b.value) != 2) return node.invalid("needs rank-2 operands");
  for (auto [turns, factor] : {std::pair(turnsA, &a), {turnsB, &b}})
    if (turns) *factor = {node.transpose(factor->value, Ints{1, 0}), factor->most};
  Value sum = product(node, a, b);
  if (sum && node.has(6)) sum = node.op("add", {sum, node.input(6)});
  if (!sum) return;
  Value scale = node.op("mul", {parameter(node, 1, 2, Along::kRows), parameter(node, 4, 2, Along::kColumns)});
  if (const double alpha = node.number("alpha", 1); alpha != 1)
    scale = node.op("mul", {scale, node.scalarLike(scale, alpha)});
  if (!node.has(7)) return node.setOutput(0, node.op("mul", {asF32(node, sum), scale}));
  requantise(node, asF32(node, sum), node.op("div", {scale, parameter(node, 7, 2, Along::kColumns)}), 8, 0);
}

constexpr const char* kLimits = "8-bit operands; exact";
constexpr const char* kDomain = "com.microsoft";
constexpr OpRow kRows[] = {
    {"MatMulInteger", 10, kNewestOpset, convertMatMulInteger, "", kLimits},
    {"ConvInteger", 10, kNewestOpset, convertConvInteger, "", kLimits},
    {"QLinearMatMul", 10, kNewestOpset, convertQLinearMatMul, "", kLimits},
    {"QLinearConv", 10, kNewestOpset, convertQLinearConv, "", kLimits},
    {"MatMulIntegerToFloat", 1, 1, convertProductToFloat, "", "8-bit operands; exact sums", kDomain},
    {"DynamicQuantizeMatMul", 1, 1, convertDynamicProduct, "", "8-bit operands; exact sums", kDomain},
    {"QGemm", 1, 1, convertQuantizedGemm, "", "8-bit operands; exact sums", kDomain},
};

}  // namespace

llvm::ArrayRef<OpRow> integerProductRows() {
  return kRows;
}

}  // namespace hpu::importer
