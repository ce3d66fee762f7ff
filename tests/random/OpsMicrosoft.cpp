// SPDX-License-Identifier: Apache-2.0
// Generators of ops of com.microsoft, in the forms that exporters and optimisers write.
#include <cmath>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const ElementType kF32 = ElementType::kF32, kU8 = ElementType::kU8, kI8 = ElementType::kI8, kI32 = ElementType::kI32;
const Local kStatistics{.ulps = 16, .operandUlps = 2, .scaleUlps = 4};
const Local kAttention{.ulps = 64, .operandUlps = 8, .scaleUlps = 64};
const Local kSum{.ulps = 1, .sums = true};
/// A number that was rounded before may lie on either side of the middle between two steps.
const Local kStep{.ulps = 0, .integerSteps = 1};

std::string plain(Builder& b, const Shape& shape) {
  return b.operand(kF32, shape, Numbers::kPlain);
}

std::string number(Builder& b, double value) {
  return b.constant([&] {
    HostTensor tensor = b.draw(kF32, {}, Numbers::kPlain);
    setNumber(tensor, 0, value);
    return tensor;
  }());
}

std::string zero(Builder& b, ElementType type) {
  HostTensor tensor = b.draw(type, {});
  setNumber(tensor, 0, static_cast<double>(type == kU8 ? b.rng.between(100, 150) : b.rng.between(-20, 20)));
  return b.constant(std::move(tensor));
}

/// Quantised numbers with their scale and zero point.
std::vector<std::string> quantised(Builder& b, ElementType type, const Shape& shape) {
  HostTensor numbers = b.draw(type, shape);
  for (int64_t k = 0; k < numbers.count(); ++k)
    setNumber(numbers, k, static_cast<double>(type == kU8 ? b.rng.below(256) : b.rng.between(-128, 127)));
  return {b.input(std::move(numbers)), number(b, b.rng.uniform(0.005, 0.05)), zero(b, type)};
}

bool gelu(Builder& b, const std::string& op) {
  const Shape shape = b.drawShape(1, 4, 6000);
  std::vector<std::string> inputs = {b.operand(kF32, shape)};
  if (op.ends_with("BiasGelu") || (op.ends_with("FastGelu") && b.rng.chance(0.5)))
    inputs.push_back(b.weight(kF32, {shape.back()}));
  Attributes attributes;
  if (op.ends_with("QuickGelu") && b.rng.chance(0.7))
    attributes.push_back({"alpha", b.rng.chance(0.5) ? 1.702f : 1.3f});
  return b.emit(op, inputs, {.ulps = 12, .operandUlps = 2, .absolute = 8, .tiny = 4e-37}, attributes);
}

bool skipNorm(Builder& b, const std::string& op) {
  const bool isSimple = op.find("Simplified") != std::string::npos;
  const Shape shape = {b.rng.between(1, 3), b.rng.between(1, 9), b.rng.between(2, 65)};
  auto vector = [&] { return b.weight(kF32, {shape[2]}); };
  std::vector<std::string> inputs = {plain(b, shape), plain(b, shape), vector()};
  if (!isSimple && b.rng.chance(0.7)) inputs.push_back(vector());
  return b.emit(op, inputs, kStatistics, {{"epsilon", 1e-3f}});
}

bool embedNorm(Builder& b, const std::string& op) {
  const int64_t batch = b.rng.between(1, 3), rows = b.rng.between(1, 9), width = b.rng.between(2, 33);
  auto ids = [&](int64_t most) {
    HostTensor tensor = b.draw(kI32, {batch, rows});
    for (int64_t k = 0; k < tensor.count(); ++k) setNumber(tensor, k, static_cast<double>(b.rng.below(most)));
    return b.input(std::move(tensor));
  };
  return b.emit(op,
                {ids(11), ids(2), b.weight(kF32, {11, width}), b.weight(kF32, {12, width}), b.weight(kF32, {2, width}),
                 b.weight(kF32, {width}), b.weight(kF32, {width})},
                kStatistics, {{"epsilon", 1e-3f}}, 2);
}

