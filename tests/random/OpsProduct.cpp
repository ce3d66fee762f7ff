// SPDX-License-Identifier: Apache-2.0
// Generators of products, convolutions, pools, resizing and quantisation.
#include <algorithm>
#include <cmath>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

const Local kSum{.ulps = 1, .sums = true};
const Types kF32 = {ElementType::kF32};

bool matMul(Builder& b, const std::string& op) {
  std::string x = b.operand({kFloats, 1, 6, b.rng.chance(0.6) ? Numbers::kPlain : Numbers::kAny});
  Shape left = b.shape(x), right;
  if (b.rng.chance(0.1)) {
    right = {left.back()};
  } else {
    if (left.size() > 2 && b.rng.chance(0.6)) {
      right.assign(left.begin(), left.end() - 2);
      for (int64_t& size : right)
        if (b.rng.chance(0.3)) size = 1;
      if (b.rng.chance(0.3)) right.erase(right.begin());
    } else if (b.rng.chance(0.15)) {
      right = {b.rng.between(1, 3)};
    }
    right.push_back(left.back());
    right.push_back(b.drawSize());
  }
  return b.emit(op, {x, b.weight(b.element(x), right)}, kSum);
}

bool gemm(Builder& b, const std::string& op) {
  std::string x = b.operand({kFloats, 2, 2, b.rng.chance(0.6) ? Numbers::kPlain : Numbers::kAny});
  bool transA = b.rng.chance(0.3), transB = b.rng.chance(0.4);
  int64_t m = b.shape(x)[transA ? 1 : 0], k = b.shape(x)[transA ? 0 : 1], n = b.drawSize();
  Attributes attributes;
  Local local = kSum;
  if (transA) attributes.push_back({"transA", int64_t{1}});
  if (transB) attributes.push_back({"transB", int64_t{1}});
  for (const char* name : {"alpha", "beta"})
    if (b.rng.chance(0.3)) {
      auto factor = static_cast<float>(b.rng.pick(std::vector<double>{0.5, -1, 2.25, 0, 1, -0.125}));
      attributes.push_back({name, factor});
      local.magnitudes.push_back({name, std::fabs(factor)});
    }
  std::vector<std::string> inputs = {x, b.weight(b.element(x), transB ? Shape{n, k} : Shape{k, n})};
  if (b.opset() < 11 || b.rng.chance(0.7)) {
    std::vector<Shape> shapes = {{m, n}, {n}, {1, n}, {m, 1}, {1}, {1, 1}};
    if (b.opset() >= 7) shapes.push_back({});
    inputs.push_back(b.weight(b.element(x), b.rng.pick(shapes)));
  }
  return b.emit(op, inputs, local, attributes);
}

bool einsum(Builder& b, const std::string& op) {
  struct Form {
    const char* equation;
    std::vector<std::string> operands;
  };
  static const std::vector<Form> kForms = {{"ij,jk->ik", {"ij", "jk"}},
                                           {"ij,jk", {"ij", "jk"}},
                                           {"bij,bjk->bik", {"bij", "bjk"}},
                                           {"bhid,bhjd->bhij", {"bhid", "bhjd"}},
                                           {"ij->ji", {"ij"}},
                                           {"ijk->ik", {"ijk"}},
                                           {"ij->", {"ij"}},
                                           {"i,i->", {"i", "i"}},
                                           {"i,j->ij", {"i", "j"}},
                                           {"bij,jk->bik", {"bij", "jk"}},
                                           {"ijk,ik->ij", {"ijk", "ik"}},
                                           {"ab,cb->ac", {"ab", "cb"}},
                                           {"ba,bc->ac", {"ba", "bc"}},
                                           {"abc,acd->abd", {"abc", "acd"}},
                                           {"abc->cba", {"abc"}},
                                           {"bqhd,bkhd->bhqk", {"bqhd", "bkhd"}},
                                           {"ij,ij->ij", {"ij", "ij"}},
                                           {"ij,kl->ikjl", {"ij", "kl"}}};
  const Form& form = b.rng.pick(kForms);
  std::map<char, int64_t> sizes;
  std::vector<std::string> inputs;
  ElementType type = b.rng.pick(kFloats);
  for (const std::string& letters : form.operands) {
    Shape shape;
    for (char letter : letters) {
      if (!sizes.count(letter)) sizes[letter] = letters.size() > 2 ? b.rng.between(1, 9) : b.rng.between(1, 34);
      shape.push_back(sizes[letter]);
    }
    inputs.push_back(b.operand(type, shape, Numbers::kPlain));
  }
  return b.emit(op, inputs, kSum, {{"equation", std::string(form.equation)}});
}

