// SPDX-License-Identifier: Apache-2.0
// Ops of com.microsoft that ONNX Runtime's optimisers make of several: products with activations, and quantised ops.
#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Quantized.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Emitter;
using Values = std::vector<hpu::Value>;

constexpr const char* kDomain = "com.microsoft";

// ---- products with activations -------------------------------------------------------------------

/// The activation that the node names; `parameters` are its numbers, in order, where they are given.
Value activated(NodeContext& node, Value x, const std::vector<double>& parameters) {
  const std::string name = node.text("activation", "");
  auto number = [&](size_t i, double otherwise) { return i < parameters.size() ? parameters[i] : otherwise; };
  if (!x || name.empty()) return x;
  if (name == "Relu") return node.op("relu", x);
  if (name == "Tanh") return node.op("tanh", x);
  if (name == "Sigmoid") return node.op("sigmoid", x);
  if (name == "LeakyRelu") return node.op("leaky_relu", x, {{"alpha", number(0, 0.01)}});
  if (name == "HardSigmoid") return node.op("hard_sigmoid", x, {{"alpha", number(0, 0.2)}, {"beta", number(1, 0.5)}});
  if (name == "Clip")
    return node.op("clip", x, {{"min", number(0, -3.4028234663852886e38)}, {"max", number(1, 3.4028234663852886e38)}});
  return node.unsupported(strCat("the activation '", name, "'")), Value();
}

/// Conv, then the sum with an operand, then an activation.
void convertFusedConv(NodeContext& node) {
  Value x = node.input(0), result = convolve(node, x, node.input(1));
  if (!result) return;
  if (node.has(2)) {
    Value bias = node.input(2);
    if (!bias) return;
    llvm::SmallVector<ir::SymDim> shape(static_cast<size_t>(node.rank(result)) - 1, ir::SymDim{1});
    shape[0] = ir::symShape(NodeContext::typeOf(bias))[0];
    result = node.op("add", {result, node.reshape(bias, shape)});
  }
  if (node.has(3)) result = node.op("add", {result, node.input(3)});
  node.setOutput(0, activated(node, result, node.numbers("activation_params")));
}

void convertFusedGemm(NodeContext& node) {
  Value a = node.input(0), b = node.input(1);
  if (!a || !b) return;
  if (node.rank(a) != 2 || node.rank(b) != 2) return node.invalid("needs rank-2 operands");
  if (!node.isFloat(a) || !node.isFloat(b)) return node.unsupported("integer operands");
  if (node.integer("transA", 0)) a = node.transpose(a, {1, 0});
  if (node.integer("transB", 0)) b = node.transpose(b, {1, 0});
  const double alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  Value result = node.op("matmul", {a, b});
  if (alpha != 1) result = node.op("mul", {result, node.scalarLike(result, alpha)});
  if (node.has(2) && beta != 0) {
    Value c = node.input(2);
    if (beta != 1) c = node.op("mul", {c, node.scalarLike(c, beta)});
    result = node.op("add", {result, c});
  }
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (node.hasAttribute(name)) parameters.push_back(node.number(name, 0));
  node.setOutput(0, activated(node, result, parameters));
}

// ---- quantised ops -------------------------------------------------------------------------------

/// The type of the result: the zero point's, or `otherwise`.
ElementType resultType(Emitter& e, hpu::Value zero, hpu::Value otherwise) {
  return e.element(zero.handle ? zero : otherwise);
}

/// Of both, the order of the f32 operations is ONNX Runtime's: which of two steps a tie gives follows from it.
/// a, its scale and zero point, b, its scale and zero point, those of the result
void convertQuantizedBinary(NodeContext& node, bool isSum) {
  composed(node, node.operands(8), [&](Emitter& e, const Values& in) -> Values {
    auto scalar = [&](hpu::Value v) { return e.reshape(e.toF32(v), {}); };
    hpu::Value none = e.scalar(0, ElementType::kF32), one = e.scalar(1, ElementType::kF32);
    auto zero = [&](size_t i) { return in[i].handle ? scalar(in[i]) : none; };
    hpu::Value a = e.toF32(in[0]), b = e.toF32(in[3]), result = scalar(in[6]), steps;
    if (isSum) {
      hpu::Value ofA = e.div(scalar(in[1]), result), ofB = e.div(scalar(in[4]), result);
      hpu::Value fixed = e.sub(zero(7), e.add(e.mul(ofA, zero(2)), e.mul(ofB, zero(5))));
      steps = e.add(e.mul(a, ofA), e.add(fixed, e.mul(b, ofB)));
    } else {
      hpu::Value product = e.mul(e.sub(a, zero(2)), e.sub(b, zero(5)));  // Exact.
      steps = e.mul(product, e.div(e.mul(scalar(in[1]), scalar(in[4])), result));
      // Rounded before the sum, as nothing is that limits change: a product and a sum may be one instruction.
      steps = e.add(e.op("clip", {steps}, {{"min", -0x1p24}, {"max", 0x1p24}}), zero(7));
    }
    return {compose::quantized(e, steps, one, {}, resultType(e, in[7], in[0]))};
  });
}

