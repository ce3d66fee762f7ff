// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/ExecutableState.h"

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "plan/Instantiate.h"
#include "recipe/OpText.h"
#include "recipe/Recipe.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/driver/HostWindow.h"
#include "runtime/event/EventState.h"
#include "runtime/memory/BufferState.h"

namespace hpu {
namespace {

using recipe::Section;
using recipe::SectionKind;

std::string_view sectionLabel(SectionKind kind) {
  switch (kind) {
    case SectionKind::kConst:
      return "constants of ";
    case SectionKind::kWorkspace:
      return "workspace of ";
    case SectionKind::kPersistent:
      return "state of ";
    default:
      return "section of ";
  }
}

/// Nothing that allocates comes behind the submission.
Status noMemory() {
  return resourceExhausted("out of host memory: the launch was not enqueued");
}

}  // namespace

StatusOr<std::shared_ptr<ExecutableState>> ExecutableState::load(const std::shared_ptr<DeviceState>& device,
                                                                 const Recipe& recipe, const LoadOptions& options) {
  if (recipe.target() != device->info().target)
    return failedPrecondition(
        base::strCat("recipe '", recipe.name(), "' was compiled for ", targetName(recipe.target()), ", and device ",
                     device->info().index, " is a ", targetName(device->info().target), "; compile it for that: ",
                     base::compileCall("", {base::optionValue("target", targetName(device->info().target))})));
  auto state = base::makeProcessOwned<ExecutableState>(device, recipe);
  // Of free dimensions: to say early when this device cannot run it, and for what instances share with it. Launches
  // have instances of their own.
  HPU_ASSIGN(state->fixed_, Instance::load(device, recipe.program()));
  Status status = state->placeSections(options);
  if (status.ok()) status = state->uploadConstants();
  if (!status.ok()) return status.withContext(base::strCat("loading recipe '", recipe.name(), "'"));
  if (recipe.program()->dynamic) {
    state->instances_ = std::make_unique<InstanceCache>(device, std::move(state->fixed_), recipe.program());
    state->fixed_ = nullptr;
  }
  return state;
}

ExecutableState::ExecutableState(std::shared_ptr<DeviceState> device, Recipe recipe)
    : device_(std::move(device)), recipe_(std::move(recipe)) {}

/// Allocates every section that launches do not bind.
Status ExecutableState::placeSections(const LoadOptions& options) {
  const recipe::Program& program = *recipe_.program();
  sections_.assign(program.sections.size(), 0);
  staging_.resize(program.outputs.size());
  reservesWorkspace_ = options.reserveWorkspace;
  for (size_t i = 0; i < program.sections.size(); ++i) {
    const Section& section = program.sections[i];
    if (section.kind == SectionKind::kSram || isBoundAtLaunch(section.kind)) continue;
    const auto bytes = static_cast<int64_t>(section.bytes);
    sections_[i] = device_->driver()->memory().base;
    if (bytes == 0) continue;
    if (section.kind == SectionKind::kWorkspace && (!reservesWorkspace_ || program.dynamic)) continue;
    if (section.kind == SectionKind::kPersistent) keepsState_ = true;
    HPU_ASSIGN(auto buffer,
               BufferState::create(device_, bytes,
                                   {base::strCat(sectionLabel(section.kind), program.name), /*requestedAddress=*/0},
                                   Visibility::kInternal));
    sections_[i] = buffer->address();
    buffers_.push_back(std::move(buffer));
  }
  for (const recipe::InputDefault& own : program.defaults) {
    BoundMemory& bound = defaults_[own.input];
    bound = {device_->driver()->memory().base, static_cast<int64_t>(own.bytes), nullptr};
    if (own.bytes == 0) continue;
    HPU_ASSIGN(auto buffer, BufferState::create(device_, bound.bytes,
                                                {base::strCat("defaults of ", program.name), /*requestedAddress=*/0},
                                                Visibility::kInternal));
    bound.address = buffer->address();
    bound.owner = buffer->allocation();
    buffers_.push_back(std::move(buffer));
  }
  return okStatus();
}

/// Blocks until the constants are on the device. The copies read the recipe's own memory, and hold it: when the wait
/// is refused or ends early, they are still to come.
Status ExecutableState::uploadConstants() {
  const recipe::Program& program = *recipe_.program();
  HPU_ASSIGN(auto stream, StreamState::create(device_, {.name = base::strCat("load ", program.name), .priority = 0}));
  const auto source = std::make_shared<const Recipe>(recipe_);
  // What no constant covers of a const section is never read (the verifier sees to it).
  for (size_t i = 0; i < program.sections.size(); ++i) {
    const Section& section = program.sections[i];
    if (section.bytes == 0 || section.kind != SectionKind::kPersistent) continue;
    HPU_RETURN_IF_ERROR(
        stream->submit(driver::Fill{sections_[i], 0, static_cast<int64_t>(section.bytes)}, "clear", {}).status());
  }
  for (const recipe::ConstantBlob& blob : program.constants) {
    if (blob.bytes == 0) continue;
    HPU_RETURN_IF_ERROR(stream
                            ->submit(driver::CopyToDevice{sections_[blob.section] + blob.offset, blob.data,
                                                          static_cast<int64_t>(blob.bytes)},
                                     "constants", source, nullptr)
                            .status());
  }
  for (const recipe::InputDefault& own : program.defaults) {
    if (own.bytes == 0) continue;
    const BoundMemory& bound = defaults_.at(own.input);
    HPU_RETURN_IF_ERROR(
        stream->submit(driver::CopyToDevice{bound.address, own.data, bound.bytes}, "constants", source, nullptr)
            .status());
  }
  return stream->synchronize(-1, "Executable::load");
}

// ---- Sizes
// -----------------------------------------------------------------------------------------

/// Shapes may be left out where they are fixed.
Status ExecutableState::checkFixedShapes(const std::vector<Shape>& inputShapes) const {
  return inputShapes.empty() ? okStatus() : recipe::solveSizes(*recipe_.program(), inputShapes).status();
}

/// What runs for inputs of these shapes.
StatusOr<std::shared_ptr<Instance>> ExecutableState::instanceFor(const std::vector<Shape>& inputShapes,
                                                                 trace::HostScope& scope) {
  if (fixed_) {
    HPU_RETURN_IF_ERROR(checkFixedShapes(inputShapes));
    return fixed_;
  }
  HPU_ASSIGN(auto instance, instances_->get(inputShapes));
  if (scope.active()) {
    const auto& symbols = recipe_.program()->dynamic->symbols;
    for (size_t s = 0; s < symbols.size(); ++s) scope.arg(symbols[s].name, instance->sizes()[s]);
  }
  return instance;
}

StatusOr<std::vector<TensorInfo>> ExecutableState::outputs(const std::vector<Shape>& inputShapes) const {
  if (fixed_) {
    HPU_RETURN_IF_ERROR(checkFixedShapes(inputShapes));
    return recipe_.outputs();
  }
  HPU_ASSIGN(recipe::Sizes sizes, launchSizes(*recipe_.program(), inputShapes));
  return plan::outputsFor(*recipe_.program(), sizes);
}

int64_t ExecutableState::workspaceBytes() {
  if (fixed_) return fixed_->workspaceBytes();
  std::lock_guard lock(order_.mutex);
  return workspace_ ? workspace_->bytes() : 0;
}

StatusOr<int64_t> ExecutableState::workspaceBytes(const std::vector<Shape>& inputShapes) {
  trace::HostScope scope("Executable.workspaceBytes");
  HPU_ASSIGN(auto instance, instanceFor(inputShapes, scope));
  return instance->workspaceBytes();
}

Status ExecutableState::checkStream(const StreamState& stream) const {
  if (stream.device() == device_) return okStatus();
  return invalidArgument(base::strCat("recipe '", recipe_.name(), "' is loaded on device ", device_->info().index,
                                      ", and the stream belongs to device ", stream.device()->info().index));
}

Status ExecutableState::checkCount(size_t given, bool isOutput) const {
  const recipe::Program& program = *recipe_.program();
  size_t wanted = isOutput ? program.outputs.size() : program.inputs.size();
  if (given == wanted) return okStatus();
  return invalidArgument(base::strCat("recipe '", program.name, "' has ", wanted,
                                      isOutput ? " outputs, and " : " inputs, and ", given, " were given"));
}

// ---- Binding
// ---------------------------------------------------------------------------------------

Status ExecutableState::checkAligned(const Instance& instance, uint64_t address, bool isOutput, size_t index) {
  const recipe::Program& program = instance.program();
  const ElementType type = (isOutput ? program.outputs : program.inputs)[index].type.element;
  const auto element = static_cast<uint64_t>(std::max<int64_t>(1, elementSize(type)));
  if (address % element == 0) return okStatus();
  return invalidArgument(base::strCat(instance.tensorText(isOutput, index), ": its address ", base::formatHex(address),
                                      " is no multiple of the element's ", element, " bytes"));
}

StatusOr<std::vector<BoundMemory>> ExecutableState::bind(const Instance& instance, const std::vector<Buffer>& buffers,
                                                         bool isOutput) const {
  const recipe::Program& program = instance.program();
  HPU_RETURN_IF_ERROR(checkCount(buffers.size(), isOutput));
  std::vector<BoundMemory> result;
  result.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (auto own = defaults_.find(i); !isOutput && !buffer.valid() && own != defaults_.end()) {
      result.push_back(own->second);
      continue;
    }
    if (!buffer.valid())
      return invalidArgument(base::strCat(instance.tensorText(isOutput, i), ": the buffer is empty"));
    if (buffer.state()->device() != device_)
      return invalidArgument(base::strCat(instance.tensorText(isOutput, i), ": the buffer belongs to device ",
                                          buffer.state()->device()->info().index,
                                          ", and the recipe is loaded on device ", device_->info().index));
    const int64_t needed = instance.neededBytes(isOutput, i);
    // An open shape's section is rounded up, and so is what belongs to a buffer.
    const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[i];
    bool open = numElements(tensor.type.shape) == kDynamic;
    if ((open ? buffer.state()->capacity() : buffer.size()) < needed)
      return invalidArgument(base::strCat(isOutput ? "output " : "input ", i, ": '", tensor.name, "' is ",
                                          tensor.type.toString(), " and needs ", needed, " bytes; its buffer has ",
                                          buffer.size()));
    HPU_RETURN_IF_ERROR(checkAligned(instance, buffer.address(), isOutput, i));
    result.push_back({buffer.address(), needed, buffer.state()->allocation()});
  }
  return result;
}

