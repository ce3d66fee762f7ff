// SPDX-License-Identifier: Apache-2.0
// Packet sequence numbers: 24 bits that wrap around.
// The one thing to know: of two numbers the later one is the one at most 2^23 - 1 steps ahead, so no two numbers in
// flight may be further apart than that (InfiniBand Architecture Specification 1.3, volume 1, 9.7.1).
#pragma once

#include <cstdint>

namespace hpu::roce {

inline constexpr uint32_t kPsnMask = 0xFFFFFF;

/// `psn` moved by `steps`, which may be negative.
inline uint32_t psnAdd(uint32_t psn, int64_t steps) {
  return static_cast<uint32_t>(static_cast<uint64_t>(int64_t{psn} + steps) & kPsnMask);
}
/// Steps from `from` to `to`: -2^23 to 2^23 - 1.
inline int32_t psnDistance(uint32_t from, uint32_t to) {
  const uint32_t ahead = (to - from) & kPsnMask;
  return ahead < 0x800000 ? static_cast<int32_t>(ahead) : static_cast<int32_t>(ahead) - 0x1000000;
}
inline bool psnBefore(uint32_t a, uint32_t b) {
  return psnDistance(a, b) > 0;
}

}  // namespace hpu::roce
