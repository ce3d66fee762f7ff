// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/ElementwiseOps.h"

#include <algorithm>
#include <cmath>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/ResizeCoordinates.h"
#include "compiler/kernels/KernelGraph.h"
#include "llvm/ADT/DenseMap.h"
#include "numerics/ElementKinds.h"

using namespace mlir;

MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::SubOfRounded)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::ExpOrZero)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::GatherIndex)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::GatherIndexOf)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::SortKey)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeCoordinate)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeNearest)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeLow)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeFraction)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeHigh)
MLIR_DEFINE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeWeight)

namespace hpu::kernels {
using namespace ir;
namespace {

using M = VectorMath;
using Cmp = VectorMath::Cmp;
using Args = llvm::ArrayRef<Value>;
using Context = ElementwiseContext;

Value clamp(M& m, Value x, Value low, Value high) {
  return m.fastMin(high, m.fastMax(low, x));
}

/// `value` as a number of x's type; of an integer type the nearest one towards the inside of a range.
Value bound(M& m, Value x, double value, bool isLow, ElementType type) {
  if (isFloatType(type)) return m.num(x, value);
  int bits = static_cast<int>(elementSize(type)) * 8;
  bool isSigned = isSignedType(type);
  int64_t low = isSigned ? (bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1))) : 0;
  int64_t high = isSigned ? (bits == 64 ? INT64_MAX : (int64_t{1} << (bits - 1)) - 1)
                          : (bits == 64 ? -1 : static_cast<int64_t>((uint64_t{1} << bits) - 1));
  value = isLow ? std::ceil(value) : std::floor(value);
  if (!(value > static_cast<double>(low))) return m.integer(x, low);
  double top = isSigned || bits < 64 ? static_cast<double>(high) : 18446744073709551615.0;
  if (value >= top) return m.integer(x, high);
  return m.integer(x, value < 0 ? static_cast<int64_t>(value) : static_cast<int64_t>(static_cast<uint64_t>(value)));
}

Value clip(M& m, Args x, const Context& c) {
  Value low = bound(m, x[0], c.params[0], true, c.in), high = bound(m, x[0], c.params[1], false, c.in);
  if (isFloatType(c.in)) return clamp(m, x[0], low, high);
  bool isSigned = isSignedType(c.in);
  return m.min(m.max(x[0], low, isSigned), high, isSigned);
}

Value cast(M& m, Args x, const Context& c) {
  Value v = x[0];
  MLIRContext* context = v.getContext();
  bool fromFloat = isFloatType(c.in), toFloat = isFloatType(c.out);
  if (fromFloat && toFloat) {
    // A cast rounds, although values stay f32 inside a kernel.
    if (c.out == c.in) return v;
    if (c.out == ElementType::kF64) return m.extendF(v, m.f64());
    if (c.in == ElementType::kF64) v = c.out == ElementType::kF32 ? m.truncateF(v, m.f32()) : m.roundToOdd(v);
    if (c.out == ElementType::kF32) return v;
    if (numerics::isFp8(c.out)) {
      numerics::Fp8Format format = numerics::fp8Format(c.out);
      return m.fromFp8Bits(m.fp8Bits(v, format), format);
    }
    if (c.out == ElementType::kBF16) return m.fromBf16Bits(m.bf16Bits(v));
    return m.extendF(m.truncateF(v, Float16Type::get(context)), m.f32());
  }
  Type to = computeType(context, c.out);
  if (c.out == ElementType::kBool) return m.compare(Cmp::Ne, v, fromFloat ? m.num(v, 0.0) : m.integer(v, 0));
  if (fromFloat) return m.toIntSaturating(v, to, isSignedType(c.out));
  if (toFloat) {
    Value converted = m.toFloat(v, computeType(context, c.out), isSignedType(c.in));
    if (c.out == computedAs(c.out)) return converted;
    Value rounded = converted;
    return cast(m, {rounded}, {ElementType::kF32, c.out, {}});
  }
  return m.resizeInt(v, to, isSignedType(c.in));
}

