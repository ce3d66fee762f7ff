// SPDX-License-Identifier: Apache-2.0
// CompileOptions::specialize: variants of a recipe of free dimensions, each compiled for some of the sizes alone.
// The one thing to know: a variant is the very program that a compilation with these sizes gives; only its constants
// are moved to where the recipe has them.
#pragma once

#include "hpu/compiler.h"
#include "hpu/status.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace hpu::pipeline {

/// What can be found wrong with CompileOptions::specialize by itself. Errors: kInvalidArgument.
Status checkSpecialize(const CompileOptions& options);

/// Adds the variants of `options` to the recipe of `result`, which was compiled with the same options, and to its
/// statistics. `compileAlone` gets the options of each: sizes in the place of bounds, no variants, and nothing that the
/// compilation as a whole does (cache, dumps, reports). Errors: its, kInvalidArgument, kResourceExhausted (the device
/// has not enough memory for the constants of all).
Status addVariants(const CompileOptions& options,
                   llvm::function_ref<StatusOr<CompileResult>(const CompileOptions&)> compileAlone,
                   CompileResult& result);

}  // namespace hpu::pipeline
