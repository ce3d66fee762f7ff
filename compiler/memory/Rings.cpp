// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Rings.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/memory/Planner.h"
#include "compiler/support/Units.h"
#include "recipe/Recipe.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::memory {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

RingInfo shapeRing(BundleOp bundle) {
  RankedTensorType type;
  for (Operation& op : bundle.getBody().front())
    if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.getEngine() == EngineKind::Mme) type = typeOf(op.getResult(0));
  RingInfo ring{0, 1, 0, elementSize(elementType(type.getElementType()))};
  TileAttr tile = bundle.getTileAttr();
  for (int64_t d = 0; d < type.getRank(); ++d) {
    int64_t size = tile ? tile.getSizes()[d] : type.getDimSize(d);
    ring.slotBytes *= size;
    if (size != type.getDimSize(d)) {
      ring.dim = d;
      ring.slots = tile.getSlots();
    }
  }
  ring.slotBytes = (ring.slotBytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
  return ring;
}

}  // namespace

RingPlan planRings(ArrayRef<Operation*> units, int64_t sramBytes) {
  RingPlan result;
  SmallVector<Operation*> bundles;
  SmallVector<RingInfo> rings;
  std::vector<Buffer> tiles;
  for (Operation* unit : units) {
    auto bundle = dyn_cast<BundleOp>(unit);
    if (!bundle || llvm::hasSingleElement(bundle.getBody().front().without_terminator())) continue;
    RingInfo ring = shapeRing(bundle);
    int64_t order = bundles.size();
    bundles.push_back(unit);
    rings.push_back(ring);
    // They live on into the next bundle, which the MME may already work on while the TPC still reads.
    tiles.push_back({ring.slots * ring.slotBytes, order, order + 1});
    if (tiles.back().bytes <= sramBytes) continue;
    result.error = "the SRAM tiles of '" + unitName(unit) + "' need " + std::to_string(tiles.back().bytes) +
                   " bytes, and the target has " + std::to_string(sramBytes);
    return result;
  }
  Plan plan = planBuffers(tiles, recipe::kAlignment, true, sramBytes);
  while (plan.bytes > sramBytes) {
    // The largest tiles among those that stay for their neighbour give way first.
    size_t largest = tiles.size();
    for (size_t i = 0; i < tiles.size(); ++i)
      if (tiles[i].begin != tiles[i].end && (largest == tiles.size() || tiles[i].bytes > tiles[largest].bytes)) largest = i;
    if (largest == tiles.size()) break;  // Each alone fits, so the plan does; the verifier has the last word.
    tiles[largest].end = tiles[largest].begin;
    result.notes.push_back("no overlap of " + unitName(bundles[largest]) + " with the bundle behind it: both tiles together "
                           "are beyond the SRAM");
    plan = planBuffers(tiles, recipe::kAlignment, true, sramBytes);
  }
  for (auto [bundle, ring, offset] : llvm::zip(bundles, rings, plan.offsets))
    bundle->setAttr(kRingAttr, DenseI64ArrayAttr::get(bundle->getContext(), {offset, ring.slots, ring.dim, ring.slotBytes}));
  result.bytes = plan.bytes;
  return result;
}

}  // namespace hpu::memory
