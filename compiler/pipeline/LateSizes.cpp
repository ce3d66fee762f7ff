// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/LateSizes.h"

#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/emit/Dynamic.h"
#include "compiler/layout/Chains.h"
#include "compiler/schedule/Schedule.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"
#include "plan/Instantiate.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/ScheduleChecker.h"

using namespace mlir;

namespace hpu::pipeline {
namespace {

/// On units, while the phase tile runs: their numbers in the order that they had before it.
constexpr const char* kNumberAttr = "hpu.number";

SmallVector<Operation*> unitsOf(ModuleOp module) {
  SmallVector<Operation*> units;
  for (Operation& op : module.lookupSymbol<func::FuncOp>("main").getBody().front())
    if (ir::isUnit(&op)) units.push_back(&op);
  return units;
}

size_t numberOf(Operation* unit) {
  return static_cast<size_t>(unit->getAttrOfType<IntegerAttr>(kNumberAttr).getInt());
}

/// Units that take turns are cut along one dimension each, `mains` say which, into as many slices. Where smaller sizes
/// would not have them take turns, into the most that one of them would be cut into along it.
void cutAlike(ArrayRef<SmallVector<int64_t>> mains, MutableArrayRef<SmallVector<int64_t>> chosen) {
  int64_t count = 1;
  for (const auto& [main, own] : llvm::zip(mains, chosen)) {
    bool along = true;
    int64_t slices = 1;
    for (const auto& [ours, theirs] : llvm::zip(main, own)) {
      along &= ours > 1 || theirs == 1;
      slices *= theirs;
    }
    if (along) count = std::max(count, slices);
  }
  for (auto [main, own] : llvm::zip(mains, chosen)) {
    own.clear();
    for (int64_t ours : main) own.push_back(ours > 1 ? count : 1);
  }
}

/// The same where the first of them is cut along another dimension than at the sizes that they are chosen for: each
/// along the one that follows. False where it is not, or one cannot follow.
bool cutAcross(ArrayRef<Operation*> units, ArrayRef<SmallVector<int64_t>> mains,
               MutableArrayRef<SmallVector<int64_t>> chosen) {
  const SmallVector<int64_t>& head = chosen.front();
  const auto* cut = llvm::find_if(head, [](int64_t slices) { return slices > 1; });
  if (cut == head.end()) return false;
  SmallVector<int64_t> dims = {cut - head.begin()};
  if (static_cast<size_t>(dims[0]) < mains.front().size() && mains.front()[dims[0]] > 1) return false;
  for (size_t u = 1; u < units.size(); ++u) {
    const std::optional<int64_t> next = ir::followingDim(units[u - 1], dims.back(), units[u]);
    if (!next) return false;
    dims.push_back(*next);
  }
  const int64_t count = *cut;
  for (auto [unit, dim, own] : llvm::zip(units, dims, chosen)) {
    own.assign(static_cast<size_t>(ir::tensorOf(unit->getResult(0)).getRank()), 1);
    own[dim] = count;
  }
  return true;
}

double productOf(const std::map<std::string, int64_t>& sizes) {
  double product = 1;
  for (const auto& [name, size] : sizes) product *= static_cast<double>(std::max<int64_t>(size, 1));
  return product;
}

}  // namespace

Status LateSizes::begin(ModuleOp module, Phase first) {
  if (!module->hasAttr(ir::kSamplesAttr)) return okStatus();
  // What operands ask of each other is found before any phase changes them.
  if (first > Phase::k_normalize)
    return unimplemented("IR whose dimensions are given late cannot be gone on with (" + base::optionName("startFrom") +
                         "); compile the model in one go");
  HPU_ASSIGN(guards_, importer::sizeGuards(module));
  HPU_RETURN_IF_ERROR(importer::unifySizes(module, guards_));
  HPU_ASSIGN(largest_, importer::sampleSizes(module, guards_));
  samples_ = importer::middleSizes(module, guards_, largest_);
  return okStatus();
}

StatusOr<OwningOpRef<ModuleOp>> LateSizes::sized(ModuleOp module) const {
  OwningOpRef<ModuleOp> copy = module.clone();
  HPU_RETURN_IF_ERROR(importer::rebindModule(*copy, samples_));
  return copy;
}

LateSizes::Slices LateSizes::slicesOf(ModuleOp module) const {
  Slices slices(units_);
  size_t found = 0;
  for (Operation* unit : unitsOf(module)) {
    auto number = unit->getAttrOfType<IntegerAttr>(kNumberAttr);
    if (!number) return {};  // A product could not be tiled, and is a unit of its own now.
    SmallVector<int64_t>& own = slices[static_cast<size_t>(number.getInt())];
    auto tile = unit->getAttrOfType<ir::TileAttr>("tile");
    const ArrayRef<int64_t> space = ir::tensorOf(unit->getResult(0)).getShape();
    for (size_t d = 0; tile && d < tile.getSizes().size(); ++d)
      own.push_back((space[d] + tile.getSizes()[d] - 1) / std::max<int64_t>(tile.getSizes()[d], 1));
    ++found;
  }
  return found == units_ ? slices : Slices();
}

Status LateSizes::bind(ModuleOp module, llvm::function_ref<void(OpPassManager&)> addTile) {
  others_.clear();
  // Chains move units, and not the same ones for all sizes.
  Builder b(module.getContext());
  units_ = 0;
  for (Operation* unit : unitsOf(module))
    unit->setAttr(kNumberAttr, b.getI64IntegerAttr(static_cast<int64_t>(units_++)));
  std::vector<Sizes> all = importer::smallerSamples(module, guards_, largest_);
  all.push_back(largest_);
  for (const Sizes& sizes : all) {
    if (sizes == samples_) continue;
    OwningOpRef<ModuleOp> other = module.clone();
    if (!importer::rebindModule(*other, sizes).ok()) continue;  // Something would be empty.
    PassManager manager(module.getContext());
    manager.enableVerifier(false);
    addTile(manager.nest<func::FuncOp>());
    ir::DiagnosticCapture diagnostics(module.getContext());
    if (failed(manager.run(*other))) return diagnostics.status(StatusCode::kInternal, "phase tile");
    others_.emplace_back(sizes, slicesOf(*other));
  }
  return importer::rebindModule(module, samples_);
}

void LateSizes::recordTiles(ModuleOp module) const {
  const SmallVector<Operation*> units = unitsOf(module);
  Builder b(module.getContext());
  const Slices own = slicesOf(module);
  SmallVector<mlir::Attribute> choices;
  std::vector<SmallVector<mlir::Attribute>> tiles(units.size());
  std::vector<std::pair<Sizes, Slices>> all = others_;
  all.insert(llvm::find_if(all, [&](const auto& each) { return productOf(each.first) >= productOf(samples_); }),
             {samples_, own});
  llvm::erase_if(all, [&](const auto& each) { return own.empty() || each.second.empty(); });
  for (const auto& [sizes, slices] : all) {
    SmallVector<NamedAttribute> named;
    for (const auto& [name, size] : sizes) named.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(size)));
    choices.push_back(b.getDictionaryAttr(named));
    const bool isLast = choices.size() == all.size();
    std::vector<SmallVector<int64_t>> chosen;
    for (Operation* unit : units) chosen.push_back(slices[numberOf(unit)]);
    for (size_t first = 0, behind; first < units.size(); first = behind) {
      for (behind = first + 1; behind < units.size(); ++behind) {
        const std::optional<ir::ChainLink> link = ir::chainOf(units[behind - 1]);
        if (!link || !link->interleaved()) break;
      }
      if (behind == first + 1) continue;
      SmallVector<SmallVector<int64_t>> mains;
      for (size_t u = first; u < behind; ++u) mains.push_back(own[numberOf(units[u])]);
      const size_t count = behind - first;
      const MutableArrayRef<SmallVector<int64_t>> turns = MutableArrayRef(chosen).slice(first, count);
      // The last choice is for all sizes, also for those at which results do not fit into SRAM as a whole.
      if (isLast || !cutAcross(ArrayRef(units).slice(first, count), mains, turns)) cutAlike(mains, turns);
    }
    for (auto [unit, along] : llvm::zip(tiles, chosen)) unit.push_back(b.getDenseI64ArrayAttr(along));
  }
  module->setAttr(schedule::kChoicesAttr, b.getArrayAttr(choices));
  for (auto [unit, attributes] : llvm::zip(units, tiles)) {
    unit->setAttr(schedule::kTileChoicesAttr, b.getArrayAttr(attributes));
    unit->removeAttr(kNumberAttr);
  }
}

