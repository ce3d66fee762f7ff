// SPDX-License-Identifier: Apache-2.0
// The public entry points of the compiler (include/hpu/compiler.h).
#include <algorithm>
#include <chrono>
#include <mutex>

#include "arch/TargetDesc.h"
#include "base/FloatEnvironment.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/Specialize.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/RecipeCache.h"
#include "hpu/compiler.h"
#include "recipe/Recipe.h"

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

bool isMlir(const std::string& path) {
  auto endsWith = [&](std::string_view end) {
    return path.size() >= end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
  };
  return endsWith(".mlir") || endsWith(".mlirbc");
}

bool isStatic(mlir::func::FuncOp main) {
  return llvm::all_of(main.getArgumentTypes(),
                      [](mlir::Type type) { return llvm::cast<mlir::RankedTensorType>(type).hasStaticShape(); });
}

/// The target's MME has the types of the precision.
Status checkPrecision(const CompileOptions& options) {
  const arch::TargetDesc& target = arch::targetDesc(options.target);
  bool has = true;
  if (options.precision == Precision::kF16) has = target.hasMmeType(ElementType::kF16);
  if (isFp8(options.precision)) has = target.hasMmeType(ElementType::kF8E5M2);
  if (!has)
    return invalidArgument("the MME of " + std::string(target.name) + " has no " +
                           std::string(precisionName(options.precision)) + " (it has " + target.mmeTypeNames() +
                           "); choose another --precision or --target");
  if (!options.ranges.empty() && !isFp8(options.precision))
    return invalidArgument("ranges of activations are for fp8, but the precision is " +
                           std::string(precisionName(options.precision)));
  return okStatus();
}

Status checkOptions(const CompileOptions& options) {
  if (options.optLevel < 0 || options.optLevel > 3)
    return invalidArgument("optimisation level " + std::to_string(options.optLevel) + " is not in 0..3");
  for (const std::string& report : options.reports) {
    static const std::string known[] = {"precision", "fusion", "layout", "tile", "memory", "schedule", "time"};
    if (std::find(std::begin(known), std::end(known), report) == std::end(known))
      return invalidArgument("there is no report '" + report +
                             "'; the reports are precision, fusion, layout, tile, memory, schedule and time");
  }
  HPU_RETURN_IF_ERROR(checkPrecision(options));
  if (!options.cpu.empty() && options.cpu != "native")
    return invalidArgument("unknown CPU '" + options.cpu + "'; leave it out (all CPUs) or say 'native'");
  return okStatus();
}

void fillFromRecipe(const Recipe& recipe, CompileStats& stats) {
  const recipe::Estimates& estimates = recipe.program()->estimates;
  stats.workspaceBytes = recipe.workspaceBytes();
  stats.deviceTimeUs = estimates.deviceTimeUs;
  stats.lowerBoundUs = estimates.lowerBoundUs;
  stats.largestLiveSetBytes = estimates.largestLiveSetBytes;
  stats.sramPeakBytes = estimates.sramPeakBytes;
}

}  // namespace

namespace pipeline {

Status makeStatic(const Graph& graph, mlir::ModuleOp module, const CompileOptions& options) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  if (!main || isStatic(main)) return okStatus();
  HPU_RETURN_IF_ERROR(importer::specializeModule(module, {options.shapes, options.dims, {}}));
  if (isStatic(main)) return okStatus();
  std::string names;
  for (const TensorInfo& input : graph.inputs())
    if (numElements(input.type.shape) == kDynamic)
      names += (names.empty() ? "'" : ", '") + input.name + "' (" + input.type.toString() + ")";
  return invalidArgument("free dimensions in input " + names +
                         ": give every size with --shape NAME=1x3x224x224 or --dim SYMBOL=8 "
                         "(CompileOptions::shapes, CompileOptions::dims)");
}

}  // namespace pipeline

