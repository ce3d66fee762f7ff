// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/Compile.h"

#include <algorithm>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/ValueBounds.h"
#include "bindings/synapse/lowering/ElementTypes.h"
#include "bindings/synapse/lowering/FreeSizes.h"
#include "bindings/synapse/lowering/GraphLowering.h"
#include "bindings/synapse/lowering/SizeTies.h"
#include "hpu/compiler.h"

namespace hpu::synapse {

using base::strCat;

Status inferShapes(GraphDescription& graph) {
  HPU_ASSIGN(LoweredGraph lowered, lowerGraph(graph, {}, /*inferenceOnly=*/true));
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    TensorDescription& tensor = graph.tensors[t];
    if (tensor.maxSizes.empty() && lowered.sizes[t]) tensor.maxSizes = *lowered.sizes[t];
    if (tensor.minSizes.empty()) tensor.minSizes = tensor.maxSizes;
    if (tensor.dataType == 0) tensor.dataType = lowered.types[t];
  }
  return okStatus();
}

namespace {

StatusOr<CompiledGraph> compileLowered(const GraphDescription& graph, const CompileRequest& request,
                                       LoweredGraph lowered, const std::map<std::string, DimBounds>& bounds) {
  CompileOptions options;
  options.target = graph.target;
  options.optLevel = request.optLevel;
  options.cacheDir = request.cacheDir;
  options.dimBounds = bounds;
  if (graph.eager || request.thisCpuOnly) options.cpu = "native";
  StatusOr<CompileResult> done = compile(*lowered.graph, options);
  if (!done.ok()) return Status(done.status().code(), inUsersOrder(done.status().message()));
  CompileResult compiled = std::move(*done);
  CompiledGraph result;
  HPU_ASSIGN(result.recipe, compiled.recipe.serialize());
  result.inputs = std::move(lowered.inputs);
  result.outputs = std::move(lowered.outputs);
  for (const auto& sizes : lowered.sizes) result.sizes.push_back(sizes.value_or(std::vector<uint64_t>()));
  result.log = std::move(lowered.log);
  for (const std::string& warning : compiled.warnings) result.log += inUsersOrder(warning) + "\n";
  for (const PhaseInfo& phase : compiled.stats.phases)
    if (!phase.summary.empty()) result.log += strCat(phase.name, ": ", inUsersOrder(phase.summary), "\n");
  return result;
}

StatusOr<CompiledGraph> compileFree(const GraphDescription& graph, const CompileRequest& request, bool all) {
  HPU_ASSIGN(FreeGraph free, lowerFree(graph, all));
  HPU_ASSIGN(CompiledGraph compiled, compileLowered(graph, request, std::move(free.lowered), free.bounds));
  compiled.freeDims = std::move(free.dims);
  for (const auto& [name, bounds] : free.bounds)
    compiled.log += strCat("free dimension ", name, ": ", bounds.min, " to ", bounds.max, "\n");
  return compiled;
}

bool hasFreeSizes(const GraphDescription& graph) {
  return std::any_of(graph.tensors.begin(), graph.tensors.end(), [](const TensorDescription& tensor) {
    return !tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes;
  });
}

}  // namespace

StatusOr<CompiledGraph> compileGraph(const GraphDescription& graph, const CompileRequest& request) {
  using FreeSizes = CompileRequest::FreeSizes;
  if (graph.nodes.empty()) return invalidArgument("the graph has no nodes");
  if (request.freeSizes == FreeSizes::kAll) return compileFree(graph, request, /*all=*/true);
  // What is wrong with it is said of its largest sizes.
  std::vector<std::vector<uint64_t>> actual = request.actualSizes;
  if (!actual.empty() && hasFreeSizes(graph)) addResultSizes(graph, actual);
  HPU_ASSIGN(LoweredGraph lowered, lowerGraph(graph, actual, /*inferenceOnly=*/false));
  std::string note;
  if (request.freeSizes == FreeSizes::kBounded && readsBounds(graph)) {
    note = "note: each set of sizes is compiled at its first launch: a node reads values that launches give\n";
  } else if (request.freeSizes == FreeSizes::kBounded && hasFreeSizes(graph)) {
    StatusOr<CompiledGraph> free = compileFree(graph, request, /*all=*/false);
    if (free.ok()) return free;
    note = strCat("note: each set of sizes is compiled at its first launch: ", free.status().message(), "\n");
  }
  HPU_ASSIGN(CompiledGraph compiled, compileLowered(graph, request, std::move(lowered), {}));
  compiled.log += note;
  return compiled;
}

}  // namespace hpu::synapse
