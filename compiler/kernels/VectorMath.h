// SPDX-License-Identifier: Apache-2.0
// Arithmetic on scalars and one-dimensional vectors alike, and the transcendental functions made of
// it. The one thing to know: each method takes values of one shape (all scalar or all vectors of
// one length) and emits arith/math ops only, so a kernel never calls a library.
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "numerics/SmallFloat.h"

namespace hpu::kernels {

/// Marks ops that are parts of one TPC instruction: the cost walk counts the group once.
inline constexpr llvm::StringLiteral kPartAttr = "hpu.part_of_instruction";
/// Of the op that stands for such a group: instructions for each register of 64 lanes (f64), if not 1.
inline constexpr llvm::StringLiteral kInstructionsAttr = "hpu.instructions";

/// Of ops on f64 that stand for the digits beyond f32's of a function of f32: a TPC has them in a second f32, as one
/// more register. Other f64 is emulated (KernelCost.cpp).
inline constexpr llvm::StringLiteral kPairAttr = "hpu.pair_of_f32";

/// One instruction converts a whole register of 16-bit floats, two of f32 (v_convert_bf16_to_f32_all_b and its like).
inline constexpr double kNarrowConversion = 0.5;

/// As do sums of products of 16-bit floats (v_bf16_mac_acc32_b) and their maximum.
inline constexpr double kNarrowReduction = 0.5;

/// x / c on a TPC where c is one number for all lanes, so that its reciprocal is made once: the product with that, what
/// it leaves of x, that times the reciprocal added (two multiply-adds: the quotient as IEEE 754 rounds it, if it is a
/// normal number), and the choice of the first product where that is not finite (two). The host divides.
inline constexpr double kUniformDivision = 5;

/// Emits at the builder's insertion point. Constants are made once a function, at `entry`'s start.
/// Relative errors are stated for finite results that are normal numbers; NaN gives NaN.
class VectorMath {
 public:
  using Value = mlir::Value;
  using Type = mlir::Type;
  VectorMath(mlir::OpBuilder& builder, mlir::Location loc, mlir::Block* entry)
      : b_(builder), loc_(loc), entry_(entry) {}

  mlir::OpBuilder& builder() { return b_; }
  mlir::Location loc() const { return loc_; }

  // ---- Constants and types ----
  Type f32() { return b_.getF32Type(); }
  Type f64() { return b_.getF64Type(); }
  Type i32() { return b_.getI32Type(); }
  Type i64() { return b_.getI64Type(); }
  /// `element` in the shape of `like`'s type.
  Type shaped(Value like, Type element);
  Value constant(Type type, double value);
  Value constantInt(Type type, int64_t value);
  /// A constant of x's type.
  Value num(Value x, double value);
  Value integer(Value x, int64_t value) { return constantInt(x.getType(), value); }
  /// A vector <0, 1, 2, ...> * step of integers.
  Value iota(Type vectorType, int64_t step = 1);
  /// The scalar in all lanes; `x` itself when it is a vector already.
  Value broadcast(Value x, int64_t lanes);

  // ---- Arithmetic; integers and floats by the operand's type ----
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  /// Of floats, with `a` rounded before: never one instruction with the product that `a` may be.
  Value subOfRounded(Value a, Value b);
  Value mul(Value a, Value b);
  /// Rounded as IEEE 754 does it. By one number for all lanes it costs less (kUniformDivision), by a constant
  /// power of two a product.
  Value divF(Value a, Value b);
  Value fma(Value a, Value b, Value c);
  Value neg(Value a);
  Value abs(Value a);
  Value sqrt(Value a);
  Value floor(Value a);
  Value ceil(Value a);
  Value trunc(Value a);
  Value roundEven(Value a);
  Value andI(Value a, Value b);
  Value orI(Value a, Value b);
  Value xorI(Value a, Value b);
  Value shl(Value a, int64_t bits);
  Value shr(Value a, int64_t bits, bool isSigned);
  /// Amounts must be less than the width.
  Value shl(Value a, Value bits);
  Value shr(Value a, Value bits, bool isSigned);
  Value select(Value condition, Value a, Value b);
  enum class Cmp { Eq, Ne, Lt, Le, Gt, Ge };
  /// Ordered comparison (false with NaN, except Ne).
  Value compare(Cmp kind, Value a, Value b, bool isSigned = true);
  Value isNan(Value a);
  /// NaN if either is.
  Value max(Value a, Value b, bool isSigned = true);
  Value min(Value a, Value b, bool isSigned = true);
  /// a where it is larger, else b: one instruction; the second operand wins with NaN.
  Value fastMax(Value a, Value b) { return select(compare(Cmp::Gt, a, b), a, b); }
  Value fastMin(Value a, Value b) { return select(compare(Cmp::Lt, a, b), a, b); }
  /// Integer division that truncates; x / 0 is 0 and nothing traps.
  Value divInt(Value a, Value b, bool isSigned);
  /// Remainder of divInt with the sign of b; x mod 0 is 0.
  Value modInt(Value a, Value b, bool isSigned);

  /// a^b, which wraps; of a negative b what is left of a fraction, and of 0 too.
  Value powInt(Value a, Value b, bool isSigned);

