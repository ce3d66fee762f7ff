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

bool isBound(SectionKind kind) {
  return kind == SectionKind::kInput || kind == SectionKind::kOutput;
}

/// Nothing that allocates comes behind the submission.
Status noMemory() {
  return resourceExhausted("out of host memory: the launch was not enqueued");
}

int64_t aligned(int64_t bytes) {
  constexpr auto kAlignment = static_cast<int64_t>(recipe::kAlignment);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

StatusOr<std::shared_ptr<ExecutableState>> ExecutableState::load(const std::shared_ptr<DeviceState>& device,
                                                                 const Recipe& recipe, const LoadOptions& options) {
  if (recipe.target() != device->info().target)
    return failedPrecondition(
        base::strCat("recipe '", recipe.name(), "' was compiled for ", targetName(recipe.target()), ", and device ",
                     device->info().index, " is a ", targetName(device->info().target), "; compile it for that: ",
                     base::compileCall("", {base::optionValue("target", targetName(device->info().target))})));
  HPU_ASSIGN(driver::ProgramId program, device->driver()->loadProgram(recipe.program()));
  auto state = base::makeProcessOwned<ExecutableState>(device, recipe, program);
  Status status = state->placeSections(options);
  if (status.ok()) status = state->uploadConstants();
  if (!status.ok()) return status.withContext(base::strCat("loading recipe '", recipe.name(), "'"));
  return state;
}

ExecutableState::ExecutableState(std::shared_ptr<DeviceState> device, Recipe recipe, driver::ProgramId program)
    : device_(std::move(device)), recipe_(std::move(recipe)), program_(program) {}

ExecutableState::~ExecutableState() {
  device_->driver()->unloadProgram(program_);
}

/// Allocates every section that launches do not bind.
Status ExecutableState::placeSections(const LoadOptions& options) {
  const recipe::Program& program = *recipe_.program();
  sections_.assign(program.sections.size(), 0);
  inputSectionBytes_.assign(program.inputs.size(), 0);
  outputSectionBytes_.assign(program.outputs.size(), 0);
  staging_.resize(program.outputs.size());
  for (size_t i = 0; i < program.sections.size(); ++i) {
    const Section& section = program.sections[i];
    if (section.kind == SectionKind::kSram) continue;
    if (section.bytes > static_cast<uint64_t>(INT64_MAX) - recipe::kAlignment)
      return resourceExhausted(base::strCat("section ", i, " has ", section.bytes, " bytes"));
    const auto bytes = static_cast<int64_t>(section.bytes);
    if (isBound(section.kind)) {
      (section.kind == SectionKind::kInput ? inputSectionBytes_ : outputSectionBytes_)[section.binding] = bytes;
      continue;
    }
    sections_[i] = device_->driver()->memory().base;
    if (bytes == 0) continue;
    if (section.kind == SectionKind::kWorkspace) {
      if (aligned(bytes) > INT64_MAX - workspaceBytes_)
        return resourceExhausted("the workspace has more bytes than can be counted");
      workspaceBytes_ += aligned(bytes);
      if (!options.reserveWorkspace) continue;
    }
    if (section.kind == SectionKind::kPersistent) keepsState_ = true;
    HPU_ASSIGN(auto buffer,
               BufferState::create(device_, bytes,
                                   {base::strCat(sectionLabel(section.kind), program.name), /*requestedAddress=*/0},
                                   Visibility::kInternal));
    sections_[i] = buffer->address();
    buffers_.push_back(std::move(buffer));
  }
  ownsWorkspace_ = options.reserveWorkspace || workspaceBytes_ == 0;
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
  return stream->synchronize(-1, "Executable::load");
}

/// Bytes that a tensor's ops may touch: the tensor's own, or its section's where the shape is open.
int64_t ExecutableState::neededBytes(bool isOutput, size_t index) const {
  const recipe::Program& program = *recipe_.program();
  const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[index];
  if (numElements(tensor.type.shape) != kDynamic) return tensor.type.bytes();
  return (isOutput ? outputSectionBytes_ : inputSectionBytes_)[index];
}

/// "input 0: 'x', 1x3xf32".
std::string ExecutableState::tensorText(bool isOutput, size_t index) const {
  const recipe::Program& program = *recipe_.program();
  const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[index];
  return base::strCat(isOutput ? "output " : "input ", index, ": '", tensor.name, "', ", tensor.type.toString());
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

Status ExecutableState::checkAligned(uint64_t address, ElementType type, bool isOutput, size_t index) const {
  const auto element = static_cast<uint64_t>(std::max<int64_t>(1, elementSize(type)));
  if (address % element == 0) return okStatus();
  return invalidArgument(base::strCat(tensorText(isOutput, index), ": its address ", base::formatHex(address),
                                      " is no multiple of the element's ", element, " bytes"));
}

StatusOr<std::vector<BoundMemory>> ExecutableState::bind(const std::vector<Buffer>& buffers, bool isOutput) const {
  const recipe::Program& program = *recipe_.program();
  HPU_RETURN_IF_ERROR(checkCount(buffers.size(), isOutput));
  std::vector<BoundMemory> result;
  result.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (!buffer.valid()) return invalidArgument(base::strCat(tensorText(isOutput, i), ": the buffer is empty"));
    if (buffer.state()->device() != device_)
      return invalidArgument(base::strCat(tensorText(isOutput, i), ": the buffer belongs to device ",
                                          buffer.state()->device()->info().index,
                                          ", and the recipe is loaded on device ", device_->info().index));
    const int64_t needed = neededBytes(isOutput, i);
    // An open shape's section is rounded up, and so is what belongs to a buffer.
    const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[i];
    bool open = numElements(tensor.type.shape) == kDynamic;
    if ((open ? buffer.state()->capacity() : buffer.size()) < needed)
      return invalidArgument(base::strCat(isOutput ? "output " : "input ", i, ": '", tensor.name, "' is ",
                                          tensor.type.toString(), " and needs ", needed, " bytes; its buffer has ",
                                          buffer.size()));
    HPU_RETURN_IF_ERROR(checkAligned(buffer.address(), tensor.type.element, isOutput, i));
    result.push_back({buffer.address(), needed, buffer.state()->allocation()});
  }
  return result;
}

StatusOr<std::vector<BoundMemory>> ExecutableState::bind(const std::vector<uint64_t>& addresses, bool isOutput,
                                                         Shown& shown) const {
  const recipe::Program& program = *recipe_.program();
  HPU_RETURN_IF_ERROR(checkCount(addresses.size(), isOutput));
  std::vector<BoundMemory> result;
  result.reserve(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    BoundMemory bound{addresses[i], neededBytes(isOutput, i), nullptr};
    if (bound.bytes == 0) {
      // Nothing is touched there; the driver wants an address of the device all the same.
      bound.address = device_->driver()->memory().base;
      result.push_back(std::move(bound));
      continue;
    }
    const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[i];
    HPU_RETURN_IF_ERROR(checkAligned(addresses[i], tensor.type.element, isOutput, i));
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
      std::string context = tensorText(isOutput, i);
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

StatusOr<BoundMemory> ExecutableState::bindWorkspace(uint64_t address, Shown& shown) const {
  const recipe::Program& program = *recipe_.program();
  if (address == 0) {
    if (!ownsWorkspace_)
      return failedPrecondition(base::strCat("recipe '", program.name,
                                             "' was loaded without a workspace and needs one of ", workspaceBytes_,
                                             " bytes; give its address in LaunchArguments::workspace"));
    return BoundMemory();
  }
  if (workspaceBytes_ == 0) return BoundMemory();
  if (address % recipe::kAlignment != 0)
    return invalidArgument(
        base::strCat("the workspace's address ", base::formatHex(address), " is no multiple of ", recipe::kAlignment));
  auto buffer = device_->memory().find(address, workspaceBytes_, "launch");
  if (!buffer.ok()) return buffer.status().withContext("workspace");
  shown.push_back(*buffer);
  return BoundMemory{address, workspaceBytes_, (*buffer)->allocation()};
}

int64_t ExecutableState::boundBytes(size_t index) const {
  const Section& section = recipe_.program()->sections[index];
  if (isBound(section.kind)) return neededBytes(section.kind == SectionKind::kOutput, section.binding);
  return section.kind == SectionKind::kWorkspace ? static_cast<int64_t>(section.bytes) : 0;
}

Status ExecutableState::checkSections(const std::vector<driver::DeviceAddress>& sections) const {
  const recipe::Program& program = *recipe_.program();
  auto meet = [&](size_t a, size_t b) {
    return sections[a] < sections[b] + static_cast<uint64_t>(boundBytes(b)) &&
           sections[b] < sections[a] + static_cast<uint64_t>(boundBytes(a));
  };
  for (size_t s = 0; s < sections.size(); ++s) {
    const Section& section = program.sections[s];
    if (boundBytes(s) == 0) continue;
    uint64_t alignment = recipe::kAlignment;
    if (isBound(section.kind)) {
      const auto& tensors = section.kind == SectionKind::kOutput ? program.outputs : program.inputs;
      alignment = static_cast<uint64_t>(std::max<int64_t>(1, elementSize(tensors[section.binding].type.element)));
    }
    if (sections[s] % alignment != 0)
      return invalidArgument(
          base::strCat("the address ", base::formatHex(sections[s]), " is no multiple of ", alignment));
    if (section.kind == SectionKind::kInput) continue;
    for (size_t other = 0; other < sections.size(); ++other)
      if (other != s && boundBytes(other) > 0 && meet(s, other))
        return invalidArgument(base::strCat(
            section.kind == SectionKind::kOutput ? base::strCat("output ", section.binding)
                                                 : std::string("the workspace"),
            " of recipe '", program.name, "' would overwrite memory that the same launch uses; give it its own"));
  }
  return okStatus();
}

// ---- Launching
// -------------------------------------------------------------------------------------

StatusOr<ExecutableState::Run> ExecutableState::prepare(LaunchBindings bindings) const {
  const recipe::Program& program = *recipe_.program();
  Run run;
  HPU_ASSIGN(run.inPlace, outputsOverInputs(bindings));
  const bool ownWorkspace = bindings.workspace.bytes == 0;
  run.shared = (ownWorkspace && workspaceBytes_ > 0) || keepsState_ || !run.inPlace.empty();
  run.sections = sections_;
  int64_t workspaceUsed = 0;
  for (size_t s = 0; s < program.sections.size(); ++s) {
    const Section& section = program.sections[s];
    if (section.kind == SectionKind::kInput) {
      run.sections[s] = bindings.inputs[section.binding].address;
    } else if (section.kind == SectionKind::kOutput) {
      run.sections[s] = bindings.outputs[section.binding].address;
    } else if (section.kind == SectionKind::kWorkspace && !ownWorkspace) {
      run.sections[s] = bindings.workspace.address + static_cast<uint64_t>(workspaceUsed);
      workspaceUsed += aligned(static_cast<int64_t>(section.bytes));
    }
  }
  run.owners.reserve(2 + bindings.inputs.size() + bindings.outputs.size());
  for (auto* list : {&bindings.inputs, &bindings.outputs})
    for (BoundMemory& memory : *list)
      if (memory.owner) run.owners.push_back(std::move(memory.owner));
  if (bindings.workspace.owner) run.owners.push_back(std::move(bindings.workspace.owner));
  return run;
}

bool ExecutableState::Plan::isFor(const LaunchArguments& arguments) const {
  return workspace == arguments.workspace && inputs == arguments.inputs && outputs == arguments.outputs;
}

/// Fills in `run` from a plan for these addresses, when there is one that still holds.
bool ExecutableState::replan(const LaunchArguments& arguments, Run& run) {
  std::shared_ptr<const Plan> plan;
  {
    std::lock_guard lock(plansMutex_);
    for (const auto& known : plans_)
      if (known->isFor(arguments)) {
        plan = known;
        break;
      }
  }
  if (!plan) return false;
  run.owners.reserve(plan->buffers.size() + plan->host.size() + 1);
  for (const auto& known : plan->buffers) {
    std::shared_ptr<BufferState> buffer = known.lock();
    // The program has freed it; something else may be at its address.
    if (!buffer) {
      run = Run();
      return false;
    }
    run.owners.push_back(buffer->allocation());
  }
  for (const BoundMemory& tensor : plan->host) {
    auto block = device_->host().useAddress(tensor.address, tensor.bytes, "launch");
    if (!block.ok()) {
      run = Run();
      return false;
    }
    run.owners.push_back(std::move(*block));
  }
  run.sections = plan->sections;
  run.inPlace = plan->inPlace;
  run.shared = plan->shared;
  return true;
}

StatusOr<ExecutableState::Run> ExecutableState::prepare(const LaunchArguments& arguments) {
  Run run;
  if (replan(arguments, run)) return run;
  LaunchBindings bindings;
  Shown shown;
  HPU_ASSIGN(bindings.inputs, bind(arguments.inputs, false, shown));
  HPU_ASSIGN(bindings.outputs, bind(arguments.outputs, true, shown));
  HPU_ASSIGN(bindings.workspace, bindWorkspace(arguments.workspace, shown));
  auto plan = std::make_shared<Plan>();
  for (const auto* list : {&bindings.inputs, &bindings.outputs})
    for (const BoundMemory& tensor : *list)
      if (driver::isInHost(tensor.address)) plan->host.push_back({tensor.address, tensor.bytes, nullptr});
  HPU_ASSIGN(run, prepare(std::move(bindings)));
  plan->inputs = arguments.inputs;
  plan->outputs = arguments.outputs;
  plan->workspace = arguments.workspace;
  plan->sections = run.sections;
  plan->buffers.assign(shown.begin(), shown.end());
  plan->inPlace = run.inPlace;
  plan->shared = run.shared;
  std::shared_ptr<const Plan> replaced;  // Let go after the lock.
  std::lock_guard lock(plansMutex_);
  // In the place of one that does not hold any more.
  auto same = std::find_if(plans_.begin(), plans_.end(), [&](const auto& known) { return known->isFor(arguments); });
  if (same == plans_.end()) {
    if (plans_.size() < kPlans) plans_.resize(plans_.size() + 1);
    same = plans_.begin() + static_cast<std::ptrdiff_t>(nextPlan_++ % plans_.size());
  }
  replaced = std::exchange(*same, std::move(plan));
  return run;
}

/// Memory for an output that overwrites an input. Launches that are in order with each other reuse
/// it.
StatusOr<std::shared_ptr<BufferState>> ExecutableState::staging(size_t output, bool mayReuse) {
  if (mayReuse && staging_[output]) return staging_[output];
  HPU_ASSIGN(auto buffer,
             BufferState::create(device_, std::max<int64_t>(neededBytes(true, output), 1),
                                 {base::strCat("in-place outputs of ", recipe_.name()), 0}, Visibility::kInternal));
  if (mayReuse) staging_[output] = buffer;
  return buffer;
}

/// Gives outputs that lie over inputs other memory.
StatusOr<std::vector<ExecutableState::Staged>> ExecutableState::stage(Run& run) {
  const recipe::Program& program = *recipe_.program();
  std::vector<Staged> staged;
  for (size_t output : run.inPlace) {
    HPU_ASSIGN(auto buffer, staging(output, run.shared));
    for (size_t s = 0; s < program.sections.size(); ++s) {
      if (program.sections[s].kind != SectionKind::kOutput || program.sections[s].binding != output) continue;
      staged.push_back({output, run.sections[s], buffer});
      run.sections[s] = buffer->address();
    }
  }
  return staged;
}

bool ExecutableState::isStaged(const std::vector<Staged>& staged, int output) {
  return std::any_of(staged.begin(), staged.end(),
                     [&](const Staged& each) { return each.output == static_cast<size_t>(output); });
}

driver::CopyOnDevice ExecutableState::copyBack(const Staged& staged) const {
  return {staged.address, staged.buffer->address(), neededBytes(true, staged.output)};
}

Status ExecutableState::enqueue(const std::shared_ptr<ExecutableState>& self,
                                const std::shared_ptr<StreamState>& stream, Run run,
                                const std::vector<OutputEvent>& events) {
  std::shared_ptr<TicketHandle> previous;  // Let go after the lock.
  std::unique_lock lock(order_.mutex, std::defer_lock);
  if (run.shared) lock.lock();
  HPU_ASSIGN(std::vector<Staged> staged, stage(run));
  driver::Launch work;
  work.program = program_;
  work.sections = std::move(run.sections);
  for (const OutputEvent& event : events)
    if (!isStaged(staged, event.output)) work.signals.push_back(static_cast<uint32_t>(event.output));
  run.owners.push_back(self);
  const bool shared = run.shared;
  if (auto capture = stream->capture())
    return this->capture(*capture, stream, std::move(work), std::move(run), staged, events, self);
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
                                const std::shared_ptr<ExecutableState>& self) {
  for (const OutputEvent& event : events)
    if (event.event.state()->shared()) return capture.refuse("an output's event", kSharedInCapture);
  if (run.shared) HPU_RETURN_IF_ERROR(capture.orderBehindLast(*stream, self));
  const std::vector<Owner> owners = staged.empty() ? std::vector<Owner>() : run.owners;
  HPU_ASSIGN(uint32_t operation, capture.add(*stream, std::move(work), recipe_.name(), std::move(run.owners), self));
  uint32_t signal = 0;
  for (const OutputEvent& event : events)
    if (!isStaged(staged, event.output))
      event.event.state()->setCaptured({capture.weak_from_this(), operation, signal++, true});
  for (const Staged& stage : staged) {
    std::vector<Owner> kept = owners;
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
  HPU_ASSIGN(auto ticket, stream->submit(std::move(work), recipe_.name(), std::move(run.owners)));
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
  items[0].label = recipe_.name();
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
  auto owners = std::make_shared<std::vector<Owner>>(std::move(run.owners));
  HPU_ASSIGN(auto last, stream->submitBatch(items, std::move(owners), tickets));
  for (size_t i = 0; i < events.size(); ++i) events[i].event.state()->set(std::move(tickets[i].handle), stream);
  return last;
}

Status ExecutableState::launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                               const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs) try {
  HPU_RETURN_IF_ERROR(checkStream(*stream));
  LaunchBindings bindings;
  HPU_ASSIGN(bindings.inputs, bind(inputs, false));
  HPU_ASSIGN(bindings.outputs, bind(outputs, true));
  Shown shown;
  HPU_ASSIGN(bindings.workspace, bindWorkspace(0, shown));
  HPU_ASSIGN(Run run, prepare(std::move(bindings)));
  return enqueue(self, stream, std::move(run), {});
} catch (const std::bad_alloc&) {
  return noMemory();
}

Status ExecutableState::launch(const std::shared_ptr<ExecutableState>& self, const std::shared_ptr<StreamState>& stream,
                               const LaunchArguments& arguments) try {
  HPU_RETURN_IF_ERROR(checkStream(*stream));
  const size_t outputs = recipe_.program()->outputs.size();
  for (const OutputEvent& event : arguments.events) {
    if (event.output < 0 || static_cast<size_t>(event.output) >= outputs)
      return invalidArgument(base::strCat("an event is for output ", event.output, " of ", outputs));
    HPU_RETURN_IF_ERROR(event.event.state()->checkRecordable("Executable::launch"));
  }
  auto run = prepare(arguments);
  if (run.ok()) return enqueue(self, stream, std::move(*run), arguments.events);
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
