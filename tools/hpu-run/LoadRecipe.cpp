// SPDX-License-Identifier: Apache-2.0
// hpu-run in a build without the compiler: recipes only.
#include "base/StatusMacros.h"
#include "tools/common/Session.h"
#include "tools/hpu-run/LoadProgram.h"

namespace hpu::tools {

void ProgramFlags::addTo(Tool& tool) {
  tool.addOption("--shape", compile.shapes, "Size of an input with free dimensions: NAME=1x3x224x224; may be repeated");
  tool.addOption("--dim", compile.dims, "Size of a free dimension: NAME=8; may be repeated");
}
std::string programHelp() {
  return "Runs a recipe and times it (built without the compiler).";
}
std::vector<std::string> programSettings() {
  return {"all", "runtime"};
}
std::string programArgumentHelp() {
  return "A .recipe made by hpu-compile";
}

StatusOr<LoadedProgram> loadProgram(Tool& tool, const std::string& path, const ProgramFlags&,
                                    const std::vector<DataSet>&, const std::vector<std::string>&) {
  HPU_ASSIGN(bool isRecipe, isRecipeFile(path));
  if (!isRecipe)
    return failedPrecondition("'" + path +
                              "' is not a recipe, and this hpu-run was built without the compiler; make a "
                              "recipe with hpu-compile, or build with -DHPU_BUILD_COMPILER=ON");
  LoadedProgram program;
  HPU_ASSIGN(program.recipe, Recipe::load(path));
  HPU_RETURN_IF_ERROR(checkSizeOptions(tool, path, program.recipe));
  program.precision = precisionOf(program.recipe);
  return program;
}

}  // namespace hpu::tools
