// SPDX-License-Identifier: Apache-2.0
// ONNX arithmetic, comparisons, logic, selection and casts.
#include <cmath>
#include <limits>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using base::strCat;

/// The right operand of a binary op before opset 7, when broadcasting was an attribute: aligned at `axis`.
Value legacyRhs(NodeContext& node, Value lhs, Value rhs) {
  if (node.opset() >= 7 || !lhs || !rhs || node.integer("broadcast", 0) == 0) return rhs;
  int64_t rank = node.rank(lhs), own = node.rank(rhs);
  int64_t axis = node.integer("axis", rank - own);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis + own > rank) {
    node.invalid(strCat("axis ", axis, " does not align the operands"));
    return {};
  }
  ir::SymShape shape = ir::symShape(node.typeOf(rhs));
  shape.append(rank - own - axis, ir::SymDim{1});
  return node.reshape(rhs, shape);
}

void convertUnary(NodeContext& node) {
  node.setOutput(0, node.op(node.mnemonic(), node.input(0)));
}

void convertFloatUnary(NodeContext& node) {
  Value x = node.input(0);
  if (x && !node.isFloat(x)) return node.invalid("needs float elements");
  node.setOutput(0, node.op(node.mnemonic(), x));
}

void convertBinary(NodeContext& node) {
  Value lhs = node.input(0), rhs = legacyRhs(node, lhs, node.input(1));
  node.setOutput(0, node.op(node.mnemonic(), {lhs, rhs}));
}

void convertLogical(NodeContext& node) {
  Value lhs = node.input(0), rhs = legacyRhs(node, lhs, node.input(1));
  if (lhs && !node.elementOf(lhs).isInteger(1)) return node.invalid("needs bool elements");
  node.setOutput(0, node.op(node.mnemonic(), {lhs, rhs}));
}

void convertPRelu(NodeContext& node) {
  Value x = node.input(0), slope = node.input(1);
  if (!x || !slope) return;
  if (node.opset() < 7 && node.rank(slope) == 1 && node.rank(x) > 2) {  // One slope a channel, dim 1.
    Ints shape(node.rank(x) - 1, 1);
    shape[0] = node.typeOf(slope).getDimSize(0);
    slope = node.reshape(slope, shape);
  }
  node.setOutput(0, node.op("prelu", {x, slope}));
}

/// Integers up to this size are numbers of the float type.
double exactIntegers(ElementType element) {
  switch (element) {
    case ElementType::kBF16:
      return 0x1p8;
    case ElementType::kF16:
      return 0x1p11;
    case ElementType::kF32:
      return 0x1p24;
    default:
      return 0x1p53;
  }
}

/// base^exponent of a float base, whose type the result has. The exponent keeps its value: a narrow base is widened,
/// and an integer that is no f32 is a sum of two that are, of the same sign (so that no infinity meets a zero).
void floatPower(NodeContext& node, Value base, Value exponent) {
  const mlir::Type type = node.elementOf(base), given = node.elementOf(exponent);
  if (given == type) return node.setOutput(0, node.op("pow", {base, exponent}));
  if (const interp::Tensor* constant = node.constant(1)) {
    bool exact = true;
    const double most = exactIntegers(ir::elementType(type));
    for (int64_t i = 0; i < constant->count() && exact; ++i) {
      const double number = constant->number(i);
      exact = std::abs(number) <= most && (number == std::floor(number) || (type.isF32() && !given.isF64()));
    }
    if (exact) return node.setOutput(0, node.op("pow", {base, node.cast(exponent, type)}));
  }
  Value wide = node.widened(base);
  const mlir::Type real = node.elementOf(wide);
  if (node.isFloat(exponent) || given.getIntOrFloatBitWidth() < 32 || real.isF64())
    return node.setOutput(0, node.cast(node.op("pow", {wide, node.cast(exponent, real)}), type));
  Value unit = node.scalar(given, exactIntegers(ElementType::kF32));
  Value high = node.op("mul", {node.op("div", {exponent, unit}), unit}), low = node.op("sub", {exponent, high});
  Value product = node.op("mul", {node.op("pow", {wide, node.cast(high, real)}),  //
                                  node.op("pow", {wide, node.cast(low, real)})});
  node.setOutput(0, node.cast(product, type));
}

