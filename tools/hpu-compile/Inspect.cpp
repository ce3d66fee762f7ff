// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-compile/Inspect.h"

#include <cstdio>
#include <map>
#include <set>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/ModelPath.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/import/OnnxReader.h"
#include "tools/common/CompileFigures.h"
#include "tools/common/CompileFlags.h"
#include "tools/common/ModelFile.h"

namespace hpu::tools {
namespace {

using base::strCat;

/// An input or output.
struct Port {
  std::string name, type, kind = "tensor";
  bool hasShape = false, hasDefault = false;
  std::vector<importer::DimSpec> dims;
};

struct OpCount {
  int64_t count = 0, unsupported = 0;
};

struct Findings {
  bool isOnnx = false;
  int64_t irVersion = 0;
  std::string producer;
  std::map<std::string, int64_t> opsets;
  std::vector<std::string> functions;
  std::vector<Port> inputs, outputs;
  std::vector<std::string> freeDims;
  std::map<std::pair<std::string, std::string>, OpCount> ops;  ///< By domain and op.
  int64_t nodes = 0, weights = 0, weightElements = 0, weightBytes = 0;
};

std::string domainName(const std::string& domain) {
  return domain.empty() ? "ai.onnx" : domain;
}

Port portOf(const importer::ValueInfo& info) {
  Port port;
  port.name = info.name;
  const ElementType element = importer::elementOfOnnxType(info.dataType);
  port.type = element == ElementType::kInvalid ? importer::onnxTypeName(info.dataType) : elementTypeName(element);
  port.kind = info.isSequence   ? info.isOptional ? "optional sequence" : "sequence"
              : info.isOptional ? "optional"
              : info.isTensor   ? "tensor"
                                : "other";
  port.hasShape = info.hasShape;
  port.dims = info.shape;
  // As compilation names them.
  for (size_t i = 0; i < port.dims.size(); ++i)
    if (port.dims[i].size == kDynamic && port.dims[i].symbol.empty())
      port.dims[i].symbol = strCat(info.name, "_dim", i);
  return port;
}

void addWeights(const std::vector<importer::TensorData>& tensors, Findings& found) {
  for (const importer::TensorData& tensor : tensors) {
    ++found.weights;
    found.weightElements += numElements(tensor.type.shape);
    found.weightBytes += tensor.type.bytes();
  }
}

void addNodes(const std::vector<importer::NodeDef>& nodes, Findings& found) {
  for (const importer::NodeDef& node : nodes) {
    ++found.nodes;
    ++found.ops[{node.domain, node.op}].count;
    for (const importer::NodeAttribute& attribute : node.attributes) {
      if (attribute.kind == importer::NodeAttribute::Kind::kTensor && attribute.problem.empty())
        addWeights({attribute.tensor}, found);
      if (!attribute.graph) continue;
      addWeights(attribute.graph->initializers, found);
      addNodes(attribute.graph->nodes, found);
    }
  }
}

void addFreeDims(Findings& found) {
  std::set<std::string> seen;
  for (const Port& input : found.inputs)
    for (const importer::DimSpec& dim : input.dims)
      if (dim.size == kDynamic && !input.hasDefault && seen.insert(dim.symbol).second)
        found.freeDims.push_back(dim.symbol);
}

StatusOr<Findings> readOnnx(const std::string& path) {
  HPU_ASSIGN(const importer::OnnxModel model, importer::readOnnxModel(path));
  Findings found;
  found.isOnnx = true;
  found.irVersion = model.irVersion;
  found.producer = model.producer;
  found.opsets = model.opsets;
  std::set<std::string> initializers;
  for (const importer::TensorData& tensor : model.graph.initializers) initializers.insert(tensor.name);
  for (const importer::ValueInfo& input : model.graph.inputs) {
    found.inputs.push_back(portOf(input));
    found.inputs.back().hasDefault = initializers.count(input.name) != 0;
  }
  for (const importer::ValueInfo& output : model.graph.outputs) found.outputs.push_back(portOf(output));
  addWeights(model.graph.initializers, found);
  addNodes(model.graph.nodes, found);
  for (const importer::FunctionDef& function : model.functions) {
    found.functions.push_back(domainName(function.domain) + "." + function.name);
    addNodes(function.nodes, found);
  }
  addFreeDims(found);
  return found;
}

StatusOr<Findings> readMlir(const std::string& path) {
  HPU_ASSIGN(const Graph graph, importMlir(path));
  Findings found;
  const auto add = [](const std::vector<TensorInfo>& infos, std::vector<Port>& ports) {
    for (const TensorInfo& info : infos) {
      Port port;
      port.name = info.name;
      port.type = elementTypeName(info.type.element);
      port.hasShape = true;
      for (size_t i = 0; i < info.type.shape.size(); ++i)
        port.dims.push_back({info.type.shape[i], info.type.shape[i] == kDynamic ? strCat(info.name, "_dim", i) : ""});
      ports.push_back(std::move(port));
    }
  };
  add(graph.inputs(), found.inputs);
  add(graph.outputs(), found.outputs);
  addFreeDims(found);
  return found;
}

std::string shapeText(const Port& port) {
  if (!port.hasShape) return "not declared";
  std::string text;
  for (const importer::DimSpec& dim : port.dims)
    text += (text.empty() ? "" : "x") + (dim.size != kDynamic ? std::to_string(dim.size) : base::clipped(dim.symbol));
  return text.empty() ? "scalar" : text;
}

Json portsJson(const std::vector<Port>& ports) {
  Json list = Json::array();
  for (const Port& port : ports) {
    Json dims = Json::array();
    for (const importer::DimSpec& dim : port.dims) {
      if (dim.size != kDynamic)
        dims.append(dim.size);
      else
        dims.append(dim.symbol);
    }
    list.append(Json()
                    .set("name", port.name)
                    .set("type", port.type)
                    .set("kind", port.kind)
                    .set("dims", port.hasShape ? std::move(dims) : Json())
                    .set("has_default", port.hasDefault));
  }
  return list;
}

/// "1.82 G"
std::string countText(double value) {
  const char* units[] = {"", " K", " M", " G", " T", " P"};
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(units)) value /= 1000, ++unit;
  char text[48];
  snprintf(text, sizeof text, unit ? "%.2f%s" : "%.0f%s", value, units[unit]);
  return text;
}

void printPorts(Tool& tool, const char* title, const std::vector<Port>& ports) {
  Table table({Column::name(title), Column::word("type"), Column::name("shape"), Column::text("")});
  for (const Port& port : ports)
    table.row({base::clipped(port.name), port.type, shapeText(port),
               port.kind != "tensor" ? port.kind
               : port.hasDefault     ? "has a value where none is given"
                                     : ""});
  tool.printAlways(table);
  tool.printAlways("");
}

void printModel(Tool& tool, const std::string& path, const Findings& found) {
  std::string head = path + ": ";
  if (found.isOnnx) {
    head += strCat("ONNX, IR version ", found.irVersion);
    for (const auto& [domain, version] : found.opsets)
      head += strCat(", ", base::clipped(domainName(domain)), " opset ", version);
    if (!found.producer.empty()) head += ", from " + base::clipped(found.producer);
  } else {
    head += "MLIR";
  }
  tool.printAlways(head);
  tool.printAlways("");
  printPorts(tool, "input", found.inputs);
  printPorts(tool, "output", found.outputs);
  if (!found.freeDims.empty()) tool.printAlways("free dimensions: " + base::join(found.freeDims) + "\n");
  if (!found.isOnnx) return;
  Table table({Column::name("op"), Column::number("nodes"), Column::text("")});
  for (const auto& [name, op] : found.ops)
    table.row({name.first.empty() ? base::clipped(name.second) : base::clipped(name.first + "." + name.second),
               std::to_string(op.count),
               op.unsupported == 0         ? ""
               : op.unsupported < op.count ? strCat(op.unsupported, " of them are not supported")
                                           : "not supported"});
  tool.printAlways(table);
  tool.printAlways("");
  if (!found.functions.empty()) tool.printAlways("functions of its own: " + base::join(found.functions) + "\n");
  tool.printAlways(strCat(found.nodes, " nodes, ", found.weights, " constant tensors of ",
                          countText(static_cast<double>(found.weightElements)), " elements, ",
                          base::formatBytes(found.weightBytes)));
}

void setModel(Json& json, const std::string& path, const Findings& found) {
  json.set("model", path).set("format", found.isOnnx ? "onnx" : "mlir");
  json.set("inputs", portsJson(found.inputs)).set("outputs", portsJson(found.outputs));
  Json& free = json["free_dims"] = Json::array();
  for (const std::string& name : found.freeDims) free.append(name);
  if (!found.isOnnx) return;
  json.set("ir_version", found.irVersion).set("producer", found.producer);
  Json& opsets = json["opsets"] = Json::object();
  for (const auto& [domain, version] : found.opsets) opsets.set(domainName(domain), version);
  Json& functions = json["functions"] = Json::array();
  for (const std::string& name : found.functions) functions.append(name);
  Json& ops = json["ops"] = Json::array();
  for (const auto& [name, op] : found.ops)
    ops.append(Json()
                   .set("domain", domainName(name.first))
                   .set("op", name.second)
                   .set("count", op.count)
                   .set("unsupported", op.unsupported));
  json.set("nodes", found.nodes);
  json.set("weights",
           Json().set("tensors", found.weights).set("elements", found.weightElements).set("bytes", found.weightBytes));
}

void reportCompiled(Tool& tool, const CompileResult& result, const CompileOptions& options) {
  const CompileStats& stats = result.stats;
  char time[96];
  snprintf(time, sizeof time, "%.1f us (lower bound %.1f us)", stats.deviceTimeUs, stats.lowerBoundUs);
  const std::string target(targetName(options.target));
  tool.printAlways(strCat("compiles for ", target));
  // Of sizes within bounds, each launch has its own.
  const bool isLate = !options.dimBounds.empty();
  if (!isLate)
    tool.printAlways(strCat("  multiply-accumulates of its products and convolutions: ",
                            countText(static_cast<double>(stats.macs))));
  tool.printAlways(strCat("  expected device time: ", time, ", by the performance model of ", target,
                          "; no device was measured", isLate ? " (at the sizes for which units are cut)" : ""));
  tool.printAlways(strCat("  workspace ", base::formatBytes(stats.workspaceBytes)));
  tool.json()
      .set("target", target)
      .set("macs", isLate ? Json() : Json(stats.macs))
      .set("device_time_us", stats.deviceTimeUs)
      .set("device_time_source", "performance model of " + target)
      .set("lower_bound_us", stats.lowerBoundUs)
      .set("workspace_bytes", stats.workspaceBytes)
      .set("compile_ms", stats.compileMs);
}

}  // namespace

