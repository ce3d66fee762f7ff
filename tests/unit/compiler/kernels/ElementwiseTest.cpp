// SPDX-License-Identifier: Apache-2.0
// Elementwise kernels: every op against libm in double precision, broadcasting, strides, element
// types.
#include <cmath>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32, BF16 = ElementType::kBF16, F16 = ElementType::kF16,
                      I64 = ElementType::kI64, I32 = ElementType::kI32, I8 = ElementType::kI8, U8 = ElementType::kU8,
                      Bool = ElementType::kBool;

struct Unary {
  const char* name;
  const char* attrs;
  std::function<double(double)> reference;
  double low, high;
  Tolerance tolerance;
};

double phi(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

/// By bisection of erf.
double inverseErf(double y) {
  double low = -6, high = 6;
  for (int i = 0; i < 80; ++i) (std::erf((low + high) / 2) < y ? low : high) = (low + high) / 2;
  return (low + high) / 2;
}

// clang-format off
const Unary kUnaries[] = {
    {"relu", "", [](double x) { return x > 0 ? x : 0; }, -3, 3, {0, 0}},
    {"sigmoid", "", [](double x) { return 1 / (1 + std::exp(-x)); }, -30, 30, {1e-6, 1e-30}},
    {"tanh", "", [](double x) { return std::tanh(x); }, -12, 12, {1e-6, 1e-30}},
    {"erf", "", [](double x) { return std::erf(x); }, -6, 6, {1e-6, 1e-30}},
    {"exp", "", [](double x) { return std::exp(x); }, -86, 88, {1e-6, 1e-37}},
    {"log", "", [](double x) { return std::log(x); }, 1e-6, 1e4, {1e-6, 1e-7}},
    {"sqrt", "", [](double x) { return std::sqrt(x); }, 0, 1e4, {1e-6, 0}},
    {"rsqrt", "", [](double x) { return 1 / std::sqrt(x); }, 1e-3, 1e4, {1e-6, 0}},
    {"reciprocal", "", [](double x) { return 1 / x; }, 0.1, 10, {1e-6, 0}},
    {"neg", "", [](double x) { return -x; }, -3, 3, {0, 0}},
    {"abs", "", [](double x) { return std::abs(x); }, -3, 3, {0, 0}},
    {"floor", "", [](double x) { return std::floor(x); }, -9, 9, {0, 0}},
    {"ceil", "", [](double x) { return std::ceil(x); }, -9, 9, {0, 0}},
    {"round", "", [](double x) { return std::nearbyint(x); }, -9, 9, {0, 0}},
    {"sin", "", [](double x) { return std::sin(x); }, -100, 100, {1e-6, 3e-7}},
    {"cos", "", [](double x) { return std::cos(x); }, -100, 100, {1e-6, 3e-7}},
    {"atan", "", [](double x) { return std::atan(x); }, -20, 20, {1e-6, 1e-30}},
    {"expm1", "", [](double x) { return std::expm1(x); }, -30, 88, {1e-6, 1e-30}},
    {"log1p", "", [](double x) { return std::log1p(x); }, -0.999, 1e3, {1e-6, 1e-9}},
    {"erf_inv", "", inverseErf, -0.9999, 0.9999, {2e-6, 1e-9}},
    {"lgamma", "", [](double x) { return std::lgamma(x); }, -6, 60, {2e-6, 1e-5}},
    {"softplus", "",
     [](double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); },
     -60, 60, {1e-6, 1e-12}},
    {"silu", "", [](double x) { return x / (1 + std::exp(-x)); }, -30, 30, {1e-6, 1e-12}},
    {"hard_swish", "",
     [](double x) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }, -6, 6, {1e-6, 1e-6}},
    {"sign", "", [](double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }, -3, 3, {0, 0}},
    {"leaky_relu", "alpha = 0.1 : f64",
     [](double x) { return x < 0 ? 0.1 * x : x; }, -3, 3, {1e-6, 0}},
    {"elu", "alpha = 1.5 : f64",
     [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; }, -20, 3, {1e-6, 0}},
    {"hard_sigmoid", "alpha = 0.2 : f64, beta = 0.5 : f64",
     [](double x) { return std::min(std::max(0.2 * x + 0.5, 0.0), 1.0); }, -6, 6, {1e-6, 1e-7}},
    {"clip", "min = -0.5 : f64, max = 1.25 : f64",
     [](double x) { return std::min(std::max(x, -0.5), 1.25); }, -3, 3, {0, 0}},
    {"gelu", "tanh_approximation = false",
     [](double x) { return x * phi(x); }, -8, 8, {1e-6, 3e-7}},
    {"gelu", "tanh_approximation = true",
     [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     },
     -8, 8, {1e-6, 3e-7}},
};
// clang-format on

