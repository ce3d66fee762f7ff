// SPDX-License-Identifier: Apache-2.0
// Modules in upstream's dialects tosa, linalg (on tensors), tensor, arith and math, to the hpu dialect.
// The one thing to know: every op that cannot be converted is in one Status, by its name and place, before anything
// else happens.
#pragma once

#include "compiler/import/Importer.h"

namespace hpu::importer {

/// Lets the parser load the dialects when a file uses them; nothing is loaded for other files.
void allowForeignDialects(mlir::MLIRContext& context);

/// Whether a function has ops of these dialects.
bool isForeign(mlir::ModuleOp module);

/// The module with one function `main` in the hpu dialect: of the function `main`, or of the only public one. Free
/// dimensions get names: those of the argument's attribute `hpu.dims` (an array of strings), else "input0_dim1".
/// Errors: kUnimplemented (ops that are not supported), kInvalidArgument.
StatusOr<OwningModule> convertForeignModule(mlir::ModuleOp source, const std::string& path);

/// The table of the docs: each op that is converted, and its limits.
std::string foreignOpsDocument();

}  // namespace hpu::importer
