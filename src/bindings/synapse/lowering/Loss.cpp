// SPDX-License-Identifier: Apache-2.0
// TPC losses and their gradients, computed in f32. The one thing to know: a mean or sum is a tensor of one element; a
// gradient takes the loss's gradient first (but binary_cross_entropy's: last, and negated).
#include <cmath>

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Indexing.h"
#include "compose/Labels.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

using Ints = std::vector<int64_t>;
enum class Mode { kMean, kSum, kNone };

Ints allAxes(NodeContext& c, Value v) {
  Ints axes;
  for (int64_t d = 0; d < c.rank(v); ++d) axes.push_back(d);
  return axes;
}

Value total(NodeContext& c, Value v) {
  return c.reshape(c.reduceSum(v, allAxes(c, v), true), {1});
}

Value reduced(NodeContext& c, Value loss, Mode mode) {
  if (mode == Mode::kNone || !loss.handle) return loss;
  Value sum = total(c, loss);
  return mode == Mode::kSum ? sum : c.div(sum, static_cast<double>(numElements(c.shape(loss))));
}

/// MEAN, SUM, NONE: NLLLossMode_t, MSELossMode_t and LossMode_t alike.
Mode modeOf(NodeContext& c, int mode) {
  if (mode < 0 || mode > 2) c.fail(strCat("unknown reduction mode ", mode));
  return static_cast<Mode>(mode);
}

/// SUM, MEAN, NONE: ECrossEntropyMode_t and KLDivMode_t.
Mode sumFirst(NodeContext& c, int mode) {
  if (mode < 0 || mode > 2) c.fail(strCat("unknown reduction mode ", mode));
  return mode == 0 ? Mode::kSum : mode == 1 ? Mode::kMean : Mode::kNone;
}

bool sameSizes(NodeContext& c, Value a, Value b) {
  if (!c.ok()) return false;
  if (c.shape(a) == c.shape(b)) return true;
  c.fail(strCat("x has sizes ", sizesText(c.shape(a)), ", the target ", sizesText(c.shape(b))));
  return false;
}

/// The gradient of a loss of each element, times what comes from above.
void outputGradient(NodeContext& c, Value slope, Value dLoss, Mode mode, ElementType type) {
  Value factor = c.toF32(dLoss);
  if (mode == Mode::kMean && slope.handle) factor = c.div(factor, static_cast<double>(numElements(c.shape(slope))));
  if (mode != Mode::kNone && factor.handle) factor = c.reshape(factor, {});
  c.output(0, c.cast(c.mul(slope, factor), type));
}

// ---- softmax cross entropy: logits {classes, batch}, labels {batch} -------------------------------

struct CrossEntropy {
  Mode mode = Mode::kMean;
  double batch = 1;
};

CrossEntropy crossEntropyOf(NodeContext& c, int64_t batch) {
  ns_SoftmaxCrossEntropy::Params params{};
  switch (c.paramsSize()) {
    case sizeof(ns_SoftmaxCrossEntropy::ParamsV2): {
      auto v2 = c.params<ns_SoftmaxCrossEntropy::ParamsV2>();
      if (v2.axis != 0) c.unsupported(strCat("axis ", v2.axis, "; the classes must be the fastest dim"));
      params = v2;
      break;
    }
    case sizeof(ns_SoftmaxCrossEntropy::ParamsV3): {
      auto v3 = c.params<ns_SoftmaxCrossEntropy::ParamsV3>();
      if (isSet(v3.isTfMode)) c.unsupported("isTfMode");
      params = v3;
      break;
    }
    case sizeof(ns_SoftmaxCrossEntropy::ParamsV4):
      params = c.params<ns_SoftmaxCrossEntropy::ParamsV4>();
      break;
    case sizeof(ns_SoftmaxCrossEntropy::ParamsV5):
      params = c.params<ns_SoftmaxCrossEntropy::ParamsV5>();
      break;
    default:
      params = c.params<ns_SoftmaxCrossEntropy::Params>();
  }
  return {sumFirst(c, params.mode), static_cast<double>(params.batchSize > 0 ? params.batchSize : batch)};
}