TEST(Elementwise, UnaryOpsAgreeWithLibm) {
  for (const Unary& op : kUnaries) {
    Tensor x = Tensor::dense(F32, {3, 333}).random(1, op.low, op.high);
    Tensor y = Tensor::dense(F32, {3, 333});
    std::string attrs = *op.attrs ? std::string(" {") + op.attrs + "}" : "";
    check(
        "%r = hpu." + std::string(op.name) + " %0" + attrs + " : ($0) -> $out0\nhpu.yield %r : $out0", {x}, {y},
        [&](int, const Index& i) { return op.reference(x.at(i)); }, op.tolerance);
  }
}

TEST(Elementwise, SpecialValuesBehaveAsInLibm) {
  const double values[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 1e-40, 3e38, -3e38, 88.7, 89.0, -104.0};
  auto count = static_cast<int64_t>(std::size(values));
  Tensor x = Tensor::dense(F32, {count});
  x.fill([&](const Index& i) { return values[i[0]]; });
  for (const char* name :
       {"relu", "sigmoid", "tanh", "erf", "exp", "log", "sqrt", "abs", "softplus", "sign", "atan", "expm1", "log1p"}) {
    const Unary* op = nullptr;
    for (const Unary& candidate : kUnaries)
      if (std::string(candidate.name) == name) op = &candidate;
    check("%r = hpu." + std::string(name) + " %0 : ($0) -> $out0\nhpu.yield %r : $out0", {x},
          {Tensor::dense(F32, {count})},
          [&](int, const Index& i) {
            double v = x.at(i);
            if (std::isnan(v)) return v;
            return static_cast<double>(static_cast<float>(op->reference(v)));
          },
          {2e-6, 1e-37});
  }
}

struct Binary {
  const char* name;
  std::function<double(double, double)> reference;
  Tolerance tolerance;
};
// clang-format off
const Binary kBinaries[] = {
    {"add", [](double a, double b) { return a + b; }, {1e-7, 1e-7}},
    {"sub", [](double a, double b) { return a - b; }, {1e-7, 1e-7}},
    {"mul", [](double a, double b) { return a * b; }, {1e-7, 0}},
    {"div", [](double a, double b) { return a / b; }, {1e-7, 0}},
    {"max", [](double a, double b) { return std::max(a, b); }, {0, 0}},
    {"min", [](double a, double b) { return std::min(a, b); }, {0, 0}},
    {"mod", [](double a, double b) { return std::fmod(a, b); }, {1e-6, 1e-6}},
    {"prelu", [](double a, double b) { return a < 0 ? a * b : a; }, {1e-7, 0}},
};
// clang-format on

TEST(Elementwise, BinaryOpsBroadcastAsInNumpy) {
  Tensor a = Tensor::dense(F32, {4, 1, 70}).random(2), b = Tensor::dense(F32, {5, 1}).random(3, 0.5, 2);
  for (const Binary& op : kBinaries)
    check(
        "%r = hpu." + std::string(op.name) + " %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {a, b},
        {Tensor::dense(F32, {4, 5, 70})},
        [&](int, const Index& i) { return op.reference(a.at({i[0], 0, i[2]}), b.at({i[1], 0})); }, op.tolerance);
}

