// SPDX-License-Identifier: Apache-2.0
// TPC nodes of two and more operands, element by element: arithmetic and its gradients, comparisons, logic, bits,
// where. The one thing to know: operands broadcast as NumPy's; a gradient is summed to the size of what was broadcast.
#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

void lowerBinary(NodeContext& c) {
  c.output(0, c.op(c.row().argument, {c.input(0), c.input(1)}));
}

// ---- Gradients of arithmetic ---------------------------------------------------------------------

/// Sums a gradient to the sizes of result `i`: those declared, else those of the operand that it belongs to.
void outputGradient(NodeContext& c, size_t i, Value gradient, const Shape& like) {
  if (!c.wantsOutput(i) || !c.ok()) return;
  c.output(i, c.sumTo(gradient, c.declaredShape(i).value_or(like)));
}

void lowerAddBwd(NodeContext& c) {
  Value dY = c.input(0);
  bool negate = c.row().argument == "sub";
  outputGradient(c, 0, dY, c.shape(dY));
  if (c.wantsOutput(1)) outputGradient(c, 1, negate ? c.neg(dY) : dY, c.shape(dY));
}

void lowerMulBwd(NodeContext& c) {
  Value dY = c.input(0), a = c.input(1), b = c.input(2);
  outputGradient(c, 0, c.mul(dY, b), c.shape(a));
  if (c.wantsOutput(1)) outputGradient(c, 1, c.mul(dY, a), c.shape(b));
}

void lowerDivBwd(NodeContext& c) {
  Value dY = c.input(0), a = c.input(1), b = c.input(2);
  Value dA = c.div(dY, b);
  outputGradient(c, 0, dA, c.shape(a));
  if (c.wantsOutput(1)) outputGradient(c, 1, c.neg(c.div(c.mul(dA, a), b)), c.shape(b));
}

/// The operand that was chosen gets the gradient; of equal ones the first.
void lowerMaxBwd(NodeContext& c) {
  Value dY = c.input(0), a = c.input(1), b = c.input(2);
  Value first = c.op(c.row().argument, {a, b}), zero = c.scalarLike(dY, 0);
  outputGradient(c, 0, c.where(first, dY, zero), c.shape(a));
  if (c.wantsOutput(1)) outputGradient(c, 1, c.where(first, zero, dY), c.shape(b));
}

// ---- Quotients and remainders --------------------------------------------------------------------

Value truncate(NodeContext& c, Value x) {
  return c.where(c.op("less", {x, c.scalarLike(x, 0)}), c.op("ceil", {x}), c.op("floor", {x}));
}

/// The remainder with the sign of the divisor, or of the dividend (as C's).
Value remainder(NodeContext& c, Value a, Value b, bool signOfDivisor) {
  Value r = c.op("mod", {a, b});
  if (isFloat(c.element(a))) {  // hpu.mod is fmod.
    if (!signOfDivisor) return r;
    Value zero = c.scalarLike(r, 0);
    Value differ = c.op("xor", {c.op("less", {r, zero}), c.op("less", {b, zero})});
    Value isZero = c.op("equal", {r, zero});
    return c.where(c.op("and", {differ, c.op("not", {isZero})}), c.add(r, b), r);
  }
  if (signOfDivisor) return r;
  return c.sub(a, c.mul(c.div(a, b), b));
}

void lowerRemainder(NodeContext& c) {
  c.output(0, remainder(c, c.input(0), c.input(1), c.row().argument == "divisor"));
}

Value floorDivide(NodeContext& c, Value a, Value b) {
  Value exact = c.div(c.sub(a, remainder(c, a, b, true)), b);
  return isFloat(c.element(a)) ? c.op("round", {exact}) : exact;
}

void lowerDivMod(NodeContext& c) {
  ns_DivModKernel::ParamsV2 params{};
  params = c.versionedParams<ns_DivModKernel::ParamsV2, ns_DivModKernel::Params>(params);
  bool floor = isSet(params.isPyCompatible) && !isSet(params.isTruncRoundingMode);
  Value a = c.input(0), b = c.input(1);
  Value rest = remainder(c, a, b, floor);
  Value quotient = floor ? floorDivide(c, a, b) : c.div(a, b);
  if (!floor && isFloat(c.element(a))) quotient = truncate(c, quotient);
  c.output(0, quotient);
  c.output(1, rest);
}

void lowerDivRound(NodeContext& c) {
  auto params = c.params<ns_DivRoundKernel::Params>();
  Value a = c.input(0), b = c.input(1);
  switch (params.mode) {
    case DIV_ROUND_NONE:
      return c.output(0, c.div(a, b));
    case DIV_ROUND_TRUNC:
      return c.output(0, isFloat(c.element(a)) ? truncate(c, c.div(a, b)) : c.div(a, b));
    case DIV_ROUND_FLOOR:
      return c.output(0, floorDivide(c, a, b));
  }
  c.fail(strCat("unknown rounding mode ", static_cast<int>(params.mode)));
}

