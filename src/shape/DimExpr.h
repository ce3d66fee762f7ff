// SPDX-License-Identifier: Apache-2.0
// DimExpr: the size of a dimension as an expression over free dimensions, "2*batch*seq + floor((width - 1) / 2)".
// The one thing to know: an expression is a polynomial whose factors are free dimensions and *atoms*: quotients rounded
// down, greatest and least values and choices, which are no polynomials. Expressions with the same text are equal for
// all sizes; ones with different texts may be, too, and equal() says what is known.
//
//   DimExpr n = DimExpr::parse("batch") * 4;                   // "4*batch"
//   std::optional<int64_t> v = n.evaluate({{"batch", 8}});     // 32
//   n.plus(1)->floorDiv(2)->text();                            // "2*batch"
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shape/Interval.h"

namespace hpu::shape {

/// Sizes of free dimensions by name.
using SymbolBindings = std::map<std::string, int64_t>;

/// An immutable value. All arithmetic fails (nullopt) on overflow of 64 bits, and for expressions that would be larger
/// than sizes of models are (64 terms of 64 factors, atoms 16 deep, a text of 4096 characters).
class DimExpr {
 public:
  enum class Compare { kEqual, kLess };

  DimExpr(int64_t constant = 0);  // NOLINT: implicit by design
  static DimExpr symbol(std::string name);
  /// Reads what text() writes, sums and products of names and whole numbers among it; any other text is one name as it
  /// is. A name between single quotes may have any characters but those.
  static DimExpr parse(std::string_view text);

  bool isConstant() const;
  /// The value of a constant expression.
  std::optional<int64_t> constant() const;
  /// The name, if the expression is nothing but one free dimension.
  std::optional<std::string> asSymbol() const;
  /// "batch", "2*batch*seq + 1", "max(floor(seq / 2), 1)". parse() gives the expression again.
  std::string text() const;
  /// The value; nullopt when a name is not bound, a divisor is 0 or the result overflows.
  std::optional<int64_t> evaluate(const SymbolBindings& bindings) const;
  /// Replaces the bound names by their sizes.
  std::optional<DimExpr> substitute(const SymbolBindings& bindings) const;
  /// Gives free dimensions the names that they have in `names`; what becomes equal is joined.
  std::optional<DimExpr> renamed(const std::map<std::string, std::string>& names) const;
  /// The free dimensions that occur, in order.
  std::vector<std::string> symbols() const;

  /// Contains the value for all sizes within the bounds; may be wider.
  Interval interval(const SymbolBounds& bounds = {}) const;
  /// The least value for all sizes; nullopt when unknown.
  std::optional<int64_t> lowerBound() const;
  /// Of the same value for all sizes within the bounds: what they decide (a max, a choice, a quotient) is decided.
  DimExpr simplified(const SymbolBounds& bounds = {}) const;
  /// Whether both are the same for all sizes within the bounds (true), for none (false), or that is not known.
  static std::optional<bool> equal(const DimExpr& a, const DimExpr& b, const SymbolBounds& bounds = {});

  std::optional<DimExpr> plus(const DimExpr& other) const;
  std::optional<DimExpr> minus(const DimExpr& other) const;
  std::optional<DimExpr> times(const DimExpr& other) const;
  /// The quotient when the division leaves no remainder for any size; the divisor is one term, and not 0.
  std::optional<DimExpr> dividedBy(const DimExpr& divisor) const;
  /// Rounded down, up; what is left by the former. A divisor that is not a number must not be 0 at launch.
  std::optional<DimExpr> floorDiv(const DimExpr& divisor) const;
  std::optional<DimExpr> ceilDiv(const DimExpr& divisor) const;
  std::optional<DimExpr> mod(const DimExpr& divisor) const;
  static std::optional<DimExpr> max(const DimExpr& a, const DimExpr& b);
  static std::optional<DimExpr> min(const DimExpr& a, const DimExpr& b);
  /// `then` where the comparison holds. Only what is chosen needs a value.
  static std::optional<DimExpr> select(Compare compare, const DimExpr& a, const DimExpr& b, const DimExpr& then,
                                       const DimExpr& otherwise);

  /// The same normal form.
  bool operator==(const DimExpr& other) const;

  /// What the polynomial is made of, for who writes expressions in a form of his own.
  struct Part {
    enum class Kind {
      kSymbol,
      kQuotient,  ///< floor(args[0] / args[1]).
      kMax,       ///< Of two or more.
      kMin,
      kSelectEqual,  ///< args[0] == args[1] ? args[2] : args[3]; so, too, with < below.
      kSelectLess,
    };
    Kind kind = Kind::kSymbol;
    std::string name;  ///< Of a symbol.
    std::vector<DimExpr> args;
  };
  /// coefficient * factors[0] * factors[1] ...
  struct Term {
    int64_t coefficient = 0;
    std::vector<Part> factors;
  };
  /// Their sum; none: 0.
  std::vector<Term> terms() const;

 private:
  friend class DimExprParser;
  struct Atom;
  /// Ordered by the atom's text.
  struct Factor {
    std::shared_ptr<const Atom> atom;
    bool operator<(const Factor& other) const;
    bool operator==(const Factor& other) const;
  };
  /// Sorted, with repetition; empty for the constant term.
  using Monomial = std::vector<Factor>;

  static std::optional<DimExpr> make(Atom atom);
  static std::optional<DimExpr> extremum(bool isMax, const DimExpr& a, const DimExpr& b);
  std::optional<DimExpr> floorDivNumber(int64_t divisor) const;
  std::optional<DimExpr> onlyIfSmall() const;
  /// The atom, if the expression is nothing but one.
  const Atom* onlyAtom() const;
  /// As a part of another text: names that are not plain stand between quotes.
  std::string innerText() const;
  std::string factorText() const;
  int depth() const;
  /// Each atom replaced by what `replace` makes of it.
  template <typename Replace>
  std::optional<DimExpr> replaced(const Replace& replace) const;

  std::map<Monomial, int64_t> terms_;  ///< No coefficient is zero.
};

}  // namespace hpu::shape
