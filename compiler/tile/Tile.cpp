// SPDX-License-Identifier: Apache-2.0
// Phase tile. In: units with layouts. Out: `tile` on each unit that is cut and each bundle that has TPC ops, proven by
// hpu-verify-tile (VerifyTile.cpp); a bundle whose product cannot be tiled is split into an MME op and a cluster.
// `hpu.packing` on each MME op that is packed. Stop after it with --stop-after=tile. How units are cut is decided in
// Search.cpp.
#include "compiler/tile/Tile.h"

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Chains.h"
#include "compiler/support/Cancellation.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "compiler/tile/BundleParts.h"
#include "compiler/tile/Search.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "plan/Issue.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::tile {
namespace {

class TilePass : public PassWrapper<TilePass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TilePass)
  explicit TilePass(TileOptions options) : options_(std::move(options)) {}
  StringRef getArgument() const override { return "hpu-tile"; }
  StringRef getDescription() const override { return "Cuts units into pipelined slices"; }
  void getDependentDialects(DialectRegistry& registry) const override { registry.insert<sched::SchedDialect>(); }
  void runOnOperation() override {
    SmallVector<Operation*> units;
    StatusOr<Tiling> tiling = Tiling();
    for (bool again = true; again;) {
      units.clear();
      links_.clear();
      for (Operation& op : getOperation().getBody().front())
        if (isUnit(&op)) units.push_back(&op);
      tiling = search(units);
      if (!tiling.ok()) {
        withCode(tiling.status().code(), getOperation().emitError()) << tiling.status().message();
        return signalPassFailure();
      }
      again = false;
      for (auto [unit, tile] : llvm::zip(units, tiling->tiles)) {
        auto bundle = dyn_cast<BundleOp>(unit);
        if (!bundle || !hasTpcOps(bundle) || !tile.empty()) continue;
        report("no tile fits into SRAM, so the product goes through HBM  " + unitName(bundle));
        splitBundle(bundle);
        again = true;
      }
    }
    int64_t cut = 0, slices = 0;
    for (auto [unit, tile] : llvm::zip(units, tiling->tiles)) {
      if (!isa<BundleOp, ClusterOp>(unit)) continue;
      ArrayRef<int64_t> shape = tensorOf(unit->getResult(0)).getShape();
      int64_t count = plan::sliceCount({shape.begin(), shape.end()}, tile);
      slices += count;
      cut += count > 1;
      auto bundle = dyn_cast<BundleOp>(unit);
      if (count <= 1 && !(bundle && hasTpcOps(bundle))) continue;
      unit->setAttr("tile", TileAttr::get(&getContext(), tile, bundle && hasTpcOps(bundle) && count > 1 ? 2 : 1));
      auto at = std::mismatch(tile.begin(), tile.end(), shape.begin()).first;
      int64_t dim = at - tile.begin();
      if (dim == static_cast<int64_t>(tile.size())) dim = 0;
      report(llvm::formatv("{0,4} slices of {1} along dim {2}  {3}", count, tile[dim], dim, unitName(unit)).str());
    }
    for (Operation* unit : units)
      for (Operation* op : mmeOps(unit))
        if (auto packed = packed_.find(op); packed != packed_.end()) report(packed->second + "  " + unitName(unit));
    const int64_t chained = chain(*tiling);
    if (options_.summary)
      *options_.summary = llvm::formatv("{0} of {1} units cut, {2} slices, {3} results stay in SRAM, about {4:F1} us",
                                        cut, units.size(), slices, chained, tiling->time / 1e6)
                              .str() +
                          (packed_.empty() ? "" : llvm::formatv(", {0} products packed", packed_.size()).str());
  }

 private:
  /// Prices the units with whole products in SRAM in place of tiles; that tiles are few is a condition of its own.
  StatusOr<Tiling> search(ArrayRef<Operation*> units) {
    for (Operation* unit : units)
      for (Operation* op : mmeOps(unit)) op->removeAttr(schedule::kPackingAttr);
    HPU_ASSIGN(schedule::Draft draft, options_.draft(getOperation()));
    auto program = std::make_shared<recipe::Program>(*draft.program);
    for (recipe::Op& op : program->ops) {
      if (op.engine == Engine::kMme) op.mme.c.ring = {};
      for (recipe::Operand& input : op.tpc.inputs) input.ring = {};
    }
    for (recipe::Section& section : program->sections)
      if (section.kind == recipe::SectionKind::kSram) section.bytes = options_.target->sramBytes / 2;
    std::vector<SearchUnit> searched;
    std::vector<uint32_t> unitOf;  // By searched unit.
    for (uint32_t op = 0; op < draft.unitOf.size(); ++op) {
      uint32_t number = draft.unitOf[op];
      auto bundle = dyn_cast<BundleOp>(units[number]);
      // The parts of a concatenation are copies of their own.
      if (!bundle || unitOf.empty() || unitOf.back() != number) {
        unitOf.push_back(number);
        searched.emplace_back();
        if (bundle && hasTpcOps(bundle)) searched.back().tileBytes = mostTileBytes(options_.target->sramBytes);
      }
      searched.back().ops.push_back(op);
    }
    plan::IssueContext context{*program, draft.reads, *options_.target, options_.target->clock()};
    std::vector<SearchLink> links = options_.slice ? findLinks(units, unitOf) : std::vector<SearchLink>();
    SearchOptions search = SearchOptions{}.withEffort(options_.effort);
    search.slice = options_.slice;
    search.sramBytes = options_.target->sramBytes;
    search.isCancelled = [] { return support::isCancelled(); };
    HPU_ASSIGN(Tiling all, searchTiles(context, searched, links, search));
    Tiling byUnit;
    byUnit.time = all.time;
    byUnit.chains = std::move(all.chains);
    byUnit.tiles.resize(units.size());
    for (size_t i = 0; i < searched.size(); ++i) byUnit.tiles[unitOf[i]] = std::move(all.tiles[i]);
    packed_.clear();
    for (const plan::Packing& packing : all.packings) {
      size_t nth = 0;  // Among the MME ops of its unit.
      for (uint32_t op = packing.op; op-- > 0 && draft.unitOf[op] == draft.unitOf[packing.op];)
        nth += program->ops[op].engine == Engine::kMme;
      Operation* unit = units[draft.unitOf[packing.op]];
      mark(mmeOps(unit)[nth], program->ops[packing.op], packing.factor, byUnit.tiles[draft.unitOf[packing.op]]);
    }
    return byUnit;
  }

  /// Notes the packing on the op, and what a slice of it gains.
  void mark(Operation* mme, recipe::Op op, int64_t factor, ArrayRef<int64_t> tile) {
    mme->setAttr(schedule::kPackingAttr, IntegerAttr::get(IntegerType::get(&getContext(), 64), factor));
    recipe::Command slice;
    slice.lo.assign(op.space.size(), 0);
    slice.hi = tile.empty() ? op.space : tile.vec();
    op.mme.packingFactor = 1;
    perfmodel::GemmShape plain = perfmodel::mmeShape(op, slice);
    op.mme.packingFactor = factor;
    perfmodel::GemmShape packed = perfmodel::mmeShape(op, slice);
    int64_t width = perfmodel::gemmPlan(*options_.target, packed).geometry->width;
    packed_[mme] = llvm::formatv("packed {0} {1}: columns {2} -> {3} of {4}, K {5} -> {6}", factor,
                                 op.mme.kind == recipe::MmeKind::kGemm ? "rows" : "pixels", plain.n, packed.n,
                                 (packed.n + width - 1) / width * width, plain.k, packed.k)
                       .str();
  }

  /// Results that could stay in SRAM until their only reader has used them up, as links of searched units.
  std::vector<SearchLink> findLinks(ArrayRef<Operation*> units, const std::vector<uint32_t>& unitOf) {
    llvm::DenseMap<Operation*, size_t> searched;
    for (auto [index, number] : llvm::enumerate(unitOf)) searched[units[number]] = index;
    std::vector<SearchLink> links;
    const bool isLate = getOperation()->getParentOfType<ModuleOp>()->hasAttr(kSamplesAttr);
    for (Operation* unit : units) {
      if (!isa<BundleOp, ClusterOp>(unit) || !searched.contains(unit)) continue;
      // A scalar has no dimension along which tiles could be said to lie, and next to nothing to save.
      if (isLate && tensorOf(unit->getResult(0)).getRank() == 0) continue;
      std::string why;
      Operation* reader = onlyReader(unit, &why);
      if (!reader || !searched.contains(reader)) continue;
      SearchLink link{searched[unit], searched[reader], {}};
      for (int64_t dim = 0; dim < tensorOf(unit->getResult(0)).getRank(); ++dim)
        if (std::optional<int64_t> following = followingDim(unit, dim, reader))
          link.cuts.push_back({static_cast<int>(dim), static_cast<int>(*following)});
      links.push_back(std::move(link));
      links_.emplace_back(unit, reader);
    }
    return links;
  }

  /// Marks the producers of chains and moves each to its reader; returns how many there are.
  int64_t chain(const Tiling& tiling) {
    int64_t chained = 0;
    // From the last to the first, so that a producer finds its reader where it will stand.
    for (size_t l = std::min(links_.size(), tiling.chains.size()); l-- > 0;) {
      if (tiling.chains[l].outcome != Chaining::Outcome::kChained) continue;
      auto [producer, reader] = links_[l];
      setChain(producer, {tiling.chains[l].dim, tiling.chains[l].slots});
      ++chained;
    }
    SmallVector<Operation*> order;
    for (Operation& op : getOperation().getBody().front()) order.push_back(&op);
    for (Operation* op : llvm::reverse(order))
      if (chainOf(op)) moveTo(op, onlyReader(op));
    for (size_t l = 0; l < std::min(links_.size(), tiling.chains.size()); ++l) explain(links_[l], tiling.chains[l]);
    return chained;
  }

  /// Only views of what the unit makes stand between it and its reader afterwards.
  static void moveTo(Operation* unit, Operation* reader) {
    SmallVector<Operation*> moving = {unit};
    for (size_t i = 0; i < moving.size(); ++i)
      for (Operation* user : moving[i]->getUsers())
        if (user != reader && !llvm::is_contained(moving, user)) moving.push_back(user);
    llvm::sort(moving, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
    for (Operation* op : moving) op->moveBefore(reader);
  }

  void explain(std::pair<Operation*, Operation*> link, const Chaining& chain) {
    if (!options_.report) return;
    using Outcome = Chaining::Outcome;
    using base::formatBytes;
    auto [producer, reader] = link;
    std::string line = unitName(producer) + " -> " + unitName(reader) + ": ";
    switch (chain.outcome) {
      case Outcome::kChained:
        line += chain.slots == 1 ? formatBytes(chain.bytes) + " in SRAM"
                                 : base::strCat(chain.slots, " tiles of ", formatBytes(chain.bytes),
                                                " in SRAM, along dim ", chain.dim);
        return report("chained  " + line);
      case Outcome::kTaken:
        line += "its reader takes another result from SRAM";
        break;
      case Outcome::kNoCut:
        line += "as a whole it does not fit into SRAM, and no cut of it suits its reader";
        break;
      case Outcome::kTooLarge:
        line += base::strCat("its smallest slice, ", formatBytes(chain.bytes),
                             ", does not fit into SRAM twice beside other tiles (",
                             formatBytes(mostChainBytes(options_.target->sramBytes)), " in all)");
        break;
      case Outcome::kTooLong:
        line += base::strCat("a chain has at most ", kLongestChain, " units");
        break;
      case Outcome::kSlower:
        line +=
            llvm::formatv("slower through SRAM ({0:F2} us against {1:F2} us)", chain.chained / 1e6, chain.apart / 1e6)
                .str();
        break;
    }
    report("apart    " + line);
  }

  void report(const std::string& line) {
    if (options_.report) *options_.report += line + "\n";
  }

  TileOptions options_;
  DenseMap<Operation*, std::string> packed_;  ///< By MME op: what to report.
  std::vector<std::pair<Operation*, Operation*>>
      links_;  ///< Producers and readers, in the order of the search's links.
};

}  // namespace

std::unique_ptr<Pass> createTilePass(TileOptions options) {
  return std::make_unique<TilePass>(std::move(options));
}

}  // namespace hpu::tile
