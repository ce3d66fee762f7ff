// SPDX-License-Identifier: Apache-2.0
// Entry points: compilation and shape inference.
// The one thing to know: equal structures are compiled once in a process, and recipes of eager graphs are looked
// up by their structure without names.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "arch/TargetDesc.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/api/EntryPoint.h"
#include "bindings/synapse/graph/CompilerLibrary.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/Describe.h"
#include "bindings/synapse/graph/DynamicStrides.h"
#include "bindings/synapse/graph/FoldConstants.h"
#include "bindings/synapse/graph/GuidList.h"
#include "bindings/synapse/graph/HostValues.h"
#include "bindings/synapse/graph/SectionUse.h"
#include "bindings/synapse/graph/Tables.h"
#include "bindings/synapse/recipe/ProgramCache.h"
#include "bindings/synapse/recipe/RecipeObject.h"

namespace hpu::synapse {
namespace {

using base::strCat;

/// The file that synGraphCompile is given, or nothing.
class BuildLog {
 public:
  Result open(const char* path) {
    if (!path || !*path) return {};
    file_.open(path, std::ios::trunc);
    if (!file_) return badArgument(strCat("cannot write the build log '", path, "': ", base::errnoText(errno)));
    return {};
  }
  void line(const std::string& text) {
    if (!file_.is_open() || text.empty()) return;
    file_ << text;
    if (text.back() != '\n') file_ << '\n';
    file_.flush();
  }

 private:
  std::ofstream file_;
};

/// While a graph compiles it takes no changes; a failed compilation gives it back.
class CompileClaim {
 public:
  explicit CompileClaim(GraphObject& graph) : graph_(graph) {}
  ~CompileClaim() {
    if (!taken_ || done_) return;
    std::lock_guard lock(graph_.mutex);
    graph_.compiled = false;
  }
  Result take(DescribedGraph& described) {
    std::lock_guard lock(graph_.mutex);
    if (graph_.compiled)
      return {synResourceBadUsage, "the graph was compiled already; synGraphDuplicate before that copies it"};
    if (graph_.nodes.empty()) return badArgument("the graph has no nodes");
    HPU_ASSIGN(described, describe(graph_));
    graph_.compiled = taken_ = true;
    return {};
  }
  void done() { done_ = true; }

