// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/SizeGuess.h"

#include <algorithm>

namespace hpu::importer {

using shape::DimExpr;
using Numbers = SizeGuess::Numbers;
using Known = SizeGuess::Known;

namespace {

constexpr size_t kMostTried = 64;

bool isConstant(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == numbers.front(); });
}

bool divides(const Numbers& divisor, const Numbers& numbers) {
  bool isSized = false;
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (divisor[k] == 0 || numbers[k] == 0 || numbers[k] % divisor[k] != 0) return false;
    isSized |= divisor[k] != 1;
  }
  return isSized;
}

/// a * expr + b, or (expr - b) / a. Examples do not tell how the latter is rounded where it leaves a remainder.
std::optional<DimExpr> linear(const Numbers& numbers, const Known& of, bool mayDivide) {
  size_t other = 1;
  while (other < numbers.size() && of.second[other] == of.second[0]) ++other;
  if (other == numbers.size()) return std::nullopt;
  const int64_t up = numbers[other] - numbers[0], along = of.second[other] - of.second[0];
  if (up == 0) return std::nullopt;
  auto fits = [&](int64_t a, const Numbers& to, const Numbers& from, int64_t& b) {
    b = to[0] - a * from[0];
    for (size_t k = 0; k < to.size(); ++k)
      if (to[k] != a * from[k] + b) return false;
    return true;
  };
  int64_t b = 0;
  if (up % along == 0 && fits(up / along, numbers, of.second, b)) {
    const std::optional<DimExpr> product = of.first.times(up / along);
    return product ? product->plus(b) : std::nullopt;
  }
  if (mayDivide && along % up == 0 && along / up > 0 && fits(along / up, of.second, numbers, b)) {
    const std::optional<DimExpr> moved = of.first.minus(b);
    return moved ? moved->floorDiv(along / up) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

SizeGuess::SizeGuess(const std::vector<std::map<std::string, int64_t>>& sizes) {
  for (const auto& [name, first] : sizes.front()) {
    Numbers numbers;
    for (const auto& own : sizes) numbers.push_back(own.at(name));
    symbols_.emplace_back(DimExpr::symbol(name), numbers);
    learn(numbers, symbols_.back().first);
  }
}

void SizeGuess::learn(const Numbers& numbers, const DimExpr& expr) {
  if (known_.emplace(numbers, expr).second) order_.emplace_back(expr, numbers);
}

std::optional<DimExpr> SizeGuess::find(const Numbers& numbers, const std::vector<Known>& near, bool mayDivide) const {
  if (isConstant(numbers)) return DimExpr(numbers.front());
  for (const auto& [expr, own] : near)
    if (own == numbers) return expr;
  if (auto found = known_.find(numbers); found != known_.end()) return found->second;
  // Products of the operand's dimensions that lie next to each other, as reshapes join them.
  for (size_t i = 0; i < near.size(); ++i) {
    std::optional<DimExpr> product = near[i].first;
    Numbers own = near[i].second;
    for (size_t j = i + 1; product && j < near.size(); ++j) {
      product = product->times(near[j].first);
      for (size_t k = 0; k < own.size(); ++k) own[k] *= near[j].second[k];
      if (product && own == numbers) return product;
    }
  }
  std::vector<Known> tried;
  for (const auto& [expr, own] : near)
    if (!isConstant(own)) tried.push_back({expr, own});
  tried.insert(tried.end(), symbols_.begin(), symbols_.end());
  for (size_t i = 0; i < order_.size() && i < kMostTried; ++i) tried.push_back(order_[i]);
  // What is left when all symbols that divide it are taken out.
  Numbers rest = numbers;
  DimExpr factor = 1;
  for (const Known& symbol : symbols_)
    while (divides(symbol.second, rest)) {
      for (size_t k = 0; k < rest.size(); ++k) rest[k] /= symbol.second[k];
      const std::optional<DimExpr> more = factor.times(symbol.first);
      if (!more) return std::nullopt;
      factor = *more;
    }
  if (isConstant(rest)) return factor.times(rest.front());
  for (const Known& one : tried)
    if (const auto line = linear(rest, one, mayDivide)) return factor.times(*line);
  // A sum or a difference of two of them.
  for (const Known& one : symbols_)
    for (const int sign : {1, -1}) {
      Numbers left = numbers;
      for (size_t k = 0; k < left.size(); ++k) left[k] -= sign * one.second[k];
      const std::optional<DimExpr> own = one.first.times(sign);
      for (const Known& other : symbols_)
        if (const auto line = linear(left, other, false); line && own) return line->plus(*own);
    }
  return std::nullopt;
}

}  // namespace hpu::importer
