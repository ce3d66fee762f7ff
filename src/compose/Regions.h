// SPDX-License-Identifier: Apache-2.0
// Region: every steps[d]-th element of each dim of a tensor; cutting it out and writing a piece into it.
#pragma once

#include <vector>

#include "compose/Emitter.h"

namespace hpu::compose {

struct Region {
  std::vector<int64_t> starts, sizes, steps;
};

Value sliceRegion(Emitter& e, Value whole, const Region& region);
/// `piece` at the region of a tensor of sizes `whole` that is zero elsewhere.
Value placeRegion(Emitter& e, Value piece, const Region& region, const Shape& whole);
/// `whole` with `piece` at the region.
Value insertRegion(Emitter& e, Value whole, Value piece, const Region& region);

}  // namespace hpu::compose