 private:
  GraphObject& graph_;
  bool taken_ = false, done_ = false;
};

bool isPersistent(const GraphDescription& graph, const TensorDescription& tensor) {
  return tensor.section != kNoSection && graph.sections[tensor.section].persistent;
}

/// The value of a tensor in a const section, in the device's type.
struct ConstValue {
  TensorDescription* tensor = nullptr;
  std::vector<std::byte> bytes;
};

StatusOr<std::vector<ConstValue>> constValues(GraphDescription& graph) {
  std::vector<ConstValue> values;
  const auto hbm = static_cast<uint64_t>(arch::targetDesc(graph.target).hbmBytes);
  for (TensorDescription& tensor : graph.tensors) {
    if (!tensor.hostData || !isPersistent(graph, tensor) || !graph.sections[tensor.section].isConst) continue;
    auto bytes = convertValues(*tensor.hostData, tensor.hostType, tensor.dataType, graph.target);
    if (!bytes.ok()) return bytes.status().withContext(strCat("tensor '", tensor.name, "'"));
    if (std::min(maxBytes(tensor), hbm) == maxBytes(tensor))
      *bytes = memoryImage(tensor, tensor.maxSizes, std::move(*bytes));
    if (bytes->size() > hbm || tensor.sectionOffset > hbm - bytes->size())
      return invalidArgument(strCat("tensor '", tensor.name, "' has ", bytes->size(), " bytes at offset ",
                                    tensor.sectionOffset, " of const section ", graph.sections[tensor.section].id,
                                    ", and ", targetName(graph.target), " has ",
                                    base::formatBytes(static_cast<int64_t>(hbm)), " of HBM"));
    values.push_back({&tensor, std::move(*bytes)});
  }
  return values;
}

/// Takes the values of const sections out of the description: the user uploads them, as ordinary inputs.
StatusOr<std::vector<ConstSection>> takeConstSections(GraphDescription& graph) {
  HPU_ASSIGN(std::vector<ConstValue> values, constValues(graph));
  std::vector<ConstSection> constants;
  auto find = [&](uint32_t section) {
    return std::find_if(constants.begin(), constants.end(),
                        [&](const ConstSection& entry) { return entry.section == section; });
  };
  for (const auto& [tensor, bytes] : values) {
    auto at = find(tensor->section);
    if (at == constants.end()) at = constants.insert(at, ConstSection{tensor->section, 0, {}, false});
    at->bytes = std::max<uint64_t>(at->bytes, tensor->sectionOffset + bytes.size());
  }
  for (ConstSection& entry : constants) {
    StatusOr<HostBytes> data = HostBytes::zeroed(entry.bytes);
    if (!data.ok()) return data.status().withContext(strCat("const section ", graph.sections[entry.section].id));
    entry.data = std::move(*data);
  }
  for (const auto& [tensor, bytes] : values) {
    std::copy(bytes.begin(), bytes.end(), find(tensor->section)->data.data() + tensor->sectionOffset);
    tensor->hostData = nullptr;
    tensor->hostType = 0;
  }
  return constants;
}

/// Whether shape inference must say something of a tensor that launches name.
bool needsInference(const GraphDescription& graph) {
  return std::any_of(graph.tensors.begin(), graph.tensors.end(), [&](const TensorDescription& tensor) {
    return isPersistent(graph, tensor) && (tensor.maxSizes.empty() || !tensor.dataType);
  });
}

Result checkPersistent(const GraphDescription& graph) {
  std::set<std::string_view> names;
  for (const TensorDescription& tensor : graph.tensors) {
    if (!isPersistent(graph, tensor)) continue;
    if (tensor.maxSizes.empty())
      return {synInvalidTensorProperties, strCat("persistent tensor '", tensor.name, "' has no sizes")};
    if (!tensor.dataType)
      return {synInvalidTensorProperties, strCat("persistent tensor '", tensor.name, "' has no data type")};
    if (!names.insert(tensor.name).second)
      return {synNameIsAlreadyUsed, strCat("two persistent tensors are named '", tensor.name, "'")};
  }
  return {};
}

/// As programs want it that lay out their tensors for the largest sizes.
Result layOutForLargest(GraphDescription& graph) {
  HPU_ASSIGN(bool isDense, settings::getBool(Setting::GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS));
  if (!isDense) strideByLargest(graph);
  return {};
}

/// That nodes which use the same bytes of a section have an order, unless the program wants to do without the check.
Result checkOverlaps(const GraphDescription& graph) {
  if (graph.nodes.size() < 2) return {};
  HPU_ASSIGN(bool checked, settings::getBool(Setting::CHECK_SECTION_OVERLAP_CHECK));
  if (!checked) return {};
  Status status = checkSectionOrder(graph);
  return status.ok() ? Result() : Result(synInvalidSectionsDefinition, status.message());
}

/// Whether an eager graph may share its program with graphs of other sizes: all that it has are plain tensors.
bool mayShareSizes(const DescribedGraph& described) {
  auto isPlain = [](const TensorDescription& tensor) {
    return (tensor.type == DATA_TENSOR || tensor.type == DATA_TENSOR_DYNAMIC) && tensor.permutation.empty() &&
           !hasStrides(tensor);
  };
  const std::vector<TensorDescription>& tensors = described.graph.tensors;
  return described.graph.eager && !described.dynamic && std::all_of(tensors.begin(), tensors.end(), isPlain);
}

/// The program of all eager graphs that differ in sizes only, with what launches of this one say; null where there is
/// none for it.
std::shared_ptr<SizedProgram> sharedProgram(const DescribedGraph& described) {
  const GraphDescription& graph = described.graph;
  const base::Hash128 key = structureKey(graph, /*names=*/false, described.valueHashes, /*sizes=*/false);
  std::shared_ptr<Program> program = ProgramCache::get().find(key);
  if (!program && !ProgramCache::get().isRefused(key)) {
    StatusOr<CompileRequest> request = compileRequest();
    if (!request.ok()) return nullptr;
    request->freeSizes = CompileRequest::FreeSizes::kAll;
    StatusOr<CompiledGraph> compiled = compileWithLibrary(graph, *request);
    if (compiled.ok() && !compiled->freeDims.empty())
      if (auto made = Program::create(std::move(*compiled), graph, /*compiledHere=*/true); made.ok())
        program = std::move(*made);
    if (program)
      ProgramCache::get().insert(key, program, /*keep=*/true);
    else
      ProgramCache::get().refuse(key);
  }
  if (!program) return nullptr;
  StatusOr<std::vector<Shape>> shapes = launchShapes(*program, graph, {});
  if (!shapes.ok()) return nullptr;
  auto sized = std::make_shared<SizedProgram>();
  sized->program = std::move(program);
  sized->shapes = std::move(*shapes);
  return sized;
}

/// Kernels for other CPUs can be compiled when the recipe is written to a file, for which its values are kept: few
/// bytes, as weights are inputs or const sections.
bool mayCompileForThisCpu(const GraphDescription& graph, const CompileRequest& request) {
  constexpr size_t kMostKeptBytes = size_t{4} << 20;
  if (graph.eager || !request.cacheDir.empty()) return false;
  size_t bytes = 0;
  for (const TensorDescription& tensor : graph.tensors) bytes += tensor.hostData ? tensor.hostData->size() : 0;
  return bytes <= kMostKeptBytes;
}

/// `sized`: what launches run, where programFor knows.
StatusOr<std::shared_ptr<Program>> programFor(const DescribedGraph& described, std::shared_ptr<SizedProgram>& sized) {
  const GraphDescription& graph = described.graph;
  base::Hash128 key = structureKey(graph, !graph.eager, described.valueHashes);
  if (auto known = ProgramCache::get().find(key)) return known;
  if (mayShareSizes(described)) {
    sized = ProgramCache::get().findSized(key);
    if (!sized && (sized = sharedProgram(described))) ProgramCache::get().insertSized(key, sized);
    if (sized) return sized->program;
  }
  HPU_ASSIGN(CompileRequest request, compileRequest());
  if (described.dynamic) request.freeSizes = CompileRequest::FreeSizes::kBounded;
  request.thisCpuOnly = mayCompileForThisCpu(graph, request);
  HPU_ASSIGN(CompiledGraph compiled, compileWithLibrary(graph, request));
  HPU_ASSIGN(std::shared_ptr<Program> program,
             request.thisCpuOnly ? Program::createForThisCpu(std::move(compiled), graph)
                                 : Program::create(std::move(compiled), graph, /*compiledHere=*/true));
  ProgramCache::get().insert(key, program, graph.eager);
  return program;
}

/// What shape inference found is what the recipe says of its tensors.
void adoptSizes(const Program& program, GraphDescription& graph) {
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    TensorDescription& tensor = graph.tensors[i];
    // Those of a program that other sizes share are of the graph that it was made for.
    if (tensor.maxSizes.empty() && !(program.isFree() && graph.eager))
      tensor.maxSizes = tensor.minSizes = program.sizes()[i];
  }
}

/// A recipe of fixed sizes is never compiled again, so that its constants can go.
void dropValues(GraphDescription& graph, bool dynamic) {
  for (const TensorDescription& tensor : graph.tensors) dynamic |= tensor.type == HOST_TO_DEVICE_TENSOR;
  if (dynamic) return;
  for (TensorDescription& tensor : graph.tensors) tensor.hostData = nullptr;
}

Result compile(DescribedGraph& described, std::shared_ptr<RecipeObject>& recipe) {
  GraphDescription& graph = described.graph;
  if (needsInference(graph)) HPU_RETURN_IF_ERROR(inferWithLibrary(graph));
  SYN_RETURN_IF_ERROR(checkPersistent(graph));
  SYN_RETURN_IF_ERROR(layOutForLargest(graph));
  SYN_RETURN_IF_ERROR(checkOverlaps(graph));
  foldConstants(graph);
  HPU_ASSIGN(std::vector<ConstSection> constants, takeConstSections(graph));
  std::shared_ptr<SizedProgram> sized;
  HPU_ASSIGN(std::shared_ptr<Program> program, programFor(described, sized));
  adoptSizes(*program, graph);
  dropValues(graph, described.dynamic);
  HPU_ASSIGN(recipe,
             RecipeObject::create(std::move(graph), std::move(constants), std::move(program), std::move(sized)));
  return {};
}

std::string summaryOf(const GraphDescription& graph) {
  return strCat("graph '", graph.name, "' for ", targetName(graph.target), ": ", graph.nodes.size(), " nodes, ",
                graph.tensors.size(), " tensors, ", graph.sections.size(), " sections");
}

/// What was asked for and is not done, for the build log. Matrix products and convolutions do compute in the precision
/// asked for, when it is a 16-bit float (NodeContext::productType).
std::string hintsOf(const GraphDescription& graph) {
  auto isApplied = [](const NodeDescription& node) {
    const DataTypeInfo* asked = findDataType(node.precision);
    if (!asked || (asked->element != ElementType::kBF16 && asked->element != ElementType::kF16)) return false;
    StatusOr<ParsedGuid> guid = parseGuid(node.guid);
    if (!guid.ok()) return false;
    std::string_view name = guid->info->name;
    return name.find("gemm") != name.npos || name.starts_with("spatial_convolution") || name.starts_with("dedx") ||
           name.starts_with("dedw") || name == "einsum";
  };
  for (const NodeDescription& node : graph.nodes)
    if (node.precision && !isApplied(node))
      return strCat("note: synNodeTypeSetPrecision is not applied: node '", node.name, "' (", node.guid,
                    ") computes in the types of its tensors");
  return {};
}

std::string summaryOf(const RecipeObject& recipe) {
  const Program& program = *recipe.program();
  return strCat("compiled: ", program.recipeBytes(), " bytes of recipe, ", recipe.workspaceBytes(), " of workspace, ",
                program.inputs().size(), " inputs, ", program.outputs().size(), " outputs, ",
                base::formatNs(static_cast<int64_t>(program.recipe().estimatedDeviceTimeUs() * 1000)),
                " of modelled device time");
}

/// Sizes and types that were not given are those that were inferred.
void adoptInferred(const TensorDescription& from, TensorObject& to) {
  std::lock_guard lock(to.mutex);
  TensorProperties& tensor = to.properties;
  if (!from.maxSizes.empty() && (tensor.maxSizes != from.maxSizes || !tensor.dims)) {
    tensor.maxSizes = from.maxSizes;
    tensor.minSizes = from.minSizes;
    tensor.hasMin = from.minSizes != from.maxSizes;
    tensor.dims = static_cast<uint32_t>(from.maxSizes.size());
    tensor.set |= synTensorPropGeometryMax | synTensorPropGeometryDim;
  }
  if (!tensor.dataType && from.dataType) {
    tensor.dataType = static_cast<synDataType>(from.dataType);
    tensor.set |= synTensorPropDeviceDataType;
  }
}

}  // namespace
}  // namespace hpu::synapse

