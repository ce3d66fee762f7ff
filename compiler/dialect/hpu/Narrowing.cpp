// SPDX-License-Identifier: Apache-2.0
// What products ask of the types around them: that of a value with itself is a power.
#include "compiler/dialect/hpu/HpuOps.h"

using namespace mlir;

namespace hpu::ir {
namespace {

/// Whether `value` is base * base, or that times base again.
bool isPowerOf(Value value, Value base) {
  auto product = value.getDefiningOp<MulOp>();
  if (!product) return false;
  Value a = product.getLhs(), b = product.getRhs();
  return (a == base && (b == base || isPowerOf(b, base))) || (b == base && isPowerOf(a, base)) ||
         (a == b && isPowerOf(a, base));
}

}  // namespace

Narrowing MulOp::getNarrowing() {
  Value a = getLhs(), b = getRhs();
  return a == b || isPowerOf(a, b) || isPowerOf(b, a) ? Narrowing::Power : Narrowing::Any;
}

}  // namespace hpu::ir