/// Of the f32 that stands for a narrower float: its bits once rounded.
Value bitcast(M& m, Args x, const Context& c) {
  Value v = x[0];
  MLIRContext* context = v.getContext();
  if (isFloatType(c.in)) {
    if (numerics::isFp8(c.in))
      v = m.fp8Bits(v, numerics::fp8Format(c.in));
    else if (c.in == ElementType::kBF16)
      v = m.bf16Bits(v);
    else if (c.in == ElementType::kF16)
      v = m.bitcast(m.truncateF(v, Float16Type::get(context)), IntegerType::get(context, 16));
    else
      v = m.bitcast(v, c.in == ElementType::kF64 ? m.i64() : m.i32());
  }
  if (!isFloatType(c.out)) return v;
  if (c.out == ElementType::kF64) return m.bitcast(v, m.f64());
  if (numerics::isFp8(c.out)) return m.fromFp8Bits(v, numerics::fp8Format(c.out));
  if (c.out == ElementType::kBF16) return m.fromBf16Bits(v);
  if (c.out == ElementType::kF16) return m.extendF(m.bitcast(v, Float16Type::get(context)), m.f32());
  return m.bitcast(v, m.f32());
}

Value sign(M& m, Args x, const Context& c) {
  Value v = x[0];
  if (!isFloatType(c.in)) {
    Value zero = m.integer(v, 0), one = m.integer(v, 1);
    Value positive = m.select(m.compare(Cmp::Gt, v, zero, isSignedType(c.in)), one, zero);
    return m.select(m.compare(Cmp::Lt, v, zero, isSignedType(c.in)), m.integer(v, -1), positive);
  }
  Value zero = m.num(v, 0.0);
  // NaN stays, and of either zero 0 without a sign is left, as in NumPy and PyTorch.
  Value negative = m.select(m.compare(Cmp::Lt, v, zero), m.num(v, -1.0), m.add(v, zero));
  return m.select(m.compare(Cmp::Gt, v, zero), m.num(v, 1.0), negative);
}

Value elu(M& m, Args x, const Context& c) {
  Value zero = m.num(x[0], 0.0);
  Value negative = m.mul(m.num(x[0], c.params[0]), m.expm1(m.fastMin(zero, x[0])));
  return m.select(m.compare(Cmp::Lt, x[0], zero), negative, x[0]);
}

template <Cmp kind>
Value compare(M& m, Args x, const Context& c) {
  return m.compare(kind, x[0], x[1], isSignedType(c.in));
}

/// LLVM's shifts are undefined by as many bits as there are, or more.
Value shift(M& m, Args x, const Context& c, bool left) {
  int64_t bits = elementSize(c.in) * 8;
  Value zero = m.integer(x[1], 0);
  Value inside = m.compare(Cmp::Lt, x[1], m.integer(x[1], bits), false);  // Negative ones are large.
  Value amount = m.select(inside, x[1], zero);
  Value shifted = left ? m.shl(x[0], amount) : m.shr(x[0], amount, isSignedType(c.in));
  return m.select(inside, shifted, zero);
}

/// The position along an axis that a gather reads: negative ones count from the end, and what is
/// outside is clamped, so that nothing outside the operand is ever read.
Value gatherIndex(M& m, Args x, const Context& c) {
  Value index = m.extend(x[0], m.i64(), true);
  auto size = static_cast<int64_t>(c.params[0]);
  Value wrapped = m.select(m.compare(Cmp::Lt, index, m.integer(index, 0)), m.add(index, m.integer(index, size)), index);
  Value low = m.max(wrapped, m.integer(wrapped, 0));
  return m.min(low, m.integer(low, size - 1));
}

