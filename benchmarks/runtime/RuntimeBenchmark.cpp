// SPDX-License-Identifier: Apache-2.0
// What the runtime itself costs: a launch with its wait, a submission, a copy, the device clock.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "TinyProgram.h"
#include "arch/TargetDesc.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"
#include "perfmodel/Timeline.h"
#include "runtime/driver/clock/DeviceClock.h"

namespace hpu {
namespace {

Device openDevice(const char* driver) {
  DeviceOptions options;
  options.driver = driver;
  options.hbmBytes = int64_t{1} << 30;
  return Device::open(options).value();
}

/// Launch of a program that does nothing to speak of, and the wait for it.
void launchAndWait(benchmark::State& state, const char* driver) {
  Device device = openDevice(driver);
  Executable executable = Executable::load(device, testing::toRecipe(testing::fillProgram(16, 1))).value();
  Stream stream = Stream::create(device).value();
  Buffer out = device.allocate(64).value();
  for (auto _ : state) {
    (void)executable.launch(stream, {}, {out});
    (void)stream.synchronize();
  }
}
BENCHMARK_CAPTURE(launchAndWait, sim, "sim")->UseRealTime();
BENCHMARK_CAPTURE(launchAndWait, null, "null")->UseRealTime();

/// Many launches, one wait.
void launches(benchmark::State& state, const char* driver) {
  Device device = openDevice(driver);
  Executable executable = Executable::load(device, testing::toRecipe(testing::fillProgram(16, 1))).value();
  Stream stream = Stream::create(device).value();
  Buffer out = device.allocate(64).value();
  constexpr int kLaunches = 1000;
  for (auto _ : state) {
    for (int i = 0; i < kLaunches; ++i) (void)executable.launch(stream, {}, {out});
    (void)stream.synchronize();
  }
  state.SetItemsProcessed(state.iterations() * kLaunches);
}
BENCHMARK_CAPTURE(launches, sim, "sim")->UseRealTime();
BENCHMARK_CAPTURE(launches, null, "null")->UseRealTime();

/// Copy in, launch, copy out, wait: the shape of one inference.
void inference(benchmark::State& state) {
  Device device = openDevice("sim");
  int64_t count = state.range(0);
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(count))).value();
  Stream stream = Stream::create(device).value();
  Buffer in = device.allocate(count * 4).value(), out = device.allocate(count * 4).value();
  std::vector<int32_t> data(count);
  for (auto _ : state) {
    (void)stream.copyToDevice(in, data.data(), count * 4);
    (void)executable.launch(stream, {in}, {out});
    (void)stream.copyToHost(data.data(), out, count * 4);
    (void)stream.synchronize();
  }
  state.SetBytesProcessed(state.iterations() * count * 8);
}
BENCHMARK(inference)->Arg(16)->Arg(1 << 10)->Arg(1 << 18)->UseRealTime();

void allocateAndFree(benchmark::State& state) {
  Device device = openDevice("sim");
  for (auto _ : state) benchmark::DoNotOptimize(device.allocate(state.range(0)));
}
BENCHMARK(allocateAndFree)->Arg(256)->Arg(64 << 20);

/// So many commands, each second one waiting for the one of the other engine before it; each moves `bytes` in HBM.
std::vector<perfmodel::TimedQueue> twoQueues(int64_t count, int64_t bytes = 0) {
  auto commands = static_cast<uint32_t>(count) / 2;
  std::vector<perfmodel::TimedQueue> queues(2);
  queues[0].engine = Engine::kMme;
  queues[1].engine = Engine::kTpc;
  for (uint32_t i = 0; i < commands; ++i) {
    perfmodel::TimedCommand mme, tpc;
    mme.cost.alone = mme.cost.compute = 1000 + 10 * (i % 7);
    mme.cost.bytes.hbm = tpc.cost.bytes.hbm = bytes;
    mme.signal = 0;
    tpc.cost.alone = tpc.cost.compute = 700;
    tpc.waits = {{0, i + 1}};
    queues[0].commands.push_back(mme);
    queues[1].commands.push_back(tpc);
  }
  return queues;
}

/// The discrete-event simulation of a program of `range` commands that share HBM; items are commands.
void simulate(benchmark::State& state) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  const std::vector<perfmodel::TimedQueue> queues = twoQueues(state.range(0), 1 << 10);
  const std::vector<perfmodel::TimedLaunch> launch{{&queues, 1}};
  for (auto _ : state) benchmark::DoNotOptimize(perfmodel::simulate(target, target.clock(), launch));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(simulate)->Arg(100)->Arg(10000);

/// The device clock alone: launches of `range` commands on idle engines, looked at one by one.
void clockLaunch(benchmark::State& state) {
  const arch::TargetDesc& target = arch::targetDesc(Target::kGaudi2);
  const std::vector<perfmodel::TimedQueue> queues = twoQueues(state.range(0));
  auto timeline = driver::LaunchTimeline::create(queues, 1, target, target.clock()).value();
  auto clock = std::make_shared<driver::DeviceClock>();
  clock->addQueue(1, "queue");
  driver::Ticket ticket = 0;
  for (auto _ : state) {
    driver::ClockItem item;
    item.ticket = ++ticket;
    item.queue = 1;
    item.work = driver::TimedProgram{timeline, nullptr};
    clock->submit(std::move(item));
    benchmark::DoNotOptimize(clock->span(ticket));
    clock->forget(ticket);
  }
}
BENCHMARK(clockLaunch)->Arg(10)->Arg(100)->Arg(1000)->Arg(10000);

}  // namespace
}  // namespace hpu
