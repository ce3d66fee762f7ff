// SPDX-License-Identifier: Apache-2.0
// Generators of samples of images, signals and losses.
#include <algorithm>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const Local kExact{.ulps = 0};
/// Sums of some dozens of products of numbers up to 1. ONNX Runtime's angles, up to 180, are f32.
const Local kTransform{.ulps = 8, .operandUlps = 4, .absolute = 4096};

/// Whole numbers in [low, high], known at import or not.
std::string wholeNumbers(Builder& b, ElementType type, const Shape& shape, int64_t low, int64_t high) {
  HostTensor numbers = b.draw(type, shape);
  for (int64_t k = 0; k < numbers.count(); ++k) setNumber(numbers, k, static_cast<double>(b.rng.between(low, high)));
  return b.rng.chance(0.3) ? b.fixed(std::move(numbers)) : b.input(std::move(numbers));
}

bool loss(Builder& b, const std::string& op) {
  if (b.opset() < 12) return false;
  Shape shape = b.drawShape(2, 5, 3000);
  const int64_t classes = shape[1];
  Shape labels = shape;
  labels.erase(labels.begin() + 1);
  std::string x = b.operand(ElementType::kF32, shape, Numbers::kPlain);
  Attributes attributes;
  int64_t least = 0;
  if (b.rng.chance(0.5)) {
    const int64_t ignored = b.rng.chance(0.4) ? -1 : b.rng.below(classes);
    attributes.push_back({"ignore_index", ignored});
    least = std::min<int64_t>(least, ignored);
  }
  if (b.rng.chance(0.8))
    attributes.push_back({"reduction", b.rng.pick(std::vector<std::string>{"none", "sum", "mean"})});
  const ElementType type = b.rng.chance(0.5) ? ElementType::kI64 : ElementType::kI32;
  std::vector<std::string> inputs = {x, wholeNumbers(b, type, labels, least, classes - 1)};
  if (b.rng.chance(0.4)) inputs.push_back(b.weight(ElementType::kF32, {classes}, Numbers::kPositive));
  const bool isSoftmax = op == "SoftmaxCrossEntropyLoss";
  return b.emit(op, inputs, {.ulps = 24, .operandUlps = 1, .scaleUlps = 4, .absolute = 8}, attributes,
                isSoftmax && b.rng.chance(0.4) ? 2 : 1);
}

bool gridSample(Builder& b, const std::string& op) {
  // Narrow formats round places, of which the error knows nothing.
  if (b.opset() < 16 || b.precision() != Precision::kF32) return false;
  const int64_t n = b.rng.between(1, 2);
  std::string x =
      b.operand(ElementType::kF32, {n, b.rng.between(1, 3), b.rng.between(1, 9), b.rng.between(1, 9)}, Numbers::kPlain);
  const Shape places = {n, b.rng.between(1, 7), b.rng.between(1, 7), 2};
  HostTensor grid = b.draw(ElementType::kF32, places, Numbers::kPlain);
  const double reach = b.rng.pick(std::vector<double>{0.9, 1.3, 4});
  for (int64_t k = 0; k < grid.count(); ++k) setNumber(grid, k, reach * grid.number(k));
  const bool isNew = b.opset() >= 20;
  const std::vector<std::string> modes = isNew ? std::vector<std::string>{"linear", "nearest", "cubic"}
                                               : std::vector<std::string>{"bilinear", "nearest", "bicubic"};
  Attributes attributes = {{"mode", b.rng.pick(modes)},
                           {"padding_mode", b.rng.pick(std::vector<std::string>{"zeros", "border", "reflection"})},
                           {"align_corners", b.rng.below(2)}};
  // Weights that are computed in float from coordinates in elements.
  return b.emit(op, {x, b.rng.chance(0.3) ? b.fixed(std::move(grid)) : b.input(std::move(grid))},
                {.ulps = 8, .operandUlps = 2, .scaleUlps = 64}, attributes);
}