/// The integer that all elements of a constant exponent are.
std::optional<int64_t> wholeExponent(NodeContext& node) {
  const interp::Tensor* constant = node.constant(1);
  if (!constant || constant->count() == 0) return {};
  const bool isFloat = node.isFloat(node.input(1));
  for (int64_t i = 0; i < constant->count(); ++i) {
    const double number = constant->number(i);
    if (isFloat && (!(std::abs(number) <= 0x1p53) || number != std::floor(number))) return {};
    if (isFloat ? number != constant->number(0) : constant->integer(i) != constant->integer(0)) return {};
  }
  return isFloat ? static_cast<int64_t>(constant->number(0)) : constant->integer(0);
}

/// Ones of the type and shape of an integer tensor.
Value onesLike(NodeContext& node, Value like, mlir::Type type) {
  return node.cast(node.op("equal", {like, like}), type);
}

/// base^n of an integer base as products, which wrap around where the type does not hold them; of a negative n what
/// is left of a fraction, and of 0 too. Null if the exponent is no such constant.
Value constantPower(NodeContext& node, Value base, Value exponent) {
  const std::optional<int64_t> whole = wholeExponent(node);
  if (!whole) return {};
  const mlir::Type type = node.elementOf(base);
  Value result;
  if (*whole == 0) {
    result = onesLike(node, base, type);
  } else if (*whole < 0) {
    Value zero = node.scalarLike(base, 0), one = node.scalarLike(base, 1);
    result = node.op("where", {node.op("equal", {base, one}), one, zero});
    if (!type.isUnsignedInteger()) {
      Value minus = node.scalarLike(base, -1), odd = *whole % 2 != 0 ? minus : one;
      result = node.op("where", {node.op("equal", {base, minus}), odd, result});
    }
  } else {
    Value square = base;
    for (int64_t n = *whole; n; n >>= 1) {
      if (n & 1) result = result ? node.op("mul", {result, square}) : square;
      if (n > 1) square = node.op("mul", {square, square});
    }
  }
  // Its shape counts, too.
  if (node.constant(1)->count() > 1 || node.rank(exponent) > node.rank(base))
    result = node.op("mul", {result, onesLike(node, exponent, type)});
  return result;
}

/// base^exponent of integers, in a type that holds both: what is beyond the base's type wraps around in it.
Value wholePower(NodeContext& node, Value base, Value exponent) {
  const mlir::Type type = node.elementOf(base), given = node.elementOf(exponent);
  const unsigned bits = type.getIntOrFloatBitWidth(), exponentBits = given.getIntOrFloatBitWidth();
  if (type == given) return node.op("pow", {base, exponent});
  if (type.isUnsignedInteger() == given.isUnsignedInteger()) {
    const mlir::Type wide = bits >= exponentBits ? type : given;
    return node.cast(node.op("pow", {node.cast(base, wide), node.cast(exponent, wide)}), type);
  }
  // One is signed: i64 holds both unless the other one is u64.
  const mlir::Type i64 = ir::mlirElementType(node.context(), ElementType::kI64);
  const mlir::Type u64 = ir::mlirElementType(node.context(), ElementType::kU64);
  if (type != u64 && given != u64)
    return node.cast(node.op("pow", {node.cast(base, i64), node.cast(exponent, i64)}), type);
  // Modulo 2^64 a negative base is the number that its bits are; an exponent has to be none.
  Value power = node.op("pow", {node.cast(base, u64), node.cast(exponent, u64)});
  if (given != u64) {
    Value one = node.scalarLike(base, 1), zero = node.scalarLike(base, 0);
    Value fraction = node.op("where", {node.op("equal", {base, one}), one, zero});
    power = node.op("where", {node.op("less", {exponent, node.scalar(given, 0)}), fraction, power});
  }
  return node.cast(power, type);
}

