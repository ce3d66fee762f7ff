// SPDX-License-Identifier: Apache-2.0
// The phase tile: cuts units into slices, so that the engines work on neighbouring slices at a time.
#pragma once

#include <memory>
#include <string>

#include "compiler/schedule/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::tile {

struct TileOptions {
  bool slice = true;  ///< false: one slice a unit, unless SRAM needs more (-O0, -O1).
  const arch::TargetDesc* target = nullptr;
  /// The descriptors of a function's units, not cut, and what their kernels cost.
  std::function<StatusOr<schedule::Draft>(mlir::func::FuncOp)> draft;
  int64_t effort = 100;  ///< How long to search: percent of the budget of SearchOptions.
  std::string* report = nullptr;
  std::string* summary = nullptr;
};

std::unique_ptr<mlir::Pass> createTilePass(TileOptions options);
/// Post-condition: tiles cut at most one dimension; every bundle with TPC ops has one, and each of its two
/// slots fits into a quarter of the SRAM.
std::unique_ptr<mlir::Pass> createVerifyTilePass(const arch::TargetDesc* target);

}  // namespace hpu::tile
