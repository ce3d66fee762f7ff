// SPDX-License-Identifier: Apache-2.0
// Generators of ops of detectors, of text, of newer images and of attention in ONNX's own domain.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const Local kExact{.ulps = 0};
const ElementType kF32 = ElementType::kF32, kI64 = ElementType::kI64;

/// Whole numbers in [low, high].
HostTensor wholeNumbers(Builder& b, ElementType type, const Shape& shape, int64_t low, int64_t high) {
  HostTensor numbers = b.draw(type, shape);
  for (int64_t k = 0; k < numbers.count(); ++k) setNumber(numbers, k, static_cast<double>(b.rng.between(low, high)));
  return numbers;
}

/// What decides by comparing has operands without errors: numbers of its own, on a grid or not.
bool suppression(Builder& b, const std::string& op) {
  if (b.opset() < 10 || b.precision() != Precision::kF32) return false;
  const int64_t batch = b.rng.between(1, 2), classes = b.rng.between(1, 3), count = b.rng.pick(Ints{1, 2, 7, 16, 33});
  HostTensor boxes = b.draw(kF32, {batch, count, 4}, Numbers::kPlain);
  const bool isCentred = b.rng.chance(0.3);
  for (int64_t k = 0; k < batch * count; ++k)
    for (int64_t d = 0; d < 2; ++d) {
      const double low = b.rng.uniform(0, 10), size = b.rng.uniform(0.5, 5);
      setNumber(boxes, 4 * k + d, low);
      setNumber(boxes, 4 * k + 2 + d, isCentred ? size : low + size);
      // Corners may be given the other way round.
      if (!isCentred && b.rng.chance(0.1)) {
        setNumber(boxes, 4 * k + d, low + size);
        setNumber(boxes, 4 * k + 2 + d, low);
      }
    }
  HostTensor scores = b.draw(kF32, {batch, classes, count}, Numbers::kPlain);
  const bool hasTies = b.rng.chance(0.3);
  for (int64_t k = 0; k < scores.count(); ++k)
    if (hasTies) setNumber(scores, k, std::round(4 * scores.number(k)) / 4);
  std::vector<std::string> inputs = {b.input(std::move(boxes)), b.input(std::move(scores))};
  inputs.push_back(b.constant(wholeNumbers(b, kI64, b.rng.chance(0.5) ? Shape{} : Shape{1}, 1, count + 2)));
  if (b.rng.chance(0.8)) inputs.push_back(b.floats({b.rng.pick(std::vector<double>{0, 0.3, 0.5, 0.9})}));
  if (inputs.size() == 4 && b.rng.chance(0.7)) inputs.push_back(b.floats({b.rng.uniform(-0.5, 0.6)}));
  Attributes attributes;
  if (isCentred) attributes.push_back({"center_point_box", int64_t{1}});
  return b.emit(op, inputs, kExact, attributes);
}

bool unique(Builder& b, const std::string& op) {
  if (b.opset() < 11 || b.precision() != Precision::kF32) return false;
  const ElementType type = b.rng.pick(Types{kF32, kF32, kI64, ElementType::kI8});
  const Shape shape = b.drawShape(1, 3, 300);
  std::string x = b.input(wholeNumbers(b, type, shape, type == kF32 ? -3 : 0, b.rng.pick(Ints{1, 3, 20})));
  Attributes attributes;
  if (b.rng.chance(0.5)) attributes.push_back({"axis", b.axis(b.rank(x))});
  if (b.rng.chance(0.6)) attributes.push_back({"sorted", b.rng.below(2)});
  return b.emit(op, {x}, kExact, attributes, static_cast<size_t>(b.rng.between(1, 4)));
}

bool tfIdf(Builder& b, const std::string& op) {
  // Grams of one and two words out of a few.
  const int64_t singles = b.rng.between(1, 4), pairs = b.rng.between(0, 3);
  Ints pool, indexes;
  for (int64_t k = 0; k < singles; ++k) pool.push_back(k);
  for (int64_t k = 0; k < pairs; ++k) {
    pool.push_back(k);
    pool.push_back(b.rng.below(5) * 5 + k);  // No pair twice.
  }
  for (int64_t k = 0; k < singles + pairs; ++k) indexes.push_back(k);
  b.rng.shuffle(indexes);
  const int64_t most = pairs > 0 ? 2 : 1;
  Attributes attributes = {{"mode", b.rng.pick(std::vector<std::string>{"TF", "IDF", "TFIDF"})},
                           {"min_gram_length", b.rng.between(1, most)},
                           {"max_gram_length", most},
                           {"max_skip_count", b.rng.between(0, 2)},
                           {"ngram_counts", pairs > 0 ? Ints{0, singles} : Ints{0}},
                           {"ngram_indexes", indexes},
                           {"pool_int64s", pool}};
  if (b.rng.chance(0.6)) {
    std::vector<float> weights;
    for (size_t k = 0; k < indexes.size(); ++k) weights.push_back(static_cast<float>(b.rng.between(1, 9)));
    attributes.push_back({"weights", weights});
  }
  Shape shape = {b.rng.between(1, 9)};
  if (b.rng.chance(0.5)) shape.insert(shape.begin(), b.rng.between(1, 3));
  return b.emit(op, {b.input(wholeNumbers(b, b.rng.chance(0.5) ? kI64 : ElementType::kI32, shape, 0, 6))}, {.ulps = 1},
                attributes);
}