bool lpPool(Builder& b, const std::string& op) {
  if (b.precision() != Precision::kF32) return false;  // Powers of rounded numbers.
  Shape shape = {b.rng.between(1, 2), b.rng.between(1, 3), b.rng.between(2, 9), b.rng.between(2, 9)};
  std::string x = b.operand(ElementType::kF32, shape, Numbers::kPlain);
  Attributes attributes;
  if (b.rng.chance(0.7)) attributes.push_back({"p", b.rng.between(1, 3)});
  if (op == "LpPool") {
    const Ints kernel = {b.rng.between(1, 2), b.rng.between(1, 2)};
    attributes.push_back({"kernel_shape", kernel});
    if (b.rng.chance(0.6)) attributes.push_back({"strides", Ints{b.rng.between(1, 3), b.rng.between(1, 3)}});
    if (b.rng.chance(0.3)) attributes.push_back({"pads", Ints{kernel[0] - 1, kernel[1] - 1, 0, 0}});
  }
  return b.emit(op, {x}, {.ulps = 24, .operandUlps = 4}, attributes);
}

/// Maxima and where they were, sometimes put back there.
bool maxUnpool(Builder& b, const std::string& op) {
  // Of what is rounded to the same number another one may be the largest.
  if (b.opset() < 11 || b.precision() != Precision::kF32) return false;
  const Ints sizes = {b.rng.between(1, 5), b.rng.between(1, 5)}, kernel = {b.rng.between(1, 3), b.rng.between(1, 3)};
  const Shape shape = {b.rng.between(1, 2), b.rng.between(1, 3), sizes[0] * kernel[0], sizes[1] * kernel[1]};
  std::string x = b.operand(ElementType::kF32, shape, Numbers::kPlain);
  const Attributes attributes = {{"kernel_shape", kernel}, {"strides", kernel}};
  if (!b.emit("MaxPool", {x}, kExact, attributes, 2)) return false;
  const std::vector<std::string> pooled = b.last();
  return b.emit(op, pooled, kExact, attributes);
}

bool window(Builder& b, const std::string& op) {
  if (b.opset() < 17) return false;
  Attributes attributes;
  if (b.rng.chance(0.6)) attributes.push_back({"periodic", b.rng.below(2)});
  return b.emit(op, {b.scalar(ElementType::kI64, static_cast<double>(b.rng.between(2, 40)))},
                {.ulps = 8, .absolute = 8}, attributes);
}

bool dft(Builder& b, const std::string& op) {
  // Narrow formats round the cosines, too, of which the error knows nothing.
  if (b.opset() < 17 || b.precision() != Precision::kF32) return false;
  const bool isComplex = b.rng.chance(0.5);
  Shape shape = {b.rng.between(1, 3), b.rng.pick(Ints{1, 2, 3, 5, 8, 12, 17, 30}), isComplex ? 2 : 1};
  if (b.rng.chance(0.3)) shape.insert(shape.begin() + 1, b.rng.between(1, 4));
  std::string x = b.operand(ElementType::kF32, shape, Numbers::kPlain);
  const auto axis = static_cast<int64_t>(shape.size()) - 2;
  Attributes attributes;
  if (b.rng.chance(0.4))
    attributes.push_back({"inverse", int64_t{1}});
  else if (!isComplex && b.rng.chance(0.5))
    attributes.push_back({"onesided", int64_t{1}});
  std::vector<std::string> inputs = {x};
  if (b.opset() >= 20) {
    inputs.emplace_back("");
    inputs.push_back(b.scalar(ElementType::kI64, static_cast<double>(axis)));
  } else {
    attributes.push_back({"axis", axis});
  }
  return b.emit(op, inputs, kTransform, attributes);
}

bool stft(Builder& b, const std::string& op) {
  if (b.opset() < 17 || b.precision() != Precision::kF32) return false;
  const int64_t length = b.rng.pick(Ints{2, 4, 5, 8, 16}), samples = length + b.rng.between(0, 40);
  std::string x = b.operand(ElementType::kF32, {b.rng.between(1, 3), samples, 1}, Numbers::kPlain);
  std::vector<std::string> inputs = {x, b.scalar(ElementType::kI64, static_cast<double>(b.rng.between(1, 6)))};
  inputs.push_back(b.rng.chance(0.5) ? b.weight(ElementType::kF32, {length}) : "");
  inputs.push_back(b.scalar(ElementType::kI64, static_cast<double>(length)));
  return b.emit(op, inputs, kTransform, {{"onesided", b.rng.below(2)}});
}

