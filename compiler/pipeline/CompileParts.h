// SPDX-License-Identifier: Apache-2.0
// A model with loops and branches of the device becomes a program of parts (recipe/Parts.h).
// The one thing to know: a function is cut at its hpu.loop and hpu.if ops; what is between two of them, and each body,
// is a *piece* that goes through all phases by itself, as a model of its own; values that several pieces see lie in the
// holder's workspace, inputs and outputs.
#pragma once

#include "compiler/pipeline/Pipeline.h"

namespace hpu::pipeline {

/// The function has an op that makes it one.
bool hasFlow(mlir::ModuleOp module);

/// As runPipeline, of a module with flow. Reports, IR and dumps have those of each piece, one after the other. Errors:
/// runPipeline's; kUnimplemented (states; free dimensions), kInvalidArgument (startFrom a later phase).
StatusOr<CompileResult> compileParts(mlir::ModuleOp module, const CompileOptions& options,
                                     std::shared_ptr<const void> owner,
                                     std::vector<UnsupportedNode>* unsupported = nullptr);

}  // namespace hpu::pipeline
