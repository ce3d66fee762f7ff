// SPDX-License-Identifier: Apache-2.0
#include "tools/common/Session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "arch/TargetDesc.h"
#include "base/File.h"
#include "base/StatusMacros.h"
#include "recipe/Container.h"

namespace hpu::tools {
namespace {

using Clock = std::chrono::steady_clock;
double msSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Events between the parts of a run.
enum Mark { kStart, kUploaded, kLaunched, kDownloaded, kNumMarks };

StatusOr<Buffer> allocate(Device& device, const TensorInfo& info) {
  return device.allocate(std::max<int64_t>(info.type.bytes(), 1), info.name);
}

}  // namespace

double RunTimes::hostPercentile(double percent) const {
  if (hostMs.empty()) return 0;
  std::vector<double> sorted = hostMs;
  std::sort(sorted.begin(), sorted.end());
  // The smallest time that at least `percent` of the runs did not exceed.
  auto rank = static_cast<int64_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::clamp<int64_t>(rank - 1, 0, static_cast<int64_t>(sorted.size()) - 1)];
}

double RunTimes::runsPerSecond() const {
  double total = 0;
  for (double ms : hostMs) total += ms;
  return total > 0 ? 1000 * static_cast<double>(hostMs.size()) / total : 0;
}

StatusOr<Session> Session::open(const Recipe& recipe, DeviceOptions options) {
  Session session;
  session.recipe_ = recipe;
  options.target = recipe.target();
  HPU_ASSIGN(session.device_, Device::open(options));
  auto start = Clock::now();
  HPU_ASSIGN(session.executable_, Executable::load(session.device_, recipe));
  session.loadMs_ = msSince(start);
  HPU_ASSIGN(session.stream_, Stream::create(session.device_, {.name = "main"}));
  for (const TensorInfo& input : recipe.inputs()) {
    HPU_ASSIGN(Buffer buffer, allocate(session.device_, input));
    session.inputBuffers_.push_back(buffer);
  }
  for (const TensorInfo& output : recipe.outputs()) {
    HPU_ASSIGN(Buffer buffer, allocate(session.device_, output));
    session.outputBuffers_.push_back(buffer);
    HPU_ASSIGN(HostTensor tensor, makeTensor(output.type));
    tensor.name = output.name;
    session.outputs_.push_back(std::move(tensor));
  }
  return session;
}

Status Session::checkInputs(const std::vector<HostTensor>& inputs) const {
  const std::vector<TensorInfo>& wanted = recipe_.inputs();
  if (inputs.size() != wanted.size())
    return invalidArgument("the program has " + std::to_string(wanted.size()) + " inputs, " +
                           std::to_string(inputs.size()) + " were given");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].type != wanted[i].type)
      return invalidArgument("input '" + wanted[i].name + "' is compiled for " + wanted[i].type.toString() + ", but " +
                             inputs[i].type.toString() + " was given");
  return okStatus();
}

Status Session::runOnce(const std::vector<HostTensor>& inputs, const Event* marks) {
  auto mark = [&](Mark which) { return marks ? stream_.record(marks[which]) : okStatus(); };
  HPU_RETURN_IF_ERROR(mark(kStart));
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].bytes.empty())
      HPU_RETURN_IF_ERROR(
          stream_.copyToDevice(inputBuffers_[i], inputs[i].bytes.data(), static_cast<int64_t>(inputs[i].bytes.size())));
  HPU_RETURN_IF_ERROR(mark(kUploaded));
  HPU_RETURN_IF_ERROR(executable_.launch(stream_, inputBuffers_, outputBuffers_));
  HPU_RETURN_IF_ERROR(mark(kLaunched));
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (!outputs_[i].bytes.empty())
      HPU_RETURN_IF_ERROR(stream_.copyToHost(outputs_[i].bytes.data(), outputBuffers_[i],
                                             static_cast<int64_t>(outputs_[i].bytes.size())));
  HPU_RETURN_IF_ERROR(mark(kDownloaded));
  return stream_.synchronize();
}

StatusOr<std::vector<HostTensor>> Session::run(const std::vector<HostTensor>& inputs) {
  HPU_RETURN_IF_ERROR(checkInputs(inputs));
  HPU_RETURN_IF_ERROR(runOnce(inputs, nullptr));
  return outputs_;
}

StatusOr<RunTimes> Session::runTimed(const std::vector<HostTensor>& inputs, int warmup, int iterations) {
  HPU_RETURN_IF_ERROR(checkInputs(inputs));
  for (int i = 0; i < warmup; ++i) HPU_RETURN_IF_ERROR(runOnce(inputs, nullptr));
  RunTimes times;
  Event marks[kNumMarks];
  DeviceCounters before = device_.counters();
  double launches = 0;
  for (int i = 0; i < iterations; ++i) {
    auto start = Clock::now();
    HPU_RETURN_IF_ERROR(runOnce(inputs, marks));
    times.hostMs.push_back(msSince(start));
    int64_t spans[kNumMarks - 1];
    for (int m = 0; m + 1 < kNumMarks; ++m) {
      HPU_ASSIGN(spans[m], marks[m + 1].elapsedNsSince(marks[m]));
    }
    times.h2dUs += static_cast<double>(spans[kStart]) / 1e3;
    launches += static_cast<double>(spans[kUploaded]);
    times.d2hUs += static_cast<double>(spans[kLaunched]) / 1e3;
  }
  DeviceCounters after = device_.counters();
  double count = std::max(iterations, 1);
  times.deviceUs = launches / 1e3 / count;
  times.h2dUs /= count;
  times.d2hUs /= count;
  times.h2dBytes = (after.h2dBytes - before.h2dBytes) / static_cast<int64_t>(count);
  times.d2hBytes = (after.d2hBytes - before.d2hBytes) / static_cast<int64_t>(count);
  for (int e = 0; e < kNumEngines; ++e)
    if (launches > 0) times.busy[e] = static_cast<double>(after.busyNs[e] - before.busyNs[e]) / launches;
  return times;
}

StatusOr<bool> isRecipeFile(const std::string& path) {
  FILE* file = fopen(path.c_str(), "rb");
  if (!file) return base::errnoStatus(errno, "open", path);
  uint8_t start[sizeof recipe::kMagic] = {};
  size_t read = fread(start, 1, sizeof start, file);
  fclose(file);
  return read == sizeof start && memcmp(start, recipe::kMagic, sizeof start) == 0;
}

void addTimes(Json& json, const RunTimes& times, Target target) {
  json.set("iterations", static_cast<int64_t>(times.hostMs.size()));
  json["host_latency_ms"]
      .set("p50", times.hostPercentile(50))
      .set("p90", times.hostPercentile(90))
      .set("p99", times.hostPercentile(99))
      .set("min", times.hostMin());
  json.set("device_time_us", times.deviceUs);
  json.set("h2d_us", times.h2dUs).set("d2h_us", times.d2hUs);
  json.set("h2d_bytes", times.h2dBytes).set("d2h_bytes", times.d2hBytes);
  bool hasDma = arch::targetDesc(target).numDmas > 0;
  Json& busy = json["engine_busy"];
  for (Engine engine : {Engine::kMme, Engine::kTpc, Engine::kDma}) {
    bool there = engine != Engine::kDma || hasDma;
    busy.set(engineName(engine), there ? Json(times.busy[static_cast<int>(engine)]) : Json());
  }
  json.set("throughput", times.runsPerSecond());
}

}  // namespace hpu::tools
