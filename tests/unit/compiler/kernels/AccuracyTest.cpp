// SPDX-License-Identifier: Apache-2.0
// Functions over all of f32, kernels of both CPU variants and the reference interpreter against the C library in double
// precision: denormals, zeros, infinities, NaN and the largest numbers included.
#include <array>
#include <bit>
#include <cmath>
#include <random>

#include "KernelHarness.h"
#include "gtest/gtest.h"

namespace hpu::kernels::test {
namespace {

constexpr ElementType F32 = ElementType::kF32;
constexpr double kLeast = 0x1p-149;  ///< The least denormal.

/// Numbers at which functions change: powers of two and their neighbours, limits of exp, far arguments of sin.
const std::vector<float>& edges() {
  static const std::vector<float> values = [] {
    std::vector<float> list = {0.0f,        -0.0f,           INFINITY,      -INFINITY,      NAN,      88.7228317f,
                               88.7228394f, 89.4159851f,     -87.33655f,    -103.9721f,     -103.98f, 1e-45f,
                               -1e-45f,     1.17549435e-38f, 3.4028235e38f, -3.4028235e38f, 1e16f,    1e22f,
                               -1e30f,      -1e10f,          -1e20f,        1e20f,          2e19f,    -7.0f,
                               -7.2f,       -9.5f,           -14.0f,        -14.2f,         9.02f,    8388607.5f};
    for (int e = -149; e < 128; ++e)
      for (float sign : {1.0f, -1.0f}) {
        float power = std::ldexp(sign, e);
        list.insert(list.end(), {std::nextafter(power, 0.0f), power, std::nextafter(power, sign * INFINITY)});
      }
    return list;
  }();
  return values;
}

/// The edges, and numbers of all bit patterns at equal distances.
Tensor wholeRange() {
  constexpr uint64_t kStep = 214013;  // 20,000 numbers.
  std::vector<float> values = edges();
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += kStep)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  Tensor x = Tensor::dense(F32, {static_cast<int64_t>(values.size())});
  x.fill([&](const Index& i) { return values[static_cast<size_t>(i[0])]; });
  return x;
}

struct Function {
  const char* op;
  const char* attrs;
  std::function<double(double)> reference;
  Tolerance tolerance;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// clang-format off
const Function kFunctions[] = {
    {"relu", "", [](double x) { return x < 0 ? 0 : x; }, {0, 0}},
    {"neg", "", [](double x) { return -x; }, {0, 0}},
    {"abs", "", [](double x) { return std::abs(x); }, {0, 0}},
    {"floor", "", [](double x) { return std::floor(x); }, {0, 0}},
    {"ceil", "", [](double x) { return std::ceil(x); }, {0, 0}},
    {"round", "", [](double x) { return std::nearbyint(x); }, {0, 0}},
    {"sign", "", [](double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }, {0, 0}},
    {"sqrt", "", [](double x) { return std::sqrt(x); }, {0, 0}},
    {"reciprocal", "", [](double x) { return 1.0f / static_cast<float>(x); }, {0, 0}},
    {"rsqrt", "", [](double x) { return 1 / std::sqrt(x); }, {1.3e-7, 0}},
    {"clip", "min = -0.5 : f64, max = 1.25 : f64",
     [](double x) { return x < -0.5 ? -0.5 : x > 1.25 ? 1.25 : x; }, {0, 0}},
    {"leaky_relu", "alpha = 0.1 : f64", [](double x) { return x < 0 ? 0.1 * x : x; }, {2e-7, kLeast}},
    {"exp", "", [](double x) { return std::exp(x); }, {2e-7, kLeast}},
    {"expm1", "", [](double x) { return std::expm1(x); }, {4e-7, kLeast}},
    {"log", "", [](double x) { return std::log(x); }, {3e-7, 0}},
    {"log1p", "", [](double x) { return std::log1p(x); }, {4e-7, kLeast}},
    {"sin", "", [](double x) { return std::sin(x); }, {2e-7, kLeast}},
    {"cos", "", [](double x) { return std::cos(x); }, {2e-7, kLeast}},
    {"atan", "", [](double x) { return std::atan(x); }, {4e-7, kLeast}},
    {"tanh", "", [](double x) { return std::tanh(x); }, {5e-7, kLeast}},
    {"erf", "", [](double x) { return std::erf(x); }, {5e-7, 2 * kLeast}},
    {"sigmoid", "", sigmoid, {5e-7, 4e-39}},
    {"silu", "", [](double x) { return x / (1 + std::exp(-x)); }, {6e-7, 4e-37}},
    {"softplus", "", [](double x) { return std::log1p(std::exp(-std::abs(x))) + (x > 0 ? x : x - x); },
     {6e-7, kLeast}},
    {"elu", "alpha = 1.5 : f64", [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; }, {5e-7, 3 * kLeast}},
    {"gelu", "tanh_approximation = false", [](double x) { return x / 2 * std::erfc(-x / std::sqrt(2.0)); },
     {1e-6, 3e-7}},
    {"gelu", "tanh_approximation = true",
     [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }, {1e-6, 3e-7}},
    {"hard_sigmoid", "alpha = 0.2 : f64, beta = 0.5 : f64",
     [](double x) { return x != x ? x : std::min(std::max(0.2 * x + 0.5, 0.0), 1.0); }, {1e-6, 1e-7}},
    {"hard_swish", "",
     [](double x) { return x != x ? x : x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); }, {1e-6, 1e-6}},
    {"lgamma", "", [](double x) { return std::lgamma(x); }, {2e-6, 6e-6}},
};
// clang-format on

TEST(Accuracy, FunctionsAgreeWithTheCLibraryOverAllOfF32) {
  Tensor x = wholeRange(), y = Tensor::dense(F32, x.sizes);
  for (const Function& f : kFunctions) {
    SCOPED_TRACE(f.op);
    std::string attrs = *f.attrs ? std::string(" {") + f.attrs + "}" : "";
    // -inf * 0 is not softplus's: its reference is made of finite parts.
    auto expected = [&](int, const Index& i) {
      double v = x.at(i);
      if (std::string(f.op) == "softplus" && std::isinf(v)) return v > 0 ? v : 0.0;
      return f.reference(v);
    };
    checkBoth("%r = hpu." + std::string(f.op) + " %0" + attrs + " : ($0) -> $out0\nhpu.yield %r : $out0", {x}, {y},
              expected, f.tolerance);
  }
}

/// By Newton's iteration in long double, of erf or of what is missing to 1.
double inverseErf(double x) {
  const long double a = std::fabs(static_cast<long double>(x));
  if (!(a < 1)) return a == 1 ? x * INFINITY : NAN;
  long double y = a < 0.9L ? a : std::sqrt(-std::log((1 - a) * (1 + a)));
  for (int i = 0; i < 60; ++i) {
    const long double missing = a < 0.5L ? a - std::erf(y) : std::erfc(y) - (1 - a);
    const long double step = missing * std::exp(y * y) * 0.88622692545275801364908374167057L;
    y += step / (1 - y * step);
  }
  return std::copysign(static_cast<double>(y), x);
}

TEST(Accuracy, TheInverseErrorFunctionOfF64HasItsDigits) {
  std::vector<double> values = {0.0,     -0.0,  1.0,  -1.0,  1.5, NAN,          1e-310,
                                -1e-300, 1e-20, 1e-8, -1e-5, 0.5, 0.4999999999, -0.999};
  for (double x = 1e-3; x < 1; x += 0.00917) values.push_back(x), values.push_back(-x);
  for (double rest = 0.1; rest > 1e-16; rest /= 3) values.push_back(1 - rest), values.push_back(rest - 1);
  Tensor x = Tensor::dense(ElementType::kF64, {static_cast<int64_t>(values.size())}), y = x;
  x.fill([&](const Index& i) { return values[static_cast<size_t>(i[0])]; });
  checkBoth("%r = hpu.erf_inv %0 : ($0) -> $out0\nhpu.yield %r : $out0", {x}, {y},
            [&](int, const Index& i) { return inverseErf(x.at(i)); }, {3e-15, 1e-323});
}

TEST(Accuracy, OddFunctionsKeepTheSignOfZero) {
  Tensor x = Tensor::dense(F32, {40});
  x.fill([](const Index& i) { return i[0] % 2 ? -0.0 : 0.0; });
  for (const char* op : {"sin", "tanh", "erf", "atan", "expm1", "log1p", "sqrt", "round", "floor", "ceil"})
    checkBoth("%f = hpu." + std::string(op) + " %0 : ($0) -> $out0\n%r = hpu.reciprocal %f : ($out0) -> $out0\n" +
                  "hpu.yield %r : $out0",
              {x}, {Tensor::dense(F32, {40})}, [&](int, const Index& i) { return 1 / x.at(i); });
}

TEST(Accuracy, TheSignOfEitherZeroIsPositiveZero) {
  Tensor x = Tensor::dense(F32, {40});
  x.fill([](const Index& i) { return i[0] % 2 ? -0.0 : 0.0; });
  checkBoth("%f = hpu.sign %0 : ($0) -> $out0\n%r = hpu.reciprocal %f : ($out0) -> $out0\nhpu.yield %r : $out0", {x},
            {Tensor::dense(F32, {40})}, [](int, const Index&) { return INFINITY; });
}

/// Pairs of numbers of all bit patterns, of edges, and of magnitudes that are near each other.
std::array<Tensor, 2> pairs() {
  constexpr int64_t kCount = 30000;
  Tensor a = Tensor::dense(F32, {kCount}), b = Tensor::dense(F32, {kCount});
  std::mt19937 random(5);
  for (int64_t i = 0; i < kCount; ++i) {
    auto x = std::bit_cast<float>(static_cast<uint32_t>(random())),
         y = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (i % 3 == 0) y = std::ldexp(x, -static_cast<int>(random() % 60)) * 1.37f;
    if (i % 7 == 0) x = edges()[random() % edges().size()];
    if (i % 11 == 0) y = edges()[random() % edges().size()];
    a.set({i}, x);
    b.set({i}, y);
  }
  return {a, b};
}

TEST(Accuracy, RemaindersAreExactAtEveryQuotient) {
  auto [a, b] = pairs();
  checkBoth("%r = hpu.mod %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {a, b}, {Tensor::dense(F32, a.sizes)},
            [&, a = a, b = b](int, const Index& i) { return std::fmod(a.at(i), b.at(i)); }, {0, 0});
}

TEST(Accuracy, PowersAgreeWithTheCLibraryOverAllOfF32) {
  auto [a, b] = pairs();
  // Bases and exponents of moderate powers among those of which nearly all leave the range.
  for (int64_t i = 0; i < a.sizes[0]; i += 2) b.set({i}, std::fmod(b.at({i}), 12.0));
  checkBoth("%r = hpu.pow %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {a, b}, {Tensor::dense(F32, a.sizes)},
            [&, a = a, b = b](int, const Index& i) { return std::pow(a.at(i), b.at(i)); }, {1e-6, kLeast});
}

TEST(Accuracy, MaximumAndMinimumPassNanOn) {
  auto [a, b] = pairs();
  checkBoth(
      "%r = hpu.max %0, %1 : ($0, $1) -> $out0\n%s = hpu.min %0, %1 : ($0, $1) -> $out0\nhpu.yield %r, %s : $out0, "
      "$out0",
      {a, b}, {Tensor::dense(F32, a.sizes), Tensor::dense(F32, a.sizes)},
      [&, a = a, b = b](int k, const Index& i) {
        double x = a.at(i), y = b.at(i);
        if (std::isnan(x) || std::isnan(y)) return double{NAN};
        return k == 0 ? std::max(x, y) : std::min(x, y);
      },
      {0, 0});
}

TEST(Accuracy, DivisionByOneNumberRoundsAsDivision) {
  Tensor x = wholeRange();
  for (float number : {0.6f, 3.0f, 0.1f, -49.0f, 255.0f, 1e-6f, 5.6568542f, 1e30f, 1e-38f, 3e38f, 1e-44f, 8.0f,
                       0x1p126f, 0x1p-126f, 0.0f, INFINITY, 1.9999999f, 1.0000001f})
    checkBoth("%r = hpu.div %0, %1 : ($0, $1) -> $out0\nhpu.yield %r : $out0", {x, Tensor::scalar(F32, number)},
              {Tensor::dense(F32, x.sizes)}, [&](int, const Index& i) { return static_cast<float>(x.at(i)) / number; },
              {0, 0});
}

TEST(Accuracy, TheMeanOfEqualNumbersIsThatNumber) {
  for (int64_t count : {3, 7, 10, 49, 100, 197}) {
    Tensor x = Tensor::dense(F32, {5, count}), y = Tensor::dense(F32, {5});
    x.fill([](const Index& i) { return i[0]; });  // Small integers, whose sums are exact.
    checkBoth("%r = hpu.reduce_mean %0 {axes = array<i64: 1>, keepdims = false} : ($0) -> $out0\nhpu.yield %r : $out0",
              {x}, {y}, [](int, const Index& i) { return i[0]; }, {0, 0});
    // Of the other dimension lanes are results.
    Tensor turned = Tensor::dense(F32, {count, 70}), z = Tensor::dense(F32, {70});
    turned.fill([](const Index& i) { return i[1]; });
    checkBoth("%r = hpu.reduce_mean %0 {axes = array<i64: 0>, keepdims = false} : ($0) -> $out0\nhpu.yield %r : $out0",
              {turned}, {z}, [](int, const Index& i) { return i[0]; }, {0, 0});
  }
  // A window of 3 x 3, cut at the edges (padding counts or does not).
  Tensor x = Tensor::dense(F32, {1, 4, 9, 70});
  x.fill([](const Index& i) { return 3 + 10 * i[1]; });
  checkBoth(
      "%r = hpu.avg_pool2d %0 {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, "
      "pads = array<i64: 1, 1, 1, 1>, count_include_pad = false} : ($0) -> $out0\nhpu.yield %r : $out0",
      {x}, {Tensor::dense(F32, x.sizes)}, [&](int, const Index& i) { return x.at(i); }, {0, 0});
}

}  // namespace
}  // namespace hpu::kernels::test
