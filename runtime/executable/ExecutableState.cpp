// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/ExecutableState.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/Recipe.h"
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

int64_t aligned(int64_t bytes) {
  constexpr auto kAlignment = static_cast<int64_t>(recipe::kAlignment);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Of the range that two tensors use.
bool overlap(uint64_t a, int64_t aBytes, uint64_t b, int64_t bBytes) {
  return aBytes > 0 && bBytes > 0 && a < b + static_cast<uint64_t>(bBytes) &&
         b < a + static_cast<uint64_t>(aBytes);
}

}  // namespace

StatusOr<std::shared_ptr<ExecutableState>> ExecutableState::load(
    const std::shared_ptr<DeviceState>& device, const Recipe& recipe, const LoadOptions& options) {
  if (recipe.target() != device->info().target)
    return failedPrecondition(base::strCat(
        "recipe '", recipe.name(), "' was compiled for ", targetName(recipe.target()),
        ", and device ", device->info().index, " is a ", targetName(device->info().target),
        "; compile it with hpu-compile --target ", targetName(device->info().target)));
  HPU_ASSIGN(driver::ProgramId program, device->driver()->loadProgram(recipe.program()));
  auto state = std::make_shared<ExecutableState>(device, recipe, program);
  Status status = state->placeSections(options);
  if (status.ok()) status = state->uploadConstants();
  if (!status.ok()) return status.withContext(base::strCat("loading recipe '", recipe.name(), "'"));
  return state;
}

ExecutableState::ExecutableState(std::shared_ptr<DeviceState> device, Recipe recipe,
                                 driver::ProgramId program)
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
      (section.kind == SectionKind::kInput ? inputSectionBytes_
                                           : outputSectionBytes_)[section.binding] = bytes;
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
               BufferState::create(
                   device_, bytes,
                   {base::strCat(sectionLabel(section.kind), program.name), /*requestedAddress=*/0},
                   Visibility::kInternal));
    sections_[i] = buffer->address();
    buffers_.push_back(std::move(buffer));
  }
  ownsWorkspace_ = options.reserveWorkspace || workspaceBytes_ == 0;
  return okStatus();
}

/// Blocks until the constants are on the device: the copies read the recipe's own memory.
Status ExecutableState::uploadConstants() {
  const recipe::Program& program = *recipe_.program();
  HPU_ASSIGN(auto stream, StreamState::create(device_, {.name = base::strCat("load ", program.name),
                                                        .priority = 0}));
  // What no constant covers of a const section is never read (the verifier sees to it).
  for (size_t i = 0; i < program.sections.size(); ++i) {
    const Section& section = program.sections[i];
    if (section.bytes == 0 || section.kind != SectionKind::kPersistent) continue;
    HPU_RETURN_IF_ERROR(
        stream
            ->submit(driver::Fill{sections_[i], 0, static_cast<int64_t>(section.bytes)}, "clear",
                     {})
            .status());
  }
  for (const recipe::ConstantBlob& blob : program.constants) {
    if (blob.bytes == 0) continue;
    HPU_RETURN_IF_ERROR(
        stream
            ->submit(driver::CopyToDevice{sections_[blob.section] + blob.offset, blob.data,
                                          static_cast<int64_t>(blob.bytes)},
                     "constants", {})
            .status());
  }
  return stream->synchronize(-1);
}

/// Bytes that a tensor's ops may touch: the tensor's own, or its section's where the shape is open.
int64_t ExecutableState::neededBytes(bool isOutput, size_t index) const {
  const recipe::Program& program = *recipe_.program();
  const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[index];
  if (numElements(tensor.type.shape) != kDynamic) return tensor.type.bytes();
  return (isOutput ? outputSectionBytes_ : inputSectionBytes_)[index];
}

Status ExecutableState::checkCount(size_t given, bool isOutput) const {
  const recipe::Program& program = *recipe_.program();
  size_t wanted = isOutput ? program.outputs.size() : program.inputs.size();
  if (given == wanted) return okStatus();
  return invalidArgument(base::strCat("recipe '", program.name, "' has ", wanted,
                                      isOutput ? " outputs, and " : " inputs, and ", given,
                                      " were given"));
}