StatusOr<std::vector<BoundMemory>> ExecutableState::bind(const Instance& instance,
                                                         const std::vector<uint64_t>& addresses, bool isOutput,
                                                         Shown& shown) const {
  const recipe::Program& program = instance.program();
  HPU_RETURN_IF_ERROR(checkCount(addresses.size(), isOutput));
  std::vector<BoundMemory> result;
  result.reserve(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (auto own = defaults_.find(i); !isOutput && addresses[i] == 0 && own != defaults_.end()) {
      result.push_back(own->second);
      continue;
    }
    BoundMemory bound{addresses[i], instance.neededBytes(isOutput, i), nullptr};
    if (bound.bytes == 0) {
      // Nothing is touched there; the driver wants an address of the device all the same.
      bound.address = device_->driver()->memory().base;
      result.push_back(std::move(bound));
      continue;
    }
    HPU_RETURN_IF_ERROR(checkAligned(instance, addresses[i], isOutput, i));
    const bool inHost = driver::isInHost(addresses[i]);
    StatusOr<std::shared_ptr<BufferState>> buffer = std::shared_ptr<BufferState>();
    Status wrong;
    if (inHost) {
      auto block = device_->host().useAddress(addresses[i], bound.bytes, "launch");
      if (block.ok())
        bound.owner = std::move(*block);
      else
        wrong = block.status();
    } else {
      buffer = device_->memory().find(addresses[i], bound.bytes, "launch");
      wrong = buffer.status();
    }
    if (!wrong.ok()) {
      std::string context = instance.tensorText(isOutput, i);
      SectionKind kind = isOutput ? SectionKind::kOutput : SectionKind::kInput;
      for (uint32_t s = 0; s < program.sections.size(); ++s)
        if (program.sections[s].kind == kind && program.sections[s].binding == i)
          if (const recipe::Op* op = recipe::firstUser(program, s))
            context += base::strCat(", used by ", recipe::opText(program, *op));
      return wrong.withContext(context);
    }
    if (!inHost) {
      bound.owner = (*buffer)->allocation();
      shown.push_back(std::move(*buffer));
    }
    result.push_back(std::move(bound));
  }
  return result;
}

