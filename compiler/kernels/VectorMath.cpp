// SPDX-License-Identifier: Apache-2.0
// Plain arithmetic, comparisons and conversions.
#include "compiler/kernels/VectorMath.h"

#include <bit>
#include <cmath>
#include <optional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

Type elementOf(Value x) {
  return getElementTypeOrSelf(x.getType());
}
bool isFloat(Value x) {
  return isa<FloatType>(elementOf(x));
}

/// The f32 that is x in all lanes, where that is known.
std::optional<float> numberOf(Value x) {
  auto constant = x.getDefiningOp<arith::ConstantOp>();
  if (!constant || !elementOf(x).isF32()) return std::nullopt;
  if (auto number = dyn_cast<FloatAttr>(constant.getValue())) return number.getValue().convertToFloat();
  auto lanes = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!lanes || !lanes.isSplat()) return std::nullopt;
  return lanes.getSplatValue<APFloat>().convertToFloat();
}

}  // namespace

Type VectorMath::shaped(Value like, Type element) {
  auto vector = dyn_cast<VectorType>(like.getType());
  return vector ? VectorType::get(vector.getShape(), element) : element;
}

Value VectorMath::constant(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr scalar;
  if (auto floatType = dyn_cast<FloatType>(element))
    scalar = b_.getFloatAttr(floatType, value);
  else
    return constantInt(type, static_cast<int64_t>(value));
  TypedAttr attr = scalar;
  if (auto vector = dyn_cast<VectorType>(type)) attr = DenseElementsAttr::get(vector, Attribute(scalar));
  Value& slot = constants_[attr];
  if (!slot) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(entry_);
    slot = arith::ConstantOp::create(b_, loc_, attr);
  }
  return slot;
}

Value VectorMath::constantInt(Type type, int64_t value) {
  auto integerType = cast<IntegerType>(getElementTypeOrSelf(type));
  unsigned width = integerType.getWidth();
  TypedAttr attr = IntegerAttr::get(integerType, APInt(width, static_cast<uint64_t>(value), false, true));
  if (auto vector = dyn_cast<VectorType>(type)) attr = DenseElementsAttr::get(vector, Attribute(attr));
  Value& slot = constants_[attr];
  if (!slot) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(entry_);
    slot = arith::ConstantOp::create(b_, loc_, attr);
  }
  return slot;
}

Value VectorMath::num(Value x, double value) {
  return constant(x.getType(), value);
}

Value VectorMath::iota(Type vectorType, int64_t step) {
  auto type = cast<VectorType>(vectorType);
  unsigned width = cast<IntegerType>(type.getElementType()).getWidth();
  SmallVector<APInt> lanes;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    lanes.push_back(APInt(width, static_cast<uint64_t>(i * step), false, true));
  TypedAttr attr = DenseElementsAttr::get(type, lanes);
  Value& slot = constants_[attr];
  if (!slot) {
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPointToStart(entry_);
    slot = arith::ConstantOp::create(b_, loc_, attr);
  }
  return slot;
}

Value VectorMath::broadcast(Value x, int64_t lanes) {
  if (isa<VectorType>(x.getType())) return x;
  if (auto constantOp = x.getDefiningOp<arith::ConstantOp>()) {
    Attribute attr = constantOp.getValue();
    Type type = VectorType::get({lanes}, x.getType());
    if (auto f = dyn_cast<FloatAttr>(attr)) return constant(type, f.getValueAsDouble());
    if (auto i = dyn_cast<IntegerAttr>(attr)) return constantInt(type, i.getValue().getSExtValue());
  }
  return vector::BroadcastOp::create(b_, loc_, VectorType::get({lanes}, x.getType()), x);
}

#define HPU_EITHER(name, FloatOp, IntOp)                                                           \
  Value VectorMath::name(Value a, Value b) {                                                       \
    if (isFloat(a)) return arith::FloatOp::create(b_, loc_, a, b, arith::FastMathFlags::contract); \
    return arith::IntOp::create(b_, loc_, a, b);                                                   \
  }