StatusOr<std::vector<ExecutableState::Bound>> ExecutableState::bind(
    const std::vector<Buffer>& buffers, bool isOutput) const {
  const recipe::Program& program = *recipe_.program();
  HPU_RETURN_IF_ERROR(checkCount(buffers.size(), isOutput));
  std::vector<Bound> result;
  result.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[i];
    auto where = [&] {
      return base::strCat(isOutput ? "output " : "input ", i, ": '", tensor.name, "'");
    };
    if (!buffer.valid()) return invalidArgument(base::strCat(where(), ": the buffer is empty"));
    if (buffer.state()->device() != device_)
      return invalidArgument(base::strCat(
          where(), ": the buffer belongs to device ", buffer.state()->device()->info().index,
          ", and the recipe is loaded on device ", device_->info().index));
    const int64_t needed = neededBytes(isOutput, i);
    // An open shape's section is rounded up, and so is what belongs to a buffer.
    bool open = numElements(tensor.type.shape) == kDynamic;
    if ((open ? buffer.state()->capacity() : buffer.size()) < needed)
      return invalidArgument(base::strCat(where(), " is ", tensor.type.toString(), " and needs ",
                                          needed, " bytes; its buffer has ", buffer.size()));
    result.push_back({buffer.address(), needed, buffer.state()->allocation()});
  }
  return result;
}

StatusOr<std::vector<ExecutableState::Bound>> ExecutableState::bind(
    const std::vector<uint64_t>& addresses, bool isOutput) const {
  const recipe::Program& program = *recipe_.program();
  HPU_RETURN_IF_ERROR(checkCount(addresses.size(), isOutput));
  std::vector<Bound> result;
  result.reserve(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const TensorInfo& tensor = (isOutput ? program.outputs : program.inputs)[i];
    auto where = [&] {
      return base::strCat(isOutput ? "output " : "input ", i, ": '", tensor.name, "', ",
                          tensor.type.toString());
    };
    Bound bound{addresses[i], neededBytes(isOutput, i), nullptr};
    if (bound.bytes == 0) {
      // Nothing is touched there; the driver wants an address of the device all the same.
      bound.address = device_->driver()->memory().base;
      result.push_back(std::move(bound));
      continue;
    }
    const auto element =
        static_cast<uint64_t>(std::max<int64_t>(1, elementSize(tensor.type.element)));
    if (addresses[i] % element != 0)
      return invalidArgument(base::strCat(where(), ": its address ", base::formatHex(addresses[i]),
                                          " is no multiple of the element's ", element, " bytes"));
    auto buffer = device_->memory().find(addresses[i], bound.bytes, "launch");
    if (!buffer.ok()) return buffer.status().withContext(where());
    bound.owner = (*buffer)->allocation();
    result.push_back(std::move(bound));
  }
  return result;
}

StatusOr<ExecutableState::Bound> ExecutableState::bindWorkspace(uint64_t address) const {
  const recipe::Program& program = *recipe_.program();
  if (address == 0) {
    if (!ownsWorkspace_)
      return failedPrecondition(base::strCat(
          "recipe '", program.name, "' was loaded without a workspace and needs one of ",
          workspaceBytes_, " bytes; give its address in LaunchArguments::workspace"));
    return Bound();
  }
  if (workspaceBytes_ == 0) return Bound();
  if (address % recipe::kAlignment != 0)
    return invalidArgument(base::strCat("the workspace's address ", base::formatHex(address),
                                        " is no multiple of ", recipe::kAlignment));
  auto buffer = device_->memory().find(address, workspaceBytes_, "launch");
  if (!buffer.ok()) return buffer.status().withContext("workspace");
  return Bound{address, workspaceBytes_, (*buffer)->allocation()};
}

/// The outputs that share memory with an input: the program may write them before it has read all
/// inputs.
StatusOr<std::vector<size_t>> ExecutableState::overwritten(const Bindings& bindings) const {
  auto shares = [](const Bound& a, const Bound& b) {
    return overlap(a.address, a.bytes, b.address, b.bytes);
  };
  std::vector<size_t> result;
  for (size_t o = 0; o < bindings.outputs.size(); ++o) {
    const Bound& output = bindings.outputs[o];
    for (size_t p = 0; p < o; ++p)
      if (shares(output, bindings.outputs[p]))
        return invalidArgument(base::strCat("outputs ", p, " and ", o,
                                            " use the same memory; give each its own buffer"));
    if (shares(output, bindings.workspace))
      return invalidArgument(base::strCat("output ", o, " lies in the workspace"));
    for (const Bound& input : bindings.inputs) {
      if (!shares(output, input)) continue;
      result.push_back(o);
      break;
    }
  }
  for (size_t i = 0; i < bindings.inputs.size(); ++i)
    if (shares(bindings.inputs[i], bindings.workspace))
      return invalidArgument(base::strCat("input ", i, " lies in the workspace"));
  return result;
}

/// Memory for an output that overwrites an input. Launches that are in order with each other reuse
/// it.
StatusOr<std::shared_ptr<BufferState>> ExecutableState::staging(size_t output, bool mayReuse) {
  if (mayReuse && staging_[output]) return staging_[output];
  HPU_ASSIGN(auto buffer,
             BufferState::create(device_, std::max<int64_t>(neededBytes(true, output), 1),
                                 {base::strCat("in-place outputs of ", recipe_.name()), 0},
                                 Visibility::kInternal));
  if (mayReuse) staging_[output] = buffer;
  return buffer;
}

