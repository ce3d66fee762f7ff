// SPDX-License-Identifier: Apache-2.0
#include "synapse/recipe/RecipeObject.h"

#include <algorithm>
#include <cstring>

#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "recipe/Recipe.h"
#include "synapse/graph/CompilerLibrary.h"
#include "synapse/graph/Describe.h"

namespace hpu::synapse {
namespace {

uint64_t nextRecipeId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool isPersistent(const GraphDescription& graph, const TensorDescription& tensor) {
  return tensor.section != kNoSection && graph.sections[tensor.section].persistent;
}

/// For each output of the program, the place in the order of its ops of the last one that writes it.
std::vector<size_t> lastWrites(const recipe::Program& program) {
  std::vector<size_t> last(program.outputs.size(), 0);
  auto note = [&](const recipe::Operand& operand, size_t place) {
    if (operand.section >= program.sections.size()) return;
    const recipe::Section& section = program.sections[operand.section];
    if (section.kind == recipe::SectionKind::kOutput && section.binding < last.size()) last[section.binding] = place;
  };
  for (size_t i = 0; i < program.hostOrder.size(); ++i) {
    const recipe::Op& op = program.ops[program.hostOrder[i]];
    if (op.engine == Engine::kMme) note(op.mme.c, i);
    if (op.engine == Engine::kDma) note(op.dma.dst, i);
    if (op.engine == Engine::kTpc)
      for (const recipe::Operand& output : op.tpc.outputs) note(output, i);
  }
  return last;
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
                                                             std::shared_ptr<Program> program) {
  for (const TensorDescription& tensor : graph.tensors)
    if (isPersistent(graph, tensor) && tensor.sectionOffset > UINT64_MAX - maxBytes(tensor))
      return dataLoss(base::strCat("tensor '", tensor.name, "' ends beyond 2^64 bytes in its section"));
  return std::shared_ptr<RecipeObject>(
      new RecipeObject(std::move(graph), std::move(constants), std::move(program)));
}

RecipeObject::RecipeObject(GraphDescription graph, std::vector<ConstSection> constants,
                           std::shared_ptr<Program> program)
    : id_(nextRecipeId()),
      graph_(std::move(graph)),
      program_(std::move(program)),
      constants_(std::move(constants)) {
  listTensors();
  orderExternals();
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
  std::sort(byName_.begin(), byName_.end(), [&](uint32_t a, uint32_t b) {
    return description(tensors_[a]).name < description(tensors_[b]).name;
  });
}

void RecipeObject::orderExternals() {
  const std::vector<int32_t>& outputs = program_->outputs();
  bool any = false;
  for (int32_t output : outputs) any |= graph_.tensors[static_cast<size_t>(output)].external;
  if (!any) return;
  std::vector<size_t> last = lastWrites(*program_->recipe().program());
  std::vector<std::pair<size_t, uint32_t>> order;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (graph_.tensors[static_cast<size_t>(outputs[i])].external)
      order.emplace_back(last[i], static_cast<uint32_t>(place(outputs[i])));
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& entry : order) externals_.push_back(entry.second);
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
  uint64_t bytes = 0;
  for (const TensorDescription& tensor : graph_.tensors)
    if (tensor.section == section) bytes = std::max(bytes, tensor.sectionOffset + maxBytes(tensor));
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

StatusOr<std::shared_ptr<Program>> RecipeObject::specialise(const Specialisation& wanted) {
  // Held while compiling: two launches of one new size compile once.
  std::lock_guard lock(specialMutex_);
  for (auto it = special_.begin(); it != special_.end(); ++it) {
    if (it->first != wanted) continue;
    special_.splice(special_.begin(), special_, it);
    return it->second;
  }
  HPU_ASSIGN(CompileRequest request, compileRequest());
  request.actualSizes.resize(graph_.tensors.size());
  for (size_t i = 0; i < tensors_.size() && i < wanted.sizes.size(); ++i)
    request.actualSizes[tensors_[i].index] = wanted.sizes[i];
  GraphDescription graph = specialised(wanted);
  HPU_ASSIGN(CompiledGraph compiled, compileWithLibrary(graph, request));
  HPU_ASSIGN(std::shared_ptr<Program> program, Program::create(std::move(compiled), graph));
  special_.emplace_front(wanted, program);
  if (special_.size() > kMaxSpecialisations) special_.pop_back();
  return program;
}

}  // namespace hpu::synapse
