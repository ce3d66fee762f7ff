// SPDX-License-Identifier: Apache-2.0
// Unsigned integers at fixed places of a byte buffer, least significant byte first.
// The one thing to know: the caller has checked that the bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace hpu::recipe {

template <typename T>
T loadLe(const uint8_t* at) {
  static_assert(std::is_unsigned_v<T>);
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{at[i]} << (8 * i);
  return static_cast<T>(value);
}

template <typename T>
void storeLe(uint8_t* at, T value) {
  static_assert(std::is_unsigned_v<T>);
  for (size_t i = 0; i < sizeof(T); ++i) {
    at[i] = static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i));
  }
}

}  // namespace hpu::recipe
