// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/StatusMacros.h"
#include "tests/random/Elements.h"
#include "tests/random/KnownDifferences.h"
#include "tests/random/Truth.h"

namespace hpu::randomtest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Beyond, a number may leave the range of f16 (65504), of bf16 (3.3895e38).
constexpr double kHalfLimit = 60000, kNarrowLimit = 3.37e38;

}  // namespace

double Evaluator::ownUlp(ElementType type) const {
  if (type == ElementType::kF64) return 0x1p-52;
  return type == ElementType::kF16 ? 0x1p-10 : type == ElementType::kBF16 ? 0x1p-7 : 0x1p-23;
}

double Evaluator::narrowUlp() const {
  return precision_ == Precision::kF32 ? 0 : precision_ == Precision::kF16 ? 0x1p-10 : 0x1p-7;
}

double Evaluator::ulp(ElementType type) const {
  return std::max(ownUlp(type), narrowUlp());
}

double Evaluator::roundings(ElementType type, double ulps) const {
  // Kernels compute in f32 at every precision; what is narrow is what goes from one to the next.
  return ulps * ownUlp(type) + std::min(ulps, 1.0) * narrowUlp() / 2;
}

double Evaluator::least(ElementType type) const {
  if (type == ElementType::kF16 || precision_ == Precision::kF16) return 0x1p-24;
  if (type == ElementType::kF64 && precision_ == Precision::kF32) return 0x1p-1022;  // Denormals may be 0.
  return type == ElementType::kBF16 || precision_ != Precision::kF32 ? 0x1p-133 : 0x1p-149;
}

bool Evaluator::leavesRange(double x) const {
  if (precision_ == Precision::kF32 || !std::isfinite(x)) return false;
  return std::fabs(x) > (precision_ == Precision::kF16 ? kHalfLimit : kNarrowLimit);
}

Status Evaluator::addSums(const Node& node, int64_t opset, const std::vector<const Value*>& operands,
                          const std::vector<bool>& constants, const Local& local, Evaluated& result) {
  std::vector<HostTensor> magnitudes;
  int64_t terms = 1;
  bool isFp8 = hpu::isFp8(precision_), beyondFp8 = false, hasNoScale = false;
  for (size_t i = 0; i < operands.size(); ++i) {
    HostTensor tensor = operands[i]->tensor;
    if (isFloat(tensor.type.element)) {
      terms = std::max(terms, tensor.count());
      bool negated = std::find(local.negated.begin(), local.negated.end(), i) != local.negated.end();
      double largest = 0;
      for (int64_t k = 0; k < tensor.count(); ++k)
        if (double x = std::fabs(tensor.number(k)); std::isfinite(x))
          largest = std::max(largest, x);
        else
          hasNoScale = isFp8;
      beyondFp8 |= isFp8 && largest > 3840;
      // The least step of an 8-bit tensor, at the widest scales.
      double step = isFp8 ? std::max(largest * 0x1p-14, 0x1p-18) : 0;
      for (int64_t k = 0; k < tensor.count(); ++k) {
        double x = std::fabs(tensor.number(k));
        if (!std::isfinite(x)) x = 0;
        x += step;
        setNumber(tensor, k, negated ? -x : x);
      }
    }
    magnitudes.push_back(std::move(tensor));
  }
  if (hasNoScale) ++leftOpen["fp8-scale-of-nan"];
  beyondFp8 |= hasNoScale;
  std::vector<const HostTensor*> given;
  for (const HostTensor& tensor : magnitudes) given.push_back(&tensor);
  Node changed = node;
  for (const auto& [name, value] : local.magnitudes)
    for (auto& [own, attribute] : changed.attributes)
      if (own == name) attribute = value;
  HPU_ASSIGN(std::unique_ptr<NodeRunner> runner, reference_.open(changed, opset, given, constants));
  HPU_ASSIGN(Tensors sums, runner->run(given));
  for (size_t out = 0; out < result.tensors.size(); ++out) {
    if (!isFloat(result.tensors[out].type.element) || sums[out].type != result.tensors[out].type) continue;
    const bool isDouble = result.tensors[out].type.element == ElementType::kF64;
    double unit = (isDouble ? 0x1p-53 : 0x1p-24) * (8 + std::sqrt(static_cast<double>(terms)));
    // Partial sums may be stored in the type of the result.
    if (result.tensors[out].type.element != ElementType::kF32 && !isDouble)
      unit += ulp(result.tensors[out].type.element);
    if (precision_ != Precision::kF32) unit += 2 * ulp(ElementType::kF32) + (isFp8 ? 0x1p-3 : 0);
    std::vector<double>& error = result.errors[out];
    error.resize(static_cast<size_t>(sums[out].count()));
    for (int64_t k = 0; k < sums[out].count(); ++k) {
      double sum = std::fabs(sums[out].number(k));
      double largest = result.tensors[out].type.element == ElementType::kF16 ? 6e4 : isDouble ? 1e308 : 3e38;
      error[k] += sum < largest && !beyondFp8 ? unit * sum : kInfinity;
    }
  }
  return okStatus();
}

