// SPDX-License-Identifier: Apache-2.0
// Which sizes free dimensions are worked with while their own are not known (NamedSizes.h).
// The one thing to know: a representative is a prime times a small number. Its prime divides no number of the model, so
// a number that it divides depends on the dimension. Large ones come first: what is computed of them agrees with no
// number of the model by chance. Small ones, most within the bounds, are for models whose sizes fit together there
// only: a table of 64 rows of which the first `seq` are taken, or the last 64 - `seq`. Dimensions that the model asks
// to be equal (EqualSizes.h) have one representative.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "mlir/IR/BuiltinOps.h"
#include "shape/Interval.h"

namespace hpu::importer {

/// Sizes of all dimensions.
using SizeAssignment = std::map<std::string, int64_t>;

/// Each to be tried when those before it do not fit the model, a few hundred. `numbers` are the model's own. Errors:
/// kInvalidArgument when there are more dimensions than primes.
StatusOr<std::vector<SizeAssignment>> representativesOf(const shape::SymbolBounds& bounds,
                                                        const std::set<int64_t>& numbers);
/// Whether one of the sizes is a small one: what is computed of it may agree with other numbers by chance.
bool isSmall(const SizeAssignment& sizes);

/// What sizes that differ must not agree with: a size that is 1 is taken for one that is repeated, and what is computed
/// of small ones may be anything.
enum class Apart { kNothing, kOnes, kAll };
/// Of a module that has these representatives: kInvalidArgument, naming the op and the size, where a size is 0 or less,
/// and where two sizes that differ, or one and a number, have the same value. Names of equalSizes() do not differ.
Status checkRepresented(mlir::ModuleOp module, Apart apart);

}  // namespace hpu::importer
