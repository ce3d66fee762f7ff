// SPDX-License-Identifier: Apache-2.0
#include "tools/common/ModelOptions.h"

#include <chrono>
#include <cstring>

#include "base/MappedFile.h"
#include "base/StatusMacros.h"
#include "recipe/Container.h"

namespace hpu::tools {
namespace {

StatusOr<int64_t> wholeNumber(const std::string& text, const std::string& where) {
  char* end = nullptr;
  errno = 0;
  int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || value < 0)
    return invalidArgument(where + ": '" + text + "' is not a size");
  return value;
}

/// "NAME=1x3x224x224" with the last '=' as the border, since names may contain one.
Status addShape(const std::string& text, std::map<std::string, Shape>& shapes) {
  size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    return invalidArgument("--shape '" + text + "': write --shape NAME=1x3x224x224");
  Shape shape;
  for (size_t at = equals + 1; at <= text.size();) {
    size_t end = std::min(text.find_first_of("x,", at), text.size());
    HPU_ASSIGN(int64_t size, wholeNumber(text.substr(at, end - at), "--shape '" + text + "'"));
    shape.push_back(size);
    at = end + 1;
  }
  shapes[text.substr(0, equals)] = shape;
  return okStatus();
}

}  // namespace

void ModelOptions::addTo(CommandLine& line, const std::string& modelHelp) {
  line.addPositional("MODEL", model, modelHelp);
  line.addChoice("--target", target, {"gaudi1", "gaudi2", "gaudi3"}, "Chip to compile for");
  line.addChoice("--precision", precision, {"f32", "bf16"}, "Number format of the compiled model");
  line.addOption("--shape", shapes,
                 "Size of an input with free dimensions: NAME=1x3x224x224 (repeatable)");
  line.addOption("--dim", dims, "Size of a named free dimension: NAME=8 (repeatable)");
  line.addOption("-O", optLevel, "Optimisation level, 0 to 3");
  line.addOption("--cache", cacheDir, "Folder of compiled recipes to reuse");
  line.addOption("--cpu", cpu, "'native': kernels for this CPU only");
}

StatusOr<CompileOptions> compileOptions(const ModelOptions& options) {
  CompileOptions compile;
  HPU_ASSIGN(compile.target, parseTarget(options.target));
  if (options.precision != "f32" && options.precision != "bf16")
    return invalidArgument("--precision '" + options.precision +
                           "': this version has f32 and bf16");
  compile.precision = options.precision == "bf16" ? Precision::kBF16 : Precision::kF32;
  compile.optLevel = options.optLevel;
  compile.cacheDir = options.cacheDir;
  compile.cpu = options.cpu;
  for (const std::string& shape : options.shapes)
    HPU_RETURN_IF_ERROR(addShape(shape, compile.shapes));
  for (const std::string& dim : options.dims) {
    size_t equals = dim.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return invalidArgument("--dim '" + dim + "': write --dim NAME=8");
    HPU_ASSIGN(compile.dims[dim.substr(0, equals)],
               wholeNumber(dim.substr(equals + 1), "--dim '" + dim + "'"));
  }
  return compile;
}

StatusOr<LoadedModel> loadModel(Tool& tool, const ModelOptions& options,
                                const CompileOptions& compile) {
  LoadedModel model;
  bool isRecipe = false;
  {
    HPU_ASSIGN(auto file, base::MappedFile::open(options.model));
    isRecipe = file->size() >= sizeof recipe::kMagic &&
               !std::memcmp(file->data(), recipe::kMagic, sizeof recipe::kMagic);
  }
  if (isRecipe) {
    auto start = std::chrono::steady_clock::now();
    HPU_ASSIGN(model.recipe, Recipe::load(options.model));
    model.loadMs =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return model;
  }
#ifdef HPU_HAVE_COMPILER
  if (!tool.given("--target")) tool.note("no --target given, compiling for " + options.target);
  CompileOptions all = compile;
  if (!all.onPhase)
    all.onPhase = [&tool](const PhaseInfo& phase) { tool.progress("compiling: " + phase.name); };
  StatusOr<CompileResult> result = compileFile(options.model, all);
  tool.progress("");
  if (!result.ok()) return result.status();
  for (const std::string& warning : result->warnings) tool.note(warning);
  model.recipe = result->recipe;
  model.stats = result->stats;
  model.compiled = true;
  return model;
#else
  (void)tool;
  (void)compile;
  return unimplemented("'" + options.model +
                       "' is no recipe, and this build has no compiler: compile it with "
                       "hpu-compile of a full build first");
#endif
}

}  // namespace hpu::tools