TEST(Elementwise, PowFollowsC) {
  Tensor x = Tensor::dense(F32, {500}).random(4, 0.01, 20), y = Tensor::dense(F32, {500}).random(5, -8, 8);
  check("%r = hpu.pow %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {x, y}, {Tensor::dense(F32, {500})},
        [&](int, const Index& i) { return std::pow(x.at(i), y.at(i)); }, {1e-6, 1e-30});
  const double bases[] = {0, -0.0, 1, -1, 2, -2, -2.5, INFINITY, -INFINITY, NAN};
  const double exponents[] = {0, 1, 2, 3, -1, -2, 0.5, -0.5, INFINITY, -INFINITY, NAN, 200, -200};
  Tensor base = Tensor::dense(F32, {10, 1}), exponent = Tensor::dense(F32, {13});
  base.fill([&](const Index& i) { return bases[i[0]]; });
  exponent.fill([&](const Index& i) { return exponents[i[0]]; });
  check("%r = hpu.pow %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {base, exponent},
        {Tensor::dense(F32, {10, 13})},
        [&](int, const Index& i) { return static_cast<float>(std::pow(base.at({i[0], 0}), exponent.at({i[1]}))); },
        {1e-6, 1e-37});
}

TEST(Elementwise, IntegerDivisionAndModNeverTrap) {
  for (ElementType type : {I64, I32, I8}) {
    Tensor a = Tensor::dense(type, {9, 40}).random(6, -100, 100), b = Tensor::dense(type, {40}).random(7, -4, 4);
    a.set({0, 0}, type == I8 ? -128 : type == I32 ? -2147483648.0 : -9223372036854775808.0);
    b.set({0}, -1);
    check(
        "%r = hpu.div %0, %1 : ($0, $1) -> $out0\n%s = hpu.mod %0, %1 : ($0, $1) -> $out0\n"
        "hpu.yield %r, %s : $out0, $out0",
        {a, b}, {Tensor::dense(type, {9, 40}), Tensor::dense(type, {9, 40})}, [&](int k, const Index& i) {
          double x = a.at(i), y = b.at({i[1]});
          if (y == 0) return 0.0;
          double q = std::trunc(x / y);
          if (k == 0) return x < -100 && y == -1 ? x : q;  // The most negative number has no opposite.
          double r = std::fmod(x, y);
          return r != 0 && (r < 0) != (y < 0) ? r + y : r;
        });
  }
}

TEST(Elementwise, BitwiseOpsFollowTheWidthOfTheirType) {
  struct Bitwise {
    const char* name;
    std::function<int64_t(int64_t, int64_t, int)> reference;
  };
  auto wrap = [](int64_t v, ElementType type) {
    return type == I8   ? int64_t{static_cast<int8_t>(v)}
           : type == U8 ? int64_t{static_cast<uint8_t>(v)}
                        : int64_t{static_cast<int32_t>(v)};
  };
  const Bitwise ops[] = {
      {"bit_and", [](int64_t a, int64_t b, int) { return a & b; }},
      {"bit_or", [](int64_t a, int64_t b, int) { return a | b; }},
      {"bit_xor", [](int64_t a, int64_t b, int) { return a ^ b; }},
      {"shift_left", [](int64_t a, int64_t b, int bits) { return b >= 0 && b < bits ? a << b : 0; }},
      {"shift_right", [](int64_t a, int64_t b, int bits) { return b >= 0 && b < bits ? a >> b : 0; }},
  };
  for (ElementType type : {I8, U8, I32}) {
    int bits = static_cast<int>(elementSize(type)) * 8;
    Tensor a = Tensor::dense(type, {7, 40}).random(30, type == U8 ? 0 : -120, 120);
    Tensor b = Tensor::dense(type, {40});
    b.fill([&](const Index& i) { return static_cast<double>(i[0] % (bits + 4)) - (type == U8 ? 0 : 2); });
    for (const Bitwise& op : ops)
      check("%r = hpu." + std::string(op.name) + " %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {a, b},
            {Tensor::dense(type, {7, 40})}, [&](int, const Index& i) {
              auto x = static_cast<int64_t>(a.at(i)), y = static_cast<int64_t>(b.at({i[1]}));
              return static_cast<double>(wrap(op.reference(x, y, bits), type));
            });
    check("%r = hpu.bit_not %0 : ($0) -> $out0\nhpu.yield %r : $out0", {a}, {Tensor::dense(type, {7, 40})},
          [&](int, const Index& i) { return static_cast<double>(wrap(~static_cast<int64_t>(a.at(i)), type)); });
  }
}