Status ExecutableState::enqueue(const std::shared_ptr<ExecutableState>& self, StreamState& stream,
                                Bindings bindings) {
  const recipe::Program& program = *recipe_.program();
  HPU_ASSIGN(std::vector<size_t> inPlace, overwritten(bindings));
  const bool shared =
      (bindings.workspace.address == 0 && workspaceBytes_ > 0) || keepsState_ || !inPlace.empty();

  std::shared_ptr<TicketHandle> previous;  // Let go after the lock.
  std::unique_lock lock(mutex_, std::defer_lock);
  if (shared) lock.lock();
  std::vector<std::pair<size_t, std::shared_ptr<BufferState>>> staged;
  for (size_t output : inPlace) {
    HPU_ASSIGN(auto buffer, staging(output, shared));
    staged.emplace_back(output, std::move(buffer));
  }

  driver::Launch work{program_, sections_};
  std::vector<Owner> owners;
  owners.reserve(2 + bindings.inputs.size() + bindings.outputs.size());
  owners.push_back(self);
  int64_t workspaceUsed = 0;
  for (size_t s = 0; s < program.sections.size(); ++s) {
    const Section& section = program.sections[s];
    if (section.kind == SectionKind::kInput) {
      work.sections[s] = bindings.inputs[section.binding].address;
    } else if (section.kind == SectionKind::kOutput) {
      work.sections[s] = bindings.outputs[section.binding].address;
      for (const auto& [output, buffer] : staged)
        if (output == section.binding) work.sections[s] = buffer->address();
    } else if (section.kind == SectionKind::kWorkspace && bindings.workspace.address != 0) {
      work.sections[s] = bindings.workspace.address + static_cast<uint64_t>(workspaceUsed);
      workspaceUsed += aligned(static_cast<int64_t>(section.bytes));
    }
  }
  for (const auto* bounds : {&bindings.inputs, &bindings.outputs})
    for (const Bound& bound : *bounds)
      if (bound.owner) owners.push_back(bound.owner);
  if (bindings.workspace.owner) owners.push_back(bindings.workspace.owner);

  if (shared && last_ && lastQueue_ != stream.queue())
    HPU_RETURN_IF_ERROR(stream.submit(driver::WaitFor{last_->ticket(), nullptr}, {}, {}).status());
  HPU_ASSIGN(auto ticket, stream.submit(std::move(work), program.name, std::move(owners)));
  for (const auto& [output, buffer] : staged) {
    const Bound& to = bindings.outputs[output];
    HPU_ASSIGN(ticket, stream.submit(driver::CopyOnDevice{to.address, buffer->address(), to.bytes},
                                     "in-place output", {to.owner, buffer->allocation()}));
  }
  if (!shared) return okStatus();
  previous = std::exchange(last_, std::move(ticket));
  lastQueue_ = stream.queue();
  return okStatus();
}

Status ExecutableState::checkStream(const StreamState& stream) const {
  if (stream.device() == device_) return okStatus();
  return invalidArgument(base::strCat("recipe '", recipe_.name(), "' is loaded on device ",
                                      device_->info().index, ", and the stream belongs to device ",
                                      stream.device()->info().index));
}

Status ExecutableState::launch(const std::shared_ptr<ExecutableState>& self, StreamState& stream,
                               const std::vector<Buffer>& inputs,
                               const std::vector<Buffer>& outputs) {
  HPU_RETURN_IF_ERROR(checkStream(stream));
  Bindings bindings;
  HPU_ASSIGN(bindings.inputs, bind(inputs, false));
  HPU_ASSIGN(bindings.outputs, bind(outputs, true));
  HPU_ASSIGN(bindings.workspace, bindWorkspace(0));
  return enqueue(self, stream, std::move(bindings));
}

Status ExecutableState::launch(const std::shared_ptr<ExecutableState>& self, const Stream& stream,
                               const LaunchArguments& arguments) {
  HPU_RETURN_IF_ERROR(checkStream(*stream.state()));
  Bindings bindings;
  HPU_ASSIGN(bindings.inputs, bind(arguments.inputs, false));
  HPU_ASSIGN(bindings.outputs, bind(arguments.outputs, true));
  HPU_ASSIGN(bindings.workspace, bindWorkspace(arguments.workspace));
  for (const OutputEvent& event : arguments.events)
    if (event.output < 0 || static_cast<size_t>(event.output) >= bindings.outputs.size())
      return invalidArgument(
          base::strCat("an event is for output ", event.output, " of ", bindings.outputs.size()));
  HPU_RETURN_IF_ERROR(enqueue(self, *stream.state(), std::move(bindings)));
  Stream handle = stream;
  for (const OutputEvent& event : arguments.events) HPU_RETURN_IF_ERROR(handle.record(event.event));
  return okStatus();
}

}  // namespace hpu
