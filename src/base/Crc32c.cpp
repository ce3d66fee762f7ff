// SPDX-License-Identifier: Apache-2.0
#include "base/Crc32c.h"

#include <array>
#include <cstring>

#include "base/CrcTables.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace hpu::base {
namespace {

// The polynomial of RFC 3720, bits reversed.
constexpr uint32_t kPolynomial = 0x82F63B78;
using Tables = CrcTables<kPolynomial>;

/// Of the inner register: not inverted before and after.
uint32_t update(uint32_t rest, const uint8_t* at, size_t bytes) {
  return Tables::update(rest, at, bytes);
}

#if defined(__x86_64__)

/// The instruction has a latency of three cycles and begins every cycle: three streams of so many bytes at a time.
constexpr size_t kStream = 2048;

/// What kStream zero bytes make of a register, by its bytes.
struct Shift {
  std::array<std::array<uint32_t, 256>, 4> tables{};
  Shift() {
    std::array<uint32_t, 32> ofBit{};
    for (size_t bit = 0; bit < ofBit.size(); ++bit) {
      uint32_t rest = uint32_t{1} << bit;
      for (size_t i = 0; i < kStream; ++i) rest = rest >> 8 ^ Tables::kTables[0][rest & 0xFF];
      ofBit[bit] = rest;
    }
    for (size_t byte = 0; byte < 4; ++byte)
      for (size_t value = 0; value < 256; ++value)
        for (size_t bit = 0; bit < 8; ++bit)
          if (value >> bit & 1) tables[byte][value] ^= ofBit[8 * byte + bit];
  }
  uint32_t operator()(uint32_t rest) const {
    return tables[0][rest & 0xFF] ^ tables[1][rest >> 8 & 0xFF] ^ tables[2][rest >> 16 & 0xFF] ^ tables[3][rest >> 24];
  }
};

__attribute__((target("sse4.2"))) uint32_t updateByInstruction(uint32_t rest, const uint8_t* at, size_t bytes) {
  static const Shift shift;
  auto word = [](const uint8_t* from) {
    uint64_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  uint64_t first = rest;
  for (; bytes >= 3 * kStream; at += 3 * kStream, bytes -= 3 * kStream) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kStream; i += sizeof(uint64_t)) {
      first = _mm_crc32_u64(first, word(at + i));
      second = _mm_crc32_u64(second, word(at + kStream + i));
      third = _mm_crc32_u64(third, word(at + 2 * kStream + i));
    }
    const uint32_t two = shift(static_cast<uint32_t>(first)) ^ static_cast<uint32_t>(second);
    first = shift(two) ^ static_cast<uint32_t>(third);
  }
  for (; bytes >= sizeof(uint64_t); at += sizeof(uint64_t), bytes -= sizeof(uint64_t))
    first = _mm_crc32_u64(first, word(at));
  auto last = static_cast<uint32_t>(first);
  for (; bytes > 0; ++at, --bytes) last = _mm_crc32_u8(last, *at);
  return last;
}

#endif

}  // namespace

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  if (has) return ~updateByInstruction(~crc, static_cast<const uint8_t*>(data), bytes);
#endif
  return crc32cByTables(crc, data, bytes);
}

uint32_t crc32cByTables(uint32_t crc, const void* data, size_t bytes) {
  return ~update(~crc, static_cast<const uint8_t*>(data), bytes);
}

}  // namespace hpu::base
