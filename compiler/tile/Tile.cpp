// SPDX-License-Identifier: Apache-2.0
// Phase tile. In: units with layouts. Out: `tile` on each unit that is cut and each bundle that has TPC ops, proven by
// hpu-verify-tile; a bundle whose product cannot be tiled is split into an MME op and a cluster. `hpu.packing` on each
// MME op that is packed. Stop after it with --stop-after=tile. How units are cut is decided in Search.cpp.
#include "compiler/tile/Tile.h"

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Chains.h"
#include "compiler/schedule/Issue.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "compiler/tile/Search.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"
#include "recipe/MmePacking.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::tile {
namespace {

HpuOp mmeOp(BundleOp bundle) {
  for (Operation& op : bundle.getBody().front())
    if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.getEngine() == EngineKind::Mme) return hpuOp;
  return {};
}

SmallVector<Operation*> mmeOps(Operation* unit) {
  SmallVector<Operation*> ops;
  if (unit->getNumRegions())
    for (Operation& op : unit->getRegion(0).front())
      if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.getEngine() == EngineKind::Mme) ops.push_back(&op);
  return ops;
}

/// Two slots of two neighbouring bundles are in SRAM at a time.
int64_t tileLimit(const arch::TargetDesc& target) {
  return target.sramBytes / 4;
}

bool hasTpcOps(BundleOp bundle) {
  return !llvm::hasSingleElement(bundle.getBody().front().without_terminator());
}

/// A unit of some ops of a bundle; `outer` maps values of the bundle's body to values at function level.
Operation* makeUnit(OpBuilder& builder, Location loc, StringRef kind, ArrayRef<Operation*> ops, ArrayRef<Value> yielded,
                    const IRMapping& outer) {
  llvm::SetVector<Value> inputs;
  for (Operation* op : ops)
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(ops, operand.getDefiningOp())) inputs.insert(operand);
  OperationState state(loc, kind);
  for (Value input : inputs) state.addOperands(outer.lookup(input));
  state.addTypes(ValueRange(yielded).getTypes());
  state.addRegion();
  Operation* unit = builder.create(state);
  OpBuilder::InsertionGuard guard(builder);
  Block* body = builder.createBlock(&unit->getRegion(0));
  IRMapping mapping;
  for (Value input : inputs) mapping.map(input, body->addArgument(outer.lookup(input).getType(), input.getLoc()));
  for (Operation* op : ops) builder.clone(*op, mapping);
  SmallVector<Value> results;
  for (Value value : yielded) results.push_back(mapping.lookup(value));
  YieldOp::create(builder, loc, results);
  return unit;
}

