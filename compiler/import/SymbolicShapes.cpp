// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic on sizes that may be free: Shape, Gather, Slice, Concat ... on vectors of DimExpr. What is computed
// in floats on the way is a quotient, as long as floats hold it exactly.
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using shape::DimExpr;
using Element = std::optional<DimExpr>;

bool isInteger(ElementType element) {
  return element == ElementType::kI64 || element == ElementType::kI32;
}

/// Floats in which quotients of sizes are rounded as the expressions round them.
bool isFloat(ElementType element) {
  return element == ElementType::kF32 || element == ElementType::kF64;
}

/// What is decided for all sizes is.
Element simplified(const Element& element) {
  return element ? Element(element->simplified()) : std::nullopt;
}

/// lhs op rhs for one element. nullopt when one is not known, and of divisors that may be negative.
Element combine(llvm::StringRef op, const Element& lhs, const Element& rhs) {
  if (!lhs || !rhs) return std::nullopt;
  if (op == "Add") return lhs->plus(*rhs);
  if (op == "Sub") return lhs->minus(*rhs);
  if (op == "Mul") return lhs->times(*rhs);
  if (op == "Max") return simplified(DimExpr::max(*lhs, *rhs));
  if (op == "Min") return simplified(DimExpr::min(*lhs, *rhs));
  if (op == "Div" || op == "Mod") {
    const bool isDiv = op == "Div";
    if (*rhs == DimExpr(0)) return std::nullopt;
    const std::optional<int64_t> a = lhs->constant(), b = rhs->constant();
    if (a && b)
      return *b == -1 ? (isDiv ? DimExpr(0).minus(*lhs) : DimExpr(0)) : isDiv ? DimExpr(*a / *b) : lhs->mod(*rhs);
    if (Element exact = lhs->dividedBy(*rhs)) return isDiv ? exact : DimExpr(0);
    if (rhs->lowerBound().value_or(-1) < 0) return std::nullopt;
    // Mod has the divisor's sign, as ours; Div is rounded towards 0.
    const Element down = isDiv ? lhs->floorDiv(*rhs) : lhs->mod(*rhs);
    if (!isDiv || lhs->lowerBound().value_or(-1) >= 0) return simplified(down);
    const Element up = lhs->ceilDiv(*rhs);
    return up && down ? simplified(DimExpr::select(DimExpr::Compare::kLess, *lhs, 0, *up, *down)) : std::nullopt;
  }
  return std::nullopt;
}

/// 1 where the comparison holds, else 0.
Element compared(DimExpr::Compare compare, const Element& lhs, const Element& rhs) {
  return lhs && rhs ? simplified(DimExpr::select(compare, *lhs, *rhs, 1, 0)) : std::nullopt;
}

bool isComparison(llvm::StringRef op) {
  return op == "Equal" || op == "Less" || op == "Greater";
}

bool isPowerOfTwo(int64_t number) {
  return number > 0 && (number & (number - 1)) == 0;
}

/// The same elements over a divisor that is a multiple of their own.
bool widen(ShapeElements& elements, int64_t divisor) {
  for (Element& value : elements.values)
    if (value && !(value = value->times(divisor / elements.divisor))) return false;
  elements.divisor = divisor;
  return true;
}

/// Brings floats into a form in which `op` is one of their numerators. False where a result would be rounded in
/// another way than the expression is: by a divisor that is no power of two there is only one division.
bool alignFloats(llvm::StringRef op, ShapeElements& lhs, ShapeElements& rhs, int64_t& divisor) {
  constexpr int64_t kLargest = 1 << 20;
  if (op == "Div") {
    if (rhs.values.size() != 1 || !rhs.values[0]) return false;
    const std::optional<int64_t> by = rhs.values[0]->constant();
    if (!by || *by <= 0 || *by > kLargest || !isPowerOfTwo(lhs.divisor)) return false;
    divisor = lhs.divisor * *by;
    for (Element& value : lhs.values)
      if (value && !(value = value->times(rhs.divisor))) return false;
    rhs.values[0] = DimExpr(1);
    return divisor <= kLargest;
  }
  if (!isPowerOfTwo(lhs.divisor) || !isPowerOfTwo(rhs.divisor)) return false;
  if (op == "Mul") return (divisor = lhs.divisor * rhs.divisor) <= kLargest;
  if (op == "Mod") return false;
  divisor = std::max(lhs.divisor, rhs.divisor);
  return widen(lhs, divisor) && widen(rhs, divisor);
}