StatusOr<BoundMemory> ExecutableState::bindWorkspace(const Instance& instance, uint64_t address, Shown& shown) const {
  const int64_t bytes = instance.workspaceBytes();
  if (address == 0) {
    if (!reservesWorkspace_ && bytes > 0)
      return failedPrecondition(base::strCat("recipe '", recipe_.name(),
                                             "' was loaded without a workspace and needs one of ", bytes,
                                             " bytes; give its address in LaunchArguments::workspace"));
    return BoundMemory();
  }
  if (bytes == 0) return BoundMemory();
  if (address % recipe::kAlignment != 0)
    return invalidArgument(
        base::strCat("the workspace's address ", base::formatHex(address), " is no multiple of ", recipe::kAlignment));
  auto buffer = device_->memory().find(address, bytes, "launch");
  if (!buffer.ok()) return buffer.status().withContext("workspace");
  shown.push_back(*buffer);
  return BoundMemory{address, bytes, (*buffer)->allocation()};
}

// ---- Launching
// -------------------------------------------------------------------------------------

StatusOr<ExecutableState::Run> ExecutableState::prepare(const Instance& instance, LaunchBindings bindings) const {
  const recipe::Program& program = instance.program();
  Run run;
  for (const recipe::State& state : program.states) {
    BoundMemory& input = bindings.inputs[state.input];
    if (input.address != bindings.outputs[state.output].address)
      return invalidArgument(base::strCat(
          instance.tensorText(false, state.input), " and ", instance.tensorText(true, state.output),
          " are one tensor that the launch changes in place: give both the same memory, not ",
          base::formatHex(input.address), " and ", base::formatHex(bindings.outputs[state.output].address)));
    input.bytes = 0;  // The output stands for both.
  }
  HPU_ASSIGN(run.inPlace, outputsOverInputs(bindings));
  for (const recipe::State& state : program.states)
    if (std::binary_search(run.inPlace.begin(), run.inPlace.end(), size_t{state.output}))
      return invalidArgument(base::strCat(instance.tensorText(true, state.output),
                                          " is changed in place, and lies over another input; give it its own memory"));
  const bool ownWorkspace = bindings.workspace.bytes == 0;
  const bool needsOurs = ownWorkspace && instance.workspaceBytes() > 0;
  run.shared = needsOurs || keepsState_ || !run.inPlace.empty();
  run.growing = needsOurs && instances_;
  run.sections = sections_;
  if (!ownWorkspace) instance.placeWorkspace(run.sections, bindings.workspace.address);
  for (size_t s = 0; s < program.sections.size(); ++s) {
    const Section& section = program.sections[s];
    if (section.kind == SectionKind::kInput) {
      run.sections[s] = bindings.inputs[section.binding].address;
    } else if (section.kind == SectionKind::kOutput) {
      run.sections[s] = bindings.outputs[section.binding].address;
    }
  }
  run.owners.reserve(4 + bindings.inputs.size() + bindings.outputs.size());
  for (auto* list : {&bindings.inputs, &bindings.outputs})
    for (BoundMemory& memory : *list)
      if (memory.owner) run.owners.push_back(std::move(memory.owner));
  if (bindings.workspace.owner) run.owners.push_back(std::move(bindings.workspace.owner));
  return run;
}

