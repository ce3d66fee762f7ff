// SPDX-License-Identifier: Apache-2.0
#include "compose/Determinant.h"

#include "base/Format.h"
#include "compose/Functions.h"
#include "compose/Indexing.h"

namespace hpu::compose {

Value determinant(Emitter& c, Value matrices) {
  const Shape shape = c.shape(matrices);
  if (!c.ok()) return {};
  if (shape.size() < 2 || shape[shape.size() - 1] != shape[shape.size() - 2]) return c.fail("matrices must be square");
  const int64_t size = shape.back();
  if (size > kMostDeterminantRows)
    return c.unsupported(base::strCat("a determinant of ", size, " rows (at most ", kMostDeterminantRows, " are)"));
  const Shape outer(shape.begin(), shape.end() - 2);
  const ElementType type = c.element(matrices);
  const ElementType wide = type == ElementType::kF64 ? type : ElementType::kF32;
  const int64_t batch = numElements(outer);
  Value left = c.reshape(c.cast(matrices, wide), {batch, size, size});
  Value result = c.full({wide, {batch}}, 1);
  for (int64_t rows = size; rows > 0 && c.ok(); --rows) {
    Value column = c.sliceDim(left, 2, 0, 1);
    Value chosen = c.op("arg_max", {c.op("abs", {column})}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}});
    Value isPivot = c.op("equal", {counter(c, rows, 1, 3), c.cast(chosen, ElementType::kI32)});
    Value pivotRow = c.reduceSum(orZero(c, isPivot, left), {1}, true);
    Value pivot = c.sliceDim(pivotRow, 2, 0, 1);
    // The first row takes the place of the pivot's, which turns the sign unless they are one.
    Value isFirst = c.reshape(c.op("equal", {chosen, c.scalarLike(chosen, 0)}), {batch});
    Value flat = c.reshape(pivot, {batch});
    result = c.mul(result, c.where(isFirst, flat, c.neg(flat)));
    if (rows == 1) break;
    Value moved = c.where(isPivot, c.sliceDim(left, 1, 0, 1), left);
    Value below = c.sliceDim(c.sliceDim(moved, 1, 1, rows - 1), 2, 0, 1);
    // Without a pivot the column is 0, and so is the determinant.
    Value divisor = c.where(c.op("equal", {pivot, c.scalarLike(pivot, 0)}), c.scalarLike(pivot, 1), pivot);
    Value factor = c.div(below, divisor);
    Value rest = c.sliceDim(c.sliceDim(moved, 1, 1, rows - 1), 2, 1, rows - 1);
    left = c.sub(rest, c.mul(factor, c.sliceDim(pivotRow, 2, 1, rows - 1)));
  }
  return c.cast(c.reshape(result, outer), type);
}

}  // namespace hpu::compose
