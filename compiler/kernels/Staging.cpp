// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/Staging.h"

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/LoopEmitter.h"
#include "llvm/ADT/STLExtras.h"

namespace hpu::kernels {
namespace {

/// A product of numbers at the representatives, and for all sizes.
struct Product {
  double number = 1, constant = 1;
  std::vector<SymInt> late;

  /// By `value`, which is `factor` at the representatives or, of a constant, the mean over the edges.
  void multiply(const SymInt& factor, double value) {
    number *= value;
    if (factor.isConstant())
      constant *= value;
    else
      late.push_back(factor);
  }
  void multiply(const KernelPlan& plan, int dim) { multiply(symbolicExtent(plan, dim), extent(plan, dim)); }
  void multiply(const Product& other) {
    number *= other.number;
    constant *= other.constant;
    late.insert(late.end(), other.late.begin(), other.late.end());
  }
};

/// Elements that a load reads over the whole index space: all reads, and different ones.
struct Reads {
  double all = 1, window = 1;
  Product different;
};

/// (positions - 1) * step + (window - 1) * tap + 1, both steps divided by what divides them; nullopt where their ratio
/// is another one for other sizes.
std::optional<SymInt> spanOf(const SymInt& positions, const SymInt& window, const SymInt& step, const SymInt& tap) {
  const int64_t unit = std::max<int64_t>(std::gcd(step.value(), tap.value()), 1);
  const int64_t steps = std::abs(step.value()) / unit, taps = std::abs(tap.value()) / unit;
  const bool isConstant = step.isConstant() && tap.isConstant();
  if (!isConstant && step * taps != tap * steps && step * taps != -(tap * steps)) return std::nullopt;
  return (positions - 1) * steps + (window - 1) * taps + 1;
}

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
      reads.different.multiply(plan, d);
  }
  // A window dim and its taps walk along the same axis of the operand: the dims of larger strides belong together.
  auto larger = [&](int a, int b) {
    return std::abs(load.address.coef[a].value()) > std::abs(load.address.coef[b].value());
  };
  llvm::sort(taps, larger);
  llvm::sort(outputs, larger);
  for (size_t i = 0; i < std::max(taps.size(), outputs.size()); ++i) {
    double positions = i < outputs.size() ? extent(plan, outputs[i]) : 1;
    double window = i < taps.size() ? extent(plan, taps[i]) : 1;
    Product together;
    if (i < outputs.size()) together.multiply(plan, outputs[i]);
    if (i < taps.size()) together.multiply(plan, taps[i]);
    if (i < taps.size() && i < outputs.size()) {
      const SymInt &stepSize = load.address.coef[outputs[i]], &tapSize = load.address.coef[taps[i]];
      int64_t step = std::abs(stepSize.value()), tap = std::abs(tapSize.value());
      auto unit = static_cast<double>(std::max<int64_t>(std::gcd(step, tap), 1));
      double span =
          (positions - 1) * static_cast<double>(step) / unit + (window - 1) * static_cast<double>(tap) / unit + 1;
      if (span < together.number) {
        Product spanned;
        const std::optional<SymInt> late =
            spanOf(symbolicExtent(plan, outputs[i]), symbolicExtent(plan, taps[i]), stepSize, tapSize);
        if (late) {
          spanned.multiply(*late, span);
          together = std::move(spanned);
        } else {
          together.number = span;
        }
      }
    }
    reads.different.multiply(together);
  }
  // A load that does not depend on an index-space dim is repeated along it.
  for (int d = 0; d < static_cast<int>(plan.dims.size()); ++d)
    if (!(load.deps >> d & 1) && plan.dims[d].indexDim >= 0 && !plan.dims[d].placed) reads.all *= extent(plan, d);
  return reads;
}

/// Read for so many rows that each TPC (as many as Gaudi 2 has) may as well bring it in first.
constexpr double kTableReaders = 24;

bool isWindow(const KernelPlan& plan) {
  return plan.tapsOf[0] >= 0 || plan.tapsOf[1] >= 0;
}

}  // namespace

