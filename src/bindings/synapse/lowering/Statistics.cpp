// SPDX-License-Identifier: Apache-2.0
// Moments and norms over a whole tensor. Sums and results are f32 whatever the operand is.
#include "bindings/synapse/lowering/Lowering.h"

namespace hpu::synapse {

namespace {

/// Mean and biased variance of everything but SynapseAI's index 0; the operand's rank is kept.
void lowerMoments(NodeContext& c) {
  Value x = c.toF32(c.input(0));
  int64_t rank = c.rank(x);
  if (!c.ok()) return;
  if (rank < 1 || rank > 5) return (void)c.fail(strCat(c.inputName(0), " has rank ", rank, ", must have 1 to 5"));
  std::vector<int64_t> axes;
  for (int64_t d = 0; d + 1 < rank; ++d) axes.push_back(d);
  Value mean = c.reduceMean(x, axes, true), centred = c.sub(x, mean);
  // Declared as {C}, they are that.
  auto put = [&](size_t i, Value v) {
    std::optional<Shape> declared = c.declaredShape(i);
    c.output(i, declared && declared->size() == 1 ? c.reshape(v, {c.dim(x, -1)}) : v);
  };
  put(0, mean);
  put(1, c.reduceMean(c.mul(centred, centred), axes, true));
}

void lowerFrobeniusNorm(NodeContext& c) {
  Value x = c.toF32(c.input(0));
  int64_t rank = c.rank(x);
  if (!c.ok()) return;
  if (rank < 2 || rank > 4) return (void)c.fail(strCat(c.inputName(0), " has rank ", rank, ", must have 2 to 4"));
  Value flat = c.reshape(x, {numElements(c.shape(x))});
  c.output(0, c.op("sqrt", {c.reduceSum(c.mul(flat, flat), {0}, true)}));
}

constexpr GuidRow kRows[] = {
    {"moments_fwd", "X", "mean, variance", "none", "", lowerMoments},
    {"frobenius_norm_fwd", "X", "Y", "none", "", lowerFrobeniusNorm},
};

}  // namespace

std::span<const GuidRow> statisticsGuids() {
  return kRows;
}

}  // namespace hpu::synapse
