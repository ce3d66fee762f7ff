// SPDX-License-Identifier: Apache-2.0
// hpu-run in a build without the compiler: recipes only.
#include "base/StatusMacros.h"
#include "tools/common/Session.h"
#include "tools/hpu-run/LoadProgram.h"

namespace hpu::tools {

void ProgramFlags::addTo(Tool&) {}
std::string programHelp() {
  return "Runs a recipe and times it (built without the compiler).";
}
std::vector<std::string> programSettings() {
  return {"all", "runtime"};
}
std::string programArgumentHelp() {
  return "A .recipe made by hpu-compile";
}

StatusOr<LoadedProgram> loadProgram(Tool&, const std::string& path, const ProgramFlags&, const std::vector<DataSet>&,
                                    const std::vector<std::string>&) {
  HPU_ASSIGN(bool isRecipe, isRecipeFile(path));
  if (!isRecipe)
    return failedPrecondition("'" + path +
                              "' is not a recipe, and this hpu-run was built without the compiler; make a "
                              "recipe with hpu-compile, or build with -DHPU_BUILD_COMPILER=ON");
  LoadedProgram program;
  HPU_ASSIGN(program.recipe, Recipe::load(path));
  program.precision = precisionOf(program.recipe);
  return program;
}

}  // namespace hpu::tools
