// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Json.h"

#include <charconv>
#include <cmath>

namespace hpu::tools {
namespace {

/// Length of the valid UTF-8 sequence at `text`, or 0.
size_t utf8Length(std::string_view text) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = at(0);
  size_t length = first < 0x80 ? 1 : (first >> 5) == 6 ? 2 : (first >> 4) == 14 ? 3 : (first >> 3) == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t code = length == 1 ? first : first & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (at(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // Overlong forms are invalid.
  if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return 0;
  return length;
}

}  // namespace

std::string quoteJson(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    unsigned char c = text[0];
    size_t length = utf8Length(text);
    if (length == 0) {
      out += "\\ufffd";
      length = 1;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return out + '"';
}

Json Json::object() {
  Json value;
  value.kind_ = Kind::kObject;
  return value;
}

Json Json::array() {
  Json value;
  value.kind_ = Kind::kArray;
  return value;
}

Json& Json::operator[](std::string_view key) {
  if (kind_ != Kind::kObject) *this = object();
  for (auto& [name, value] : items_)
    if (name == key) return value;
  return items_.emplace_back(std::string(key), Json()).second;
}

Json& Json::set(std::string_view key, Json value) {
  (*this)[key] = std::move(value);
  return *this;
}

Json& Json::append(Json value) {
  if (kind_ != Kind::kArray) *this = array();
  items_.emplace_back(std::string(), std::move(value));
  return *this;
}

std::string Json::dump(int indent) const {
  std::string out;
  write(out, indent, 0);
  return out;
}

void Json::write(std::string& out, int indent, int depth) const {
  auto newLine = [&](int level) {
    if (indent >= 0) out.append(1, '\n').append(static_cast<size_t>(level) * indent, ' ');
  };
  switch (kind_) {
    case Kind::kNull:
      out += "null";
      return;
    case Kind::kBool:
      out += integer_ ? "true" : "false";
      return;
    case Kind::kInteger:
      out += std::to_string(integer_);
      return;
    case Kind::kNumber: {
      if (!std::isfinite(number_)) {
        out += "null";
        return;
      }
      char buffer[40];
      auto end = std::to_chars(buffer, buffer + sizeof buffer, number_).ptr;
      std::string_view text(buffer, end - buffer);
      out += text;
      if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
      return;
    }
    case Kind::kString:
      out += quoteJson(text_);
      return;
    case Kind::kArray:
    case Kind::kObject:
      break;
  }
  bool isObject = kind_ == Kind::kObject;
  out += isObject ? '{' : '[';
  bool first = true;
  for (const auto& [name, value] : items_) {
    if (!first) out += indent >= 0 ? "," : ", ";
    first = false;
    newLine(depth + 1);
    if (isObject) out += quoteJson(name) + ": ";
    value.write(out, indent, depth + 1);
  }
  if (!items_.empty()) newLine(depth);
  out += isObject ? '}' : ']';
}

}  // namespace hpu::tools
