// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/ExecutableState.h"

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

bool overlap(const Buffer& a, const Buffer& b) {
  return a.address() < b.address() + static_cast<uint64_t>(b.state()->capacity()) &&
         b.address() < a.address() + static_cast<uint64_t>(a.state()->capacity());
}

}  // namespace

StatusOr<std::shared_ptr<ExecutableState>> ExecutableState::load(
    const std::shared_ptr<DeviceState>& device, const Recipe& recipe) {
  if (recipe.target() != device->info().target)
    return failedPrecondition(base::strCat(
        "recipe '", recipe.name(), "' was compiled for ", targetName(recipe.target()),
        ", and device ", device->info().index, " is a ", targetName(device->info().target),
        "; compile it with hpu-compile --target ", targetName(device->info().target)));
  HPU_ASSIGN(driver::ProgramId program, device->driver()->loadProgram(recipe.program()));
  auto state = std::make_shared<ExecutableState>(device, recipe, program);
  Status status = state->placeSections();
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
Status ExecutableState::placeSections() {
  const recipe::Program& program = *recipe_.program();
  sections_.assign(program.sections.size(), 0);
  for (size_t i = 0; i < program.sections.size(); ++i) {
    const Section& section = program.sections[i];
    if (isBound(section.kind) || section.kind == SectionKind::kSram) continue;
    if (section.bytes == 0) {
      sections_[i] = device_->driver()->memory().base;
      continue;
    }
    if (section.bytes > static_cast<uint64_t>(INT64_MAX))
      return resourceExhausted(base::strCat("section ", i, " has ", section.bytes, " bytes"));
    HPU_ASSIGN(auto buffer,
               BufferState::create(device_, static_cast<int64_t>(section.bytes),
                                   base::strCat(sectionLabel(section.kind), program.name)));
    sections_[i] = buffer->address();
    buffers_.push_back(std::move(buffer));
  }
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

Status ExecutableState::checkBuffer(const Buffer& buffer, const TensorInfo& tensor,
                                    uint64_t sectionBytes) const {
  if (!buffer.valid())
    return invalidArgument(base::strCat("'", tensor.name, "': the buffer is empty"));
  if (buffer.state()->device() != device_)
    return invalidArgument(base::strCat("'", tensor.name, "': the buffer belongs to device ",
                                        buffer.state()->device()->info().index,
                                        ", and the recipe is loaded on device ",
                                        device_->info().index));
  int64_t capacity = buffer.state()->capacity();
  bool sizeKnown = numElements(tensor.type.shape) != kDynamic;
  if ((sizeKnown && buffer.size() < tensor.type.bytes()) ||
      static_cast<uint64_t>(capacity) < sectionBytes)
    return invalidArgument(
        base::strCat("'", tensor.name, "' is ", tensor.type.toString(), " and needs ",
                     sizeKnown ? tensor.type.bytes() : static_cast<int64_t>(sectionBytes),
                     " bytes; its buffer has ", buffer.size()));
  return okStatus();
}

Status ExecutableState::bind(const std::vector<Buffer>& buffers, bool isOutput,
                             std::vector<driver::DeviceAddress>& sections) const {
  const recipe::Program& program = *recipe_.program();
  const std::vector<TensorInfo>& tensors = isOutput ? program.outputs : program.inputs;
  std::string_view what = isOutput ? "output" : "input";
  if (buffers.size() != tensors.size())
    return invalidArgument(base::strCat("recipe '", program.name, "' has ", tensors.size(), " ",
                                        what, "s, and ", buffers.size(), " were given"));
  SectionKind kind = isOutput ? SectionKind::kOutput : SectionKind::kInput;
  // A tensor that no op touches has no section; its buffer is checked all the same.
  std::vector<uint64_t> sectionBytes(tensors.size(), 0);
  for (const Section& section : program.sections)
    if (section.kind == kind) sectionBytes[section.binding] = section.bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Status status = checkBuffer(buffers[i], tensors[i], sectionBytes[i]);
    if (!status.ok()) return status.withContext(base::strCat(what, " ", i));
  }
  for (size_t s = 0; s < program.sections.size(); ++s)
    if (program.sections[s].kind == kind)
      sections[s] = buffers[program.sections[s].binding].address();
  return okStatus();
}

/// The compiler may write an output before it has read all inputs.
Status ExecutableState::checkOverlap(const std::vector<Buffer>& inputs,
                                     const std::vector<Buffer>& outputs) const {
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (overlap(outputs[o], inputs[i]))
        return invalidArgument(base::strCat("output ", o, " and input ", i,
                                            " use the same memory; give each its own buffer"));
    for (size_t p = 0; p < o; ++p)
      if (overlap(outputs[o], outputs[p]))
        return invalidArgument(base::strCat("outputs ", p, " and ", o,
                                            " use the same memory; give each its own buffer"));
  }
  return okStatus();
}

Status ExecutableState::launch(const std::shared_ptr<ExecutableState>& self, StreamState& stream,
                               const std::vector<Buffer>& inputs,
                               const std::vector<Buffer>& outputs) {
  const recipe::Program& program = *recipe_.program();
  if (stream.device() != device_)
    return invalidArgument(
        base::strCat("recipe '", program.name, "' is loaded on device ", device_->info().index,
                     ", and the stream belongs to device ", stream.device()->info().index));
  driver::Launch work{program_, sections_};
  HPU_RETURN_IF_ERROR(bind(inputs, false, work.sections));
  HPU_RETURN_IF_ERROR(bind(outputs, true, work.sections));
  HPU_RETURN_IF_ERROR(checkOverlap(inputs, outputs));

  std::vector<std::shared_ptr<const void>> owners;
  owners.reserve(1 + inputs.size() + outputs.size());
  owners.push_back(self);
  for (const Buffer& buffer : inputs) owners.push_back(buffer.state());
  for (const Buffer& buffer : outputs) owners.push_back(buffer.state());

  std::shared_ptr<TicketHandle> previous;  // Let go after the lock.
  std::lock_guard lock(mutex_);
  if (last_ && lastQueue_ != stream.queue())
    HPU_RETURN_IF_ERROR(stream.submit(driver::WaitFor{last_->ticket(), nullptr}, {}, {}).status());
  HPU_ASSIGN(auto ticket, stream.submit(std::move(work), program.name, std::move(owners)));
  previous = std::exchange(last_, std::move(ticket));
  lastQueue_ = stream.queue();
  return okStatus();
}

}  // namespace hpu
