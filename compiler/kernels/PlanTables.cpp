// SPDX-License-Identifier: Apache-2.0
// What the host's code keeps in local memory because rows come again: numbers along one dim that all rows need (where a
// resize reads, for sizes that are known at launch), and rows that neighbours share (a resize to a larger size). The
// one thing to know: a TPC's code, and so its cost, has nothing of it.
#include "compiler/kernels/PlanBuilder.h"
#include "llvm/ADT/STLExtras.h"

namespace hpu::kernels {
namespace {

class HostTablePlanner {
 public:
  explicit HostTablePlanner(KernelPlan& plan) : plan_(plan) {}

  void run() {
    std::vector<SharedRows> groups;
    groups.swap(plan_.sharedRows);
    // Of loops without rows and windows, and no dims that are one in memory.
    if (plan_.rowDims != 0 || plan_.stages != 0 || plan_.isOrdered || plan_.pickDim >= 0 || plan_.windowDim >= 0 ||
        plan_.mergeable != 0 || plan_.parallelOrder.size() < 2)
      return;
    for (SharedRows& group : groups) keep(group);
    for (size_t p = 0; p < plan_.prims.size(); ++p) tabulate(static_cast<int>(p));
  }

 private:
  bool varies(int prim, int dim) const { return plan_.prims[prim].deps >> dim & 1; }

  /// Bytes of a chunk, with what the last vector writes beyond it.
  static int64_t chunkBytes(int64_t elementBytes) { return (kHostChunk + kMaxLanes) * elementBytes; }

  /// A place in local memory; -1 when it is full.
  int64_t place(int64_t bytes) {
    constexpr int64_t kAlignment = 64;
    const int64_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (plan_.hostBytes + aligned > kMaxScratchBytes) return -1;
    plan_.hostBytes += aligned;
    return plan_.hostBytes - aligned;
  }

  /// Whether the value at `p` varies along `dim` by the row's key only; notes a load whose lanes are looked up.
  bool isOfKey(int p, const KeyedRow& row, int dim, bool& looksUp) const {
    if (p == row.key) return true;
    const Prim& prim = plan_.prims[p];
    if (prim.kind == Prim::Kind::Load)
      looksUp |= llvm::any_of(prim.address.terms, [&](const Term& term) { return varies(term.prim, plan_.vectorDim); });
    if (!varies(p, dim)) return true;
    if (prim.kind != Prim::Kind::Load && prim.kind != Prim::Kind::Lane) return false;
    if (!isZero(prim.address.coef[dim])) return false;
    return llvm::all_of(prim.operands, [&](int operand) { return isOfKey(operand, row, dim, looksUp); }) &&
           llvm::all_of(prim.address.terms, [&](const Term& term) { return isOfKey(term.prim, row, dim, looksUp); });
  }

  /// Where the lanes lie along a row and the next loop goes from key to key; a row that is not looked up is read as
  /// quickly as a kept one.
  bool isWorthIt(const KeyedRow& row, ElementType type) const {
    const Prim& prim = plan_.prims[row.prim];
    const int lanes = plan_.vectorDim, next = plan_.parallelOrder[plan_.parallelOrder.size() - 2];
    if (!plan_.reachable[row.prim] || prim.type != type || registerBytes(type) == 0) return false;
    if (!varies(row.prim, lanes) || varies(row.key, lanes) || !varies(row.key, next)) return false;
    bool looksUp = false;
    return isOfKey(row.prim, row, next, looksUp) && looksUp;
  }

  void keep(SharedRows& group) {
    if (plan_.vectorDim < 0) return;
    const ElementType type = plan_.prims[group.rows[0].prim].type;
    if (!llvm::all_of(group.rows, [&](const KeyedRow& row) { return isWorthIt(row, type); })) return;
    group.slotBytes = chunkBytes(registerBytes(type));
    group.keys = place(2 * 8);
    group.slots = place(2 * group.slotBytes);
    if (group.keys < 0 || group.slots < 0) return;
    plan_.chunkedDims |= 1u << plan_.vectorDim;
    plan_.sharedRows.push_back(std::move(group));
  }

  /// What a kernel of fixed sizes has a table of, unless it is computed once anyway.
  void tabulate(int p) {
    const Prim& prim = plan_.prims[p];
    if (!plan_.reachable[p] || prim.priceTable < 0 || registerBytes(prim.type) == 0) return;
    for (size_t i = 1; i < plan_.parallelOrder.size(); ++i) {
      const int dim = plan_.parallelOrder[i];
      if (prim.deps != 1u << dim) continue;
      const int64_t offset = place(chunkBytes(registerBytes(prim.type)));
      if (offset < 0) return;
      plan_.hostTables.push_back({p, dim, offset});
      plan_.chunkedDims |= 1u << dim;
    }
  }

  KernelPlan& plan_;
};

}  // namespace

int hostVectorDim(const KernelPlan& plan) {
  constexpr int64_t kFewLanes = 8;
  if (!plan.isResized || plan.vectorDim < 0 || plan.stages != 0 || plan.rowDims != 0 || plan.isOrdered) return -1;
  const auto isFastest = [&](int dim) {
    return plan.dims[dim].runs() && plan.dims[dim].size.value() >= kFewLanes &&
           llvm::all_of(plan.stores, [&](const Store& store) { return store.address.coef[dim] == 1; });
  };
  if (isFastest(plan.vectorDim)) return -1;
  for (int dim = 0; dim < plan.rank; ++dim)
    if (isFastest(dim)) return dim;
  return -1;
}

void planHostTables(KernelPlan& plan) {
  HostTablePlanner(plan).run();
}

}  // namespace hpu::kernels