using namespace hpu::synapse;

synStatus SYN_API_CALL synGraphCompile(synRecipeHandle* pRecipeHandle, const synGraphHandle graphHandle,
                                       const char* pRecipeName, const char* pBuildLog) {
  return guardedCreate("synGraphCompile", pRecipeHandle, [&]() -> Result {
    SYN_REQUIRE(pRecipeHandle);
    SYN_FIND(graph, graphs(), graphHandle);
    BuildLog log;
    SYN_RETURN_IF_ERROR(log.open(pBuildLog));
    CompileClaim claim(*graph);
    DescribedGraph described;
    SYN_RETURN_IF_ERROR(claim.take(described));
    if (pRecipeName) described.graph.name.assign(pRecipeName, strnlen(pRecipeName, 4096));
    if (pBuildLog) log.line(summaryOf(described.graph));
    if (pBuildLog) log.line(hintsOf(described.graph));
    std::shared_ptr<RecipeObject> recipe;
    Result result = compile(described, recipe);
    if (!result.ok()) {
      log.line(hpu::base::strCat("failed: ", result.text()));
      return result;
    }
    if (pBuildLog) {
      log.line(recipe->program()->log());
      log.line(summaryOf(*recipe));
    }
    claim.done();
    *pRecipeHandle = recipes().insert(std::move(recipe));
    return {};
  });
}

synStatus SYN_API_CALL synGraphInferShapes(synGraphHandle graphHandle) {
  return guarded("synGraphInferShapes", [&]() -> Result {
    SYN_FIND(graph, graphs(), graphHandle);
    DescribedGraph described;
    {
      std::lock_guard lock(graph->mutex);
      if (graph->compiled) return {synResourceBadUsage, "the graph was compiled; its shapes are fixed"};
      HPU_ASSIGN(described, describe(*graph));
    }
    HPU_RETURN_IF_ERROR(inferWithLibrary(described.graph));
    for (size_t i = 0; i < described.tensors.size(); ++i)
      adoptInferred(described.graph.tensors[i], *described.tensors[i]);
    return {};
  });
}