/// An integer base with a float exponent is computed in f64, as C's pow does it. Where the exponent is an integer too
/// the power of integers is exact; elsewhere what is a whole number but for the rounding must not be truncated to the
/// next smaller one.
void integerPower(NodeContext& node, Value base, Value exponent) {
  const mlir::Type type = node.elementOf(base), f64 = node.builder().getF64Type();
  if (!node.isFloat(exponent)) return node.setOutput(0, wholePower(node, base, exponent));
  const mlir::Type i64 = ir::mlirElementType(node.context(), ElementType::kI64);
  exponent = node.cast(exponent, f64);
  Value power = node.op("pow", {node.cast(base, f64), exponent}), size = node.op("abs", power);
  Value nearest = node.op("round", power), away = node.op("abs", node.op("sub", {power, nearest}));
  Value isNear = node.op("less", {away, node.op("mul", {size, node.scalarLike(size, 0x1p-50)})});
  power = node.op("where", {isNear, nearest, power});
  Value exact = node.cast(node.op("pow", {node.cast(base, i64), node.cast(exponent, i64)}), f64);
  Value isExact = node.op("and", {node.op("equal", {exponent, node.op("floor", exponent)}),
                                  node.op("less", {size, node.scalarLike(size, 0x1p62)})});
  node.setOutput(0, node.cast(node.op("where", {isExact, exact, power}), type));
}

void convertPow(NodeContext& node) {
  Value base = node.input(0), exponent = legacyRhs(node, base, node.input(1));
  if (!base || !exponent) return;
  if (node.isFloat(base)) return floatPower(node, base, exponent);
  if (Value product = constantPower(node, base, exponent)) return node.setOutput(0, product);
  integerPower(node, base, exponent);
}

void convertMod(NodeContext& node) {
  Value lhs = node.input(0), rhs = node.input(1);
  if (!lhs || !rhs) return;
  bool fmod = node.integer("fmod", 0) != 0;
  if (!fmod && node.isFloat(lhs)) return node.invalid("float operands need fmod = 1");
  if (fmod && !node.isFloat(lhs)) {  // The sign of the dividend: a - trunc(a / b) * b.
    Value quotient = node.op("div", {lhs, rhs});
    return node.setOutput(0, node.op("sub", {lhs, node.op("mul", {quotient, rhs})}));
  }
  node.setOutput(0, node.op("mod", {lhs, rhs}));
}

void convertVariadic(NodeContext& node) {
  Value result = node.input(0);
  for (size_t i = 1; i < node.numInputs(); ++i) result = node.op(node.mnemonic(), {result, node.input(i)});
  if (node.numInputs() == 1) return node.forward(0);
  node.setOutput(0, result);
}

/// The sum of all inputs, divided; of narrow floats in f32, as the sum of some of them may be beyond their range.
void sumOfInputs(NodeContext& node, double divisor) {
  Value first = node.input(0);
  if (!first) return;
  const mlir::Type type = node.elementOf(first);
  const bool isNarrow = node.isFloat(first) && type.getIntOrFloatBitWidth() < 32 && node.numInputs() > 1;
  auto input = [&](size_t i) {
    Value x = node.input(i);
    return x && isNarrow ? node.cast(x, node.builder().getF32Type()) : x;
  };
  Value sum = input(0);
  for (size_t i = 1; i < node.numInputs(); ++i) sum = node.op("add", {sum, input(i)});
  if (divisor != 1) sum = node.op("div", {sum, node.scalarLike(sum, divisor)});
  node.setOutput(0, isNarrow ? node.cast(sum, type) : sum);
}

void convertSum(NodeContext& node) {
  if (node.numInputs() == 1) return node.forward(0);
  sumOfInputs(node, 1);
}

void convertMean(NodeContext& node) {
  sumOfInputs(node, static_cast<double>(node.numInputs()));
}

void convertNot(NodeContext& node) {
  Value x = node.input(0);
  if (x && !node.elementOf(x).isInteger(1)) return node.invalid("needs bool elements");
  node.setOutput(0, node.op("not", x));
}

