// SPDX-License-Identifier: Apache-2.0
// The public entry points of the compiler (include/hpu/compiler.h).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "arch/TargetDesc.h"
#include "base/Clip.h"
#include "base/FloatEnvironment.h"
#include "base/Format.h"
#include "base/FunctionRef.h"
#include "base/ModelPath.h"
#include "base/OptionNames.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/NamedSizes.h"
#include "compiler/import/Specialize.h"
#include "compiler/import/ValueSizes.h"
#include "compiler/pipeline/AddVariants.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/pipeline/ProgramFunctions.h"
#include "compiler/pipeline/RecipeCache.h"
#include "compiler/pipeline/Supported.h"
#include "compiler/support/Cancellation.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/KnownOptions.h"
#include "hpu/compiler.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "recipe/Recipe.h"
#include "shape/DimExpr.h"

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
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
                           "); choose another " + base::optionName("precision") + " or " + base::optionName("target"));
  if (!options.ranges.empty() && !isFp8(options.precision))
    return invalidArgument("ranges of activations are for fp8, but the precision is " +
                           std::string(precisionName(options.precision)));
  for (const auto& [name, largest] : options.ranges)
    if (!std::isfinite(largest) || largest < 0)
      return invalidArgument(base::strCat("the range of the activation '", name, "' is ", largest,
                                          "; it is the largest magnitude, so finite and at least 0"));
  return okStatus();
}

}  // namespace

Status pipeline::checkOptions(const CompileOptions& options) {
  if (options.optLevel < 0 || options.optLevel > 3)
    return invalidArgument("optimisation level " + std::to_string(options.optLevel) + " is not in 0..3");
  if (options.searchEffort < 0 || options.searchEffort > 1000)
    return invalidArgument(base::strCat(base::optionValue("searchEffort", std::to_string(options.searchEffort)),
                                        " is not in 0..1000, percent of what is usual"));
  for (const std::string& report : options.reports) {
    static const std::string known[] = {"shapes", "precision", "fusion",   "layout",
                                        "tile",   "memory",    "schedule", "time"};
    if (std::find(std::begin(known), std::end(known), report) == std::end(known))
      return invalidArgument("there is no report '" + report +
                             "'; the reports are shapes, precision, fusion, layout, tile, memory, schedule and time" +
                             base::didYouMean(report, known));
  }
  for (const std::string& phase : {options.stopAfter, options.startFrom})
    if (!phase.empty()) HPU_RETURN_IF_ERROR(pipeline::parsePhase(phase).status());
  HPU_RETURN_IF_ERROR(checkPrecision(options));
  HPU_RETURN_IF_ERROR(checkSpecialize(options));
  if (!options.cpu.empty() && options.cpu != "native")
    return invalidArgument("unknown CPU '" + options.cpu + "'; leave it out (all CPUs) or say 'native'");
  return okStatus();
}

