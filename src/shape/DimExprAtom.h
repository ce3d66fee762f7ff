// SPDX-License-Identifier: Apache-2.0
// What a DimExpr's polynomials are over: inside this folder only.
#pragma once

#include <string>
#include <vector>

#include "shape/DimExpr.h"

namespace hpu::shape {

struct DimExpr::Atom {
  using Kind = Part::Kind;

  Kind kind;
  std::string name;  ///< Of a symbol.
  std::vector<DimExpr> args;
  std::string text;  ///< A factor as DimExpr::parse reads it; what atoms are compared by.

  std::optional<int64_t> evaluate(const SymbolBindings& bindings) const;
  Interval interval(const SymbolBounds& bounds) const;
  std::optional<bool> decided(const SymbolBounds& bounds) const;
  std::optional<DimExpr> of(const std::vector<DimExpr>& with) const;
};

}  // namespace hpu::shape
