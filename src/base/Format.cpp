// SPDX-License-Identifier: Apache-2.0
#include "base/Format.h"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace hpu::base {
namespace {

/// Three significant digits without trailing zeros: 1.5, 12.3, 197.
std::string threeDigits(double value) {
  int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  std::array<char, 64> buffer;
  auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals);
  std::string text(buffer.data(), end);
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

std::string detail::numberText(double value) {
  std::array<char, 64> buffer;
  auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

std::string formatBytes(int64_t bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  // 1023.5 of a unit would be shown as 1024 of it.
  while (std::abs(value) >= 1023.5 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  std::string number = bytes < 0 ? "-" + threeDigits(-value) : threeDigits(value);
  return strCat(number, " ", kUnits[unit]);
}

std::string formatNs(int64_t ns) {
  static constexpr std::string_view kUnits[] = {"ns", "us", "ms", "s"};
  double value = static_cast<double>(ns);
  size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  std::string number = ns < 0 ? "-" + threeDigits(-value) : threeDigits(value);
  return strCat(number, " ", kUnits[unit]);
}

std::string formatHex(uint64_t value) {
  std::array<char, 20> buffer;
  auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, 16);
  return "0x" + std::string(buffer.data(), end);
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) text += separator;
    text += parts[i];
  }
  return text;
}

StatusOr<int64_t> parseInt(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return invalidArgument(strCat("'", text, "' is not a whole number"));
  return value;
}

StatusOr<int64_t> parseBytes(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return outOfRange(strCat("'", text, "' is more than 2^63-1 bytes"));
  std::string suffix;
  for (const char* p = end; p != text.data() + text.size(); ++p) suffix += lower(*p);
  int shift = 0;
  if (!suffix.empty()) {
    constexpr std::string_view kPrefixes = "kmgt";
    size_t index = kPrefixes.find(suffix[0]);
    if (index != std::string_view::npos) {
      shift = 10 * static_cast<int>(index + 1);
      suffix.erase(0, 1);
      if (suffix == "ib") suffix = "b";
    }
    if (suffix == "b") suffix.clear();
  }
  if (error != std::errc() || !suffix.empty())
    return invalidArgument(strCat("'", text, "' is not a number of bytes; examples are 4096, 512M and 2G"));
  if (value > (static_cast<uint64_t>(INT64_MAX) >> shift))
    return outOfRange(strCat("'", text, "' is more than 2^63-1 bytes"));
  return static_cast<int64_t>(value << shift);
}

std::string errnoText(int error) {
  return std::generic_category().message(error);
}

}  // namespace hpu::base
