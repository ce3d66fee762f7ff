// SPDX-License-Identifier: Apache-2.0
// Products of matrices. The one thing to know: bf16 and f16 operands stay what they are, and the engine sums in f32.
#include "compose/Indexing.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isFloat;

constexpr int64_t kMostProducts = int64_t{1} << 24;

/// a @ b, of no inner elements zeros.
Value product(Call& c, Value a, Value b) {
  if (!a.handle || !b.handle) return {};
  Shape shape = c.shape(a);
  if (c.dim(a, -1) == 0) {
    shape.back() = c.dim(b, -1);
    return c.full({c.element(a), shape}, 0);
  }
  if (isFloat(c.element(a))) return c.matmul(a, b);
  // The engine multiplies floats: integers are multiplied element by element.
  const int64_t columns = c.dim(b, -1);
  if (c.element(a) == ElementType::kBool) return c.unsupported("products of bool");
  if (hpu::numElements(shape) * columns > kMostProducts) return c.unsupported("more than 2^24 products of integers");
  Value parts = c.mul(hpu::compose::insertDim(c, a, c.rank(a)), hpu::compose::insertDim(c, b, c.rank(b) - 2));
  return c.reduceSum(parts, {c.rank(parts) - 2}, false);
}

void multiply(Call& c) {  // self, mat2
  c.out(0, product(c, c.in(0), c.in(1)));
}

/// beta * self + alpha * (a @ b); self is not read where beta is 0.
void multiplyAdd(Call& c) {  // self, a, b, beta, alpha
  Value a = c.in(1), b = c.in(2);
  const bool isVector = c.rank(b) == 1;
  if (isVector) b = c.reshape(b, {c.dim(b, 0), 1});
  Value v = product(c, a, b);
  if (isVector) v = c.reshape(v, {c.dim(v, 0)});
  const bool isPlain = c.isFixed(3, 1) && c.isFixed(4, 1);
  if (!isPlain) v = c.cast(v, Call::computing(c.element(v)));
  if (!c.isFixed(4, 1)) v = c.mul(v, c.in(4, c.element(v)));
  if (c.isFixed(3, 0)) return c.out(0, v);
  Value self = c.in(0, c.element(v));
  if (!c.isFixed(3, 1)) self = c.mul(self, c.in(3, c.element(v)));
  c.out(0, c.add(v, self));
}

/// beta * self + alpha * the sum of a[i] @ b[i]: one product over batch and inner elements.
void multiplyAddBatch(Call& c) {  // self, a, b, beta, alpha
  Value a = c.in(1), b = c.in(2);
  if (!c.ok()) return;
  const int64_t n = c.dim(a, 0), rows = c.dim(a, 1), inner = c.dim(a, 2), columns = c.dim(b, 2);
  a = c.reshape(c.transpose(a, {1, 0, 2}), {rows, n * inner});
  Value v = product(c, a, c.reshape(b, {n * inner, columns}));
  v = c.cast(v, Call::computing(c.element(v)));
  if (!c.isFixed(4, 1)) v = c.mul(v, c.in(4, c.element(v)));
  if (c.isFixed(3, 0)) return c.out(0, v);
  Value self = c.in(0, c.element(v));
  if (!c.isFixed(3, 1)) self = c.mul(self, c.in(3, c.element(v)));
  c.out(0, c.add(v, self));
}

void dot(Call& c) {  // self, tensor
  Value a = c.in(0), b = c.in(1);
  if (!c.ok()) return;
  if (!isFloat(c.element(a))) return c.out(0, c.reduceSum(c.mul(a, b), {0}, false));
  c.out(0, c.reduceSum(c.mul(c.toF32(a), c.toF32(b)), {0}, false), c.element(a));
}

}  // namespace

const std::vector<Row>& matrixOps() {
  static const auto& rows = *new std::vector<Row>{
      {"mm.out bmm.out", multiply},
      {"addmm.out baddbmm.out addmv.out", multiplyAdd},
      {"addbmm addbmm.out", multiplyAddBatch},
      {"dot vdot", dot},
  };
  return rows;
}

}  // namespace hpu_torch