HPU_EITHER(add, AddFOp, AddIOp)
HPU_EITHER(sub, SubFOp, SubIOp)
HPU_EITHER(mul, MulFOp, MulIOp)
#undef HPU_EITHER

Value VectorMath::subOfRounded(Value a, Value b) {
  return arith::SubFOp::create(b_, loc_, a, b, arith::FastMathFlags::none);
}

Value VectorMath::divF(Value a, Value b) {
  auto divide = [&]() -> Value { return arith::DivFOp::create(b_, loc_, a, b); };
  std::optional<float> divisor = numberOf(b);
  int exponent = 0;
  if (divisor && std::isnormal(*divisor) && std::isnormal(1 / *divisor) &&
      std::abs(std::frexp(*divisor, &exponent)) == 0.5f)
    return mul(a, num(b, 1 / *divisor));
  return divisor || b.getDefiningOp<vector::BroadcastOp>() ? asOneInstruction(divide, kUniformDivision) : divide();
}
Value VectorMath::fma(Value a, Value b, Value c) {
  return math::FmaOp::create(b_, loc_, a, b, c);
}
Value VectorMath::neg(Value a) {
  if (isFloat(a)) return arith::NegFOp::create(b_, loc_, a);
  return sub(integer(a, 0), a);
}
Value VectorMath::abs(Value a) {
  if (isFloat(a)) return math::AbsFOp::create(b_, loc_, a);
  return select(compare(Cmp::Lt, a, integer(a, 0)), neg(a), a);
}
Value VectorMath::sqrt(Value a) {
  return math::SqrtOp::create(b_, loc_, a);
}
Value VectorMath::floor(Value a) {
  return math::FloorOp::create(b_, loc_, a);
}
Value VectorMath::ceil(Value a) {
  return math::CeilOp::create(b_, loc_, a);
}
Value VectorMath::trunc(Value a) {
  return math::TruncOp::create(b_, loc_, a);
}
Value VectorMath::roundEven(Value a) {
  return math::RoundEvenOp::create(b_, loc_, a);
}
Value VectorMath::andI(Value a, Value b) {
  return arith::AndIOp::create(b_, loc_, a, b);
}
Value VectorMath::orI(Value a, Value b) {
  return arith::OrIOp::create(b_, loc_, a, b);
}
Value VectorMath::xorI(Value a, Value b) {
  return arith::XOrIOp::create(b_, loc_, a, b);
}
Value VectorMath::shl(Value a, Value bits) {
  return arith::ShLIOp::create(b_, loc_, a, bits);
}
Value VectorMath::shr(Value a, Value bits, bool isSigned) {
  if (isSigned) return arith::ShRSIOp::create(b_, loc_, a, bits);
  return arith::ShRUIOp::create(b_, loc_, a, bits);
}
Value VectorMath::shl(Value a, int64_t bits) {
  return shl(a, integer(a, bits));
}
Value VectorMath::shr(Value a, int64_t bits, bool isSigned) {
  return shr(a, integer(a, bits), isSigned);
}
Value VectorMath::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(b_, loc_, condition, a, b);
}

