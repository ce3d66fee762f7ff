// SPDX-License-Identifier: Apache-2.0
// Phase memory. In: tiled units. Out: the same with addresses, proven by hpu-verify-memory. Stop after it with
// --stop-after=memory. The planning itself is in Planner.cpp.
#include "compiler/memory/Memory.h"

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/memory/Planner.h"
#include "compiler/support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include "recipe/Recipe.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::memory {
namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
int64_t bytesOf(Value value) {
  return typeOf(value).getNumElements() * elementSize(elementType(typeOf(value).getElementType()));
}

/// Units in program order and, for each result of one, the last step that reads it through any view.
struct Liveness {
  SmallVector<Operation*> units;
  llvm::DenseMap<Operation*, int64_t> step;
  llvm::MapVector<Value, Buffer> buffers;
};

Liveness liveness(func::FuncOp function) {
  Liveness result;
  for (Operation& op : function.getBody().front()) {
    if (!isUnit(&op) && !isa<func::ReturnOp>(op)) continue;
    int64_t now = result.units.size();
    for (Value operand : op.getOperands()) {
      std::optional<StridedView> view = resolveView(operand);
      auto found = view ? result.buffers.find(view->base) : result.buffers.end();
      if (found != result.buffers.end()) found->second.end = now;
    }
    if (!isUnit(&op)) break;
    result.step[&op] = now;
    result.units.push_back(&op);
    for (Value value : op.getResults()) result.buffers[value] = {bytesOf(value), now, now};
  }
  return result;
}

class MemoryPass : public PassWrapper<MemoryPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MemoryPass)
  explicit MemoryPass(MemoryOptions options) : options_(options) {}
  StringRef getArgument() const override { return "hpu-memory"; }
  StringRef getDescription() const override { return "Plans HBM workspace and SRAM tiles"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    Liveness live = liveness(function);
    Sections sections = sectionsOf(function);
    llvm::DenseMap<Value, std::pair<int64_t, int64_t>> place;
    for (OpOperand& operand : function.getBody().front().getTerminator()->getOpOperands())
      place[resolveView(operand.get())->base] = {sections.inputs + operand.getOperandNumber(), 0};

    SmallVector<Value> values;
    std::vector<Buffer> buffers;
    for (auto& [value, buffer] : live.buffers)
      if (!place.contains(value)) {
        values.push_back(value);
        buffers.push_back(buffer);
      }
    Plan plan = planBuffers(buffers, recipe::kAlignment, options_.reuse);
    for (auto [value, offset] : llvm::zip(values, plan.offsets)) place[value] = {sections.workspace(), offset};
    for (Operation* unit : live.units) {
      SmallVector<int64_t> attribute;
      for (Value value : unit->getResults()) {
        attribute.push_back(place[value].first);
        attribute.push_back(place[value].second);
      }
      unit->setAttr(kBuffersAttr, DenseI64ArrayAttr::get(&getContext(), attribute));
    }
    int64_t sramPeak = planSram(live.units);
    if (sramPeak < 0) return signalPassFailure();
    Builder builder(&getContext());
    function->setAttr(kWorkspaceAttr, builder.getI64IntegerAttr(plan.bytes));
    function->setAttr(kSramAttr, builder.getI64IntegerAttr(sramPeak));
    finish(function, live, plan, sramPeak);
  }

 private:
  /// Rings live from their bundle to the next one, which the MME may already work on.
  int64_t planSram(ArrayRef<Operation*> units) {
    std::vector<Buffer> tiles;
    SmallVector<Operation*> bundles;
    SmallVector<RingInfo> rings;
    for (Operation* unit : units) {
      auto bundle = dyn_cast<BundleOp>(unit);
      if (!bundle || llvm::hasSingleElement(bundle.getBody().front().without_terminator())) continue;
      RingInfo ring = shapeRing(bundle);
      int64_t order = bundles.size();
      bundles.push_back(unit);
      rings.push_back(ring);
      tiles.push_back({ring.slots * ring.slotBytes, order, order + 1});
    }
    Plan plan = planBuffers(tiles, recipe::kAlignment);
    if (plan.bytes > options_.sramBytes) {
      getOperation().emitError() << "SRAM plan needs " << plan.bytes << " bytes, the target has " << options_.sramBytes;
      return -1;
    }
    for (auto [bundle, ring, offset] : llvm::zip(bundles, rings, plan.offsets))
      bundle->setAttr(kRingAttr, DenseI64ArrayAttr::get(&getContext(), {offset, ring.slots, ring.dim, ring.slotBytes}));
    return plan.bytes;
  }

  static RingInfo shapeRing(BundleOp bundle) {
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

  void finish(func::FuncOp function, const Liveness& live, const Plan& plan, int64_t sramPeak) {
    if (options_.stats) {
      options_.stats->workspaceBytes = plan.bytes;
      options_.stats->largestLiveSetBytes = plan.largestLiveSet;
      options_.stats->sramPeakBytes = sramPeak;
    }
    auto mib = [](int64_t bytes) { return llvm::formatv("{0:F1} MiB", bytes / 1048576.0).str(); };
    if (options_.summary)
      *options_.summary = "workspace " + mib(plan.bytes) + " (largest live set " + mib(plan.largestLiveSet) +
                          "), SRAM peak " + mib(sramPeak) + " of " + mib(options_.sramBytes);
    if (!options_.report) return;
    for (Operation* unit : live.units)
      for (Value value : unit->getResults()) {
        Location location = *locate(value);
        auto found = live.buffers.find(value);
        *options_.report += llvm::formatv("section {0} +{1,-12} {2,12} bytes  steps {3}..{4}  {5}\n", location.section,
                                          location.offset, found->second.bytes, found->second.begin, found->second.end,
                                          unitName(unit)).str();
      }
  }

  MemoryOptions options_;
};

class VerifyMemoryPass : public PassWrapper<VerifyMemoryPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyMemoryPass)
  explicit VerifyMemoryPass(int64_t sramBytes) : sramBytes_(sramBytes) {}
  StringRef getArgument() const override { return "hpu-verify-memory"; }
  StringRef getDescription() const override { return "Checks that buffers alive together do not overlap"; }
  void runOnOperation() override {
    Liveness live = liveness(getOperation());
    struct Placed {
      Value value;
      int64_t section, from, to, begin, end;
    };
    std::vector<Placed> placed;
    for (auto& [value, buffer] : live.buffers) {
      std::optional<Location> location = locate(value);
      if (!location) return fail(value, "has no address");
      Placed now{value, location->section, location->offset, location->offset + buffer.bytes, buffer.begin, buffer.end};
      for (const Placed& other : placed)
        if (other.section == now.section && other.from < now.to && now.from < other.to && other.begin <= now.end &&
            now.begin <= other.end)
          return fail(value, "overlaps a buffer that is alive with it");
      placed.push_back(now);
    }
    for (Operation* unit : live.units)
      if (auto ring = ringOf(unit); ring && ring->offset + ring->slots * ring->slotBytes > sramBytes_)
        return fail(unit->getResult(0), "has SRAM tiles beyond the capacity");
  }

 private:
  void fail(Value value, const char* what) {
    value.getDefiningOp()->emitOpError() << "buffer " << what;
    signalPassFailure();
  }
  int64_t sramBytes_;
};

}  // namespace

std::unique_ptr<Pass> createMemoryPass(MemoryOptions options) { return std::make_unique<MemoryPass>(options); }
std::unique_ptr<Pass> createVerifyMemoryPass(int64_t sramBytes) { return std::make_unique<VerifyMemoryPass>(sramBytes); }

}  // namespace hpu::memory