/// Window attributes of a number of spatial dimensions; `most` bounds the kernel.
struct Window {
  Ints kernel, strides, dilations, pads;
  std::string autoPad;
};

Window drawWindow(Builder& b, const Shape& sizes, bool isPool) {
  Window window;
  size_t dims = sizes.size();
  window.pads.resize(2 * dims);
  for (size_t d = 0; d < dims; ++d) {
    int64_t kernel = b.rng.pick(Ints{1, 1, 2, 3, 3, 3, 4, 5, 7}),
            dilation = b.rng.chance(0.2) ? b.rng.between(2, 3) : 1;
    if (isPool && b.opset() < 10) dilation = 1;
    int64_t extent = (kernel - 1) * dilation + 1;
    for (size_t side : {d, d + dims})
      window.pads[side] = b.rng.chance(0.5) ? 0 : b.rng.between(0, isPool ? kernel - 1 : 3);
    if (sizes[d] + window.pads[d] + window.pads[d + dims] < extent) {
      kernel = std::min<int64_t>(kernel, sizes[d]);
      dilation = 1;
      for (size_t side : {d, d + dims}) window.pads[side] = std::min(window.pads[side], kernel - 1);
    }
    window.kernel.push_back(kernel);
    window.dilations.push_back(dilation);
    window.strides.push_back(b.rng.pick(Ints{1, 1, 1, 2, 2, 3}));
  }
  if (b.rng.chance(0.25)) window.autoPad = b.rng.pick(std::vector<std::string>{"SAME_UPPER", "SAME_LOWER", "VALID"});
  return window;
}

Attributes attributesOf(Builder& b, const Window& window) {
  Attributes attributes;
  auto anyOther = [](const Ints& values, int64_t usual) {
    return std::any_of(values.begin(), values.end(), [&](int64_t value) { return value != usual; });
  };
  if (!window.autoPad.empty())
    attributes.push_back({"auto_pad", window.autoPad});
  else if (anyOther(window.pads, 0) || b.rng.chance(0.3))
    attributes.push_back({"pads", window.pads});
  if (anyOther(window.strides, 1) || b.rng.chance(0.3)) attributes.push_back({"strides", window.strides});
  if (anyOther(window.dilations, 1) || b.rng.chance(0.2)) attributes.push_back({"dilations", window.dilations});
  return attributes;
}

/// [N, C, ...] with one to three spatial dimensions.
Shape imageShape(Builder& b, int64_t channels) {
  Shape shape = {b.rng.between(1, 3), channels};
  if (b.rng.chance(0.15)) {
    for (int d = 0; d < 3; ++d) shape.push_back(b.rng.between(1, 7));
    return shape;
  }
  bool isOne = b.rng.chance(0.3);
  for (int d = 0; d < (isOne ? 1 : 2); ++d) shape.push_back(b.rng.pick(Ints{1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 31}));
  return shape;
}

std::string image(Builder& b, ElementType type, const Shape& shape) {
  return b.operand(type, shape, b.rng.chance(0.7) ? Numbers::kPlain : Numbers::kAny);
}

