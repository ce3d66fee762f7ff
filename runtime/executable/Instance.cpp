// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable/Instance.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "runtime/device/DeviceState.h"

namespace hpu {

using recipe::Section;
using recipe::SectionKind;

int64_t alignedSectionBytes(int64_t bytes) {
  constexpr auto kAlignment = static_cast<int64_t>(recipe::kAlignment);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool isBoundAtLaunch(SectionKind kind) {
  return kind == SectionKind::kInput || kind == SectionKind::kOutput;
}

StatusOr<std::shared_ptr<Instance>> Instance::load(const std::shared_ptr<DeviceState>& device,
                                                   std::shared_ptr<const recipe::Program> program, recipe::Sizes sizes,
                                                   const Instance* like) {
  auto load = [&] {
    if (!like) return device->driver()->loadProgram(program);
    // Of a variant the name says it.
    const auto& dynamic = like->program().dynamic;
    return device->driver()->loadInstance(program, like->id(), dynamic ? recipe::sizesText(*dynamic, sizes) : "");
  };
  HPU_ASSIGN(driver::ProgramId id, load());
  auto instance = base::makeProcessOwned<Instance>(device, std::move(program), std::move(sizes), id);
  HPU_RETURN_IF_ERROR(instance->measureSections());
  return instance;
}

Instance::Instance(std::shared_ptr<DeviceState> device, std::shared_ptr<const recipe::Program> program,
                   recipe::Sizes sizes, driver::ProgramId id)
    : device_(std::move(device)), program_(std::move(program)), sizes_(std::move(sizes)), id_(id) {}

Instance::~Instance() {
  device_->driver()->unloadProgram(id_);
}

Status Instance::measureSections() {
  inputSectionBytes_.assign(program_->inputs.size(), 0);
  outputSectionBytes_.assign(program_->outputs.size(), 0);
  for (size_t i = 0; i < program_->sections.size(); ++i) {
    const Section& section = program_->sections[i];
    if (section.kind == SectionKind::kSram) continue;
    if (section.bytes > static_cast<uint64_t>(INT64_MAX) - recipe::kAlignment)
      return resourceExhausted(base::strCat("section ", i, " has ", section.bytes, " bytes"));
    const auto bytes = static_cast<int64_t>(section.bytes);
    if (isBoundAtLaunch(section.kind)) {
      (section.kind == SectionKind::kInput ? inputSectionBytes_ : outputSectionBytes_)[section.binding] = bytes;
    } else if (section.kind == SectionKind::kWorkspace) {
      if (alignedSectionBytes(bytes) > INT64_MAX - workspaceBytes_)
        return resourceExhausted("the workspace has more bytes than can be counted");
      workspaceBytes_ += alignedSectionBytes(bytes);
    }
  }
  return okStatus();
}

int64_t Instance::neededBytes(bool isOutput, size_t index) const {
  const TensorInfo& tensor = (isOutput ? program_->outputs : program_->inputs)[index];
  for (const recipe::State& state : program_->states)
    if (index == (isOutput ? state.output : state.input))
      return static_cast<int64_t>(recipe::stateBytes(*program_, state));
  if (numElements(tensor.type.shape) != kDynamic) return tensor.type.bytes();
  return (isOutput ? outputSectionBytes_ : inputSectionBytes_)[index];
}

int64_t Instance::boundBytes(size_t index) const {
  const Section& section = program_->sections[index];
  // The section of its output stands for both.
  if (section.kind == SectionKind::kInput && recipe::stateOf(*program_, section)) return 0;
  if (isBoundAtLaunch(section.kind)) return neededBytes(section.kind == SectionKind::kOutput, section.binding);
  return section.kind == SectionKind::kWorkspace ? static_cast<int64_t>(section.bytes) : 0;
}

void Instance::placeWorkspace(driver::Addresses& sections, uint64_t address) const {
  for (size_t s = 0; s < program_->sections.size(); ++s) {
    const Section& section = program_->sections[s];
    if (section.kind != SectionKind::kWorkspace) continue;
    sections[s] = address;
    address += static_cast<uint64_t>(alignedSectionBytes(static_cast<int64_t>(section.bytes)));
  }
}

Status Instance::checkSections(const driver::Addresses& sections) const {
  const recipe::Program& program = *program_;
  auto meet = [&](size_t a, size_t b) {
    return sections[a] < sections[b] + static_cast<uint64_t>(boundBytes(b)) &&
           sections[b] < sections[a] + static_cast<uint64_t>(boundBytes(a));
  };
  for (size_t s = 0; s < sections.size(); ++s) {
    const Section& section = program.sections[s];
    if (boundBytes(s) == 0) continue;
    uint64_t alignment = recipe::kAlignment;
    if (isBoundAtLaunch(section.kind)) {
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

std::string Instance::tensorText(bool isOutput, size_t index) const {
  const TensorInfo& tensor = (isOutput ? program_->outputs : program_->inputs)[index];
  return base::strCat(isOutput ? "output " : "input ", index, ": '", tensor.name, "', ", tensor.type.toString());
}

}  // namespace hpu
