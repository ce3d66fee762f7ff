// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/KernelPlan.h"

#include <algorithm>

#include "compiler/dialect/hpu/HpuOps.h"
#include "llvm/ADT/STLExtras.h"

namespace hpu::kernels {

double extent(const KernelPlan& plan, int dim) {
  const IterDim& d = plan.dims[dim];
  if (d.lowTable >= 0) {
    const Table &low = plan.tables[d.lowTable], &high = plan.tables[d.highTable];
    int64_t sum = 0;
    for (size_t i = 0; i < low.ints.size(); ++i) sum += high.ints[i] - low.ints[i];
    return static_cast<double>(sum) / static_cast<double>(std::max<size_t>(low.ints.size(), 1));
  }
  return static_cast<double>(symbolicExtent(plan, dim).value());
}

SymInt symbolicExtent(const KernelPlan& plan, int dim) {
  const IterDim& d = plan.dims[dim];
  return d.row || d.indexDim < 0 ? d.size : plan.boxHigh[dim] - plan.boxLow[dim];
}

recipe::InputReads readsAtRepresentatives(const SymInputReads& reads) {
  recipe::InputReads numbers(reads.size());
  for (size_t i = 0; i < reads.size(); ++i)
    for (const SymDimRead& read : reads[i])
      numbers[i].push_back({read.dim, read.scale.value(), read.low.value(), read.high.value()});
  return numbers;
}

int64_t registerBytes(ElementType type) {
  if (type == ElementType::kBool) return 0;
  return elementSize(computedAs(type));
}

bool reducesNarrow(const KernelPlan& plan, const Prim& reduction) {
  if (reduction.kind != Prim::Kind::Reduce) return false;
  auto isNarrowLoad = [&](int p) {
    const Prim& load = plan.prims[p];
    return load.kind == Prim::Kind::Load && isFloatType(load.type) && elementSize(load.type) == 2;
  };
  int at = reduction.operands[0];
  if (reduction.reduce == ReduceKind::Max || reduction.reduce == ReduceKind::Min) return isNarrowLoad(at);
  const Prim& product = plan.prims[at];
  if (reduction.reduce != ReduceKind::Sum || product.kind != Prim::Kind::Lane || !product.op->is<ir::MulOp>() ||
      !llvm::all_of(product.operands, isNarrowLoad))
    return false;
  int users = 0;
  for (size_t p = 0; p < plan.prims.size(); ++p)
    if (plan.reachable[p]) users += static_cast<int>(llvm::count(plan.prims[p].operands, at));
  for (const Store& store : plan.stores) users += store.prim == at;
  return users == 1;
}

}  // namespace hpu::kernels