bool isTable(const KernelPlan& plan, const Prim& load, int64_t copies) {
  if (load.kind != Prim::Kind::Load || load.source < 0 || !load.address.terms.empty() || !isFloatType(load.type))
    return false;
  double different = 1, repeated = 1;
  for (int d = 0; d < static_cast<int>(plan.dims.size()); ++d)
    (load.deps >> d & 1 ? different : repeated) *= extent(plan, d);
  return repeated >= 2 * kTableReaders && different * static_cast<double>(copies) * sizeof(float) <= kTableBytes;
}

bool isStaged(const KernelPlan& plan, int p) {
  const Prim& prim = plan.prims[p];
  if (prim.kind != Prim::Kind::Load || prim.source < 0 || !prim.address.terms.empty() || !isFloatType(prim.type))
    return false;
  if (plan.vectorDim < 0 || !(prim.deps >> plan.vectorDim & 1)) return false;
  if (isTable(plan, prim)) return true;
  if (!isWindow(plan)) return false;
  Reads reads = readsOf(plan, prim);
  constexpr double kVectorBytes = 4.0 * kTpcLanes;
  return reads.window > 1 && reads.all >= 2 * reads.different.number &&
         reads.window * kVectorBytes <= static_cast<double>(kMaxScratchBytes);
}

namespace {

/// The table that an index is looked up in, or that a computed one is priced as; -1: none.
int tableOf(const Prim& index) {
  return index.kind == Prim::Kind::Load ? index.table : index.priceTable;
}

/// The table of indices that a load's lanes are looked up by; null if they are not, or by more than that.
const Table* laneTable(const KernelPlan& plan, const Prim& load) {
  if (plan.vectorDim < 0 || load.kind != Prim::Kind::Load || load.source < 0 || !isFloatType(load.type)) return nullptr;
  const Table* found = nullptr;
  for (const Term& term : load.address.terms) {
    const Prim& index = plan.prims[term.prim];
    if (!(index.deps >> plan.vectorDim & 1)) continue;
    if (found || tableOf(index) < 0) return nullptr;
    found = &plan.tables[tableOf(index)];
  }
  return isZero(load.address.coef[plan.vectorDim]) ? found : nullptr;
}

/// Different elements that a looked-up load reads.
Product lookedUpElements(const KernelPlan& plan, const Prim& load) {
  Product elements;
  for (const Term& term : load.address.terms) {
    const Prim& index = plan.prims[term.prim];
    if (tableOf(index) < 0) continue;
    std::vector<int64_t> values = plan.tables[tableOf(index)].ints;
    llvm::sort(values);
    const auto different = std::unique(values.begin(), values.end()) - values.begin();
    // Of a computed one there are as many for each position as at the representatives.
    if (index.kind != Prim::Kind::Load && index.deps != 0) {
      const int dim = llvm::countr_zero(index.deps);
      const double each = static_cast<double>(different) / std::max(extent(plan, dim), 1.0);
      elements.multiply(plan, dim);
      elements.multiply(SymInt(1), each);
      continue;
    }
    elements.multiply(different, static_cast<double>(different));
  }
  for (int d = 0; d < static_cast<int>(plan.dims.size()); ++d)
    if (!isZero(load.address.coef[d])) elements.multiply(plan, d);
  return elements;
}

}  // namespace

bool isShuffled(const KernelPlan& plan, int p) {
  const Table* table = laneTable(plan, plan.prims[p]);
  if (!table) return false;
  for (size_t from = 0; from < table->ints.size(); from += kTpcLanes) {
    auto lanes = llvm::ArrayRef<int64_t>(table->ints).slice(from).take_front(kTpcLanes);
    auto [low, high] = std::minmax_element(lanes.begin(), lanes.end());
    if (*high - *low >= kTpcLanes) return false;
  }
  return true;
}

bool isTurned(const KernelPlan& plan, const Affine& address) {
  constexpr double kNeighbours = 16;
  for (const Term& term : address.terms)
    if (plan.prims[term.prim].deps >> plan.vectorDim & 1) return false;
  for (int d = 0; d < static_cast<int>(plan.dims.size()); ++d)
    if (d != plan.vectorDim && (address.coef[d] == 1 || address.coef[d] == -1) && extent(plan, d) >= kNeighbours)
      return true;
  return false;
}

