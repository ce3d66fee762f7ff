// SPDX-License-Identifier: Apache-2.0
// What gathers, scatters and sorts are made of.
// The one thing to know: gathers and scatters of the hpu dialect count negative indices from the end themselves, so
// that nothing depends on the size of the indexed dim.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

/// 0, 1, ... along dim `dim` of a value of rank `rank` (1 in all others), i32.
Value counter(Emitter& c, int64_t size, int64_t dim, int64_t rank);
/// `v` with a new dim of size 1 in front of dim `dim`.
Value insertDim(Emitter& c, Value v, int64_t dim);
Value removeDim(Emitter& c, Value v, int64_t dim);
/// Indices as i32 in [0, size): negative ones count from the end, and one outside is the nearest inside, as a gather
/// has it.
Value wrapIndices(Emitter& c, Value indices, int64_t size);

/// The same for ops that count from the end themselves.
Value plainIndices(Emitter& c, Value indices);
/// x with `updates` at `indices` along `dim`, `mode` as scatter_elements has it; all of one rank, of other dims updates
/// may be smaller than x. Floats are summed and multiplied in f32.
Value scatterAlong(Emitter& c, Value x, Value indices, Value updates, int64_t dim, std::string_view mode);

/// Cumulative sum or product along `dim`. `largest`: how large that dim gets, where sizes change (0: they do not, or
/// nothing says): there are then as many steps as it asks for.
Value scan(Emitter& c, Value x, int64_t dim, std::string_view op, bool exclusive, bool reverse, int64_t largest = 0);

/// The number that sorts behind all others of the type; NaN counts as the largest.
Value sortedLast(Emitter& c, ElementType type, bool descending);

}  // namespace hpu::compose
