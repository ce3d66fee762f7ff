// SPDX-License-Identifier: Apache-2.0
// Generators of elementwise ops.
#include <cmath>
#include <cstring>

#include "tests/random/Builder.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

/// What docs/accuracy.md promises, in units in the last place of f32 (1.2e-7); what is composed of several functions
/// has their sum. What is not listed is exact.
double ulpsOf(const std::string& op) {
  static const std::map<std::string, double> kUlps = {
      {"Exp", 2},    {"Sin", 2},       {"Cos", 2},         {"Log", 3},      {"Atan", 4},       {"Tanh", 5},
      {"Erf", 5},    {"Sigmoid", 5},   {"Elu", 5},         {"Softplus", 6}, {"Swish", 8},      {"Pow", 9},
      {"Gelu", 9},   {"HardSwish", 9}, {"HardSigmoid", 9}, {"Tan", 8},      {"Asin", 8},       {"Acos", 8},
      {"Sinh", 8},   {"Cosh", 8},      {"Asinh", 8},       {"Acosh", 8},    {"Atanh", 8},      {"Mish", 12},
      {"Selu", 7},   {"Celu", 8},      {"Softsign", 3},    {"Sqrt", 1},     {"Reciprocal", 1}, {"LeakyRelu", 1},
      {"Shrink", 1}, {"PRelu", 1},     {"Add", 1},         {"Sub", 1},      {"Mul", 1},        {"Div", 1}};
  auto found = kUlps.find(op);
  return found == kUlps.end() ? 0 : found->second;
}

Local local(const std::string& op) {
  Local local;
  local.ulps = ulpsOf(op);
  // Computed in several steps, of which the first ones round a number that is near the operand.
  if (op == "HardSwish" || op == "HardSigmoid" || op == "Selu" || op == "Celu" || op == "Shrink" || op == "Swish")
    local.operandUlps = 1;
  if (op == "Gelu" || op == "HardSwish" || op == "HardSigmoid") local.absolute = 3;
  if (op == "Sigmoid") local.tiny = 4e-39;
  if (op == "Swish") local.tiny = 4e-37;
  if (op == "Mish" || op == "Swish") local.steps = 100;
  return local;
}

/// Of these types, with elements or without.
Wanted any(const Types& types) {
  return {.types = types, .empty = true};
}

bool floatUnary(Builder& b, const std::string& op) {
  Wanted wanted = any(kFloats);
  if (op == "Log" || op == "Sqrt") wanted.numbers = b.rng.chance(0.6) ? Numbers::kPositive : Numbers::kAny;
  if (op == "Asin" || op == "Acos" || op == "Atanh")
    wanted.numbers = b.rng.chance(0.7) ? Numbers::kUnit : Numbers::kAny;
  return b.emit(op, {b.operand(wanted)}, local(op));
}

bool numberUnary(Builder& b, const std::string& op) {
  return b.emit(op, {b.operand(any(kNumbers))}, local(op));
}

bool acosh(Builder& b, const std::string& op) {
  Shape shape = b.drawShape(0, 6);
  HostTensor tensor = b.draw(b.rng.pick(kFloats), shape, Numbers::kPositive);
  for (int64_t k = 0; k < tensor.count(); ++k)
    setNumber(tensor, k, 1 + b.rng.uniform() * std::pow(10, b.rng.uniform(-6, 6)));
  return b.emit(op, {b.input(std::move(tensor))}, local(op));
}

bool alphaUnary(Builder& b, const std::string& op) {
  Attributes attributes;
  auto number = [&] { return static_cast<float>(b.rng.chance(0.2) ? b.rng.uniform(-2, 2) : b.rng.uniform(0.01, 1.5)); };
  if (b.rng.chance(0.7)) attributes.push_back({"alpha", number()});
  if (op == "HardSigmoid" && b.rng.chance(0.7)) attributes.push_back({"beta", number()});
  if (op == "Selu" && b.rng.chance(0.7)) attributes.push_back({"gamma", number()});
  return b.emit(op, {b.operand(any(kFloats))}, local(op), attributes);
}

bool shrink(Builder& b, const std::string& op) {
  Attributes attributes;
  if (b.rng.chance(0.7)) attributes.push_back({"lambd", static_cast<float>(b.rng.uniform(0, 2))});
  if (b.rng.chance(0.7)) attributes.push_back({"bias", static_cast<float>(b.rng.uniform(-1, 1))});
  return b.emit(op, {b.operand(any(kNumbers))}, local(op), attributes);
}

bool gelu(Builder& b, const std::string& op) {
  Attributes attributes;
  if (b.rng.chance(0.7)) attributes.push_back({"approximate", std::string(b.rng.chance(0.5) ? "tanh" : "none")});
  return b.emit(op, {b.operand(any(kFloats))}, local(op), attributes);
}

