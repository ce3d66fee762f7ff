// SPDX-License-Identifier: Apache-2.0
#include "tools/common/ModelFile.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/Format.h"
#include "base/MappedFile.h"
#include "base/ModelPath.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/import/OnnxOutline.h"
#include "tools/common/CompileFigures.h"
#include "tools/common/CompileFlags.h"
#include "tools/common/Npy.h"

namespace hpu::tools {
namespace {

/// "[batch, 8]"; "[?, 8]" for a free dimension without a name.
std::string declared(const importer::OutlineInput& input) {
  std::string text;
  for (const importer::OutlineDim& dim : input.dims)
    text += (text.empty() ? "" : ", ") + (dim.size ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol);
  return "[" + text + "]";
}

/// The declared inputs; nothing when they cannot be told, or all have definite sizes.
std::vector<importer::OutlineInput> freeInputsOf(const std::string& model) {
  if (base::isMlirPath(model)) {
    StatusOr<Graph> graph = importMlir(model);
    if (!graph.ok()) return {};  // What is wrong with the model is told by the compilation.
    std::vector<importer::OutlineInput> inputs;
    bool anyFree = false;
    for (const TensorInfo& input : graph->inputs()) {
      importer::OutlineInput& one = inputs.emplace_back(importer::OutlineInput{input.name, true, true, {}});
      for (int64_t size : input.type.shape) one.dims.push_back({size == kDynamic ? 0 : size, ""});
      anyFree |= numElements(input.type.shape) == kDynamic;
    }
    return anyFree ? inputs : std::vector<importer::OutlineInput>();
  }
  auto file = base::MappedFile::open(model);
  if (!file.ok()) return {};
  importer::OnnxOutline outline = importer::outlineOnnx((*file)->data(), (*file)->size());
  return outline.complete && outline.freeInputs ? outline.inputs : std::vector<importer::OutlineInput>();
}

/// Gives the input the sizes of a tensor from `where`.
Status takeShape(const importer::OutlineInput& input, const HostTensor& tensor, const std::string& where,
                 CompileOptions& options) {
  const Shape& shape = tensor.type.shape;
  const std::string holds = base::strCat(where, " has ", tensor.type.toString());
  if (!input.isTensor) return okStatus();  // The compilation refuses it.
  bool fits = !input.hasShape || shape.size() == input.dims.size();
  for (size_t d = 0; fits && d < input.dims.size(); ++d) fits = !input.dims[d].size || input.dims[d].size == shape[d];
  if (!fits) return invalidArgument(base::strCat("the input '", input.name, "' is ", declared(input), ", but ", holds));
  if (auto given = options.shapes.find(input.name); given != options.shapes.end()) {
    bool same = given->second.size() == shape.size();
    for (size_t d = 0; same && d < shape.size(); ++d)
      same = given->second[d] == kDynamic || given->second[d] == shape[d];
    if (!same)
      return invalidArgument(base::strCat("--shape ", input.name, "=", shapeToString(given->second), ", but ", holds));
  }
  for (size_t d = 0; d < input.dims.size(); ++d)
    if (auto dim = options.dims.find(input.dims[d].symbol);
        !input.dims[d].size && dim != options.dims.end() && dim->second != shape[d])
      return invalidArgument(base::strCat("--dim ", dim->first, "=", dim->second, ", but ", holds, " for the input '",
                                          input.name, "' ", declared(input)));
  options.shapes[input.name] = shape;
  return okStatus();
}

/// Several unsupported nodes as one table, when the failure is nothing else.
Status withTable(const Status& status, const std::string& model, const std::vector<UnsupportedNode>& nodes) {
  size_t lines = std::count(status.message().begin(), status.message().end(), '\n');
  if (nodes.size() < 2 || lines != nodes.size()) return status;
  return Status(status.code(), base::strCat("'", model, "': ", nodes.size(),
                                            " nodes are not supported "
                                            "(hpu-compile --list-ops shows what is)\n",
                                            unsupportedTable(nodes)));
}

}  // namespace

Status protectModel(Tool& tool, const std::string& model) {
  HPU_RETURN_IF_ERROR(tool.reads(model));
  if (base::isMlirPath(model)) return okStatus();
  auto file = base::MappedFile::open(model);
  if (!file.ok()) return okStatus();  // Told by the compilation.
  const std::filesystem::path folder = std::filesystem::path(model).parent_path();
  for (const std::string& name : importer::outlineOnnx((*file)->data(), (*file)->size()).externalFiles)
    HPU_RETURN_IF_ERROR(tool.reads((folder / name).string()));
  return okStatus();
}

Status takeShapesFrom(const std::string& model, const std::vector<DataSet>& data,
                      const std::vector<std::string>& inputs, CompileOptions& options) {
  if (data.empty() && inputs.empty()) return okStatus();
  const std::vector<importer::OutlineInput> wanted = freeInputsOf(model);
  if (wanted.empty()) return okStatus();
  std::vector<std::string> names;
  for (const importer::OutlineInput& input : wanted) names.push_back(input.name);
  if (!data.empty()) {
    const std::string where = "'" + data.front().folder + "'";
    HPU_ASSIGN(std::vector<const HostTensor*> tensors,
               selectInputs(names, data.front().inputs, where, data.front().byName));
    for (size_t k = 0; k < wanted.size(); ++k) HPU_RETURN_IF_ERROR(takeShape(wanted[k], *tensors[k], where, options));
    return okStatus();
  }
  HPU_RETURN_IF_ERROR(checkInputNames(inputs, names));
  for (const std::string& text : inputs) {
    HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
    if (spec.source[0] != '@' || (spec.name.empty() && wanted.size() != 1)) continue;
    auto input = std::find(names.begin(), names.end(), spec.name);
    if (spec.name.empty()) input = names.begin();
    const std::string path = spec.source.substr(1);
    HPU_ASSIGN(HostTensor tensor, readTensorFile(path));
    HPU_RETURN_IF_ERROR(takeShape(wanted[input - names.begin()], tensor, "'" + path + "'", options));
  }
  return okStatus();
}

StatusOr<CompileResult> compileWithProgress(Tool& tool, const std::string& model, CompileOptions options) {
  options.onPhase = [&](const PhaseInfo& phase) {
    char head[64];
    snprintf(head, sizeof head, "  %-10s %8.1f ms  ", phase.name.c_str(), phase.ms);
    tool.step(head + phase.summary);
  };
  std::vector<UnsupportedNode> unsupported;
  StatusOr<CompileResult> result = compileFile(model, options, &unsupported);
  if (!result.ok()) {
    tool.json().set("unsupported", unsupportedJson(unsupported));
    return withTable(result.status(), model, unsupported);
  }
  for (const std::string& warning : result->warnings) tool.note(base::inWordsOf(base::Reader::kCommandLine, warning));
  return result;
}

}  // namespace hpu::tools
