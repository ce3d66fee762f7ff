// SPDX-License-Identifier: Apache-2.0
// CrcTables: a reflected 32-bit CRC by tables, eight bytes at a time, for any polynomial.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hpu::base {

/// `kPolynomial` with its bits reversed.
template <uint32_t kPolynomial>
struct CrcTables {
  static constexpr size_t kSlices = 8;

  /// kTables[n][byte]: the remainder of a byte that n more bytes follow.
  static constexpr auto kTables = [] {
    std::array<std::array<uint32_t, 256>, kSlices> tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t rest = byte;
      for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? kPolynomial : 0);
      tables[0][byte] = rest;
    }
    for (size_t n = 1; n < kSlices; ++n)
      for (size_t byte = 0; byte < 256; ++byte)
        tables[n][byte] = tables[n - 1][byte] >> 8 ^ tables[0][tables[n - 1][byte] & 0xFF];
    return tables;
  }();

  /// Of the inner register: not inverted before and after.
  static uint32_t update(uint32_t rest, const uint8_t* at, size_t bytes) {
    for (; bytes >= kSlices; at += kSlices, bytes -= kSlices) {
      uint64_t word;
      std::memcpy(&word, at, sizeof word);
      word ^= rest;
      rest = 0;
      for (size_t n = 0; n < kSlices; ++n) rest ^= kTables[kSlices - 1 - n][word >> (8 * n) & 0xFF];
    }
    for (; bytes > 0; ++at, --bytes) rest = rest >> 8 ^ kTables[0][(rest ^ *at) & 0xFF];
    return rest;
  }
};

}  // namespace hpu::base