bool binary(NodeContext& node, llvm::StringRef op) {
  std::optional<ShapeElements> lhs = node.quotients(0), rhs = node.quotients(1);
  if (!lhs || !rhs || isFloat(lhs->element) != isFloat(rhs->element)) return false;
  int64_t divisor = 1;
  if (isFloat(lhs->element) && !alignFloats(op, *lhs, *rhs, divisor)) return false;
  const bool isQuotient = isFloat(lhs->element) && op == "Div";  // Of numerators alone, after alignFloats.
  size_t a = lhs->values.size(), b = rhs->values.size(), count = std::max(a, b);
  if (a != b && a != 1 && b != 1) return false;
  if (a == 0 || b == 0) return false;
  ShapeElements result{isComparison(op) ? ElementType::kBool : lhs->element, lhs->isScalar && rhs->isScalar, {}};
  for (size_t i = 0; i < count; ++i) {
    const Element &x = lhs->values[a == 1 ? 0 : i], &y = rhs->values[b == 1 ? 0 : i];
    result.values.push_back(op == "Equal"     ? compared(DimExpr::Compare::kEqual, x, y)
                            : op == "Less"    ? compared(DimExpr::Compare::kLess, x, y)
                            : op == "Greater" ? compared(DimExpr::Compare::kLess, y, x)
                            : isQuotient      ? x
                                              : combine(op, x, y));
  }
  if (!isComparison(op)) result.divisor = divisor;
  node.setOutput(0, std::move(result));
  return true;
}

/// Max and Min of any number of operands, all with as many elements or one.
bool extremum(NodeContext& node, llvm::StringRef op) {
  std::optional<ShapeElements> result = node.elements(0);
  for (size_t i = 1; result && i < node.numInputs(); ++i) {
    const std::optional<ShapeElements> next = node.elements(i);
    if (!next || next->values.empty() || result->values.empty()) return false;
    const size_t a = result->values.size(), b = next->values.size();
    if (a != b && a != 1 && b != 1) return false;
    std::vector<Element> values;
    for (size_t j = 0; j < std::max(a, b); ++j)
      values.push_back(combine(op, result->values[a == 1 ? 0 : j], next->values[b == 1 ? 0 : j]));
    result->values = std::move(values);
    result->isScalar &= next->isScalar;
  }
  if (!result) return false;
  node.setOutput(0, std::move(*result));
  return true;
}

/// Towards 0, of a positive divisor.
Element truncated(const Element& value, int64_t divisor) {
  if (!value || divisor == 1) return value;
  const Element down = value->floorDiv(divisor);
  if (value->lowerBound().value_or(-1) >= 0) return simplified(down);
  const Element up = value->ceilDiv(divisor);
  return up && down ? simplified(DimExpr::select(DimExpr::Compare::kLess, *value, 0, *up, *down)) : std::nullopt;
}

bool unary(NodeContext& node, llvm::StringRef op) {
  std::optional<ShapeElements> data = node.quotients(0);
  if (!data || data->element == ElementType::kBool) return false;
  for (Element& value : data->values) {
    if (!value) continue;
    if (op == "Neg")
      value = DimExpr(0).minus(*value);
    else if (op == "Abs")
      value =
          value->lowerBound().value_or(-1) >= 0 ? value : simplified(DimExpr::max(*value, *DimExpr(0).minus(*value)));
    else
      value = simplified(op == "Floor" ? value->floorDiv(data->divisor) : value->ceilDiv(data->divisor));
  }
  if (op == "Floor" || op == "Ceil") data->divisor = 1;
  node.setOutput(0, std::move(*data));
  return true;
}

bool where(NodeContext& node) {
  std::optional<ShapeElements> condition = node.elements(0), a = node.elements(1), b = node.elements(2);
  if (!condition || !a || !b) return false;
  size_t count = std::max({condition->values.size(), a->values.size(), b->values.size()});
  auto at = [&](const ShapeElements& list, size_t i) -> Element {
    return list.values.size() == 1 ? list.values[0] : list.values[i];
  };
  for (const ShapeElements* list : {&*condition, &*a, &*b})
    if (list->values.size() != count && list->values.size() != 1) return false;
  ShapeElements result{a->element, condition->isScalar && a->isScalar && b->isScalar, {}};
  for (size_t i = 0; i < count; ++i) {
    const Element choice = at(*condition, i), then = at(*a, i), otherwise = at(*b, i);
    if (const std::optional<int64_t> known = choice ? choice->constant() : std::nullopt)
      result.values.push_back(*known ? then : otherwise);
    else if (then && otherwise && *then == *otherwise)
      result.values.push_back(then);
    else if (choice && then && otherwise)
      result.values.push_back(simplified(DimExpr::select(DimExpr::Compare::kEqual, *choice, 0, *otherwise, *then)));
    else
      result.values.push_back(std::nullopt);
  }
  node.setOutput(0, std::move(result));
  return true;
}