namespace {

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
namespace {

/// The inputs that still have free dimensions, as declared, and the options that would give sizes to these.
Status missingSizes(mlir::func::FuncOp main) {
  constexpr size_t kMostInputs = 16;
  std::vector<std::string> inputs, symbols;
  std::vector<base::OptionEntry> shapes;
  for (mlir::BlockArgument argument : main.getArguments()) {
    auto type = llvm::cast<mlir::RankedTensorType>(argument.getType());
    if (type.hasStaticShape()) continue;
    auto attribute = main.getArgAttrOfType<mlir::StringAttr>(argument.getArgNumber(), "hpu.name");
    const std::string name = attribute ? attribute.str() : base::strCat("input", argument.getArgNumber());
    std::string sizes, option;
    bool anonymous = false;
    for (const ir::SymDim& dim : ir::symShape(type)) {
      const bool named = dim.isFree() && dim.symbol && !dim.symbol.empty();
      const std::string size = dim.isFree() ? "" : std::to_string(dim.size);
      sizes += base::strCat(sizes.empty() ? "" : ", ", !dim.isFree() ? size : named ? dim.symbol.str() : "?");
      option += base::strCat(option.empty() ? "" : ", ", dim.isFree() ? "SIZE" : size);
      anonymous |= dim.isFree() && !named;
      if (!named) continue;
      for (const std::string& part : shape::DimExpr::parse(dim.symbol.getValue()).symbols())
        if (!llvm::is_contained(symbols, part)) symbols.push_back(part);
    }
    if (anonymous) shapes.emplace_back(name, "{" + option + "}");
    inputs.push_back(base::strCat("'", name, "' [", sizes, "]"));
  }
  const size_t count = inputs.size();
  if (count > kMostInputs) inputs.resize(kMostInputs);
  std::string options;
  if (!symbols.empty()) options = importer::sizeOptions(symbols);
  if (!shapes.empty()) options += (options.empty() ? "" : " ") + base::optionEntries("shapes", shapes);
  const std::string text = base::strCat(count == 1 ? "the input " : "the inputs ", base::join(inputs),
                                        count > kMostInputs ? base::strCat(" and ", count - kMostInputs, " more") : "",
                                        count == 1 ? " has" : " have");
  return invalidArgument(base::strCat(base::clipped(text), " free dimensions; give their sizes: ", options));
}

/// Bounds and the sizes of variants are of free dimensions that the function's inputs have.
Status checkBounds(mlir::func::FuncOp main, const CompileOptions& options) {
  std::vector<std::string> names;
  if (main && !options.dimBounds.empty())
    for (mlir::BlockArgument argument : main.getArguments())
      for (const ir::SymDim& dim : ir::symShape(llvm::cast<mlir::RankedTensorType>(argument.getType())))
        if (dim.isNamed())
          for (const std::string& part : shape::DimExpr::parse(dim.symbol.getValue()).symbols())
            if (!llvm::is_contained(names, part)) names.push_back(part);
  const std::vector<importer::ValueSize> values =
      main ? importer::valueSizes(main->getParentOfType<mlir::ModuleOp>()) : std::vector<importer::ValueSize>();
  for (const importer::ValueSize& size : values) names.push_back(size.symbol);
  const std::map<std::string, int64_t> fixed =
      main ? importer::fixedSizes(main->getParentOfType<mlir::ModuleOp>()) : std::map<std::string, int64_t>();
  const std::map<std::string, std::string> joined =
      main ? importer::joinedSizes(main->getParentOfType<mlir::ModuleOp>()) : std::map<std::string, std::string>();
  for (const auto& [name, bounds] : options.dimBounds) {
    const std::string text =
        base::strCat("the bounds ", bounds.min, " to ", bounds.max, " of the dimension '", name, "'");
    const bool isValue = llvm::any_of(values, [&](const importer::ValueSize& value) { return value.symbol == name; });
    if (bounds.min < 0 && bounds.min <= bounds.max && isValue)
      return invalidArgument(base::strCat(text,
                                          " have values below 0 in them, and what a launch gives is 0 or more: "
                                          "give it places from the start, or compile for one value: ",
                                          base::optionEntries("dims", {{name, std::to_string(bounds.min)}})));
    if (bounds.min < 0 || bounds.max < bounds.min) return invalidArgument(text + " hold no size");
    if (joined.count(name) && !llvm::is_contained(names, name)) continue;
    if (auto own = fixed.find(name); own != fixed.end() && !llvm::is_contained(names, name)) {
      if (own->second < bounds.min || own->second > bounds.max)
        return invalidArgument(base::strCat(text, " were given, and nodes of the model ask for ", own->second));
      continue;
    }
    if (!llvm::is_contained(names, name))
      return invalidArgument(base::strCat(text,
                                          " were given, and no input has a free dimension of that name (there are: ",
                                          names.empty() ? "none" : base::clipped(base::join(names)), ")"));
    if (options.dims.count(name)) return invalidArgument(text + " were given beside a size");
  }
  for (const auto& sizes : options.specialize)
    for (const auto& [name, size] : sizes) {
      if (!llvm::is_contained(names, name))
        return invalidArgument(base::strCat(base::optionName("specialize"), " fixes the dimension '", name,
                                            "', and no input has a free dimension of that name (there are: ",
                                            names.empty() ? "none" : base::clipped(base::join(names)), ")",
                                            base::didYouMean(name, names)));
      for (const importer::ValueSize& value : values)
        if (value.symbol == name)
          return unimplemented(base::strCat(base::optionName("specialize"), " fixes '", name,
                                            "', which is a value of the input '", value.input,
                                            "'; variants are of sizes that shapes say, so leave it open"));
    }
  return okStatus();
}

}  // namespace

/// Dimensions that are one have the bounds that theirs have in common.
static StatusOr<std::map<std::string, DimBounds>> joinedBounds(mlir::ModuleOp module,
                                                               std::map<std::string, DimBounds> bounds) {
  for (const auto& [name, one] : importer::joinedSizes(module)) {
    auto own = bounds.find(name);
    if (own == bounds.end()) continue;
    auto [other, isNew] = bounds.try_emplace(one, own->second);
    other->second = {std::max(other->second.min, own->second.min), std::min(other->second.max, own->second.max)};
    if (other->second.min > other->second.max)
      return invalidArgument(base::strCat("the dimensions '", name, "' and '", one,
                                          "', which nodes of the model ask to be equal, have no size in common in "
                                          "their bounds"));
    bounds.erase(name);
  }
  return bounds;
}

/// Of an import that nothing follows: sizes that are given are, dimensions with bounds stay free.
static Status giveSizes(mlir::ModuleOp module, const CompileOptions& options) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  const importer::ImportOptions sizes{options.shapes, options.dims, {}, {}, {}};
  HPU_RETURN_IF_ERROR(checkBounds(main, options));
  const bool isGiven = !sizes.shapes.empty() || !sizes.dims.empty();
  return main && isGiven && !isStatic(main) ? importer::specializeModule(module, sizes)
                                            : importer::checkSizes(module, sizes);
}

