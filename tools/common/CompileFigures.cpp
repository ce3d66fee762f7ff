// SPDX-License-Identifier: Apache-2.0
#include "tools/common/CompileFigures.h"

#include "base/OptionNames.h"

namespace hpu::tools {

void addFigures(Json& json, const CompileResult& result) {
  const CompileStats& stats = result.stats;
  json.set("compile_ms", stats.compileMs);
  Json& phases = json["phases"] = Json::array();
  for (const PhaseInfo& phase : stats.phases)
    phases.append(Json().set("name", phase.name).set("ms", phase.ms).set("summary", phase.summary));
  Json& variants = json["variants"] = Json::array();
  for (const auto& sizes : result.recipe.variants()) {
    Json variant = Json::object();
    for (const auto& [name, size] : sizes) variant.set(name, size);
    variants.append(std::move(variant));
  }
  json.set("recipe_bytes", stats.recipeBytes);
  json.set("workspace_bytes", stats.workspaceBytes);
  json.set("largest_live_set_bytes", stats.largestLiveSetBytes);
  json.set("sram_peak_bytes", stats.sramPeakBytes);
  json.set("device_time_us", stats.deviceTimeUs);
  json.set("lower_bound_us", stats.lowerBoundUs);
  // A recipe from the cache does not know the parts.
  if (!stats.cacheHit) {
    json.set("lower_bound_parts_us", Json::object()
                                         .set("mme", stats.lowerBoundMmeUs)
                                         .set("tpc", stats.lowerBoundTpcUs)
                                         .set("hbm", stats.lowerBoundHbmUs));
    json.set("lower_bound_bytes", stats.lowerBoundBytes);
    json.set("macs", stats.macs);
  }
  json.set("cache_hit", stats.cacheHit);
  json.set("unsupported", Json::array());
}

namespace {
Json valuesJson(const std::vector<UnsupportedNode::Value>& values) {
  Json list = Json::array();
  for (const UnsupportedNode::Value& value : values)
    list.append(Json().set("name", value.name).set("type", value.type.empty() ? Json() : Json(value.type)));
  return list;
}
}  // namespace

Json unsupportedJson(const std::vector<UnsupportedNode>& nodes) {
  Json list = Json::array();
  for (const UnsupportedNode& node : nodes)
    list.append(Json()
                    .set("op", node.op)
                    .set("node", node.node)
                    .set("reason", base::inWordsOf(base::Reader::kCommandLine, node.reason))
                    .set("domain", node.domain.empty() ? "ai.onnx" : node.domain)
                    .set("opset", node.opset ? Json(node.opset) : Json())
                    .set("inputs", valuesJson(node.inputs))
                    .set("outputs", valuesJson(node.outputs))
                    .set("help", base::inWordsOf(base::Reader::kCommandLine, node.help)));
  return list;
}

}  // namespace hpu::tools