/// Fills in `run` from a plan for its addresses, when that still holds.
bool ExecutableState::replan(const LaunchPlan& plan, Run& run) const {
  run.owners.reserve(plan.buffers.size() + plan.host.size() + 3);
  for (const auto& known : plan.buffers) {
    std::shared_ptr<BufferState> buffer = known.lock();
    // The program has freed it; something else may be at its address.
    if (!buffer) {
      run = Run();
      return false;
    }
    run.owners.push_back(buffer->allocation());
  }
  for (const BoundMemory& tensor : plan.host) {
    auto block = device_->host().useAddress(tensor.address, tensor.bytes, "launch");
    if (!block.ok()) {
      run = Run();
      return false;
    }
    run.owners.push_back(std::move(*block));
  }
  run.sections = plan.sections;
  run.inPlace = plan.inPlace;
  run.shared = plan.shared;
  run.growing = plan.growing;
  return true;
}

StatusOr<ExecutableState::Run> ExecutableState::prepare(Instance& instance, const LaunchArguments& arguments) {
  Run run;
  if (auto plan = instance.plans().find(arguments); plan && replan(*plan, run)) return run;
  LaunchBindings bindings;
  Shown shown;
  HPU_ASSIGN(bindings.inputs, bind(instance, arguments.inputs, false, shown));
  HPU_ASSIGN(bindings.outputs, bind(instance, arguments.outputs, true, shown));
  HPU_ASSIGN(bindings.workspace, bindWorkspace(instance, arguments.workspace, shown));
  auto plan = std::make_shared<LaunchPlan>();
  for (const auto* list : {&bindings.inputs, &bindings.outputs})
    for (const BoundMemory& tensor : *list)
      if (driver::isInHost(tensor.address)) plan->host.push_back({tensor.address, tensor.bytes, nullptr});
  HPU_ASSIGN(run, prepare(instance, std::move(bindings)));
  plan->inputs = arguments.inputs;
  plan->outputs = arguments.outputs;
  plan->workspace = arguments.workspace;
  plan->sections = run.sections;
  plan->buffers.assign(shown.begin(), shown.end());
  plan->inPlace = run.inPlace;
  plan->shared = run.shared;
  plan->growing = run.growing;
  instance.plans().keep(std::move(plan), arguments);
  return run;
}

