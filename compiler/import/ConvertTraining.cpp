// SPDX-License-Identifier: Apache-2.0
// Steps of optimisers (ai.onnx.preview.training). Their operands come in groups: all weights, then all gradients, ...
#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Optimizers.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Emitter;
using compose::OptimizerOptions;
using compose::OptimizerStep;

constexpr const char* kDomain = "ai.onnx.preview.training";

/// One tensor of each group, the weights first.
using Step = OptimizerStep (*)(Emitter&, hpu::Value rate, hpu::Value step, const std::vector<hpu::Value>& tensors,
                               const OptimizerOptions&);

void convertSteps(NodeContext& node, size_t groups, const OptimizerOptions& options, Step step) {
  const size_t tensors = node.numInputs() < 2 ? 0 : node.numInputs() - 2, count = tensors / groups;
  if (count == 0 || tensors % groups != 0)
    return node.invalid(strCat("needs a rate, a step, and ", groups, " operands for each tensor of weights"));
  std::vector<Value> operands;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    operands.push_back(node.input(i));
    if (!operands.back()) return;
    if (i != 1 && !node.isFloat(operands.back())) return node.invalid(strCat("input ", i, " must be of floats"));
  }
  // All of a tensor's have its shape.
  for (size_t i = 2 + count; i < operands.size(); ++i) {
    const Value own = operands[2 + (i - 2) % count];
    for (int64_t d = 0; node.rank(own) == node.rank(operands[i]) && d < node.rank(own); ++d)
      if (!node.sameSize(own, d, operands[i], d)) return;
  }
  composed(node, operands, [&](Emitter& e, const std::vector<hpu::Value>& in) {
    // Outputs are in groups, too: weights, then each of what is remembered.
    std::vector<hpu::Value> results(count * (groups - 1));
    for (size_t k = 0; k < count; ++k) {
      std::vector<hpu::Value> own;
      for (size_t g = 0; g < groups; ++g) own.push_back(in[2 + g * count + k]);
      const OptimizerStep done = step(e, in[0], in[1], own, options);
      results[k] = done.weights;
      results[count + k] = done.first;
      if (groups > 3) results[2 * count + k] = done.second;
    }
    return results;
  });
}

void convertAdagrad(NodeContext& node) {
  OptimizerOptions o;
  o.normCoefficient = node.number("norm_coefficient", 0);
  o.decayFactor = node.number("decay_factor", 0);
  o.epsilon = node.number("epsilon", 1e-6);
  convertSteps(node, 3, o, [](Emitter& e, hpu::Value r, hpu::Value t, const auto& x, const OptimizerOptions& how) {
    return compose::adagradStep(e, r, t, x[0], x[1], x[2], how);
  });
}

void convertAdam(NodeContext& node) {
  OptimizerOptions o;
  o.normCoefficient = node.number("norm_coefficient", 0);
  o.normCoefficientPost = node.number("norm_coefficient_post", 0);
  o.alpha = node.number("alpha", 0.9);
  o.beta = node.number("beta", 0.999);
  o.epsilon = node.number("epsilon", 1e-6);
  convertSteps(node, 4, o, [](Emitter& e, hpu::Value r, hpu::Value t, const auto& x, const OptimizerOptions& how) {
    return compose::adamStep(e, r, t, x[0], x[1], x[2], x[3], how);
  });
}

void convertMomentum(NodeContext& node) {
  OptimizerOptions o;
  o.normCoefficient = node.number("norm_coefficient", 0);
  o.alpha = node.number("alpha", 0);
  o.beta = node.number("beta", 0);
  const std::string mode = node.text("mode", "");
  if (mode != "standard" && mode != "nesterov") return node.invalid("unknown mode '" + mode + "'");
  o.isNesterov = mode == "nesterov";
  convertSteps(node, 3, o, [](Emitter& e, hpu::Value r, hpu::Value t, const auto& x, const OptimizerOptions& how) {
    return compose::momentumStep(e, r, t, x[0], x[1], x[2], how);
  });
}

constexpr OpRow kRows[] = {
    {"Adagrad", 1, 1, convertAdagrad, "", "", kDomain},
    {"Adam", 1, 1, convertAdam, "", "", kDomain},
    {"Momentum", 1, 1, convertMomentum, "", "", kDomain},
};

}  // namespace

llvm::ArrayRef<OpRow> trainingRows() {
  return kRows;
}

}  // namespace hpu::importer