bool melWeights(Builder& b, const std::string& op) {
  if (b.opset() < 17) return false;
  return b.emit(op,
                {b.scalar(ElementType::kI64, static_cast<double>(b.rng.between(1, 12))),
                 b.scalar(ElementType::kI64, 64), b.scalar(ElementType::kI64, 8192), b.scalar(ElementType::kF32, 0),
                 b.scalar(ElementType::kF32, b.rng.pick(std::vector<double>{2048, 4096}))},
                {.ulps = 4});
}

bool reverseSequence(Builder& b, const std::string& op) {
  if (b.opset() < 10) return false;
  std::string x = b.operand({kNumbers, 2, 5});
  const int64_t time = b.rng.below(2), batch = 1 - time;
  const Shape shape = b.shape(x);
  const int64_t steps = shape[static_cast<size_t>(time)];
  if (steps < 1) return false;
  std::string lengths = wholeNumbers(b, ElementType::kI64, {shape[static_cast<size_t>(batch)]}, 1, steps);
  return b.emit(op, {x, lengths}, kExact, {{"time_axis", time}, {"batch_axis", batch}});
}

bool determinant(Builder& b, const std::string& op) {
  if (b.opset() < 11 || b.precision() != Precision::kF32) return false;
  const int64_t size = b.rng.between(1, 5);
  Shape shape = {size, size};
  if (b.rng.chance(0.5)) shape.insert(shape.begin(), b.rng.between(1, 4));
  // Sums of products of up to five numbers below 1, in another order.
  return b.emit(op, {b.operand(ElementType::kF32, shape, Numbers::kPlain)},
                {.ulps = 8, .operandUlps = 4, .absolute = 4096});
}

bool roiAlign(Builder& b, const std::string& op) {
  if (b.opset() < 16 || b.precision() != Precision::kF32) return false;
  const int64_t n = b.rng.between(1, 2), rois = b.rng.between(1, 4);
  const Shape image = {n, b.rng.between(1, 3), b.rng.between(2, 9), b.rng.between(2, 9)};
  std::string x = b.operand(ElementType::kF32, image, Numbers::kPlain);
  HostTensor boxes = b.draw(ElementType::kF32, {rois, 4}, Numbers::kPlain);
  for (int64_t k = 0; k < rois; ++k) {
    for (int64_t d = 0; d < 2; ++d) {
      const double low = static_cast<double>(b.rng.between(0, 16)) / 4;
      setNumber(boxes, 4 * k + d, low);
      setNumber(boxes, 4 * k + 2 + d, low + static_cast<double>(b.rng.between(4, 24)) / 4);
    }
  }
  Attributes attributes = {{"output_height", b.rng.between(1, 3)},
                           {"output_width", b.rng.between(1, 3)},
                           {"sampling_ratio", b.rng.between(1, 3)}};
  if (b.rng.chance(0.7))
    attributes.push_back(
        {"coordinate_transformation_mode", b.rng.pick(std::vector<std::string>{"half_pixel", "output_half_pixel"})});
  return b.emit(op, {x, b.input(std::move(boxes)), wholeNumbers(b, ElementType::kI64, {rois}, 0, n - 1)},
                {.ulps = 8, .operandUlps = 2, .scaleUlps = 64}, attributes);
}

}  // namespace

const std::vector<Generator>& samplingGenerators() {
  static const std::vector<Generator> list = {{"NegativeLogLikelihoodLoss", loss},
                                              {"SoftmaxCrossEntropyLoss", loss},
                                              {"GridSample", gridSample},
                                              {"Det", determinant},
                                              {"RoiAlign", roiAlign},
                                              {"LpPool", lpPool},
                                              {"GlobalLpPool", lpPool},
                                              {"MaxUnpool", maxUnpool},
                                              {"HannWindow", window},
                                              {"HammingWindow", window},
                                              {"BlackmanWindow", window},
                                              {"DFT", dft},
                                              {"STFT", stft},
                                              {"MelWeightMatrix", melWeights},
                                              {"ReverseSequence", reverseSequence}};
  return list;
}

}  // namespace hpu::randomtest