  // ---- Conversions ----
  Value bitcast(Value a, Type element);
  Value extend(Value a, Type element,
               bool isSigned);            ///< Integer to a wider (or the same) integer.
  Value truncate(Value a, Type element);  ///< Integer to a narrower (or the same) integer.
  Value resizeInt(Value a, Type element, bool isSigned);
  Value toFloat(Value a, Type element, bool isSigned);  ///< Integer to float.
  /// Float to signed integer, towards zero; undefined outside its range.
  Value toInt(Value a, Type element);
  /// Towards zero; what is beyond the integer type becomes its largest or least number, NaN 0.
  Value toIntSaturating(Value a, Type element, bool isSigned);
  Value extendF(Value a, Type element);
  Value truncateF(Value a, Type element);
  /// An f64 as the f32 at or below its magnitude, with an odd last bit if that is not it: rounding this once more, to a
  /// type with at most 22 bits, gives what rounding the f64 gives.
  Value roundToOdd(Value a);
  /// The 16 upper bits after rounding to nearest even, as i16; NaN stays NaN.
  Value bf16Bits(Value a);
  Value fromBf16Bits(Value bits);
  /// The i8 code of an fp8 format after rounding to nearest even; beyond the largest finite value comes that
  /// value (so do infinities), NaN is 0x7f. As numerics::f32ToFp8, in any mode of denormals.
  Value fp8Bits(Value a, numerics::Fp8Format format);
  Value fromFp8Bits(Value bits, numerics::Fp8Format format);

  /// What a TPC does in so many instructions for each register of 64 lanes; what `build` emits is how the host does it.
  Value asOneInstruction(llvm::function_ref<Value()> build, double instructions = 1);

  /// What `build` computes in f64 a TPC computes in pairs of f32 (kPairAttr).
  Value inPairs(llvm::function_ref<Value()> build);

  // ---- Functions: errors are those of f32; of f64 they are 4e-15 (lgamma: 2e-14; gelu: absolute,
  // 1e-16 * max(1, |x|)) ----
  Value exp(Value x);  ///< 2e-7.
  /// For less; results below 2^-126 are 0, as sums with 1 and products with moderate numbers may have them.
  Value expOrZero(Value x);
  Value expm1(Value x);    ///< 3e-7, also near 0; for x <= 89.
  Value log1p(Value x);    ///< 4e-7, also near 0.
  Value atan(Value x);     ///< 3e-7.
  Value erfInv(Value x);   ///< 1e-6.
  Value lgamma(Value x);   ///< 1e-6, or absolute 3e-6 (4e-6 below 1/2) where it is small.
  Value log(Value x);      ///< 2e-7; log(0) = -inf, of negative numbers NaN.
  Value tanh(Value x);     ///< 4e-7.
  Value sigmoid(Value x);  ///< 4e-7.
  Value erf(Value x);      ///< 4e-7.
  /// x * Phi(x); absolute error 2e-7 * max(1, |x|) above -7, 4e-12 below.
  Value gelu(Value x);
  Value geluTanh(Value x);
  Value sin(Value x);  ///< 2e-7, at every x; of infinities NaN.
  Value cos(Value x);  ///< As sin.
  Value softplus(Value x);
  Value pow(Value x, Value y);   ///< 1e-6; C's rules for 0, 1, infinities and negative bases.
  Value fmod(Value x, Value y);  ///< Exact.

 private:
  Value roundToBf16(Value a);
  /// x's sign as a bit of i32.
  Value signBit(Value x);
  /// y; x where that is 0, of either sign.
  Value keepZero(Value x, Value y);
  Value horner(Value x, std::initializer_list<double> coefficients);
  /// r and 2^n / 2 with e^x = e^r * 2^n, for -87.3 <= x <= 88.73.
  struct Reduced {
    Value r, halfScale;
  };
  Reduced reduceExp(Value x);
  /// For less still: what is below 2^-126 is about that.
  Value expAtLeastTiny(Value x);
  /// x - n ln 2.
  Value expRemainder(Value x, Value n);
  Value expPolynomial(Value r);
  /// erfc(|x|) = exp(-result): the exponent with its sign flipped, |x| up to 5.
  Value erfcExponent(Value absX);
  Value sinOrCos(Value x, bool cosine);
  Value narrowSinOrCos(Value x, bool cosine);
  Value narrowPow(Value x, Value y);
  Value narrowFmod(Value x, Value y);

  // ---- f64 (WideFunctions.cpp) ----
  struct WideReduced {
    Value n, r;  ///< x = n ln 2 + r.
  };
  WideReduced wideReduceExp(Value x);
  struct WideParts {
    Value mantissa, exponent;
  };
  WideParts widePartsOf(Value x);
  Value wideExpm1Polynomial(Value r);
  Value wideExp(Value x);
  Value wideExpm1(Value x);
  Value wideLog(Value x);
  Value wideErfcExponent(Value t);
  Value wideErf(Value x);
  Value wideErfInv(Value x);
  Value wideGelu(Value x);
  Value wideAtan(Value x);
  /// x - n pi / 2 with |r| <= pi / 4 and n modulo 4, for |x| of 2^30 and more, exact but for r's rounding.
  struct Quarters {
    Value r, n;
  };
  static constexpr int64_t kLargeExponent = 1023 + 30;  ///< As an f64 stores that of 2^30.
  Quarters quartersOfLarge(Value x);
  Value wideSinOrCos(Value x, bool cosine);
  Value wideLgamma(Value x);
  Value widePow(Value x, Value y);
  Value wideFmod(Value x, Value y);

  mlir::OpBuilder& b_;
  mlir::Location loc_;
  mlir::Block* entry_;
  llvm::DenseMap<mlir::Attribute, Value> constants_;
};

}  // namespace hpu::kernels
