// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/Drafting.h"

#include "base/StatusMacros.h"
#include "compiler/emit/Emit.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/kernels/KernelsPass.h"
#include "compiler/memory/Memory.h"
#include "compiler/support/Cancellation.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace hpu::pipeline {

Drafting::Drafting(Target target, const arch::TargetDesc& desc)
    : target_(target), desc_(desc), pricer_(std::make_unique<kernels::KernelPricer>()) {}
Drafting::~Drafting() = default;

StatusOr<schedule::Draft> Drafting::draft(sched::ProgramOp program) {
  std::lock_guard lock(mutex_);
  return price(program);
}

StatusOr<schedule::Draft> Drafting::price(sched::ProgramOp source) {
  std::shared_ptr<recipe::Program> program = emit::describeProgram(source, target_);
  schedule::Draft draft;
  size_t index = 0;
  for (auto op : source.getBody().getOps<sched::KernelOp>()) {
    if (support::isCancelled()) return support::cancelledStatus();
    HPU_ASSIGN(kernels::KernelFacts facts, pricer_->facts(kernels::requestOf(op)));
    recipe::Kernel& kernel = program->kernels[index++];
    kernel.cost = facts.cost;
    kernel.rank = facts.rank;
    kernel.wholeDims = facts.wholeDims;
    draft.reads.push_back(std::move(facts.reads));
  }
  for (Operation& op : source.getBody().front())
    if (auto unit = op.getAttrOfType<IntegerAttr>(schedule::kUnitAttr))
      draft.unitOf.push_back(static_cast<uint32_t>(unit.getInt()));
  draft.program = std::move(program);
  return draft;
}

StatusOr<schedule::Draft> Drafting::draft(func::FuncOp function) {
  std::lock_guard lock(mutex_);
  OwningOpRef<ModuleOp> module = ModuleOp::create(function.getLoc());
  func::FuncOp copy = function.clone();
  copy.setSymName("main");
  if (auto source = function->getParentOfType<ModuleOp>())
    for (llvm::StringRef name : {llvm::StringRef(ir::kSamplesAttr), llvm::StringRef(ir::kBoundsAttr)})
      if (Attribute value = source->getAttr(name)) module->getOperation()->setAttr(name, value);
  module->push_back(copy);
  memory::MemoryOptions memory;
  memory.reuse = false;
  memory.sramBytes = memory.hbmBytes = INT64_MAX;
  schedule::ScheduleOptions schedule;
  schedule.target = &desc_;
  schedule.descriptorsOnly = true;
  PassManager manager(module->getContext());
  manager.enableVerifier(false);
  manager.nest<func::FuncOp>().addPass(memory::createMemoryPass(memory));
  manager.addPass(schedule::createSchedulePass(schedule));
  ir::DiagnosticCapture diagnostics(module->getContext());
  if (failed(manager.run(*module))) return diagnostics.status(StatusCode::kInternal, "drafting the schedule");
  return price(module->lookupSymbol<sched::ProgramOp>("main"));
}

}  // namespace hpu::pipeline
