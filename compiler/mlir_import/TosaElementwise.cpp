// SPDX-License-Identifier: Apache-2.0
// tosa: functions of each element, rescaling and tables.
#include <cmath>
#include <limits>

#include "base/Format.h"
#include "compiler/mlir_import/MlirNode.h"

namespace hpu::importer {
namespace {

using base::strCat;

void same(MlirNode& n) {
  const ForeignRow* row = findForeignRow(n.source().getName().getStringRef());
  std::vector<Value> operands;
  for (size_t i = 0; i < n.numOperands(); ++i) operands.push_back(n.in(i));
  n.set(0, n.op(row->mnemonic, operands));
}

/// Of numbers that may be NaN: the other one where one is, if the op ignores them.
Value ignoringNan(MlirNode& n, Value a, Value b, Value result) {
  if (!result || !n.isFloat(result) || n.keyword("nan_mode") != "IGNORE") return result;
  result = n.op("where", {n.op("is_nan", a), b, result});
  return n.op("where", {n.op("is_nan", b), a, result});
}

void extremum(MlirNode& n) {
  Value a = n.in(0), b = n.in(1);
  const bool isMax = n.source().getName().getStringRef() == "tosa.maximum";
  n.set(0, ignoringNan(n, a, b, n.op(isMax ? "max" : "min", {a, b})));
}

double boundOf(mlir::Attribute attribute) {
  if (auto number = mlir::dyn_cast_or_null<mlir::FloatAttr>(attribute)) return number.getValueAsDouble();
  if (auto number = mlir::dyn_cast_or_null<mlir::IntegerAttr>(attribute))
    return static_cast<double>(number.getValue().getSExtValue());
  return 0;
}

void clamp(MlirNode& n) {
  Value x = n.in(0);
  const double low = boundOf(n.attribute("min_val")), high = boundOf(n.attribute("max_val"));
  Value y = n.clip(x, low, high);
  if (y && n.isFloat(y))
    y = n.op("where", {n.op("is_nan", x), n.keyword("nan_mode") == "IGNORE" ? n.scalarLike(x, low) : x, y});
  n.set(0, y);
}

/// The range of an integer type, as its bits are read.
std::pair<double, double> rangeOf(mlir::Type element, bool isUnsigned = false) {
  const unsigned width = element.getIntOrFloatBitWidth();
  if (isUnsigned) return {0, std::ldexp(1.0, width) - 1};
  return {-std::ldexp(1.0, width - 1), std::ldexp(1.0, width - 1) - 1};
}

void negate(MlirNode& n) {
  Value x = n.in(0);
  if (!x || n.isFloat(x)) return n.set(0, n.op("neg", x));
  const double in = n.number(1), out = n.number(2);
  if (in == 0 && out == 0 && n.elementOf(x).getIntOrFloatBitWidth() >= 32) return n.set(0, n.op("neg", x));
  // (zero point - x) + zero point, which may leave the type's range: it is kept within it.
  Value wide = n.cast(x, n.i64());
  wide = n.op("sub", {n.scalarLike(wide, in + out), wide});
  const auto [low, high] = rangeOf(n.elementOf(x));
  n.set(0, n.cast(n.clip(wide, low, high), n.elementOf(x)));
}

/// x / 2^shift, to nearest: halves upwards.
Value roundedShift(MlirNode& n, Value wide, Value shift) {
  Value one = n.scalarLike(wide, 1);
  Value half = n.op("shift_right", {n.op("shift_left", {one, shift}), one});
  return n.op("shift_right", {n.op("add", {wide, half}), shift});
}

void mul(MlirNode& n) {
  Value a = n.in(0), b = n.in(1);
  if (!a || !b) return;
  const double shift = n.numOperands() > 2 ? n.number(2) : 0;
  if (n.isFloat(a)) return n.set(0, n.op("mul", {a, b}));
  const mlir::Type to = n.resultElement();
  if (shift == 0) return n.set(0, n.op("mul", {n.cast(a, to), n.cast(b, to)}));
  Value product = n.op("mul", {n.cast(a, n.i64()), n.cast(b, n.i64())});
  n.set(0, n.cast(roundedShift(n, product, n.scalarLike(product, shift)), to));
}

void arithmeticRightShift(MlirNode& n) {
  Value a = n.in(0), b = n.in(1);
  if (!n.flag("round")) return n.set(0, n.op("shift_right", {a, b}));
  if (!a) return;
  n.set(0, n.cast(roundedShift(n, n.cast(a, n.i64()), n.cast(b, n.i64())), n.elementOf(a)));
}

void logicalRightShift(MlirNode& n) {
  Value a = n.in(0), b = n.in(1);
  if (!a || !b) return;
  const mlir::Type bits = n.unsignedOf(n.elementOf(a));
  n.set(0, n.bitcast(n.op("shift_right", {n.bitcast(a, bits), n.bitcast(b, bits)}), n.elementOf(a)));
}

void clz(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  const mlir::Type element = n.elementOf(x), bits = n.unsignedOf(element);
  const int64_t width = element.getIntOrFloatBitWidth();
  // The highest bits are looked at in halves; where they are 0 the number moves up.
  Value rest = n.bitcast(x, bits), count = n.op("sub", {rest, rest});
  for (int64_t part = width / 2; part >= 1; part /= 2) {
    Value isZero =
        n.op("equal", {n.op("shift_right", {rest, n.scalarLike(rest, width - part)}), n.scalarLike(rest, 0)});
    count = n.op("where", {isZero, n.op("add", {count, n.scalarLike(count, part)}), count});
    rest = n.op("where", {isZero, n.op("shift_left", {rest, n.scalarLike(rest, part)}), rest});
  }
  Value none = n.op("equal", {rest, n.scalarLike(rest, 0)});
  count = n.op("where", {none, n.scalarLike(count, width), count});
  n.set(0, n.bitcast(count, element));
}

void castTo(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  const mlir::Type from = n.elementOf(x), to = n.resultElement();
  if (from == to) return n.set(0, x);
  if (to.isInteger(1)) return n.set(0, n.notOf(n.op("equal", {x, n.scalarLike(x, 0)})));
  if (n.isFloat(x) && !n.isFloat(to)) {
    // To nearest even, and kept within the range.
    const auto [low, high] = rangeOf(to);
    Value wide = n.cast(x, n.f32());
    Value rounded = n.op("round", wide);
    // 2^31 - 1 is no f32: what is not below 2^31 is the largest number.
    Value whole = n.cast(
        n.clip(rounded, low, static_cast<float>(high) > high ? std::nextafter(static_cast<float>(high), 0.0F) : high),
        to);
    Value above = n.op("greater_equal", {rounded, n.scalarLike(rounded, high)});
    Value largest = n.cast(n.node().scalar(n.i64(), high), to);
    return n.set(0, n.op("where", {above, largest, whole}));
  }
  n.set(0, n.cast(x, to));
}

void table(MlirNode& n) {
  Value x = n.in(0), entries = n.in(1);
  if (!x || !entries) return;
  const unsigned width = n.elementOf(x).getIntOrFloatBitWidth();
  Value at = n.cast(x, n.i32());
  if (width == 8) return n.set(0, n.op("gather", {entries, n.op("add", {at, n.scalarLike(at, 128)})}, {{"axis", 0}}));
  if (width != 16) return n.unsupported(strCat("a table for elements of ", width, " bits"));
  // 513 entries, 128 steps between two of them.
  Value seven = n.scalarLike(at, 7);
  Value index = n.op("add", {n.op("shift_right", {at, seven}), n.scalarLike(at, 256)});
  Value fraction = n.op("bit_and", {at, n.scalarLike(at, 127)});
  Value base = n.cast(n.op("gather", {entries, index}, {{"axis", 0}}), n.i32());
  Value next = n.op("gather", {entries, n.op("add", {index, n.scalarLike(index, 1)})}, {{"axis", 0}});
  Value slope = n.op("sub", {n.cast(next, n.i32()), base});
  n.set(0, n.op("add", {n.op("shift_left", {base, seven}), n.op("mul", {slope, fraction})}));
}

/// A constant along the last dim, or a single number.
Value alongLast(MlirNode& n, size_t operand, mlir::Type element) {
  Value v = n.in(operand);
  if (!v) return {};
  v = n.cast(v, element);
  if (n.typeOf(v).getNumElements() == 1) v = n.reshape(v, {});
  return v;
}

Value centredAs64(MlirNode& n, Value x, size_t zeroPoint, bool isUnsigned) {
  if (!x) return {};
  Value zero = n.in(zeroPoint);
  if (!zero) return {};
  auto wide = [&](Value v) { return n.cast(isUnsigned ? n.bitcast(v, n.unsignedOf(n.elementOf(v))) : v, n.i64()); };
  return n.op("sub", {wide(x), n.reshape(wide(zero), {})});
}

void rescale(MlirNode& n) {
  const std::string rounding = n.keyword("rounding_mode");
  if (rounding == "INEXACT_ROUND") return n.unsupported("rounding of the kind INEXACT_ROUND");
  Value value = centredAs64(n, n.in(0), 3, n.flag("input_unsigned"));
  Value multiplier = alongLast(n, 1, n.i64()), shift = alongLast(n, 2, n.i64());
  if (!value || !multiplier || !shift) return;
  Value one = n.scalarLike(value, 1);
  Value round = n.op("shift_left", {one, n.op("sub", {shift, one})});
  if (rounding == "DOUBLE_ROUND") {
    Value more = n.scalarLike(value, 1 << 30);
    Value towards = n.op("where", {n.op("greater_equal", {value, n.scalarLike(value, 0)}), n.op("add", {round, more}),
                                   n.op("sub", {round, more})});
    round = n.op("where", {n.op("greater", {shift, n.scalarLike(shift, 31)}), towards, round});
  }
  Value scaled = n.op("shift_right", {n.op("add", {n.op("mul", {value, multiplier}), round}), shift});
  const bool isUnsigned = n.flag("output_unsigned");
  const mlir::Type to = n.resultElement(), bits = isUnsigned ? n.unsignedOf(to) : to;
  Value zero = n.in(4);
  if (!zero || !scaled) return;
  zero =
      n.reshape(n.cast(n.bitcast(zero, isUnsigned ? n.unsignedOf(n.elementOf(zero)) : n.elementOf(zero)), n.i64()), {});
  const auto [low, high] = rangeOf(to, isUnsigned);
  n.set(0, n.bitcast(n.cast(n.clip(n.op("add", {scaled, zero}), low, high), bits), to));
}

void applyScale(MlirNode& n) {
  Value value = n.in(0), multiplier = n.in(1), shift = n.in(2);
  if (!value || !multiplier || !shift) return;
  const std::string rounding = n.keyword("rounding_mode");
  if (rounding != "SINGLE_ROUND") return n.unsupported(strCat("rounding of the kind ", rounding));
  value = n.cast(value, n.i64()), multiplier = n.cast(multiplier, n.i64()), shift = n.cast(shift, n.i64());
  n.set(0, n.cast(roundedShift(n, n.op("mul", {value, multiplier}), shift), n.i32()));
}

constexpr ForeignRow kRows[] = {
    {"tosa.abs", same, "abs"},
    {"tosa.add", same, "add"},
    {"tosa.apply_scale", applyScale, "", "SINGLE_ROUND"},
    {"tosa.arithmetic_right_shift", arithmeticRightShift},
    {"tosa.bitwise_and", same, "bit_and"},
    {"tosa.bitwise_not", same, "bit_not"},
    {"tosa.bitwise_or", same, "bit_or"},
    {"tosa.bitwise_xor", same, "bit_xor"},
    {"tosa.cast", castTo},
    {"tosa.ceil", same, "ceil"},
    {"tosa.clamp", clamp},
    {"tosa.clz", clz},
    {"tosa.cos", same, "cos"},
    {"tosa.equal", same, "equal"},
    {"tosa.erf", same, "erf"},
    {"tosa.exp", same, "exp"},
    {"tosa.floor", same, "floor"},
    {"tosa.greater", same, "greater"},
    {"tosa.greater_equal", same, "greater_equal"},
    {"tosa.intdiv", same, "div"},
    {"tosa.log", same, "log"},
    {"tosa.logical_and", same, "and"},
    {"tosa.logical_left_shift", same, "shift_left"},
    {"tosa.logical_not", same, "not"},
    {"tosa.logical_or", same, "or"},
    {"tosa.logical_right_shift", logicalRightShift},
    {"tosa.logical_xor", same, "xor"},
    {"tosa.maximum", extremum},
    {"tosa.minimum", extremum},
    {"tosa.mul", mul},
    {"tosa.negate", negate},
    {"tosa.pow", same, "pow"},
    {"tosa.reciprocal", same, "reciprocal"},
    {"tosa.rescale", rescale, "", "SINGLE_ROUND, DOUBLE_ROUND"},
    {"tosa.rsqrt", same, "rsqrt"},
    {"tosa.select", same, "where"},
    {"tosa.sigmoid", same, "sigmoid"},
    {"tosa.sin", same, "sin"},
    {"tosa.sub", same, "sub"},
    {"tosa.table", table, "", "elements of 8 and 16 bits"},
    {"tosa.tanh", same, "tanh"},
};

}  // namespace

llvm::ArrayRef<ForeignRow> tosaElementwiseRows() {
  return kRows;
}

}  // namespace hpu::importer
