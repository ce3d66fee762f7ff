// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/RegisterPasses.h"

#include "arch/TargetDesc.h"
#include "compiler/fuse/Fuse.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/kernels/KernelsPass.h"
#include "compiler/layout/Layout.h"
#include "compiler/memory/Memory.h"
#include "compiler/pipeline/Drafting.h"
#include "compiler/schedule/Schedule.h"
#include "compiler/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace hpu::pipeline {
namespace {

struct PhaseOptions : PassPipelineOptions<PhaseOptions> {
  Option<std::string> target{*this, "target", llvm::cl::desc("gaudi1, gaudi2 or gaudi3"), llvm::cl::init("gaudi2")};
  Option<bool> optimize{*this, "optimize", llvm::cl::desc("false: as -O0 does"), llvm::cl::init(true)};

  /// Null, after saying what is wrong, when there is no such target.
  const arch::TargetDesc* desc() const {
    StatusOr<Target> parsed = parseTarget(target);
    if (parsed.ok()) return &arch::targetDesc(*parsed);
    llvm::errs() << parsed.status().message() << "\n";
    return nullptr;
  }
  std::shared_ptr<Drafting> drafting() const { return std::make_shared<Drafting>(*parseTarget(target), *desc()); }
};

/// Fails, so that a wrong target is an error of the pass that asked for it.
class WrongTargetPass : public PassWrapper<WrongTargetPass, OperationPass<>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WrongTargetPass)
  void runOnOperation() override {
    getOperation()->emitError("the target of the phase is unknown");
    signalPassFailure();
  }
};

using Build = void (*)(OpPassManager&, const PhaseOptions&, const arch::TargetDesc&);

void add(const char* name, const char* text, Build build) {
  // The registry keeps pipelines for the life of the process.
  PassPipelineRegistration<PhaseOptions>(name, text, [build](OpPassManager& manager, const PhaseOptions& options) {
    if (const arch::TargetDesc* target = options.desc())
      build(manager, options, *target);
    else
      manager.addPass(std::make_unique<WrongTargetPass>());
  });
}

}  // namespace

/// Each phase checks first that its input is what the phases ahead of it leave: IR that somebody wrote may be anything.
void registerPhasePasses() {
  using Options = const PhaseOptions&;
  using Desc = const arch::TargetDesc&;
  using Manager = OpPassManager&;
  add("hpu-fuse", "Phase fuse: groups ops into bundles and clusters", [](Manager m, Options options, Desc) {
    fuse::FuseOptions fuse;
    fuse.group = options.optimize;
    fuse.canFormKernel = [](ArrayRef<Operation*> ops, std::string* why) { return kernels::canFormKernel(ops, why); };
    m.nest<func::FuncOp>().addPass(fuse::createFusePass(fuse));
  });
  add("hpu-split-reductions", "Reductions of much to little in two steps",
      [](Manager m, Options, Desc) { m.nest<func::FuncOp>().addPass(fuse::createSplitReductionsPass()); });
  add("hpu-split-orders", "The first of few long rows from the first of their parts",
      [](Manager m, Options, Desc desc) { m.nest<func::FuncOp>().addPass(fuse::createSplitOrdersPass(desc.numTpcs)); });
  add("hpu-verify-fused", "Post-condition of fuse",
      [](Manager m, Options, Desc) { m.nest<func::FuncOp>().addPass(fuse::createVerifyFusedPass()); });
  add("hpu-layout", "Phase layout: physical orders and the copies that remain", [](Manager m, Options options, Desc) {
    layout::LayoutOptions layout;
    layout.optimize = options.optimize;
    m.nest<func::FuncOp>().addPass(fuse::createVerifyFusedPass());
    m.nest<func::FuncOp>().addPass(layout::createLayoutPass(layout));
  });
  add("hpu-verify-layout", "Post-condition of layout",
      [](Manager m, Options, Desc) { m.nest<func::FuncOp>().addPass(layout::createVerifyLayoutPass()); });
  add("hpu-tile", "Phase tile: cuts bundles into pipelined slices", [](Manager m, Options options, Desc target) {
    tile::TileOptions tile;
    tile.slice = options.optimize;
    tile.target = &target;
    tile.draft = [drafting = options.drafting()](func::FuncOp function) { return drafting->draft(function); };
    m.nest<func::FuncOp>().addPass(fuse::createVerifyFusedPass());
    m.nest<func::FuncOp>().addPass(tile::createTilePass(tile));
  });
  add("hpu-verify-tile", "Post-condition of tile",
      [](Manager m, Options, Desc target) { m.nest<func::FuncOp>().addPass(tile::createVerifyTilePass(&target)); });
  add("hpu-memory", "Phase memory: addresses in HBM and SRAM", [](Manager m, Options options, Desc target) {
    memory::MemoryOptions memory;
    memory.reuse = options.optimize;
    memory.sramBytes = target.sramBytes;
    memory.hbmBytes = target.hbmBytes;
    m.nest<func::FuncOp>().addPass(fuse::createVerifyFusedPass());
    m.nest<func::FuncOp>().addPass(layout::createVerifyLayoutPass());
    m.nest<func::FuncOp>().addPass(memory::createMemoryPass(memory));
  });
  add("hpu-verify-memory", "Post-condition of memory", [](Manager m, Options, Desc target) {
    m.nest<func::FuncOp>().addPass(memory::createVerifyMemoryPass(target.sramBytes));
  });
  add("hpu-schedule", "Phase schedule: engine queues with signals and waits",
      [](Manager m, Options options, Desc target) {
        schedule::ScheduleOptions schedule;
        schedule.target = &target;
        schedule.reorder = options.optimize;
        schedule.draft = [drafting = options.drafting()](sched::ProgramOp program) { return drafting->draft(program); };
        m.nest<func::FuncOp>().addPass(fuse::createVerifyFusedPass());
        m.nest<func::FuncOp>().addPass(layout::createVerifyLayoutPass());
        m.nest<func::FuncOp>().addPass(memory::createVerifyMemoryPass(target.sramBytes));
        m.addPass(schedule::createSchedulePass(schedule));
      });
  add("hpu-verify-schedule", "Post-condition of schedule",
      [](Manager m, Options, Desc) { m.addPass(schedule::createVerifySchedulePass()); });
  registerPass([] { return kernels::createKernelIrPass(); });
}

}  // namespace hpu::pipeline