StatusOr<Evaluated> Evaluator::evaluate(const Model& model, const Node& node, const Local& local, Rng& rng) {
  std::vector<const Value*> operands;
  std::vector<const HostTensor*> tensors;
  std::vector<bool> constants;
  for (const std::string& name : node.inputs) {
    if (!name.empty()) {
      operands.push_back(&model.values.at(name));
      tensors.push_back(&operands.back()->tensor);
    }
    constants.push_back(model.isConstant(name));
  }
  if (const char* known = differsAsAWhole(node, model.opset, tensors)) {
    ++leftOpen[known];
    return unimplemented(known);
  }
  HPU_ASSIGN(std::unique_ptr<NodeRunner> runner, reference_.open(node, model.opset, tensors, constants));
  Evaluated result;
  HPU_ASSIGN(result.tensors, runner->run(tensors));
  result.errors.resize(result.tensors.size());
  if (result.tensors.size() == 1) applyTruth(node, tensors, result.tensors[0], &result.errors[0]);
  addMoved(node, model.opset, operands, local, *runner, rng, result);
  HPU_RETURN_IF_ERROR(settleNans(node, tensors, *runner, result));
  HPU_RETURN_IF_ERROR(settleOverflows(node, tensors, *runner, result));
  HPU_RETURN_IF_ERROR(settleHalves(node, model.opset, tensors, constants, result));
  HPU_RETURN_IF_ERROR(settleResizes(node, tensors, *runner, result));
  if (local.sums) HPU_RETURN_IF_ERROR(addSums(node, model.opset, operands, constants, local, result));
  for (size_t out = 0; out < result.tensors.size(); ++out) {
    const HostTensor& tensor = result.tensors[out];
    ElementType type = tensor.type.element;
    const double relative = roundings(type, local.ulps + (type == ElementType::kF32 ? 0 : 1)) + narrowUlp();
    std::vector<double>& error = result.errors[out];
    if (isFloat(type) && (local.ulps > 0 || type == ElementType::kF16 || precision_ != Precision::kF32)) {
      error.resize(static_cast<size_t>(tensor.count()));
      for (int64_t k = 0; k < tensor.count(); ++k) {
        double y = std::fabs(tensor.number(k));
        if (std::isfinite(y))
          error[k] += relative * y + (local.ulps + 2) * local.steps * least(type) + roundings(type, local.absolute);
        if (y < local.tiny) error[k] += local.tiny;
        if (leavesRange(y)) error[k] = kInfinity;
      }
    }
    if (!isFloat(type) && type != ElementType::kBool && local.integerSteps > 0) {
      error.resize(static_cast<size_t>(tensor.count()));
      for (double& e : error) e += local.integerSteps;
    }
    // A number that lies between two steps may be rounded to either when it was rounded before.
    if (!isFloat(type) && precision_ != Precision::kF32 && node.op.find("Linear") != std::string::npos) {
      error.resize(static_cast<size_t>(tensor.count()));
      for (double& e : error) e += 1;
    }
    if (std::all_of(error.begin(), error.end(), [](double e) { return e == 0; })) error.clear();
  }
  for (const std::string& name : leaveOpen(node, model.opset, tensors, result)) ++leftOpen[name];
  return result;
}

}  // namespace hpu::randomtest
