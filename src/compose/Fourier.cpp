// SPDX-License-Identifier: Apache-2.0
#include "compose/Fourier.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "base/Format.h"
#include "compose/Indexing.h"

namespace hpu::compose {
namespace {

constexpr int64_t kOneStep = 128;        ///< Longer transforms are parted where they can be.
constexpr int64_t kLongestPrime = 4096;  ///< Its matrix has 128 MiB.

/// cos and sin of 2 pi i j / n, i < rows, j < columns.
struct Angles {
  std::vector<float> cosines, sines;
};
Angles anglesOf(int64_t rows, int64_t columns, int64_t n) {
  Angles angles;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      // The product modulo n first: far angles would lose their digits.
      const double angle = 2 * std::numbers::pi * static_cast<double>(i * j % n) / static_cast<double>(n);
      angles.cosines.push_back(static_cast<float>(std::cos(angle)));
      angles.sines.push_back(static_cast<float>(std::sin(angle)));
    }
  return angles;
}
Value table(Emitter& c, const Shape& shape, const std::vector<float>& values) {
  return c.constant({ElementType::kF32, shape}, values.data(), values.size() * sizeof(float));
}

/// z with `apply` to both parts.
template <typename Apply>
Complex each(const Complex& z, const Apply& apply) {
  return {apply(z.real), z.imaginary.handle ? apply(z.imaginary) : Value{}};
}

/// z times (cos - i sin), the inverse transform's cos + i sin; `times` is a product, of matrices or elements.
template <typename Times>
Complex turned(Emitter& c, const Complex& z, Value cosines, Value sines, bool isInverse, const Times& times) {
  Value real = times(z.real, cosines), imaginary = times(z.real, sines);
  if (!isInverse) imaginary = c.neg(imaginary);
  if (!z.imaginary.handle) return {real, imaginary};
  Value cross = times(z.imaginary, sines);
  return {isInverse ? c.sub(real, cross) : c.add(real, cross), c.add(imaginary, times(z.imaginary, cosines))};
}

/// The largest divisor of n up to its root; 1 of a prime.
int64_t divisorOf(int64_t n) {
  for (auto d = static_cast<int64_t>(std::sqrt(static_cast<double>(n))); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

Complex transform(Emitter& c, const Complex& z, int64_t bins, bool isInverse) {
  const int64_t n = c.dim(z.real, -1);
  const int64_t first = n > kOneStep ? divisorOf(n) : 1;
  if (!c.ok()) return {};
  if (first == 1) {
    if (n > kLongestPrime)
      return {c.unsupported(base::strCat("a transform of ", n, " elements, which is no product of smaller numbers")),
              {}};
    const Angles angles = anglesOf(n, bins, n);
    return turned(c, z, table(c, {n, bins}, angles.cosines), table(c, {n, bins}, angles.sines), isInverse,
                  [&](Value a, Value b) {
                    return c.rank(a) > 1 ? c.matmul(a, b) : c.reshape(c.matmul(c.reshape(a, {1, n}), b), {bins});
                  });
  }
  // With i = second * i1 + i2 and k = k1 + first * k2: over i1 for each i2, turned by i2 * k1, then over i2.
  const int64_t second = n / first, rank = c.rank(z.real);
  Shape parted = c.shape(z.real);
  parted.back() = first;
  parted.push_back(second);
  std::vector<int64_t> swap;
  for (int64_t d = 0; d < rank + 1; ++d) swap.push_back(d);
  std::swap(swap[static_cast<size_t>(rank)], swap[static_cast<size_t>(rank) - 1]);
  Complex inner = each(z, [&](Value v) { return c.transpose(c.reshape(v, parted), swap); });  // [.., i2, i1]
  inner = transform(c, inner, first, isInverse);                                              // [.., i2, k1]
  const Angles angles = anglesOf(second, first, n);
  inner = turned(c, inner, table(c, {second, first}, angles.cosines), table(c, {second, first}, angles.sines),
                 isInverse, [&](Value a, Value b) { return c.mul(a, b); });
  inner = each(inner, [&](Value v) { return c.transpose(v, swap); });  // [.., k1, i2]
  inner = transform(c, inner, second, isInverse);                      // [.., k1, k2]
  Shape whole = c.shape(z.real);
  return each(inner, [&](Value v) {
    return c.sliceDim(c.reshape(c.transpose(v, swap), whole), rank - 1, 0, bins);  // [.., k2, k1]
  });
}

}  // namespace

Complex fitted(Emitter& c, const Complex& z, int64_t length) {
  return each(z, [&](Value v) {
    const int64_t rank = c.rank(v), size = c.dim(v, -1);
    if (size >= length) return c.sliceDim(v, rank - 1, 0, length);
    std::vector<int64_t> low(static_cast<size_t>(rank), 0), high = low;
    high.back() = length - size;
    return c.pad(v, low, high);
  });
}

Complex fourier(Emitter& c, const Complex& z, int64_t bins, bool isInverse) {
  const int64_t n = c.dim(z.real, -1);
  if (n > kLongestTransform) return {c.unsupported(base::strCat("a transform of ", n, " elements")), {}};
  if (n < 1) return {c.fail("a transform of no elements"), {}};
  const Complex result = transform(c, z, bins, isInverse);
  if (!isInverse) return result;
  return each(result, [&](Value v) { return c.mul(v, 1 / static_cast<double>(n)); });
}

Value shortTimeFourier(Emitter& c, Value signal, Value window, int64_t length, int64_t step, int64_t bins) {
  const int64_t samples = c.dim(signal, 1), parts = c.dim(signal, 2), batch = c.dim(signal, 0);
  if (!c.ok()) return {};
  if (samples < length)
    return c.fail(base::strCat("a frame of ", length, " elements does not fit a signal of ", samples));
  const int64_t frames = (samples - length) / step + 1;
  // A convolution: a filter for each part of each bin, [2 * bins, parts, 1, length].
  const Angles angles = anglesOf(bins, length, length);
  std::vector<float> filters;
  auto add = [&](const std::vector<float>& values, int64_t bin, float sign) {
    for (int64_t i = 0; i < length; ++i) filters.push_back(sign * values[static_cast<size_t>(bin * length + i)]);
  };
  for (bool isImaginary : {false, true})
    for (int64_t bin = 0; bin < bins; ++bin) {
      add(isImaginary ? angles.sines : angles.cosines, bin, isImaginary ? -1.0f : 1.0f);
      if (parts == 2) add(isImaginary ? angles.cosines : angles.sines, bin, 1.0f);
    }
  Value weights = table(c, {2 * bins, parts, 1, length}, filters);
  if (window.handle) weights = c.mul(weights, c.reshape(window, {1, 1, 1, length}));
  Value image = c.reshape(c.transpose(signal, {0, 2, 1}), {batch, parts, 1, samples});
  Value y = c.op("conv2d", {image, weights},
                 {{"strides", std::vector<int64_t>{1, step}},
                  {"dilations", std::vector<int64_t>{1, 1}},
                  {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                  {"groups", int64_t{1}}});
  return c.transpose(c.reshape(y, {batch, 2, bins, frames}), {0, 3, 2, 1});
}

}  // namespace hpu::compose
