// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/Compile.h"

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/lowering/ElementTypes.h"
#include "bindings/synapse/lowering/GraphLowering.h"
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

StatusOr<CompiledGraph> compileGraph(const GraphDescription& graph, const CompileRequest& request) {
  if (graph.nodes.empty()) return invalidArgument("the graph has no nodes");
  HPU_ASSIGN(LoweredGraph lowered, lowerGraph(graph, request.actualSizes, /*inferenceOnly=*/false));
  if (lowered.outputs.empty())
    return invalidArgument("nothing of the graph can be seen: no node writes a tensor of a persistent section");
  CompileOptions options;
  options.target = graph.target;
  options.optLevel = request.optLevel;
  options.cacheDir = request.cacheDir;
  if (graph.eager) options.cpu = "native";  // Its recipe never leaves this process.
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

}  // namespace hpu::synapse
