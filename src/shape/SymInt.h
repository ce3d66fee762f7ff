// SPDX-License-Identifier: Apache-2.0
// SymInt: a whole number that may depend on sizes that are given late: its value at the sizes that a compilation works
// with (the *representatives* of free dimensions), and its expression.
// The one thing to know: `==` asks whether two numbers are the same for all sizes, not whether they happen to be at the
// representatives. Which of two is larger is a matter of the sizes; who needs an answer asks for value() and makes a
// choice that is right whatever it is.
//
//   SymInt seq(DimExpr::symbol("seq"), 509);
//   SymInt stride = seq * 64;                 // value() 32576, text() "64*seq"
//   stride == SymInt(32576);                  // false
//   stride.dividedBy(seq)->constant();        // 64
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shape/DimExpr.h"

namespace hpu::shape {

/// An immutable value; numbers that depend on nothing cost as much as an int64_t. Arithmetic on those wraps nowhere
/// that int64_t does not overflow; an expression that cannot be had (it would overflow, or be larger than sizes of
/// models are) makes the number unknown(), which is equal to nothing.
class SymInt {
 public:
  SymInt(int64_t number = 0) : value_(number) {}  // NOLINT: implicit by design
  /// `value` is that of `expr` at the representatives.
  SymInt(const DimExpr& expr, int64_t value);
  /// Of no expression that could be had.
  static SymInt unknown(int64_t value);

  /// At the representatives.
  int64_t value() const { return value_; }
  bool isConstant() const { return !expr_; }
  /// The number, if it is the same for all sizes.
  std::optional<int64_t> constant() const { return expr_ ? std::nullopt : std::optional(value_); }
  bool isUnknown() const;
  /// nullopt: unknown.
  std::optional<DimExpr> expr() const;
  /// The expression's text, "?" when it is unknown.
  std::string text() const;

  friend SymInt operator+(const SymInt& a, const SymInt& b);
  friend SymInt operator-(const SymInt& a, const SymInt& b);
  friend SymInt operator*(const SymInt& a, const SymInt& b);
  SymInt operator-() const { return SymInt(0) - *this; }
  SymInt& operator+=(const SymInt& other) { return *this = *this + other; }
  SymInt& operator-=(const SymInt& other) { return *this = *this - other; }
  SymInt& operator*=(const SymInt& other) { return *this = *this * other; }
  /// The quotient when the division leaves no remainder for any sizes.
  std::optional<SymInt> dividedBy(const SymInt& divisor) const;
  /// Rounded down, up. The divisor's value is not 0.
  SymInt floorDiv(const SymInt& divisor) const;
  SymInt ceilDiv(const SymInt& divisor) const;
  static SymInt max(const SymInt& a, const SymInt& b);
  static SymInt min(const SymInt& a, const SymInt& b);

  /// The same for all sizes, as far as the normal forms of both say so.
  friend bool operator==(const SymInt& a, const SymInt& b);

 private:
  using Combine = std::optional<DimExpr> (*)(const DimExpr& a, const DimExpr& b);
  static SymInt combine(const SymInt& a, const SymInt& b, int64_t value, Combine combine);

  int64_t value_ = 0;
  /// Null: a constant. Holds no expression: unknown.
  std::shared_ptr<const std::optional<DimExpr>> expr_;
};

}  // namespace hpu::shape
