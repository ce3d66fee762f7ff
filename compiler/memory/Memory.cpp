// SPDX-License-Identifier: Apache-2.0
// Phase memory. In: tiled units. Out: the same with addresses, proven by hpu-verify-memory. Stop after it with
// --stop-after=memory. Which values share bytes is decided in Storage.cpp, addresses in Planner.cpp, SRAM in Rings.cpp.
#include "compiler/memory/Memory.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/layout/Chains.h"
#include "compiler/memory/Rings.h"
#include "compiler/memory/Storage.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Pass/Pass.h"
#include "plan/Planner.h"
#include "recipe/Recipe.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::memory {
namespace {

/// Lines of a list in the report; more of them are counted.
constexpr size_t kMostLines = 16;

HbmNeeds needsOf(func::FuncOp function, int64_t workspace) {
  HbmNeeds needs;
  needs.workspace = workspace;
  for (BlockArgument argument : function.getArguments())
    if (!stateOfArgument(argument)) needs.inputs += tensorBytes(argument.getType());
  for (const auto& [index, type] : llvm::enumerate(function.getResultTypes())) {
    const std::optional<StateMemory> state = stateOfResult(function, index);
    needs.outputs += state ? state->elements() * elementBytes(cast<RankedTensorType>(type)) : tensorBytes(type);
  }
  llvm::SmallPtrSet<Attribute, 16> seen;
  for (auto constant : function.getOps<ConstantOp>())
    if (seen.insert(constant.getValue()).second) needs.weights += tensorBytes(constant.getResult());
  return needs;
}

class MemoryPass : public PassWrapper<MemoryPass, OperationPass<func::FuncOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MemoryPass)
  explicit MemoryPass(MemoryOptions options) : options_(options) {}
  StringRef getArgument() const override { return "hpu-memory"; }
  StringRef getDescription() const override { return "Plans HBM workspace and SRAM tiles"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    StoragePlan storages = planStorages(function, {options_.reuse, options_.largestLiveSetBytes});
    std::vector<plan::Buffer> buffers;
    std::vector<size_t> which;
    for (auto [index, storage] : llvm::enumerate(storages.storages))
      if (!storage.members.empty() && storage.output < 0) {
        buffers.push_back(storage.live);
        which.push_back(index);
      }
    plan::Placement placement = plan::placeBuffers(buffers, recipe::kAlignment, options_.reuse);
    Sections sections = sectionsOf(function);
    std::vector<std::pair<int64_t, int64_t>> place(storages.storages.size());
    for (auto [index, storage] : llvm::enumerate(storages.storages))
      place[index] = {sections.inputs + std::max<int64_t>(storage.output, 0), 0};
    for (auto [index, offset] : llvm::zip(which, placement.offsets)) place[index] = {sections.workspace(), offset};
    RingPlan rings = planRings(storages.units, options_.sramBytes);
    if (!rings.error.empty()) {
      withCode(StatusCode::kResourceExhausted, function.emitError()) << rings.error;
      return signalPassFailure();
    }
    for (Operation* unit : storages.units) {
      if (std::optional<RingInfo> chain = chainRingOf(unit)) {
        unit->setAttr(kBuffersAttr,
                      DenseI64ArrayAttr::get(&getContext(), {static_cast<int64_t>(sections.sram()), chain->offset}));
        continue;
      }
      SmallVector<int64_t> attribute;
      for (Value value : unit->getResults()) {
        const Window& window = storages.windows[value];
        auto element = cast<RankedTensorType>(value.getType()).getElementType();
        attribute.push_back(place[window.storage].first);
        attribute.push_back(place[window.storage].second + window.offset.value() * elementSize(elementType(element)));
      }
      unit->setAttr(kBuffersAttr, DenseI64ArrayAttr::get(&getContext(), attribute));
    }
    Builder builder(&getContext());
    if (function->getParentOfType<ModuleOp>()->hasAttr(kSamplesAttr)) recordStorages(function, storages);
    function->setAttr(kWorkspaceAttr, builder.getI64IntegerAttr(placement.bytes));
    function->setAttr(kSramAttr, builder.getI64IntegerAttr(rings.bytes));
    HbmNeeds needs = needsOf(function, placement.bytes);
    if (options_.stats) *options_.stats = {rings.bytes, needs};
    if (options_.summary) *options_.summary = summary(storages, placement, rings);
    if (options_.report) *options_.report += report(storages, placement, which, rings, needs);
  }

 private:
  /// Only storages that something lies in are numbered.
  void recordStorages(func::FuncOp function, StoragePlan& storages) {
    Builder builder(&getContext());
    auto number = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
    SmallVector<int64_t> numbers(storages.storages.size(), -1);
    SmallVector<Attribute> all;
    for (auto [index, storage] : llvm::enumerate(storages.storages)) {
      if (storage.members.empty()) continue;
      numbers[index] = static_cast<int64_t>(all.size());
      all.push_back(
          builder.getDictionaryAttr({builder.getNamedAttr("bytes", builder.getStringAttr(storage.bytes.text())),
                                     builder.getNamedAttr("begin", number(storage.live.begin)),
                                     builder.getNamedAttr("end", number(storage.live.end)),
                                     builder.getNamedAttr("output", number(storage.output))}));
    }
    function->setAttr(kStoragesAttr, builder.getArrayAttr(all));
    for (Operation* unit : storages.units) {
      if (chainOf(unit)) continue;
      SmallVector<Attribute> places;
      for (Value value : unit->getResults()) {
        const Window& window = storages.windows[value];
        SmallVector<NamedAttribute> place = {builder.getNamedAttr("storage", number(numbers[window.storage])),
                                             builder.getNamedAttr("start", number(window.offset.value()))};
        if (!window.offset.isConstant())
          place.push_back(builder.getNamedAttr("name", builder.getStringAttr(window.offset.text())));
        places.push_back(builder.getDictionaryAttr(place));
      }
      unit->setAttr(kStoragesAttr, builder.getArrayAttr(places));
    }
  }

  std::string summary(const StoragePlan& storages, const plan::Placement& placement, const RingPlan& rings) const {
    using base::formatBytes;
    return base::strCat("workspace ", formatBytes(placement.bytes), ", ", storages.resultsInPlace,
                        " results in place, ", storages.partsInPlace, " of ",
                        storages.partsInPlace + storages.partsCopied, " parts of concatenations too, ", rings.chained,
                        " results stay in SRAM, peak ", formatBytes(rings.bytes), " of ",
                        formatBytes(options_.sramBytes));
  }

  std::string report(const StoragePlan& storages, const plan::Placement& placement, const std::vector<size_t>& which,
                     const RingPlan& rings, const HbmNeeds& needs) const {
    using base::formatBytes;
    std::string text =
        base::strCat("HBM      ", formatBytes(needs.total()), " of ", formatBytes(options_.hbmBytes), ": weights ",
                     formatBytes(needs.weights), ", inputs ", formatBytes(needs.inputs), ", outputs ",
                     formatBytes(needs.outputs), ", workspace ", formatBytes(needs.workspace), "\n");
    text +=
        base::strCat("workspace ", placement.bytes, " bytes for ", which.size(), " buffers; alive together at most ",
                     placement.largestLiveSet, " (plan) and ", options_.largestLiveSetBytes, " (unfused graph)\n");
    text +=
        base::strCat("SRAM     ", formatBytes(rings.bytes), " of ", formatBytes(options_.sramBytes),
                     " for tiles of bundles and ", rings.chained, " results that their only reader takes from there\n");
    text +=
        base::strCat("shared   ", storages.resultsInPlace, " results take an operand's place; ", storages.partsInPlace,
                     " parts of concatenations written in place, ", storages.partsCopied, " copied\n");
    std::vector<std::string> lines;
    int64_t peak = peakStep(storages, which), shown = 0;
    std::vector<size_t> order(which.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    llvm::stable_sort(order, [&](size_t a, size_t b) {
      return storages.storages[which[a]].live.bytes > storages.storages[which[b]].live.bytes;
    });
    for (size_t i : order) {
      const Storage& storage = storages.storages[which[i]];
      if (storage.live.begin > peak || storage.live.end < peak) continue;
      shown += storage.live.bytes;
      lines.push_back(
          llvm::formatv(
              "  {0,10}  at {1,-11} steps {2,4}..{3,-4}  {4}{5}", formatBytes(storage.live.bytes), placement.offsets[i],
              storage.live.begin, storage.live.end, unitName(storage.members.front().getDefiningOp()),
              storage.members.size() > 1 ? llvm::formatv(" and {0} more", storage.members.size() - 1).str() : "")
              .str());
    }
    if (!lines.empty()) {
      std::string at = unitName(storages.units[peak]);
      text += base::strCat("most at  step ", peak, " of ", storages.units.size(), ", ", at, ": ", formatBytes(shown),
                           " in\n");
      append(text, lines);
    }
    lines.assign(rings.notes.begin(), rings.notes.end());
    // Copies are what could be better; in place is how it should be.
    for (const std::string& note : storages.notes)
      if (StringRef(note).starts_with("copied")) lines.push_back(note);
    append(text, lines);
    return text;
  }

  static void append(std::string& text, const std::vector<std::string>& lines) {
    for (size_t i = 0; i < std::min(lines.size(), kMostLines); ++i) text += lines[i] + "\n";
    if (lines.size() > kMostLines) text += base::strCat("  ... and ", lines.size() - kMostLines, " more\n");
  }

  static int64_t peakStep(const StoragePlan& storages, const std::vector<size_t>& which) {
    int64_t best = 0, most = -1;
    for (int64_t step = 0; step < static_cast<int64_t>(storages.units.size()); ++step) {
      int64_t alive = 0;
      for (size_t index : which) {
        const plan::Buffer& live = storages.storages[index].live;
        if (live.begin <= step && step <= live.end) alive += live.bytes;
      }
      if (alive > most) {
        most = alive;
        best = step;
      }
    }
    return best;
  }

  MemoryOptions options_;
};

}  // namespace

std::unique_ptr<Pass> createMemoryPass(MemoryOptions options) {
  return std::make_unique<MemoryPass>(options);
}

}  // namespace hpu::memory