Value VectorMath::compare(Cmp kind, Value a, Value b, bool isSigned) {
  if (isFloat(a)) {
    using P = arith::CmpFPredicate;
    constexpr P kinds[] = {P::OEQ, P::UNE, P::OLT, P::OLE, P::OGT, P::OGE};
    return arith::CmpFOp::create(b_, loc_, kinds[static_cast<int>(kind)], a, b);
  }
  using P = arith::CmpIPredicate;
  constexpr P signedKinds[] = {P::eq, P::ne, P::slt, P::sle, P::sgt, P::sge};
  constexpr P unsignedKinds[] = {P::eq, P::ne, P::ult, P::ule, P::ugt, P::uge};
  return arith::CmpIOp::create(b_, loc_, (isSigned ? signedKinds : unsignedKinds)[static_cast<int>(kind)], a, b);
}
Value VectorMath::isNan(Value a) {
  return arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::UNO, a, a);
}
Value VectorMath::max(Value a, Value b, bool isSigned) {
  return asOneInstruction([&] {
    Value larger = select(compare(Cmp::Gt, a, b, isSigned), a, b);
    return isFloat(a) ? select(isNan(a), a, larger) : larger;
  });
}
Value VectorMath::min(Value a, Value b, bool isSigned) {
  return asOneInstruction([&] {
    Value smaller = select(compare(Cmp::Lt, a, b, isSigned), a, b);
    return isFloat(a) ? select(isNan(a), a, smaller) : smaller;
  });
}

Value VectorMath::divInt(Value a, Value b, bool isSigned) {
  // The processor traps on x / 0 and on the most negative number / -1.
  Value zero = integer(b, 0), one = integer(b, 1), isZero = compare(Cmp::Eq, b, zero), quotient;
  if (isSigned) {
    Value isMinusOne = compare(Cmp::Eq, b, integer(b, -1));
    Value safe = select(orI(isZero, isMinusOne), one, b);
    quotient = select(isMinusOne, neg(a), arith::DivSIOp::create(b_, loc_, a, safe));
  } else {
    quotient = arith::DivUIOp::create(b_, loc_, a, select(isZero, one, b));
  }
  return select(isZero, zero, quotient);
}
Value VectorMath::modInt(Value a, Value b, bool isSigned) {
  Value zero = integer(b, 0);
  Value remainder = sub(a, mul(divInt(a, b, isSigned), b));
  if (isSigned) {
    Value differs = compare(Cmp::Lt, xorI(remainder, b), zero);
    Value fix = andI(differs, compare(Cmp::Ne, remainder, zero));
    remainder = select(fix, add(remainder, b), remainder);
  }
  return select(compare(Cmp::Eq, b, zero), zero, remainder);
}

Value VectorMath::powInt(Value a, Value b, bool isSigned) {
  const int bits = static_cast<int>(elementOf(b).getIntOrFloatBitWidth()) - (isSigned ? 1 : 0);
  Value zero = integer(a, 0), one = integer(a, 1), result = one, square = a;
  for (int bit = 0; bit < bits; ++bit) {
    Value isSet = compare(Cmp::Ne, andI(b, integer(b, static_cast<int64_t>(uint64_t{1} << bit))), zero);
    result = select(isSet, mul(result, square), result);
    if (bit + 1 < bits) square = mul(square, square);
  }
  if (!isSigned) return result;
  Value unit = select(compare(Cmp::Ne, andI(b, one), zero), a, one);
  Value isUnit = orI(compare(Cmp::Eq, a, one), compare(Cmp::Eq, a, integer(a, -1)));
  return select(compare(Cmp::Lt, b, zero), select(isUnit, unit, zero), result);
}

