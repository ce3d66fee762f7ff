// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/AddVariants.h"

#include <algorithm>
#include <cstdio>

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/memory/Capacity.h"
#include "compiler/pipeline/Pipeline.h"
#include "recipe/Dynamic.h"
#include "recipe/RecipeVerifier.h"
#include "recipe/SizeValues.h"
#include "recipe/Variants.h"

namespace hpu::pipeline {
namespace {

using base::strCat;
using VariantSizes = std::map<std::string, int64_t>;

std::string textOf(const VariantSizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += strCat(text.empty() ? "" : ", ", name, "=", size);
  return text;
}

/// What is compiled for one variant of `recipe`. Every dimension that the variant leaves open keeps its bounds, also
/// those that nothing was said of.
CompileOptions optionsAlone(const CompileOptions& options, const Recipe& recipe, const VariantSizes& sizes) {
  CompileOptions alone = options;
  alone.specialize.clear();
  alone.dimBounds.clear();
  for (const FreeDim& dim : recipe.dims())
    if (!sizes.count(dim.name)) alone.dimBounds[dim.name] = dim.bounds;
  for (const auto& [name, size] : sizes) alone.dims[name] = size;
  alone.cacheDir.clear();
  alone.dumpDir.clear();
  alone.explain.clear();
  alone.reports.clear();
  alone.onPhase = nullptr;
  return alone;
}

/// Constants of all variants are on the device while the recipe is loaded, and one program's other memory at a time.
Status checkCapacityOfAll(const recipe::Program& program) {
  const arch::TargetDesc& target = arch::targetDesc(program.target);
  HPU_RETURN_IF_ERROR(
      memory::checkCapacity(hbmNeedsOf(program), target.hbmBytes, std::string(targetName(program.target))));
  for (const recipe::Variant& variant : program.variants)
    HPU_RETURN_IF_ERROR(
        memory::checkCapacity(hbmNeedsOf(*variant.program), target.hbmBytes, std::string(targetName(program.target)))
            .withContext("variant " + recipe::variantText(*program.dynamic, variant)));
  return okStatus();
}

}  // namespace

Status checkSpecialize(const CompileOptions& options) {
  const std::string option = base::optionName("specialize");
  if (options.specialize.empty()) return okStatus();
  if (!options.stopAfter.empty())
    return invalidArgument(option + " gives a recipe variants, and a partial run (" + base::optionName("stopAfter") +
                           ") makes no recipe; leave one of them out");
  if (!options.states.empty())
    return unimplemented(strCat(option, " and ", base::optionName("states"),
                                " exclude each other: variants have no room for states of other sizes; leave one out"));
  if (options.specialize.size() > recipe::kMaxVariants)
    return invalidArgument(
        strCat(option, " names ", options.specialize.size(), " variants; a recipe has at most ", recipe::kMaxVariants));
  for (const VariantSizes& sizes : options.specialize) {
    if (sizes.empty()) return invalidArgument(option + " has a variant without a size: it would be the recipe itself");
    for (const auto& [name, size] : sizes) {
      const std::string what = strCat(option, ": the variant ", textOf(sizes), " fixes '", name, "'");
      if (options.dims.count(name))
        return invalidArgument(strCat(what, ", which has the size ", options.dims.at(name), " in the whole recipe"));
      auto bounds = options.dimBounds.find(name);
      if (bounds != options.dimBounds.end() && (size < bounds->second.min || size > bounds->second.max))
        return invalidArgument(strCat(what, ", whose bounds are ", bounds->second.min, " to ", bounds->second.max));
      if (bounds == options.dimBounds.end() && (options.dimBounds.empty() || size < 1))
        return invalidArgument(
            strCat(what, ", which has no bounds that hold it; give them with ", base::optionName("dimBounds")));
    }
  }
  return okStatus();
}

Status addVariants(const CompileOptions& options,
                   llvm::function_ref<StatusOr<CompileResult>(const CompileOptions&)> compileAlone,
                   CompileResult& result) {
  if (!result.recipe.program()->dynamic)
    return invalidArgument(base::optionName("specialize") +
                           " is for dimensions that launches give, and no dimension of the model is free");
  recipe::VariantLinker linker(*result.recipe.program());
  std::vector<VariantSizes> done;
  std::string report;
  for (const VariantSizes& sizes : options.specialize) {
    if (std::find(done.begin(), done.end(), sizes) != done.end()) continue;
    const std::string name = textOf(sizes);
    // Before anything is compiled for it.
    HPU_RETURN_IF_ERROR(linker.check(sizes));
    StatusOr<CompileResult> alone = compileAlone(optionsAlone(options, result.recipe, sizes));
    if (!alone.ok()) return alone.status().withContext("the variant " + name);
    const uint64_t before = linker.addedBytes();
    HPU_RETURN_IF_ERROR(linker.add(sizes, *alone->recipe.program()));
    done.push_back(sizes);
    char us[32];
    snprintf(us, sizeof us, "%.1f us", alone->stats.deviceTimeUs);
    const recipe::Dynamic* open = alone->recipe.program()->dynamic.get();
    const std::string time =
        strCat("device time ", us, open ? strCat(" at ", recipe::sizesText(*open, recipe::sampleSizes(*open))) : "");
    const std::string own = strCat(base::formatBytes(static_cast<int64_t>(linker.addedBytes() - before)),
                                   " of constants that no other program has");
    report += strCat("specialised for ", name, ": ", time, ", ", own, "\n");
    PhaseInfo info{"variant " + name, alone->stats.compileMs, strCat(time, ", ", own)};
    result.stats.phases.push_back(info);
    if (options.onPhase) options.onPhase(info);
  }
  std::shared_ptr<recipe::Program> program = linker.finish();
  if (Status verified = recipe::verifyProgram(*program); !verified.ok())
    return internalError("the recipe with its variants does not verify: " + verified.message());
  HPU_RETURN_IF_ERROR(checkCapacityOfAll(*program));
  result.recipe = Recipe(std::move(program));
  if (auto text = result.reports.find("shapes"); text != result.reports.end()) text->second += report;
  return okStatus();
}

}  // namespace hpu::pipeline
