// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/recipe/Program.h"

#include <algorithm>
#include <set>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/Describe.h"
#include "recipe/Recipe.h"

namespace hpu::synapse {
namespace {

/// All programs there are, for Program::forget. Never destroyed: programs may outlive statics.
struct Registry {
  std::mutex mutex;
  std::set<Program*> programs;
};
Registry& registry();

/// A forked child has no devices, so none of its parent's programs is loaded there; nor does it wait for their locks.
void childAfterFork() {
  base::abandon(registry());
}

Registry& registry() {
  static auto* instance = [] {
    static constexpr base::ForkHandlers kHandlers = {nullptr, nullptr, childAfterFork};
    base::atFork(base::ForkRank::kPrograms, kHandlers);
    return new Registry;
  }();
  return *instance;
}

/// As Executable::workspaceBytes, without a device: each section starts at an aligned address.
uint64_t workspaceOf(const Recipe& recipe) {
  uint64_t bytes = 0;
  for (const recipe::Section& section : recipe.program()->sections)
    if (section.kind == recipe::SectionKind::kWorkspace)
      bytes += (section.bytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
  return bytes;
}

/// A tensor's bytes in the recipe must be those that the graph says, or a launch would reach beyond them.
Status checkSide(std::string_view what, const std::vector<TensorInfo>& infos, const std::vector<int32_t>& indices,
                 const GraphDescription& graph) {
  if (infos.size() != indices.size())
    return dataLoss(base::strCat("the program has ", infos.size(), " ", what, "s, and ", indices.size(),
                                 " tensors are given for them"));
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= graph.tensors.size())
      return dataLoss(base::strCat(what, " ", i, " of the program is tensor ", indices[i], ", and there are ",
                                   graph.tensors.size()));
    const TensorDescription& tensor = graph.tensors[indices[i]];
    if (tensor.section == kNoSection || !graph.sections[tensor.section].persistent)
      return dataLoss(base::strCat(what, " ", i, " of the program is tensor '", tensor.name,
                                   "', which is in no persistent section"));
    int64_t elements = numElements(infos[i].type.shape);
    uint64_t bytes = elements < 0 ? UINT64_MAX : static_cast<uint64_t>(infos[i].type.bytes());
    if (uint64_t room = bytesOf(tensor.maxSizes, tensor.dataType); bytes > room)
      return dataLoss(base::strCat(what, " ", i, " of the program takes ", bytes, " bytes, and tensor '", tensor.name,
                                   "' has ", room));
  }
  return okStatus();
}

}  // namespace

StatusOr<std::shared_ptr<Program>> Program::create(CompiledGraph compiled, const GraphDescription& graph,
                                                   bool compiledHere) {
  // What comes from elsewhere has to be signed where HPU_RECIPE_KEYS asks for it.
  const auto& bytes = compiled.recipe;
  HPU_ASSIGN(Recipe recipe, compiledHere ? Recipe::deserializeOwn(bytes.data(), bytes.size())
                                         : Recipe::deserialize(bytes.data(), bytes.size()));
  if (recipe.target() != graph.target)
    return dataLoss(base::strCat("the program is for ", targetName(recipe.target()), ", and the graph for ",
                                 targetName(graph.target)));
  HPU_RETURN_IF_ERROR(checkSide("input", recipe.inputs(), compiled.inputs, graph));
  HPU_RETURN_IF_ERROR(checkSide("output", recipe.outputs(), compiled.outputs, graph));
  compiled.sizes.resize(graph.tensors.size());
  std::shared_ptr<Program> program(new Program(std::move(recipe), std::move(compiled)));
  std::lock_guard lock(registry().mutex);
  registry().programs.insert(program.get());
  return program;
}

Program::Program(Recipe recipe, CompiledGraph&& compiled)
    : recipe_(std::move(recipe)),
      inputs_(std::move(compiled.inputs)),
      outputs_(std::move(compiled.outputs)),
      sizes_(std::move(compiled.sizes)),
      log_(std::move(compiled.log)),
      recipeBytes_(compiled.recipe.size()),
      workspaceBytes_(workspaceOf(recipe_)) {}

Program::~Program() {
  std::lock_guard lock(registry().mutex);
  registry().programs.erase(this);
}

int Program::outputOf(int32_t tensor) const {
  auto at = std::find(outputs_.begin(), outputs_.end(), tensor);
  return at == outputs_.end() ? -1 : static_cast<int>(at - outputs_.begin());
}

StatusOr<Executable> Program::load(const Device& device, bool ownWorkspace) {
  const DeviceState* key = device.state().get();
  std::lock_guard lock(mutex_);
  for (const auto& [state, executable] : loaded_)
    if (state == key) return executable;
  HPU_ASSIGN(Executable executable, Executable::load(device, recipe_, {.reserveWorkspace = ownWorkspace}));
  loaded_.emplace_back(key, executable);
  return executable;
}

void Program::drop(const DeviceState* device, std::vector<Executable>& dropped) {
  std::lock_guard lock(mutex_);
  for (auto& [state, executable] : loaded_)
    if (state == device) dropped.push_back(std::move(executable));
  std::erase_if(loaded_, [&](const auto& entry) { return entry.first == device; });
}

void Program::forget(const Device& device) {
  std::vector<Executable> dropped;  // They end after the lock.
  std::lock_guard lock(registry().mutex);
  for (Program* program : registry().programs) program->drop(device.state().get(), dropped);
}

}  // namespace hpu::synapse