/// Probabilities of the classes: one-hot rows of integer labels, or what the user gives.
Value labelRows(NodeContext& c, Value labels, Value logits) {
  if (!c.ok()) return {};
  if (isFloat(c.element(labels))) return sameSizes(c, logits, labels) ? c.toF32(labels) : Value{};
  int64_t classes = c.dim(logits, -1), rank = c.rank(logits);
  if (numElements(c.shape(labels)) * classes != numElements(c.shape(logits)))
    return c.fail(
        strCat("labels of sizes ", sizesText(c.shape(labels)), " for logits of ", sizesText(c.shape(logits))));
  Shape rows = c.shape(logits);
  rows.back() = 1;
  Value at = c.reshape(c.cast(labels, ElementType::kI32), rows);
  return c.cast(c.op("equal", {at, counter(c, classes, rank - 1, rank)}), ElementType::kF32);
}

void lowerCrossEntropy(NodeContext& c) {
  Value logits = c.toF32(c.input(0)), labels = c.input(1);
  if (c.ok() && c.rank(logits) < 1) c.fail("the logits must have a dim of classes");
  if (!c.ok()) return;
  int64_t last = c.rank(logits) - 1, batch = numElements(c.shape(logits)) / std::max<int64_t>(1, c.dim(logits, -1));
  CrossEntropy params = crossEntropyOf(c, batch);
  Value rows = labelRows(c, labels, logits), logs = c.op("log_softmax", {logits}, {{"axis", last}});
  Value loss = c.neg(c.reduceSum(c.mul(rows, logs), {last}, false));
  if (params.mode != Mode::kNone) loss = total(c, loss);
  if (params.mode == Mode::kMean) loss = c.div(loss, params.batch);
  c.output(0, loss);
  c.output(1, logs);
}

void lowerCrossEntropyBwd(NodeContext& c) {
  Value logs = c.toF32(c.input(0)), labels = c.input(1);
  if (c.ok() && c.rank(logs) < 1) c.fail("the log-softmax must have a dim of classes");
  if (!c.ok()) return;
  CrossEntropy params = crossEntropyOf(c, numElements(c.shape(logs)) / std::max<int64_t>(1, c.dim(logs, -1)));
  Value dX = c.sub(c.op("exp", {logs}), labelRows(c, labels, logs));
  if (params.mode == Mode::kMean) dX = c.div(dX, params.batch);
  if (c.hasInput(2)) {
    Value dLoss = c.toF32(c.input(2));
    Shape rows = c.shape(logs);
    rows.back() = 1;
    dX = c.mul(dX, params.mode == Mode::kNone ? c.reshape(dLoss, rows) : c.reshape(dLoss, {}));
  }
  c.output(0, dX);
}

// ---- negative log likelihood ---------------------------------------------------------------------

struct Nll {
  Mode mode = Mode::kMean;
  int64_t classDim = 0, classes = 0;
  Value hit;      ///< Where the class is the target's and not ignored, in x's sizes, i1.
  Value weights;  ///< Of each target (0 if ignored), f32.
};

/// x: {classes}, {classes, batch} or, as the framework has it, [batch, classes, ...].
Nll nllOf(NodeContext& c, const Shape& x, Value target, Value weight) {
  ns_NLLLossKernel::ParamsOptionalIgnoreIndex params{};
  params.ignoreIndexValue = -100;
  params = c.versionedParams<ns_NLLLossKernel::ParamsOptionalIgnoreIndex, ns_NLLLossKernel::Params>(params,
                                                                                                    /*optional=*/false);
  Nll n;
  n.mode = modeOf(c, params.mode);
  auto rank = static_cast<int64_t>(x.size());
  if (!c.ok()) return n;
  if (rank < 1) return c.fail("the log probabilities must have a dim of classes"), n;
  n.classDim = rank == 1 ? 0 : 1;
  n.classes = x[static_cast<size_t>(n.classDim)];
  Shape one = x;
  one[static_cast<size_t>(n.classDim)] = 1;
  if (numElements(c.shape(target)) != numElements(one))
    return c.fail(strCat("a target of sizes ", sizesText(c.shape(target)), " for x of ", sizesText(x))), n;
  if (weight.handle && numElements(c.shape(weight)) != n.classes)
    return c.fail(strCat("a weight of sizes ", sizesText(c.shape(weight)), " for ", n.classes, " classes")), n;
  compose::LabelHits hits = labelHits(c, target, x, n.classDim, weight, params.ignoreIndexValue);
  n.hit = hits.hit;
  n.weights = hits.weights;
  return n;
}

