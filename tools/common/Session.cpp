// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/File.h"
#include "base/StatusMacros.h"
#include "recipe/Container.h"
#include "tools/common/Inputs.h"
#include "tools/common/StateRows.h"

namespace hpu::tools {
namespace {

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// A buffer for the tensor in the place of one that is too small.
Status reserve(Device& device, const TensorInfo& info, Buffer& buffer) {
  const int64_t bytes = std::max<int64_t>(info.type.bytes(), 1);
  if (buffer.valid() && buffer.size() >= bytes) return okStatus();
  HPU_ASSIGN(buffer, device.allocate(bytes, info.name));
  return okStatus();
}

}  // namespace

StatusOr<Session> Session::open(const Recipe& recipe, DeviceOptions options) {
  Session session;
  session.recipe_ = recipe;
  options.target = recipe.target();
  HPU_ASSIGN(session.device_, Device::open(options));
  auto start = Clock::now();
  HPU_ASSIGN(session.executable_, Executable::load(session.device_, recipe));
  session.loadMs_ = msSince(start);
  HPU_ASSIGN(session.stream_, Stream::create(session.device_, {.name = "main"}));
  session.inputBuffers_.resize(recipe.inputs().size());
  session.outputBuffers_.resize(recipe.outputs().size());
  if (!recipe.dims().empty()) return session;  // The first run says the sizes.
  HPU_RETURN_IF_ERROR(session.allocate(recipe.inputs(), recipe.outputs()));
  return session;
}

Status Session::allocate(const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs) {
  for (const StateInfo& state : recipe_.states()) {
    HPU_RETURN_IF_ERROR(reserve(device_, {inputs[state.input].name, state.capacity}, inputBuffers_[state.input]));
    outputBuffers_[state.output] = inputBuffers_[state.input];
  }
  for (size_t i = 0; i < inputs.size(); ++i) HPU_RETURN_IF_ERROR(reserve(device_, inputs[i], inputBuffers_[i]));
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    HPU_RETURN_IF_ERROR(reserve(device_, outputs[i], outputBuffers_[i]));
    HPU_ASSIGN(HostTensor tensor, makeTensor(outputs[i].type));
    tensor.name = outputs[i].name;
    tensors.push_back(std::move(tensor));
  }
  outputs_ = std::move(tensors);
  return okStatus();
}

Status Session::fit(const std::vector<HostTensor>& inputs) {
  HPU_RETURN_IF_ERROR(checkInputs(inputs));
  if (recipe_.dims().empty()) return okStatus();
  std::vector<TensorInfo> infos;
  std::vector<Shape> shapes;
  for (const HostTensor& input : inputs) {
    infos.push_back({input.name, input.type});
    shapes.push_back(input.type.shape);
  }
  InputValues values(inputs.size());
  for (int input : recipe_.valueInputs())
    values[static_cast<size_t>(input)] = inputs[static_cast<size_t>(input)].integers();
  if (shapes == inputShapes_ && values == inputValues_) return okStatus();
  HPU_ASSIGN(std::vector<TensorInfo> outputs, executable_.outputs(shapes, values));
  inputShapes_.clear();
  HPU_RETURN_IF_ERROR(allocate(infos, outputs));
  inputShapes_ = std::move(shapes);
  inputValues_ = std::move(values);
  return okStatus();
}

Status Session::checkInputs(const std::vector<HostTensor>& inputs) const {
  const std::vector<TensorInfo>& wanted = recipe_.inputs();
  if (inputs.size() != wanted.size())
    return invalidArgument("the program has " + std::to_string(wanted.size()) + " inputs, " +
                           std::to_string(inputs.size()) + " were given");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!fits(inputs[i].type, wanted[i].type))
      return invalidArgument("input '" + wanted[i].name + "' is compiled for " + wanted[i].type.toString() + ", but " +
                             inputs[i].type.toString() + " was given");
  return okStatus();
}

