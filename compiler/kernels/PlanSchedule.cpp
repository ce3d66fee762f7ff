// SPDX-License-Identifier: Apache-2.0
// Completes a plan: what varies with what, which dim the lanes lie along, loop order, local memory.
#include <algorithm>
#include <numeric>

#include "compiler/kernels/PlanBuilder.h"
#include "compiler/kernels/Staging.h"

namespace hpu::kernels {
namespace {

/// Lanes that the choices here assume; the code has its own number per CPU variant.
constexpr int64_t kTypicalLanes = 16;

class Scheduler {
 public:
  Scheduler(KernelPlan& plan, const shape::SymbolBounds& bounds) : plan_(plan), bounds_(bounds) {}

  Status run() {
    markReachable();
    if (Status status = analyse(); !status.ok()) return status;
    chooseVectorDim();
    orderLoops();
    mergeRowDims();
    chooseWindowDim();
    countMergeable();
    placeScratch();
    return okStatus();
  }

 private:
  bool isBig(int d) const { return plan_.dims[d].runs(); }
  bool isRow(int d) const { return plan_.dims[d].row; }

  static bool hasAddress(const Prim& prim) { return prim.kind == Prim::Kind::Load || prim.kind == Prim::Kind::Index; }

  void markReachable() {
    plan_.reachable.assign(plan_.prims.size(), false);
    llvm::SmallVector<int> work;
    for (const Store& store : plan_.stores) {
      work.push_back(store.prim);
      if (store.condition >= 0) work.push_back(store.condition);
      for (const Term& term : store.address.terms) work.push_back(term.prim);
    }
    // The bounds of window taps are tables or numbers, not values, so operands and address terms are all there
    // is.
    while (!work.empty()) {
      int p = work.pop_back_val();
      if (plan_.reachable[p]) continue;
      plan_.reachable[p] = true;
      const Prim& prim = plan_.prims[p];
      work.append(prim.operands.begin(), prim.operands.end());
      for (const Term& term : prim.address.terms) work.push_back(term.prim);
    }
  }

  Status analyse() {
    uint32_t reduceDims = 0;
    for (size_t p = 0; p < plan_.prims.size(); ++p) {
      Prim& prim = plan_.prims[p];
      for (int operand : prim.operands) {
        prim.deps |= plan_.prims[operand].deps;
        prim.stage = std::max(prim.stage, plan_.prims[operand].stage);
      }
      for (const Term& term : prim.address.terms) {
        prim.deps |= plan_.prims[term.prim].deps;
        prim.stage = std::max(prim.stage, plan_.prims[term.prim].stage);
      }
      if (prim.anchor >= 0) prim.deps |= 1u << prim.anchor;
      if (hasAddress(prim)) {
        for (int d = 0; d < kMaxIterDims; ++d) {
          bool exists = d < static_cast<int>(plan_.dims.size());
          if (exists && isBig(d) && !isZero(prim.address.coef[d]))
            prim.deps |= 1u << d;
          else
            prim.address.coef[d] = 0;
        }
      }
      if (prim.kind == Prim::Kind::Pick) prim.deps &= ~(1u << plan_.pickDim);
      if (prim.kind != Prim::Kind::Reduce || !plan_.reachable[p]) continue;
      if (reduceDims && prim.reduceDims != reduceDims)
        return unimplemented("a TPC kernel reduces over one set of dimensions only");
      reduceDims = prim.reduceDims;
      prim.deps &= ~prim.reduceDims;
      ++prim.stage;
      plan_.stages = std::max(plan_.stages, prim.stage);
      // Window bounds go by the index of the anchor.
      for (const IterDim& dim : plan_.dims)
        if (dim.anchor >= 0) prim.deps |= 1u << dim.anchor;
    }
    for (size_t d = 0; d < plan_.dims.size(); ++d) {
      IterDim& dim = plan_.dims[d];
      if (dim.row && !dim.placed && !(reduceDims >> d & 1))
        dim.row = dim.indexDim < 0;  // Only dead code reduced over it.
      if (!dim.row || !isBig(static_cast<int>(d))) continue;
      plan_.rowDims |= 1u << d;
      if (dim.indexDim >= 0 && (!isZero(plan_.boxLow[dim.indexDim]) || plan_.boxHigh[dim.indexDim] != dim.size))
        return unimplemented("a concat or pad along the dimension that is reduced over");
    }
    return okStatus();
  }

