// SPDX-License-Identifier: Apache-2.0
#include "shape/DimExprParser.h"

#include <algorithm>
#include <cctype>

namespace hpu::shape {
namespace {

constexpr int kMostNested = 64;

bool isDigit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool isNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':' || c == '/';
}

}  // namespace

bool isPlainName(std::string_view name) {
  return !name.empty() && !isDigit(name[0]) && std::all_of(name.begin(), name.end(), isNameCharacter);
}

std::string quotedName(std::string_view name) {
  std::string out = "'";
  for (char c : name) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::optional<DimExpr> DimExprParser::whole() {
  std::optional<DimExpr> result = sum();
  skipSpace();
  return at_ == text_.size() ? result : std::nullopt;
}

std::optional<DimExpr> DimExprParser::sum() {
  std::optional<DimExpr> result = product();
  while (result) {
    const bool isMore = take("+");
    if (!isMore && !take("-")) break;
    const std::optional<DimExpr> next = product();
    result = !next ? std::nullopt : isMore ? result->plus(*next) : result->minus(*next);
  }
  return result;
}

std::optional<DimExpr> DimExprParser::product() {
  std::optional<DimExpr> result = factor();
  while (result && take("*")) {
    const std::optional<DimExpr> next = factor();
    result = next ? result->times(*next) : std::nullopt;
  }
  return result;
}

std::optional<DimExpr> DimExprParser::factor() {
  if (depth_ == kMostNested) return std::nullopt;
  skipSpace();
  if (at_ == text_.size()) return std::nullopt;
  if (isDigit(text_[at_])) return number();
  ++depth_;
  std::optional<DimExpr> result;
  if (take("'")) {
    result = quoted();
  } else if (take("(")) {
    result = sum();
    if (!take(")")) result = std::nullopt;
  } else {
    const size_t begin = at_;
    while (at_ < text_.size() && isNameCharacter(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (!name.empty())
      result = at_ < text_.size() && text_[at_] == '(' ? function(name) : DimExpr::symbol(std::string(name));
  }
  --depth_;
  return result;
}

std::optional<DimExpr> DimExprParser::number() {
  int64_t value = 0;
  for (; at_ < text_.size() && isDigit(text_[at_]); ++at_)
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value))
      return std::nullopt;
  return DimExpr(value);
}

std::optional<DimExpr> DimExprParser::quoted() {
  std::string name;
  for (; at_ < text_.size(); ++at_) {
    if (text_[at_] == '\'') {
      ++at_;
      if (at_ == text_.size() || text_[at_] != '\'') return DimExpr::symbol(std::move(name));
    }
    name += text_[at_];
  }
  return std::nullopt;
}

std::optional<DimExpr> DimExprParser::function(std::string_view name) {
  take("(");
  std::optional<DimExpr> result;
  if (name == "floor") {
    const std::optional<DimExpr> numerator = factor();
    const bool isDivided = take("/");
    const std::optional<DimExpr> divisor = factor();
    if (numerator && isDivided && divisor) result = numerator->floorDiv(*divisor);
  } else if (name == "max" || name == "min") {
    result = sum();
    bool hasSecond = false;
    while (result && take(",")) {
      hasSecond = true;
      const std::optional<DimExpr> next = sum();
      result = !next ? std::nullopt : name == "max" ? DimExpr::max(*result, *next) : DimExpr::min(*result, *next);
    }
    if (!hasSecond) result = std::nullopt;
  } else if (name == "select") {
    result = select();
  }
  return take(")") ? result : std::nullopt;
}

std::optional<DimExpr> DimExprParser::select() {
  const std::optional<DimExpr> a = sum();
  const bool isEqual = take("==");
  if (!isEqual && !take("<")) return std::nullopt;
  const std::optional<DimExpr> b = sum();
  if (!take(",")) return std::nullopt;
  const std::optional<DimExpr> then = sum();
  if (!take(",")) return std::nullopt;
  const std::optional<DimExpr> otherwise = sum();
  if (!a || !b || !then || !otherwise) return std::nullopt;
  return DimExpr::select(isEqual ? DimExpr::Compare::kEqual : DimExpr::Compare::kLess, *a, *b, *then, *otherwise);
}

void DimExprParser::skipSpace() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
}

bool DimExprParser::take(std::string_view token) {
  skipSpace();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

}  // namespace hpu::shape