Status Session::runOnce(const std::vector<HostTensor>& inputs, const Event* marks) {
  auto mark = [&](RunMark which) { return marks ? stream_.record(marks[which]) : okStatus(); };
  const std::vector<StateInfo> states = recipe_.states();
  states_.resize(states.size());
  std::vector<std::vector<uint8_t>*> stateOfInput(inputs.size()), stateOfOutput(outputs_.size());
  for (size_t i = 0; i < states.size(); ++i) {
    states_[i] = spreadRows(inputs[states[i].input], states[i].capacity);
    stateOfInput[states[i].input] = stateOfOutput[states[i].output] = &states_[i];
  }
  HPU_RETURN_IF_ERROR(mark(kRunStart));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<uint8_t>& bytes = stateOfInput[i] ? *stateOfInput[i] : inputs[i].bytes;
    if (bytes.empty()) continue;
    HPU_RETURN_IF_ERROR(stream_.copyToDevice(inputBuffers_[i], bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  HPU_RETURN_IF_ERROR(mark(kRunUploaded));
  auto start = Clock::now();
  HPU_RETURN_IF_ERROR(executable_.launch(stream_, inputBuffers_, outputBuffers_, inputShapes_, inputValues_));
  launchUs_ = 1000 * msSince(start);
  HPU_RETURN_IF_ERROR(mark(kRunLaunched));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::vector<uint8_t>& bytes = stateOfOutput[i] ? *stateOfOutput[i] : outputs_[i].bytes;
    if (bytes.empty()) continue;
    HPU_RETURN_IF_ERROR(stream_.copyToHost(bytes.data(), outputBuffers_[i], static_cast<int64_t>(bytes.size())));
  }
  HPU_RETURN_IF_ERROR(mark(kRunDownloaded));
  HPU_RETURN_IF_ERROR(stream_.synchronize());
  for (size_t i = 0; i < states.size(); ++i) gatherRows(states_[i], states[i].capacity, outputs_[states[i].output]);
  return recipe_.dataSizes().empty() ? okStatus() : findSizes();
}

Status Session::findSizes() {
  std::vector<TensorInfo> infos;
  for (const HostTensor& output : outputs_) infos.push_back({output.name, output.type});
  const std::vector<int64_t> sizes = outputs_.back().integers();
  HPU_ASSIGN(const std::vector<TensorInfo> found, recipe_.trueOutputs(infos, sizes.data(), sizes.size()));
  found_.assign(outputs_.begin(), outputs_.end() - 1);
  for (size_t k = 0; k < found.size(); ++k) {
    if (found[k].type.shape == outputs_[k].type.shape) continue;
    HPU_ASSIGN(found_[k], makeTensor(found[k].type));
    found_[k].name = outputs_[k].name;
    gatherRows(outputs_[k].bytes, outputs_[k].type, found_[k]);
  }
  return okStatus();
}

std::vector<TensorInfo> modelOutputs(const Recipe& recipe) {
  std::vector<TensorInfo> outputs = recipe.outputs();
  if (!recipe.dataSizes().empty()) outputs.pop_back();
  return outputs;
}

StatusOr<std::vector<HostTensor>> Session::run(const std::vector<HostTensor>& inputs) {
  HPU_RETURN_IF_ERROR(fit(inputs));
  HPU_RETURN_IF_ERROR(runOnce(inputs, nullptr));
  return outputs();
}

StatusOr<RunTimes> Session::runTimed(const std::vector<HostTensor>& inputs, int warmup, int iterations,
                                     const std::function<bool()>& stopped) {
  HPU_RETURN_IF_ERROR(fit(inputs));
  return timeRuns(device_, warmup, iterations, [&](const Event* marks) { return runOnce(inputs, marks); }, stopped);
}

StatusOr<bool> isRecipeFile(const std::string& path) {
  FILE* file = fopen(path.c_str(), "rb");
  if (!file) return base::errnoStatus(errno, "open", path);
  uint8_t start[sizeof recipe::kMagic] = {};
  size_t read = fread(start, 1, sizeof start, file);
  fclose(file);
  if (read == sizeof start && memcmp(start, "HPUTRACE", sizeof start) == 0)
    return invalidArgument("'" + path + "' is a recording of a run: 'hpu-trace summary " + path + "' shows it");
  return read == sizeof start && memcmp(start, recipe::kMagic, sizeof start) == 0;
}

}  // namespace hpu::tools