bool affineGrid(Builder& b, const std::string& op) {
  if (b.opset() < 20) return false;
  const bool isVolume = b.rng.chance(0.3);
  const int64_t n = b.rng.between(1, 3);
  Ints size = {n, b.rng.between(1, 3), b.rng.between(1, 7), b.rng.between(1, 7)};
  if (isVolume) size.push_back(b.rng.between(1, 4));
  std::string theta = b.operand(kF32, isVolume ? Shape{n, 3, 4} : Shape{n, 2, 3}, Numbers::kPlain);
  Attributes attributes;
  if (b.rng.chance(0.6)) attributes.push_back({"align_corners", b.rng.below(2)});
  return b.emit(op, {theta, b.ints(size)}, {.ulps = 8, .operandUlps = 4, .absolute = 16}, attributes);
}

bool cropPad(Builder& b, const std::string& op) {
  if (b.opset() < 18) return false;
  std::string x = b.operand({kNumbers, 1, 5, Numbers::kAny, 3000});
  Ints axes(b.shape(x).size()), sizes;
  std::iota(axes.begin(), axes.end(), 0);
  Attributes attributes;
  if (b.rng.chance(0.6)) {
    b.rng.shuffle(axes);
    axes.resize(static_cast<size_t>(b.rng.between(1, b.rank(x))));
  }
  for (int64_t axis : axes)
    sizes.push_back(std::max<int64_t>(1, b.shape(x)[static_cast<size_t>(axis)] + b.rng.between(-4, 4)));
  if (axes.size() < b.shape(x).size() || b.rng.chance(0.3)) {
    for (int64_t& axis : axes)
      if (b.rng.chance(0.3)) axis -= b.rank(x);
    attributes.push_back({"axes", axes});
  } else {
    std::iota(axes.begin(), axes.end(), 0);
    for (size_t d = 0; d < axes.size(); ++d) sizes[d] = std::max<int64_t>(1, b.shape(x)[d] + b.rng.between(-4, 4));
  }
  return b.emit(op, {x, b.ints(sizes)}, kExact, attributes);
}

bool columnsToImage(Builder& b, const std::string& op) {
  if (b.opset() < 18) return false;
  const auto dims = static_cast<size_t>(b.rng.pick(Ints{1, 2, 2, 3}));
  Ints image, block, strides, dilations, pads(2 * dims);
  int64_t area = 1, blocks = 1;
  for (size_t d = 0; d < dims; ++d) {
    block.push_back(b.rng.between(1, 3));
    dilations.push_back(b.rng.pick(Ints{1, 1, 2}));
    strides.push_back(b.rng.pick(Ints{1, 1, 2}));
    pads[d] = b.rng.below(2);
    pads[d + dims] = b.rng.below(2);
    const int64_t extent = (block[d] - 1) * dilations[d] + 1;
    image.push_back(extent + b.rng.between(0, 4));
    area *= block[d];
    blocks *= (image[d] + pads[d] + pads[d + dims] - extent) / strides[d] + 1;
  }
  std::string x = b.operand(kF32, {b.rng.between(1, 2), b.rng.between(1, 3) * area, blocks}, Numbers::kPlain);
  return b.emit(op, {x, b.ints(image), b.ints(block)}, {.ulps = 1, .sums = true},
                {{"strides", strides}, {"dilations", dilations}, {"pads", pads}});
}

bool deformConv(Builder& b, const std::string& op) {
  // Narrow formats round places, of which the error knows nothing.
  if (b.opset() < 19 || b.precision() != Precision::kF32) return false;
  const int64_t n = b.rng.between(1, 2), groups = b.rng.between(1, 2), offsets = b.rng.between(1, 2);
  const int64_t in = 2 * b.rng.between(1, 2), out = groups * b.rng.between(1, 3), height = b.rng.between(3, 8),
                width = b.rng.between(3, 8);
  const int64_t kh = b.rng.between(1, 3), kw = b.rng.between(1, 3), stride = b.rng.between(1, 2), pad = b.rng.below(2);
  const int64_t oh = (height + 2 * pad - kh) / stride + 1, ow = (width + 2 * pad - kw) / stride + 1;
  auto fresh = [&](const Shape& shape, double scale) {
    HostTensor tensor = b.draw(kF32, shape, Numbers::kPlain);
    for (int64_t k = 0; k < tensor.count(); ++k) setNumber(tensor, k, scale * tensor.number(k));
    return b.input(std::move(tensor));
  };
  std::vector<std::string> inputs = {b.operand(kF32, {n, in, height, width}, Numbers::kPlain),
                                     b.weight(kF32, {out, in / groups, kh, kw}),
                                     fresh({n, offsets * 2 * kh * kw, oh, ow}, b.rng.pick(std::vector<double>{0.5, 2})),
                                     b.rng.chance(0.5) ? b.weight(kF32, {out}) : ""};
  if (b.rng.chance(0.5)) inputs.push_back(fresh({n, offsets * kh * kw, oh, ow}, 1));
  return b.emit(op, inputs, {.ulps = 8, .operandUlps = 4, .scaleUlps = 128},
                {{"strides", Ints{stride, stride}},
                 {"pads", Ints{pad, pad, pad, pad}},
                 {"kernel_shape", Ints{kh, kw}},
                 {"group", groups},
                 {"offset_group", offsets}});
}