Value gatherIndexOf(M& m, Args x, const Context&) {
  Value index = m.extend(x[0], m.i64(), true), size = x[1];
  Value wrapped = m.select(m.compare(Cmp::Lt, index, m.integer(index, 0)), m.add(index, size), index);
  Value low = m.max(wrapped, m.integer(wrapped, 0));
  return m.min(low, x[2]);
}

/// The bits of a float, those of negative numbers turned round, order as the floats do. Only integers are compared:
/// what denormals count as makes no difference.
Value sortKey(M& m, Args x, const Context& c) {
  Value key = x[0];
  if (isFloatType(c.in)) {
    const bool isWide = c.in == ElementType::kF64;
    const int64_t largest = isWide ? INT64_MAX : INT32_MAX;
    const int64_t infinity = isWide ? int64_t{0x7ff0} << 48 : int64_t{0x7f800000};
    Value bits = m.bitcast(x[0], isWide ? m.i64() : m.i32()), magnitude = m.andI(bits, m.integer(bits, largest));
    key = m.select(m.compare(Cmp::Lt, bits, m.integer(bits, 0)), m.sub(m.integer(bits, 0), magnitude), bits);
    key = m.select(m.compare(Cmp::Gt, magnitude, m.integer(bits, infinity)), m.integer(bits, largest), key);
  }
  return c.params[0] != 0 ? key : m.xorI(key, m.integer(key, -1));
}

Value coordinateOf(M& m, Args x, const Context& c) {
  Value position = m.toFloat(x[0], m.f32(), true), in = m.toFloat(x[1], m.f32(), true),
        out = m.toFloat(x[2], m.f32(), true);
  auto num = [&](double value) { return m.num(position, value); };
  Value factor = c.params[1] == 0 ? m.divF(out, in) : num(c.params[1]);
  auto halfPixel = [&] { return m.sub(m.divF(m.add(position, num(0.5)), factor), num(0.5)); };
  auto ofSeveral = [&](Value value) { return m.select(m.compare(Cmp::Gt, x[2], m.integer(x[2], 1)), value, num(0)); };
  switch (static_cast<CoordMode>(static_cast<int64_t>(c.params[0]))) {
    case CoordMode::half_pixel:
      return halfPixel();
    case CoordMode::pytorch_half_pixel:
      return ofSeveral(halfPixel());
    case CoordMode::align_corners: {
      auto before = [&](Value size) { return m.toFloat(m.sub(size, m.integer(size, 1)), m.f32(), true); };
      return ofSeveral(m.divF(m.mul(position, before(x[1])), before(x[2])));
    }
    case CoordMode::asymmetric:
      return m.divF(position, factor);
    case CoordMode::half_pixel_symmetric: {
      Value ratio = m.divF(out, m.mul(factor, in));
      Value offset = m.mul(m.mul(in, num(0.5)), m.sub(num(1), ratio));
      mlir::Type f64 = m.builder().getF64Type();
      auto wide = [&](Value value) { return m.extendF(value, f64); };
      Value half = m.num(wide(position), 0.5);
      Value scaled = m.divF(m.add(wide(position), half), wide(factor));
      return m.truncateF(m.sub(m.add(wide(offset), scaled), half), m.f32());
    }
  }
  return position;
}

Value resizeCoordinate(M& m, Args x, const Context& c) {
  return m.inPairs([&] { return coordinateOf(m, x, c); });
}

/// A whole number that is an f32, within [0, last].
Value elementWithin(M& m, Value element, Value last) {
  Value index = m.toInt(element, m.i64());
  return m.max(m.min(index, last), m.integer(index, 0));
}

