// SPDX-License-Identifier: Apache-2.0
#include "hpu/executable.h"

#include <utility>

#include "base/Format.h"
#include "base/Grown.h"
#include "base/StatusMacros.h"
#include "perfmodel/OutputOrder.h"
#include "recipe/SizeValues.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/executable/ExecutableState.h"
#include "runtime/memory/BufferState.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Recorder.h"

namespace hpu {

namespace {

/// From here on what inputs say, their shapes and their values, is one list (recipe::solveSizes).
StatusOr<std::vector<Shape>> numbersOf(const ExecutableState& state, const std::vector<Shape>& inputShapes,
                                       const InputValues& values) {
  return recipe::launchNumbers(*state.recipe().program(), inputShapes, values);
}

}  // namespace

Executable::Executable() = default;
Executable::~Executable() = default;

StatusOr<Executable> Executable::load(const Device& device, const Recipe& recipe, const LoadOptions& options,
                                      size_t optionsBytes) {
  trace::HostScope scope("Executable.load");
  if (!device.valid()) return failedPrecondition("cannot load a recipe: the Device handle is empty");
  if (!recipe.valid()) return failedPrecondition("cannot load a recipe: the Recipe handle is empty");
  HPU_RETURN_IF_ERROR(device.state()->checkProcess());
  HPU_RETURN_IF_ERROR(CaptureState::refuseOnThisThread(*device.state(), "Executable::load",
                                                       "it allocates memory and waits for uploads"));
  HPU_ASSIGN(base::Grown<LoadOptions> given,
             base::grown("LoadOptions", options, optionsBytes, &LoadOptions::reserveWorkspace));
  Executable executable;
  HPU_ASSIGN(executable.state_, ExecutableState::load(device.state(), recipe, *given));
  return executable;
}

const Recipe& Executable::recipe() const {
  static const Recipe empty;
  return state_ ? state_->recipe() : empty;
}

Status Executable::launch(const Stream& stream, const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs) {
  return launch(stream, inputs, outputs, {});
}

Status Executable::launch(const Stream& stream, const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs,
                          const std::vector<Shape>& inputShapes) {
  trace::HostScope scope("Executable.launch");
  if (!state_) return failedPrecondition("the Executable handle is empty; Executable::load gives a valid one");
  if (!stream.state()) return failedPrecondition("cannot launch: the Stream handle is empty");
  HPU_RETURN_IF_ERROR(stream.state()->device()->checkProcess());
  return state_->launch(state_, stream.state(), inputs, outputs, inputShapes, scope);
}

Status Executable::launch(const Stream& stream, const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs,
                          const std::vector<Shape>& inputShapes, const InputValues& values) {
  if (!state_) return failedPrecondition("the Executable handle is empty; Executable::load gives a valid one");
  HPU_ASSIGN(const std::vector<Shape> numbers, numbersOf(*state_, inputShapes, values));
  return launch(stream, inputs, outputs, numbers);
}

Status Executable::launch(const Stream& stream, const LaunchArguments& arguments, size_t argumentsBytes) {
  trace::HostScope scope("Executable.launch");
  if (!state_) return failedPrecondition("the Executable handle is empty; Executable::load gives a valid one");
  if (!stream.state()) return failedPrecondition("cannot launch: the Stream handle is empty");
  HPU_RETURN_IF_ERROR(stream.state()->device()->checkProcess());
  using A = LaunchArguments;
  HPU_ASSIGN(base::Grown<A> given, base::grown("LaunchArguments", arguments, argumentsBytes, &A::inputs, &A::outputs,
                                               &A::workspace, &A::events, &A::inputShapes, &A::inputValues));
  if (given->inputValues.empty()) return state_->launch(state_, stream.state(), *given, scope);
  A numbered = *given;
  HPU_ASSIGN(numbered.inputShapes, numbersOf(*state_, given->inputShapes, given->inputValues));
  return state_->launch(state_, stream.state(), numbered, scope);
}

StatusOr<std::vector<int>> Executable::outputOrder(const Recipe& recipe) {
  if (!recipe.valid()) return failedPrecondition("outputOrder: the Recipe handle is empty");
  HPU_ASSIGN(std::vector<uint32_t> order, perfmodel::outputOrder(*recipe.program()));
  return std::vector<int>(order.begin(), order.end());
}

StatusOr<std::vector<TensorInfo>> Executable::outputs(const std::vector<Shape>& inputShapes) const {
  if (!state_) return failedPrecondition("the Executable handle is empty; Executable::load gives a valid one");
  return state_->outputs(inputShapes);
}

StatusOr<std::vector<TensorInfo>> Executable::outputs(const std::vector<Shape>& inputShapes,
                                                      const InputValues& values) const {
  if (!state_) return failedPrecondition("the Executable handle is empty; Executable::load gives a valid one");
  HPU_ASSIGN(const std::vector<Shape> numbers, numbersOf(*state_, inputShapes, values));
  return state_->outputs(numbers);
}

StatusOr<int64_t> Executable::workspaceBytes(const std::vector<Shape>& inputShapes, const InputValues& values) const {
  if (!state_) return failedPrecondition("the Executable handle is empty; Executable::load gives a valid one");
  HPU_ASSIGN(const std::vector<Shape> numbers, numbersOf(*state_, inputShapes, values));
  return state_->workspaceBytes(numbers);
}

StatusOr<int64_t> Executable::workspaceBytes(const std::vector<Shape>& inputShapes) const {
  if (!state_) return failedPrecondition("the Executable handle is empty; Executable::load gives a valid one");
  return state_->workspaceBytes(inputShapes);
}

int64_t Executable::workspaceBytes() const {
  return state_ ? state_->workspaceBytes() : 0;
}

}  // namespace hpu