void lowerPow(NodeContext& c) {
  c.output(0, c.op("pow", {c.input(0), c.input(1)}));
}

// ---- With a factor -------------------------------------------------------------------------------

double number(fint_t value, ElementType type) {
  return isFloat(type) ? static_cast<double>(value.f) : static_cast<double>(value.i);
}

void lowerBinaryWithAlpha(NodeContext& c) {
  auto params = c.params<ns_BinaryWithAlphaKernel::Params>();
  Value a = c.input(0), b = c.input(1);
  double alpha = number(params.alpha, c.element(a));
  auto scaled = [&](Value v) { return alpha == 1 ? v : c.mul(v, alpha); };
  switch (params.mode) {
    case BINARY_WITH_ALPHA_MODE_ADD:
      return c.output(0, c.add(a, scaled(b)));
    case BINARY_WITH_ALPHA_MODE_SUB:
      return c.output(0, c.sub(a, scaled(b)));
    case BINARY_WITH_ALPHA_MODE_RSUB:
      return c.output(0, c.sub(b, scaled(a)));
    case BINARY_WITH_ALPHA_MODE_CMUL:
      return c.output(0, c.add(a, scaled(c.mul(b, c.input(2)))));
    case BINARY_WITH_ALPHA_MODE_CDIV:
      return c.output(0, c.add(a, scaled(c.div(b, c.input(2)))));
  }
  c.fail(strCat("unknown mode ", static_cast<int>(params.mode)));
}

/// a + value * b * c, or a + value * b / c; the value is a parameter or a tensor.
void lowerAddcmul(NodeContext& c) {
  auto params = c.paramsOr<ns_AddcmulKernel::Params>({1.0f});
  Value term = c.op(c.row().argument, {c.input(1), c.input(2)});
  if (c.hasInput(3))
    term = c.mul(term, c.input(3));
  else if (params.value != 1.0f)
    term = c.mul(term, params.value);
  c.output(0, c.add(c.input(0), term));
}

// ---- Comparisons, logic, bits --------------------------------------------------------------------

void lowerNotEqual(NodeContext& c) {
  c.output(0, c.op("not", {c.op("equal", {c.input(0), c.input(1)})}));
}

void lowerLogic(NodeContext& c) {
  std::vector<Value> operands = {c.condition(0)};
  if (c.numInputs() > 1) operands.push_back(c.condition(1));
  c.output(0, c.op(c.row().argument, operands));
}

void lowerBitwise(NodeContext& c) {
  std::vector<Value> operands = {c.input(0)};
  if (c.numInputs() > 1) operands.push_back(c.input(1));
  c.output(0, c.op(c.row().argument, operands));
}

ElementType unsignedOf(ElementType type) {
  switch (type) {
    case ElementType::kI8:
      return ElementType::kU8;
    case ElementType::kI16:
      return ElementType::kU16;
    case ElementType::kI32:
      return ElementType::kU32;
    case ElementType::kI64:
      return ElementType::kU64;
    default:
      return type;
  }
}

void lowerShift(NodeContext& c) {
  ns_BitShiftKernel::ParamsV2 params{};
  params.direction = c.row().argument == "right" ? RIGHT : LEFT;
  params.mode = ARITHMETIC;
  params = c.versionedParams<ns_BitShiftKernel::ParamsV2, ns_BitShiftKernel::Params>(params);
  if (params.direction != LEFT && params.direction != RIGHT)
    return (void)c.fail(strCat("unknown direction ", static_cast<int>(params.direction)));
  Value x = c.input(0), count = c.input(1);
  ElementType type = c.element(x);
  if (params.direction == LEFT) return c.output(0, c.op("shift_left", {x, c.cast(count, type)}));
  if (params.mode == LOGICAL) x = c.cast(x, unsignedOf(type));
  Value shifted = c.op("shift_right", {x, c.cast(count, c.element(x))});
  c.output(0, c.cast(shifted, type));
}

void lowerWhere(NodeContext& c) {
  c.output(0, c.where(c.condition(0), c.input(1), c.input(2)));
}

void lowerMaskedFill(NodeContext& c) {
  Value x = c.input(0), value;
  if (c.hasInput(2)) {
    value = c.cast(c.input(2), c.element(x));
  } else {
    ns_MaskedFill::ParamsV2 params{};
    params = c.versionedParams<ns_MaskedFill::ParamsV2, ns_MaskedFill::Params>(params, /*optional=*/false);
    value = c.scalarLike(x, number(params.value, c.element(x)));
  }
  c.output(0, c.where(c.condition(1), value, x));
}

