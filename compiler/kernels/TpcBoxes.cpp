// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/TpcBoxes.h"

#include <algorithm>

namespace hpu::kernels {
namespace {

constexpr double kLanes = 64;
/// A division iterates on a table look-up (docs/performance-model.md).
constexpr double kDivision = 8;
/// What is known of a box in local memory: four ends, the area, and whether it is left.
constexpr double kNumbers = 6;
constexpr double kLocalBytes = 80 * 1024;

}  // namespace

BoxOps boxOps(bool centred) {
  BoxOps ops;
  // Ends: products with 1/2, differences and sums; or minima and maxima. Two lengths, their product, a comparison.
  ops.setUp = (centred ? 6 : 4) + 3 + 1;
  // The nearer of two ends, four times; two lengths, at least 0; their product; what both cover; the quotient; whether
  // it is above the limit, and the product above 0; and what is left.
  ops.remove = 4 + 2 + 2 + 1 + 2 + kDivision + 2 + 1;
  // If none is held yet: the position, the four ends and the area.
  ops.find = 6;
  // Halves are compared six times: shuffles of six numbers, a comparison, six choices.
  ops.choose = 6 * (6 + 1 + 6);
  return ops;
}

OrderCycles selectBoxesCycles(int64_t count, int64_t most, bool centred) {
  const BoxOps ops = boxOps(centred);
  const auto boxes = static_cast<double>(count);
  const double registers = static_cast<double>((count + 63) / 64);
  const auto passes = static_cast<double>(std::clamp<int64_t>(most, 0, count));
  OrderCycles cycles;
  cycles.vectorOps = registers * ops.setUp + passes * (registers * (ops.remove + ops.find) + ops.choose);
  // The four numbers and the score of each box are brought one by one, in their order; a chosen index is stored alone.
  cycles.scalarOps = 2 * 5 * boxes + 3 * passes;
  cycles.stores = registers * 2;
  cycles.loads = registers * 2;
  // What does not fit into local memory is loaded in each pass, and what is left stored.
  if (kNumbers * 4 * kLanes * registers > kLocalBytes) {
    cycles.loads += passes * registers * kNumbers;
    cycles.stores += passes * registers;
  }
  return cycles;
}

}  // namespace hpu::kernels