  double iterations(uint32_t dims) const {
    double count = 1;
    for (size_t d = 0; d < plan_.dims.size(); ++d)
      if (dims >> d & 1) count *= static_cast<double>(std::max<int64_t>(plan_.dims[d].size.value(), 1));
    return count;
  }

  /// An estimate of the time with lanes along `v`, in vector instructions.
  double costOf(int v) const {
    // Short vectors are partly empty, unless the next dims continue them in memory.
    int64_t length = plan_.dims[v].size.value();
    for (int a = 0; a < static_cast<int>(plan_.dims.size()); ++a)
      if (a != v && isBig(a) && isRow(a) == isRow(v) && continues(a, v, plan_.dims[v].size))
        length *= plan_.dims[a].size.value();
    double filled =
        static_cast<double>(length) / static_cast<double>((length + kTypicalLanes - 1) / kTypicalLanes * kTypicalLanes);
    double lanes = kTypicalLanes * filled, cost = 0;
    uint32_t bit = 1u << v;
    for (size_t p = 0; p < plan_.prims.size(); ++p) {
      const Prim& prim = plan_.prims[p];
      if (!plan_.reachable[p]) continue;
      double times = iterations(prim.deps);
      bool along = prim.deps & bit;
      if (prim.kind == Prim::Kind::Lane) {
        cost += (prim.op->heavy ? 16 : 1) * (along ? times / lanes : times);
      } else if (prim.kind == Prim::Kind::Reduce || prim.kind == Prim::Kind::Pick) {
        const Prim& operand = plan_.prims[prim.operands[0]];
        cost += iterations(operand.deps) / (operand.deps & bit ? lanes : 1);
      } else if (prim.kind == Prim::Kind::Load && along) {
        bool looksUp = false;
        for (const Term& term : prim.address.terms) looksUp |= plan_.prims[term.prim].deps & bit;
        cost += looksUp ? times * 3 : prim.address.coef[v] == 1 ? times / lanes : times * 1.5;
      } else if (prim.kind == Prim::Kind::Load) {
        cost += times / kTypicalLanes;  // A scalar, usually loaded outside of the inner loop.
      }
    }
    for (const Store& store : plan_.stores) {
      double times = iterations(store.dims);
      bool along = store.dims & bit && isBig(v);
      bool looksUp = false;
      for (const Term& term : store.address.terms) looksUp |= plan_.prims[term.prim].deps & bit;
      cost += !along ? times : store.address.coef[v] == 1 && !looksUp ? times / lanes : times * 2;
    }
    return cost;
  }

  void chooseVectorDim() {
    if (plan_.vectorDim >= 0) return;
    double best = 0;
    for (int v = 0; v < static_cast<int>(plan_.dims.size()); ++v) {
      if (!isBig(v) || plan_.dims[v].isCut() || (plan_.isOrdered && isRow(v))) continue;
      if (llvm::any_of(plan_.dims, [&](const IterDim& dim) { return dim.anchor == v; })) continue;
      if (llvm::any_of(plan_.prims, [&](const Prim& prim) { return prim.anchor == v; })) continue;
      double cost = costOf(v);
      if (plan_.vectorDim >= 0 && cost >= best) continue;
      plan_.vectorDim = v;
      best = cost;
    }
  }