void convertWhere(NodeContext& node) {
  node.setOutput(0, node.op("where", {node.input(0), node.input(1), node.input(2)}));
}

/// The largest finite number of a float type, infinity for integers: what Clip's missing limits are.
double largestNumber(ElementType element) {
  switch (element) {
    case ElementType::kF64:
      return std::numeric_limits<double>::max();
    case ElementType::kF32:
      return std::numeric_limits<float>::max();
    case ElementType::kBF16:
      return 0x1.fep+127;
    case ElementType::kF16:
      return 65504;
    default:
      return std::numeric_limits<double>::infinity();
  }
}

/// min(max(x, low), high): also of infinities a missing limit makes the largest number of the type.
void convertClip(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double largest = largestNumber(ir::elementType(node.elementOf(x)));
  // A limit that is computed at run time, or is no double, is an op of its own.
  auto limit = [&](size_t index, llvm::StringRef attribute, double otherwise) -> std::optional<double> {
    constexpr double kExact = 0x1p53;
    if (node.opset() < 11) return node.number(attribute, otherwise);
    if (!node.has(index)) return otherwise;
    std::optional<double> number = node.constantNumber(index);
    if (number && !node.isFloat(x) && std::abs(*number) >= kExact) return std::nullopt;
    return number;
  };
  std::optional<double> low = limit(1, "min", -largest), high = limit(2, "max", largest);
  auto clip = [&](double from, double to) {
    if (from != -kInfinity || to != kInfinity) x = node.op("clip", x, {{"min", from}, {"max", to}});
  };
  if (!low) x = node.op("max", {x, node.input(1)});
  if (high) {
    clip(low.value_or(-kInfinity), *high);
  } else {
    if (low) clip(*low, kInfinity);
    x = node.op("min", {x, node.input(2)});
  }
  if (x == node.input(0)) return node.forward(0);
  node.setOutput(0, x);
}

void castTo(NodeContext& node, ElementType element) {
  Value x = node.input(0);
  if (!x) return;
  mlir::Type type = ir::mlirElementType(node.context(), element);
  if (node.elementOf(x) == type) return node.forward(0);
  node.setOutput(0, node.cast(x, type));
}

/// To what 4-bit integers have: of floats the nearest within their range, of integers the lowest bits.
void castToFourBits(NodeContext& node, ElementType element) {
  Value x = node.input(0);
  if (!x) return;
  const bool isSigned = element == ElementType::kI8;
  const mlir::Type type = ir::mlirElementType(node.context(), element);
  Value result;
  if (node.isFloat(x)) {
    const double low = isSigned ? -8 : 0;
    result = node.cast(node.op("clip", node.op("round", node.widened(x)), {{"min", low}, {"max", low + 15}}), type);
  } else {
    Value lowest = node.op("bit_and", {node.cast(x, type), node.scalar(type, 15)}), eight = node.scalar(type, 8);
    result = isSigned ? node.op("sub", {node.op("bit_xor", {lowest, eight}), eight}) : lowest;
  }
  node.setOutput(0, result);
  node.setFourBits(0);
}

void convertCast(NodeContext& node) {
  int64_t to = 0;
  if (!node.hasAttribute("to")) return node.invalid("attribute 'to' is missing");
  if (const NodeAttribute* attribute = node.find("to"); attribute && attribute->kind == NodeAttribute::Kind::kString) {
    // Opset 1 to 5 named the type.
    for (int32_t type = 1; type < 17; ++type)
      if (onnxTypeName(type) == attribute->s) to = type;
  } else {
    to = node.integer("to", 0);
  }
  ElementType element = elementOfOnnxType(static_cast<int32_t>(to));
  if (element == ElementType::kInvalid) return node.unsupported("casts to " + onnxTypeName(static_cast<int32_t>(to)));
  if (isFourBits(static_cast<int32_t>(to))) return castToFourBits(node, element);
  bool isF8 = element == ElementType::kF8E4M3 || element == ElementType::kF8E5M2;
  if (isF8 && node.integer("saturate", 1) == 0) return node.unsupported("casts to an 8-bit float without saturation");
  castTo(node, element);
}

