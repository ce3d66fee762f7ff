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
#include "tools/common/TensorProtoIo.h"

namespace hpu::tools {
namespace {

/// "[batch, 8]"; "[?, 8]" for a free dimension without a name.
std::string declared(const importer::OutlineInput& input) {
  std::string text;
  for (const importer::OutlineDim& dim : input.dims)
    text += (text.empty() ? "" : ", ") + (dim.size ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol);
  return "[" + text + "]";
}

struct DeclaredInput : importer::OutlineInput {
  ElementType element = ElementType::kInvalid;  ///< kInvalid: not told.
  /// With free dimensions as such.
  TensorInfo info() const {
    TensorInfo info;
    info.name = name;
    info.type.element = element;
    for (const importer::OutlineDim& dim : dims) info.type.shape.push_back(dim.size ? dim.size : kDynamic);
    return info;
  }
};
struct DeclaredInputs {
  std::vector<DeclaredInput> inputs;
  bool free = false;   ///< One has a free dimension.
  bool exact = false;  ///< No input is free, and all that tensors have to agree with is told.
};

/// The declared inputs; none when they cannot be told.
DeclaredInputs inputsOf(const std::string& model) {
  DeclaredInputs declared;
  if (base::isMlirPath(model)) {
    StatusOr<Graph> graph = importMlir(model);
    if (!graph.ok()) return {};  // What is wrong with the model is told by the compilation.
    for (const TensorInfo& input : graph->inputs()) {
      DeclaredInput& one = declared.inputs.emplace_back();
      one.name = input.name;
      one.isTensor = one.hasShape = true;
      one.element = input.type.element;
      for (int64_t size : input.type.shape) one.dims.push_back({size == kDynamic ? 0 : size, ""});
      declared.free |= numElements(input.type.shape) == kDynamic;
    }
  } else {
    auto file = base::MappedFile::open(model);
    if (!file.ok()) return {};
    importer::OnnxOutline outline = importer::outlineOnnx((*file)->data(), (*file)->size());
    if (!outline.complete) return {};
    declared.free = outline.freeInputs;
    for (importer::OutlineInput& input : outline.inputs) {
      DeclaredInput& one = declared.inputs.emplace_back();
      one.element = elementOfDataType(input.dataType);
      static_cast<importer::OutlineInput&>(one) = std::move(input);
    }
  }
  declared.exact = !declared.free;
  for (const DeclaredInput& input : declared.inputs)
    declared.exact &= input.isTensor && input.hasShape && input.element != ElementType::kInvalid;
  return declared;
}

/// Of a model without free dimensions: all that is found wrong with the inputs when the model is compiled.
Status checkExact(const std::vector<DeclaredInput>& declared, const std::vector<DataSet>& data,
                  const std::vector<std::string>& texts) {
  std::vector<TensorInfo> infos;
  for (const DeclaredInput& input : declared) infos.push_back(input.info());
  for (const DataSet& set : data)
    HPU_RETURN_IF_ERROR(matchInputs(infos, set.inputs, "'" + set.folder + "'", set.byName).status());
  std::vector<std::string> named;
  for (const std::string& text : texts) {
    HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
    if (!spec.name.empty()) named.push_back(spec.name);
  }
  for (const std::string& text : texts) {
    HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
    for (TensorInfo info : infos) {
      if (spec.name.empty() ? std::find(named.begin(), named.end(), info.name) != named.end() : spec.name != info.name)
        continue;
      // Numbers for all of it are made when they are needed; their source is checked by one.
      if (spec.source[0] != '@') info.type.shape = {1};
      HPU_RETURN_IF_ERROR(tensorFrom(spec, info).status());
    }
  }
  return okStatus();
}

/// Gives the input the sizes of a tensor from `where`.
Status takeShape(const DeclaredInput& input, const HostTensor& tensor, const std::string& where,
                 CompileOptions& options) {
  const Shape& shape = tensor.type.shape;
  const std::string holds = base::strCat(where, " has ", tensor.type.toString());
  if (!input.isTensor) return okStatus();  // The compilation refuses it.
  bool fits = !input.hasShape || shape.size() == input.dims.size();
  if (input.element != ElementType::kInvalid && input.element != tensor.type.element)
    return invalidArgument(base::strCat("the input '", input.name, "' is ", elementTypeName(input.element), " ",
                                        declared(input), ", but ", holds));
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
  if (nodes.empty()) return status;
  const std::string details = unsupportedDetails(nodes);
  if (nodes.size() < 2 || lines != nodes.size()) return Status(status.code(), status.message() + details);
  std::string table = unsupportedTable(nodes);
  while (table.ends_with('\n')) table.pop_back();
  return Status(status.code(), base::strCat("'", model, "': ", nodes.size(),
                                            " nodes are not supported "
                                            "(hpu-compile --list-ops shows what is)\n",
                                            table, "\n", details));
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
  const DeclaredInputs declared = inputsOf(model);
  const std::vector<DeclaredInput>& wanted = declared.inputs;
  if (wanted.empty()) return okStatus();
  std::vector<std::string> names;
  for (const DeclaredInput& input : wanted) names.push_back(input.name);
  if (!declared.free) {
    HPU_RETURN_IF_ERROR(checkInputNames(inputs, names));
    return declared.exact ? checkExact(wanted, data, inputs) : okStatus();
  }
  // With bounds the recipe takes the sizes of files when it runs.
  const bool isOpen = !options.dimBounds.empty();
  if (!data.empty()) {
    if (isOpen) return okStatus();
    const std::string where = "'" + data.front().folder + "'";
    HPU_ASSIGN(std::vector<const HostTensor*> tensors,
               selectInputs(names, data.front().inputs, where, data.front().byName));
    for (size_t k = 0; k < wanted.size(); ++k) HPU_RETURN_IF_ERROR(takeShape(wanted[k], *tensors[k], where, options));
    return okStatus();
  }
  HPU_RETURN_IF_ERROR(checkInputNames(inputs, names));
  if (isOpen) return okStatus();
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