  void orderLoops() {
    auto distance = [&](int d) {
      int64_t coef = 0;
      for (const Store& store : plan_.stores) coef = std::max(coef, std::abs(store.address.coef[d].value()));
      if (coef) return coef;
      for (size_t p = 0; p < plan_.prims.size(); ++p)
        if (plan_.reachable[p] && plan_.prims[p].kind == Prim::Kind::Load)
          coef = std::max(coef, std::abs(plan_.prims[p].address.coef[d].value()));
      return coef;
    };
    for (int d = 0; d < static_cast<int>(plan_.dims.size()); ++d) {
      if (!isBig(d)) continue;
      (isRow(d) ? plan_.rowOrder : plan_.parallelOrder).push_back(d);
    }
    for (auto* order : {&plan_.parallelOrder, &plan_.rowOrder}) {
      if (order == &plan_.rowOrder && plan_.isOrdered) continue;
      std::stable_sort(order->begin(), order->end(), [&](int a, int b) {
        if (a == plan_.vectorDim || b == plan_.vectorDim) return b == plan_.vectorDim && a != b;
        return distance(a) > distance(b);
      });
    }
  }

  /// Whether dim `a` goes on in memory where dim `b`, of `size` elements, ends, in all operands; but for tables, if any
  /// number of copies of them is given.
  bool continues(int a, int b, const SymInt& size, int64_t tableCopies = 0) const {
    const IterDim &outer = plan_.dims[a], &inner = plan_.dims[b];
    if (outer.isCut() || inner.isCut()) return false;
    for (const IterDim& dim : plan_.dims)
      if (dim.anchor == a || dim.anchor == b) return false;
    for (size_t p = 0; p < plan_.prims.size(); ++p) {
      const Prim& prim = plan_.prims[p];
      if (!plan_.reachable[p]) continue;
      if (prim.anchor >= 0 && (prim.anchor == a || prim.anchor == b)) return false;
      if (hasAddress(prim) && prim.address.coef[a] != prim.address.coef[b] * size) {
        bool repeats = tableCopies > 0 && isZero(prim.address.coef[a]) && isTable(plan_, prim, tableCopies);
        if (!repeats) return false;
      }
      if (prim.kind == Prim::Kind::Reduce && (prim.reduceDims >> a & 1) != (prim.reduceDims >> b & 1)) return false;
    }
    for (const Store& store : plan_.stores) {
      if ((store.dims >> a & 1) != (store.dims >> b & 1)) return false;
      if (store.address.coef[a] != store.address.coef[b] * size) return false;
    }
    return true;
  }

  /// Row dims are always whole, so neighbours in memory become one dim for good.
  void mergeRowDims() {
    auto& order = plan_.rowOrder;
    for (size_t i = order.size(); i-- > 1;) {
      int outer = order[i - 1], inner = order[i];
      if (!continues(outer, inner, plan_.dims[inner].size)) continue;
      plan_.dims[inner].size *= plan_.dims[outer].size;
      plan_.dims[outer].size = 1;
      uint32_t bit = 1u << outer;
      plan_.rowDims &= ~bit;
      for (Prim& prim : plan_.prims) {
        prim.address.coef[outer] = 0;
        prim.deps &= ~bit;
        prim.reduceDims &= ~bit;
      }
      for (Store& store : plan_.stores) store.address.coef[outer] = 0;
      order.erase(order.begin() + static_cast<std::ptrdiff_t>(i) - 1);
      // The merged dim has moved to i - 1; its next neighbour is examined in the next round.
    }
  }

