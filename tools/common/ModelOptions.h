// SPDX-License-Identifier: Apache-2.0
// The options that every tool which takes a model shares, and how a model becomes a recipe.
#pragma once

#include <string>
#include <vector>

#include "hpu/compiler.h"
#include "tools/common/Cli.h"

namespace hpu::tools {

struct ModelOptions {
  std::string model, target = "gaudi2", precision = "f32", cacheDir, cpu;
  std::vector<std::string> shapes, dims;
  int optLevel = 2;

  /// MODEL, --target, --precision, --shape, --dim, -O, --cache, --cpu.
  void addTo(CommandLine& line, const std::string& modelHelp);
};

/// The compiler's options from the tool's; errors name the flag.
StatusOr<CompileOptions> compileOptions(const ModelOptions& options);

struct LoadedModel {
  Recipe recipe;
  CompileStats stats;
  bool compiled = false;
  double loadMs = 0;  ///< Of reading the recipe file.
};

/// A file that begins with a recipe's magic is loaded, everything else compiled. A note says which
/// target is assumed when none was given. Errors: as compileFile and Recipe::load; kUnimplemented
/// for a model in a build without compiler.
StatusOr<LoadedModel> loadModel(Tool& tool, const ModelOptions& options,
                                const CompileOptions& compile);

}  // namespace hpu::tools
