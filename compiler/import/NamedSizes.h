// SPDX-License-Identifier: Apache-2.0
// Sizes that are given late: a module whose free dimensions have *representatives*, sizes that the phases work with,
// and names, from which the sizes of a launch follow. The one thing to know: every type has both, so a phase that
// compares or multiplies sizes is right for all sizes when it would be for these. Representatives are chosen for that:
// large primes that no other number of the model is a multiple of, so that two sizes that agree are the same size, and
// the name of a size that a phase has computed is found again by its number.
#pragma once

#include <map>
#include <string>

#include "compiler/import/Importer.h"
#include "hpu/status.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shape/DimExpr.h"

namespace hpu::importer {

/// Gives `options.dims` and `options.shapes` to the module, and all other free dimensions representatives, and bounds
/// (from 1 where none are given). Errors: as
/// specializeModule, and kInvalidArgument when there are no sizes at which the model's operands fit together.
Status representModule(mlir::ModuleOp module, const ImportOptions& options,
                       const std::map<std::string, DimBounds>& bounds);

/// Sizes of free dimensions as an attribute of the module (ir::kSamplesAttr).
mlir::DictionaryAttr samplesAttr(mlir::MLIRContext* context, const std::map<std::string, int64_t>& samples);

/// Gives every value of a module with representatives the names of its sizes again, as they follow from those of the
/// arguments: phases make ops and types without. A module without representatives is left as it is. Errors: kInternal
/// for a size that depends on a representative and has no name. `fromPhase`: guards are known, and reshapes without
/// names may be a phase's own, which parts a dimension as another value is parted; before, a number is the model's.
Status nameSizes(mlir::ModuleOp module, bool fromPhase = true);

/// What must hold between sizes of a launch so that the model's operands fit together, as far as names do not say it.
struct SizeGuard {
  bool isEqual = true;  ///< left == right; else left <= right.
  shape::DimExpr left, right;
  std::string text;  ///< Who asks for it.
};
/// Whether it does for these sizes.
bool holds(const SizeGuard& guard, const shape::SymbolBindings& sizes);
/// Of a module that representModule has made, before other phases change it. Errors: kInternal for a relation without
/// an expression.
StatusOr<std::vector<SizeGuard>> sizeGuards(mlir::ModuleOp module);

/// Sizes that guards say to be equal get one name, the shorter one, from now on. Errors: as nameSizes.
Status unifySizes(mlir::ModuleOp module, const std::vector<SizeGuard>& guards);

/// Sizes within the bounds (of all symbols of the module) at which all guards hold, large ones: the largest, or near
/// 1024 where nothing bounds them. Errors: kInvalidArgument naming the first guard that fails.
StatusOr<std::map<std::string, int64_t>> sampleSizes(mlir::ModuleOp module, const std::vector<SizeGuard>& guards);

/// Half of `largest`, as guards and bounds allow: what is not chosen anew for each launch, such as which units are
/// chained, is chosen for these, as most launches are of sizes between. `largest` where something would be empty.
std::map<std::string, int64_t> middleSizes(mlir::ModuleOp module, const std::vector<SizeGuard>& guards,
                                           const std::map<std::string, int64_t>& largest);

/// Smaller sizes for which choices differ, a few: all dimensions at a quarter and at three fifths of `samples`, and
/// each alone at a quarter, as guards and bounds allow. By rising product; none equals another one or `samples`.
std::vector<std::map<std::string, int64_t>> smallerSamples(mlir::ModuleOp module, const std::vector<SizeGuard>& guards,
                                                           const std::map<std::string, int64_t>& samples);

/// Gives other sizes to the dimensions that are given late: what is chosen from now on is for these. Guards must hold.
/// Names cannot be found by number any more. Errors: kInvalidArgument when a size would be negative.
Status rebindModule(mlir::ModuleOp module, const std::map<std::string, int64_t>& samples);

}  // namespace hpu::importer
