// SPDX-License-Identifier: Apache-2.0
// Text helpers for messages: concatenation, byte sizes, numbers from text.
// The one thing to know: all of them are locale-independent and none throws on bad input.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "hpu/status.h"

namespace hpu::base {

namespace detail {
std::string numberText(double value);
template <typename T>
void appendPiece(std::string& out, const T& piece) {
  if constexpr (std::is_same_v<T, bool>) {
    out += piece ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += piece;
  } else if constexpr (std::is_enum_v<T>) {
    out += std::to_string(static_cast<std::underlying_type_t<T>>(piece));
  } else if constexpr (std::is_integral_v<T>) {
    out += std::to_string(piece);
  } else if constexpr (std::is_floating_point_v<T>) {
    out += numberText(piece);
  } else {
    out += std::string_view(piece);
  }
}
}  // namespace detail

/// The pieces one after another: strings, characters, integers, enums (as numbers), bools ("true")
/// and floating-point numbers (shortest form that reads back equal).
template <typename... Pieces>
std::string strCat(const Pieces&... pieces) {
  std::string out;
  (detail::appendPiece(out, pieces), ...);
  return out;
}

/// "0 B", "512 B", "1.5 KiB", "197 MiB", "96 GiB": three significant digits, powers of 1024.
std::string formatBytes(int64_t bytes);
/// "950 ns", "1.25 us", "3.4 ms", "2 s".
std::string formatNs(int64_t ns);
/// Hexadecimal with 0x.
std::string formatHex(uint64_t value);
/// "a, b, c".
std::string join(std::span<const std::string> parts, std::string_view separator = ", ");

/// A whole decimal number, nothing before or after it. Errors: kInvalidArgument.
StatusOr<int64_t> parseInt(std::string_view text);
/// A number of bytes: digits with an optional K, M, G or T (powers of 1024), optionally followed by
/// "B" or "iB", in any case. Errors: kInvalidArgument; kOutOfRange beyond 2^63-1.
StatusOr<int64_t> parseBytes(std::string_view text);

/// The text of an errno value; thread-safe.
std::string errnoText(int error);

}  // namespace hpu::base
