// SPDX-License-Identifier: Apache-2.0
// Generators of reductions, softmaxes and normalisations.
#include <algorithm>

#include "tests/random/Builder.h"

namespace hpu::randomtest {
namespace {

const Types kReducible =
    kFloats + kFloats + Types{ElementType::kI32, ElementType::kI64, ElementType::kI8, ElementType::kU8};

bool reduce(Builder& b, const std::string& op) {
  bool isExact = op == "ReduceMax" || op == "ReduceMin";
  bool isLog = op == "ReduceLogSum" || op == "ReduceLogSumExp";
  Wanted wanted{kReducible, 0, 8, isLog || b.rng.chance(0.3) ? Numbers::kPositive : Numbers::kAny};
  wanted.empty = true;
  if (op == "ReduceProd") wanted.maxCount = 300, wanted.numbers = b.rng.chance(0.7) ? Numbers::kPlain : Numbers::kAny;
  std::string x = b.operand(wanted);
  Ints axes;
  for (int64_t d = 0; d < b.rank(x); ++d)
    if (b.rng.chance(0.5)) axes.push_back(b.rng.chance(0.3) && b.opset() >= 11 ? d - b.rank(x) : d);
  b.rng.shuffle(axes);
  Attributes attributes;
  if (b.rng.chance(0.6)) attributes.push_back({"keepdims", b.rng.below(2)});
  std::vector<std::string> inputs = {x};
  bool byInput = b.opset() >= (op == "ReduceSum" ? 13 : 18);
  if (!axes.empty() && byInput) inputs.push_back(b.ints(axes));
  if (!axes.empty() && !byInput) attributes.push_back({"axes", axes});
  if (byInput && axes.empty() && b.rng.chance(0.3)) attributes.push_back({"noop_with_empty_axes", int64_t{1}});
  Local local{.ulps = isExact ? 0.0 : 2.0};
  if (op == "ReduceSum" || op == "ReduceMean" || op == "ReduceL1" || op == "ReduceSumSquare" || op == "ReduceL2")
    local.sums = true;
  if (op == "ReduceL2") local.tiny = 1.1e-19;  // The root of the least normal number: squares below it are chance.
  if (isLog) local.ulps = 16, local.operandUlps = 4;
  if (op == "ReduceProd") local.ulps = 20;
  return b.emit(op, inputs, local, attributes);
}

bool softmax(Builder& b, const std::string& op) {
  std::string x = b.operand({kFloats, 1});
  Attributes attributes;
  if (b.rng.chance(0.8)) attributes.push_back({"axis", b.opset() >= 11 ? b.axis(b.rank(x)) : b.rng.below(b.rank(x))});
  Local local{.ulps = 24,
              .operandUlps = 2,
              .scaleUlps = op == "LogSoftmax" ? 2.0 : 0.0,
              .absolute = op == "LogSoftmax" ? 4.0 : 0.0,
              .tiny = op == "Softmax" ? 2e-38 : 0.0};  // An exponential that is no normal number is 0.
  if (op == "Hardmax") local = {.ulps = 0};
  return b.emit(op, {x}, local, attributes);
}

bool argMax(Builder& b, const std::string& op) {
  std::string x = b.operand({kNumbers, 1});
  Attributes attributes;
  if (b.rng.chance(0.8)) attributes.push_back({"axis", b.opset() >= 11 ? b.axis(b.rank(x)) : b.rng.below(b.rank(x))});
  if (b.rng.chance(0.6)) attributes.push_back({"keepdims", b.rng.below(2)});
  if (b.opset() >= 12 && b.rng.chance(0.4)) attributes.push_back({"select_last_index", b.rng.below(2)});
  return b.emit(op, {x}, {.ulps = 0}, attributes);
}

bool topK(Builder& b, const std::string& op) {
  std::string x = b.operand({b.opset() >= 11 ? kNumbers : kFloats, 1});
  Attributes attributes;
  if (b.rng.chance(0.8)) attributes.push_back({"axis", b.opset() >= 11 ? b.axis(b.rank(x)) : b.rng.below(b.rank(x))});
  if (b.opset() < 10) {
    attributes.push_back({"k", int64_t{1}});
    return b.emit(op, {x}, {.ulps = 0}, attributes, 2);
  }
  if (b.opset() >= 11 && b.rng.chance(0.3)) attributes.push_back({"largest", int64_t{1}});
  return b.emit(op, {x, b.ints({1})}, {.ulps = 0}, attributes, 2);
}

bool cumSum(Builder& b, const std::string& op) {
  HostTensor x = b.draw(b.rng.pick(Types{ElementType::kF32, ElementType::kF32, ElementType::kI32, ElementType::kI64}),
                        b.drawShape(1, 4, 2000));
  auto rank = static_cast<int64_t>(x.type.shape.size());
  Attributes attributes;
  for (const char* name : {"exclusive", "reverse"})
    if (b.rng.chance(0.4)) attributes.push_back({name, int64_t{1}});
  std::string axis = b.scalar(ElementType::kI64, static_cast<double>(b.axis(rank)));
  return b.emit(op, {b.fixed(std::move(x)), axis}, {.ulps = 1, .sums = true}, attributes);
}

Attributes epsilon(Builder& b) {
  Attributes attributes;
  if (b.rng.chance(0.7))
    attributes.push_back({"epsilon", b.rng.pick(std::vector<float>{1e-5f, 1e-3f, 1e-2f, 0.5f, 1e-6f})});
  return attributes;
}

/// An operand whose rows are worth normalising: not all equal, no extremes.
std::string plain(Builder& b, const Shape& shape) {
  return b.operand(b.rng.pick(kFloats), shape, Numbers::kPlain);
}

const Local kStatistics{.ulps = 16, .operandUlps = 1, .scaleUlps = 4};

bool batchNorm(Builder& b, const std::string& op) {
  Shape shape = b.drawShape(2, 5, 6000);
  std::string x = plain(b, shape);
  ElementType type = b.element(x);
  int64_t channels = shape[1];
  return b.emit(op,
                {x, b.weight(type, {channels}), b.weight(type, {channels}), b.weight(type, {channels}),
                 b.weight(type, {channels}, Numbers::kPositive)},
                {.ulps = 4, .sums = true, .negated = {3}}, epsilon(b));
}

bool instanceNorm(Builder& b, const std::string& op) {
  Shape shape = b.drawShape(3, 5, 6000);
  std::string x = plain(b, shape);
  ElementType type = b.element(x);
  return b.emit(op, {x, b.weight(type, {shape[1]}), b.weight(type, {shape[1]})}, kStatistics, epsilon(b));
}

bool layerNorm(Builder& b, const std::string& op) {
  if (b.opset() < 17) return false;  // ONNX Runtime knows it in older ones as well.
  Shape shape = b.drawShape(1, 6, 6000);
  std::string x = plain(b, shape);
  int64_t axis = b.axis(b.rank(x)), first = axis < 0 ? axis + b.rank(x) : axis;
  Shape inner(shape.begin() + first, shape.end());
  Attributes attributes = epsilon(b);
  if (axis != -1 || b.rng.chance(0.3)) attributes.push_back({"axis", axis});
  std::vector<std::string> inputs = {x, b.weight(b.element(x), inner)};
  if (op == "LayerNormalization" && b.rng.chance(0.6)) inputs.push_back(b.weight(b.element(x), inner));
  return b.emit(op, inputs, kStatistics, attributes);
}

bool groupNorm(Builder& b, const std::string& op) {
  Shape shape = b.drawShape(3, 5, 6000);
  int64_t groups = b.rng.between(1, 4);
  shape[1] = groups * b.rng.between(1, 4);
  std::string x = plain(b, shape);
  Shape of = {b.opset() >= 21 ? shape[1] : groups};
  Attributes attributes = epsilon(b);
  attributes.push_back({"num_groups", groups});
  return b.emit(op, {x, b.weight(b.element(x), of), b.weight(b.element(x), of)}, kStatistics, attributes);
}

bool meanVariance(Builder& b, const std::string& op) {
  std::string x = plain(b, b.drawShape(4, 4, 6000));
  Attributes attributes;
  if (b.rng.chance(0.5)) attributes.push_back({"axes", b.rng.chance(0.5) ? Ints{0, 2, 3} : Ints{2, 3}});
  return b.emit(op, {x}, {.ulps = 24, .operandUlps = 1, .scaleUlps = 8}, attributes);
}

bool lpNorm(Builder& b, const std::string& op) {
  std::string x = b.operand({kFloats, 1});
  Attributes attributes;
  if (b.rng.chance(0.7)) attributes.push_back({"axis", b.axis(b.rank(x))});
  if (b.rng.chance(0.7)) attributes.push_back({"p", b.rng.between(1, 2)});
  return b.emit(op, {x}, {.ulps = 24, .operandUlps = 2}, attributes);
}

bool lrn(Builder& b, const std::string& op) {
  std::string x = b.operand({Types{ElementType::kF32}, 4, 4, Numbers::kPlain, 6000});
  Attributes attributes = {{"size", b.rng.pick(Ints{1, 3, 5, 2, 4})}};
  if (b.rng.chance(0.5)) attributes.push_back({"alpha", static_cast<float>(b.rng.uniform(1e-4, 2))});
  if (b.rng.chance(0.5)) attributes.push_back({"beta", b.rng.pick(std::vector<float>{0.75f, 0.5f, 1.0f, 0.3f})});
  if (b.rng.chance(0.5)) attributes.push_back({"bias", b.rng.pick(std::vector<float>{1.0f, 2.0f, 0.5f})});
  return b.emit(op, {x}, {.ulps = 24, .operandUlps = 2}, attributes);
}

}  // namespace

const std::vector<Generator>& reductionGenerators() {
  static const std::vector<Generator> list = {{"ReduceSum", reduce},
                                              {"ReduceMean", reduce},
                                              {"ReduceMax", reduce},
                                              {"ReduceMin", reduce},
                                              {"ReduceProd", reduce},
                                              {"ReduceL1", reduce},
                                              {"ReduceL2", reduce},
                                              {"ReduceSumSquare", reduce},
                                              {"ReduceLogSum", reduce},
                                              {"ReduceLogSumExp", reduce},
                                              {"Softmax", softmax},
                                              {"LogSoftmax", softmax},
                                              {"Hardmax", softmax},
                                              {"ArgMax", argMax},
                                              {"ArgMin", argMax},
                                              {"TopK", topK},
                                              {"CumSum", cumSum},
                                              {"BatchNormalization", batchNorm},
                                              {"InstanceNormalization", instanceNorm},
                                              {"LayerNormalization", layerNorm},
                                              {"RMSNormalization", layerNorm},
                                              {"GroupNormalization", groupNorm},
                                              {"MeanVarianceNormalization", meanVariance},
                                              {"LpNormalization", lpNorm},
                                              {"LRN", lrn}};
  return list;
}

}  // namespace hpu::randomtest