/// Gives a launch the executable's own workspace, large enough for it. With order_.mutex held. Launches that are in
/// flight own the memory of the one before, so none waits for them.
Status ExecutableState::growWorkspace(const Instance& instance, Run& run) {
  const int64_t needed = instance.workspaceBytes();
  if (!workspace_ || workspace_->bytes() < needed) {
    auto create = [&] {
      return BufferState::create(device_, needed, {base::strCat("workspace of ", recipe_.name()), 0},
                                 Visibility::kInternal);
    };
    auto grown = create();
    if (!grown.ok() && workspace_) {
      workspace_ = nullptr;  // Its memory may be what is missing.
      grown = create();
    }
    if (!grown.ok()) return grown.status().withContext(base::strCat("workspace of recipe '", recipe_.name(), "'"));
    workspace_ = std::move(*grown);
  }
  instance.placeWorkspace(run.sections, workspace_->address());
  run.owners.push_back(workspace_->allocation());
  return okStatus();
}

/// Memory for an output that overwrites an input. Launches that are in order with each other reuse
/// it.
StatusOr<std::shared_ptr<BufferState>> ExecutableState::staging(const Instance& instance, size_t output,
                                                                bool mayReuse) {
  const int64_t bytes = std::max<int64_t>(instance.neededBytes(true, output), 1);
  if (mayReuse && staging_[output] && staging_[output]->bytes() >= bytes) return staging_[output];
  HPU_ASSIGN(auto buffer, BufferState::create(device_, bytes, {base::strCat("in-place outputs of ", recipe_.name()), 0},
                                              Visibility::kInternal));
  if (mayReuse) staging_[output] = buffer;
  return buffer;
}

/// Gives outputs that lie over inputs other memory.
StatusOr<std::vector<ExecutableState::Staged>> ExecutableState::stage(const Instance& instance, Run& run) {
  const recipe::Program& program = instance.program();
  std::vector<Staged> staged;
  for (size_t output : run.inPlace) {
    HPU_ASSIGN(auto buffer, staging(instance, output, run.shared));
    for (size_t s = 0; s < program.sections.size(); ++s) {
      if (program.sections[s].kind != SectionKind::kOutput || program.sections[s].binding != output) continue;
      staged.push_back({output, run.sections[s], instance.neededBytes(true, output), buffer});
      run.sections[s] = buffer->address();
    }
  }
  return staged;
}

bool ExecutableState::isStaged(const std::vector<Staged>& staged, int output) {
  return std::any_of(staged.begin(), staged.end(),
                     [&](const Staged& each) { return each.output == static_cast<size_t>(output); });
}

driver::CopyOnDevice ExecutableState::copyBack(const Staged& staged) {
  return {staged.address, staged.buffer->address(), staged.bytes};
}