void convertQuantizedSum(NodeContext& node) {
  convertQuantizedBinary(node, true);
}
void convertQuantizedMul(NodeContext& node) {
  convertQuantizedBinary(node, false);
}

/// x, its scale and zero point, those of the result
void convertQuantizedUnary(NodeContext& node) {
  const std::string op = node.mnemonic().str();
  hpu::Attributes attributes;
  if (op == "leaky_relu") attributes["alpha"] = node.number("alpha", 0.01);
  composed(node, node.operands(5), [&](Emitter& e, const Values& in) -> Values {
    hpu::Value result = e.op(op, {compose::dequantized(e, in[0], in[1], in[2])}, attributes);
    return {compose::quantized(e, result, in[3], in[4], resultType(e, in[4], in[0]))};
  });
}

void convertQuantizedGlobalPool(NodeContext& node) {
  const bool isLast = node.integer("channels_last", 0) != 0;
  composed(node, node.operands(5), [&](Emitter& e, const Values& in) -> Values {
    std::vector<int64_t> axes;
    for (int64_t d = isLast ? 1 : 2; d < e.rank(in[0]) - isLast; ++d) axes.push_back(d);
    // The sum is exact, and one factor makes steps of the result of it.
    int64_t count = 1;
    for (int64_t d : axes) count *= e.dim(in[0], d);
    hpu::Value one = e.scalar(1, ElementType::kF32);
    hpu::Value sum = e.reduceSum(compose::dequantized(e, in[0], one, in[2]), axes, true);
    hpu::Value factor = e.div(e.reshape(in[1], {}), e.mul(e.reshape(in[3], {}), static_cast<double>(count)));
    return {compose::quantized(e, e.mul(sum, factor), one, in[4], resultType(e, in[4], in[0]))};
  });
}

/// The result's scale and zero point, then each part with its own
void convertQuantizedConcat(NodeContext& node) {
  if (node.numInputs() < 5 || node.numInputs() % 3 != 2) return node.invalid("its operands are not groups of three");
  if (!node.has(2)) return node.invalid("input 2 is missing");
  Value first = node.input(2);
  if (!first) return;
  const std::optional<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(first));
  if (!axis) return;
  composed(node, node.operands(node.numInputs()), [&](Emitter& e, const Values& in) -> Values {
    Values parts;
    for (size_t i = 2; i + 2 < in.size(); i += 3) parts.push_back(compose::dequantized(e, in[i], in[i + 1], in[i + 2]));
    return {compose::quantized(e, e.concat(parts, *axis), in[0], in[1], resultType(e, in[1], in[2]))};
  });
}

constexpr OpRow kRows[] = {
    {"FusedConv", 1, 1, convertFusedConv, "", "one and two spatial dimensions", kDomain},
    {"FusedGemm", 1, 1, convertFusedGemm, "", "floats", kDomain},
    {"QLinearAdd", 1, 1, convertQuantizedSum, "", "", kDomain},
    {"QLinearMul", 1, 1, convertQuantizedMul, "", "", kDomain},
    {"QLinearSigmoid", 1, 1, convertQuantizedUnary, "sigmoid", "", kDomain},
    {"QLinearLeakyRelu", 1, 1, convertQuantizedUnary, "leaky_relu", "", kDomain},
    {"QLinearGlobalAveragePool", 1, 1, convertQuantizedGlobalPool, "", "", kDomain},
    {"QLinearConcat", 1, 1, convertQuantizedConcat, "", "", kDomain},
};

}  // namespace

llvm::ArrayRef<OpRow> microsoftFusedRows() {
  return kRows;
}

}  // namespace hpu::importer