/// The same bits as elements of another type.
void convertBitCast(NodeContext& node) {
  if (!node.hasAttribute("to")) return node.invalid("attribute 'to' is missing");
  const auto to = static_cast<int32_t>(node.integer("to", 0));
  const ElementType element = elementOfOnnxType(to);
  Value x = node.input(0);
  if (!x) return;
  const ElementType own = ir::elementType(node.elementOf(x));
  if (element == ElementType::kInvalid || isFourBits(to) || node.isFourBits(0))
    return node.unsupported(strCat("the type ", onnxTypeName(to), ", or 4-bit integers"));
  if (elementSize(own) != elementSize(element))
    return node.invalid(strCat("elements of ", elementSize(own), " bytes as ones of ", elementSize(element)));
  if (own != element && (own == ElementType::kBool || element == ElementType::kBool))
    return node.unsupported("bools, which have two values here");
  if (own == element) return node.forward(0);
  node.setOutput(0, node.op("bitcast", x, {{"to", ir::mlirElementType(node.context(), element)}}));
}

void convertCastLike(NodeContext& node) {
  RankedTensorType like = node.inputType(1);
  if (!like) return node.invalid("input 1 has no type");
  if (node.isFourBits(1)) return castToFourBits(node, ir::elementType(like.getElementType()));
  castTo(node, ir::elementType(like.getElementType()));
}

void convertIsInf(NodeContext& node) {
  bool positive = node.integer("detect_positive", 1), negative = node.integer("detect_negative", 1);
  Value x = node.input(0);
  if (!x) return;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (positive && negative)
    node.setOutput(0, node.op("equal", {node.op("abs", x), node.scalarLike(x, kInfinity)}));
  else if (positive || negative)
    node.setOutput(0, node.op("equal", {x, node.scalarLike(x, positive ? kInfinity : -kInfinity)}));
  else
    node.setOutput(0, node.op("less", {node.op("abs", x), node.scalarLike(x, -1)}));  // Never true.
}

void convertTan(NodeContext& node) {
  Value x = node.input(0);
  node.setOutput(0, node.op("div", {node.op("sin", x), node.op("cos", x)}));
}

/// asin x = atan(x / sqrt(1 - x^2)).
void convertAsin(NodeContext& node) {
  Value x = node.input(0), one = node.scalarLike(x, 1);
  Value square = node.op("mul", {node.op("sub", {one, x}), node.op("add", {one, x})});
  node.setOutput(0, node.op("atan", node.op("div", {x, node.op("sqrt", square)})));
}

/// acos x = 2 atan(sqrt((1 - x) / (1 + x))).
void convertAcos(NodeContext& node) {
  Value x = node.input(0), one = node.scalarLike(x, 1);
  Value ratio = node.op("div", {node.op("sub", {one, x}), node.op("add", {one, x})});
  node.setOutput(0, node.op("mul", {node.op("atan", node.op("sqrt", ratio)), node.scalarLike(x, 2)}));
}

/// `value` where `x` is less than `limit`, else `beyond`.
Value upTo(NodeContext& node, Value x, double limit, Value value, Value beyond) {
  return node.op("where", {node.op("less", {x, node.scalarLike(x, limit)}), value, beyond});
}

bool isF16(NodeContext& node, Value x) {
  return node.elementOf(x).isF16();
}

/// e^a / 2: what sinh and cosh are where e^a is no number any more, but its half may be.
Value sinhBeyond(NodeContext& node, Value a, Value value) {
  Value root = node.op("exp", node.op("mul", {a, node.scalarLike(a, 0.5)}));
  Value beyond = node.op("mul", {node.op("mul", {root, node.scalarLike(a, 0.5)}), root});
  return upTo(node, a, isF16(node, a) ? 11 : 88, value, beyond);
}