/// For a product that no tile of can be held in SRAM: the MME op alone, and its TPC ops as a cluster that reads the
/// product from HBM.
void split(BundleOp bundle) {
  OpBuilder builder(bundle);
  Block& body = bundle.getBody().front();
  Operation* mme = mmeOp(bundle);
  SmallVector<Operation*> tpcOps;
  for (Operation& op : body.without_terminator())
    if (&op != mme) tpcOps.push_back(&op);
  IRMapping outer;
  outer.map(body.getArguments(), bundle.getOperands());
  Value product = mme->getResult(0);
  product.setType(withOrder(tensorOf(product), physicalOrder(tensorOf(bundle.getResult(0)))));
  Operation* alone = makeUnit(builder, mme->getLoc(), BundleOp::getOperationName(), mme, product, outer);
  outer.map(product, alone->getResult(0));
  SmallVector<Value> yielded(body.getTerminator()->getOperands());
  Operation* cluster = makeUnit(builder, bundle.getLoc(), ClusterOp::getOperationName(), tpcOps, yielded, outer);
  bundle.replaceAllUsesWith(cluster->getResults());
  bundle.erase();
}

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
        split(bundle);
        again = true;
      }
    }
    int64_t cut = 0, slices = 0;
    for (auto [unit, tile] : llvm::zip(units, tiling->tiles)) {
      if (!isa<BundleOp, ClusterOp>(unit)) continue;
      ArrayRef<int64_t> shape = tensorOf(unit->getResult(0)).getShape();
      int64_t count = schedule::sliceCount({shape.begin(), shape.end()}, tile);
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
        if (bundle && hasTpcOps(bundle)) searched.back().tileBytes = tileLimit(*options_.target);
      }
      searched.back().ops.push_back(op);
    }
    schedule::IssueContext context{*program, draft.reads, *options_.target, options_.target->clock()};
    std::vector<SearchLink> links = options_.slice ? findLinks(units, unitOf) : std::vector<SearchLink>();
    SearchOptions search{.slice = options_.slice, .windows = options_.windows, .sramBytes = options_.target->sramBytes};
    HPU_ASSIGN(Tiling all, searchTiles(context, searched, links, search));
    Tiling byUnit;
    byUnit.time = all.time;
    byUnit.chains = std::move(all.chains);
    byUnit.tiles.resize(units.size());
    for (size_t i = 0; i < searched.size(); ++i) byUnit.tiles[unitOf[i]] = std::move(all.tiles[i]);
    packed_.clear();
    for (const Packing& packing : all.packings) {
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
    for (Operation* unit : units) {
      if (!isa<BundleOp, ClusterOp>(unit) || !searched.contains(unit)) continue;
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

class VerifyTilePass : public PassWrapper<VerifyTilePass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyTilePass)
  explicit VerifyTilePass(const arch::TargetDesc* target) : target_(target) {}
  StringRef getArgument() const override { return "hpu-verify-tile"; }
  StringRef getDescription() const override { return "Checks the tiles of bundles"; }
  void runOnOperation() override {
    Operation* chained = nullptr;
    for (Operation& unit : getOperation().getBody().front()) {
      if (isUnit(&unit)) {
        if (chained && !followsChain(chained, &unit)) {
          chained->emitOpError() << "'" << unitName(chained) << "' is chained, but the next unit, '" << unitName(&unit)
                                 << "', is not its only reader or not cut as it is";
          return signalPassFailure();
        }
        chained = chainOf(&unit) ? &unit : nullptr;
      }
      auto bundle = dyn_cast<BundleOp>(&unit);
      bool pipelined = bundle && hasTpcOps(bundle);
      auto tile = unit.getAttrOfType<TileAttr>("tile");
      if (!isUnit(&unit)) continue;
      for (Operation* op : mmeOps(&unit)) {
        Attribute packing = op->getAttr(schedule::kPackingAttr);
        auto factor = dyn_cast_or_null<IntegerAttr>(packing);
        bool number = factor && factor.getType().isSignlessInteger(64);
        if (!packing || (number && factor.getInt() > 1 && factor.getInt() <= recipe::kMaxPackingFactor)) continue;
        op->emitOpError() << "'" << unitName(&unit) << "': " << schedule::kPackingAttr << " is not in 2.."
                          << recipe::kMaxPackingFactor;
        return signalPassFailure();
      }
      if (!tile && !pipelined) continue;
      RankedTensorType type = tensorOf(unit.getResult(0));
      if (!tile || static_cast<int64_t>(tile.getSizes().size()) != type.getRank()) {
        unit.emitOpError("has no tile of its rank");
        return signalPassFailure();
      }
      // What lies in SRAM is the product: the unit's result may have another element type.
      Value held = pipelined ? mmeOp(bundle)->getResult(0) : unit.getResult(0);
      int64_t cut = 0, bytes = elementSize(elementType(tensorOf(held).getElementType()));
      for (auto [size, extent] : llvm::zip(tile.getSizes(), type.getShape())) {
        cut += size != extent;
        bytes *= size;
      }
      if (cut > 1 || (pipelined && bytes > tileLimit(*target_))) {
        unit.emitOpError() << "'" << unitName(&unit) << "': a tile of " << bytes << " bytes cannot be held in SRAM ("
                           << target_->sramBytes << " bytes) by cutting one dimension";
        return signalPassFailure();
      }
    }
    if (!chained) return;
    chained->emitOpError() << "'" << unitName(chained) << "' is chained, but no unit follows";
    signalPassFailure();
  }

 private:
  /// Whether slice i of `reader` reads what slice i of `producer` writes, and nobody else does.
  static bool followsChain(Operation* producer, Operation* reader) {
    ChainLink link = *chainOf(producer);
    if (link.slots < 1 || onlyReader(producer) != reader) return false;
    auto tiles = [](Operation* unit) {
      ArrayRef<int64_t> shape = tensorOf(unit->getResult(0)).getShape();
      auto tile = unit->getAttrOfType<TileAttr>("tile");
      return tile ? SmallVector<int64_t>(tile.getSizes()) : SmallVector<int64_t>(shape);
    };
    SmallVector<int64_t> from = tiles(producer), to = tiles(reader);
    if (!link.interleaved()) return true;
    std::optional<int64_t> following = followingDim(producer, link.dim, reader);
    if (!following || from.size() <= static_cast<size_t>(link.dim) || to.size() <= static_cast<size_t>(*following))
      return false;
    ArrayRef<int64_t> fromShape = tensorOf(producer->getResult(0)).getShape(),
                      toShape = tensorOf(reader->getResult(0)).getShape();
    for (size_t d = 0; d < from.size(); ++d)
      if (static_cast<int64_t>(d) != link.dim && from[d] != fromShape[d]) return false;
    for (size_t d = 0; d < to.size(); ++d)
      if (static_cast<int64_t>(d) != *following && to[d] != toShape[d]) return false;
    return from[link.dim] * toShape[*following] == to[*following] * fromShape[link.dim];
  }

  const arch::TargetDesc* target_;
};

}  // namespace

std::unique_ptr<Pass> createTilePass(TileOptions options) {
  return std::make_unique<TilePass>(std::move(options));
}
std::unique_ptr<Pass> createVerifyTilePass(const arch::TargetDesc* target) {
  return std::make_unique<VerifyTilePass>(target);
}

}  // namespace hpu::tile