  /// The fastest parallel dim that taps are counted from becomes the innermost loop: outputs side
  /// by side share the weights, and their sums fill the registers.
  void chooseWindowDim() {
    int v = plan_.vectorDim;
    if (v < 0 || isRow(v) || plan_.parallelOrder.size() < 2) return;
    int candidate = plan_.parallelOrder[plan_.parallelOrder.size() - 2];
    if (plan_.tapsOf[0] != candidate && plan_.tapsOf[1] != candidate) return;
    if (!isZero(plan_.boxLow[candidate]) || plan_.boxHigh[candidate] != plan_.dims[candidate].size) return;
    // Only vectors that the outputs share (weights) are worth the other order; pooling has none.
    bool shares = false;
    for (size_t p = 0; p < plan_.prims.size(); ++p) {
      uint32_t deps = plan_.prims[p].deps;
      shares |= plan_.reachable[p] && plan_.prims[p].kind == Prim::Kind::Load && (deps >> v & 1) &&
                (deps & plan_.rowDims) && !(deps >> candidate & 1);
    }
    if (!shares) return;
    plan_.windowDim = candidate;
    plan_.windowHigh = plan_.dims[candidate].size;
    for (const IterDim& dim : plan_.dims) {
      if (dim.anchor != candidate) continue;
      if (dim.taps) {
        const TapBounds& taps = *dim.taps;
        const int64_t reach = taps.dilation * (taps.kernel - 1) + 1;
        plan_.windowLow = (taps.padBegin + taps.stride - 1) / taps.stride;
        plan_.windowHigh =
            SymInt::min(plan_.windowHigh, (taps.high + (taps.padBegin - reach)).floorDiv(taps.stride) + 1);
        continue;
      }
      const Table &low = plan_.tables[dim.lowTable], &high = plan_.tables[dim.highTable];
      auto whole = [&](int64_t at) { return low.ints[at] == 0 && high.ints[at] == dim.size.value(); };
      const int64_t last = plan_.windowHigh.value();
      int64_t begin = plan_.windowLow.value();
      while (begin < last && !whole(begin)) ++begin;
      int64_t end = begin;
      while (end < last && whole(end)) ++end;
      plan_.windowLow = begin;
      plan_.windowHigh = end;
    }
    std::swap(plan_.parallelOrder[plan_.parallelOrder.size() - 2], plan_.parallelOrder.back());
  }

  void countMergeable() {
    if (plan_.vectorDim < 0 || isRow(plan_.vectorDim) || plan_.windowDim >= 0) return;
    plan_.mergeable = mergeableDims(0);
    // Copies of a table that fill whole vectors.
    const int64_t size = plan_.dims[plan_.vectorDim].size.value(), lanes = kMaxLanes;
    plan_.tpcMergeable = plan_.rowDims ? plan_.mergeable : mergeableDims(lanes / std::gcd(size, lanes));
  }

  int mergeableDims(int64_t tableCopies) const {
    int count = 0, inner = plan_.vectorDim;
    for (size_t i = plan_.parallelOrder.size() - 1; i-- > 0; ++count) {
      int outer = plan_.parallelOrder[i];
      if (!continues(outer, inner, plan_.dims[inner].size, tableCopies)) break;
      inner = outer;
    }
    return count;
  }

  bool isHeavy(int p) const {
    const Prim& prim = plan_.prims[p];
    if (prim.kind != Prim::Kind::Load && prim.kind != Prim::Kind::Lane) return false;
    if (prim.kind == Prim::Kind::Load) {
      bool looksUp = false;
      for (const Term& term : prim.address.terms)
        looksUp |= plan_.vectorDim >= 0 && plan_.prims[term.prim].deps >> plan_.vectorDim & 1;
      const SymInt coef = plan_.vectorDim >= 0 ? prim.address.coef[plan_.vectorDim] : 0;
      return looksUp || (!isZero(coef) && coef != 1);
    }
    if (prim.op->heavy && (prim.deps & plan_.rowDims)) return true;
    return llvm::any_of(prim.operands, [&](int operand) { return isHeavy(operand); });
  }