void lowerNll(NodeContext& c) {
  Value x = c.toF32(c.input(0)), target = c.input(1);
  if (!c.ok()) return;
  Nll n = nllOf(c, c.shape(x), target, c.hasInput(2) ? c.input(2) : Value{});
  if (!c.ok()) return;
  Value picked = c.reduceSum(c.where(n.hit, x, c.scalarLike(x, 0)), {n.classDim}, true);
  Value loss = c.neg(c.mul(picked, n.weights)), weight = total(c, n.weights);
  if (n.mode == Mode::kNone) {
    Shape shape = c.shape(target);
    c.output(0, c.reshape(loss, shape));
  } else {
    Value sum = total(c, loss);
    c.output(0, n.mode == Mode::kMean ? c.div(sum, weight) : sum);
  }
  c.output(1, weight);
}

/// dLoss, target, [shape or weight], ..; the framework's form has x in front of the target.
void lowerNllBwd(NodeContext& c) {
  bool hasX = c.row().argument == "x";
  size_t targetAt = hasX ? 2 : 1, weightAt = hasX ? 3 : 2;
  Value dLoss = c.toF32(c.input(0)), target = c.input(targetAt);
  Shape shape = hasX ? c.inputShape(1) : c.requiredShape(0, weightAt);
  if (!c.ok()) return;
  bool isWeighted = c.hasInput(weightAt) && !c.isShapeTensor(weightAt);
  Nll n = nllOf(c, shape, target, isWeighted ? c.input(weightAt) : Value{});
  if (!c.ok()) return;
  Value factor = n.weights;
  if (n.mode == Mode::kNone)
    factor = c.mul(factor, c.reshape(dLoss, c.shape(n.weights)));
  else
    factor = c.mul(factor, c.reshape(dLoss, {}));
  if (n.mode == Mode::kMean) factor = c.div(factor, c.reshape(total(c, n.weights), {}));
  Value dX = c.where(n.hit, c.neg(factor), c.scalar(0, ElementType::kF32));
  c.output(0, c.cast(dX, c.dataType()));
}

// ---- binary cross entropy ------------------------------------------------------------------------

struct Bce {
  Mode mode = Mode::kMean;
  bool isProbability = false, hasWeight = false, hasPosWeight = false;
};

Bce bceOf(NodeContext& c, size_t weightAt, size_t posWeightAt) {
  ns_BinaryCrossEntropy::ParamsOptionalNormalize params{};
  params =
      c.versionedParams<ns_BinaryCrossEntropy::ParamsOptionalNormalize, ns_BinaryCrossEntropy::ParamsOptionalPosWeight,
                        ns_BinaryCrossEntropy::ParamsOptionalSigmoid, ns_BinaryCrossEntropy::Params>(
          params, /*optional=*/false);
  Bce b;
  b.mode = sumFirst(c, params.mode);
  b.isProbability = isSet(params.binaryCrossEntropyWithoutSigmoid);
  b.hasWeight = isSet(params.isWeightsUsed);
  b.hasPosWeight = params.posMode == POS_WEIGHT_ENABLE;
  if (isSet(params.isNormalizeWeights)) c.unsupported("isNormalizeWeights");
  if (b.hasWeight && !c.hasInput(weightAt)) c.fail("isWeightsUsed without a weight");
  if (b.hasPosWeight && !c.hasInput(posWeightAt)) c.fail("posMode without a weight of positives");
  if (b.hasPosWeight && b.isProbability) c.unsupported("a weight of positives with probabilities");
  return b;
}

void lowerBce(NodeContext& c) {
  Bce b = bceOf(c, 2, 3);
  Value x = c.toF32(c.input(0)), t = c.toF32(c.input(1));
  if (!sameSizes(c, x, t)) return;
  Value one = c.scalarLike(x, 1), loss;
  if (b.isProbability) {
    auto logAtLeast = [&](Value v) { return c.max(c.op("log", {v}), c.scalarLike(v, -100)); };
    loss = c.neg(c.add(c.mul(t, logAtLeast(x)), c.mul(c.sub(one, t), logAtLeast(c.sub(one, x)))));
  } else {
    Value factor = c.op("softplus", {c.neg(x)});
    if (b.hasPosWeight) factor = c.mul(factor, c.add(c.mul(t, c.sub(c.toF32(c.input(3)), one)), 1));
    loss = c.add(c.mul(c.sub(one, t), x), factor);
  }
  if (b.hasWeight) loss = c.mul(loss, c.toF32(c.input(2)));
  c.output(0, reduced(c, loss, b.mode));
}

