// SPDX-License-Identifier: Apache-2.0
#include "compose/Labels.h"

#include "compose/Indexing.h"

namespace hpu::compose {

LabelHits labelHits(Emitter& c, Value target, const Shape& shape, int64_t classDim, Value weight, int64_t ignored) {
  if (!target.handle) return {};
  auto rank = static_cast<int64_t>(shape.size());
  int64_t classes = shape[static_cast<size_t>(classDim)];
  Shape one = shape, along(shape.size(), 1);
  one[static_cast<size_t>(classDim)] = 1;
  along[static_cast<size_t>(classDim)] = classes;
  Value at = c.reshape(c.cast(target, ElementType::kI32), one);
  Value kept = c.op("not", {c.op("equal", {at, c.scalarLike(at, static_cast<double>(ignored))})});
  LabelHits hits;
  hits.hit = c.op("and", {c.op("equal", {at, counter(c, classes, classDim, rank)}), kept});
  if (!weight.handle) {
    hits.weights = c.cast(kept, ElementType::kF32);
    return hits;
  }
  Value chosen = c.where(hits.hit, c.reshape(c.toF32(weight), along), c.scalar(0, ElementType::kF32));
  hits.weights = c.reduceSum(chosen, {classDim}, true);
  return hits;
}

}  // namespace hpu::compose
