// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic on sizes that may be free: Shape, Gather, Slice, Concat ... on vectors of DimExpr.
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using shape::DimExpr;
using Element = std::optional<DimExpr>;

bool isInteger(ElementType element) {
  return element == ElementType::kI64 || element == ElementType::kI32;
}

/// What is decided for all sizes is.
Element simplified(const Element& element) {
  return element ? Element(element->simplified()) : std::nullopt;
}

/// lhs op rhs for one element. nullopt when one is not known, and where ONNX's rounding towards 0 may differ from ours,
/// downwards.
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
    if (a && b) return *b == -1 ? (isDiv ? DimExpr(0).minus(*lhs) : DimExpr(0)) : DimExpr(isDiv ? *a / *b : *a % *b);
    if (Element exact = lhs->dividedBy(*rhs)) return isDiv ? exact : DimExpr(0);
    if (lhs->lowerBound().value_or(-1) < 0 || rhs->lowerBound().value_or(-1) < 0) return std::nullopt;
    return simplified(isDiv ? lhs->floorDiv(*rhs) : lhs->mod(*rhs));
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

bool binary(NodeContext& node, llvm::StringRef op) {
  std::optional<ShapeElements> lhs = node.elements(0), rhs = node.elements(1);
  if (!lhs || !rhs) return false;
  size_t a = lhs->values.size(), b = rhs->values.size(), count = std::max(a, b);
  if (a != b && a != 1 && b != 1) return false;
  if (a == 0 || b == 0) return false;
  ShapeElements result{isComparison(op) ? ElementType::kBool : lhs->element, lhs->isScalar && rhs->isScalar, {}};
  for (size_t i = 0; i < count; ++i) {
    const Element &x = lhs->values[a == 1 ? 0 : i], &y = rhs->values[b == 1 ? 0 : i];
    result.values.push_back(op == "Equal"     ? compared(DimExpr::Compare::kEqual, x, y)
                            : op == "Less"    ? compared(DimExpr::Compare::kLess, x, y)
                            : op == "Greater" ? compared(DimExpr::Compare::kLess, y, x)
                                              : combine(op, x, y));
  }
  node.setOutput(0, std::move(result));
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

bool gather(NodeContext& node) {
  std::optional<ShapeElements> data = node.elements(0);
  std::optional<Ints> indices = node.constantInts(1);
  RankedTensorType indexType = node.inputType(1);
  if (!data || data->isScalar || !indices || !indexType || indexType.getRank() > 1) return false;
  ShapeElements result{data->element, indexType.getRank() == 0, {}};
  int64_t size = data->values.size();
  for (int64_t i : *indices) {
    std::optional<int64_t> at = node.index(i, 0, size);
    if (!at) return true;
    result.values.push_back(data->values[*at]);
  }
  node.setOutput(0, std::move(result));
  return true;
}

bool slice(NodeContext& node) {
  std::optional<ShapeElements> data = node.elements(0);
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
  ShapeElements result{data->element, false, {}};
  for (int64_t i = place(*start), last = place(*end); *step > 0 ? i < last : i > last; i += *step)
    result.values.push_back(data->values[i]);
  node.setOutput(0, std::move(result));
  return true;
}

bool concat(NodeContext& node) {
  ShapeElements result;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    std::optional<ShapeElements> piece = node.elements(i);
    if (!piece || piece->isScalar) return false;
    result.element = piece->element;
    result.values.insert(result.values.end(), piece->values.begin(), piece->values.end());
  }
  node.setOutput(0, std::move(result));
  return true;
}

/// Ops that keep the elements and say whether the result is a scalar.
bool reshaped(NodeContext& node, bool toScalar) {
  std::optional<ShapeElements> data = node.elements(0);
  if (!data || (toScalar && data->values.size() != 1)) return false;
  data->isScalar = toScalar;
  node.setOutput(0, std::move(*data));
  return true;
}

bool reshape(NodeContext& node) {
  std::optional<ShapeElements> data = node.elements(0);
  std::optional<Ints> target = node.constantInts(1);
  if (!data || !target || target->size() > 1) return false;
  int64_t size = data->values.size();
  if (target->size() == 1 && (*target)[0] != -1 && (*target)[0] != size && !((*target)[0] == 0 && !data->isScalar))
    return false;
  return reshaped(node, target->empty());
}

bool unsqueeze(NodeContext& node) {
  std::optional<ShapeElements> data = node.elements(0);
  bool ok;
  std::optional<Ints> axes = data && data->isScalar ? node.attributeOrInput("axes", 1, ok) : std::nullopt;
  if (!axes || axes->size() != 1 || ((*axes)[0] != 0 && (*axes)[0] != -1)) return false;
  return reshaped(node, false);
}

bool cast(NodeContext& node) {
  std::optional<ShapeElements> data = node.elements(0);
  ElementType to = elementOfOnnxType(static_cast<int32_t>(node.integer("to", 0)));
  if (!data) return false;
  if (to == ElementType::kBool && data->element == ElementType::kBool) return reshaped(node, data->isScalar);
  if (!isInteger(to)) return false;
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

}  // namespace

bool convertSymbolically(NodeContext& node) {
  llvm::StringRef op = node.def().op;
  if (op == "Mod" && node.integer("fmod", 0) != 0) return false;
  if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Mod" || op == "Max" || op == "Min" ||
      isComparison(op))
    return node.numInputs() == 2 && binary(node, op);
  if (op == "Where") return where(node);
  if (op == "Gather") return gather(node);
  if (op == "Slice") return slice(node);
  if (op == "Concat") return concat(node);
  if (op == "Reshape") return reshape(node);
  if (op == "Squeeze") return reshaped(node, true);
  if (op == "Unsqueeze") return unsqueeze(node);
  if (op == "Cast") return cast(node);
  if (op == "ReduceProd") return reduceProduct(node);
  return false;
}

}  // namespace hpu::importer
