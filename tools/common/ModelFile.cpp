// SPDX-License-Identifier: Apache-2.0
#include "tools/common/ModelFile.h"

#include <algorithm>
#include <cstdio>

#include "base/Format.h"
#include "base/MappedFile.h"
#include "base/StatusMacros.h"
#include "compiler/import/OnnxOutline.h"
#include "tools/common/CompileFlags.h"
#include "tools/common/Npy.h"

namespace hpu::tools {
namespace {

bool isFree(const TensorInfo& input) {
  return numElements(input.type.shape) == kDynamic;
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

Status takeShapesFrom(const std::string& model, const std::vector<DataSet>& data,
                      const std::vector<std::string>& inputs, CompileOptions& options) {
  bool known = !options.shapes.empty() || !options.dims.empty();
  if (known || (data.empty() && inputs.empty()) || model.ends_with(".mlir") || model.ends_with(".mlirbc"))
    return okStatus();
  // Most models have no free dimension; that is seen without reading their weights.
  if (auto file = base::MappedFile::open(model); file.ok()) {
    importer::OnnxOutline outline = importer::outlineOnnx((*file)->data(), (*file)->size());
    if (outline.complete && !outline.freeInputs) return okStatus();
  }
  StatusOr<Graph> graph = importOnnx(model);
  // What is wrong with the model is told by the compilation.
  if (!graph.ok()) return okStatus();
  std::vector<TensorInfo> wanted = graph->inputs();
  if (std::none_of(wanted.begin(), wanted.end(), isFree)) return okStatus();
  if (!data.empty()) {
    HPU_ASSIGN(std::vector<HostTensor> tensors,
               matchInputs(wanted, data.front().inputs, "'" + data.front().folder + "'"));
    for (const HostTensor& tensor : tensors) options.shapes[tensor.name] = tensor.type.shape;
    return okStatus();
  }
  for (const std::string& text : inputs) {
    HPU_ASSIGN(InputSpec spec, parseInputSpec(text));
    if (spec.name.empty() || spec.source[0] != '@') continue;
    HPU_ASSIGN(HostTensor tensor, readTensorFile(spec.source.substr(1)));
    options.shapes[spec.name] = tensor.type.shape;
  }
  return okStatus();
}

StatusOr<CompileResult> compileWithProgress(Tool& tool, const std::string& model, CompileOptions options) {
  bool showsPhases = tool.showsProgress() || tool.verbose();
  options.onPhase = [&](const PhaseInfo& phase) {
    if (showsPhases) fprintf(stderr, "  %-10s %8.1f ms  %s\n", phase.name.c_str(), phase.ms, phase.summary.c_str());
  };
  std::vector<UnsupportedNode> unsupported;
  StatusOr<CompileResult> result = compileFile(model, options, &unsupported);
  if (!result.ok()) {
    tool.json().set("unsupported", unsupportedJson(unsupported));
    return withTable(result.status(), model, unsupported);
  }
  for (const std::string& warning : result->warnings) tool.note(warning);
  return result;
}

}  // namespace hpu::tools