bool isInf(Builder& b, const std::string& op) {
  Attributes attributes;
  for (const char* name : {"detect_negative", "detect_positive"})
    if (b.rng.chance(0.5)) attributes.push_back({name, b.rng.below(2)});
  return b.emit(op, {b.operand(any(kFloats))}, local(op), attributes);
}

bool identity(Builder& b, const std::string& op) {
  return b.emit(op, {b.operand(any(kAll))}, local(op));
}

bool dropout(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kFloats));
  if (b.opset() < 12) return b.emit(op, {x}, local(op), {{"ratio", 0.25f}});
  std::vector<std::string> inputs = {x};
  if (b.rng.chance(0.5)) inputs.push_back(b.scalar(ElementType::kF32, 0.25));
  return b.emit(op, inputs, local(op), {}, b.rng.chance(0.3) ? 2 : 1);
}

bool binary(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kNumbers)), y = b.broadcastable(x);
  if (b.rng.chance(0.05)) y = x;
  if (b.rng.chance(0.3)) std::swap(x, y);
  return b.emit(op, {x, y}, local(op));
}

bool division(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kNumbers));
  std::string y = b.broadcastable(x, isFloat(b.element(x)) ? Numbers::kAny : Numbers::kPositive);
  return b.emit(op, {x, y}, local(op));
}

bool modulo(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kNumbers));
  bool floats = isFloat(b.element(x));
  std::string y = b.broadcastable(x, floats ? Numbers::kAny : Numbers::kPositive);
  Attributes attributes;
  if (floats || b.rng.chance(0.4)) attributes.push_back({"fmod", int64_t{1}});
  return b.emit(op, {x, y}, local(op), attributes);
}

bool power(Builder& b, const std::string& op) {
  std::string x =
      b.operand({b.rng.chance(0.8) ? kFloats : kNumbers, 0, 8, b.rng.chance(0.5) ? Numbers::kPositive : Numbers::kAny});
  Local accuracy = local(op);
  if (b.rng.chance(0.5)) {
    static const std::vector<double> kExponents = {2, 3, 0.5, -1, -0.5, 0, 1, 4, -2, 1.5, 7, -3, 0.3333};
    ElementType type = b.opset() >= 12 && b.rng.chance(0.2) ? ElementType::kI64 : b.element(x);
    return b.emit(op, {x, b.scalar(type, b.rng.pick(kExponents), b.rng.chance(0.5))}, accuracy);
  }
  return b.emit(op, {x, b.broadcastable(x)}, accuracy);
}

bool logical(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kBools));
  if (op == "Not") return b.emit(op, {x}, local(op));
  return b.emit(op, {x, b.broadcastable(x)}, local(op));
}

bool bitwise(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kIntegers));
  if (op == "BitwiseNot") return b.emit(op, {x}, local(op));
  return b.emit(op, {x, b.broadcastable(x)}, local(op));
}

bool shift(Builder& b, const std::string& op) {
  static const Types kUnsigned = {ElementType::kU8, ElementType::kU16, ElementType::kU32, ElementType::kU64};
  std::string x = b.operand({kUnsigned});
  return b.emit(op, {x, b.broadcastable(x, Numbers::kPlain)}, local(op),
                {{"direction", std::string(b.rng.chance(0.5) ? "LEFT" : "RIGHT")}});
}

bool comparison(Builder& b, const std::string& op) {
  std::string x = b.operand(any(op == "Equal" ? kNumbers + kBools : kNumbers));
  return b.emit(op, {x, b.broadcastable(x)}, local(op));
}

bool variadic(Builder& b, const std::string& op) {
  std::vector<std::string> inputs = {b.operand(any(op == "Max" || op == "Min" ? kNumbers : kFloats))};
  for (int64_t more = b.rng.below(4); more > 0; --more) inputs.push_back(b.broadcastable(inputs[0]));
  b.rng.shuffle(inputs);
  Local accuracy = local(op);
  if (op == "Sum" || op == "Mean") accuracy.ulps = 1, accuracy.sums = true;
  return b.emit(op, inputs, accuracy);
}

bool where(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kAll)), y = b.broadcastable(x), like = b.rng.chance(0.5) ? x : y;
  Shape shape = b.shape(like);
  for (int64_t& size : shape)
    if (b.rng.chance(0.25)) size = 1;
  if (b.rng.chance(0.2))
    shape.erase(shape.begin(), shape.begin() + b.rng.between(0, static_cast<int64_t>(shape.size())));
  return b.emit(op, {b.operand(ElementType::kBool, shape), x, y}, local(op));
}