bool isStagedNarrow(const KernelPlan& plan, int p) {
  // What narrow reductions take, by prim: products, and what is not multiplied.
  std::vector<bool> narrow(plan.prims.size(), false);
  for (size_t r = 0; r < plan.prims.size(); ++r) {
    if (!plan.reachable[r] || !reducesNarrow(plan, plan.prims[r])) continue;
    bool isProduct = plan.prims[r].reduce == ReduceKind::Sum;
    narrow[isProduct ? static_cast<size_t>(plan.prims[r].operands[0]) : r] = true;
  }
  for (size_t user = 0; user < plan.prims.size(); ++user)
    if (plan.reachable[user] && llvm::is_contained(plan.prims[user].operands, p) && !narrow[user]) return false;
  return llvm::none_of(plan.stores, [&](const Store& store) { return store.prim == p; });
}

double differentReads(const KernelPlan& plan, int p, int64_t outputs) {
  const Prim& prim = plan.prims[p];
  int dim = plan.windowDim;
  if (dim < 0 && isWindow(plan)) {
    // Nothing else is shared, so host code has the outputs one by one; a TPC's is unrolled all the same.
    dim = plan.tapsOf[1] >= 0 ? plan.tapsOf[1] : plan.tapsOf[0];
    outputs = std::min(kTpcWindowOutputs, static_cast<int64_t>(extent(plan, dim)));
  }
  if (outputs <= 1 || dim == plan.vectorDim) return 1;
  llvm::SmallVector<int64_t> offsets = {0};
  auto spread = [&](int64_t count, int64_t step) {
    llvm::SmallVector<int64_t> more;
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < count; ++i) more.push_back(offset + i * step);
    offsets = std::move(more);
  };
  spread(outputs, prim.address.coef[dim].value());
  for (int d : plan.rowOrder)
    if (prim.deps >> d & 1) spread(plan.dims[d].size.value(), prim.address.coef[d].value());
  size_t all = offsets.size();
  llvm::sort(offsets);
  offsets.erase(llvm::unique(offsets), offsets.end());
  return static_cast<double>(offsets.size()) / static_cast<double>(all);
}

recipe::TpcCost stagingCost(const PlannedKernel& kernel, std::vector<CostTerm>* terms) {
  recipe::TpcCost cost;
  // `addTo` adds what so many vectors cost.
  auto charge = [&](const Product& elements, auto&& addTo) {
    addTo(cost, elements.number / static_cast<double>(kTpcLanes));
    if (!terms) return;
    CostTerm& term = terms->emplace_back(CostTerm{{}, elements.late});
    addTo(term.slots, elements.constant / static_cast<double>(kTpcLanes));
  };
  for (const KernelPlan& plan : kernel.pieces)
    for (size_t p = 0; p < plan.prims.size(); ++p) {
      const Prim& prim = plan.prims[p];
      if (plan.reachable[p] && isShuffled(plan, static_cast<int>(p))) {
        // Brought in, turned so that the lanes' dim is the fastest, and kept.
        charge(lookedUpElements(plan, prim), [&](recipe::TpcCost& to, double vectors) {
          to.loads += vectors * static_cast<double>(elementSize(prim.type)) / 4;
          to.stores += vectors * kLocalAccess;
          to.vectorOps += vectors * kTurnInstructions;
        });
      }
      if (!plan.reachable[p] || !isStaged(plan, static_cast<int>(p))) continue;
      Product elements;
      if (isTable(plan, prim)) {
        for (int d = 0; d < static_cast<int>(plan.dims.size()); ++d)
          if (prim.deps >> d & 1) elements.multiply(plan, d);
        elements.multiply(static_cast<int64_t>(kTableReaders), kTableReaders);
      } else {
        elements = readsOf(plan, prim).different;
      }
      auto bytes = static_cast<double>(elementSize(prim.type));
      bool narrow = bytes < 4 && isStagedNarrow(plan, static_cast<int>(p));
      charge(elements, [&](recipe::TpcCost& to, double vectors) {
        to.loads += vectors * bytes / 4;
        to.stores += vectors * kLocalAccess * (narrow ? bytes / 4 : 1);
        if (bytes < 4 && !narrow) to.vectorOps += vectors * kNarrowConversion;
      });
    }
  return cost;
}

}  // namespace hpu::kernels