namespace {

/// What a recipe can have, and a model of thousands of layers may go beyond.
Status checkLimits(const recipe::Dynamic& dynamic) {
  struct Limit {
    std::string_view what;
    size_t count, most;
  };
  for (const Limit& limit : {Limit{"results in SRAM", dynamic.tiles.size(), recipe::kMaxTileStorages},
                             Limit{"results in the workspace", dynamic.storages.size(), recipe::kMaxStorages},
                             Limit{"expressions of sizes", dynamic.exprs.size(), recipe::kMaxSizeExprs}})
    if (limit.count > limit.most)
      return resourceExhausted(base::strCat("the model is too large for one recipe of free dimensions: it has ",
                                            limit.count, " ", limit.what, ", and a recipe ", limit.most,
                                            " at most; give all dimensions sizes (--dim NAME=SIZE), or cut it in two"));
  return okStatus();
}

}  // namespace

Status LateSizes::complete(ModuleOp module, const arch::TargetDesc& target, recipe::Program& program) const {
  auto source = module.lookupSymbol<sched::ProgramOp>("main");
  HPU_ASSIGN(program.dynamic, emit::dynamicOf({source, guards_, kernels, options_.optLevel >= 2}, program));
  HPU_RETURN_IF_ERROR(checkLimits(*program.dynamic));
  auto checked = [](Status status) {
    return status.ok() ? status : internalError("the compiled program does not verify: " + status.message());
  };
  HPU_RETURN_IF_ERROR(checked(recipe::verifyProgram(program)));
  if (!options_.checkSchedule) return okStatus();
  const recipe::Sizes sample = recipe::sampleSizes(*program.dynamic);
  recipe::Sizes least;
  Sizes named;
  for (const recipe::Symbol& symbol : program.dynamic->symbols) {
    least.push_back(symbol.min);
    named[symbol.name] = symbol.min;
  }
  std::vector<recipe::Sizes> tried = {sample};
  if (llvm::all_of(guards_, [&](const importer::SizeGuard& guard) { return importer::holds(guard, named); }))
    tried.push_back(std::move(least));
  for (const recipe::Sizes& sizes : tried) {
    StatusOr<std::shared_ptr<recipe::Program>> instance = plan::instantiate(program, sizes, target);
    if (!instance.ok()) return checked(instance.status());
    const recipe::KernelReads reads = plan::kernelReads(program, sizes, **instance);
    HPU_RETURN_IF_ERROR(checked(recipe::checkSchedule(**instance, &reads)));
  }
  return okStatus();
}

}  // namespace hpu::pipeline