Value VectorMath::bitcast(Value a, Type element) {
  return arith::BitcastOp::create(b_, loc_, shaped(a, element), a);
}
Value VectorMath::extend(Value a, Type element, bool isSigned) {
  if (elementOf(a) == element) return a;
  if (isSigned) return arith::ExtSIOp::create(b_, loc_, shaped(a, element), a);
  return arith::ExtUIOp::create(b_, loc_, shaped(a, element), a);
}
Value VectorMath::truncate(Value a, Type element) {
  if (elementOf(a) == element) return a;
  return arith::TruncIOp::create(b_, loc_, shaped(a, element), a);
}
Value VectorMath::resizeInt(Value a, Type element, bool isSigned) {
  unsigned from = elementOf(a).getIntOrFloatBitWidth(), to = element.getIntOrFloatBitWidth();
  return to < from ? truncate(a, element) : extend(a, element, isSigned);
}
Value VectorMath::toFloat(Value a, Type element, bool isSigned) {
  if (isSigned) return arith::SIToFPOp::create(b_, loc_, shaped(a, element), a);
  return arith::UIToFPOp::create(b_, loc_, shaped(a, element), a);
}
Value VectorMath::toInt(Value a, Type element) {
  return arith::FPToSIOp::create(b_, loc_, shaped(a, element), a);
}
Value VectorMath::toIntSaturating(Value a, Type element, bool isSigned) {
  const unsigned bits = element.getIntOrFloatBitWidth();
  const unsigned valueBits = isSigned ? bits - 1 : bits;
  const int64_t most = static_cast<int64_t>(valueBits == 64 ? ~uint64_t{0} : (uint64_t{1} << valueBits) - 1);
  const double beyond = std::ldexp(1.0, static_cast<int>(valueBits));
  const bool isWide = elementOf(a).isF64();
  const unsigned mantissaBits = isWide ? 53 : 24;
  // The largest float within the type: one step below 2^valueBits, unless the type's own largest number is a float.
  const double step = isWide ? std::nextafter(beyond, 0.0) : std::nextafter(static_cast<float>(beyond), 0.0f);
  const double high = std::min(step, beyond - 1);
  return asOneInstruction([&] {
    Value inside = fastMin(num(a, high), fastMax(num(a, isSigned ? -beyond : 0.0), a));
    Value result;
    if (bits == 64 && !isSigned)
      result = arith::FPToUIOp::create(b_, loc_, shaped(a, i64()), inside);
    else
      result = truncate(toInt(inside, bits == 64 || (bits == 32 && !isSigned) ? i64() : i32()), element);
    if (valueBits > mantissaBits) result = select(compare(Cmp::Ge, a, num(a, beyond)), integer(result, most), result);
    return select(isNan(a), integer(result, 0), result);
  });
}
Value VectorMath::extendF(Value a, Type element) {
  return arith::ExtFOp::create(b_, loc_, shaped(a, element), a);
}
Value VectorMath::truncateF(Value a, Type element) {
  return arith::TruncFOp::create(b_, loc_, shaped(a, element), a);
}

Value VectorMath::roundToOdd(Value a) {
  Value nearest = truncateF(a, f32()), bits = bitcast(nearest, i32()), one = integer(bits, 1);
  Value back = extendF(nearest, f64()), zero = integer(bits, 0);
  // Infinity becomes the largest number.
  Value below = sub(bits, select(compare(Cmp::Gt, abs(back), abs(a)), one, zero));
  Value odd = orI(below, select(compare(Cmp::Ne, back, a), one, zero));
  return select(isNan(a), nearest, bitcast(odd, f32()));
}

Value VectorMath::asOneInstruction(llvm::function_ref<Value()> build, double instructions) {
  Block* block = b_.getInsertionBlock();
  Block::iterator end = b_.getInsertionPoint();
  Operation* before = end == block->begin() ? nullptr : &*std::prev(end);
  Value result = build();
  Operation* counted = nullptr;
  for (Operation& op : llvm::make_range(before ? std::next(before->getIterator()) : block->begin(), end)) {
    op.setAttr(kPartAttr, b_.getUnitAttr());
    if (!isa<arith::BitcastOp, arith::ConstantOp>(op)) counted = &op;
  }
  if (!counted) return result;
  counted->removeAttr(kPartAttr);
  if (instructions != 1) counted->setAttr(kInstructionsAttr, b_.getF64FloatAttr(instructions));
  return result;
}

Value VectorMath::inPairs(llvm::function_ref<Value()> build) {
  Block* block = b_.getInsertionBlock();
  Block::iterator end = b_.getInsertionPoint();
  Operation* before = end == block->begin() ? nullptr : &*std::prev(end);
  Value result = build();
  for (Operation& op : llvm::make_range(before ? std::next(before->getIterator()) : block->begin(), end))
    op.setAttr(kPairAttr, b_.getUnitAttr());
  return result;
}

