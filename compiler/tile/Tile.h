// SPDX-License-Identifier: Apache-2.0
// The phase tile: cuts bundles into slices, so that MME and TPC work on neighbouring slices at a time.
#pragma once

#include <memory>
#include <string>

#include "arch/TargetDesc.h"

namespace mlir {
class Pass;
}

namespace hpu::tile {

struct TileOptions {
  bool slice = true;  ///< false: one slice a unit, unless SRAM needs more (-O0, -O1).
  const arch::TargetDesc* target = nullptr;
  std::string* report = nullptr;
  std::string* summary = nullptr;
};

std::unique_ptr<mlir::Pass> createTilePass(TileOptions options);
/// Post-condition: every bundle with TPC ops has a tile that cuts at most one dimension and whose two
/// slots fit into a quarter of the SRAM each.
std::unique_ptr<mlir::Pass> createVerifyTilePass(const arch::TargetDesc* target);

}  // namespace hpu::tile