void lowerBceBwd(NodeContext& c) {
  Bce b = bceOf(c, 2, 4);
  Value x = c.toF32(c.input(0)), t = c.toF32(c.input(1));
  if (!sameSizes(c, x, t)) return;
  Value one = c.scalarLike(x, 1), slope;
  if (b.isProbability)
    slope = c.div(c.sub(x, t), c.max(c.mul(x, c.sub(one, x)), c.scalarLike(x, 1e-12)));
  else
    slope = c.sub(c.op("sigmoid", {x}), t);
  if (b.hasPosWeight) {
    Value more = c.mul(t, c.sub(c.toF32(c.input(4)), one));
    slope = c.add(slope, c.mul(more, c.sub(c.op("sigmoid", {x}), one)));
  }
  if (b.hasWeight) slope = c.mul(slope, c.toF32(c.input(2)));
  Value dLoss = c.hasInput(3) ? c.neg(c.toF32(c.input(3))) : c.reshape(c.scalar(1, ElementType::kF32), {1});
  if (b.mode == Mode::kNone && !c.hasInput(3)) dLoss = one;
  outputGradient(c, slope, dLoss, b.mode, c.inputType(0));
}

// ---- distances -----------------------------------------------------------------------------------

enum class Distance { kSquare, kSmooth, kHuber, kAbsolute };

struct DistanceParams {
  Distance kind = Distance::kSquare;
  Mode mode = Mode::kMean;
  double width = 1;  ///< beta or delta.
};

DistanceParams distanceOf(NodeContext& c) {
  std::string_view name = c.row().argument;
  if (name == "smooth_l1") {
    auto p = c.params<ns_SmoothL1LossKernel::Params>();
    return {p.beta == 0 ? Distance::kAbsolute : Distance::kSmooth, modeOf(c, p.mode), p.beta};
  }
  if (name == "huber") {
    auto p = c.params<ns_HuberLossKernel::Params>();
    return {Distance::kHuber, modeOf(c, p.mode), p.delta};
  }
  if (name == "l1") return {Distance::kAbsolute, modeOf(c, c.params<ns_L1LossKernel::Params>().mode), 1};
  return {Distance::kSquare, modeOf(c, c.params<ns_MSELossKernel::Params>().mode), 1};
}

void lowerDistance(NodeContext& c) {
  DistanceParams p = distanceOf(c);
  Value x = c.toF32(c.input(0)), t = c.toF32(c.input(1));
  if (!sameSizes(c, x, t)) return;
  Value d = c.sub(x, t), a = c.op("abs", {d}), square = c.mul(d, d), loss;
  Value isNear = c.op("less", {a, c.scalarLike(a, p.width)});
  switch (p.kind) {
    case Distance::kSquare:
      loss = square;
      break;
    case Distance::kAbsolute:
      loss = a;
      break;
    case Distance::kSmooth:
      loss = c.where(isNear, c.mul(square, 0.5 / p.width), c.sub(a, 0.5 * p.width));
      break;
    case Distance::kHuber:
      loss = c.where(isNear, c.mul(square, 0.5), c.mul(c.sub(a, 0.5 * p.width), p.width));
      break;
  }
  c.output(0, reduced(c, loss, p.mode));
}

void lowerDistanceBwd(NodeContext& c) {
  DistanceParams p = distanceOf(c);
  Value dLoss = c.input(0), x = c.toF32(c.input(1)), t = c.toF32(c.input(2));
  if (!sameSizes(c, x, t)) return;
  Value d = c.sub(x, t), slope;
  Value bounded = c.op("clip", {d}, {{"min", -p.width}, {"max", p.width}});
  switch (p.kind) {
    case Distance::kSquare:
      slope = c.mul(d, 2);
      break;
    case Distance::kAbsolute:
      slope = c.op("sign", {d});
      break;
    case Distance::kSmooth:
      slope = c.div(bounded, p.width);
      break;
    case Distance::kHuber:
      slope = bounded;
      break;
  }
  outputGradient(c, slope, dLoss, p.mode, c.inputType(1));
}

