// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/recipe/Program.h"

#include <algorithm>
#include <set>

#include "arch/TargetDesc.h"
#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/CompilerLibrary.h"
#include "bindings/synapse/graph/DataTypes.h"
#include "bindings/synapse/graph/Describe.h"
#include "plan/Instantiate.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"

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
uint64_t workspaceOf(const recipe::Program& program) {
  uint64_t bytes = 0;
  for (const recipe::Section& section : program.sections)
    if (section.kind == recipe::SectionKind::kWorkspace)
      bytes += (section.bytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
  return bytes;
}

/// A tensor's bytes in the recipe must be those that the graph says, or a launch would reach beyond them.
Status checkSide(std::string_view what, const std::vector<TensorInfo>& infos, const std::vector<int32_t>& indices,
                 const GraphDescription& graph, bool isFree) {
  if (infos.size() != indices.size())
    return dataLoss(base::strCat("the program has ", infos.size(), " ", what, "s, and ", indices.size(),
                                 " tensors are given for them"));
  for (size_t i = 0; i < indices.size(); ++i) {
    const Shape& shape = infos[i].type.shape;
    if (indices[i] < 0 || static_cast<size_t>(indices[i]) >= graph.tensors.size())
      return dataLoss(base::strCat(what, " ", i, " of the program is tensor ", indices[i], ", and there are ",
                                   graph.tensors.size()));
    const TensorDescription& tensor = graph.tensors[indices[i]];
    if (tensor.section == kNoSection || !graph.sections[tensor.section].persistent)
      return dataLoss(base::strCat(what, " ", i, " of the program is tensor '", tensor.name,
                                   "', which is in no persistent section"));
    if (std::find(shape.begin(), shape.end(), kDynamic) != shape.end()) {
      if (!isFree || shape.size() != tensor.maxSizes.size() ||
          elementSize(infos[i].type.element) > static_cast<int64_t>(bytesOf({1}, tensor.dataType)))
        return dataLoss(base::strCat(what, " ", i, " of the program is ", infos[i].type.toString(), ", and tensor '",
                                     tensor.name, "' is not"));
      continue;  // Launches compare its sizes.
    }
    int64_t elements = numElements(shape);
    uint64_t bytes = elements < 0 ? UINT64_MAX : static_cast<uint64_t>(infos[i].type.bytes());
    if (uint64_t room = maxBytes(tensor); bytes > room)
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
  const bool isFree = !compiled.freeDims.empty();
  if (isFree != !recipe.dims().empty())
    return dataLoss("whether the program has free dimensions is not what the recipe says");
  HPU_RETURN_IF_ERROR(checkSide("input", recipe.inputs(), compiled.inputs, graph, isFree));
  HPU_RETURN_IF_ERROR(checkSide("output", recipe.outputs(), compiled.outputs, graph, isFree));
  if (isFree) {
    compiled.freeDims.resize(graph.tensors.size());
    for (size_t t = 0; t < graph.tensors.size(); ++t)
      if (!compiled.freeDims[t].empty() && compiled.freeDims[t].size() != graph.tensors[t].maxSizes.size())
        return dataLoss(
            base::strCat("the free dimensions of tensor '", graph.tensors[t].name, "' are of another rank"));
  }
  compiled.sizes.resize(graph.tensors.size());
  std::shared_ptr<Program> program(new Program(std::move(recipe), std::move(compiled)));
  std::lock_guard lock(registry().mutex);
  registry().programs.insert(program.get());
  return program;
}

StatusOr<std::shared_ptr<Program>> Program::createForThisCpu(CompiledGraph compiled, const GraphDescription& graph) {
  HPU_ASSIGN(std::shared_ptr<Program> program, create(std::move(compiled), graph, /*compiledHere=*/true));
  program->source_ = std::make_unique<const GraphDescription>(graph);
  return program;
}

StatusOr<std::vector<uint8_t>> Program::serialize() {
  if (!source_) return recipe_.serialize();
  std::lock_guard lock(fileMutex_);
  if (!forEveryCpu_.empty()) return forEveryCpu_;
  CompileRequest request;
  if (isFree()) request.freeSizes = CompileRequest::FreeSizes::kBounded;
  HPU_ASSIGN(CompiledGraph compiled, compileWithLibrary(*source_, request));
  if (compiled.inputs != inputs_ || compiled.outputs != outputs_ || compiled.freeDims.empty() == isFree())
    return internalError(base::strCat("graph '", source_->name, "' compiled to another program for a file"));
  forEveryCpu_ = std::move(compiled.recipe);
  return forEveryCpu_;
}

Program::Program(Recipe recipe, CompiledGraph&& compiled)
    : recipe_(std::move(recipe)),
      inputs_(std::move(compiled.inputs)),
      outputs_(std::move(compiled.outputs)),
      sizes_(std::move(compiled.sizes)),
      freeDims_(std::move(compiled.freeDims)),
      log_(std::move(compiled.log)),
      recipeBytes_(compiled.recipe.size()),
      workspaceBytes_(freeDims_.empty() ? workspaceOf(*recipe_.program()) : 0) {}

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

StatusOr<std::vector<Shape>> launchShapes(const Program& program, const GraphDescription& graph,
                                          const SizesByTensor& sizes) {
  auto sizesOf = [&](size_t t) -> const std::vector<uint64_t>& {
    return t < sizes.size() && sizes[t] && !sizes[t]->empty() ? *sizes[t] : graph.tensors[t].maxSizes;
  };
  // Sizes of one free dimension, shape tensors' among them, must agree.
  struct Said {
    std::string_view name;
    uint64_t size = 0;
    size_t tensor = 0, dim = 0;
  };
  std::vector<Said> said;
  for (size_t t = 0; t < program.freeDims().size(); ++t)
    for (size_t d = 0; d < program.freeDims()[t].size(); ++d) {
      const std::string& name = program.freeDims()[t][d];
      if (name.empty()) continue;
      const uint64_t size = sizesOf(t)[d];
      auto at = std::find_if(said.begin(), said.end(), [&](const Said& one) { return one.name == name; });
      if (at == said.end()) {
        said.push_back({name, size, t, d});
      } else if (at->size != size) {
        return invalidArgument(base::strCat("tensor '", graph.tensors[t].name, "': size ", d, " is ", size,
                                            ", and size ", at->dim, " of tensor '", graph.tensors[at->tensor].name,
                                            "', which is ", at->size, ", must be the same"));
      }
    }
  std::vector<Shape> shapes;
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    const auto t = static_cast<size_t>(program.inputs()[i]);
    Shape shape = program.recipe().inputs()[i].type.shape;
    if (!program.freeDims()[t].empty()) {
      const std::vector<uint64_t>& own = sizesOf(t);
      for (size_t d = 0; d < shape.size(); ++d) shape[d] = static_cast<int64_t>(own[own.size() - 1 - d]);
    } else if (extentOf(graph.tensors[t], sizesOf(t)) !=
               static_cast<uint64_t>(program.recipe().inputs()[i].type.bytes())) {
      return invalidArgument(base::strCat("tensor '", graph.tensors[t].name, "' is not ",
                                          program.recipe().inputs()[i].type.toString(), ", which the program reads"));
    }
    shapes.push_back(std::move(shape));
  }
  const recipe::Program& content = *program.recipe().program();
  HPU_ASSIGN(const recipe::Sizes solved, recipe::solveSizes(content, shapes));
  HPU_ASSIGN(const std::vector<TensorInfo> outputs, plan::outputsFor(content, solved));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto t = static_cast<size_t>(program.outputs()[i]);
    const Shape& declared = program.recipe().outputs()[i].type.shape;
    if (std::find(declared.begin(), declared.end(), kDynamic) == declared.end()) continue;
    const Shape& shape = outputs[i].type.shape;
    const TensorDescription& tensor = graph.tensors[t];
    const bool isGiven = t < sizes.size() && sizes[t] && !sizes[t]->empty();
    for (size_t d = 0; d < shape.size(); ++d) {
      const auto size = static_cast<uint64_t>(shape[shape.size() - 1 - d]);
      if (isGiven && (*sizes[t])[d] != size)
        return invalidArgument(base::strCat("output ", i, " (", tensor.name, "): size ", d, " is given as ",
                                            (*sizes[t])[d], ", and ", size, " follows from the inputs"));
      // Below a least size there is room; the build log has said so.
      const bool isFixed = tensor.minSizes[d] == tensor.maxSizes[d];
      if (size > tensor.maxSizes[d] || (isFixed && size != tensor.maxSizes[d]))
        return invalidArgument(base::strCat("output ", i, " (", tensor.name, "): size ", d, " would be ", size,
                                            ", and the graph declares ", isFixed ? "" : "at most ",
                                            tensor.maxSizes[d]));
    }
  }
  return shapes;
}

StatusOr<uint64_t> workspaceBytesFor(const Program& program, const std::vector<Shape>& shapes) {
  const auto& content = program.recipe().program();
  HPU_ASSIGN(const recipe::Sizes sizes, recipe::solveSizes(*content, shapes));
  // As launches get their instances: those of a bucket have the workspace of its upper end.
  plan::Instances instances(content, arch::targetDesc(content->target));
  HPU_ASSIGN(const auto instance, instances.get(sizes));
  return workspaceOf(*instance);
}

}  // namespace hpu::synapse