Value resizeNearest(M& m, Args x, const Context& c) {
  Value low = m.floor(x[0]), element = low;
  auto oneMoreIf = [&](Cmp compare, float limit) {
    Value isAbove = m.compare(compare, m.sub(x[0], low), m.num(low, static_cast<double>(limit)));
    element = m.add(low, m.select(isAbove, m.num(low, 1), m.num(low, 0)));
  };
  switch (static_cast<NearestMode>(static_cast<int64_t>(c.params[0]))) {
    case NearestMode::round_prefer_floor:
      oneMoreIf(Cmp::Gt, 0.5f + ir::kHalfwayTolerance);
      break;
    case NearestMode::round_prefer_ceil:
      oneMoreIf(Cmp::Ge, 0.5f - ir::kHalfwayTolerance);
      break;
    case NearestMode::floor:
      break;
    case NearestMode::ceil:
      element = m.ceil(x[0]);
      break;
  }
  return elementWithin(m, element, x[1]);
}

/// A coordinate within [0, last]. Fractions of f32 numbers are f32 numbers.
Value resizeClamped(M& m, Args x) {
  return m.max(m.min(x[0], m.toFloat(x[1], m.f32(), true)), m.num(x[0], 0));
}
Value resizeLow(M& m, Args x, const Context&) {
  return elementWithin(m, m.floor(resizeClamped(m, x)), x[1]);
}
Value resizeFraction(M& m, Args x, const Context&) {
  Value at = resizeClamped(m, x);
  return m.sub(at, m.floor(at));
}
Value resizeHigh(M& m, Args x, const Context&) {
  return m.select(m.compare(Cmp::Eq, x[1], m.num(x[1], 0)), x[0], m.add(x[0], m.integer(x[0], 1)));
}
Value resizeWeight(M& m, Args x, const Context&) {
  return m.select(m.compare(Cmp::Eq, x[0], m.num(x[0], 0)), m.num(x[0], 0.5), x[0]);
}

constexpr Domain F = Domain::Float, N = Domain::Number, B = Domain::Bool, I = Domain::Integer;