bool product(Builder& b, const std::string& op) {
  const bool isGemm = op.ends_with("Gemm"), turnsA = b.rng.chance(0.4), turnsB = b.rng.chance(0.4);
  const int64_t m = b.rng.between(1, 17), k = b.rng.between(1, 33), n = b.rng.between(1, 17);
  Shape left = turnsA ? Shape{k, m} : Shape{m, k}, right = turnsB ? Shape{n, k} : Shape{k, n};
  if (!isGemm && b.rng.chance(0.4)) {
    const int64_t batch = b.rng.between(1, 3);
    left.insert(left.begin(), batch);
    if (b.rng.chance(0.6)) right.insert(right.begin(), batch);
  }
  Attributes attributes = {{"transA", int64_t{turnsA}}, {"transB", int64_t{turnsB}}};
  if (b.rng.chance(0.4)) attributes.push_back({"alpha", 0.5f});
  std::vector<std::string> inputs = {plain(b, left), b.weight(kF32, right)};
  if (!isGemm) return b.emit(op, inputs, kSum, attributes);
  inputs.push_back(b.weight(kF32, {n}));
  attributes.push_back({"activation", b.rng.pick(std::vector<std::string>{"Relu", "Tanh", "Sigmoid", "LeakyRelu"})});
  if (std::get<std::string>(attributes.back().second) == "LeakyRelu") attributes.push_back({"activation_alpha", 0.1f});
  return b.emit(op, inputs, {.ulps = 8, .operandUlps = 4, .absolute = 128}, attributes);
}

bool fusedConv(Builder& b, const std::string& op) {
  const int64_t in = b.rng.between(1, 4), out = b.rng.between(1, 4), kernel = b.rng.pick(Ints{1, 3});
  const int64_t height = b.rng.between(3, 9), width = b.rng.between(3, 9), n = b.rng.between(1, 2);
  std::vector<std::string> inputs = {plain(b, {n, in, height, width}),
                                     b.constant(b.draw(kF32, {out, in, kernel, kernel}, Numbers::kPlain)),
                                     b.constant(b.draw(kF32, {out}, Numbers::kPlain))};
  if (b.rng.chance(0.3)) inputs.push_back(plain(b, {n, out, height, width}));
  const std::string activation = b.rng.pick(std::vector<std::string>{"Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip"});
  Attributes attributes = {{"activation", activation}, {"pads", Ints(4, kernel / 2)}};
  if (activation == "LeakyRelu") attributes.push_back({"activation_params", std::vector<float>{0.2f}});
  if (activation == "Clip") attributes.push_back({"activation_params", std::vector<float>{-0.5f, 0.7f}});
  return b.emit(op, inputs, {.ulps = 8, .operandUlps = 4, .absolute = 128}, attributes);
}

bool rotary(Builder& b, const std::string& op) {
  const int64_t batch = b.rng.between(1, 2), heads = b.rng.between(1, 3), rows = b.rng.between(1, 7),
                half = b.rng.pick(Ints{4, 8});
  std::string x = plain(b, {batch, heads, rows, 2 * half});
  HostTensor places = b.draw(ElementType::kI64, {batch, rows});
  for (int64_t k = 0; k < places.count(); ++k) setNumber(places, k, static_cast<double>(b.rng.below(16)));
  return b.emit(op, {x, b.input(std::move(places)), b.weight(kF32, {16, half}), b.weight(kF32, {16, half})},
                {.ulps = 4, .operandUlps = 4, .scaleUlps = 4}, {{"interleaved", b.rng.below(2)}});
}

