// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/LateSizes.h"

#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/emit/Dynamic.h"
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

Status LateSizes::begin(ModuleOp module, Phase first) {
  if (!module->hasAttr(ir::kSamplesAttr)) return okStatus();
  // What operands ask of each other is found before any phase changes them.
  if (first > Phase::k_normalize)
    return unimplemented("IR whose dimensions are given late cannot be gone on with (" + base::optionName("startFrom") +
                         "); compile the model in one go");
  HPU_ASSIGN(guards_, importer::sizeGuards(module));
  HPU_RETURN_IF_ERROR(importer::unifySizes(module, guards_));
  HPU_ASSIGN(samples_, importer::sampleSizes(module, guards_));
  return okStatus();
}

StatusOr<OwningOpRef<ModuleOp>> LateSizes::sized(ModuleOp module) const {
  OwningOpRef<ModuleOp> copy = module.clone();
  HPU_RETURN_IF_ERROR(importer::rebindModule(*copy, samples_));
  return std::move(copy);
}

LateSizes::Slices LateSizes::slicesOf(ModuleOp module) {
  Slices slices;
  for (Operation& op : module.lookupSymbol<func::FuncOp>("main").getBody().front()) {
    if (!ir::isUnit(&op)) continue;
    slices.emplace_back();
    auto tile = op.getAttrOfType<ir::TileAttr>("tile");
    const ArrayRef<int64_t> space = ir::tensorOf(op.getResult(0)).getShape();
    for (size_t d = 0; tile && d < tile.getSizes().size(); ++d)
      slices.back().push_back((space[d] + tile.getSizes()[d] - 1) / std::max<int64_t>(tile.getSizes()[d], 1));
  }
  return slices;
}

Status LateSizes::bind(ModuleOp module, llvm::function_ref<void(OpPassManager&)> addTile) {
  smaller_.clear();
  for (const Sizes& sizes : importer::smallerSamples(module, guards_, samples_)) {
    OwningOpRef<ModuleOp> other = module.clone();
    if (!importer::rebindModule(*other, sizes).ok()) continue;  // Something would be empty.
    PassManager manager(module.getContext());
    manager.enableVerifier(false);
    addTile(manager.nest<func::FuncOp>());
    ir::DiagnosticCapture diagnostics(module.getContext());
    if (failed(manager.run(*other))) return diagnostics.status(StatusCode::kInternal, "phase tile");
    smaller_.emplace_back(sizes, slicesOf(*other));
  }
  return importer::rebindModule(module, samples_);
}

void LateSizes::recordTiles(ModuleOp module) const {
  SmallVector<Operation*> units;
  for (Operation& op : module.lookupSymbol<func::FuncOp>("main").getBody().front())
    if (ir::isUnit(&op)) units.push_back(&op);
  Builder b(module.getContext());
  SmallVector<mlir::Attribute> choices;
  std::vector<SmallVector<mlir::Attribute>> tiles(units.size());
  for (const auto& [sizes, slices] : smaller_) {
    // Where a product could not be tiled for one of them, there are other units.
    if (slices.size() != units.size()) continue;
    SmallVector<NamedAttribute> own;
    for (const auto& [name, size] : sizes) own.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(size)));
    choices.push_back(b.getDictionaryAttr(own));
    for (auto [unit, along] : llvm::zip(tiles, slices)) unit.push_back(b.getDenseI64ArrayAttr(along));
  }
  module->setAttr(schedule::kChoicesAttr, b.getArrayAttr(choices));
  for (auto [unit, own] : llvm::zip(units, tiles)) unit->setAttr(schedule::kTileChoicesAttr, b.getArrayAttr(own));
}

Status LateSizes::complete(ModuleOp module, const arch::TargetDesc& target, recipe::Program& program) const {
  auto source = module.lookupSymbol<sched::ProgramOp>("main");
  HPU_ASSIGN(program.dynamic, emit::dynamicOf({source, guards_, kernels, options_.optLevel >= 2}, program));
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