const Local kAttention{.ulps = 64, .operandUlps = 8, .scaleUlps = 64};

bool attention(Builder& b, const std::string& op) {
  if (b.opset() < 23 || b.precision() != Precision::kF32) return false;
  const int64_t batch = b.rng.between(1, 2), pairs = b.rng.between(1, 2), heads = pairs * b.rng.between(1, 2);
  const int64_t rows = b.rng.between(1, 9), keys = b.rng.between(1, 12), depth = b.rng.between(1, 9);
  auto operand = [&](const Shape& shape) { return b.operand(kF32, shape, Numbers::kPlain); };
  const bool isFlat = b.rng.chance(0.3);
  Attributes attributes;
  std::vector<std::string> inputs;
  if (isFlat) {
    inputs = {operand({batch, rows, heads * depth}), operand({batch, keys, pairs * depth}),
              operand({batch, keys, pairs * depth})};
    attributes = {{"q_num_heads", heads}, {"kv_num_heads", pairs}};
  } else {
    inputs = {operand({batch, heads, rows, depth}), operand({batch, pairs, keys, depth}),
              operand({batch, pairs, keys, depth})};
  }
  if (b.rng.chance(0.4)) {
    HostTensor mask = b.draw(b.rng.chance(0.5) ? ElementType::kBool : kF32, {rows, keys}, Numbers::kPlain);
    if (mask.type.element == ElementType::kBool)  // A row that sees nothing has no numbers of its own.
      for (int64_t k = 0; k < rows; ++k) setNumber(mask, k * keys, 1);
    inputs.push_back(b.input(std::move(mask)));
  }
  if (b.rng.chance(0.3)) attributes.push_back({"is_causal", int64_t{1}});
  if (b.rng.chance(0.3)) attributes.push_back({"scale", 0.3f});
  if (b.rng.chance(0.2)) attributes.push_back({"softcap", 2.0f});
  return b.emit(op, inputs, kAttention, attributes);
}

bool rotary(Builder& b, const std::string& op) {
  if (b.opset() < 23) return false;
  const int64_t batch = b.rng.between(1, 2), heads = b.rng.between(1, 3), rows = b.rng.between(1, 7),
                half = b.rng.between(1, 5);
  const bool isFlat = b.rng.chance(0.4), hasPlaces = b.rng.chance(0.5);
  Attributes attributes;
  if (b.rng.chance(0.5)) attributes.push_back({"interleaved", b.rng.below(2)});
  if (isFlat) attributes.push_back({"num_heads", heads});
  std::string x = b.operand(kF32, isFlat ? Shape{batch, rows, heads * 2 * half} : Shape{batch, heads, rows, 2 * half},
                            Numbers::kPlain);
  const Shape caches = hasPlaces ? Shape{16, half} : Shape{batch, rows, half};
  std::vector<std::string> inputs = {x, b.weight(kF32, caches), b.weight(kF32, caches)};
  if (hasPlaces) inputs.push_back(b.input(wholeNumbers(b, kI64, {batch, rows}, 0, 15)));
  return b.emit(op, inputs, {.ulps = 4, .operandUlps = 4, .scaleUlps = 4}, attributes);
}

bool simplifiedNorm(Builder& b, const std::string& op) {
  const Shape shape = b.drawShape(1, 4, 3000);
  std::string x = b.operand(kF32, shape, Numbers::kPlain);
  return b.emit(op, {x, b.weight(kF32, {shape.back()})}, {.ulps = 16, .operandUlps = 1, .scaleUlps = 4},
                {{"epsilon", 1e-3f}});
}

}  // namespace

const std::vector<Generator>& detectionGenerators() {
  static const std::vector<Generator> list = {
      {"NonMaxSuppression", suppression}, {"Unique", unique},
      {"TfIdfVectorizer", tfIdf},         {"AffineGrid", affineGrid},
      {"CenterCropPad", cropPad},         {"Col2Im", columnsToImage},
      {"DeformConv", deformConv},         {"Attention", attention},
      {"RotaryEmbedding", rotary},        {"SimplifiedLayerNormalization", simplifiedNorm}};
  return list;
}

}  // namespace hpu::randomtest
