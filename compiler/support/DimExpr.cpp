// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/DimExpr.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>

namespace hpu::ir {
namespace {

/// Sizes of models have a few terms of a few factors. Beyond this an expression is as little a number as one that
/// overflows.
constexpr size_t kMostTerms = 64, kMostProducts = 512, kMostFactors = 64;

bool add(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_add_overflow(a, b, &out);
}
bool mul(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out);
}

/// Recursive descent over "term (+|- term)*", term "factor (* factor)*". Fails on anything else.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<DimExpr> whole() {
    std::optional<DimExpr> result = sum();
    skipSpace();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  std::optional<DimExpr> sum() {
    std::optional<DimExpr> result = product();
    while (result) {
      skipSpace();
      if (take('+')) {
        std::optional<DimExpr> next = product();
        result = next ? result->plus(*next) : std::nullopt;
      } else if (take('-')) {
        std::optional<DimExpr> next = product();
        result = next ? result->minus(*next) : std::nullopt;
      } else {
        break;
      }
    }
    return result;
  }

  std::optional<DimExpr> product() {
    std::optional<DimExpr> result = factor();
    while (result) {
      skipSpace();
      if (!take('*')) break;
      std::optional<DimExpr> next = factor();
      result = next ? result->times(*next) : std::nullopt;
    }
    return result;
  }

  std::optional<DimExpr> factor() {
    skipSpace();
    size_t begin = at_;
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      int64_t value = 0;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_)
        if (!mul(value, 10, value) || !add(value, text_[at_] - '0', value)) return std::nullopt;
      return DimExpr(value);
    }
    auto isName = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':' || c == '/';
    };
    while (at_ < text_.size() && isName(text_[at_])) ++at_;
    if (at_ == begin) return std::nullopt;
    return DimExpr::symbol(std::string(text_.substr(begin, at_ - begin)));
  }

  void skipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

DimExpr::DimExpr(int64_t constant) {
  if (constant != 0) terms_[{}] = constant;
}

DimExpr DimExpr::symbol(std::string name) {
  DimExpr result;
  result.terms_[{std::move(name)}] = 1;
  return result;
}

DimExpr DimExpr::parse(std::string_view text) {
  if (std::optional<DimExpr> parsed = Parser(text).whole()) return *parsed;
  return symbol(std::string(text));
}

bool DimExpr::isConstant() const {
  return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty());
}

std::optional<int64_t> DimExpr::constant() const {
  if (!isConstant()) return std::nullopt;
  return terms_.empty() ? 0 : terms_.begin()->second;
}

std::optional<std::string> DimExpr::asSymbol() const {
  if (terms_.size() != 1) return std::nullopt;
  const auto& [names, factor] = *terms_.begin();
  if (names.size() != 1 || factor != 1) return std::nullopt;
  return names[0];
}

std::string DimExpr::text() const {
  if (terms_.empty()) return "0";
  // Higher degrees first, the constant last.
  std::vector<const std::pair<const Monomial, int64_t>*> order;
  for (const auto& term : terms_) order.push_back(&term);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->first.size() > b->first.size(); });
  std::string out;
  for (const auto* term : order) {
    int64_t factor = term->second;
    bool negative = factor < 0;
    if (!out.empty()) {
      out += negative ? " - " : " + ";
    } else if (negative) {
      out += "0 - ";
    }
    // Negating the least integer would overflow; its digits are those of the unsigned value.
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(factor) : factor;
    bool number = term->first.empty() || magnitude != 1;
    if (number) out += std::to_string(magnitude);
    for (size_t i = 0; i < term->first.size(); ++i) {
      if (i || number) out += '*';
      out += term->first[i];
    }
  }
  return out;
}

std::optional<DimExpr> DimExpr::substitute(const SymbolBindings& bindings) const {
  DimExpr result;
  for (const auto& [names, factor] : terms_) {
    DimExpr term(factor);
    for (const std::string& name : names) {
      auto bound = bindings.find(name);
      std::optional<DimExpr> next = term.times(bound == bindings.end() ? symbol(name) : DimExpr(bound->second));
      if (!next) return std::nullopt;
      term = *next;
    }
    std::optional<DimExpr> sum = result.plus(term);
    if (!sum) return std::nullopt;
    result = *sum;
  }
  return result;
}

std::optional<int64_t> DimExpr::evaluate(const SymbolBindings& bindings) const {
  std::optional<DimExpr> result = substitute(bindings);
  return result ? result->constant() : std::nullopt;
}

std::vector<std::string> DimExpr::symbols() const {
  std::set<std::string> names;
  for (const auto& term : terms_) names.insert(term.first.begin(), term.first.end());
  return {names.begin(), names.end()};
}

std::optional<int64_t> DimExpr::lowerBound() const {
  int64_t bound = 0;
  for (const auto& [names, factor] : terms_) {
    if (!names.empty() && factor < 0) return std::nullopt;
    if (!add(bound, factor, bound)) return std::nullopt;
  }
  return bound;
}

std::optional<DimExpr> DimExpr::plus(const DimExpr& other) const {
  DimExpr result = *this;
  for (const auto& [names, factor] : other.terms_) {
    int64_t& slot = result.terms_[names];
    if (!add(slot, factor, slot)) return std::nullopt;
    if (slot == 0) result.terms_.erase(names);
  }
  if (result.terms_.size() > kMostTerms) return std::nullopt;
  return result;
}

std::optional<DimExpr> DimExpr::minus(const DimExpr& other) const {
  std::optional<DimExpr> negated = other.times(DimExpr(-1));
  return negated ? plus(*negated) : std::nullopt;
}

std::optional<DimExpr> DimExpr::times(const DimExpr& other) const {
  if (terms_.size() * other.terms_.size() > kMostProducts) return std::nullopt;
  DimExpr result;
  for (const auto& [a, x] : terms_) {
    for (const auto& [b, y] : other.terms_) {
      if (a.size() + b.size() > kMostFactors) return std::nullopt;
      Monomial names = a;
      names.insert(names.end(), b.begin(), b.end());
      std::sort(names.begin(), names.end());
      int64_t factor;
      int64_t& slot = result.terms_[names];
      if (!mul(x, y, factor) || !add(slot, factor, slot)) return std::nullopt;
      if (slot == 0) result.terms_.erase(names);
    }
  }
  if (result.terms_.size() > kMostTerms) return std::nullopt;
  return result;
}

std::optional<DimExpr> DimExpr::dividedBy(const DimExpr& divisor) const {
  if (divisor.terms_.size() != 1) return *this == divisor ? std::optional<DimExpr>(1) : std::nullopt;
  const auto& [names, factor] = *divisor.terms_.begin();
  DimExpr result;
  for (const auto& [monomial, coefficient] : terms_) {
    if (!std::includes(monomial.begin(), monomial.end(), names.begin(), names.end())) return std::nullopt;
    if (factor == -1 && coefficient == std::numeric_limits<int64_t>::min()) return std::nullopt;
    if (coefficient % factor != 0) return std::nullopt;
    Monomial rest;
    std::set_difference(monomial.begin(), monomial.end(), names.begin(), names.end(), std::back_inserter(rest));
    result.terms_[rest] = coefficient / factor;
  }
  return result;
}

}  // namespace hpu::ir