StatusOr<ExitCode> inspectModel(Tool& tool, const std::string& path, CompileOptions options) {
  StatusOr<Findings> read = base::isMlirPath(path) ? readMlir(path) : readOnnx(path);
  if (!read.ok()) return read.status();
  Findings& found = *read;
  options.cacheDir.clear();  // Recipes do not say all that is asked here.
  options.onPhase = [&](const PhaseInfo& phase) { tool.step("  " + phase.name); };
  std::vector<UnsupportedNode> unsupported;
  const StatusOr<CompileResult> result = compileFile(path, options, &unsupported);
  if (!result.ok() && result.status().code() == StatusCode::kCancelled) return result.status();
  std::set<std::string> counted;
  for (const UnsupportedNode& node : unsupported)
    if (auto op = found.ops.find({node.domain, node.op}); op != found.ops.end() && counted.insert(node.node).second)
      ++op->second.unsupported;
  printModel(tool, path, found);
  setModel(tool.json(), path, found);
  tool.json().set("compiles", result.ok()).set("unsupported", unsupportedJson(unsupported));
  if (result.ok()) {
    reportCompiled(tool, *result, options);
    return ExitCode::kOk;
  }
  const std::string why = base::inWordsOf(base::Reader::kCommandLine, result.status().message());
  const bool lacksSizes =
      unsupported.empty() && !found.freeDims.empty() && result.status().code() == StatusCode::kInvalidArgument;
  tool.json().set("reason", why).set("needs_sizes", lacksSizes);
  if (!unsupported.empty()) {
    tool.printAlways(strCat("does not compile: ", unsupported.size(),
                            unsupported.size() == 1 ? " node is not supported\n" : " nodes are not supported\n"));
    tool.printAlways(unsupportedTable(unsupported) + unsupportedDetails(unsupported));
  } else {
    tool.printAlways(strCat(lacksSizes ? "needs sizes for MACs and device time: " : "does not compile: ", why));
  }
  return ExitCode::kOk;
}

}  // namespace hpu::tools
