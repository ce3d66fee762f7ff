// SPDX-License-Identifier: Apache-2.0
// Results that are NaN or infinite in the reference alone, or in ours alone, with a reason that ONNX leaves open: each
// is found by running the node again on operands that show it.
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "base/StatusMacros.h"
#include "tests/random/Elements.h"
#include "tests/random/Evaluate.h"

namespace hpu::randomtest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

/// A largest or smallest number of several with a NaN among them is NaN: the op itself tells which, on operands that
/// say where the NaNs are.
Status Evaluator::settleNans(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                             Evaluated& result) {
  bool isMin = node.op == "ReduceMin";
  if (!isMin && node.op != "ReduceMax" && node.op != "MaxPool" && node.op != "GlobalMaxPool") return okStatus();
  if (!isFloat(operands[0]->type.element)) return okStatus();
  HostTensor where = *operands[0];
  bool any = false;
  for (int64_t k = 0; k < where.count(); ++k) {
    bool isNan = std::isnan(where.number(k));
    any |= isNan;
    setNumber(where, k, isNan ? (isMin ? -1 : 1) : 0);
  }
  if (!any) return okStatus();
  std::vector<const HostTensor*> given = operands;
  given[0] = &where;
  HPU_ASSIGN(Tensors marks, runner.run(given));
  bool differs = false;
  for (int64_t k = 0; k < marks[0].count(); ++k) {
    if (marks[0].number(k) == 0 || std::isnan(result.tensors[0].number(k))) continue;
    setNumber(result.tensors[0], k, std::nan(""));
    if (!result.errors[0].empty()) result.errors[0][k] = 0;
    differs = true;
  }
  if (differs) ++leftOpen["largest-of-nan"];
  return okStatus();
}

/// A row of Resize's result that a neighbour of weight 0, or nearly, made infinite or NaN: the others are marked by
/// the op itself, on operands that say where what is no number is.
Status Evaluator::settleResizes(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                                Evaluated& result) {
  if (node.op != "Resize" && node.op != "Upsample") return okStatus();
  const HostTensor& tensor = result.tensors[0];
  if (!isFloat(tensor.type.element)) return okStatus();
  HostTensor infinities = *operands[0], marks = *operands[0];
  bool any = false;
  for (int64_t k = 0; k < marks.count(); ++k) {
    const bool isNumber = std::isfinite(marks.number(k));
    any |= !isNumber;
    setNumber(infinities, k, isNumber ? 1 : kInfinity);
    setNumber(marks, k, isNumber ? 0 : 1);
  }
  if (!any) return okStatus();
  std::vector<const HostTensor*> given = operands;
  given[0] = &infinities;
  HPU_ASSIGN(Tensors weightless, runner.run(given));  // 0 * infinity: NaN.
  given[0] = &marks;
  HPU_ASSIGN(Tensors weights, runner.run(given));
  bool open = false;
  for (int64_t k = 0; k < tensor.count(); ++k) {
    if (std::isfinite(tensor.number(k))) continue;
    const double weight = weights[0].number(k);
    if (!std::isnan(weightless[0].number(k)) && !(weight > 0 && weight < 1e-4)) continue;
    result.errors[0].resize(static_cast<size_t>(tensor.count()));
    result.errors[0][k] = kInfinity;
    open = true;
  }
  if (open) ++leftOpen["resize-of-weight-0"];
  return okStatus();
}

/// An infinity of f16 that the same node in f32 does not give: kernels hold f16 numbers in f32 from one node to the
/// next.
Status Evaluator::settleHalves(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                               const std::vector<bool>& constants, Evaluated& result) {
  if (node.op == "Cast" || node.op == "CastLike") return okStatus();
  auto isOverflow = [](const HostTensor& tensor, int64_t k) {
    return tensor.type.element == ElementType::kF16 && std::isinf(tensor.number(k));
  };
  bool any = false;
  for (const HostTensor& tensor : result.tensors)
    for (int64_t k = 0; k < tensor.count() && !any; ++k) any = isOverflow(tensor, k);
  if (!any) return okStatus();
  std::vector<HostTensor> wide;
  for (const HostTensor* operand : operands) {
    wide.push_back(*operand);
    if (operand->type.element != ElementType::kF16) continue;
    wide.back().type.element = ElementType::kF32;
    wide.back().bytes.resize(static_cast<size_t>(operand->count()) * 4);
    for (int64_t k = 0; k < operand->count(); ++k) setNumber(wide.back(), k, operand->number(k));
  }
  std::vector<const HostTensor*> given;
  for (const HostTensor& tensor : wide) given.push_back(&tensor);
  StatusOr<std::unique_ptr<NodeRunner>> runner = reference_.open(node, opset, given, constants);
  if (!runner.ok()) return okStatus();
  HPU_ASSIGN(Tensors results, (*runner)->run(given));
  bool open = false;
  for (size_t out = 0; out < results.size(); ++out)
    for (int64_t k = 0; k < result.tensors[out].count(); ++k) {
      if (!isOverflow(result.tensors[out], k) || !std::isfinite(results[out].number(k))) continue;
      result.errors[out].resize(static_cast<size_t>(result.tensors[out].count()));
      result.errors[out][k] = kInfinity;
      open = true;
    }
  if (open) ++leftOpen["overflow-on-the-way"];
  return okStatus();
}

/// An infinity that operands a quarter as large do not give: a compiler may compute several ops as one that does not
/// leave the range on the way.
Status Evaluator::settleOverflows(const Node& node, const std::vector<const HostTensor*>& operands, NodeRunner& runner,
                                  Evaluated& result) {
  static const std::set<std::string> kOps = {"Add", "Sub", "Mul", "Div", "Sum"};
  const HostTensor& tensor = result.tensors[0];
  if (!kOps.count(node.op) || !isFloat(tensor.type.element)) return okStatus();
  bool any = false;
  for (int64_t k = 0; k < tensor.count() && !any; ++k) any = std::isinf(tensor.number(k));
  if (!any) return okStatus();
  std::vector<HostTensor> quarters;
  for (size_t i = 0; i < operands.size(); ++i) {
    quarters.push_back(*operands[i]);
    for (int64_t k = 0; k < quarters[i].count() && (node.op != "Div" || i == 0); ++k)
      setNumber(quarters[i], k, quarters[i].number(k) / 4);
  }
  std::vector<const HostTensor*> given;
  for (const HostTensor& quarter : quarters) given.push_back(&quarter);
  HPU_ASSIGN(Tensors smaller, runner.run(given));
  bool open = false;
  for (int64_t k = 0; k < tensor.count(); ++k) {
    if (!std::isinf(tensor.number(k)) || !std::isfinite(smaller[0].number(k))) continue;
    result.errors[0].resize(static_cast<size_t>(tensor.count()));
    result.errors[0][k] = kInfinity;
    open = true;
  }
  if (open) ++leftOpen["overflow-on-the-way"];
  return okStatus();
}

}  // namespace hpu::randomtest