bool conv(Builder& b, const std::string& op) {
  bool isTransposed = op == "ConvTranspose";
  int64_t groups = b.rng.pick(Ints{1, 1, 1, 2, 3, 4}), in = groups * b.rng.pick(Ints{1, 1, 2, 3, 5, 8, 16});
  if (b.rng.chance(0.2)) groups = in;
  int64_t out = groups * b.rng.pick(Ints{1, 1, 2, 3, 4, 7});
  Shape shape = imageShape(b, in), sizes(shape.begin() + 2, shape.end());
  std::string x = image(b, b.rng.pick(kFloats), shape);
  Window window = drawWindow(b, sizes, false);
  Attributes attributes = attributesOf(b, window);
  if (isTransposed) {
    Ints padding;
    for (size_t d = 0; d < sizes.size(); ++d)
      padding.push_back(b.rng.below(std::max(window.strides[d], window.dilations[d])));
    if (b.rng.chance(0.3)) attributes.push_back({"output_padding", padding});
  }
  if (groups != 1 || b.rng.chance(0.3)) attributes.push_back({"group", groups});
  if (b.rng.chance(0.5)) attributes.push_back({"kernel_shape", window.kernel});
  Shape weights = isTransposed ? Shape{in, out / groups} : Shape{out, in / groups};
  weights.insert(weights.end(), window.kernel.begin(), window.kernel.end());
  std::vector<std::string> inputs = {x, b.weight(b.element(x), weights)};
  if (b.rng.chance(0.5)) inputs.push_back(b.weight(b.element(x), {out}));
  return b.emit(op, inputs, kSum, attributes);
}

bool pool(Builder& b, const std::string& op) {
  bool isMax = op == "MaxPool";
  Shape shape = imageShape(b, b.rng.pick(Ints{1, 2, 3, 8, 17})), sizes(shape.begin() + 2, shape.end());
  ElementType type = isMax && b.opset() >= 12 && b.rng.chance(0.15)
                         ? b.rng.pick(Types{ElementType::kI8, ElementType::kU8})
                         : b.rng.pick(kFloats);
  std::string x = b.operand(type, shape);
  Window window = drawWindow(b, sizes, true);
  if (!isMax && b.opset() < 19) window.dilations.assign(sizes.size(), 1);
  Attributes attributes = attributesOf(b, window);
  attributes.push_back({"kernel_shape", window.kernel});
  if (b.opset() >= 10 && b.rng.chance(0.4)) attributes.push_back({"ceil_mode", int64_t{1}});
  if (!isMax && b.rng.chance(0.4)) attributes.push_back({"count_include_pad", int64_t{1}});
  if (isMax && b.rng.chance(0.2)) {
    x = b.operand(type, shape, Numbers::kPlain);  // Where a NaN is the largest is not said.
    if (b.rng.chance(0.3)) attributes.push_back({"storage_order", int64_t{1}});
    return b.emit(op, {x}, {.ulps = 0}, attributes, 2);
  }
  return b.emit(op, {x}, isMax ? Local{.ulps = 0} : kSum, attributes);
}

bool globalPool(Builder& b, const std::string& op) {
  std::string x = b.operand(b.rng.pick(kFloats), imageShape(b, b.rng.between(1, 9)));
  return b.emit(op, {x}, op == "GlobalMaxPool" ? Local{.ulps = 0} : kSum);
}

bool resize(Builder& b, const std::string& op) {
  Shape shape = {b.rng.between(1, 2), b.rng.between(1, 4), b.rng.between(1, 12), b.rng.between(1, 12)};
  std::string x = b.operand(b.rng.pick(kFloats), shape);
  const bool isCubic = op == "Resize" && b.opset() >= 11 && b.rng.chance(0.2);
  bool isLinear = !isCubic && b.rng.chance(0.5);
  // Products with weights that are computed in float: near a whole number of pixels a neighbour has weight 0 or nearly.
  Local local{.ulps = isLinear ? 4.0 : 0.0, .scaleUlps = isLinear ? 16.0 : 0.0};
  // Weights of 0 are none where an element is not finite.
  if (isCubic) x = b.operand(ElementType::kF32, shape, Numbers::kPlain);
  if (isCubic) local = {.ulps = 8, .operandUlps = 2, .scaleUlps = 64};
  static const std::vector<double> kScales = {1, 2, 3, 0.5, 1.5, 2.25, 0.75, 4};
  std::vector<double> scales = {1, 1, b.rng.pick(kScales), b.rng.pick(kScales)};
  for (size_t d = 2; d < 4; ++d)
    if (static_cast<double>(shape[d]) * scales[d] < 1) scales[d] = 1;  // Nothing of it is refused.
  Attributes attributes = {{"mode", std::string(isCubic ? "cubic" : isLinear ? "linear" : "nearest")}};
  if (isCubic && b.rng.chance(0.4)) attributes.push_back({"cubic_coeff_a", -0.5f});
  if (isCubic && b.rng.chance(0.4)) attributes.push_back({"exclude_outside", int64_t{1}});
  if (op == "Upsample") {
    for (double& scale : scales) scale = std::max(scale, 1.0);
    return b.emit(op, {x, b.floats(scales)}, local, attributes);
  }
  if (b.opset() < 11) return b.emit(op, {x, b.floats(scales)}, local, attributes);
  if (b.rng.chance(0.8))
    attributes.push_back(
        {"coordinate_transformation_mode",
         b.rng.pick(std::vector<std::string>{"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"})});
  if (!isLinear && !isCubic && b.rng.chance(0.7))
    attributes.push_back({"nearest_mode", b.rng.pick(std::vector<std::string>{"floor", "ceil", "round_prefer_floor",
                                                                              "round_prefer_ceil"})});
  std::string roi = b.opset() < 13 ? b.constant(b.draw(ElementType::kF32, {0})) : "";
  if (b.rng.chance(0.5)) return b.emit(op, {x, roi, b.floats(scales)}, local, attributes);
  Ints sizes = {shape[0], shape[1], b.rng.between(1, 25), b.rng.between(1, 25)};
  std::string none = b.opset() < 13 ? b.constant(b.draw(ElementType::kF32, {0})) : "";
  return b.emit(op, {x, roi, none, b.ints(sizes)}, local, attributes);
}

