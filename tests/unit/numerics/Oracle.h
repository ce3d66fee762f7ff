// SPDX-License-Identifier: Apache-2.0
// An independent formulation of small float formats: values by formula in double, rounding by
// search for the nearest value. It shares nothing with src/numerics but the formats' parameters.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace hpu::numerics::testing {

struct Format {
  int exponentBits, mantissaBits, bias;
  uint32_t maxFinite;  ///< Code without sign.
  bool hasInfinity;
  uint32_t infinity;  ///< Code, when it has one.
};

inline constexpr Format kBf16{8, 7, 127, 0x7f7f, true, 0x7f80};
inline constexpr Format kF16{5, 10, 15, 0x7bff, true, 0x7c00};
inline constexpr Format kE4M3Fn{4, 3, 7, 0x7e, false, 0};
inline constexpr Format kE4M3Ieee{4, 3, 7, 0x77, true, 0x78};
inline constexpr Format kE5M2{5, 2, 15, 0x7b, true, 0x7c};

/// The value of a finite code without sign, also of codes beyond maxFinite as if exponents went on.
inline double valueOf(const Format& f, uint32_t code) {
  int exponent = static_cast<int>(code >> f.mantissaBits);
  double fraction = static_cast<double>(code & ((1u << f.mantissaBits) - 1)) / (1 << f.mantissaBits);
  return exponent == 0 ? std::ldexp(fraction, 1 - f.bias) : std::ldexp(1 + fraction, exponent - f.bias);
}

class Oracle {
 public:
  explicit Oracle(const Format& format) : format_(format) {
    for (uint32_t code = 0; code <= format.maxFinite + 1; ++code) values_.push_back(valueOf(format, code));
  }

  static constexpr uint32_t kOverflow = 0xffffffff;
  /// The code of a magnitude, nearest and ties to even, or kOverflow.
  uint32_t round(double magnitude) const {
    auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return kOverflow;
    auto code = static_cast<uint32_t>(above - values_.begin());
    if (*above != magnitude) {
      double low = values_[code - 1], middle = (low + *above) / 2;
      if (magnitude < middle || (magnitude == middle && (code - 1) % 2 == 0)) --code;
    }
    return code > format_.maxFinite ? kOverflow : code;
  }

  /// f32 values where rounding can go wrong: every representable value, every midpoint, and their
  /// neighbours, of both signs.
  std::vector<float> boundaries() const {
    std::vector<float> floats;
    auto around = [&](double value) {
      auto middle = static_cast<float>(value);
      for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
        floats.push_back(x);
        floats.push_back(-x);
      }
    };
    for (size_t i = 0; i < values_.size(); ++i) {
      around(values_[i]);
      if (i > 0) around((values_[i - 1] + values_[i]) / 2);
    }
    for (float x : {INFINITY, 3.402823466e38f, 1e-45f, 1.17549435e-38f, 1.1754942e-38f}) {
      floats.push_back(x);
      floats.push_back(-x);
    }
    return floats;
  }

 private:
  Format format_;
  std::vector<double> values_;
};

/// f32 bit patterns spread over all 2^32, NaNs among them.
inline std::vector<float> denseSample(size_t count) {
  std::vector<float> floats(count);
  uint32_t bits = 0;
  const auto step = static_cast<uint32_t>(0x100000000ull / count) | 1;
  for (float& value : floats) {
    value = std::bit_cast<float>(bits);
    bits += step;
  }
  return floats;
}

}  // namespace hpu::numerics::testing
