// SPDX-License-Identifier: Apache-2.0
// ONNX activations, and ops that do nothing at inference.
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

void convertActivation(NodeContext& node) {
  node.setOutput(0, node.op(node.mnemonic(), node.input(0)));
}

void convertLeakyRelu(NodeContext& node) {
  node.setOutput(0, node.op("leaky_relu", node.input(0), {{"alpha", node.number("alpha", 0.01)}}));
}

void convertElu(NodeContext& node) {
  node.setOutput(0, node.op("elu", node.input(0), {{"alpha", node.number("alpha", 1.0)}}));
}

void convertHardSigmoid(NodeContext& node) {
  node.setOutput(0, node.op("hard_sigmoid", node.input(0),
                            {{"alpha", node.number("alpha", 0.2)}, {"beta", node.number("beta", 0.5)}}));
}

void convertSelu(NodeContext& node) {
  // The defaults are those of the operator's definition, as floats.
  double alpha = node.number("alpha", 1.67326319217681884765625),
         gamma = node.number("gamma", 1.05070102214813232421875);
  Value x = node.input(0);
  node.setOutput(0, node.op("mul", {node.op("elu", x, {{"alpha", alpha}}), node.scalarLike(x, gamma)}));
}

void convertCelu(NodeContext& node) {  // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  double alpha = node.number("alpha", 1.0);
  Value x = node.input(0), zero = node.scalarLike(x, 0);
  if (!x) return;
  // With a negative alpha the exponential is that of negative numbers all the same, which hpu.elu would not compute.
  Value scaled = node.op("div", {x, node.scalarLike(x, alpha)});
  Value power = node.op("mul", {node.op("expm1", scaled), node.scalarLike(x, alpha)});
  Value negative = node.op("min", {zero, power});
  node.setOutput(0, node.op("add", {node.op("relu", x), negative}));
}

/// `x` as f32: what a comparison with an attribute, which is an f32, is made in.
Value inF32(NodeContext& node, Value x) {
  return node.elementOf(x).isF32() ? x : node.cast(x, mlir::Float32Type::get(node.context()));
}

void convertThresholdedRelu(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  Value wide = inF32(node, x);
  Value above = node.op("greater", {wide, node.scalarLike(wide, node.number("alpha", 1.0))});
  node.setOutput(0, node.op("where", {above, x, node.scalarLike(x, 0)}));
}

void convertShrink(NodeContext& node) {
  double lambda = node.number("lambd", 0.5), bias = node.number("bias", 0.0);
  if (!node.input(0)) return;
  // Numbers of all types are moved by an f32; what comes of an integer is truncated.
  mlir::Type element = node.elementOf(node.input(0));
  Value x = inF32(node, node.input(0));
  Value below = node.op("less", {x, node.scalarLike(x, -lambda)}),
        above = node.op("greater", {x, node.scalarLike(x, lambda)});
  Value low = node.op("add", {x, node.scalarLike(x, bias)}), high = node.op("sub", {x, node.scalarLike(x, bias)});
  Value otherwise = node.op("where", {above, high, node.scalarLike(x, 0)});
  Value result = node.op("where", {below, low, otherwise});
  node.setOutput(0, element.isF32() ? result : node.cast(result, element));
}

void convertSoftsign(NodeContext& node) {
  Value x = node.input(0);
  node.setOutput(0, node.op("div", {x, node.op("add", {node.op("abs", x), node.scalarLike(x, 1)})}));
}

void convertMish(NodeContext& node) {
  Value x = node.input(0);
  node.setOutput(0, node.op("mul", {x, node.op("tanh", node.op("softplus", x))}));
}

void convertSwish(NodeContext& node) {
  double alpha = node.number("alpha", 1.0);
  Value x = node.input(0);
  if (alpha == 1.0) return node.setOutput(0, node.op("silu", x));
  Value gate = node.op("sigmoid", node.op("mul", {x, node.scalarLike(x, alpha)}));
  node.setOutput(0, node.op("mul", {x, gate}));
}

void convertGelu(NodeContext& node) {
  std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh") return node.unsupported("approximation '" + approximate + "'");
  node.setOutput(0, node.op("gelu", node.input(0), {{"tanh_approximation", approximate == "tanh"}}));
}

void convertIdentity(NodeContext& node) {
  node.forward(0);
}

constexpr OpRow kRows[] = {
    {"Relu", 6, kNewestOpset, convertActivation, "relu"},
    {"Sigmoid", 6, kNewestOpset, convertActivation, "sigmoid"},
    {"Tanh", 6, kNewestOpset, convertActivation, "tanh"},
    {"Softplus", 1, kNewestOpset, convertActivation, "softplus"},
    {"HardSwish", 14, kNewestOpset, convertActivation, "hard_swish"},
    {"LeakyRelu", 6, kNewestOpset, convertLeakyRelu},
    {"Elu", 6, kNewestOpset, convertElu},
    {"HardSigmoid", 6, kNewestOpset, convertHardSigmoid},
    {"Selu", 6, kNewestOpset, convertSelu},
    {"Celu", 12, kNewestOpset, convertCelu},
    {"ThresholdedRelu", 10, kNewestOpset, convertThresholdedRelu},
    {"Shrink", 9, kNewestOpset, convertShrink},
    {"Softsign", 1, kNewestOpset, convertSoftsign},
    {"Mish", 18, kNewestOpset, convertMish},
    {"Swish", 24, kNewestOpset, convertSwish},
    {"Gelu", 20, kNewestOpset, convertGelu},
    {"Identity", 1, kNewestOpset, convertIdentity, "", "tensors only"},
};

}  // namespace

llvm::ArrayRef<OpRow> activationRows() {
  return kRows;
}

}  // namespace hpu::importer
