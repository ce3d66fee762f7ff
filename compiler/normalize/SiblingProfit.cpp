// SPDX-License-Identifier: Apache-2.0
// What merging saves: the activations are read once, the array is filled better, fewer commands start. What
// it costs: an elementwise consumer that would have been computed behind its product, out of SRAM, becomes a
// kernel of its own that reads the merged result back.
#include "compiler/normalize/MergeSiblings.h"
#include "perfmodel/EngineCost.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

bool hasElementwiseConsumer(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation* user) {
    auto op = dyn_cast<HpuOp>(user);
    return op && op.isElementwise() && user->getResult(0).getType() == value.getType();
  });
}

}  // namespace

int64_t savedByMerging(Siblings& siblings, const arch::TargetDesc& target, ElementType type) {
  const arch::ClockProfile& clock = target.clock();
  const int64_t size = elementSize(type), resultSize = size == 1 ? 2 : size;
  auto left = cast<RankedTensorType>(siblings.front().product.getLhs().getType());
  const int64_t k = left.getShape().back(), m = left.getNumElements() / k;
  auto cost = [&](int64_t n) {
    perfmodel::GemmShape shape{1, m, n, k, type};
    perfmodel::Bytes bytes{(m * k + k * n) * size + m * n * resultSize, 0};
    return perfmodel::gemmCost(target, clock, shape, bytes).alone;
  };
  int64_t apart = 0, columns = 0, reread = 0, largest = 0, consumers = 0;
  for (Sibling& sibling : siblings) {
    const int64_t n = cast<RankedTensorType>(sibling.product.getType()).getShape().back();
    columns += n;
    apart += cost(n);
    if (!hasElementwiseConsumer(sibling.result())) continue;
    ++consumers;
    reread += 2 * m * n * resultSize;
    largest = std::max(largest, 2 * m * n * resultSize);
  }
  // Of consumers that join two products only one side ever stayed in SRAM.
  if (consumers > 1) reread -= largest;
  int64_t merged = cost(columns) + perfmodel::hbmTime(target, reread);
  if (consumers > 0) merged += static_cast<int64_t>(1e3 * static_cast<double>(target.tpcLaunchCycles) / clock.tpcGhz);
  return apart - merged;
}

}  // namespace hpu::normalize