/// A scale and a zero point, of one number or one a channel.
std::vector<std::string> quantisation(Builder& b, ElementType type, const Shape& shape) {
  HostTensor scale = b.draw(ElementType::kF32, shape, Numbers::kPositive);
  for (int64_t k = 0; k < scale.count(); ++k) setNumber(scale, k, scale.number(k) / 16);
  std::vector<std::string> names = {b.fixed(std::move(scale))};
  names.push_back(b.fixed(b.draw(type, shape, Numbers::kPlain)));
  return names;
}

bool quantize(Builder& b, const std::string& op) {
  bool isBack = op == "DequantizeLinear";
  Types types = {ElementType::kI8, ElementType::kU8};
  if (b.opset() >= 21) types.insert(types.end(), {ElementType::kI16, ElementType::kU16});
  if (isBack && b.rng.chance(0.1)) types = {ElementType::kI32};
  ElementType type = b.rng.pick(types);
  std::string x = b.operand({isBack ? Types{type} : kF32, 0, 5});
  Attributes attributes;
  Shape shape;
  if (b.opset() >= 13 && b.rank(x) > 0 && b.rng.chance(0.4)) {
    int64_t axis = b.axis(b.rank(x));
    shape = {b.shape(x)[static_cast<size_t>(axis < 0 ? axis + b.rank(x) : axis)]};
    attributes.push_back({"axis", axis});
  }
  std::vector<std::string> inputs = quantisation(b, type, shape);
  if (isBack && type == ElementType::kI32) inputs.pop_back();
  inputs.insert(inputs.begin(), x);
  return b.emit(op, inputs, {.ulps = 1}, attributes);
}

bool dynamicQuantize(Builder& b, const std::string& op) {
  return b.emit(op, {b.operand({kF32})}, {.ulps = 2, .scaleUlps = 1}, {}, 3);
}

bool integerProduct(Builder& b, const std::string& op) {
  static const Types kBytes = {ElementType::kI8, ElementType::kU8};
  bool isConv = op.find("Conv") != std::string::npos, isQ = op.rfind("QLinear", 0) == 0;
  ElementType left = b.rng.pick(kBytes), right = b.rng.pick(kBytes);
  int64_t in = b.rng.between(1, 6), out = b.rng.between(1, 6);
  Shape shape = isConv ? imageShape(b, in) : Shape{b.rng.between(1, 17), b.rng.between(1, 65)};
  Shape weights = isConv ? Shape{out, in} : Shape{shape[1], b.drawSize()};
  Attributes attributes;
  if (isConv) {
    Window window = drawWindow(b, Shape(shape.begin() + 2, shape.end()), false);
    weights.insert(weights.end(), window.kernel.begin(), window.kernel.end());
    attributes = attributesOf(b, window);
  }
  std::string x = b.operand(left, shape, Numbers::kAny), w = b.weight(right, weights, Numbers::kAny);
  if (!isQ) {
    std::vector<std::string> inputs = {x, w};
    if (b.rng.chance(0.7)) inputs.push_back(b.fixed(b.draw(left, {}, Numbers::kPlain)));
    if (inputs.size() > 2 && b.rng.chance(0.7)) inputs.push_back(b.fixed(b.draw(right, {}, Numbers::kPlain)));
    return b.emit(op, inputs, {.ulps = 0}, attributes);
  }
  std::vector<std::string> inputs = {x};
  for (const std::string& name : quantisation(b, left, {})) inputs.push_back(name);
  inputs.push_back(w);
  for (const std::string& name : quantisation(b, right, {})) inputs.push_back(name);
  HostTensor scale = b.draw(ElementType::kF32, {}, Numbers::kPositive);
  setNumber(scale, 0, scale.number(0) * 4);
  inputs.push_back(b.fixed(std::move(scale)));
  inputs.push_back(b.fixed(b.draw(left, {}, Numbers::kPlain)));
  return b.emit(op, inputs, {.ulps = 0}, attributes);
}

