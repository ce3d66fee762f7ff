// SPDX-License-Identifier: Apache-2.0
// What the phase tile must have left: at most one dimension of a unit is cut, a bundle's tile fits into SRAM, packing
// is a factor in range, and the unit behind a chained one is its only reader and cut in proportion.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Chains.h"
#include "compiler/support/Units.h"
#include "compiler/tile/BundleParts.h"
#include "compiler/tile/Search.h"
#include "compiler/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "plan/Issue.h"
#include "recipe/MmePacking.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::tile {
namespace {

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
      if (cut > 1 || (pipelined && bytes > mostTileBytes(target_->sramBytes))) {
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

std::unique_ptr<Pass> createVerifyTilePass(const arch::TargetDesc* target) {
  return std::make_unique<VerifyTilePass>(target);
}

}  // namespace hpu::tile
