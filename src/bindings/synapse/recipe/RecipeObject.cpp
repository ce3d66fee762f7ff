// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/recipe/RecipeObject.h"

#include <algorithm>
#include <cstring>

#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/CompilerLibrary.h"
#include "bindings/synapse/graph/Describe.h"
#include "bindings/synapse/graph/ValueBounds.h"
#include "hpu/executable.h"

namespace hpu::synapse {
namespace {

uint64_t nextRecipeId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool isPersistent(const GraphDescription& graph, const TensorDescription& tensor) {
  return tensor.section != kNoSection && graph.sections[tensor.section].persistent;
}

}  // namespace

Handles<RecipeObject, synRecipeHandle>& recipes() {
  static auto* table = new Handles<RecipeObject, synRecipeHandle>(HandleKind::kRecipe);
  return *table;
}

StatusOr<CompileRequest> compileRequest() {
  CompileRequest request;
  HPU_ASSIGN(request.cacheDir, settings::getString(Setting::HPU_CACHE));
  return request;
}

StatusOr<std::shared_ptr<RecipeObject>> RecipeObject::create(GraphDescription graph,
                                                             std::vector<ConstSection> constants,
                                                             std::shared_ptr<Program> program,
                                                             std::shared_ptr<SizedProgram> usual) {
  for (const TensorDescription& tensor : graph.tensors)
    if (isPersistent(graph, tensor) && tensor.sectionOffset > UINT64_MAX - maxBytes(tensor))
      return dataLoss(base::strCat("tensor '", tensor.name, "' ends beyond 2^64 bytes in its section"));
  std::shared_ptr<RecipeObject> recipe(
      new RecipeObject(std::move(graph), std::move(constants), std::move(program), std::move(usual)));
  HPU_RETURN_IF_ERROR(recipe->orderExternals());
  return recipe;
}

RecipeObject::RecipeObject(GraphDescription graph, std::vector<ConstSection> constants,
                           std::shared_ptr<Program> program, std::shared_ptr<SizedProgram> usual)
    : id_(nextRecipeId()),
      graph_(std::move(graph)),
      program_(std::move(program)),
      usual_(std::move(usual)),
      constants_(std::move(constants)) {
  listTensors();
  sizeUsual();
  hints_ = std::make_unique<std::atomic<uint32_t>[]>(tensors_.size() + 1);
}

/// Persistent tensors first, then those that only say sizes or values.
void RecipeObject::listTensors() {
  std::vector<bool> produced(graph_.tensors.size(), false);
  for (const NodeDescription& node : graph_.nodes)
    for (int32_t output : node.outputs)
      if (output != kNoTensor) produced[static_cast<size_t>(output)] = true;
  bool freeSizes = false;
  for (const TensorDescription& tensor : graph_.tensors) freeSizes |= synapse::isDynamic(tensor);

  places_.assign(graph_.tensors.size(), -1);
  auto add = [&](uint32_t index, bool inMemory) {
    const TensorDescription& tensor = graph_.tensors[index];
    LaunchTensor& launch = tensors_.emplace_back();
    launch.index = index;
    launch.isInput = !produced[index];
    launch.isHostValue = tensor.type == HOST_TO_DEVICE_TENSOR;
    launch.dynamic = synapse::isDynamic(tensor);
    if (inMemory && !launch.isHostValue) {
      launch.section = tensor.section;
      launch.offset = tensor.sectionOffset;
    }
    dynamic_ |= launch.dynamic || launch.isHostValue;
    places_[index] = static_cast<int>(tensors_.size()) - 1;
  };
  for (uint32_t i = 0; i < graph_.tensors.size(); ++i)
    if (isPersistent(graph_, graph_.tensors[i])) add(i, true);
  numPersistent_ = static_cast<uint32_t>(tensors_.size());
  for (uint32_t i = 0; i < graph_.tensors.size(); ++i) {
    const TensorDescription& tensor = graph_.tensors[i];
    if (places_[i] >= 0 || produced[i]) continue;
    if (tensor.type == HOST_TO_DEVICE_TENSOR || (freeSizes && isShapeTensor(tensor))) add(i, false);
  }
  byName_.resize(tensors_.size());
  for (uint32_t i = 0; i < byName_.size(); ++i) byName_[i] = i;
  std::sort(byName_.begin(), byName_.end(),
            [&](uint32_t a, uint32_t b) { return description(tensors_[a]).name < description(tensors_[b]).name; });
}

Status RecipeObject::orderExternals() {
  const std::vector<int32_t>& outputs = program_->outputs();
  auto isExternal = [&](int32_t output) { return graph_.tensors[static_cast<size_t>(output)].external; };
  if (std::none_of(outputs.begin(), outputs.end(), isExternal)) return okStatus();
  HPU_ASSIGN(std::vector<int> order, Executable::outputOrder(program_->recipe()));
  for (int output : order)
    if (int32_t tensor = outputs[static_cast<size_t>(output)]; isExternal(tensor))
      externals_.push_back(static_cast<uint32_t>(place(tensor)));
  return okStatus();
}

int RecipeObject::find(std::string_view name) const {
  auto at = std::lower_bound(byName_.begin(), byName_.end(), name, [&](uint32_t place, std::string_view wanted) {
    return description(tensors_[place]).name < wanted;
  });
  if (at == byName_.end() || description(tensors_[*at]).name != name) return -1;
  return static_cast<int>(*at);
}

int RecipeObject::findSection(synSectionId id) const {
  for (size_t i = 0; i < graph_.sections.size(); ++i)
    if (graph_.sections[i].id == id) return static_cast<int>(i);
  return -1;
}

uint64_t RecipeObject::sectionBytes(uint32_t section) const {
  // Of constants, those that nodes still read: others have become a part of them (FoldConstants.h).
  std::vector<bool> isRead(graph_.tensors.size(), !graph_.sections[section].isConst);
  for (const NodeDescription& node : graph_.nodes)
    for (const auto* list : {&node.inputs, &node.outputs})
      for (int32_t t : *list)
        if (t != kNoTensor) isRead[static_cast<size_t>(t)] = true;
  uint64_t bytes = 0;
  for (size_t t = 0; t < graph_.tensors.size(); ++t)
    if (const TensorDescription& tensor = graph_.tensors[t]; tensor.section == section && isRead[t])
      bytes = std::max(bytes, tensor.sectionOffset + maxBytes(tensor));
  return bytes;
}

GraphDescription RecipeObject::specialised(const Specialisation& wanted) const {
  GraphDescription graph = graph_;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    TensorDescription& tensor = graph.tensors[tensors_[i].index];
    if (tensors_[i].isHostValue && i < wanted.values.size() && !wanted.values[i].empty())
      tensor.hostData = std::make_shared<const std::vector<std::byte>>(wanted.values[i]);
  }
  return graph;
}

