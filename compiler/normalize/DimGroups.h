// SPDX-License-Identifier: Apache-2.0
// How the dims of one shape are made of those of a finer one: what a reshape that splits or merges means to
// the ops around it. The one thing to know: a group is a run of neighbours, so row-major order is kept.
#pragma once

#include <optional>
#include <utility>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace hpu::normalize {

struct DimGroups {
  struct Run {
    int64_t first = 0, count = 0;
  };
  llvm::SmallVector<int64_t> shape;  ///< The finer shape.
  llvm::SmallVector<Run> runs;       ///< The dims of `shape` that each coarse dim is made of; none is empty.

  bool single(int64_t coarse) const { return runs[coarse].count == 1; }
};

/// `fine` as the split of `coarse`: nullopt when it has no more dims, or when it is another arrangement. Dims of size 1
/// that could belong to either neighbour belong to the earlier one.
std::optional<DimGroups> splitOf(llvm::ArrayRef<int64_t> coarse, llvm::ArrayRef<int64_t> fine);

/// The coarsest split of `to` that is also one of `from` (whose dims of size 1 do not count): [128, 8, 256] and
/// [128, 64, 32] give [128, 8, 8, 32]. nullopt when sizes do not divide, or when `to` needs no splitting.
std::optional<DimGroups> refinementOf(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

}  // namespace hpu::normalize