  void placeScratch() {
    if (plan_.stages == 0 || plan_.rowDims == 0) return;
    for (const IterDim& dim : plan_.dims)
      if (dim.isCut()) return;
    plan_.rowElements = 1;
    for (int d : plan_.rowOrder) plan_.rowElements *= plan_.dims[d].size;
    plan_.mostRowElements = mostOf(plan_.rowElements);
    for (size_t p = 0; p < plan_.prims.size(); ++p)
      if (plan_.reachable[p] && plan_.prims[p].type == ElementType::kF64) plan_.slotElementBytes = 8;
    // The host keeps what costs much; a TPC, whose accesses to global memory are slow and to local memory are not, all.
    plan_.scratchSlots = keepRows(slotBytes(plan_), kMaxScratchBytes, [&](int p) {
      if (!isHeavy(p)) return false;
      plan_.prims[p].scratch = next_;
      return true;
    });
    const int64_t tpcBytes = slotBytes(plan_, plan_.rowElements.value());
    plan_.tpcSlots = keepRows(tpcBytes, kMaxScratchBytes - kTableBytes, [&](int p) {
      bool vectors = plan_.vectorDim >= 0 && (plan_.prims[p].deps >> plan_.vectorDim & 1);
      plan_.prims[p].onTpcKept = vectors && plan_.prims[p].kind != Prim::Kind::Constant;
      return plan_.prims[p].onTpcKept;
    });
  }

  /// Rows that several passes need and that `keep` accepts are computed once and kept, in slots of `bytes` each;
  /// returns the slots of local memory that they take.
  template <typename Keep>
  int64_t keepRows(int64_t bytes, int64_t most, Keep keep) {
    next_ = 0;
    std::vector<bool> kept(plan_.prims.size(), false);
    std::vector<std::vector<bool>> used(plan_.stages + 1, kept);
    for (int pass = 0; pass <= plan_.stages; ++pass) {
      llvm::SmallVector<int> work = rootsOf(pass);
      while (!work.empty()) {
        int p = work.pop_back_val();
        const Prim& prim = plan_.prims[p];
        if (used[pass][p] || prim.kind == Prim::Kind::Reduce) continue;
        used[pass][p] = true;
        bool before = false;
        for (int earlier = 0; earlier < pass; ++earlier) before = before || used[earlier][p];
        bool wholeRow = (prim.deps & plan_.rowDims) == plan_.rowDims && isFloatType(prim.type);
        if (before && !kept[p] && wholeRow && (next_ + 1) * bytes <= most && keep(p)) {
          kept[p] = true;
          ++next_;
        }
        if (kept[p]) continue;  // Loaded: what it is made of is not needed in this pass.
        work.append(prim.operands.begin(), prim.operands.end());
        for (const Term& term : prim.address.terms) work.push_back(term.prim);
      }
    }
    return next_;
  }

  llvm::SmallVector<int> rootsOf(int pass) const {
    llvm::SmallVector<int> roots;
    if (pass == plan_.stages)
      for (const Store& store : plan_.stores) roots.push_back(store.prim);
    for (size_t p = 0; p < plan_.prims.size(); ++p) {
      const Prim& prim = plan_.prims[p];
      if (plan_.reachable[p] && prim.kind == Prim::Kind::Reduce && prim.stage == pass + 1)
        roots.push_back(prim.operands[0]);
    }
    return roots;
  }

  /// Its largest value for sizes within the bounds; a large number when it has none.
  int64_t mostOf(const SymInt& number) const {
    constexpr int64_t kNoMost = int64_t{1} << 40;
    if (number.isConstant()) return number.value();
    const std::optional<shape::DimExpr> expr = number.expr();
    return expr ? std::clamp<int64_t>(expr->interval(bounds_).high, 0, kNoMost) : kNoMost;
  }

  KernelPlan& plan_;
  const shape::SymbolBounds& bounds_;
  int64_t next_ = 0;  ///< Slot of local memory.
};

}  // namespace

Status finishPlan(KernelPlan& plan, const shape::SymbolBounds& bounds, int vectorDim) {
  plan.vectorDim = vectorDim;
  if (Status status = Scheduler(plan, bounds).run(); !status.ok()) return status;
  planHostTables(plan);
  return okStatus();
}

}  // namespace hpu::kernels
