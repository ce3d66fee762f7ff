// SPDX-License-Identifier: Apache-2.0
// hpu-opt: MLIR's pass driver with OpenHPU's dialects and passes.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/sched/SchedOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tools/hpu-opt/RegisterPasses.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<hpu::ir::HpuDialect, hpu::sched::SchedDialect>();
  mlir::registerAllPasses();
  hpu::registerHpuPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "OpenHPU pass driver\n", registry));
}
