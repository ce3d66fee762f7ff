// SPDX-License-Identifier: Apache-2.0
// Phase tile. In: units with layouts. Out: `tile` on each bundle that has TPC ops, proven by hpu-verify-tile; a bundle
// whose product cannot be tiled is split into an MME op and a cluster.
// Stop after it with --stop-after=tile.
// The number of slices minimises the modelled time of the two-stage pipeline.
#include "compiler/tile/Tile.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/IR/IRMapping.h"
#include "perfmodel/EngineCost.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::tile {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

HpuOp mmeOp(BundleOp bundle) {
  for (Operation& op : bundle.getBody().front())
    if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.getEngine() == EngineKind::Mme) return hpuOp;
  return {};
}

/// Dimensions that may be cut: all but the one the MME lays along its width (columns or channels).
SmallVector<int64_t> cuttable(HpuOp mme) {
  int64_t rank = typeOf(mme->getResult(0)).getRank();
  if (isa<MatMulOp>(mme)) return llvm::to_vector(llvm::seq<int64_t>(0, rank - 1));
  return {0, 2};
}

/// The whole MME op as a matrix product.
perfmodel::GemmShape gemmOf(HpuOp mme) {
  perfmodel::GemmShape gemm;
  RankedTensorType result = typeOf(mme->getResult(0));
  gemm.type = elementType(result.getElementType());
  if (isa<MatMulOp>(mme)) {
    int64_t rank = result.getRank();
    gemm.m = result.getDimSize(rank - 2);
    gemm.n = result.getDimSize(rank - 1);
    gemm.k = typeOf(mme->getOperand(0)).getShape().back();
    gemm.batch = result.getNumElements() / (gemm.m * gemm.n);
    // One matrix for the whole batch: its rows are simply more rows.
    if (llvm::all_of(typeOf(mme->getOperand(1)).getShape().drop_back(2), [](int64_t size) { return size == 1; })) {
      gemm.m *= gemm.batch;
      gemm.batch = 1;
    }
  } else {
    RankedTensorType weights = typeOf(mme->getOperand(1));
    gemm.m = result.getDimSize(0) * result.getDimSize(2) * result.getDimSize(3);
    gemm.n = result.getDimSize(1);
    gemm.k = weights.getNumElements() / (isa<Conv2dOp>(mme) ? weights.getDimSize(0) : weights.getDimSize(1));
  }
  return gemm;
}

struct Choice {
  int64_t dim = 0, size = 0, slices = 1;
  perfmodel::Picoseconds time = 0;
};

class Tiler {
 public:
  Tiler(const TileOptions& options) : options_(options), target_(*options.target), clock_(target_.clock()) {}

  /// The cut with the least modelled time; nothing when no tile fits into SRAM.
  std::optional<Choice> choose(BundleOp bundle) {
    HpuOp mme = mmeOp(bundle);
    RankedTensorType type = typeOf(mme->getResult(0));
    int64_t elementBytes = elementSize(elementType(type.getElementType()));
    int64_t bytes = type.getNumElements() * elementBytes;
    int64_t tpcOps = 0;
    for (Operation& op : bundle.getBody().front().without_terminator()) tpcOps += &op != mme.getOperation();
    std::optional<Choice> best;
    for (int64_t dim : cuttable(mme)) {
      int64_t extent = type.getDimSize(dim);
      for (int64_t slices = 1; slices <= extent && slices <= kMostSlices; slices *= 2) {
        int64_t size = (extent + slices - 1) / slices, count = (extent + size - 1) / size;
        if (bytes / extent * size > target_.sramBytes / 4) continue;
        Choice choice{dim, size, count, pipelineTime(mme, type, bytes, tpcOps, count)};
        if (!options_.slice) return choice;  // the fewest slices that SRAM allows
        if (!best || choice.time < best->time) best = choice;
      }
    }
    return best;
  }

 private:
  static constexpr int64_t kMostSlices = 4096;