/// t * (log(t) - x), or exp(t) * (t - x) of logarithmic targets.
void lowerKlDiv(NodeContext& c) {
  auto params = c.params<ns_KLDivParams::Params>();
  Value x = c.toF32(c.input(0)), t = c.toF32(c.input(1));
  if (!sameSizes(c, x, t)) return;
  Value loss;
  if (params.log_target) {
    loss = c.mul(c.op("exp", {t}), c.sub(t, x));
  } else {
    // t log t is 0 at 0.
    Value isPositive = c.op("greater", {t, c.scalarLike(t, 0)});
    Value entropy = c.where(isPositive, c.mul(t, c.op("log", {t})), c.scalarLike(t, 0));
    loss = c.sub(entropy, c.mul(t, x));
  }
  c.output(0, reduced(c, loss, sumFirst(c, params.mode)));
}

constexpr std::string_view kFloats = "f32 bf16 f16";
constexpr std::string_view kCross = "ns_SoftmaxCrossEntropy::Params .. ParamsV5";
constexpr std::string_view kNll = "ns_NLLLossKernel::Params or ParamsOptionalIgnoreIndex";
constexpr std::string_view kBce = "ns_BinaryCrossEntropy::Params .. ParamsOptionalNormalize";
constexpr std::string_view kSmooth = "ns_SmoothL1LossKernel::Params", kHuber = "ns_HuberLossKernel::Params";

// clang-format off
constexpr GuidRow kRows[] = {
    {"softmax_cross_entropy_fwd", "logits, labels", "loss, [log softmax]", kCross, kFloats, lowerCrossEntropy, {}, kInF32},
    {"softmax_cross_entropy_bwd", "log softmax, labels, [dLoss]", "dLogits", kCross, kFloats, lowerCrossEntropyBwd, {}, kInF32},
    {"nll_loss_fwd", "x, target, [weight], [weight sum]", "loss, [weight sum]", kNll, kFloats, lowerNll, {}, kInF32},
    {"cnll_loss_fwd", "x, target, [weight], [weight sum]", "loss, [weight sum]", kNll, kFloats, lowerNll, {}, kInF32},
    {"nll_loss_bwd", "dLoss, target, [shape or weight], [weight sum]", "dX", kNll, kFloats, lowerNllBwd, {}, kInF32},
    {"cnll_loss_bwd", "dLoss, x, target, [weight], [weight sum]", "dX", kNll, kFloats, lowerNllBwd, "x", kInF32},
    {"binary_cross_entropy_fwd", "x, target, [weight], [positive weight]", "loss", kBce, kFloats, lowerBce, {}, kInF32},
    {"binary_cross_entropy_bwd", "x, target, [weight], [negated dLoss], [positive weight]", "dX", kBce, kFloats, lowerBceBwd, {}, kInF32},
    {"mse_loss_fwd", "x, target", "loss", "ns_MSELossKernel::Params", kFloats, lowerDistance, "mse", kInF32},
    {"mse_loss_bwd", "dLoss, x, target", "dX", "ns_MSELossKernel::Params", kFloats, lowerDistanceBwd, "mse", kInF32},
    {"smooth_l1_loss_fwd", "x, target", "loss", kSmooth, kFloats, lowerDistance, "smooth_l1", kInF32},
    {"smooth_l1_loss_bwd", "dLoss, x, target", "dX", kSmooth, kFloats, lowerDistanceBwd, "smooth_l1", kInF32},
    {"huber_loss_fwd", "x, target", "loss", kHuber, kFloats, lowerDistance, "huber", kInF32},
    {"huber_loss_bwd", "dLoss, x, target", "dX", kHuber, kFloats, lowerDistanceBwd, "huber", kInF32},
    {"l1_loss_fwd", "x, target", "loss", "ns_L1LossKernel::Params", kFloats, lowerDistance, "l1", kInF32},
    {"l1_loss_bwd", "dLoss, x, target", "dX", "ns_L1LossKernel::Params", kFloats, lowerDistanceBwd, "l1", kInF32},
    {"kl_div", "x, target", "loss", "ns_KLDivParams::Params", kFloats, lowerKlDiv, {}, kInF32},
};
// clang-format on

}  // namespace

std::span<const GuidRow> lossGuids() {
  return kRows;
}

}  // namespace hpu::synapse
