// SPDX-License-Identifier: Apache-2.0
// TPC optimisers. The one thing to know: they are functions: new weights and states are results, which a user may place
// on the old ones by giving both tensors one section and offset.
#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

/// An operand of one element, as a scalar of f32.
Value scalarInput(NodeContext& c, size_t i) {
  Value v = c.input(i);
  if (!c.ok()) return {};
  if (numElements(c.shape(v)) != 1) return c.fail(strCat(c.inputName(i), " must have one element"));
  return c.reshape(c.toF32(v), {});
}

bool sameSizes(NodeContext& c, size_t a, size_t b) {
  if (!c.ok()) return false;
  if (c.inputShape(a) == c.inputShape(b)) return true;
  c.fail(strCat(c.inputName(a), " and ", c.inputName(b), " have different sizes"));
  return false;
}

/// grad, weight, lr; or grad, weight, momentum, step, lr, [momentum factor]. The momentum of step 0 is the gradient.
void lowerSgd(NodeContext& c) {
  auto params = c.params<ns_OptimizerSGD::Params>();
  Value gradient = c.toF32(c.input(0)), weight = c.toF32(c.input(1));
  if (!sameSizes(c, 0, 1)) return;
  if (params.wd != 0) gradient = c.add(gradient, c.mul(weight, params.wd));
  if (c.numInputs() < 4) {
    Value updated = c.sub(weight, c.mul(gradient, scalarInput(c, 2)));
    if (c.wantsOutput(1)) return (void)c.fail("the short form (gradient, weight, rate) gives the weight only");
    return c.output(0, updated);
  }
  if (!sameSizes(c, 2, 1)) return;
  Value momentum = c.toF32(c.input(2)), step = scalarInput(c, 3), rate = scalarInput(c, 4);
  Value factor = c.hasInput(5) ? scalarInput(c, 5) : c.scalar(params.mom, ElementType::kF32);
  Value later = c.add(c.mul(momentum, factor), c.mul(gradient, 1.0 - static_cast<double>(params.damp)));
  Value isFirst = c.op("equal", {step, c.scalarLike(step, 0)});
  Value next = c.where(isFirst, gradient, later);
  Value direction = isSet(params.nesterov) ? c.add(gradient, c.mul(next, factor)) : next;
  Value updated = c.sub(weight, c.mul(direction, rate));
  c.output(0, updated);
  bool hasCopy = c.numOutputs() > 2;
  if (hasCopy) c.output(1, updated);  // In its own type.
  c.output(hasCopy ? 2 : 1, next);
}

void lowerAdagrad(NodeContext& c) {
  auto params = c.params<ns_OptimizerAdagrad::Params>();
  Value gradient = c.toF32(c.input(0)), weight = c.toF32(c.input(1)), sum = c.toF32(c.input(2));
  if (!sameSizes(c, 0, 1) || !sameSizes(c, 2, 1)) return;
  Value epoch = scalarInput(c, 3), rate = scalarInput(c, 4);
  if (params.wd != 0) gradient = c.add(gradient, c.mul(weight, params.wd));
  Value decayed = c.div(rate, c.add(c.mul(epoch, params.lrd), 1));
  Value squares = c.add(sum, c.mul(gradient, gradient));
  Value step = c.div(gradient, c.add(c.op("sqrt", {squares}), params.eps));
  c.output(0, c.sub(weight, c.mul(step, decayed)));
  c.output(1, squares);
}

constexpr std::string_view kFloats = "f32 bf16";

// clang-format off
constexpr GuidRow kRows[] = {
    {"optimizer_sgd_bwd", "gradient, weight, rate or momentum, [step], [rate], [momentum factor]",
     "weight, [momentum or copy], [momentum]", "ns_OptimizerSGD::Params", kFloats, lowerSgd, {}, kInF32},
    {"optimizer_adagrad_bwd", "gradient, weight, sum, epoch, rate", "weight, [sum]", "ns_OptimizerAdagrad::Params", kFloats, lowerAdagrad, {}, kInF32},
};
// clang-format on

}  // namespace

std::span<const GuidRow> optimizerGuids() {
  return kRows;
}

}  // namespace hpu::synapse
