// SPDX-License-Identifier: Apache-2.0
// TPC random numbers and dropout. The one thing to know: one seed gives one sequence; the seed tensor, where there is
// one, replaces the parameter's seed.
#include <cmath>

#include "bindings/synapse/lowering/RandomBits.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

/// Sizes from a shape tensor among the operands, else as declared.
Shape resultShape(NodeContext& c) {
  for (size_t i = 0; i < c.numInputs(); ++i)
    if (c.isShapeTensor(i)) return c.inputShape(i);
  return c.requiredShape(0);
}

/// The first data operand from `from` on: the seed's place differs between callers.
size_t seedInput(NodeContext& c, size_t from = 0) {
  for (size_t i = from; i < c.numInputs(); ++i)
    if (c.hasInput(i) && !c.isShapeTensor(i)) return i;
  return SIZE_MAX;
}

double number(fint_t value, ElementType type) {
  return isFloat(type) ? static_cast<double>(value.f) : static_cast<double>(value.i);
}

void uniform(NodeContext& c, double low, double high, uint32_t seed) {
  ElementType type = c.dataType();
  Shape shape = resultShape(c);
  if (!c.ok()) return;
  if (!(high >= low)) return (void)c.fail(strCat("a range from ", low, " to ", high));
  RandomWords words = randomWords(c, shape, seedOf(c, seedInput(c), seed));
  Value u = uniformOf(c, words.first);
  if (!isFloat(type)) return c.output(0, c.cast(c.op("floor", {c.add(c.mul(u, high - low), low)}), type));
  c.output(0, c.cast(c.add(c.mul(u, high - low), low), type));
}

void lowerUniform(NodeContext& c) {
  if (c.paramsAre<ns_RandomUniform::ParamsV2>()) {
    auto p = c.params<ns_RandomUniform::ParamsV2>();
    return uniform(c, number(p.low, c.dataType()), number(p.high, c.dataType()), p.seed);
  }
  if (c.paramsAre<ns_RandomUniform::ParamsV3>()) {
    auto p = c.params<ns_RandomUniform::ParamsV3>();
    return uniform(c, number(p.low, c.dataType()), number(p.high, c.dataType()), p.seed);
  }
  auto p = c.params<ns_RandomUniform::Params>();
  uniform(c, p.low, p.high, p.seed);
}

void lowerPhiloxUniform(NodeContext& c) {
  ns_PhiloxRandomUniform::ParamsV3 p{};
  p = c.versionedParams<ns_PhiloxRandomUniform::ParamsV3, ns_PhiloxRandomUniform::ParamsV2,
                        ns_PhiloxRandomUniform::Params>(p, /*optional=*/false);
  bool integers = !isFloat(c.dataType()) && c.paramsAre<ns_PhiloxRandomUniform::ParamsV3>();
  uniform(c, integers ? p.low_i : p.low, integers ? p.high_i : p.high, p.seed);
}

void lowerNormal(NodeContext& c) {
  ns_RandomNormal::ParamsV2 p{};
  p = c.versionedParams<ns_RandomNormal::ParamsV2, ns_RandomNormal::Params>(p, /*optional=*/false);
  Shape shape = resultShape(c);
  if (!c.ok()) return;
  Value normal = compose::normalOf(c, randomWords(c, shape, seedOf(c, seedInput(c), p.seed)));
  c.output(0, c.cast(c.add(c.mul(normal, p.stddev), p.mean), c.dataType()));
}

/// 1 with the probability of the operand's element, or of the parameters.
void lowerBernoulli(NodeContext& c) {
  ns_RandomBernoulli::ParamsV2 p{};
  p.probability = 0.5f;
  p = c.versionedParams<ns_RandomBernoulli::ParamsV2, ns_RandomBernoulli::Params>(p, /*optional=*/false);
  bool hasProbabilities = c.hasInput(0) && !c.isShapeTensor(0) && isFloat(c.inputType(0));
  Value seed = seedOf(c, seedInput(c, hasProbabilities ? 1 : 0), p.seed), probability;
  Shape shape;
  if (hasProbabilities) {
    probability = c.toF32(c.input(0));
    shape = c.declaredShape(0).value_or(c.shape(probability));
  } else {
    shape = resultShape(c);
    probability = c.scalar(p.probability, ElementType::kF32);
  }
  if (!c.ok()) return;
  Value u = uniformOf(c, randomWords(c, shape, seed).first);
  c.output(0, c.cast(c.op("less", {u, probability}), c.outputType(0, c.dataType())));
}