void convertCosh(NodeContext& node) {  // (e^a + e^-a) / 2 with a = |x|
  Value x = node.input(0);
  if (!x) return;
  Value a = node.op("abs", x), up = node.op("exp", a), down = node.op("exp", node.op("neg", a));
  Value half = node.op("mul", {node.op("add", {up, down}), node.scalarLike(x, 0.5)});
  node.setOutput(0, sinhBeyond(node, a, half));
}

/// sinh x = (expm1(a) - expm1(-a)) / 2 with a = |x|, and x's sign: no digits are lost near 0.
void convertSinh(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  Value a = node.op("abs", x), up = node.op("expm1", a), down = node.op("expm1", node.op("neg", a));
  Value half = node.op("mul", {node.op("sub", {up, down}), node.scalarLike(x, 0.5)});
  node.setOutput(0, node.op("mul", {sinhBeyond(node, a, half), node.op("sign", x)}));
}

/// log(2 x), which asinh and acosh are to the last bit from 10^4 on (f16: from 200 on, f64: from 10^9 on), where
/// squares are still far from infinity.
Value logBeyond(NodeContext& node, Value x, Value value) {
  Value beyond = node.op("add", {node.op("log", x), node.scalarLike(x, 0.69314718055994531)});
  const double limit = isF16(node, x) ? 200 : x && node.elementOf(x).isF64() ? 1e9 : 1e4;
  return upTo(node, x, limit, value, beyond);
}

/// asinh x = log1p(a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|, and x's sign.
void convertAsinh(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  Value a = node.op("abs", x), one = node.scalarLike(x, 1), square = node.op("mul", {a, a});
  Value root = node.op("sqrt", node.op("add", {square, one}));
  Value sum = node.op("add", {a, node.op("div", {square, node.op("add", {one, root})})});
  node.setOutput(0, node.op("mul", {logBeyond(node, a, node.op("log1p", sum)), node.op("sign", x)}));
}

/// acosh x = log1p(t + sqrt(t) sqrt(t + 2)) with t = x - 1: a negative t has no root.
void convertAcosh(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  Value t = node.op("sub", {x, node.scalarLike(x, 1)});
  Value root = node.op("mul", {node.op("sqrt", t), node.op("sqrt", node.op("add", {t, node.scalarLike(x, 2)}))});
  node.setOutput(0, logBeyond(node, x, node.op("log1p", node.op("add", {t, root}))));
}

/// atanh x = log1p(2 a / (1 - a)) / 2 with a = |x|, and x's sign.
void convertAtanh(NodeContext& node) {
  Value x = node.input(0), a = node.op("abs", x);
  Value ratio = node.op("div", {node.op("add", {a, a}), node.op("sub", {node.scalarLike(x, 1), a})});
  Value half = node.op("mul", {node.op("log1p", ratio), node.scalarLike(x, 0.5)});
  node.setOutput(0, node.op("mul", {half, node.op("sign", x)}));
}

void convertBitwise(NodeContext& node) {
  Value lhs = node.input(0);
  if (lhs && (node.isFloat(lhs) || node.elementOf(lhs).isInteger(1))) return node.invalid("needs integer elements");
  if (node.numInputs() == 1) return node.setOutput(0, node.op(node.mnemonic(), lhs));
  node.setOutput(0, node.op(node.mnemonic(), {lhs, node.input(1)}));
}

void convertBitShift(NodeContext& node) {
  std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") return node.invalid("direction must be LEFT or RIGHT");
  node.setOutput(0, node.op(direction == "LEFT" ? "shift_left" : "shift_right", {node.input(0), node.input(1)}));
}

