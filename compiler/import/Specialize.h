// SPDX-License-Identifier: Apache-2.0
// Gives the free dimensions of an imported or built module their sizes.
// The one thing to know: it works on modules before `fuse`: plain ops whose types can be inferred again.
#pragma once

#include "compiler/import/Importer.h"

namespace hpu::importer {

/// Replaces free dimensions of @main by the sizes of `options` (by input name, or by the name of the
/// dimension) and infers all types again. Dimensions without a size stay free. Errors: kInvalidArgument
/// (an unknown name, sizes that contradict each other or the module, an op that does not fit; the
/// message names the node); the module is then broken and must be dropped.
Status specializeModule(mlir::ModuleOp module, const ImportOptions& options);

/// Whether the sizes of `options` are those of @main, as far as they are fixed: specializeModule without giving any,
/// for a module of any phase. Errors: kInvalidArgument, naming the input, its dimension and both sizes.
Status checkSizes(mlir::ModuleOp module, const ImportOptions& options);

}  // namespace hpu::importer