  /// Two stages, `count` slices: the slower engine works through, the other one's first or last slice sticks out.
  perfmodel::Picoseconds pipelineTime(HpuOp mme, RankedTensorType type, int64_t bytes, int64_t tpcOps, int64_t count) {
    perfmodel::GemmShape gemm = gemmOf(mme);
    (gemm.batch >= count ? gemm.batch : gemm.m) /= count;
    gemm.m = std::max<int64_t>(gemm.m, 1);
    perfmodel::TpcWork work;
    double vectors = double(bytes) / target_.tpcVectorBytes / count;
    work.points = type.getNumElements() / count;
    double perPoint = vectors / std::max<int64_t>(work.points, 1);
    work.loads = 2 * perPoint;
    work.stores = perPoint;
    work.vectorOps = 2.0 * tpcOps * perPoint;
    auto mmeTime = perfmodel::gemmCost(target_, clock_, gemm, {}).alone;
    auto tpcTime = perfmodel::tpcCost(target_, clock_, work, {2 * bytes / count, bytes / count}).alone;
    return std::max(mmeTime, tpcTime) * count + std::min(mmeTime, tpcTime);
  }

  const TileOptions& options_;
  const arch::TargetDesc& target_;
  const arch::ClockProfile& clock_;
};

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
  product.setType(withOrder(typeOf(product), physicalOrder(typeOf(bundle.getResult(0)))));
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
  explicit TilePass(TileOptions options) : options_(options) {}
  StringRef getArgument() const override { return "hpu-tile"; }
  StringRef getDescription() const override { return "Cuts bundles into pipelined slices"; }
  void runOnOperation() override {
    Tiler tiler(options_);
    int64_t pipelined = 0, single = 0, slices = 0;
    for (BundleOp bundle : llvm::make_early_inc_range(getOperation().getOps<BundleOp>())) {
      if (llvm::hasSingleElement(bundle.getBody().front().without_terminator())) continue;
      std::optional<Choice> choice = tiler.choose(bundle);
      if (!choice) {
        if (options_.report)
          *options_.report += "no tile fits into SRAM, so the product goes through HBM  " + unitName(bundle) + "\n";
        split(bundle);
        continue;
      }
      SmallVector<int64_t> sizes(typeOf(bundle.getResult(0)).getShape());
      sizes[choice->dim] = choice->size;
      bundle.setTileAttr(TileAttr::get(&getContext(), sizes, choice->slices > 1 ? 2 : 1));
      (choice->slices > 1 ? pipelined : single) += 1;
      slices += choice->slices;
      if (options_.report)
        *options_.report += llvm::formatv("{0,4} slices of {1} along dim {2}  {3}\n", choice->slices, choice->size,
                                          choice->dim, unitName(bundle)).str();
    }
    if (options_.summary)
      *options_.summary = llvm::formatv("{0} bundles pipelined, {1} whole, {2} slices", pipelined, single, slices).str();
  }

 private:
  TileOptions options_;
};

class VerifyTilePass : public PassWrapper<VerifyTilePass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyTilePass)
  explicit VerifyTilePass(const arch::TargetDesc* target) : target_(target) {}
  StringRef getArgument() const override { return "hpu-verify-tile"; }
  StringRef getDescription() const override { return "Checks the tiles of bundles"; }
  void runOnOperation() override {
    getOperation().walk([&](BundleOp bundle) {
      if (llvm::hasSingleElement(bundle.getBody().front().without_terminator())) return;
      RankedTensorType type = typeOf(bundle.getResult(0));
      TileAttr tile = bundle.getTileAttr();
      if (!tile || static_cast<int64_t>(tile.getSizes().size()) != type.getRank()) {
        bundle.emitOpError("has no tile of its rank");
        return signalPassFailure();
      }
      int64_t cut = 0, bytes = elementSize(elementType(type.getElementType()));
      for (auto [size, extent] : llvm::zip(tile.getSizes(), type.getShape())) {
        cut += size != extent;
        bytes *= size;
      }
      if (cut > 1 || bytes > target_->sramBytes / 4) {
        bundle.emitOpError() << "'" << unitName(bundle) << "': a tile of " << bytes << " bytes cannot be held in SRAM ("
                             << target_->sramBytes << " bytes) by cutting one dimension";
        signalPassFailure();
      }
    });
  }

 private:
  const arch::TargetDesc* target_;
};

}  // namespace

std::unique_ptr<Pass> createTilePass(TileOptions options) { return std::make_unique<TilePass>(options); }
std::unique_ptr<Pass> createVerifyTilePass(const arch::TargetDesc* target) {
  return std::make_unique<VerifyTilePass>(target);
}

}  // namespace hpu::tile
