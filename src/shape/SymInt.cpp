// SPDX-License-Identifier: Apache-2.0
#include "shape/SymInt.h"

#include <algorithm>

#include "base/Math.h"

namespace hpu::shape {
namespace {

int64_t roundedQuotient(int64_t value, int64_t divisor) {
  return divisor < 0 ? base::floorDiv(-value, -divisor) : base::floorDiv(value, divisor);
}

}  // namespace

SymInt::SymInt(const DimExpr& expr, int64_t value) : value_(value) {
  if (const std::optional<int64_t> number = expr.constant())
    value_ = *number;
  else
    expr_ = std::make_shared<const std::optional<DimExpr>>(expr);
}

SymInt SymInt::unknown(int64_t value) {
  // Never destroyed: compilations may go on while the process exits.
  static const auto& none = *new auto(std::make_shared<const std::optional<DimExpr>>());
  SymInt result(value);
  result.expr_ = none;
  return result;
}

bool SymInt::isUnknown() const {
  return expr_ && !*expr_;
}

std::optional<DimExpr> SymInt::expr() const {
  return expr_ ? *expr_ : DimExpr(value_);
}

std::string SymInt::text() const {
  if (!expr_) return std::to_string(value_);
  return *expr_ ? (*expr_)->text() : "?";
}

SymInt SymInt::combine(const SymInt& a, const SymInt& b, int64_t value, Combine combine) {
  if (a.isUnknown() || b.isUnknown()) return unknown(value);
  const std::optional<DimExpr> expr = combine(*a.expr(), *b.expr());
  return expr ? SymInt(*expr, value) : unknown(value);
}

SymInt operator+(const SymInt& a, const SymInt& b) {
  if (a.isConstant() && b.isConstant()) return a.value_ + b.value_;
  int64_t value = 0;
  if (__builtin_add_overflow(a.value_, b.value_, &value)) return SymInt::unknown(0);
  return SymInt::combine(a, b, value, [](const DimExpr& x, const DimExpr& y) { return x.plus(y); });
}

SymInt operator-(const SymInt& a, const SymInt& b) {
  if (a.isConstant() && b.isConstant()) return a.value_ - b.value_;
  int64_t value = 0;
  if (__builtin_sub_overflow(a.value_, b.value_, &value)) return SymInt::unknown(0);
  return SymInt::combine(a, b, value, [](const DimExpr& x, const DimExpr& y) { return x.minus(y); });
}

SymInt operator*(const SymInt& a, const SymInt& b) {
  if (a.isConstant() && b.isConstant()) return a.value_ * b.value_;
  int64_t value = 0;
  if (__builtin_mul_overflow(a.value_, b.value_, &value)) return SymInt::unknown(0);
  return SymInt::combine(a, b, value, [](const DimExpr& x, const DimExpr& y) { return x.times(y); });
}

std::optional<SymInt> SymInt::dividedBy(const SymInt& divisor) const {
  if (divisor.value_ == 0) return std::nullopt;
  if (isConstant() && divisor.isConstant())
    return value_ % divisor.value_ == 0 ? std::optional(SymInt(value_ / divisor.value_)) : std::nullopt;
  if (*this == divisor) return SymInt(1);
  if (isUnknown() || divisor.isUnknown()) return std::nullopt;
  const std::optional<DimExpr> quotient = expr()->dividedBy(*divisor.expr());
  if (!quotient) return std::nullopt;
  return SymInt(*quotient, value_ / divisor.value_);
}

SymInt SymInt::floorDiv(const SymInt& divisor) const {
  const int64_t value = roundedQuotient(value_, divisor.value_);
  if (isConstant() && divisor.isConstant()) return value;
  return combine(*this, divisor, value, [](const DimExpr& x, const DimExpr& y) { return x.floorDiv(y); });
}

SymInt SymInt::ceilDiv(const SymInt& divisor) const {
  const int64_t value = -roundedQuotient(-value_, divisor.value_);
  if (isConstant() && divisor.isConstant()) return value;
  return combine(*this, divisor, value, [](const DimExpr& x, const DimExpr& y) { return x.ceilDiv(y); });
}

SymInt SymInt::max(const SymInt& a, const SymInt& b) {
  const int64_t value = std::max(a.value_, b.value_);
  if (a.isConstant() && b.isConstant()) return value;
  return combine(a, b, value, [](const DimExpr& x, const DimExpr& y) { return DimExpr::max(x, y); });
}

SymInt SymInt::min(const SymInt& a, const SymInt& b) {
  const int64_t value = std::min(a.value_, b.value_);
  if (a.isConstant() && b.isConstant()) return value;
  return combine(a, b, value, [](const DimExpr& x, const DimExpr& y) { return DimExpr::min(x, y); });
}

bool operator==(const SymInt& a, const SymInt& b) {
  if (a.isConstant() && b.isConstant()) return a.value_ == b.value_;
  if (a.isConstant() || b.isConstant() || a.isUnknown() || b.isUnknown()) return false;
  return a.expr_ == b.expr_ || (a.value_ == b.value_ && **a.expr_ == **b.expr_);
}

}  // namespace hpu::shape
