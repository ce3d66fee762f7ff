// SPDX-License-Identifier: Apache-2.0
#include "compose/Regions.h"

#include <algorithm>

namespace hpu::compose {

using Ints = std::vector<int64_t>;

namespace {

/// What is between the first and the last element of the region along d, both included.
int64_t span(const Region& region, size_t d) {
  return region.sizes[d] == 0 ? 0 : (region.sizes[d] - 1) * region.steps[d] + 1;
}

bool isEmpty(const Region& region) {
  return numElements(region.sizes) == 0;
}

/// True at the elements of the region, of a shape that broadcasts to `whole`'s.
Value maskOf(Emitter& e, const Region& region, const Shape& whole) {
  Value mask;
  for (size_t d = 0; d < whole.size(); ++d) {
    if (region.sizes[d] == whole[d]) continue;
    std::vector<uint8_t> bits(static_cast<size_t>(whole[d]), 0);
    for (int64_t i = 0; i < region.sizes[d]; ++i) bits[static_cast<size_t>(region.starts[d] + i * region.steps[d])] = 1;
    Shape shape(whole.size(), 1);
    shape[d] = whole[d];
    Value line = e.constant({ElementType::kBool, shape}, bits.data(), bits.size());
    mask = mask.handle ? e.op("and", {mask, line}) : line;
  }
  return mask;
}

/// Along each dim in turn: what is before the region, the rest of the work on its inside, what is after.
Value splice(Emitter& e, Value whole, Value piece, const Region& region, size_t d) {
  Shape sizes = e.shape(whole);
  if (d == sizes.size()) return piece;
  int64_t start = region.starts[d], size = region.sizes[d];
  auto dim = static_cast<int64_t>(d);
  if (size == sizes[d]) return splice(e, whole, piece, region, d + 1);
  Value inside = splice(e, e.sliceDim(whole, dim, start, size), piece, region, d + 1);
  return e.concat({e.sliceDim(whole, dim, 0, start), inside,
                   e.sliceDim(whole, dim, start + size == sizes[d] ? 0 : start + size, sizes[d] - start - size)},
                  dim);
}

}  // namespace

Value sliceRegion(Emitter& e, Value whole, const Region& region) {
  return e.slice(whole, region.starts, region.sizes, region.steps);
}

Value placeRegion(Emitter& e, Value piece, const Region& region, const Shape& whole) {
  if (!piece.handle) return piece;
  if (isEmpty(region)) return e.full({e.element(piece), whole}, 0);
  Ints high;
  for (size_t d = 0; d < whole.size(); ++d) high.push_back(whole[d] - region.starts[d] - span(region, d));
  return e.pad(e.spread(piece, region.steps), region.starts, high);
}

Value insertRegion(Emitter& e, Value whole, Value piece, const Region& region) {
  if (!whole.handle || !piece.handle || isEmpty(region)) return whole;
  if (std::all_of(region.steps.begin(), region.steps.end(), [](int64_t s) { return s == 1; }))
    return splice(e, whole, piece, region, 0);
  Shape shape = e.shape(whole);
  Value placed = placeRegion(e, piece, region, shape), mask = maskOf(e, region, shape);
  return mask.handle ? e.where(mask, placed, whole) : placed;
}

}  // namespace hpu::compose
