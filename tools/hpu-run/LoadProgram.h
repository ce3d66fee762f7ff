// SPDX-License-Identifier: Apache-2.0
// The program that hpu-run runs: a recipe from a file, or a model that is compiled first. One
// header, two implementations: with the compiler, and without it (a build without LLVM).
#pragma once

#include <string>
#include <vector>

#include "hpu/recipe.h"
#include "tools/common/Cli.h"
#include "tools/common/CompileFlags.h"
#include "tools/common/Inputs.h"

namespace hpu::tools {

/// The options of compilation; a build without the compiler has none of them but --shape and --dim, which also give the
/// sizes of a recipe's free dimensions.
struct ProgramFlags {
  CompileFlags compile;
  void addTo(Tool& tool);
};

struct LoadedProgram {
  Recipe recipe;
  double compileMs = 0;                   ///< 0 for a recipe.
  Precision precision = Precision::kF32;  ///< For the tolerance.
  int signal = 0;                         ///< That ended the compilation: there is no recipe then.
};

/// Free dimensions of a model take the sizes of `data` or of the files in `inputs`.
StatusOr<LoadedProgram> loadProgram(Tool& tool, const std::string& path, const ProgramFlags& flags,
                                    const std::vector<DataSet>& data, const std::vector<std::string>& inputs);

std::string programHelp();
std::string programArgumentHelp();
/// Settings that loading and running a program reads (Tool::setEnvironment).
std::vector<std::string> programSettings();

/// Sizes are for recipes with free dimensions. Errors: kInvalidArgument naming the option.
Status checkSizeOptions(const Tool& tool, const std::string& path, const Recipe& recipe);

/// A recipe computes in bf16 when any of its matrix products does.
Precision precisionOf(const Recipe& recipe);

}  // namespace hpu::tools
