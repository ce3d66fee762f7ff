// SPDX-License-Identifier: Apache-2.0
// Products of matrices. The one thing to know: bf16 and f16 operands stay what they are, and the engine sums in f32.
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::isFloat;

/// a @ b, of no inner elements zeros.
Value product(Call& c, Value a, Value b) {
  if (!a.handle || !b.handle) return {};
  if (!isFloat(c.element(a))) return c.unsupported("products of integers");
  Shape shape = c.shape(a);
  if (c.dim(a, -1) == 0) {
    shape.back() = c.dim(b, -1);
    return c.full({c.element(a), shape}, 0);
  }
  return c.matmul(a, b);
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
  if (!isPlain) v = c.toF32(v);
  if (!c.isFixed(4, 1)) v = c.mul(v, c.in(4, ElementType::kF32));
  if (c.isFixed(3, 0)) return c.out(0, v);
  Value self = c.in(0, c.element(v));
  if (!c.isFixed(3, 1)) self = c.mul(self, c.in(3, ElementType::kF32));
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
      {"dot vdot", dot},
  };
  return rows;
}

}  // namespace hpu_torch
