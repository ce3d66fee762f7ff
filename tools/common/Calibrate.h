// SPDX-License-Identifier: Apache-2.0
// Calibrate: measures the ranges of a model's activations on data, for --precision=fp8.
#pragma once

#include <string>

#include "tools/common/CompileFlags.h"

namespace hpu::tools {

/// With --calibrate DIR: runs `model` in f32 on a simulated device over every data set of the folder and puts
/// the largest magnitudes into options.ranges; else does nothing. Free dimensions take the sizes of the first
/// data set. Errors: kInvalidArgument when the precision is not fp8, those of reading and running.
Status calibrateIfAsked(Tool& tool, const CompileFlags& flags, const std::string& model, CompileOptions& options);

/// calibrateIfAsked and compileWithProgress, which the first SIGINT, SIGTERM or SIGHUP ends soon (Interrupt, so none
/// may live at the time). Errors: theirs; kCancelled with the signal in `signal`, which is 0 otherwise.
StatusOr<CompileResult> compileInterruptibly(Tool& tool, const CompileFlags& flags, const std::string& model,
                                             CompileOptions& options, int& signal);

}  // namespace hpu::tools