TEST(Elementwise, AddsInPlaceThroughAnyStrides) {
  struct Layout {
    Index a, b, y;
    int64_t gap;
  };
  const Layout layouts[] = {{{}, {}, {}, 0},
                            {{0, 2, 3, 1}, {0, 1, 2, 3}, {0, 2, 3, 1}, 0},
                            {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 1, 2, 3}, 0},
                            {{3, 2, 1, 0}, {0, 2, 3, 1}, {1, 0, 3, 2}, 0},
                            {{0, 2, 3, 1}, {0, 2, 3, 1}, {0, 2, 3, 1}, 1}};
  for (ElementType type : {F32, BF16, F16, I64, I8}) {
    for (const Layout& layout : layouts) {
      Index sizes = {2, 19, 5, 7};
      Tensor a = Tensor::dense(type, sizes, layout.a).random(8, -20, 20);
      Tensor b = Tensor::dense(type, sizes, layout.b, layout.gap).random(9, -20, 20);
      Tensor y = Tensor::dense(type, sizes, layout.y, layout.gap);
      check("%r = hpu.add %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {a, b}, {y},
            [&](int, const Index& i) { return a.at(i) + b.at(i); }, {type == F32 ? 1e-7 : 0, 0});
    }
  }
}

TEST(Elementwise, ChannelsLastChainWithBiasResidualAndClip) {
  Tensor x = Tensor::dense(F32, {2, 24, 5, 6}, {0, 2, 3, 1}).random(10);
  Tensor residual = Tensor::dense(F32, {2, 24, 5, 6}, {0, 2, 3, 1}).random(11);
  Tensor bias = Tensor::dense(F32, {24, 1, 1}).random(12);
  check(
      "%a = hpu.add %0, %1 : ($0, $1) -> $out0\n%b = hpu.add %a, %2 : ($out0, $2) -> $out0\n"
      "%c = hpu.clip %b {min = 0.0 : f64, max = 6.0 : f64} : ($out0) -> $out0\nhpu.yield %c : "
      "$out0",
      {x, bias, residual}, {Tensor::dense(F32, {2, 24, 5, 6}, {0, 2, 3, 1})}, [&](int, const Index& i) {
        return std::min(std::max(x.at(i) + bias.at({i[1], 0, 0}) + residual.at(i), 0.0), 6.0);
      });
}

TEST(Elementwise, OperandsRepeatThroughZeroStridesAndReadBackwards) {
  Tensor a(F32, {6, 50}, {0, 1}), b(F32, {6, 50}, {-50, -1}), c(F32, {6, 50}, {1, 0});
  a.random(13);
  b.random(14);
  c.random(15);
  check(
      "%r = hpu.mul %0, %1 : ($0, $1) -> $out0\n%s = hpu.add %r, %2 : ($out0, $2) -> "
      "$out0\nhpu.yield %s : $out0",
      {a, b, c}, {Tensor::dense(F32, {6, 50})}, [&](int, const Index& i) { return a.at(i) * b.at(i) + c.at(i); });
}

TEST(Elementwise, ComparesSelectsAndLogic) {
  Tensor a = Tensor::dense(F32, {3, 77}).random(16), b = Tensor::dense(F32, {77}).random(17);
  check(
      "%l = hpu.less %0, %1 : ($0, $1) -> $out1\n%g = hpu.greater_equal %0, %1 : ($0, $1) -> "
      "$out1\n"
      "%n = hpu.not %l : ($out1) -> $out1\n%e = hpu.and %n, %g : ($out1, $out1) -> $out1\n"
      "%w = hpu.where %l, %0, %1 : ($out1, $0, $1) -> $out0\nhpu.yield %w, %e : $out0, $out1",
      {a, b}, {Tensor::dense(F32, {3, 77}), Tensor::dense(Bool, {3, 77})}, [&](int k, const Index& i) {
        double x = a.at(i), y = b.at({i[1]});
        return k == 0 ? std::min(x, y) : static_cast<double>(x >= y);
      });
}

