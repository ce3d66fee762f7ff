// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms along the last dim, as matrix products: of a length that is no product of small ones in
// one step, else in two, of which each is again a transform.
#pragma once

#include <cstdint>

#include "compose/Emitter.h"

namespace hpu::compose {

constexpr int64_t kLongestTransform = int64_t{1} << 24;

/// f32; a null imaginary part is 0.
struct Complex {
  Value real, imaginary;
};

/// The last dim cut, or filled with zeros, to `length`.
Complex fitted(Emitter& c, const Complex& z, int64_t length);
/// The first `bins` numbers of the transform of the last dim; of the inverse one, divided by its length. Both parts of
/// the result are set.
Complex fourier(Emitter& c, const Complex& z, int64_t bins, bool isInverse);
/// [B, frames, bins, 2] of a signal [B, L, 1 or 2], f32: transforms of `length` elements times the window ([length],
/// f32, or null), each `step` behind the one before.
Value shortTimeFourier(Emitter& c, Value signal, Value window, int64_t length, int64_t step, int64_t bins);

}  // namespace hpu::compose