Status ExecutableState::enqueue(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<Instance>& instance,
                                const std::shared_ptr<StreamState>& stream, Run run,
                                const std::vector<OutputEvent>& events) {
  std::shared_ptr<TicketHandle> previous;  // Let go after the lock.
  std::unique_lock lock(order_.mutex, std::defer_lock);
  if (run.shared) lock.lock();
  if (run.growing) HPU_RETURN_IF_ERROR(growWorkspace(*instance, run));
  run.label = instance->program().name;
  HPU_ASSIGN(std::vector<Staged> staged, stage(*instance, run));
  driver::Launch work;
  work.program = instance->id();
  work.sections = std::move(run.sections);
  for (const OutputEvent& event : events)
    if (!isStaged(staged, event.output)) work.signals.push_back(static_cast<uint32_t>(event.output));
  run.owners.push_back(self);
  if (instances_) run.owners.push_back(instance);
  const bool shared = run.shared;
  if (auto capture = stream->capture())
    return this->capture(*capture, stream, std::move(work), std::move(run), staged, events, self, instance);
  // Behind the launch that used the memory before. That one's failure is none of this launch.
  if (shared && order_.last && order_.lastQueue != stream->queue())
    HPU_RETURN_IF_ERROR(
        stream->submit(driver::WaitFor{order_.last->ticket(), nullptr, true}, {}, nullptr, nullptr).status());
  auto last = staged.empty() ? submit(stream, std::move(work), std::move(run), events)
                             : submitStaged(stream, std::move(work), std::move(run), staged, events);
  if (!last.ok() || !shared) return last.status();
  previous = std::exchange(order_.last, std::move(*last));
  order_.lastQueue = stream->queue();
  return okStatus();
}

/// Records a launch in the capture that its stream is in.
Status ExecutableState::capture(CaptureState& capture, const std::shared_ptr<StreamState>& stream, driver::Launch work,
                                Run run, const std::vector<Staged>& staged, const std::vector<OutputEvent>& events,
                                const std::shared_ptr<ExecutableState>& self,
                                const std::shared_ptr<Instance>& instance) {
  for (const OutputEvent& event : events)
    if (event.event.state()->shared()) return capture.refuse("an output's event", kSharedInCapture);
  if (run.shared) HPU_RETURN_IF_ERROR(capture.orderBehindLast(*stream, self));
  const driver::Owners owners = staged.empty() ? driver::Owners() : run.owners;
  HPU_ASSIGN(uint32_t operation,
             capture.add(*stream, std::move(work), std::string(run.label), std::move(run.owners), self, instance));
  uint32_t signal = 0;
  for (const OutputEvent& event : events)
    if (!isStaged(staged, event.output))
      event.event.state()->setCaptured({capture.weak_from_this(), operation, signal++, true});
  for (const Staged& stage : staged) {
    driver::Owners kept = owners;
    kept.push_back(stage.buffer->allocation());
    HPU_RETURN_IF_ERROR(capture.add(*stream, copyBack(stage), "in-place output", std::move(kept)).status());
  }
  for (const OutputEvent& event : events)
    if (isStaged(staged, event.output)) HPU_RETURN_IF_ERROR(capture.record(stream, *event.event.state()));
  if (run.shared) capture.used(self, *stream);
  return okStatus();
}

/// Enqueues a launch; its ticket.
StatusOr<std::shared_ptr<TicketHandle>> ExecutableState::submit(const std::shared_ptr<StreamState>& stream,
                                                                driver::Launch work, Run run,
                                                                const std::vector<OutputEvent>& events) {
  std::vector<std::shared_ptr<TicketHandle>> signals(events.size());
  for (auto& signal : signals) signal = base::makeProcessOwned<TicketHandle>(device_, 0);
  HPU_ASSIGN(auto ticket, stream->submit(std::move(work), std::string(run.label), std::move(run.owners)));
  if (!ticket) return failedPrecondition("a capture of the stream began while a launch was enqueued");
  for (size_t i = 0; i < events.size(); ++i) {
    signals[i]->is(ticket->ticket() + 1 + i);
    events[i].event.state()->set(std::move(signals[i]), stream);
  }
  return ticket;
}