constexpr OpRow kRows[] = {
    {"Abs", 6, kNewestOpset, convertUnary, "abs"},
    {"Neg", 6, kNewestOpset, convertUnary, "neg"},
    {"Sign", 9, kNewestOpset, convertUnary, "sign"},
    {"Floor", 6, kNewestOpset, convertFloatUnary, "floor"},
    {"Ceil", 6, kNewestOpset, convertFloatUnary, "ceil"},
    {"Round", 11, kNewestOpset, convertFloatUnary, "round"},
    {"Exp", 6, kNewestOpset, convertFloatUnary, "exp"},
    {"Log", 6, kNewestOpset, convertFloatUnary, "log"},
    {"Sqrt", 6, kNewestOpset, convertFloatUnary, "sqrt"},
    {"Reciprocal", 6, kNewestOpset, convertFloatUnary, "reciprocal"},
    {"Erf", 9, kNewestOpset, convertFloatUnary, "erf"},
    {"Sin", 7, kNewestOpset, convertFloatUnary, "sin"},
    {"Cos", 7, kNewestOpset, convertFloatUnary, "cos"},
    {"Tan", 7, kNewestOpset, convertTan},
    {"Asin", 7, kNewestOpset, convertAsin},
    {"Acos", 7, kNewestOpset, convertAcos},
    {"Atan", 7, kNewestOpset, convertFloatUnary, "atan"},
    {"Sinh", 9, kNewestOpset, convertSinh},
    {"Cosh", 9, kNewestOpset, convertCosh},
    {"Asinh", 9, kNewestOpset, convertAsinh},
    {"Acosh", 9, kNewestOpset, convertAcosh},
    {"Atanh", 9, kNewestOpset, convertAtanh},
    {"IsNaN", 9, kNewestOpset, convertFloatUnary, "is_nan"},
    {"IsInf", 10, kNewestOpset, convertIsInf},
    {"Not", 1, kNewestOpset, convertNot},
    {"Add", 6, kNewestOpset, convertBinary, "add"},
    {"Sub", 6, kNewestOpset, convertBinary, "sub"},
    {"Mul", 6, kNewestOpset, convertBinary, "mul"},
    {"Div", 6, kNewestOpset, convertBinary, "div"},
    {"Pow", 1, kNewestOpset, convertPow, "",
     "of integers to integers exactly, wrapping around; of integers to floats in the exponent's type: f32 is exact up "
     "to 2^24"},
    {"Mod", 10, kNewestOpset, convertMod},
    {"PRelu", 6, kNewestOpset, convertPRelu},
    {"And", 1, kNewestOpset, convertLogical, "and"},
    {"Or", 1, kNewestOpset, convertLogical, "or"},
    {"Xor", 1, kNewestOpset, convertLogical, "xor"},
    {"BitwiseAnd", 18, kNewestOpset, convertBitwise, "bit_and"},
    {"BitwiseOr", 18, kNewestOpset, convertBitwise, "bit_or"},
    {"BitwiseXor", 18, kNewestOpset, convertBitwise, "bit_xor"},
    {"BitwiseNot", 18, kNewestOpset, convertBitwise, "bit_not"},
    {"BitShift", 11, kNewestOpset, convertBitShift},
    {"Equal", 1, kNewestOpset, convertBinary, "equal", "no strings"},
    {"Less", 1, kNewestOpset, convertBinary, "less"},
    {"LessOrEqual", 12, kNewestOpset, convertBinary, "less_equal"},
    {"Greater", 1, kNewestOpset, convertBinary, "greater"},
    {"GreaterOrEqual", 12, kNewestOpset, convertBinary, "greater_equal"},
    {"Max", 6, kNewestOpset, convertVariadic, "max"},
    {"Min", 6, kNewestOpset, convertVariadic, "min"},
    {"Sum", 6, kNewestOpset, convertSum},
    {"Mean", 6, kNewestOpset, convertMean},
    {"Where", 9, kNewestOpset, convertWhere},
    {"Clip", 6, kNewestOpset, convertClip},
    {"Cast", 1, kNewestOpset, convertCast, "cast", "no strings, no 4-bit floats; 4-bit integers are bytes in recipes"},
    {"CastLike", 15, kNewestOpset, convertCastLike, "cast", "no strings"},
    {"BitCast", 26, kNewestOpset, convertBitCast, "bitcast", "no bools, no 4-bit numbers"},
};

}  // namespace

llvm::ArrayRef<OpRow> elementwiseRows() {
  return kRows;
}

}  // namespace hpu::importer
