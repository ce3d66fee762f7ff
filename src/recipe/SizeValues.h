// SPDX-License-Identifier: Apache-2.0
// The numbers of a program of free dimensions (Dynamic.h) for given sizes: the values of its expressions, and the sizes
// that the shapes of a launch's inputs say. The one thing to know: all arithmetic is checked; a value that there is
// none of is an error only where it is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// Sizes of all symbols of a program, in the order of Dynamic::symbols.
using Sizes = std::vector<int64_t>;

/// The sizes that the program's own numbers are for.
Sizes sampleSizes(const Dynamic& dynamic);

/// "past = 100, seq = 512".
std::string sizesText(const Dynamic& dynamic, const Sizes& sizes);

/// The expression as people write it: "past + seq", "floor(seq / 2)".
std::string exprText(const Dynamic& dynamic, uint32_t expr);

/// Values of all expressions, by number; of those that have none `valid` is 0.
struct SizeNumbers {
  std::vector<int64_t> values;
  std::vector<uint8_t> valid;
};

/// The values of all expressions for some sizes.
class SizeValues {
 public:
  /// `dynamic` (of a verified program, but for the order of arguments nothing of it is relied on) must outlive this;
  /// `sizes` are those of all symbols.
  SizeValues(const Dynamic& dynamic, const Sizes& sizes);

  /// nullopt: it overflows 64 bits, or a divisor is less than 1.
  std::optional<int64_t> find(uint32_t expr) const {
    return numbers_.valid[expr] ? std::optional(numbers_.values[expr]) : std::nullopt;
  }
  /// kOutOfRange when there is none, naming the expression and the sizes.
  StatusOr<int64_t> at(uint32_t expr) const;

  const SizeNumbers& numbers() const { return numbers_; }
  /// Whether the expression has the value that it has in `other`, of the same program.
  bool isAsIn(const SizeNumbers& other, uint32_t expr) const {
    return numbers_.valid[expr] && other.valid[expr] && numbers_.values[expr] == other.values[expr];
  }

 private:
  bool evaluate(const SizeExpr& expr, int64_t& value) const;

  const Dynamic& dynamic_;
  const Sizes& sizes_;
  SizeNumbers numbers_;
};

/// kInvalidArgument unless there is a size for every symbol, within its bounds.
Status checkBounds(const Dynamic& dynamic, const Sizes& sizes);

/// kInvalidArgument, with the names that there are, unless a free dimension of the program has this name.
Status checkDimName(const Program& program, const std::string& name);

/// The inputs whose elements say sizes (Dynamic::values), in order.
std::vector<uint32_t> valueInputs(const Program& program);

/// The sizes of all symbols from the shapes of a launch's inputs, and behind these the elements of valueInputs(), a
/// list for each. The sizes that elements say, those of a symbol that is a dimension, of one that is left in a
/// dimension whose expression is linear in it ("past + seq" where seq is known). Then every dimension and every guard
/// is checked. Errors (kInvalidArgument) are a line that names the dimension, its bounds and the inputs that disagree.
/// A program of fixed sizes has no symbols; its inputs must have their shapes.
StatusOr<Sizes> solveSizes(const Program& program, const std::vector<Shape>& inputs);

/// What solveSizes takes, of a launch's shapes and the elements of its inputs (empty where they say no size; of none of
/// them: empty). Errors: kInvalidArgument naming an input whose elements are missing.
StatusOr<std::vector<Shape>> launchNumbers(const Program& program, const std::vector<Shape>& inputs,
                                           const std::vector<std::vector<int64_t>>& values);

}  // namespace hpu::recipe
