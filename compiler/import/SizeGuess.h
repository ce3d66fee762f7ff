// SPDX-License-Identifier: Apache-2.0
// Finds how a number that differs between graphs of several sizes follows from their sizes.
// The one thing to know: it is a guess, which holds in all graphs; whoever uses it lets shape inference and guards look
// at it again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shape/DimExpr.h"

namespace hpu::importer {

class SizeGuess {
 public:
  using Numbers = std::vector<int64_t>;  ///< By graph.
  using Known = std::pair<shape::DimExpr, Numbers>;

  /// By graph its sizes, all of the same names.
  explicit SizeGuess(const std::vector<std::map<std::string, int64_t>>& sizes);

  /// Of a value's type.
  void learn(const Numbers& numbers, const shape::DimExpr& expr);

  /// `near`: sizes of the op's operand, which come first. `mayDivide`: parts of sizes will do, as a guard asks launches
  /// for sizes of which there are such parts.
  std::optional<shape::DimExpr> find(const Numbers& numbers, const std::vector<Known>& near, bool mayDivide) const;

 private:
  std::vector<Known> symbols_;
  std::map<Numbers, shape::DimExpr> known_;
  std::vector<Known> order_;  ///< As they were learnt.
};

}  // namespace hpu::importer
