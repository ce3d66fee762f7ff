// SPDX-License-Identifier: Apache-2.0
// Plain arithmetic, comparisons and conversions.
#include "compiler/kernels/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

Type elementOf(Value x) {
  return getElementTypeOrSelf(x.getType());
}
bool isFloat(Value x) {
  return isa<FloatType>(elementOf(x));
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
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(scalar));
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
  TypedAttr attr =
      IntegerAttr::get(integerType, APInt(width, static_cast<uint64_t>(value), false, true));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(attr));
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

Value VectorMath::divF(Value a, Value b) {
  return arith::DivFOp::create(b_, loc_, a, b);
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
Value VectorMath::shl(Value a, int64_t bits) {
  return arith::ShLIOp::create(b_, loc_, a, integer(a, bits));
}
Value VectorMath::shr(Value a, int64_t bits, bool isSigned) {
  if (isSigned) return arith::ShRSIOp::create(b_, loc_, a, integer(a, bits));
  return arith::ShRUIOp::create(b_, loc_, a, integer(a, bits));
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
  return arith::CmpIOp::create(
      b_, loc_, (isSigned ? signedKinds : unsignedKinds)[static_cast<int>(kind)], a, b);
}
Value VectorMath::isNan(Value a) {
  return arith::CmpFOp::create(b_, loc_, arith::CmpFPredicate::UNO, a, a);
}
Value VectorMath::max(Value a, Value b, bool isSigned) {
  Value larger = select(compare(Cmp::Gt, a, b, isSigned), a, b);
  return isFloat(a) ? select(isNan(a), a, larger) : larger;
}
Value VectorMath::min(Value a, Value b, bool isSigned) {
  Value smaller = select(compare(Cmp::Lt, a, b, isSigned), a, b);
  return isFloat(a) ? select(isNan(a), a, smaller) : smaller;
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
Value VectorMath::extendF(Value a, Type element) {
  return arith::ExtFOp::create(b_, loc_, shaped(a, element), a);
}
Value VectorMath::truncateF(Value a, Type element) {
  return arith::TruncFOp::create(b_, loc_, shaped(a, element), a);
}

Value VectorMath::bf16Bits(Value a) {
  Value bits = bitcast(a, i32());
  Value odd = andI(shr(bits, 16, false), integer(bits, 1));
  Value rounded = add(add(bits, integer(bits, 0x7fff)), odd);
  // Rounding could carry a NaN's payload away: keep its upper half and make it quiet.
  Value quiet = orI(bits, integer(bits, 0x00400000));
  Value upper = shr(select(isNan(a), quiet, rounded), 16, false);
  return truncate(upper, b_.getI16Type());
}
Value VectorMath::fromBf16Bits(Value bits) {
  return bitcast(shl(extend(bits, i32(), false), 16), f32());
}

}  // namespace hpu::kernels
