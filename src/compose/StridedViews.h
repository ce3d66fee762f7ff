// SPDX-License-Identifier: Apache-2.0
// Views of any strides over the elements of a tensor: reading them, and writing to them.
// The one thing to know: strides that nest (each a multiple of the next, no overlap) are slices of a reshape, which
// cost nothing or a copy; all others gather through a table of positions.
#pragma once

#include <cstdint>
#include <vector>

#include "compose/Emitter.h"

namespace hpu::compose {

/// Which elements, counted row-major, a tensor of sizes `shape` has: base + the sum of index times stride.
struct View {
  Shape shape;
  std::vector<int64_t> strides;
  int64_t base = 0;
};

/// The elements of `whole` that the view has, as a tensor of its sizes. They must be inside.
Value readView(Emitter& e, Value whole, const View& view);
/// `whole` with `values` (of the view's sizes) at the view's elements; where the view has one twice, the last one
/// stays.
Value writeView(Emitter& e, Value whole, Value values, const View& view);

}  // namespace hpu::compose
