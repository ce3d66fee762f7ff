// SPDX-License-Identifier: Apache-2.0
// TPC normalisations, forward and backward. The one thing to know: statistics are f32 and computed in f32 whatever the
// data type; the gradients are those of PyTorch's autograd.
#include <algorithm>
#include <cmath>

#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Normalizations.h"
#include "habanalabs/perf_lib_layer_params.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {
namespace {

using Axes = std::vector<int64_t>;
using compose::allBut;
using compose::Moments;

/// The dim that holds the channels of input `i`: where its layout says C, else the fastest varying one.
int64_t channelDim(NodeContext& c, size_t i, int64_t rank) {
  const std::vector<std::string>& layouts = c.node().inputLayouts;
  if (i < layouts.size()) {
    size_t at = layouts[i].find('C');
    if (at != std::string::npos && layouts[i].size() == static_cast<size_t>(rank))
      return c.axis(static_cast<int64_t>(at), rank);
  }
  return rank - 1;
}

int64_t countOf(const Shape& shape, const Axes& axes) {
  int64_t count = 1;
  for (int64_t d : axes) count *= shape[static_cast<size_t>(d)];
  return count;
}

/// `v` with the dims `kept` of `like` and 1 for the others; a failure when it has other elements.
Value alongDims(NodeContext& c, Value v, const Shape& like, const Axes& kept, std::string_view name) {
  if (!v.handle) return v;
  Shape shape(like.size(), 1);
  for (int64_t d : kept) shape[static_cast<size_t>(d)] = like[static_cast<size_t>(d)];
  if (numElements(c.shape(v)) != numElements(shape))
    return c.fail(
        strCat(name, " has sizes ", sizesText(c.shape(v)), ", the node needs ", numElements(shape), " elements of it"));
  return c.reshape(c.toF32(v), shape);
}

/// Statistics and gradients of parameters come in any shape with as many elements ({C} or {C, 1, 1, 1}).
void outputReshaped(NodeContext& c, size_t i, Value v, const Shape& otherwise) {
  if (!c.wantsOutput(i) || !v.handle) return;
  Shape shape = c.declaredShape(i).value_or(otherwise);
  c.outputAs(i, numElements(shape) == numElements(c.shape(v)) ? c.reshape(v, shape) : v, ElementType::kF32);
}

// ---- batch norm: statistics a channel ------------------------------------------------------------

struct BatchNorm {
  Value x;
  Shape shape;
  Axes channels, reduced;
  ns_BatchNormKernel::ParamsV2 params{};
};

/// Operand `input` and where its channels are.
BatchNorm dataOf(NodeContext& c, size_t input) {
  BatchNorm n;
  n.x = c.toF32(c.input(input));
  n.shape = c.shape(n.x);
  if (n.shape.empty())
    c.fail(strCat(c.inputName(input), " must have a channel dim"));
  else
    n.channels = {channelDim(c, input, static_cast<int64_t>(n.shape.size()))};
  n.reduced = allBut(static_cast<int64_t>(n.shape.size()), n.channels);
  return n;
}

BatchNorm batchNormOf(NodeContext& c, size_t input = 0) {
  BatchNorm n = dataOf(c, input);
  n.params.isTraining = true;
  n.params.momentum = 0.1f;
  n.params.epsilon = 1e-5f;
  n.params = c.versionedParams<ns_BatchNormKernel::ParamsV2, ns_BatchNormKernel::Params>(n.params);
  return n;
}

Value alongChannels(NodeContext& c, const BatchNorm& n, size_t input) {
  return c.hasInput(input) ? alongDims(c, c.input(input), n.shape, n.channels, c.inputName(input)) : Value{};
}

void lowerBatchNorm(NodeContext& c) {
  BatchNorm n = batchNormOf(c);
  if (!c.ok()) return;
  int64_t channels = countOf(n.shape, n.channels), count = countOf(n.shape, n.reduced);
  Value beta = alongChannels(c, n, 1), gamma = alongChannels(c, n, 2);
  Value runningMean = alongChannels(c, n, 3), runningVariance = alongChannels(c, n, 4);
  if (!isSet(n.params.isTraining)) {
    if (!runningMean.handle || !runningVariance.handle) return (void)c.fail("needs the running mean and variance");
    Value istd = c.op("rsqrt", {c.add(runningVariance, n.params.epsilon)});
    c.output(0, normalised(c, n.x, runningMean, istd, gamma, beta));
    outputReshaped(c, 1, runningMean, {channels});
    outputReshaped(c, 2, istd, {channels});
    outputReshaped(c, 3, runningMean, {channels});
    return outputReshaped(c, 4, runningVariance, {channels});
  }
  Moments m = momentsOf(c, n.x, n.reduced, n.params.epsilon);
  c.output(0, normalised(c, n.x, m.mean, m.istd, gamma, beta));
  outputReshaped(c, 1, m.mean, {channels});
  outputReshaped(c, 2, m.istd, {channels});
  // The running variance is of the unbiased one, as in the frameworks.
  double momentum = n.params.momentum,
         unbiased = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1.0;
  auto running = [&](Value old, Value now, double factor) {
    Value fresh = c.mul(now, momentum * factor);
    return old.handle ? c.add(c.mul(old, 1 - momentum), fresh) : fresh;
  };
  if (c.wantsOutput(3)) outputReshaped(c, 3, running(runningMean, m.mean, 1), {channels});
  if (c.wantsOutput(4)) outputReshaped(c, 4, running(runningVariance, m.variance, unbiased), {channels});
}

void lowerBatchNormInference(NodeContext& c) {
  BatchNorm n = batchNormOf(c);
  if (!c.ok()) return;
  Value istd = c.op("rsqrt", {c.add(alongChannels(c, n, 4), n.params.epsilon)});
  c.output(0, normalised(c, n.x, alongChannels(c, n, 3), istd, alongChannels(c, n, 2), alongChannels(c, n, 1)));
}

void lowerBatchNormBwd(NodeContext& c) {
  BatchNorm n = batchNormOf(c);
  if (!c.ok()) return;
  int64_t channels = countOf(n.shape, n.channels);
  Value dY = c.toF32(c.input(1)), mean = alongChannels(c, n, 2), istd = alongChannels(c, n, 3);
  Value gamma = alongChannels(c, n, 4);
  Value xHat = c.mul(c.sub(n.x, mean), istd), g = gamma.handle ? c.mul(dY, gamma) : dY;
  c.output(0, isSet(n.params.isTraining) ? normBackward(c, g, xHat, istd, n.reduced) : c.mul(g, istd));
  outputReshaped(c, 1, c.reduceSum(dY, n.reduced, true), {channels});
  outputReshaped(c, 2, c.reduceSum(c.mul(dY, xHat), n.reduced, true), {channels});
}

/// A tensor that broadcasts to the data, or has an element a channel.
Value perChannel(NodeContext& c, const BatchNorm& n, size_t input) {
  Value v = c.toF32(c.input(input));
  const Shape shape = c.shape(v);
  const auto channels = static_cast<int64_t>(countOf(n.shape, n.channels));
  if (numElements(shape) == channels) return alongChannels(c, n, input);
  bool fits = shape.size() <= n.shape.size();
  for (size_t i = 1; fits && i <= shape.size(); ++i)
    fits = shape[shape.size() - i] == 1 || shape[shape.size() - i] == n.shape[n.shape.size() - i];
  return fits ? v
              : c.fail(strCat(c.inputName(input), " has sizes ", sizesText(shape), ", which do not broadcast to ",
                              sizesText(n.shape)));
}

/// TensorFlow's batch_normalization: (x - mean) / sqrt(variance + epsilon) * scale + offset.
void lowerTfBatchNorm(NodeContext& c) {
  auto params = c.paramsOr<synTfBatchNormalizationParams>({1e-3f});
  BatchNorm n = dataOf(c, 0);
  if (!c.ok()) return;
  Value mean = perChannel(c, n, 1), variance = perChannel(c, n, 2);
  Value istd = c.op("rsqrt", {c.add(variance, static_cast<double>(params.variance_epsilon))});
  c.outputAs(0, normalised(c, n.x, mean, istd, perChannel(c, n, 4), perChannel(c, n, 3)), c.inputType(0));
}

/// TensorFlow's FusedBatchNormGrad of a training step: dY, x, scale, mean, variance; dX, dScale, dOffset.
void lowerTfBatchNormGrad(NodeContext& c) {
  auto params = c.paramsOr<synTfBatchNormalizationParams>({1e-4f});
  BatchNorm n = dataOf(c, 1);
  Value dY = c.toF32(c.input(0));
  if (!c.ok()) return;
  if (c.shape(dY) != n.shape)
    return (void)c.fail(
        strCat(c.inputName(0), " has sizes ", sizesText(c.shape(dY)), ", ", c.inputName(1), " ", sizesText(n.shape)));
  int64_t channels = countOf(n.shape, n.channels);
  Value scale = alongChannels(c, n, 2), mean = alongChannels(c, n, 3), variance = alongChannels(c, n, 4);
  Value istd = c.op("rsqrt", {c.add(variance, static_cast<double>(params.variance_epsilon))});
  Value xHat = c.mul(c.sub(n.x, mean), istd);
  c.outputAs(0, normBackward(c, c.mul(dY, scale), xHat, istd, n.reduced), c.inputType(1));
  outputReshaped(c, 1, c.reduceSum(c.mul(dY, xHat), n.reduced, true), {channels});
  outputReshaped(c, 2, c.reduceSum(dY, n.reduced, true), {channels});
}

/// The sums that a batch norm's statistics are made of: of x - k, and of its squares. One result has both.
void lowerBatchNormSums(NodeContext& c) {
  c.versionedParams<ns_BatchNormStage1Kernel::ParamsV4, ns_BatchNormStage1Kernel::ParamsV3,
                    ns_BatchNormStage1Kernel::ParamsV2, ns_BatchNormStage1Kernel::Params>({});
  BatchNorm n = dataOf(c, 0);
  if (!c.ok()) return;
  int64_t channels = countOf(n.shape, n.channels);
  Value x = c.hasInput(1) ? c.sub(n.x, alongChannels(c, n, 1)) : n.x;
  Value sum = c.reduceSum(x, n.reduced, true), squares = c.reduceSum(c.mul(x, x), n.reduced, true);
  if (c.wantsOutput(1)) {
    outputReshaped(c, 0, sum, {channels});
    return outputReshaped(c, 1, squares, {channels});
  }
  outputReshaped(c, 0, c.concat({c.reshape(sum, {1, channels}), c.reshape(squares, {1, channels})}, 0), {2, channels});
}

// ---- instance norm: statistics a channel of each image -------------------------------------------

struct InstanceNorm {
  Value x;
  Shape shape;
  Axes channels, kept, reduced;
  double epsilon = 1e-5;
};

InstanceNorm instanceNormOf(NodeContext& c) {
  InstanceNorm n;
  ns_InstanceNormTrainingKernel::ParamsRelu params{};
  params.eps = 1e-5f;
  params = c.versionedParams<ns_InstanceNormTrainingKernel::ParamsRelu, ns_InstanceNormTrainingKernel::Params>(params);
  if (params.enRelu) c.unsupported("a fused relu (enRelu); add a relu node");
  n.epsilon = params.eps;
  n.x = c.toF32(c.input(0));
  n.shape = c.shape(n.x);
  auto rank = static_cast<int64_t>(n.shape.size());
  if (rank < 2)
    c.fail(strCat(c.inputName(0), " must have a batch and a channel dim"));
  else
    n.channels = {channelDim(c, 0, rank)};
  n.kept = n.channels;
  n.kept.push_back(0);
  n.reduced = allBut(rank, n.kept);
  return n;
}

void lowerInstanceNorm(NodeContext& c) {
  InstanceNorm n = instanceNormOf(c);
  if (!c.ok()) return;
  auto parameter = [&](size_t i) {
    return c.hasInput(i) ? alongDims(c, c.input(i), n.shape, n.channels, c.inputName(i)) : Value{};
  };
  Moments m = momentsOf(c, n.x, n.reduced, n.epsilon);
  c.output(0, normalised(c, n.x, m.mean, m.istd, parameter(2), parameter(1)));
  Shape statistics = {n.shape[0], countOf(n.shape, n.channels)};
  outputReshaped(c, 1, m.mean, statistics);
  outputReshaped(c, 2, m.istd, statistics);
}

void lowerInstanceNormBwd(NodeContext& c) {
  InstanceNorm n = instanceNormOf(c);
  if (!c.ok()) return;
  Value dY = c.toF32(c.input(1));
  Value mean = alongDims(c, c.input(2), n.shape, n.kept, c.inputName(2));
  Value istd = alongDims(c, c.input(3), n.shape, n.kept, c.inputName(3));
  Value gamma = c.hasInput(4) ? alongDims(c, c.input(4), n.shape, n.channels, c.inputName(4)) : Value{};
  Value xHat = c.mul(c.sub(n.x, mean), istd);
  c.output(0, normBackward(c, gamma.handle ? c.mul(dY, gamma) : dY, xHat, istd, n.reduced));
  Axes others = allBut(static_cast<int64_t>(n.shape.size()), n.channels);
  Shape channels = {countOf(n.shape, n.channels)};
  outputReshaped(c, 1, c.reduceSum(dY, others, true), channels);
  outputReshaped(c, 2, c.reduceSum(c.mul(dY, xHat), others, true), channels);
}

// ---- layer norm ----------------------------------------------------------------------------------

constexpr float kDefaultEpsilon = 1e-5f;  // Where epsValid is false.

struct LayerNorm {
  Axes normalised, parameters;  ///< Dims of the statistics' reduction; dims that gamma and beta have.
  double epsilon = kDefaultEpsilon;
};

LayerNorm layerNormOf(NodeContext& c, int64_t rank, bool isPt) {
  using ns = ns_LayerNormKernel::ParamsPt;
  LayerNorm n;
  ns params{};
  if (isPt) {
    params = c.params<ns>();
    if (params.normalizedShapeDims == 0 || params.normalizedShapeDims > static_cast<uint64_t>(rank))
      c.fail(strCat("normalizedShapeDims ", params.normalizedShapeDims, " for rank ", rank));
    for (int64_t d = rank - static_cast<int64_t>(params.normalizedShapeDims); d < rank && c.ok(); ++d)
      n.normalised.push_back(d);
    n.parameters = n.normalised;
  } else {
    params.NormAxisBmp = params.ParamAxisBmp = 1;
    params = c.versionedParams<ns, ns_LayerNormKernel::ParamsNorm, ns_LayerNormKernel::Params>(params);
    n.normalised = c.axesOfMask(static_cast<unsigned>(params.NormAxisBmp), rank);
    n.parameters = c.axesOfMask(static_cast<unsigned>(params.ParamAxisBmp), rank);
    if (c.ok() && n.normalised.empty()) c.fail("NormAxisBmp names no dim");
  }
  if (isSet(params.epsValid)) n.epsilon = params.eps;
  return n;
}

Shape withOnes(Shape shape, const Axes& ones) {
  for (int64_t d : ones) shape[static_cast<size_t>(d)] = 1;
  return shape;
}
Shape only(const Shape& shape, const Axes& axes) {
  Shape result;
  for (int64_t d : axes) result.push_back(shape[static_cast<size_t>(d)]);
  return result;
}

void lowerLayerNorm(NodeContext& c) {
  bool isPt = c.row().argument == "pt";
  Value x = c.toF32(c.input(0));
  Shape shape = c.shape(x);
  LayerNorm n = layerNormOf(c, c.rank(x), isPt);
  if (!c.ok()) return;
  auto parameter = [&](size_t i) {
    return c.hasInput(i) ? alongDims(c, c.input(i), shape, n.parameters, c.inputName(i)) : Value{};
  };
  Value gamma = parameter(isPt ? 1 : 2), beta = parameter(isPt ? 2 : 1);
  Moments m = momentsOf(c, x, n.normalised, n.epsilon);
  c.output(0, normalised(c, x, m.mean, m.istd, gamma, beta));
  Shape statistics = withOnes(shape, n.normalised);
  outputReshaped(c, 1, m.mean, statistics);
  outputReshaped(c, 2, m.istd, statistics);
}

/// x, dY, mean, istd, gamma; dX, dBeta, dGamma. PyTorch's form: dY, x, ... and dX, dGamma, dBeta.
void lowerLayerNormBwd(NodeContext& c) {
  bool isPt = c.row().argument == "pt";
  Value x = c.toF32(c.input(isPt ? 1 : 0)), dY = c.toF32(c.input(isPt ? 0 : 1));
  Shape shape = c.shape(x);
  auto rank = static_cast<int64_t>(shape.size());
  LayerNorm n = layerNormOf(c, rank, isPt);
  if (!c.ok()) return;
  Axes kept = allBut(rank, n.normalised);
  Value mean = alongDims(c, c.input(2), shape, kept, c.inputName(2));
  Value istd = alongDims(c, c.input(3), shape, kept, c.inputName(3));
  Value gamma = c.hasInput(4) ? alongDims(c, c.input(4), shape, n.parameters, c.inputName(4)) : Value{};
  Value xHat = c.mul(c.sub(x, mean), istd);
  c.output(0, normBackward(c, gamma.handle ? c.mul(dY, gamma) : dY, xHat, istd, n.normalised));
  Axes summed = allBut(rank, n.parameters);
  size_t beta = isPt ? 2 : 1, scale = isPt ? 1 : 2;
  Shape parameters = only(shape, n.parameters);
  if (c.wantsOutput(beta)) outputReshaped(c, beta, c.reduceSum(dY, summed, true), parameters);
  if (c.wantsOutput(scale)) outputReshaped(c, scale, c.reduceSum(c.mul(dY, xHat), summed, true), parameters);
}

// ---- group norm: x in the framework's order [N, C, ...] -------------------------------------------

void lowerGroupNorm(NodeContext& c) {
  auto params = c.params<ns_NativeGroupNorm::Params>();
  Value x = c.toF32(c.input(0));
  Shape shape = c.shape(x);
  if (!c.ok()) return;
  if (shape.size() < 2 || params.G == 0 || shape[1] % params.G != 0)
    return (void)c.fail(strCat(params.G, " groups of ", shape.size() < 2 ? 0 : shape[1], " channels"));
  int64_t batch = shape[0], groups = params.G, inner = 1;
  for (size_t d = 2; d < shape.size(); ++d) inner *= shape[d];
  Shape grouped = {batch, groups, shape[1] / groups, inner};
  auto parameter = [&](size_t i) {
    return c.hasInput(i) ? alongDims(c, c.input(i), shape, {1}, c.inputName(i)) : Value{};
  };
  Value g = c.reshape(x, grouped);
  Moments m = momentsOf(c, g, {2, 3}, params.epsilon);
  Value y = c.reshape(c.mul(c.sub(g, m.mean), m.istd), shape);
  if (Value gamma = parameter(1); gamma.handle) y = c.mul(y, gamma);
  if (Value beta = parameter(2); beta.handle) y = c.add(y, beta);
  c.output(0, y);
  outputReshaped(c, 1, m.mean, {batch, groups});
  outputReshaped(c, 2, m.istd, {batch, groups});
}

// ---- RMS norm ------------------------------------------------------------------------------------

void lowerRmsNorm(NodeContext& c) {
  ns_LayerNormKernel::ParamsRmsNorm params{};
  params = c.versionedParams<ns_LayerNormKernel::ParamsRmsNorm, ns_LayerNormKernel::ParamsPt,
                             ns_LayerNormKernel::ParamsNorm, ns_LayerNormKernel::Params>(params);
  double epsilon = isSet(params.epsValid) ? params.eps : kDefaultEpsilon;
  Value x = c.toF32(c.input(0));
  Shape shape = c.shape(x);
  if (c.ok() && shape.empty()) c.fail(strCat(c.inputName(0), " must have a dim"));
  if (!c.ok()) return;
  auto last = static_cast<int64_t>(shape.size()) - 1;
  Value square = c.reduceMean(c.mul(x, x), {last}, true), inverse = c.op("rsqrt", {c.add(square, epsilon)});
  Value gamma = c.hasInput(1) ? alongDims(c, c.input(1), shape, {last}, c.inputName(1)) : Value{};
  c.output(0, normalised(c, x, {}, inverse, gamma, {}));
  outputReshaped(c, 1, inverse, withOnes(shape, {last}));
}

void lowerRmsNormBwd(NodeContext& c) {
  ns_RmsNorm::ParamsV4 params{};
  c.versionedParams<ns_RmsNorm::ParamsV4, ns_RmsNorm::ParamsV3, ns_RmsNorm::ParamsV2, ns_RmsNorm::Params>(params);
  Value dY = c.toF32(c.input(0)), x = c.toF32(c.input(1));
  Shape shape = c.shape(x);
  if (c.ok() && shape.empty()) c.fail(strCat(c.inputName(1), " must have a dim"));
  if (!c.ok()) return;
  auto rank = static_cast<int64_t>(shape.size());
  Axes outer = allBut(rank, {rank - 1});
  Value gamma = alongDims(c, c.input(2), shape, {rank - 1}, c.inputName(2));
  Value inverse = alongDims(c, c.input(3), shape, outer, c.inputName(3));
  Value xHat = c.mul(x, inverse);
  c.output(0, normBackward(c, c.mul(dY, gamma), xHat, inverse, {rank - 1}, /*centred=*/false));
  if (c.wantsOutput(1)) outputReshaped(c, 1, c.reduceSum(c.mul(dY, xHat), outer, true), {shape.back()});
}

constexpr std::string_view kFloats = "f32 bf16 f16";
constexpr std::string_view kBatch = "ns_BatchNormKernel::Params or ParamsV2?";
constexpr std::string_view kInstance = "ns_InstanceNormTrainingKernel::Params or ParamsRelu?";
constexpr std::string_view kLayer = "ns_LayerNormKernel::Params, ParamsNorm or ParamsPt?";
constexpr std::string_view kLayerPt = "ns_LayerNormKernel::ParamsPt";
constexpr std::string_view kRms = "ns_LayerNormKernel::Params .. ParamsRmsNorm?",
                           kRmsBwd = "ns_RmsNorm::Params .. ParamsV4?";
constexpr std::string_view kBatchIn = "x, beta, gamma, [running mean], [running variance]";
constexpr std::string_view kBatchOut = "y, [mean], [istd], [running mean], [running variance]";

// clang-format off
constexpr GuidRow kRows[] = {
    {"batch_norm_fwd", kBatchIn, kBatchOut, kBatch, kFloats, lowerBatchNorm, {}, kInF32},
    {"batch_norm_reshape_fwd", kBatchIn, kBatchOut, kBatch, kFloats, lowerBatchNorm, {}, kInF32},
    {"batch_norm_inf", "x, beta, gamma, running mean, running variance", "y", kBatch, kFloats, lowerBatchNormInference, {}, kInF32},
    {"batch_norm_inf_reshape", "x, beta, gamma, running mean, running variance", "y", kBatch, kFloats, lowerBatchNormInference, {}, kInF32},
    {"batch_norm_bwd", "x, dY, mean, istd, gamma", "dX, [dBeta], [dGamma]", kBatch, kFloats, lowerBatchNormBwd, {}, kInF32},
    {"batch_norm_reshape_bwd", "x, dY, mean, istd, gamma", "dX, [dBeta], [dGamma]", kBatch, kFloats, lowerBatchNormBwd, {}, kInF32},
    {"batch_norm_stage1_fwd", "x, [k]", "sums of x - k and of its squares, [sums of the squares]", "ns_BatchNormStage1Kernel::Params .. ParamsV4?", kFloats, lowerBatchNormSums, {}, kInF32},
    {"batch_norm_stage1_bwd", "operands...", "results...", "ns_BatchNormStage1Kernel::Params .. ParamsV4", kFloats, nullptr, "the order of its operands is not documented; use batch_norm_bwd"},
    {"batch_norm_stage2_fwd", "operands...", "results...", "ns_BatchNormStage2Kernel::Params .. ParamsV4", kFloats, nullptr, "the order of its operands is not documented; use batch_norm_fwd"},
    {"batch_norm_stage2_bwd", "operands...", "results...", "ns_BatchNormStage2Kernel::Params .. ParamsV4", kFloats, nullptr, "the order of its operands is not documented; use batch_norm_bwd"},
    {"tf_batch_normalization_fwd", "x, mean, variance, offset, scale", "y", "synTfBatchNormalizationParams?", "", lowerTfBatchNorm, {}, kInF32},
    {"tf_fused_batch_norm_grad", "dY, x, scale, mean, variance", "dX, [dScale], [dOffset]", "synTfBatchNormalizationParams?", "", lowerTfBatchNormGrad, {}, kInF32},
    {"instance_norm_fwd", "x, beta, gamma", "y, [mean], [istd]", kInstance, kFloats, lowerInstanceNorm, {}, kInF32},
    {"instance_norm_bwd", "x, dY, mean, istd, [gamma]", "dX, [dBeta], [dGamma]", kInstance, kFloats, lowerInstanceNormBwd, {}, kInF32},
    {"layer_norm_fwd", "x, [beta], [gamma]", "y, [mean], [istd]", kLayer, kFloats, lowerLayerNorm, {}, kInF32},
    {"layer_norm_bwd", "x, dY, mean, istd, [gamma]", "dX, [dBeta], [dGamma]", kLayer, kFloats, lowerLayerNormBwd, {}, kInF32},
    {"layer_norm_fwd_pt", "x, [gamma], [beta]", "y, [mean], [istd]", kLayerPt, kFloats, lowerLayerNorm, "pt", kInF32},
    {"layer_norm_bwd_pt", "dY, x, mean, istd, [gamma]", "dX, [dGamma], [dBeta]", kLayerPt, kFloats, lowerLayerNormBwd, "pt", kInF32},
    {"native_group_norm_fwd", "x, [gamma], [beta]", "y, [mean], [istd]", "ns_NativeGroupNorm::Params", kFloats, lowerGroupNorm, {}, kInF32},
    {"rms_norm_ex_fwd", "x, [gamma]", "y, [inverse rms]", kRms, kFloats, lowerRmsNorm, {}, kInF32},
    {"rms_norm_fast_fwd", "x, [gamma]", "y, [inverse rms]", kRms, kFloats, lowerRmsNorm, {}, kInF32},
    {"rms_norm_ex_bwd", "dY, x, gamma, inverse rms", "dX, [dGamma]", kRmsBwd, kFloats, lowerRmsNormBwd, {}, kInF32},
    {"rms_norm_fast_bwd", "dY, x, gamma, inverse rms", "dX, [dGamma]", kRmsBwd, kFloats, lowerRmsNormBwd, {}, kInF32},
};
// clang-format on

}  // namespace

std::span<const GuidRow> normalizationGuids() {
  return kRows;
}

}  // namespace hpu::synapse