constexpr std::string_view kFloats = "f32 bf16 f16";
constexpr std::string_view kNumbers = "f32 bf16 f16 i32 u32 i16 u16 i8 u8 i64";
constexpr std::string_view kIntegers = "i32 u32 i16 u16 i8 u8 i64";
constexpr std::string_view kDivMod = "ns_DivModKernel::Params or ParamsV2?";

// clang-format off
constexpr GuidRow kRows[] = {
    {"add_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "add", kOneType},
    {"sub_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "sub", kOneType},
    {"mult_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "mul", kOneType},
    {"div_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "div", kOneType},
    {"max_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "max", kOneType},
    {"min_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "min", kOneType},
    {"pow_fwd", "a, b", "y", "none", kFloats, lowerPow, {}, kOneType},
    {"add_bwd", "dY", "dA, [dB]", "none", kFloats, lowerAddBwd, "add", kOneType | kInF32},
    {"sub_bwd", "dY", "dA, [dB]", "none", kFloats, lowerAddBwd, "sub", kOneType | kInF32},
    {"mult_bwd", "dY, a, b", "dA, [dB]", "none", kFloats, lowerMulBwd, {}, kOneType | kInF32},
    {"div_bwd", "dY, a, b", "dA, [dB]", "none", kFloats, lowerDivBwd, {}, kOneType | kInF32},
    {"max_bwd", "dY, a, b", "dA, [dB]", "none", kFloats, lowerMaxBwd, "greater_equal", kOneType},
    {"min_bwd", "dY, a, b", "dA, [dB]", "none", kFloats, lowerMaxBwd, "less_equal", kOneType},
    {"mod_fwd", "a, b", "y", "none", kNumbers, lowerRemainder, "dividend", kOneType | kInF32},
    {"rem_fwd", "a, b", "y", "none", kNumbers, lowerRemainder, "divisor", kOneType | kInF32},
    {"div_mod_fwd", "a, b", "quotient, [remainder]", kDivMod, kNumbers, lowerDivMod, {}, kOneType | kInF32},
    {"div_round_fwd", "a, b", "y", "ns_DivRoundKernel::Params", kNumbers, lowerDivRound, {}, kOneType | kInF32},
    {"binary_with_alpha_fwd", "a, b, [c]", "y", "ns_BinaryWithAlphaKernel::Params", kNumbers, lowerBinaryWithAlpha, {}, kOneType | kInF32},
    {"addcmul_fwd", "a, b, c, [value]", "y", "ns_AddcmulKernel::Params?", kFloats, lowerAddcmul, "mul", kOneType | kInF32},
    {"addcdiv_fwd", "a, b, c, [value]", "y", "ns_AddcmulKernel::Params?", kFloats, lowerAddcmul, "div", kOneType | kInF32},
    {"equal_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "equal"},
    {"not_equal_fwd", "a, b", "y", "none", kNumbers, lowerNotEqual},
    {"less_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "less"},
    {"less_equal_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "less_equal"},
    {"greater_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "greater"},
    {"greater_equal_fwd", "a, b", "y", "none", kNumbers, lowerBinary, "greater_equal"},
    {"and", "a, b", "y", "none", "i8 u8", lowerLogic, "and"},
    {"or", "a, b", "y", "none", "i8 u8", lowerLogic, "or"},
    {"xor", "a, b", "y", "none", "i8 u8", lowerLogic, "xor"},
    {"not", "a", "y", "none", "i8 u8", lowerLogic, "not"},
    {"bitwise_and_fwd", "a, b", "y", "none", kIntegers, lowerBitwise, "bit_and", kOneType},
    {"bitwise_or_fwd", "a, b", "y", "none", kIntegers, lowerBitwise, "bit_or", kOneType},
    {"bitwise_xor_fwd", "a, b", "y", "none", kIntegers, lowerBitwise, "bit_xor", kOneType},
    {"bitwise_not_fwd", "a", "y", "none", kIntegers, lowerBitwise, "bit_not", kOneType},
    {"bitshift_fwd", "a, count", "y", "ns_BitShiftKernel::Params or ParamsV2?", kIntegers, lowerShift},
    {"where_fwd", "condition, a, b", "y", "none", kNumbers, lowerWhere},
    {"masked_fill_fwd", "x, mask, [value]", "y", "ns_MaskedFill::Params or ParamsV2?", kNumbers, lowerMaskedFill},
};
// clang-format on

}  // namespace

std::span<const GuidRow> elementwiseGuids() {
  return kRows;
}

}  // namespace hpu::synapse
