// SPDX-License-Identifier: Apache-2.0
#include "compiler/memory/Rings.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/layout/Chains.h"
#include "compiler/support/Units.h"
#include "plan/Planner.h"
#include "recipe/Recipe.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::memory {
namespace {

RingInfo shapeRing(BundleOp bundle) {
  RankedTensorType type;
  for (Operation& op : bundle.getBody().front())
    if (auto hpuOp = dyn_cast<HpuOp>(&op); hpuOp && hpuOp.getEngine() == EngineKind::Mme)
      type = tensorOf(op.getResult(0));
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

RingInfo shapeChain(Operation* unit, ChainLink link) {
  RankedTensorType type = tensorOf(unit->getResult(0));
  RingInfo ring{0, link.slots, link.dim, elementSize(elementType(type.getElementType()))};
  auto tile = unit->getAttrOfType<TileAttr>("tile");
  for (int64_t d = 0; d < type.getRank(); ++d)
    ring.slotBytes *= tile && link.interleaved() ? tile.getSizes()[d] : type.getDimSize(d);
  ring.slotBytes = (ring.slotBytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
  return ring;
}

/// The tiles of a bundle's product, or of what a chained unit hands on.
struct Tiles {
  Operation* unit;
  const char* attribute;
  RingInfo ring;
};

}  // namespace

RingPlan planRings(ArrayRef<Operation*> units, int64_t sramBytes) {
  RingPlan result;
  SmallVector<Tiles> all;
  std::vector<plan::Buffer> tiles;
  int64_t order = -1, group = 0;  // Units of a chain have one place in the order.
  bool fresh = true;
  for (Operation* unit : units) {
    const size_t before = all.size();
    auto bundle = dyn_cast<BundleOp>(unit);
    if (bundle && !llvm::hasSingleElement(bundle.getBody().front().without_terminator()))
      all.push_back({unit, kRingAttr, shapeRing(bundle)});
    std::optional<ChainLink> link = chainOf(unit);
    if (link) all.push_back({unit, kChainRingAttr, shapeChain(unit, *link)});
    result.chained += link.has_value();
    if (all.size() > before && fresh) {
      ++order;
      group = 0;
      fresh = false;
    }
    for (size_t i = before; i < all.size(); ++i) {
      // They live on into the next bundle, which the MME may already work on while the TPC still reads.
      tiles.push_back({all[i].ring.slots * all[i].ring.slotBytes, order, order + 1});
      group += tiles.back().bytes;
    }
    if (!link) fresh = true;
    if (group <= sramBytes || all.size() == before) continue;
    result.error = "the SRAM tiles of '" + unitName(unit) + "' need " + std::to_string(group) +
                   " bytes, and the target has " + std::to_string(sramBytes);
    return result;
  }
  plan::Placement placement = plan::placeBuffers(tiles, recipe::kAlignment, true, sramBytes);
  while (placement.bytes > sramBytes) {
    // The largest tiles among those that stay for their neighbour give way first.
    size_t largest = tiles.size();
    for (size_t i = 0; i < tiles.size(); ++i)
      if (tiles[i].begin != tiles[i].end && (largest == tiles.size() || tiles[i].bytes > tiles[largest].bytes))
        largest = i;
    if (largest == tiles.size())
      break;  // The tiles of each bundle alone fit, so the plan does; the verifier has the last word.
    tiles[largest].end = tiles[largest].begin;
    result.notes.push_back("no overlap of " + unitName(all[largest].unit) +
                           " with the bundle behind it: both tiles together "
                           "are beyond the SRAM");
    placement = plan::placeBuffers(tiles, recipe::kAlignment, true, sramBytes);
  }
  for (auto [each, offset] : llvm::zip(all, placement.offsets)) {
    const RingInfo& ring = each.ring;
    each.unit->setAttr(each.attribute,
                       DenseI64ArrayAttr::get(each.unit->getContext(), {offset, ring.slots, ring.dim, ring.slotBytes}));
    if (each.attribute == kChainRingAttr && ring.slots > 1)
      result.notes.push_back("chained  " + unitName(each.unit) + ": " + std::to_string(ring.slots) + " tiles of " +
                             std::to_string(ring.slotBytes) + " bytes");
  }
  result.bytes = placement.bytes;
  return result;
}

}  // namespace hpu::memory