bool attention(Builder& b, const std::string& op) {
  const int64_t batch = b.rng.between(1, 2), heads = b.rng.between(1, 3), depth = b.rng.pick(Ints{2, 4, 8}),
                rows = b.rng.between(1, 9);
  const int64_t width = heads * depth;
  Attributes attributes = {{"num_heads", heads}};
  if (op.ends_with("MultiHeadAttention")) {
    const int64_t keys = b.rng.between(1, 9);
    std::vector<std::string> inputs = {plain(b, {batch, rows, width}), plain(b, {batch, keys, width}),
                                       plain(b, {batch, keys, width})};
    if (b.rng.chance(0.4)) inputs.push_back(b.weight(kF32, {3 * width}));
    if (b.rng.chance(0.3)) attributes.push_back({"scale", 0.3f});
    return b.emit(op, inputs, kAttention, attributes);
  }
  if (op.ends_with("GroupQueryAttention")) {
    const int64_t pairs = b.rng.between(1, 2), of = 16;
    const int64_t queries = pairs * b.rng.between(1, 2);
    HostTensor lengths = b.draw(kI32, {batch}), total = b.draw(kI32, {1});
    for (int64_t k = 0; k < batch; ++k) setNumber(lengths, k, static_cast<double>(rows - 1));
    setNumber(total, 0, static_cast<double>(rows));
    return b.emit(
        op,
        {plain(b, {batch, rows, queries * of}), plain(b, {batch, rows, pairs * of}),
         plain(b, {batch, rows, pairs * of}), "", "", b.input(std::move(lengths)), b.constant(std::move(total))},
        kAttention, {{"num_heads", queries}, {"kv_num_heads", pairs}}, 3);
  }
  if (b.rng.chance(0.3)) attributes.push_back({"unidirectional", int64_t{1}});
  if (op.ends_with("QAttention")) {
    HostTensor x = b.draw(kU8, {batch, rows, width}), w = b.draw(kU8, {width, 3 * width});
    for (HostTensor* tensor : {&x, &w})
      for (int64_t k = 0; k < tensor->count(); ++k) setNumber(*tensor, k, static_cast<double>(b.rng.below(256)));
    return b.emit(op,
                  {b.input(std::move(x)), b.constant(std::move(w)), b.weight(kF32, {3 * width}), number(b, 0.02),
                   number(b, 0.01), "", zero(b, kU8), zero(b, kU8)},
                  {.ulps = 256, .operandUlps = 8, .scaleUlps = 256, .absolute = 2048}, attributes);
  }
  return b.emit(op, {plain(b, {batch, rows, width}), b.weight(kF32, {width, 3 * width}), b.weight(kF32, {3 * width})},
                kAttention, attributes);
}

bool quantisedElements(Builder& b, const std::string& op) {
  const ElementType type = b.rng.chance(0.6) ? kU8 : kI8;
  if (op.ends_with("AveragePool")) {
    std::vector<std::string> inputs =
        quantised(b, type, {b.rng.between(1, 2), b.rng.between(1, 4), b.rng.between(1, 6), b.rng.between(1, 6)});
    inputs.push_back(number(b, b.rng.uniform(0.005, 0.05)));
    inputs.push_back(zero(b, type));
    return b.emit(op, inputs, kStep, {{"channels_last", int64_t{0}}});
  }
  const Shape shape = b.drawShape(1, 4, 600);
  std::vector<std::string> inputs = quantised(b, type, shape);
  const std::string scale = number(b, b.rng.uniform(0.01, 0.1)), start = zero(b, type);
  if (op.ends_with("Concat")) {
    std::vector<std::string> all = {scale, start};
    all.insert(all.end(), inputs.begin(), inputs.end());
    for (const std::string& name : quantised(b, type, shape)) all.push_back(name);
    return b.emit(op, all, kStep, {{"axis", b.rng.below(static_cast<int64_t>(shape.size()))}});
  }
  if (op.ends_with("Add") || op.ends_with("Mul")) {
    Shape other = shape;
    for (int64_t& size : other)
      if (b.rng.chance(0.3)) size = 1;
    for (const std::string& name : quantised(b, type, other)) inputs.push_back(name);
  }
  inputs.push_back(scale);
  inputs.push_back(start);
  Attributes attributes;
  if (op.ends_with("LeakyRelu")) attributes.push_back({"alpha", 0.1f});
  return b.emit(op, inputs, kStep, attributes);
}

