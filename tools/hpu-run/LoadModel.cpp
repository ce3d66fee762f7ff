// SPDX-License-Identifier: Apache-2.0
// hpu-run in a build with the compiler: recipes and models.
#include "base/StatusMacros.h"
#include "tools/common/Calibrate.h"
#include "tools/common/ModelFile.h"
#include "tools/common/Session.h"
#include "tools/hpu-run/LoadProgram.h"

namespace hpu::tools {

void ProgramFlags::addTo(Tool& tool) {
  compile.addTo(tool);
}
std::string programHelp() {
  return "Runs a recipe, or a model that it compiles first, and times it.";
}
std::vector<std::string> programSettings() {
  return {"all", "runtime", "compiler"};
}
std::string programArgumentHelp() {
  return "A .recipe made by hpu-compile, or a model (.onnx, .mlir)";
}

StatusOr<LoadedProgram> loadProgram(Tool& tool, const std::string& path, const ProgramFlags& flags,
                                    const std::vector<DataSet>& data, const std::vector<std::string>& inputs) {
  LoadedProgram program;
  HPU_ASSIGN(bool isRecipe, isRecipeFile(path));
  if (isRecipe) {
    for (const char* option : {"--target", "--precision", "--keep-f32", "--calibrate", "-O", "--cache", "--cpu"})
      if (tool.given(option))
        return invalidArgument(std::string(option) + " is for models; '" + path + "' is compiled already");
    HPU_ASSIGN(program.recipe, Recipe::load(path));
    HPU_RETURN_IF_ERROR(checkSizeOptions(tool, path, program.recipe));
    program.precision = precisionOf(program.recipe);
    return program;
  }
  HPU_ASSIGN(CompileOptions options, flags.compile.options(tool));
  HPU_RETURN_IF_ERROR(protectModel(tool, path));
  HPU_RETURN_IF_ERROR(takeShapesFrom(path, data, inputs, options));
  StatusOr<CompileResult> result = compileInterruptibly(tool, flags.compile, path, options, program.signal);
  if (program.signal != 0) return program;
  if (!result.ok()) return result.status();
  program.recipe = result->recipe;
  program.compileMs = result->stats.compileMs;
  program.precision = options.precision;
  tool.json().set("cache_hit", result->stats.cacheHit);
  return program;
}

}  // namespace hpu::tools