void RecipeObject::sizeUsual() {
  workspaceBytes_ = program_->workspaceBytes();
  if (readsBounds(graph_)) {
    usual_ = nullptr;  // The program is one of bounds, and no launch's.
    return;
  }
  if (usual_) return;
  auto usual = std::make_shared<SizedProgram>();
  usual->program = program_;
  if (program_->isFree()) {
    StatusOr<std::vector<Shape>> shapes = launchShapes(*program_, graph_, {});
    if (!shapes.ok()) return;
    usual->shapes = std::move(*shapes);
    // An eager op's launches take memory of the program's own: finding out what they need costs as much as a launch.
    if (!graph_.eager)
      if (StatusOr<uint64_t> bytes = workspaceBytesFor(*program_, usual->shapes); bytes.ok()) workspaceBytes_ = *bytes;
  }
  usual_ = std::move(usual);
}

bool RecipeObject::hasOtherValues(const Specialisation& wanted) const {
  for (size_t i = 0; i < tensors_.size() && i < wanted.values.size(); ++i) {
    const auto& own = description(tensors_[i]).hostData;  // Bounds are no value.
    if (!wanted.values[i].empty() && (!own || *own != wanted.values[i])) return true;
  }
  return false;
}

SizesByTensor RecipeObject::sizesByTensor(const Specialisation& wanted) const {
  SizesByTensor sizes(graph_.tensors.size());
  for (size_t i = 0; i < tensors_.size() && i < wanted.sizes.size(); ++i) sizes[tensors_[i].index] = &wanted.sizes[i];
  return sizes;
}

StatusOr<std::shared_ptr<SizedProgram>> RecipeObject::specialise(const Specialisation& wanted) {
  // Held while compiling: two launches of one new size compile once.
  std::lock_guard lock(specialMutex_);
  for (auto it = special_.begin(); it != special_.end(); ++it) {
    if (it->first != wanted) continue;
    special_.splice(special_.begin(), special_, it);
    return it->second;
  }
  auto sized = std::make_shared<SizedProgram>();
  Status refused;
  if (program_->isFree() && !readsBounds(graph_) && !hasOtherValues(wanted)) {
    StatusOr<std::vector<Shape>> shapes = launchShapes(*program_, graph_, sizesByTensor(wanted));
    if (shapes.ok()) {
      sized->program = program_;
      sized->shapes = std::move(*shapes);
    }
    refused = shapes.status();
  }
  if (!sized->program) {
    // Sizes that the free program does not have may be some that the graph has: 1, which is broadcast.
    HPU_ASSIGN(CompileRequest request, compileRequest());
    request.thisCpuOnly = request.cacheDir.empty();  // It is in no file.
    request.actualSizes.resize(graph_.tensors.size());
    for (size_t i = 0; i < tensors_.size() && i < wanted.sizes.size(); ++i)
      request.actualSizes[tensors_[i].index] = wanted.sizes[i];
    GraphDescription graph = specialised(wanted);
    StatusOr<CompiledGraph> compiled = compileWithLibrary(graph, request);
    if (!compiled.ok()) return refused.ok() ? compiled.status() : refused;
    HPU_ASSIGN(sized->program, Program::create(std::move(*compiled), graph, /*compiledHere=*/true));
  }
  special_.emplace_front(wanted, sized);
  if (special_.size() > kMaxSpecialisations) special_.pop_back();
  return sized;
}

}  // namespace hpu::synapse
