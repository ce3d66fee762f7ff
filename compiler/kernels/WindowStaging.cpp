// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/WindowStaging.h"

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/LoopEmitter.h"
#include "llvm/ADT/STLExtras.h"

namespace hpu::kernels {
namespace {

/// Iterations over a dim of the plan; those of taps are fewer at the edges.
double extent(const KernelPlan& plan, int dim) {
  const IterDim& d = plan.dims[dim];
  if (d.lowTable >= 0) {
    const Table &low = plan.tables[d.lowTable], &high = plan.tables[d.highTable];
    double sum = 0;
    for (size_t i = 0; i < low.ints.size(); ++i)
      sum += static_cast<double>(high.ints[i] - low.ints[i]);
    return sum / static_cast<double>(std::max<size_t>(low.ints.size(), 1));
  }
  if (d.row || d.indexDim < 0) return static_cast<double>(d.size);
  return static_cast<double>(plan.boxHigh[dim] - plan.boxLow[dim]);
}

/// Elements that a load reads over the whole index space: all reads, and different ones.
struct Reads {
  double all = 1, different = 1, window = 1;
};

Reads readsOf(const KernelPlan& plan, const Prim& load) {
  Reads reads;
  llvm::SmallVector<int, 4> taps, outputs;
  for (int d = 0; d < static_cast<int>(plan.dims.size()); ++d) {
    if (!(load.deps >> d & 1)) continue;
    double count = extent(plan, d);
    reads.all *= count;
    bool isTap = plan.dims[d].indexDim < 0;
    if (isTap) reads.window *= count;
    if (isTap)
      taps.push_back(d);
    else if (d == plan.tapsOf[0] || d == plan.tapsOf[1])
      outputs.push_back(d);
    else
      reads.different *= count;
  }
  // A window dim and its taps walk along the same axis of the operand: the dims of larger strides belong together.
  auto larger = [&](int a, int b) { return std::abs(load.address.coef[a]) > std::abs(load.address.coef[b]); };
  llvm::sort(taps, larger);
  llvm::sort(outputs, larger);
  for (size_t i = 0; i < std::max(taps.size(), outputs.size()); ++i) {
    double positions = i < outputs.size() ? extent(plan, outputs[i]) : 1;
    double window = i < taps.size() ? extent(plan, taps[i]) : 1;
    double together = positions * window;
    if (i < taps.size() && i < outputs.size()) {
      int64_t step = std::abs(load.address.coef[outputs[i]]), tap = std::abs(load.address.coef[taps[i]]);
      auto unit = static_cast<double>(std::max<int64_t>(std::gcd(step, tap), 1));
      double span = (positions - 1) * static_cast<double>(step) / unit +
                    (window - 1) * static_cast<double>(tap) / unit + 1;
      together = std::min(together, span);
    }
    reads.different *= together;
  }
  // A load that does not depend on an index-space dim is repeated along it.
  for (int d = 0; d < static_cast<int>(plan.dims.size()); ++d)
    if (!(load.deps >> d & 1) && plan.dims[d].indexDim >= 0) reads.all *= extent(plan, d);
  return reads;
}

}  // namespace

bool isStaged(const KernelPlan& plan, int p) {
  const Prim& prim = plan.prims[p];
  bool window = plan.tapsOf[0] >= 0 || plan.tapsOf[1] >= 0;
  if (!window || prim.kind != Prim::Kind::Load || prim.source < 0 || !prim.address.terms.empty())
    return false;
  if (plan.vectorDim < 0 || !(prim.deps >> plan.vectorDim & 1)) return false;
  Reads reads = readsOf(plan, prim);
  constexpr double kVectorBytes = 4.0 * kTpcLanes;
  return reads.window > 1 && reads.all >= 2 * reads.different &&
         reads.window * kVectorBytes <= static_cast<double>(kMaxScratchBytes);
}

recipe::TpcCost stagingCost(const PlannedKernel& kernel) {
  recipe::TpcCost cost;
  for (const KernelPlan& plan : kernel.pieces)
    for (size_t p = 0; p < plan.prims.size(); ++p) {
      if (!plan.reachable[p] || !isStaged(plan, static_cast<int>(p))) continue;
      const Prim& prim = plan.prims[p];
      double vectors = readsOf(plan, prim).different / static_cast<double>(kTpcLanes);
      auto bytes = static_cast<double>(elementSize(prim.type));
      cost.loads += vectors * bytes / 4;
      cost.stores += vectors * kLocalAccess;
      if (bytes < 4) cost.vectorOps += vectors;
    }
  return cost;
}

}  // namespace hpu::kernels
