// SPDX-License-Identifier: Apache-2.0
// Random models through fuse, layout, tile, memory and schedule: every verifier holds, and what the units compute
// from the addresses they were given is bit for bit what the model computes.
#include <gtest/gtest.h>

#include <cstring>

#include "arch/TargetDesc.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/fuse/Fuse.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/layout/Chains.h"
#include "compiler/layout/Layout.h"
#include "compiler/memory/Memory.h"
#include "compiler/pipeline/Drafting.h"
#include "compiler/schedule/Schedule.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/tile/Tile.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "tests/unit/compiler/fuse/RandomGraph.h"

using namespace mlir;

namespace hpu {
namespace {

const arch::TargetDesc& target() {
  return arch::targetDesc(Target::kGaudi2);
}

/// Kernels are priced once for all models.
pipeline::Drafting& drafting() {
  static pipeline::Drafting drafting(Target::kGaudi2, target());
  return drafting;
}

std::string text(ModuleOp module) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  module.print(stream);
  return result;
}

/// Refuses what the kernel compiler does, and a share of the other kernels by nothing that the phase could foresee.
fuse::FuseOptions fuseOptions(unsigned seed, bool group) {
  fuse::FuseOptions options;
  options.group = group;
  options.canFormKernel = [seed](ArrayRef<Operation*> ops, std::string* why) {
    if (why) *why = "the test refuses it";
    if (ops.size() >= 2 && (seed + ops.size() * 7) % 5 == 0) return false;
    return kernels::canFormKernel(ops, why);
  };
  return options;
}

Status runPhases(ModuleOp module, unsigned seed, bool optimize) {
  ir::DiagnosticCapture diagnostics(module.getContext());
  PassManager manager(module.getContext());
  OpPassManager& functions = manager.nest<func::FuncOp>();
  functions.addPass(fuse::createFusePass(fuseOptions(seed, optimize)));
  functions.addPass(fuse::createVerifyFusedPass());
  layout::LayoutOptions layout;
  layout.optimize = optimize;
  functions.addPass(layout::createLayoutPass(layout));
  functions.addPass(layout::createVerifyLayoutPass());
  tile::TileOptions tile;
  tile.slice = optimize;
  tile.target = &target();
  tile.draft = [](func::FuncOp function) { return drafting().draft(function); };
  functions.addPass(tile::createTilePass(tile));
  functions.addPass(tile::createVerifyTilePass(&target()));
  memory::MemoryOptions memory;
  memory.reuse = optimize;
  memory.sramBytes = target().sramBytes;
  memory.hbmBytes = target().hbmBytes;
  functions.addPass(memory::createMemoryPass(memory));
  functions.addPass(memory::createVerifyMemoryPass(target().sramBytes));
  if (failed(manager.run(module))) return diagnostics.status(StatusCode::kInternal, "phases");
  return okStatus();
}

Status schedule(ModuleOp module, bool optimize) {
  ir::DiagnosticCapture diagnostics(module.getContext());
  PassManager manager(module.getContext());
  schedule::ScheduleOptions options;
  options.target = &target();
  options.draft = [](sched::ProgramOp program) { return drafting().draft(program); };
  options.reorder = optimize;
  manager.addPass(schedule::createSchedulePass(options));
  manager.addPass(schedule::createVerifySchedulePass());
  return failed(manager.run(module)) ? diagnostics.status(StatusCode::kInternal, "schedule") : okStatus();
}

int64_t countUnits(ModuleOp module, bool withSeveralOps) {
  int64_t count = 0;
  module.walk([&](Operation* op) {
    if (isa<ir::BundleOp, ir::ClusterOp>(op))
      count += !withSeveralOps || !llvm::hasSingleElement(op->getRegion(0).front().without_terminator());
  });
  return count;
}

/// Units whose result lies in a larger buffer, or where one of their operands lies, or in SRAM.
struct Shared {
  int64_t windows = 0, replaced = 0, chained = 0;
};
void countShared(func::FuncOp function, Shared& shared) {
  for (Operation& op : function.getBody().front()) {
    if (!isa<ir::BundleOp, ir::ClusterOp>(op)) continue;
    if (ir::chainOf(&op)) {
      ++shared.chained;
      continue;
    }
    shared.windows += op.hasAttr(ir::kStridesAttr);
    std::optional<memory::Location> result = memory::locate(op.getResult(0));
    shared.replaced += llvm::any_of(op.getOperands(), [&](Value operand) {
      std::optional<memory::Location> place = memory::locate(operand);
      return place && place->section == result->section && place->offset == result->offset;
    });
  }
}

class Phases : public testing::TestWithParam<bool> {};

TEST_P(Phases, KeepEveryBitOfRandomModels) {
  bool optimize = GetParam();
  int64_t fused = 0, units = 0;
  Shared shared;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MLIRContext context(MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = test::randomModule(context, seed, 3 + seed % 30);
    std::string source = text(*module);
    auto function = module->lookupSymbol<func::FuncOp>("main");
    std::vector<interp::Tensor> inputs = test::randomInputs(function, seed);
    StatusOr<std::vector<interp::Tensor>> expected = interp::evaluateFunction(function, inputs);
    ASSERT_TRUE(expected.ok()) << expected.status().message() << "\n" << source;

    Status phases = runPhases(*module, seed, optimize);
    ASSERT_TRUE(phases.ok()) << phases.message() << "\n" << source << "\n" << text(*module);
    fused += countUnits(*module, true);
    units += countUnits(*module, false);
    countShared(function, shared);
    StatusOr<std::vector<interp::Tensor>> actual = test::runByAddress(function, inputs);
    ASSERT_TRUE(actual.ok()) << actual.status().message() << "\n" << source << "\n" << text(*module);
    ASSERT_EQ(actual->size(), expected->size());
    for (size_t i = 0; i < expected->size(); ++i)
      ASSERT_EQ(std::memcmp((*actual)[i].data(), (*expected)[i].data(), (*expected)[i].bytes()), 0)
          << "output " << i << "\n"
          << source << "\n"
          << text(*module);

    Status scheduled = schedule(*module, optimize);
    ASSERT_TRUE(scheduled.ok()) << scheduled.message() << "\n" << source;
  }
  EXPECT_GT(units, 1000);
  if (optimize) {
    EXPECT_GT(fused, 300);
    EXPECT_GT(shared.windows, 50);
    EXPECT_GT(shared.replaced, 60);
    EXPECT_GT(shared.chained, 200);
  } else {
    EXPECT_EQ(fused + shared.windows + shared.replaced + shared.chained, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimized, Phases, testing::Bool(),
                         [](const auto& info) { return info.param ? "yes" : "no"; });

}  // namespace
}  // namespace hpu
