// SPDX-License-Identifier: Apache-2.0
// Proves that boxes cover a space exactly once: no point missing, none twice.
// The one thing to know: the proof is algebraic. A sum of boxes equals the space if and only if the
// signed sums of their corners do, so no pair of boxes is ever compared.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "recipe/Recipe.h"

namespace hpu::recipe {

struct Box {
  std::array<int64_t, kMaxRank> lo{}, hi{};
};

enum class Cover { kExact, kGap, kOverlap, kTooIrregular };

struct CoverResult {
  Cover cover = Cover::kExact;
  /// A point that is missing or covered more than once.
  std::array<int64_t, kMaxRank> point{};
};

/// `space` are the sizes; every box has lo < hi within it. O(n log n) for boxes that slice a space
/// as tiles do; kTooIrregular beyond 256 corners a box that do not cancel.
CoverResult checkCover(std::span<const int64_t> space, std::vector<Box> boxes);

}  // namespace hpu::recipe
