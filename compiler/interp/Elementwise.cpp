// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: floats are computed in double and rounded once, integers in 64 bits and wrapped.
#include <cmath>
#include <limits>

#include "base/Format.h"
#include "base/Parallel.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/Elements.h"
#include "compiler/interp/Kernels.h"

namespace hpu::interp {
namespace {

using namespace hpu::ir;
using mlir::Operation;
using Inputs = llvm::ArrayRef<Tensor>;

constexpr int64_t kBlock = 512;  // Elements of a row that are widened at a time.

/// Computes a block: args[k][i] is operand k's element, out[i] the result.
template <typename W, typename R>
using BlockFn = base::FunctionRef<void(const W* const* args, R* out, int64_t count)>;

/// Walks the broadcast operands row by row and calls `fn` on blocks of a row.
template <typename W, typename R>
void mapBlocks(Inputs inputs, Tensor& out, BlockFn<W, R> fn) {
  const Shape& shape = out.shape();
  int64_t rank = out.rank();
  int64_t row = rank ? shape.back() : 1;
  int64_t rows = row ? out.count() / row : 0;
  // One long row when nothing is broadcast.
  bool flat = llvm::all_of(inputs, [&](const Tensor& t) { return t.shape() == shape; });
  if (flat) {
    row = out.count();
    rows = row ? 1 : 0;
  }
  std::vector<std::vector<int64_t>> strides;
  for (const Tensor& input : inputs)
    strides.push_back(flat ? std::vector<int64_t>() : broadcastStrides(input.shape(), shape));
  int64_t blocks = (row + kBlock - 1) / kBlock;
  uint8_t* result = out.writable();
  base::parallelFor(rows * blocks, 64, [&](int64_t begin, int64_t end) {
    std::vector<W> scratch(inputs.size() * kBlock);
    R values[kBlock];
    std::vector<const W*> args(inputs.size());
    for (int64_t index = begin; index < end; ++index) {
      int64_t r = index / blocks, first = index % blocks * kBlock, count = std::min(kBlock, row - first);
      for (size_t k = 0; k < inputs.size(); ++k) {
        int64_t offset = first, stride = 1;
        if (!flat && rank) {
          stride = strides[k][rank - 1];
          offset = first * stride;
          int64_t rest = r;
          for (int64_t d = rank - 1; d-- > 0;) {
            offset += rest % shape[d] * strides[k][d];
            rest /= shape[d];
          }
        }
        W* wide = scratch.data() + k * kBlock;
        loadElements(inputs[k].element(), inputs[k].data(), offset, stride, count, wide);
        args[k] = wide;
      }
      fn(args.data(), values, count);
      storeElements(out.element(), result, r * row + first, values, count);
    }
  });
}

template <typename W, typename R = W, typename Fn>
StatusOr<Tensor> map(ElementType element, Inputs inputs, const Fn& fn) {
  std::optional<Shape> shape = broadcast(inputs);
  if (!shape) return invalidArgument("operands do not broadcast");
  StatusOr<Tensor> out = makeTensor(element, *shape);
  if (out.ok()) mapBlocks<W, R>(inputs, *out, fn);
  return out;
}

// ---- one operand -------------------------------------------------------------------------------

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}
double clamp(double x, double low, double high) {
  if (x < low) x = low;
  return x > high ? high : x;
}

/// Newton's iteration on erf (close to 1 on erfc, which has digits there), from an approximation that is good to three.
double erfInv(double x) {
  const double size = std::fabs(x), rest = 1 - size;
  if (size >= 1) return size == 1 ? x * INFINITY : NAN;
  const double log = std::log1p(-x * x), a = 2 / (M_PI * 0.147) + log / 2;
  double y = std::sqrt(std::max(std::sqrt(a * a - log / 0.147) - a, 0.0));
  for (int i = 0; i < 5; ++i) {
    const double missing = size > 0.5 ? std::erfc(y) - rest : size - std::erf(y);
    y += missing / (M_2_SQRTPI * std::exp(-y * y));
  }
  return std::copysign(y, x);
}
double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

template <typename Op>
mlir::TypeID kind() {
  return mlir::TypeID::get<Op>();
}

/// The function of an op without attributes on floats; null for other ops.
double (*floatUnary(Operation* op))(double) {
  using F = double (*)(double);
  static const auto& table = *new llvm::DenseMap<mlir::TypeID, F>{
      {kind<ReluOp>(), +[](double x) { return x < 0 ? 0.0 : x; }},
      {kind<SigmoidOp>(), sigmoid},
      {kind<TanhOp>(), +[](double x) { return std::tanh(x); }},
      {kind<ErfOp>(), +[](double x) { return std::erf(x); }},
      {kind<ExpOp>(), +[](double x) { return std::exp(x); }},
      {kind<LogOp>(), +[](double x) { return std::log(x); }},
      {kind<SqrtOp>(), +[](double x) { return std::sqrt(x); }},
      {kind<RsqrtOp>(), +[](double x) { return 1 / std::sqrt(x); }},
      {kind<ReciprocalOp>(), +[](double x) { return 1 / x; }},
      {kind<NegOp>(), +[](double x) { return -x; }},
      {kind<AbsOp>(), +[](double x) { return std::fabs(x); }},
      {kind<FloorOp>(), +[](double x) { return std::floor(x); }},
      {kind<CeilOp>(), +[](double x) { return std::ceil(x); }},
      {kind<RoundOp>(), +[](double x) { return std::nearbyint(x); }},
      {kind<SinOp>(), +[](double x) { return std::sin(x); }},
      {kind<CosOp>(), +[](double x) { return std::cos(x); }},
      {kind<AtanOp>(), +[](double x) { return std::atan(x); }},
      {kind<Expm1Op>(), +[](double x) { return std::expm1(x); }},
      {kind<Log1pOp>(), +[](double x) { return std::log1p(x); }},
      {kind<ErfInvOp>(), erfInv},
      {kind<LgammaOp>(), lgamma},
      {kind<SoftplusOp>(), +[](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }},
      {kind<SiluOp>(), +[](double x) { return x * sigmoid(x); }},
      {kind<HardSwishOp>(), +[](double x) { return x * clamp(x / 6 + 0.5, 0, 1); }},
      {kind<SignOp>(), +[](double x) { return x > 0   ? 1.0
                                              : x < 0 ? -1.0
                                                      : x + 0.0; }},
  };
  auto found = table.find(op->getName().getTypeID());
  return found == table.end() ? nullptr : found->second;
}

/// The same for integers: those that keep integers integers.
int64_t (*integerUnary(Operation* op))(int64_t) {
  using F = int64_t (*)(int64_t);
  static const auto& table = *new llvm::DenseMap<mlir::TypeID, F>{
      {kind<ReluOp>(), +[](int64_t x) { return x < 0 ? int64_t{0} : x; }},
      {kind<NegOp>(), +[](int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }},
      {kind<AbsOp>(), +[](int64_t x) { return x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x; }},
      {kind<BitNotOp>(), +[](int64_t x) { return ~x; }},
      {kind<FloorOp>(), +[](int64_t x) { return x; }},
      {kind<CeilOp>(), +[](int64_t x) { return x; }},
      {kind<RoundOp>(), +[](int64_t x) { return x; }},
      {kind<SignOp>(), +[](int64_t x) { return static_cast<int64_t>((x > 0) - (x < 0)); }},
  };
  auto found = table.find(op->getName().getTypeID());
  return found == table.end() ? nullptr : found->second;
}

template <typename Fn>
StatusOr<Tensor> mapFloat(const Tensor& x, Fn fn) {
  return map<double>(x.element(), x, [&](const double* const* args, double* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = fn(args[0][i]);
  });
}

Status needsFloat(Operation* op, const Tensor& x) {
  return unimplemented(base::strCat(op->getName().getStringRef().str(), " is defined for float elements, not ",
                                    elementTypeName(x.element())));
}

Evaluated evaluateUnary(Operation* op, Inputs in) {
  bool isFloat = !in.empty() && wideKind(in[0].element()) == Wide::kFloat;
  if (auto fn = floatUnary(op); fn && isFloat) return mapFloat(in[0], fn);
  if (auto fn = integerUnary(op)) {
    // Of these only neg and bit_not change an unsigned number (they wrap), and sign maps it to 0 or 1.
    if (wideKind(in[0].element()) == Wide::kUnsigned && !llvm::isa<NegOp, BitNotOp>(op)) {
      if (!llvm::isa<SignOp>(op)) return in[0];
      fn = [](int64_t x) -> int64_t { return x != 0; };
    }
    return map<int64_t>(in[0].element(), in[0], [&](const int64_t* const* args, int64_t* out, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[i] = fn(args[0][i]);
    });
  }
  if (floatUnary(op)) return needsFloat(op, in[0]);
  return std::nullopt;
}

/// Of integers, whose range the limits may leave.
template <typename W>
StatusOr<Tensor> clipIntegers(const Tensor& x, double low, double high) {
  using Limits = std::numeric_limits<W>;
  const int64_t bits = elementSize(x.element()) * 8;
  const W least = Limits::min() >> (64 - bits), most = Limits::max() >> (64 - bits);
  auto within = [&](double limit) {
    if (!(limit > static_cast<double>(least))) return least;
    return limit >= static_cast<double>(most) ? most : static_cast<W>(limit);
  };
  const W from = within(std::ceil(low)), to = within(std::floor(high));
  return map<W>(x.element(), x, [&](const W* const* args, W* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = std::min(std::max(args[0][i], from), to);
  });
}

StatusOr<Tensor> clip(const Tensor& x, double low, double high) {
  switch (wideKind(x.element())) {
    case Wide::kFloat:
      return mapFloat(x, [&](double v) { return clamp(v, low, high); });
    case Wide::kSigned:
      return clipIntegers<int64_t>(x, low, high);
    case Wide::kUnsigned:
      return clipIntegers<uint64_t>(x, low, high);
  }
  return internalError("an element type without a wide type");
}

double gelu(double x, bool tanhApproximation) {
  if (!tanhApproximation) return 0.5 * x * std::erfc(-x * M_SQRT1_2);
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
}

Evaluated evaluateWithAttributes(Operation* op, Inputs in) {
  if (auto leaky = llvm::dyn_cast<LeakyReluOp>(op)) {
    double alpha = leaky.getAlpha().convertToDouble();
    return mapFloat(in[0], [=](double x) { return x < 0 ? alpha * x : x; });
  }
  if (auto elu = llvm::dyn_cast<EluOp>(op)) {
    double alpha = elu.getAlpha().convertToDouble();
    return mapFloat(in[0], [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
  }
  if (auto hard = llvm::dyn_cast<HardSigmoidOp>(op)) {
    double alpha = hard.getAlpha().convertToDouble(), beta = hard.getBeta().convertToDouble();
    return mapFloat(in[0], [=](double x) { return clamp(alpha * x + beta, 0, 1); });
  }
  if (auto clipOp = llvm::dyn_cast<ClipOp>(op))
    return clip(in[0], clipOp.getMin().convertToDouble(), clipOp.getMax().convertToDouble());
  if (auto geluOp = llvm::dyn_cast<GeluOp>(op)) {
    bool approximate = geluOp.getTanhApproximation();
    return mapFloat(in[0], [=](double x) { return gelu(x, approximate); });
  }
  if (auto cast = llvm::dyn_cast<CastOp>(op)) {
    ElementType to = elementType(cast.getTo());
    auto copy = [](const auto* const* args, auto* out, int64_t count) { std::copy_n(args[0], count, out); };
    switch (wideKind(in[0].element())) {
      case Wide::kFloat:
        return map<double>(to, in, copy);
      case Wide::kSigned:
        return map<int64_t>(to, in, copy);
      case Wide::kUnsigned:
        return map<uint64_t>(to, in, copy);
    }
  }
  if (auto bits = llvm::dyn_cast<BitcastOp>(op)) return in[0].retyped({elementType(bits.getTo()), in[0].shape()});
  if (llvm::isa<NotOp>(op))
    return map<int64_t>(in[0].element(), in, [](const int64_t* const* args, int64_t* out, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[i] = !args[0][i];
    });
  if (llvm::isa<IsNanOp>(op))
    return map<double, int64_t>(ElementType::kBool, in, [](const double* const* args, int64_t* out, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[i] = std::isnan(args[0][i]);
    });
  return std::nullopt;
}

// ---- two operands ------------------------------------------------------------------------------

template <typename T>
T integerPower(T base, T exponent) {
  if (exponent < T{0})
    return base == T{1} ? T{1} : base == static_cast<T>(-1) ? (exponent % 2 == 0 ? T{1} : base) : T{0};
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (uint64_t n = exponent; n; n >>= 1) {
    if (n & 1) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

/// Calls apply(f) with the function of the op; false when it is not a binary op.
template <typename T, typename Apply>
bool withBinary(Operation* op, Apply apply) {
  constexpr bool isFloat = std::is_same_v<T, double>;
  constexpr bool isSigned = std::is_same_v<T, int64_t>;
  using U = std::conditional_t<isFloat, double, uint64_t>;  // Unsigned arithmetic wraps.
  if (llvm::isa<AddOp>(op)) return apply([](T a, T b) -> T { return U(a) + U(b); }), true;
  if (llvm::isa<SubOp>(op)) return apply([](T a, T b) -> T { return U(a) - U(b); }), true;
  if (llvm::isa<MulOp>(op)) return apply([](T a, T b) -> T { return U(a) * U(b); }), true;
  if (llvm::isa<DivOp>(op))
    return apply([](T a, T b) -> T {
             if constexpr (isFloat) return a / b;
             if (b == T{0}) return T{0};
             if (isSigned && b == static_cast<T>(-1)) return U{0} - U(a);
             return a / b;
           }),
           true;
  if (llvm::isa<PowOp>(op))
    return apply([](T a, T b) -> T {
             if constexpr (isFloat)
               return std::pow(a, b);
             else
               return integerPower<T>(a, b);
           }),
           true;
  if (llvm::isa<MaxOp>(op)) return apply([](T a, T b) -> T { return a != a ? a : b != b ? b : a > b ? a : b; }), true;
  if (llvm::isa<MinOp>(op)) return apply([](T a, T b) -> T { return a != a ? a : b != b ? b : a < b ? a : b; }), true;
  if (llvm::isa<ModOp>(op))
    return apply([](T a, T b) -> T {
             if constexpr (isFloat) {
               return std::fmod(a, b);
             } else {
               if (b == T{0} || (isSigned && b == static_cast<T>(-1))) return T{0};
               T rest = a % b;
               return rest != T{0} && (rest < T{0}) != (b < T{0}) ? rest + b : rest;
             }
           }),
           true;
  if (llvm::isa<PreluOp>(op)) return apply([](T a, T b) -> T { return a < T{0} ? T(U(a) * U(b)) : a; }), true;
  if (llvm::isa<AndOp>(op)) return apply([](T a, T b) -> T { return a != T{0} && b != T{0}; }), true;
  if (llvm::isa<OrOp>(op)) return apply([](T a, T b) -> T { return a != T{0} || b != T{0}; }), true;
  if (llvm::isa<XorOp>(op)) return apply([](T a, T b) -> T { return (a != T{0}) != (b != T{0}); }), true;
  return false;
}

/// `bits` is the width of the element type, narrower than T.
template <typename T, typename Apply>
bool withBitwise(Operation* op, int64_t bits, Apply apply) {
  using U = uint64_t;
  if (llvm::isa<BitAndOp>(op)) return apply([](T a, T b) -> T { return a & b; }), true;
  if (llvm::isa<BitOrOp>(op)) return apply([](T a, T b) -> T { return a | b; }), true;
  if (llvm::isa<BitXorOp>(op)) return apply([](T a, T b) -> T { return a ^ b; }), true;
  if (llvm::isa<ShiftLeftOp>(op))
    return apply([=](T a, T b) -> T { return U(b) < U(bits) ? T(U(a) << b) : T{0}; }), true;
  if (llvm::isa<ShiftRightOp>(op)) return apply([=](T a, T b) -> T { return U(b) < U(bits) ? T(a >> b) : T{0}; }), true;
  return false;
}

template <typename T, typename Apply>
bool withComparison(Operation* op, Apply apply) {
  if (llvm::isa<EqualOp>(op)) return apply([](T a, T b) { return a == b; }), true;
  if (llvm::isa<LessOp>(op)) return apply([](T a, T b) { return a < b; }), true;
  if (llvm::isa<LessEqualOp>(op)) return apply([](T a, T b) { return a <= b; }), true;
  if (llvm::isa<GreaterOp>(op)) return apply([](T a, T b) { return a > b; }), true;
  if (llvm::isa<GreaterEqualOp>(op)) return apply([](T a, T b) { return a >= b; }), true;
  return false;
}

template <typename T>
Evaluated evaluateBinary(Operation* op, Inputs in) {
  Evaluated result;
  auto apply = [&](auto fn) {
    result = map<T>(in[0].element(), in, [&](const T* const* args, T* out, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[i] = fn(args[0][i], args[1][i]);
    });
  };
  withBinary<T>(op, apply);
  if constexpr (!std::is_same_v<T, double>) withBitwise<T>(op, elementSize(in[0].element()) * 8, apply);
  if (result) return result;
  withComparison<T>(op, [&](auto fn) {
    result = map<T, int64_t>(ElementType::kBool, in, [&](const T* const* args, int64_t* out, int64_t count) {
      for (int64_t i = 0; i < count; ++i) out[i] = fn(args[0][i], args[1][i]);
    });
  });
  return result;
}

// ---- more operands -----------------------------------------------------------------------------

template <typename T>
StatusOr<Tensor> where(Inputs in) {
  return map<T>(in[1].element(), in, [](const T* const* args, T* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = args[0][i] != T{0} ? args[1][i] : args[2][i];
  });
}

StatusOr<Tensor> batchNorm(Inputs in, double epsilon) {
  // The statistics of dim 1 as [C, 1, 1, ...], so that they broadcast.
  llvm::SmallVector<Tensor> args = {in[0]};
  for (const Tensor& statistic : in.drop_front()) {
    Shape shape(in[0].rank() - 1, 1);
    shape[0] = statistic.count();
    args.push_back(statistic.retyped({statistic.element(), shape}));
  }
  return map<double>(in[0].element(), args, [&](const double* const* a, double* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = (a[0][i] - a[3][i]) / std::sqrt(a[4][i] + epsilon) * a[1][i] + a[2][i];
  });
}

}  // namespace

Evaluated evaluateElementwise(Operation* op, Inputs in) {
  if (in.empty()) return std::nullopt;
  if (Evaluated result = evaluateUnary(op, in)) return result;
  if (Evaluated result = evaluateWithAttributes(op, in)) return result;
  if (in.size() == 2) {
    switch (wideKind(in[0].element())) {
      case Wide::kFloat:
        return evaluateBinary<double>(op, in);
      case Wide::kSigned:
        return evaluateBinary<int64_t>(op, in);
      case Wide::kUnsigned:
        return evaluateBinary<uint64_t>(op, in);
    }
  }
  if (llvm::isa<WhereOp>(op)) {
    switch (wideKind(in[1].element())) {
      case Wide::kFloat:
        return where<double>(in);
      case Wide::kSigned:
        return where<int64_t>(in);
      case Wide::kUnsigned:
        return where<uint64_t>(in);
    }
  }
  if (auto norm = llvm::dyn_cast<BatchNormOp>(op)) return batchNorm(in, norm.getEpsilon().convertToDouble());
  return std::nullopt;
}

}  // namespace hpu::interp
