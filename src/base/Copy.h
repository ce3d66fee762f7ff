// SPDX-License-Identifier: Apache-2.0
// copyMemory: memcpy for large ranges at any address.
// The one thing to know: from 2 KiB or so to what the caches hold, the C library copies with `rep
// movsb` on CPUs that say it is fast; where the target lies a few bytes after the source modulo
// 4 KiB, AMD's Zen 3 then copies 3 bytes a nanosecond instead of 45. Pieces below that size go
// through vector registers, and beyond a mebibyte nothing is to be gained.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hpu::base {

/// The ranges are distinct.
inline void copyMemory(std::byte* dst, const std::byte* src, int64_t bytes) {
  constexpr int64_t kPiece = 1920, kLarge = 1 << 20;
  if (bytes > kLarge) {
    std::memcpy(dst, src, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t at = 0; at < bytes; at += kPiece)
    std::memcpy(dst + at, src + at, static_cast<size_t>(std::min(kPiece, bytes - at)));
}

}  // namespace hpu::base