bool quantisedProduct(Builder& b, const std::string& op) {
  const int64_t m = b.rng.between(1, 9), k = b.rng.between(1, 33), n = b.rng.between(1, 9);
  const ElementType type = b.rng.chance(0.6) ? kU8 : kI8;
  std::vector<std::string> weights = quantised(b, type, {k, n});
  if (op.ends_with("DynamicQuantizeMatMul")) {
    // An element of the operand in the middle between two steps may go to either.
    return b.emit(op, {plain(b, {m, k}), weights[0], weights[1], weights[2]},
                  {.ulps = 16, .scaleUlps = 65536, .absolute = 65536});
  }
  std::vector<std::string> rows = quantised(b, kU8, {m, k});
  if (op.ends_with("MatMulIntegerToFloat"))
    return b.emit(op, {rows[0], weights[0], rows[1], weights[1], rows[2], weights[2], b.weight(kF32, {n})},
                  {.ulps = 4, .operandUlps = 2, .absolute = 64});
  std::vector<std::string> inputs = rows;
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  if (b.rng.chance(0.5)) return b.emit(op, inputs, {.ulps = 4, .operandUlps = 2}, {{"alpha", 0.5f}});
  HostTensor bias = b.draw(kI32, {n});
  for (int64_t i = 0; i < n; ++i) setNumber(bias, i, static_cast<double>(b.rng.between(-999, 999)));
  inputs.push_back(b.constant(std::move(bias)));
  inputs.push_back(number(b, b.rng.uniform(0.01, 0.1)));
  inputs.push_back(zero(b, kU8));
  return b.emit(op, inputs, kStep);
}

bool fourBits(Builder& b, const std::string& op) {
  const int64_t block = b.rng.pick(Ints{16, 32}), k = block * b.rng.between(1, 3), n = b.rng.between(1, 9),
                blocks = k / block;
  auto bytes = [&](const Shape& shape) {
    HostTensor tensor = b.draw(kU8, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) setNumber(tensor, i, static_cast<double>(b.rng.below(256)));
    return b.constant(std::move(tensor));
  };
  std::vector<std::string> inputs = {plain(b, {b.rng.between(1, 5), k}), bytes({n, blocks, block / 2}),
                                     b.constant(b.draw(kF32, {n * blocks}, Numbers::kPlain))};
  if (b.rng.chance(0.5)) inputs.push_back(bytes({n * ((blocks + 1) / 2)}));
  return b.emit(op, inputs, {.ulps = 16, .absolute = 8192},
                {{"K", k}, {"N", n}, {"bits", int64_t{4}}, {"block_size", block}});
}

/// What is fused rounds other numbers at narrow precisions than its parts, which the errors know nothing of.
template <bool (*make)(Builder&, const std::string&)>
bool f32(Builder& b, const std::string& op) {
  return b.precision() == Precision::kF32 && make(b, op);
}

}  // namespace

const std::vector<Generator>& microsoftGenerators() {
  static const std::vector<Generator> list = {{"com.microsoft.Gelu", f32<gelu>},
                                              {"com.microsoft.BiasGelu", f32<gelu>},
                                              {"com.microsoft.FastGelu", f32<gelu>},
                                              {"com.microsoft.QuickGelu", f32<gelu>},
                                              {"com.microsoft.SkipLayerNormalization", f32<skipNorm>},
                                              {"com.microsoft.SkipSimplifiedLayerNormalization", f32<skipNorm>},
                                              {"com.microsoft.EmbedLayerNormalization", f32<embedNorm>},
                                              {"com.microsoft.FusedMatMul", f32<product>},
                                              {"com.microsoft.FusedGemm", f32<product>},
                                              {"com.microsoft.FusedConv", f32<fusedConv>},
                                              {"com.microsoft.RotaryEmbedding", f32<rotary>},
                                              {"com.microsoft.Attention", f32<attention>},
                                              {"com.microsoft.MultiHeadAttention", f32<attention>},
                                              {"com.microsoft.GroupQueryAttention", f32<attention>},
                                              {"com.microsoft.QAttention", f32<attention>},
                                              {"com.microsoft.QLinearAdd", f32<quantisedElements>},
                                              {"com.microsoft.QLinearMul", f32<quantisedElements>},
                                              {"com.microsoft.QLinearSigmoid", f32<quantisedElements>},
                                              {"com.microsoft.QLinearLeakyRelu", f32<quantisedElements>},
                                              {"com.microsoft.QLinearConcat", f32<quantisedElements>},
                                              {"com.microsoft.QLinearGlobalAveragePool", f32<quantisedElements>},
                                              {"com.microsoft.MatMulIntegerToFloat", f32<quantisedProduct>},
                                              {"com.microsoft.DynamicQuantizeMatMul", f32<quantisedProduct>},
                                              {"com.microsoft.QGemm", f32<quantisedProduct>},
                                              {"com.microsoft.MatMulNBits", f32<fourBits>}};
  return list;
}

}  // namespace hpu::randomtest