/// A seed for each of the result's elements from one seed.
void lowerSeed(NodeContext& c) {
  auto p = c.paramsOr<ns_RandomSeed::Params>({0});
  Shape shape = resultShape(c);
  if (!c.ok()) return;
  RandomWords words = randomWords(c, shape, seedOf(c, seedInput(c), p.seed), /*stream=*/1);
  c.output(0, c.cast(words.first, c.dataType()));
}

double dropRatio(NodeContext& c, const ns_DropoutKernel::Params& params) {
  if (!(params.ratio >= 0 && params.ratio <= 1)) c.fail(strCat("ratio ", params.ratio, " is not a probability"));
  return params.ratio;
}

ns_DropoutKernel::ParamsOptionalTrain dropoutParams(NodeContext& c) {
  ns_DropoutKernel::ParamsOptionalTrain params{};
  params.isTraining = 1;
  return c.versionedParams<ns_DropoutKernel::ParamsOptionalTrain, ns_DropoutKernel::ParamsOptionalMaskOut,
                           ns_DropoutKernel::Params>(params, /*optional=*/false);
}

/// Scaled by 1 / (1 - ratio); all zeros when everything is dropped.
Value droppedOut(NodeContext& c, Value x, Value kept, double ratio) {
  Value scaled = ratio < 1 ? c.mul(x, 1 / (1 - ratio)) : x;
  return c.where(kept, scaled, c.scalarLike(x, 0));
}

void lowerDropout(NodeContext& c) {
  auto params = dropoutParams(c);
  double ratio = dropRatio(c, params);
  Value x = c.input(0);
  if (!c.ok()) return;
  Shape shape = c.shape(x);
  if (!isSet(params.isTraining)) ratio = 0;
  Value kept = keptMask(c, shape, seedOf(c, 1, params.seed), 1 - ratio);
  c.output(0, ratio == 0 ? x : droppedOut(c, x, kept, ratio));
  c.output(1, kept);
}

void lowerDropoutBwd(NodeContext& c) {
  auto params = dropoutParams(c);
  double ratio = isSet(params.isTraining) ? dropRatio(c, params) : 0;
  Value dY = c.input(0), kept = c.condition(1);
  c.output(0, droppedOut(c, dY, kept, ratio));
}

constexpr std::string_view kFloats = "f32 bf16 f16", kUniformTypes = "f32 bf16 f16 i32 i16 i8 u8";
constexpr std::string_view kDropout = "ns_DropoutKernel::Params, ParamsOptionalMaskOut or ParamsOptionalTrain";

// clang-format off
constexpr GuidRow kRows[] = {
    {"random_uniform_fwd", "[shape or seed], [seed or shape]", "y", "ns_RandomUniform::Params, ParamsV2 or ParamsV3", kUniformTypes, lowerUniform},
    {"philox_random_uniform", "[seed], [shape]", "y", "ns_PhiloxRandomUniform::Params .. ParamsV3", kUniformTypes, lowerPhiloxUniform},
    {"random_normal_fwd", "[unused], [seed], [shape]", "y", "ns_RandomNormal::Params or ParamsV2", kFloats, lowerNormal},
    {"random_bernoulli_fwd", "[probabilities or shape], [seed], [shape]", "y", "ns_RandomBernoulli::Params or ParamsV2", "f32 bf16 f16 i8 i32", lowerBernoulli},
    {"pt_bernoulli", "[probabilities or shape], [seed], [shape]", "y", "ns_RandomBernoulli::Params or ParamsV2", "f32 bf16 f16 i8 i32", lowerBernoulli},
    {"random_seed", "seed", "y", "ns_RandomSeed::Params?", "u32 i32", lowerSeed},
    {"dropout_fwd", "x, [seed]", "y, [mask]", kDropout, kFloats, lowerDropout},
    {"dropout_bwd", "dY, mask", "dX", kDropout, kFloats, lowerDropoutBwd},
};
// clang-format on

}  // namespace

std::span<const GuidRow> randomGuids() {
  return kRows;
}

}  // namespace hpu::synapse