/// Enqueues a launch, the copies of its outputs to where they belong, and the markers of these outputs' events: all of
/// it or, when something fails, none. The ticket of the last.
StatusOr<std::shared_ptr<TicketHandle>> ExecutableState::submitStaged(const std::shared_ptr<StreamState>& stream,
                                                                      driver::Launch work, Run run,
                                                                      const std::vector<Staged>& staged,
                                                                      const std::vector<OutputEvent>& events) {
  std::vector<driver::BatchItem> items(1);
  items[0].kept = !work.signals.empty();
  items[0].label = run.label;
  items[0].work = std::move(work);
  for (const Staged& stage : staged) {
    driver::BatchItem& item = items.emplace_back();
    item.work = copyBack(stage);
    item.label = "in-place output";
    run.owners.push_back(stage.buffer->allocation());
  }
  std::vector<StreamState::BatchTicket> tickets;
  uint32_t signal = 0;
  for (const OutputEvent& event : events) {
    auto handle = base::makeProcessOwned<TicketHandle>(device_, 0);
    if (!isStaged(staged, event.output)) {
      tickets.push_back({0, signal++, std::move(handle)});
      continue;
    }
    tickets.push_back({items.size(), driver::BatchItem::kNone, std::move(handle)});
    driver::BatchItem& item = items.emplace_back();
    item.work = driver::Marker{};
    item.kept = true;
  }
  // Of the launch itself, which is kept for the sake of its signals.
  if (items[0].kept) tickets.push_back({0, driver::BatchItem::kNone, base::makeProcessOwned<TicketHandle>(device_, 0)});
  items.back().kept = true;
  auto owners = std::make_shared<driver::Owners>(std::move(run.owners));
  HPU_ASSIGN(auto last, stream->submitBatch(items, std::move(owners), tickets));
  for (size_t i = 0; i < events.size(); ++i) events[i].event.state()->set(std::move(tickets[i].handle), stream);
  return last;
}

Status ExecutableState::launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                               const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs,
                               const std::vector<Shape>& inputShapes, trace::HostScope& scope) try {
  HPU_RETURN_IF_ERROR(checkStream(*stream));
  HPU_RETURN_IF_ERROR(checkCount(inputs.size(), false));
  HPU_ASSIGN(const auto instance, instanceFor(inputShapes, scope));
  LaunchBindings bindings;
  HPU_ASSIGN(bindings.inputs, bind(*instance, inputs, false));
  HPU_ASSIGN(bindings.outputs, bind(*instance, outputs, true));
  Shown shown;
  HPU_ASSIGN(bindings.workspace, bindWorkspace(*instance, 0, shown));
  HPU_ASSIGN(Run run, prepare(*instance, std::move(bindings)));
  return enqueue(self, instance, stream, std::move(run), {});
} catch (const std::bad_alloc&) {
  return noMemory();
}

Status ExecutableState::launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                               const LaunchArguments& arguments, trace::HostScope& scope) try {
  HPU_RETURN_IF_ERROR(checkStream(*stream));
  const size_t outputs = recipe_.program()->outputs.size();
  for (const OutputEvent& event : arguments.events) {
    if (event.output < 0 || static_cast<size_t>(event.output) >= outputs)
      return invalidArgument(base::strCat("an event is for output ", event.output, " of ", outputs));
    HPU_RETURN_IF_ERROR(event.event.state()->checkRecordable("Executable::launch"));
  }
  HPU_ASSIGN(const auto instance, instanceFor(arguments.inputShapes, scope));
  auto run = prepare(*instance, arguments);
  if (run.ok()) return enqueue(self, instance, stream, std::move(*run), arguments.events);
  // Wrong memory may be the stream's error instead; waits for outputs end then.
  if (run.status().code() != StatusCode::kNotFound && run.status().code() != StatusCode::kOutOfRange)
    return run.status();
  HPU_RETURN_IF_ERROR(stream->refuse(run.status(), recipe_.name()));
  for (const OutputEvent& event : arguments.events) {
    HPU_ASSIGN(auto marker, stream->submit(driver::Marker{}, {}, nullptr, nullptr));
    event.event.state()->set(std::move(marker), stream);
  }
  return okStatus();
} catch (const std::bad_alloc&) {
  return noMemory();
}

}  // namespace hpu