bool clip(Builder& b, const std::string& op) {
  std::string x = b.operand({b.opset() >= 12 ? kNumbers : kFloats});
  double low = static_cast<double>(b.rng.between(-4, 1)), high = low + static_cast<double>(b.rng.between(0, 6));
  if (b.rng.chance(0.05)) std::swap(low, high);
  if (b.opset() < 11) {
    Attributes attributes;
    if (b.rng.chance(0.8)) attributes.push_back({"min", static_cast<float>(low)});
    if (b.rng.chance(0.8)) attributes.push_back({"max", static_cast<float>(high)});
    return b.emit(op, {x}, local(op), attributes);
  }
  std::vector<std::string> inputs = {x, "", ""};
  ElementType type = b.element(x);
  if (b.rng.chance(0.8)) inputs[1] = b.scalar(type, low);
  if (b.rng.chance(0.8)) inputs[2] = b.scalar(type, high);
  return b.emit(op, inputs, local(op));
}

bool prelu(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kFloats));
  Shape shape = b.shape(x);
  for (int64_t& size : shape)
    if (b.rng.chance(0.4)) size = 1;
  if (b.rng.chance(0.4))
    shape.erase(shape.begin(), shape.begin() + b.rng.between(0, static_cast<int64_t>(shape.size())));
  return b.emit(op, {x, b.weight(b.element(x), shape)}, local(op));
}

bool cast(Builder& b, const std::string& op) {
  std::string x = b.operand(any(kAll));
  Types targets = kAll;
  if (b.opset() >= 19) targets.insert(targets.end(), {ElementType::kF8E4M3, ElementType::kF8E5M2});
  ElementType type = b.rng.pick(targets);
  if (op == "CastLike") return b.emit(op, {x, b.operand(type, b.drawShape(0, 2, 9))}, local(op));
  return b.emit(op, {x}, local(op), {{"to", int64_t{onnxType(type)}}});
}

}  // namespace

const std::vector<Generator>& elementwiseGenerators() {
  static const std::vector<Generator> list = {{"Abs", numberUnary},
                                              {"Neg", numberUnary},
                                              {"Sign", numberUnary},
                                              {"Relu", numberUnary},
                                              {"Floor", floatUnary},
                                              {"Ceil", floatUnary},
                                              {"Round", floatUnary},
                                              {"Exp", floatUnary},
                                              {"Log", floatUnary},
                                              {"Sqrt", floatUnary},
                                              {"Reciprocal", floatUnary},
                                              {"Erf", floatUnary},
                                              {"Sin", floatUnary},
                                              {"Cos", floatUnary},
                                              {"Tan", floatUnary},
                                              {"Asin", floatUnary},
                                              {"Acos", floatUnary},
                                              {"Atan", floatUnary},
                                              {"Sinh", floatUnary},
                                              {"Cosh", floatUnary},
                                              {"Tanh", floatUnary},
                                              {"Asinh", floatUnary},
                                              {"Acosh", acosh},
                                              {"Atanh", floatUnary},
                                              {"Sigmoid", floatUnary},
                                              {"Softplus", floatUnary},
                                              {"Softsign", floatUnary},
                                              {"HardSwish", floatUnary},
                                              {"Mish", floatUnary},
                                              {"IsNaN", floatUnary},
                                              {"IsInf", isInf},
                                              {"LeakyRelu", alphaUnary},
                                              {"Elu", alphaUnary},
                                              {"Celu", alphaUnary},
                                              {"Selu", alphaUnary},
                                              {"HardSigmoid", alphaUnary},
                                              {"ThresholdedRelu", alphaUnary},
                                              {"Swish", alphaUnary},
                                              {"Shrink", shrink},
                                              {"Gelu", gelu},
                                              {"Identity", identity},
                                              {"Dropout", dropout},
                                              {"Add", binary},
                                              {"Sub", binary},
                                              {"Mul", binary},
                                              {"Div", division},
                                              {"Mod", modulo},
                                              {"Pow", power},
                                              {"And", logical},
                                              {"Or", logical},
                                              {"Xor", logical},
                                              {"Not", logical},
                                              {"BitwiseAnd", bitwise},
                                              {"BitwiseOr", bitwise},
                                              {"BitwiseXor", bitwise},
                                              {"BitwiseNot", bitwise},
                                              {"BitShift", shift},
                                              {"Equal", comparison},
                                              {"Less", comparison},
                                              {"LessOrEqual", comparison},
                                              {"Greater", comparison},
                                              {"GreaterOrEqual", comparison},
                                              {"Max", variadic},
                                              {"Min", variadic},
                                              {"Sum", variadic},
                                              {"Mean", variadic},
                                              {"Where", where},
                                              {"Clip", clip},
                                              {"PRelu", prelu},
                                              {"Cast", cast},
                                              {"CastLike", cast}};
  return list;
}

}  // namespace hpu::randomtest
