// SPDX-License-Identifier: Apache-2.0
// DimExpr: the size of a dimension as a polynomial over free dimensions, "2*batch*seq + 1".
// The one thing to know: two expressions are equal for every size of the free dimensions exactly when
// their texts are equal, because text() is canonical.
//
//   DimExpr n = DimExpr::parse("batch") * 4;          // "4*batch"
//   std::optional<int64_t> v = n.evaluate({{"batch", 8}});  // 32
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hpu::ir {

/// Sizes of free dimensions by name.
using SymbolBindings = std::map<std::string, int64_t>;

/// An immutable value. All arithmetic fails (nullopt) on overflow of 64 bits.
class DimExpr {
 public:
  DimExpr(int64_t constant = 0);  // NOLINT: implicit by design
  static DimExpr symbol(std::string name);
  /// Reads sums and products of names and whole numbers; any other text is one name as it is.
  static DimExpr parse(std::string_view text);

  bool isConstant() const;
  /// The value of a constant expression.
  std::optional<int64_t> constant() const;
  /// The name, if the expression is nothing but one free dimension.
  std::optional<std::string> asSymbol() const;
  /// "batch", "2*batch*seq + 1".
  std::string text() const;
  /// The value; nullopt when a name is not bound or the result overflows.
  std::optional<int64_t> evaluate(const SymbolBindings& bindings) const;
  /// Replaces the bound names by their sizes.
  std::optional<DimExpr> substitute(const SymbolBindings& bindings) const;
  /// The free dimensions that occur.
  std::vector<std::string> symbols() const;
  /// The least value when every free dimension is at least 1; nullopt when unknown.
  std::optional<int64_t> lowerBound() const;

  std::optional<DimExpr> plus(const DimExpr& other) const;
  std::optional<DimExpr> minus(const DimExpr& other) const;
  std::optional<DimExpr> times(const DimExpr& other) const;
  /// The quotient when the division leaves no remainder for any size; the divisor is one term.
  std::optional<DimExpr> dividedBy(const DimExpr& divisor) const;

  bool operator==(const DimExpr&) const = default;

 private:
  /// Sorted names with repetition; empty for the constant term.
  using Monomial = std::vector<std::string>;
  std::map<Monomial, int64_t> terms_;  ///< No coefficient is zero.
};

}  // namespace hpu::ir
