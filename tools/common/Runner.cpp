// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Runner.h"

#include <chrono>

#include "base/StatusMacros.h"

namespace hpu::tools {

StatusOr<Runner> Runner::create(const Recipe& recipe, int threads, const std::string& driver) {
  auto start = std::chrono::steady_clock::now();
  Runner runner;
  runner.recipe_ = recipe;
  DeviceOptions options;
  options.driver = driver;
  options.target = recipe.target();
  options.threads = threads;
  HPU_ASSIGN(runner.device_, Device::open(options));
  HPU_ASSIGN(runner.stream_, Stream::create(runner.device_, {.name = "main"}));
  HPU_ASSIGN(runner.executable_, Executable::load(runner.device_, recipe));
  auto allocate = [&](const std::vector<TensorInfo>& tensors,
                      std::vector<Buffer>& buffers) -> Status {
    for (const TensorInfo& tensor : tensors) {
      HPU_ASSIGN(Buffer buffer,
                 runner.device_.allocate(std::max<int64_t>(tensor.type.bytes(), 1), tensor.name));
      buffers.push_back(std::move(buffer));
    }
    return okStatus();
  };
  HPU_RETURN_IF_ERROR(allocate(recipe.inputs(), runner.inputs_));
  HPU_RETURN_IF_ERROR(allocate(recipe.outputs(), runner.outputs_));
  runner.loadMs_ =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return runner;
}

Status Runner::upload(const std::vector<HostTensor>& inputs) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs[i].data.empty())
      HPU_RETURN_IF_ERROR(
          stream_.copyToDevice(inputs_[i], inputs[i].data.data(), inputs[i].data.size()));
  return stream_.synchronize();
}

StatusOr<int64_t> Runner::launch() {
  Event begin, end;
  HPU_RETURN_IF_ERROR(stream_.record(begin));
  HPU_RETURN_IF_ERROR(executable_.launch(stream_, inputs_, outputs_));
  HPU_RETURN_IF_ERROR(stream_.record(end));
  HPU_RETURN_IF_ERROR(stream_.synchronize());
  return end.elapsedNsSince(begin);
}

StatusOr<std::vector<HostTensor>> Runner::download() {
  std::vector<HostTensor> tensors;
  for (const TensorInfo& info : recipe_.outputs())
    tensors.push_back({info.name, info.type, std::vector<uint8_t>(info.type.bytes())});
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].data.empty())
      HPU_RETURN_IF_ERROR(
          stream_.copyToHost(tensors[i].data.data(), outputs_[i], tensors[i].data.size()));
  HPU_RETURN_IF_ERROR(stream_.synchronize());
  return tensors;
}

}  // namespace hpu::tools