TEST(Elementwise, CastsBetweenAllTypes) {
  const ElementType types[] = {F32, BF16, F16, I64, I32, I8, U8, Bool};
  for (ElementType from : types) {
    for (ElementType to : types) {
      Tensor x = Tensor::dense(from, {2, 45}).random(18, from == U8 || to == U8 ? 0 : -100, 100);
      Tensor y = Tensor::dense(to, {2, 45});
      const char* name = to == Bool ? "i1" : to == U8 ? "ui8" : nullptr;
      std::string target = name ? name : std::string(elementTypeName(to));
      bool toFloat = to == F32 || to == BF16 || to == F16;
      check("%r = hpu.cast %0 {to = " + target + "} : ($0) -> $out0\nhpu.yield %r : $out0", {x}, {y},
            [&](int, const Index& i) {
              double v = x.at(i);
              return to == Bool ? static_cast<double>(v != 0) : toFloat ? v : std::trunc(v);
            },
            {0, 0});
    }
  }
}

TEST(Elementwise, AnExplicitCastRoundsAlthoughValuesStayF32) {
  Tensor x = Tensor::dense(F32, {100}).random(19, 0, 1000);
  check(
      "%h = hpu.cast %0 {to = bf16} : ($0) -> tensor<100xbf16>\n"
      "%r = hpu.cast %h {to = f32} : (tensor<100xbf16>) -> $out0\nhpu.yield %r : $out0",
      {x}, {Tensor::dense(F32, {100})},
      [&](int, const Index& i) {
        Tensor rounded = Tensor::scalar(BF16, 0);
        rounded.set({}, x.at(i));
        return rounded.at({});
      },
      {0, 0});
  // bf16 operands of a chain are rounded once, at the end.
  Tensor a = Tensor::dense(BF16, {300}).random(20), b = Tensor::dense(BF16, {300}).random(21);
  check(
      "%m = hpu.mul %0, %1 : ($0, $1) -> $out0\n%r = hpu.add %m, %0 : ($out0, $0) -> "
      "$out0\nhpu.yield %r : $out0",
      {a, b}, {Tensor::dense(BF16, {300})}, [&](int, const Index& i) { return std::fma(a.at(i), b.at(i), a.at(i)); },
      {0.004, 0});
}

TEST(Elementwise, ScalarsAndTinyShapes) {
  Tensor s = Tensor::scalar(F32, 2.5), x = Tensor::dense(F32, {1, 1, 3}).random(22);
  check("%r = hpu.mul %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {x, s}, {Tensor::dense(F32, {1, 1, 3})},
        [&](int, const Index& i) { return x.at(i) * 2.5; });
  check("%r = hpu.exp %0 : ($0) -> $out0\nhpu.yield %r : $out0", {s}, {Tensor::dense(F32, {})},
        [&](int, const Index&) { return std::exp(2.5); });
}

TEST(Elementwise, I64ArithmeticIsExact) {
  Tensor a = Tensor::dense(I64, {130}).random(23, -1e6, 1e6), b = Tensor::scalar(I64, 1000003);
  check(
      "%r = hpu.mul %0, %1 : ($0, $1) -> $out0\n%e = hpu.equal %r, %0 : ($out0, $0) -> $out1\n"
      "hpu.yield %r, %e : $out0, $out1",
      {a, b}, {Tensor::dense(I64, {130}), Tensor::dense(Bool, {130})},
      [&](int k, const Index& i) { return k == 0 ? a.at(i) * 1000003 : static_cast<double>(a.at(i) == 0); });
}

}  // namespace
}  // namespace hpu::kernels::test
