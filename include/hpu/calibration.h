// SPDX-License-Identifier: Apache-2.0
// Calibration for fp8: the program that finds CompileOptions::ranges of a model.
// The one thing to know: run it on typical data; the largest value of each output over all of it is a range, by the
// output's name. A NaN among them is an error of the data: std::max would drop it, and the range would be 0.
//
//   HPU_ASSIGN(hpu::CompileResult watching, hpu::compileCalibration("model.onnx", options));
//   ... run watching.recipe on each sample, and for each output:
//   if (!std::isfinite(value)) return hpu::invalidArgument("no range of '" + name + "' in this sample");
//   options.ranges[name] = std::max(options.ranges[name], value);
//   HPU_ASSIGN(hpu::CompileResult result, hpu::compileFile("model.onnx", options));
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hpu/compiler.h"

namespace hpu {

/// Compiles calibrationGraph() of a model file for f32, whatever precision the options have; the outputs are single f32
/// numbers. Of the options those count that say what the model is and how it is compiled: reports, dumps, the cache and
/// partial runs are compileFile's alone. Errors: those of importing, calibrationGraph and compile; `unsupported` as of
/// importOnnx.
HPU_API StatusOr<CompileResult> compileCalibration(const std::string& path, const CompileOptions& options,
                                                   size_t optionsBytes, std::vector<UnsupportedNode>* unsupported);
inline StatusOr<CompileResult> compileCalibration(const std::string& path, const CompileOptions& options = {},
                                                  std::vector<UnsupportedNode>* unsupported = nullptr) {
  return compileCalibration(path, options, sizeof(CompileOptions), unsupported);
}

}  // namespace hpu