/// data[index], whichever it is: the last element where the index is outside, which no model means.
Element chosen(const ShapeElements& data, const DimExpr& index) {
  const auto size = static_cast<int64_t>(data.values.size());
  const Element wrapped = index.plus(size);
  const Element at = wrapped ? DimExpr::select(DimExpr::Compare::kLess, index, 0, *wrapped, index) : std::nullopt;
  Element result = data.values.back();
  for (int64_t i = size - 1; i-- > 0 && result && at;)
    result =
        data.values[i] ? DimExpr::select(DimExpr::Compare::kEqual, *at, i, *data.values[i], *result) : std::nullopt;
  return at ? simplified(result) : std::nullopt;
}

bool gather(NodeContext& node) {
  std::optional<ShapeElements> data = node.quotients(0), indices = node.elements(1);
  if (!data || data->isScalar || !indices || data->values.empty()) return false;
  ShapeElements result{data->element, indices->isScalar, {}, data->divisor};
  int64_t size = data->values.size();
  for (const Element& i : indices->values) {
    if (!i) {
      result.values.push_back(std::nullopt);
      continue;
    }
    if (!i->isConstant()) {
      result.values.push_back(chosen(*data, *i));
      continue;
    }
    std::optional<int64_t> at = node.index(*i->constant(), 0, size);
    if (!at) return true;
    result.values.push_back(data->values[*at]);
  }
  node.setOutput(0, std::move(result));
  return true;
}

/// A shape of which some sizes are replaced.
bool scatter(NodeContext& node) {
  std::optional<ShapeElements> data = node.quotients(0), updates = node.quotients(2);
  std::optional<Ints> indices = node.constantInts(1);
  if (!data || data->isScalar || !updates || updates->isScalar || !indices || updates->divisor != data->divisor ||
      updates->values.size() != indices->size() || node.text("reduction", "none") != "none")
    return false;
  for (const auto& [i, value] : llvm::zip(*indices, updates->values)) {
    std::optional<int64_t> at = node.index(i, 0, data->values.size());
    if (!at) return true;
    data->values[*at] = value;
  }
  node.setOutput(0, std::move(*data));
  return true;
}

bool slice(NodeContext& node) {
  std::optional<ShapeElements> data = node.quotients(0);
  if (!data || data->isScalar) return false;
  auto one = [&](llvm::StringRef attribute, size_t input, int64_t otherwise) -> std::optional<int64_t> {
    Ints values;
    if (node.opset() < 10) {
      values = node.integers(attribute);
    } else if (node.has(input)) {
      std::optional<Ints> given = node.constantInts(input);
      if (!given) return std::nullopt;
      values = *given;
    }
    if (values.empty()) return otherwise;
    return values.size() == 1 ? std::optional<int64_t>(values[0]) : std::nullopt;
  };
  int64_t size = data->values.size();
  std::optional<int64_t> start = one("starts", 1, 0), end = one("ends", 2, size), axis = one("axes", 3, 0),
                         step = node.opset() < 10 ? 1 : one("steps", 4, 1);
  if (!start || !end || !axis || !step || *step == 0 || (*axis != 0 && *axis != -1)) return false;
  int64_t low = *step > 0 ? 0 : -1, high = *step > 0 ? size : size - 1;
  auto place = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, low, high); };
  ShapeElements result{data->element, false, {}, data->divisor};
  for (int64_t i = place(*start), last = place(*end); *step > 0 ? i < last : i > last; i += *step)
    result.values.push_back(data->values[i]);
  node.setOutput(0, std::move(result));
  return true;
}