Value VectorMath::bf16Bits(Value a) {
  return asOneInstruction([&] { return roundToBf16(a); }, kNarrowConversion);
}
Value VectorMath::roundToBf16(Value a) {
  Value bits = bitcast(a, i32());
  Value odd = andI(shr(bits, 16, false), integer(bits, 1));
  Value rounded = add(add(bits, integer(bits, 0x7fff)), odd);
  // Rounding could carry a NaN's payload away: keep its upper half and make it quiet.
  Value quiet = orI(bits, integer(bits, 0x00400000));
  Value upper = shr(select(isNan(a), quiet, rounded), 16, false);
  return truncate(upper, b_.getI16Type());
}
Value VectorMath::fromBf16Bits(Value bits) {
  return asOneInstruction([&] { return bitcast(shl(extend(bits, i32(), false), 16), f32()); }, kNarrowConversion);
}

Value VectorMath::fp8Bits(Value a, numerics::Fp8Format format) {
  const numerics::detail::Layout layout = numerics::detail::kFp8Layouts[static_cast<int>(format)];
  const int64_t shift = 23 - layout.mantissaBits, rebias = 127 - layout.bias();
  return asOneInstruction([&] {
    Value bits = bitcast(a, i32());
    Value magnitude = bitcast(andI(bits, integer(bits, 0x7fffffff)), f32());
    // Saturation before rounding gives the same codes as after it.
    Value bounded = fastMin(magnitude, num(a, numerics::largestFinite(format)));
    Value boundedBits = bitcast(bounded, i32());
    Value odd = andI(shr(boundedBits, shift, false), integer(bits, 1));
    Value rounded = add(add(boundedBits, integer(bits, (int64_t{1} << (shift - 1)) - 1)), odd);
    Value normal = sub(shr(rounded, shift, false), integer(bits, rebias << layout.mantissaBits));
    // Below the least normal number an addition rounds to multiples of the least denormal.
    const int64_t anchorBits = (rebias + 1 + shift) << 23;
    Value anchor = num(a, std::bit_cast<float>(static_cast<uint32_t>(anchorBits)));
    Value denormal = sub(bitcast(add(bounded, anchor), i32()), integer(bits, anchorBits));
    Value isDenormal = compare(Cmp::Lt, boundedBits, integer(bits, (rebias + 1) << 23));
    Value code = select(isNan(a), integer(bits, 0x7f), select(isDenormal, denormal, normal));
    Value sign = andI(shr(bits, 24, false), integer(bits, 0x80));
    return truncate(orI(code, sign), b_.getI8Type());
  });
}

Value VectorMath::fromFp8Bits(Value stored, numerics::Fp8Format format) {
  const numerics::detail::Layout layout = numerics::detail::kFp8Layouts[static_cast<int>(format)];
  const int64_t shift = 23 - layout.mantissaBits, rebias = 127 - layout.bias();
  return asOneInstruction([&] {
    Value bits = extend(stored, i32(), false);
    Value magnitude = andI(bits, integer(bits, 0x7f));
    Value aligned = shl(magnitude, shift);
    Value normal = add(aligned, integer(bits, rebias << 23));
    const auto least = static_cast<uint32_t>((rebias + 1 - layout.mantissaBits) << 23);
    Value tiny = toFloat(magnitude, f32(), true);
    tiny = bitcast(mul(tiny, num(tiny, std::bit_cast<float>(least))), i32());
    Value isTiny = compare(Cmp::Lt, magnitude, integer(bits, int64_t{1} << layout.mantissaBits));
    Value special = orI(aligned, integer(bits, 0x7f800000));
    Value isSpecial = compare(Cmp::Gt, magnitude, integer(bits, layout.maxFinite));
    Value value = select(isSpecial, special, select(isTiny, tiny, normal));
    return bitcast(orI(value, shl(andI(bits, integer(bits, 0x80)), 24)), f32());
  });
}

}  // namespace hpu::kernels
