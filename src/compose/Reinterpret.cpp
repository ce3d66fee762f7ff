// SPDX-License-Identifier: Apache-2.0
#include "compose/Reinterpret.h"

#include <algorithm>

#include "base/Format.h"

namespace hpu::compose {

namespace {

ElementType unsignedOf(int64_t bytes) {
  return bytes == 1   ? ElementType::kU8
         : bytes == 2 ? ElementType::kU16
         : bytes == 4 ? ElementType::kU32
                      : ElementType::kU64;
}

Value bitcast(Emitter& e, Value v, ElementType to) {
  return e.element(v) == to ? v : e.op("bitcast", {v}, {{"to", std::string(elementTypeName(to))}});
}

}  // namespace

Value reinterpret(Emitter& e, Value v, ElementType to) {
  if (!v.handle) return v;
  Shape shape = e.shape(v);
  if (shape.empty()) return e.fail("bytes of a tensor without dims are no other elements");
  int64_t wide = elementSize(e.element(v)), narrow = elementSize(to), bytes = shape.back() * wide;
  if (bytes % narrow)
    return e.fail(base::strCat(bytes, " bytes of size 0 are no whole number of ", elementTypeName(to)));
  if (wide == narrow) return bitcast(e, v, to);
  auto last = static_cast<int64_t>(shape.size()) - 1;
  int64_t parts = std::max(wide, narrow) / std::min(wide, narrow), partBits = std::min(wide, narrow) * 8;
  ElementType part = unsignedOf(std::min(wide, narrow)), whole = unsignedOf(std::max(wide, narrow));
  v = bitcast(e, v, unsignedOf(wide));
  shape.back() = bytes / narrow;
  if (wide > narrow) {
    Shape column = e.shape(v);
    column.push_back(1);
    std::vector<int64_t> shifts;
    for (int64_t k = 0; k < parts; ++k) shifts.push_back(k * partBits);
    Value shifted = e.op("shift_right", {e.reshape(v, column), e.cast(e.indices({parts}, shifts), whole)});
    v = e.reshape(e.cast(shifted, part), shape);
  } else {
    Value sum;
    for (int64_t k = 0; k < parts; ++k) {
      Value piece = e.cast(e.sliceDim(v, last, k, shape.back(), parts), whole);
      if (k) piece = e.op("shift_left", {piece, e.scalarLike(piece, static_cast<double>(k * partBits))});
      sum = sum.handle ? e.op("bit_or", {sum, piece}) : piece;
    }
    v = sum;
  }
  return bitcast(e, v, to);
}

}  // namespace hpu::compose