bool concat(NodeContext& node) {
  ShapeElements result;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    std::optional<ShapeElements> piece = node.quotients(i);
    if (!piece || piece->isScalar || (i > 0 && piece->divisor != result.divisor)) return false;
    result.element = piece->element;
    result.divisor = piece->divisor;
    result.values.insert(result.values.end(), piece->values.begin(), piece->values.end());
  }
  node.setOutput(0, std::move(result));
  return true;
}

/// Ops that keep the elements and say whether the result is a scalar.
bool reshaped(NodeContext& node, bool toScalar) {
  std::optional<ShapeElements> data = node.quotients(0);
  if (!data || (toScalar && data->values.size() != 1)) return false;
  data->isScalar = toScalar;
  node.setOutput(0, std::move(*data));
  return true;
}

bool reshape(NodeContext& node) {
  std::optional<ShapeElements> data = node.quotients(0);
  std::optional<Ints> target = node.constantInts(1);
  if (!data || !target || target->size() > 1) return false;
  int64_t size = data->values.size();
  if (target->size() == 1 && (*target)[0] != -1 && (*target)[0] != size && !((*target)[0] == 0 && !data->isScalar))
    return false;
  return reshaped(node, target->empty());
}

bool unsqueeze(NodeContext& node) {
  std::optional<ShapeElements> data = node.quotients(0);
  bool ok;
  std::optional<Ints> axes = data && data->isScalar ? node.attributeOrInput("axes", 1, ok) : std::nullopt;
  if (!axes || axes->size() != 1 || ((*axes)[0] != 0 && (*axes)[0] != -1)) return false;
  return reshaped(node, false);
}

bool cast(NodeContext& node) {
  std::optional<ShapeElements> data = node.quotients(0);
  ElementType to = elementOfOnnxType(static_cast<int32_t>(node.integer("to", 0)));
  if (!data) return false;
  if (to == ElementType::kBool && data->element == ElementType::kBool) return reshaped(node, data->isScalar);
  if (!isInteger(to) && !isFloat(to)) return false;
  if (isInteger(to)) {
    for (Element& value : data->values) value = truncated(value, data->divisor);
    data->divisor = 1;
  }
  data->element = to;
  node.setOutput(0, std::move(*data));
  return true;
}

bool reduceProduct(NodeContext& node) {
  std::optional<ShapeElements> data = node.elements(0);
  if (!data || data->isScalar) return false;
  ShapeElements result{data->element, node.integer("keepdims", 1) == 0, {}};
  result.values.push_back(NodeContext::product(data->values));
  node.setOutput(0, std::move(result));
  return true;
}

/// The least or greatest of all sizes.
bool reduceExtremum(NodeContext& node, bool isMax) {
  std::optional<ShapeElements> data = node.elements(0);
  if (!data || data->isScalar || data->values.empty()) return false;
  const bool isAll = node.numInputs() < 2 || node.constantInts(1);
  const Ints axes = node.has(1) ? node.constantInts(1).value_or(Ints{-2}) : node.integers("axes", Ints{0});
  if (!isAll || axes.size() > 1 || (!axes.empty() && axes[0] != 0 && axes[0] != -1)) return false;
  Element result = data->values[0];
  for (const Element& each : llvm::ArrayRef(data->values).drop_front())
    result = combine(isMax ? "Max" : "Min", result, each);
  node.setOutput(0, ShapeElements{data->element, node.integer("keepdims", 1) == 0, {result}});
  return true;
}

}  // namespace

bool convertSymbolically(NodeContext& node) {
  llvm::StringRef op = node.def().op;
  if (op == "Mod" && node.integer("fmod", 0) != 0) return false;
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Mod" || isComparison(op))
    return node.numInputs() == 2 && binary(node, op);
  if (op == "Max" || op == "Min") return extremum(node, op);
  if (op == "Neg" || op == "Abs" || op == "Floor" || op == "Ceil") return unary(node, op);
  if (op == "Where") return where(node);
  if (op == "Gather") return gather(node);
  if (op == "ScatterElements") return scatter(node);
  if (op == "Slice") return slice(node);
  if (op == "Concat") return concat(node);
  if (op == "Reshape") return reshape(node);
  if (op == "Squeeze") return reshaped(node, true);
  if (op == "Unsqueeze") return unsqueeze(node);
  if (op == "Cast") return cast(node);
  if (op == "ReduceProd") return reduceProduct(node);
  if (op == "ReduceMax" || op == "ReduceMin") return reduceExtremum(node, op == "ReduceMax");
  return false;
}

}  // namespace hpu::importer