Status makeStatic(mlir::ModuleOp module, const CompileOptions& options) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  const importer::ImportOptions sizes{options.shapes, options.dims, {}, {}, {}};
  HPU_RETURN_IF_ERROR(checkBounds(main, options));
  if (!main || (isStatic(main) && importer::valueSizes(module).empty())) return importer::checkSizes(module, sizes);
  if (!options.dimBounds.empty()) {
    HPU_ASSIGN(const auto bounds, joinedBounds(module, options.dimBounds));
    return importer::representModule(module, sizes, bounds);
  }
  HPU_RETURN_IF_ERROR(importer::specializeModule(module, sizes));
  if (isStatic(main)) return okStatus();
  return missingSizes(main);
}

}  // namespace pipeline

namespace {

/// The nodes of what could be imported that no engine can do.
std::vector<UnsupportedNode> beyondEngines(mlir::ModuleOp partial, const CompileOptions& options) {
  std::vector<UnsupportedNode> found;
  auto main = partial.lookupSymbol<mlir::func::FuncOp>("main");
  ir::DiagnosticCapture diagnostics(partial.getContext());
  if (!main || !isStatic(main) || failed(mlir::verify(partial))) return found;
  mlir::PassManager manager(partial.getContext());
  pipeline::addNormalize(manager, options, nullptr, nullptr);
  if (failed(manager.run(partial))) return found;
  (void)pipeline::checkSupported(main, arch::targetDesc(options.target), &found);
  return found;
}

using NodeOrigins = std::map<std::string, importer::NodeOrigin>;

/// What only the model's file says of nodes that engines cannot do.
void addOrigins(std::vector<UnsupportedNode>& nodes, const NodeOrigins& origins) {
  for (UnsupportedNode& node : nodes)
    if (auto found = origins.find(node.node); found != origins.end()) {
      node.domain = found->second.domain;
      node.opset = found->second.opset;
    }
}

/// importOnnx, and when nodes are unsupported, those of the others that no engine can do are told with them.
StatusOr<Graph> importWhole(const std::string& path, const CompileOptions& options,
                            std::vector<UnsupportedNode>* unsupported, NodeOrigins& origins) {
  base::FloatScope floats;
  std::shared_ptr<mlir::MLIRContext> context = importer::makeContext();
  importer::OwningModule partial;
  std::vector<UnsupportedNode> nodes;
  StatusOr<importer::OwningModule> module =
      importer::importOnnxModule(*context, path, importer::importOptions(options), &nodes, &partial, &origins);
  if (module.ok()) return GraphAccess::make(std::move(context), std::move(*module));
  Status status = module.status();
  const std::string head = base::strCat("'", path, "': ");
  if (partial && status.message().starts_with(head)) {
    std::vector<UnsupportedNode> more = beyondEngines(*partial, options);
    std::erase_if(more, [&](const UnsupportedNode& node) {
      return llvm::any_of(nodes, [&](const UnsupportedNode& other) { return other.node == node.node; });
    });
    addOrigins(more, origins);
    if (!more.empty()) {
      const size_t newline = status.message().find('\n');
      std::string lines = newline == std::string::npos ? "\n  " + status.message().substr(head.size())
                                                       : status.message().substr(newline);
      constexpr size_t kMostLines = 200;
      for (size_t i = 0; i < std::min(more.size(), kMostLines); ++i)
        lines += "\n  " + base::clipped(base::strCat(more[i].op, " '", more[i].node, "': ", more[i].reason));
      if (more.size() > kMostLines) lines += base::strCat("\n  and ", more.size() - kMostLines, " more");
      status = Status(status.code(), base::strCat(head, std::count(lines.begin(), lines.end(), '\n'), " problems (",
                                                  base::supportedOpsCall(), " shows what is supported):", lines));
      nodes.insert(nodes.end(), more.begin(), more.end());
    }
  }
  if (unsupported) unsupported->insert(unsupported->end(), nodes.begin(), nodes.end());
  return status;
}

/// Without variants.
StatusOr<CompileResult> compileGraphAlone(const Graph& graph, const CompileOptions& options,
                                          std::vector<UnsupportedNode>* unsupported) {
  base::FloatScope floats;  // Constants are folded, and costs compared, on the program's thread.
  auto start = Clock::now();
  HPU_RETURN_IF_ERROR(pipeline::checkOptions(options));
  bool importOnly = options.stopAfter == "import";
  // A graph's context is single-threaded: compilations of one graph run one after another, of different ones in
  // parallel.
  std::unique_lock<std::mutex> lock(graph.impl().mutex, std::defer_lock);
  if (!support::Cancellation::current()) lock.lock();
  while (!lock.owns_lock() && !lock.try_lock()) {
    if (support::isCancelled()) return support::cancelledStatus().withContext("waiting for the graph");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  mlir::OwningOpRef<mlir::ModuleOp> module = graph.impl().module->clone();
  // The IR of a later phase has its sizes.
  const bool hasSizes = !options.startFrom.empty() && options.startFrom != "import" && options.startFrom != "normalize";
  HPU_RETURN_IF_ERROR(hasSizes     ? importer::checkSizes(*module, {options.shapes, options.dims, {}, {}, {}})
                      : importOnly ? pipeline::giveSizes(*module, options)
                                   : pipeline::makeStatic(*module, options));
  HPU_ASSIGN(CompileResult result, pipeline::runPipeline(*module, options, graph.impl().context, unsupported));
  result.stats.compileMs = msSince(start);
  return result;
}

StatusOr<CompileResult> compileGraph(const Graph& graph, const CompileOptions& options) {
  auto start = Clock::now();
  HPU_ASSIGN(CompileResult result, compileGraphAlone(graph, options, nullptr));
  if (options.specialize.empty()) return result;
  HPU_RETURN_IF_ERROR(pipeline::addVariants(
      options, [&](const CompileOptions& alone) { return compileGraphAlone(graph, alone, nullptr); }, result));
  result.stats.compileMs = msSince(start);
  return result;
}

/// What is wrong with a recipe of the cache, without the advice to compile the model: that is done now.
std::string_view findingOf(std::string_view message) {
  return message.substr(0, message.find("; compile the model again"));
}

StatusOr<CompileResult> compilePath(const std::string& path, const CompileOptions& options,
                                    std::vector<UnsupportedNode>* unsupported) {
  auto start = Clock::now();
  HPU_RETURN_IF_ERROR(pipeline::checkOptions(options));
  if (!options.startFrom.empty() && options.startFrom != "import" && !base::isMlirPath(path))
    return invalidArgument(base::strCat(base::optionValue("startFrom", options.startFrom),
                                        " continues from the IR of a phase (.mlir, .mlirbc), but '", path,
                                        "' is another kind of file; write such IR with ", base::optionName("stopAfter"),
                                        " or ", base::optionName("dumpDir")));
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
      damaged = base::strCat("the recipe in the cache was not used and is made again: ",
                             findingOf(recipe.status().message()));
  }
  const auto cancelledInImport = [] { return support::cancelledStatus().withContext("phase import"); };
  if (support::isCancelled()) return cancelledInImport();
  NodeOrigins origins;
  StatusOr<Graph> graph = base::isMlirPath(path) ? importMlir(path) : importWhole(path, options, unsupported, origins);
  if (support::isCancelled()) return cancelledInImport();
  if (!graph.ok()) return graph.status();
  PhaseInfo import{"import", msSince(start), ""};
  import.summary =
      std::to_string(graph->inputs().size()) + " inputs, " + std::to_string(graph->outputs().size()) + " outputs";
  if (options.onPhase) options.onPhase(import);
  std::vector<UnsupportedNode> beyondEngines;
  CompileOptions rest = options;
  if (!base::isMlirPath(path)) {  // The importer has given the sizes, and checked their names.
    rest.shapes.clear();
    rest.dims.clear();
  }
  StatusOr<CompileResult> compiled = compileGraphAlone(*graph, rest, &beyondEngines);
  addOrigins(beyondEngines, origins);
  if (unsupported) unsupported->insert(unsupported->end(), beyondEngines.begin(), beyondEngines.end());
  if (!beyondEngines.empty()) return compiled.status().withContext("'" + path + "'");
  if (!compiled.ok()) return compiled.status();
  CompileResult result = std::move(*compiled);
  result.stats.phases.insert(result.stats.phases.begin(), import);
  if (!options.specialize.empty())
    HPU_RETURN_IF_ERROR(pipeline::addVariants(
        options, [&](const CompileOptions& alone) { return compilePath(path, alone, nullptr); }, result));
  if (!damaged.empty()) result.warnings.push_back(damaged);
  if (cached && result.recipe.valid() && !support::isCancelled()) {
    Status stored = cache.store(key, result.recipe);
    if (!stored.ok()) result.warnings.push_back(stored.message());
  }
  result.stats.compileMs = msSince(start);
  return result;
}

/// As this library is loaded.
[[maybe_unused]] const bool kLlvmStatics = pipeline::makeLlvmStatics();

/// Where one of the program's functions has thrown, that is what became of the compilation.
StatusOr<CompileResult> withFunctions(const CompileOptions& given,
                                      base::FunctionRef<StatusOr<CompileResult>(const CompileOptions&)> work) {
  pipeline::ProgramFunctions functions(given);
  if (functions.isTooLate()) return support::cancelledStatus().withContext("the process exits");
  support::Cancellation cancellation(functions.options().isCancelled);
  StatusOr<CompileResult> result = work(functions.options());
  HPU_RETURN_IF_ERROR(functions.failure());
  return result;
}

}  // namespace

StatusOr<CompileResult> compile(const Graph& graph, const CompileOptions& given, size_t givenBytes) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(graph));
  HPU_ASSIGN(const base::Grown<CompileOptions> known, support::asKnown(given, givenBytes));
  return withFunctions(*known, [&](const CompileOptions& options) { return compileGraph(graph, options); });
}

StatusOr<CompileResult> compileFile(const std::string& path, const CompileOptions& given, size_t givenBytes,
                                    std::vector<UnsupportedNode>* unsupported) {
  HPU_ASSIGN(const base::Grown<CompileOptions> known, support::asKnown(given, givenBytes));
  return withFunctions(*known, [&](const CompileOptions& options) { return compilePath(path, options, unsupported); });
}

std::vector<std::string> phaseNames() {
  std::vector<std::string> names;
  for (const pipeline::PhaseEntry& entry : pipeline::phases()) names.push_back(entry.name);
  return names;
}

}  // namespace hpu