// clang-format off
#define EMIT [](M & m, Args x, const Context& c) -> Value
llvm::ArrayRef<ElementwiseOp> rows() {
  static const ElementwiseOp kOps[] = {
    {kind<ReluOp>(), 1, N, false, EMIT {
       if (isFloatType(c.in)) return m.fastMax(m.num(x[0], 0.0), x[0]);
       return m.max(x[0], m.integer(x[0], 0), isSignedType(c.in));
     }},
    {kind<SigmoidOp>(), 1, F, true, EMIT { return m.sigmoid(x[0]); }},
    {kind<TanhOp>(), 1, F, true, EMIT { return m.tanh(x[0]); }},
    {kind<ErfOp>(), 1, F, true, EMIT { return m.erf(x[0]); }},
    {kind<ExpOp>(), 1, F, true, EMIT { return m.exp(x[0]); }},
    {kind<LogOp>(), 1, F, true, EMIT { return m.log(x[0]); }},
    {kind<SqrtOp>(), 1, F, true, EMIT { return m.sqrt(x[0]); }},
    {kind<RsqrtOp>(), 1, F, true, EMIT { return m.divF(m.num(x[0], 1.0), m.sqrt(x[0])); }},
    {kind<ReciprocalOp>(), 1, F, true, EMIT { return m.divF(m.num(x[0], 1.0), x[0]); }},
    {kind<NegOp>(), 1, N, false, EMIT { return m.neg(x[0]); }},
    {kind<AbsOp>(), 1, N, false, EMIT {
       return isFloatType(c.in) || isSignedType(c.in) ? m.abs(x[0]) : x[0];
     }},
    {kind<FloorOp>(), 1, F, false, EMIT { return m.floor(x[0]); }},
    {kind<CeilOp>(), 1, F, false, EMIT { return m.ceil(x[0]); }},
    {kind<RoundOp>(), 1, F, false, EMIT { return m.roundEven(x[0]); }},
    {kind<SinOp>(), 1, F, true, EMIT { return m.sin(x[0]); }},
    {kind<CosOp>(), 1, F, true, EMIT { return m.cos(x[0]); }},
    {kind<AtanOp>(), 1, F, true, EMIT { return m.atan(x[0]); }},
    {kind<Expm1Op>(), 1, F, true, EMIT {
       return m.expm1(m.fastMin(m.num(x[0], c.in == ElementType::kF64 ? 710.0 : 89.0), x[0]));
     }},
    {kind<Log1pOp>(), 1, F, true, EMIT { return m.log1p(x[0]); }},
    {kind<ErfInvOp>(), 1, F, true, EMIT { return m.erfInv(x[0]); }},
    {kind<LgammaOp>(), 1, F, true, EMIT { return m.lgamma(x[0]); }},
    {kind<SoftplusOp>(), 1, F, true, EMIT { return m.softplus(x[0]); }},
    {kind<SiluOp>(), 1, F, true, EMIT { return m.mul(x[0], m.sigmoid(x[0])); }},
    {kind<HardSwishOp>(), 1, F, false, EMIT {
       Value gate = m.fma(x[0], m.num(x[0], 1.0 / 6.0), m.num(x[0], 0.5));
       return m.mul(x[0], clamp(m, gate, m.num(x[0], 0.0), m.num(x[0], 1.0)));
     }},
    {kind<SignOp>(), 1, N, false, sign},
    {kind<NotOp>(), 1, B, false, EMIT { return m.xorI(x[0], m.integer(x[0], 1)); }},
    {kind<BitNotOp>(), 1, I, false, EMIT { return m.xorI(x[0], m.integer(x[0], -1)); }},
    {kind<IsNanOp>(), 1, F, false, EMIT { return m.isNan(x[0]); }},
    {kind<LeakyReluOp>(), 1, F, false, EMIT {
       Value scaled = m.mul(x[0], m.num(x[0], c.params[0]));
       return m.select(m.compare(Cmp::Lt, x[0], m.num(x[0], 0.0)), scaled, x[0]);
     }, {"alpha"}},
    {kind<EluOp>(), 1, F, true, elu, {"alpha"}},
    {kind<HardSigmoidOp>(), 1, F, false, EMIT {
       Value line = m.fma(x[0], m.num(x[0], c.params[0]), m.num(x[0], c.params[1]));
       return clamp(m, line, m.num(x[0], 0.0), m.num(x[0], 1.0));
     }, {"alpha", "beta"}},
    {kind<ClipOp>(), 1, N, false, clip, {"min", "max"}},
    {kind<GeluOp>(), 1, F, true, EMIT { return c.params[0] != 0 ? m.geluTanh(x[0]) : m.gelu(x[0]); },
     {"tanh_approximation"}},
    {kind<CastOp>(), 1, Domain::Any, false, cast},
    {kind<BitcastOp>(), 1, Domain::Any, false, bitcast},
    {kind<AddOp>(), 2, N, false, EMIT { return m.add(x[0], x[1]); }},
    {kind<SubOp>(), 2, N, false, EMIT { return m.sub(x[0], x[1]); }},
    {kind<MulOp>(), 2, N, false, EMIT { return m.mul(x[0], x[1]); }},
    {kind<DivOp>(), 2, N, true, EMIT {
       return isFloatType(c.in) ? m.divF(x[0], x[1]) : m.divInt(x[0], x[1], isSignedType(c.in));
     }},
    {kind<PowOp>(), 2, N, true, EMIT {
       return isFloatType(c.in) ? m.pow(x[0], x[1]) : m.powInt(x[0], x[1], isSignedType(c.in));
     }},
    {kind<MaxOp>(), 2, N, false, EMIT { return m.max(x[0], x[1], isSignedType(c.in)); }},
    {kind<MinOp>(), 2, N, false, EMIT { return m.min(x[0], x[1], isSignedType(c.in)); }},
    {kind<ModOp>(), 2, N, true, EMIT {
       return isFloatType(c.in) ? m.fmod(x[0], x[1]) : m.modInt(x[0], x[1], isSignedType(c.in));
     }},
    {kind<PreluOp>(), 2, F, false, EMIT {
       return m.select(m.compare(Cmp::Lt, x[0], m.num(x[0], 0.0)), m.mul(x[0], x[1]), x[0]);
     }},
    {kind<AndOp>(), 2, B, false, EMIT { return m.andI(x[0], x[1]); }},
    {kind<OrOp>(), 2, B, false, EMIT { return m.orI(x[0], x[1]); }},
    {kind<XorOp>(), 2, B, false, EMIT { return m.xorI(x[0], x[1]); }},
    {kind<BitAndOp>(), 2, I, false, EMIT { return m.andI(x[0], x[1]); }},
    {kind<BitOrOp>(), 2, I, false, EMIT { return m.orI(x[0], x[1]); }},
    {kind<BitXorOp>(), 2, I, false, EMIT { return m.xorI(x[0], x[1]); }},
    {kind<ShiftLeftOp>(), 2, I, false, EMIT { return shift(m, x, c, true); }},
    {kind<ShiftRightOp>(), 2, I, false, EMIT { return shift(m, x, c, false); }},
    {kind<EqualOp>(), 2, Domain::Any, false, compare<Cmp::Eq>},
    {kind<LessOp>(), 2, N, false, compare<Cmp::Lt>},
    {kind<LessEqualOp>(), 2, N, false, compare<Cmp::Le>},
    {kind<GreaterOp>(), 2, N, false, compare<Cmp::Gt>},
    {kind<GreaterEqualOp>(), 2, N, false, compare<Cmp::Ge>},
    {kind<WhereOp>(), 3, Domain::Any, false, EMIT { return m.select(x[0], x[1], x[2]); }},
    {kind<SubOfRounded>(), 2, F, false, EMIT { return m.subOfRounded(x[0], x[1]); }},
    {kind<ExpOrZero>(), 1, F, true, EMIT { return m.expOrZero(x[0]); }},
    {kind<GatherIndex>(), 1, I, false, gatherIndex},
    {kind<GatherIndexOf>(), 3, I, false, gatherIndexOf},
    {kind<SortKey>(), 1, N, false, sortKey},
    {kind<ResizeCoordinate>(), 3, I, false, resizeCoordinate},
    {kind<ResizeNearest>(), 2, F, false, resizeNearest},
    {kind<ResizeLow>(), 2, F, false, resizeLow},
    {kind<ResizeFraction>(), 2, F, false, resizeFraction},
    {kind<ResizeHigh>(), 2, I, false, resizeHigh},
    {kind<ResizeWeight>(), 1, F, false, resizeWeight},
  };
  return kOps;
}
#undef EMIT
// clang-format on

}  // namespace

const ElementwiseOp* findElementwise(TypeID op) {
  static const auto& table = []() -> auto& {
    auto& map = *new llvm::DenseMap<TypeID, const ElementwiseOp*>;
    for (const ElementwiseOp& row : rows()) map[row.op] = &row;
    return map;
  }();
  return table.lookup(op);
}

Type computeType(MLIRContext* context, ElementType type) {
  if (type == ElementType::kF64) return Float64Type::get(context);
  if (isFloatType(type)) return Float32Type::get(context);
  if (type == ElementType::kBool) return IntegerType::get(context, 1);
  return IntegerType::get(context, static_cast<unsigned>(elementSize(type)) * 8);
}

ElementType computedAs(ElementType type) {
  return isFloatType(type) && type != ElementType::kF64 ? ElementType::kF32 : type;
}
bool isFloatType(ElementType type) {
  return numerics::isFloat(type);
}
bool isSignedType(ElementType type) {
  return type == ElementType::kI8 || type == ElementType::kI16 || type == ElementType::kI32 ||
         type == ElementType::kI64;
}
bool isKernelType(ElementType type) {
  return type != ElementType::kInvalid;
}

}  // namespace hpu::kernels