bool recurrent(Builder& b, const std::string& op) {
  if (b.precision() != Precision::kF32) return false;  // Each step rounds again.
  const int64_t steps = b.rng.between(1, 6), batch = b.rng.between(1, 3), hidden = b.rng.between(1, 6);
  const int64_t gates = hidden * (op == "RNN" ? 1 : op == "GRU" ? 3 : 4);
  const std::string direction = b.rng.pick(std::vector<std::string>{"forward", "reverse", "bidirectional"});
  const int64_t directions = direction == "bidirectional" ? 2 : 1, inputs = b.rng.between(1, 6);
  auto weight = [&](const Shape& shape) { return b.weight(ElementType::kF32, shape); };
  std::vector<std::string> operands = {b.operand(ElementType::kF32, {steps, batch, inputs}, Numbers::kPlain),
                                       weight({directions, gates, inputs}), weight({directions, gates, hidden}),
                                       b.rng.chance(0.7) ? weight({directions, 2 * gates}) : ""};
  // ONNX Runtime takes lengths of 0 for an error.
  operands.push_back(b.rng.chance(0.4) ? [&] {
    HostTensor lengths = b.draw(ElementType::kI32, {batch});
    for (int64_t k = 0; k < batch; ++k) setNumber(lengths, k, static_cast<double>(b.rng.between(1, steps)));
    return b.input(std::move(lengths));
  }()
                                       : "");
  auto state = [&] {
    return b.rng.chance(0.5) ? b.operand(ElementType::kF32, {directions, batch, hidden}, Numbers::kPlain) : "";
  };
  operands.push_back(state());
  Attributes attributes = {{"hidden_size", hidden}, {"direction", direction}};
  if (op == "LSTM") {
    operands.push_back(state());
    operands.push_back(b.rng.chance(0.3) ? weight({directions, 3 * hidden}) : "");
  }
  if (op == "GRU" && b.rng.chance(0.5)) attributes.push_back({"linear_before_reset", int64_t{1}});
  // Errors of a step go through the state into all that follow; states are below 1 or a small sum of such.
  return b.emit(op, operands, {.ulps = 16, .operandUlps = 4, .absolute = 2048}, attributes, op == "LSTM" ? 3 : 2);
}

}  // namespace

const std::vector<Generator>& productGenerators() {
  static const std::vector<Generator> list = {{"RNN", recurrent},
                                              {"GRU", recurrent},
                                              {"LSTM", recurrent},
                                              {"MatMul", matMul},
                                              {"Gemm", gemm},
                                              {"Einsum", einsum},
                                              {"Conv", conv},
                                              {"ConvTranspose", conv},
                                              {"MaxPool", pool},
                                              {"AveragePool", pool},
                                              {"GlobalAveragePool", globalPool},
                                              {"GlobalMaxPool", globalPool},
                                              {"Resize", resize},
                                              {"Upsample", resize},
                                              {"QuantizeLinear", quantize},
                                              {"DequantizeLinear", quantize},
                                              {"DynamicQuantizeLinear", dynamicQuantize},
                                              {"MatMulInteger", integerProduct},
                                              {"ConvInteger", integerProduct},
                                              {"QLinearMatMul", integerProduct},
                                              {"QLinearConv", integerProduct}};
  return list;
}

}  // namespace hpu::randomtest