namespace {

StatusOr<CompileResult> compileGraph(const Graph& graph, const CompileOptions& options,
                                     std::vector<UnsupportedNode>* unsupported) {
  base::FloatScope floats;  // Constants are folded, and costs compared, on the program's thread.
  auto start = Clock::now();
  HPU_RETURN_IF_ERROR(checkOptions(options));
  bool importOnly = options.stopAfter == "import";
  // A graph's context is single-threaded: compilations of one graph run one after another, of different ones in
  // parallel.
  std::lock_guard lock(graph.impl().mutex);
  mlir::OwningOpRef<mlir::ModuleOp> module = graph.impl().module->clone();
  if (!importOnly && options.startFrom.empty()) HPU_RETURN_IF_ERROR(pipeline::makeStatic(graph, *module, options));
  HPU_ASSIGN(CompileResult result, pipeline::runPipeline(*module, options, graph.impl().context, unsupported));
  result.stats.compileMs = msSince(start);
  return result;
}

}  // namespace

StatusOr<CompileResult> compile(const Graph& graph, const CompileOptions& options) {
  return compileGraph(graph, options, nullptr);
}

StatusOr<CompileResult> compileFile(const std::string& path, const CompileOptions& options,
                                    std::vector<UnsupportedNode>* unsupported) {
  auto start = Clock::now();
  HPU_RETURN_IF_ERROR(checkOptions(options));
  if (!options.startFrom.empty() && options.startFrom != "import" && !isMlir(path))
    return invalidArgument("--start-from " + options.startFrom +
                           " continues from the IR of a phase (.mlir, .mlirbc), but '" + path +
                           "' is another kind of file; write such IR with --stop-after or --dump-phases");
  // Reports, dumps and partial runs need the compilation itself.
  bool cached = !options.cacheDir.empty() && options.stopAfter.empty() && options.startFrom.empty() &&
                options.reports.empty() && options.dumpDir.empty() && options.explain.empty();
  pipeline::RecipeCache cache("");
  std::string key, damaged;
  if (cached) {
    HPU_ASSIGN(int64_t limit, settings::getInt(Setting::HPU_CACHE_BYTES));
    cache = pipeline::RecipeCache(options.cacheDir, limit);
    HPU_ASSIGN(key, cache.key(path, options));
    StatusOr<Recipe> recipe = cache.find(key);
    if (recipe.ok()) {
      CompileResult result;
      result.recipe = *recipe;
      fillFromRecipe(*recipe, result.stats);
      result.stats.cacheHit = true;
      result.stats.compileMs = msSince(start);
      return result;
    }
    if (recipe.status().code() != StatusCode::kNotFound)
      damaged = "the recipe in the cache was not used and is made again: " + recipe.status().message();
  }
  StatusOr<Graph> graph = isMlir(path) ? importMlir(path) : importOnnx(path, options, unsupported);
  if (!graph.ok()) return graph.status();
  PhaseInfo import{"import", msSince(start), ""};
  import.summary =
      std::to_string(graph->inputs().size()) + " inputs, " + std::to_string(graph->outputs().size()) + " outputs";
  if (options.onPhase) options.onPhase(import);
  std::vector<UnsupportedNode> beyondEngines;
  StatusOr<CompileResult> compiled = compileGraph(*graph, options, &beyondEngines);
  if (unsupported) unsupported->insert(unsupported->end(), beyondEngines.begin(), beyondEngines.end());
  if (!beyondEngines.empty()) return compiled.status().withContext("'" + path + "'");
  if (!compiled.ok()) return compiled.status();
  CompileResult result = std::move(*compiled);
  result.stats.phases.insert(result.stats.phases.begin(), import);
  if (!damaged.empty()) result.warnings.push_back(damaged);
  if (cached && result.recipe.valid()) {
    Status stored = cache.store(key, result.recipe);
    if (!stored.ok()) result.warnings.push_back(stored.message());
  }
  result.stats.compileMs = msSince(start);
  return result;
}

std::vector<std::string> phaseNames() {
  std::vector<std::string> names;
  for (const pipeline::PhaseEntry& entry : pipeline::phases()) names.push_back(entry.name);
  return names;
}

}  // namespace hpu
