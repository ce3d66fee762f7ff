// SPDX-License-Identifier: Apache-2.0
// What the caller pays for an enqueue: each call is timed by itself, and the counters give the
// median and the 99th percentile in nanoseconds. `Time` is that of a whole batch of calls.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "TinyProgram.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/eager.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;

Device openDevice() {
  DeviceOptions options;
  options.hbmBytes = int64_t{1} << 30;
  return Device::open(options).value();
}

/// Times `batch` calls one by one per iteration; `finish` comes after each batch, untimed.
class CallTimer {
 public:
  explicit CallTimer(benchmark::State& state) : state_(state) {}
  double perCall = 1;  ///< Operations in one call, which the counters are divided by.

  template <typename Call, typename Finish>
  void run(int batch, const Call& call, const Finish& finish) {
    for (auto _ : state_) {
      int64_t sum = 0;
      for (int i = 0; i < batch; ++i) {
        Clock::time_point start = Clock::now();
        call(i);
        auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
        samples_.push_back(ns.count());
        sum += ns.count();
      }
      finish();
      state_.SetIterationTime(static_cast<double>(sum) * 1e-9);
    }
    state_.counters["median_ns"] = percentile(0.5) / perCall;
    state_.counters["p99_ns"] = percentile(0.99) / perCall;
  }

 private:
  double percentile(double fraction) {
    if (samples_.empty()) return 0;
    auto at = samples_.begin() + static_cast<std::ptrdiff_t>(fraction * static_cast<double>(samples_.size() - 1));
    std::nth_element(samples_.begin(), at, samples_.end());
    return static_cast<double>(*at);
  }
  benchmark::State& state_;
  std::vector<int64_t> samples_;
};

/// The argument of all: how many calls follow each other before the stream is waited for.
#define HPU_BATCHES Arg(1)->Arg(100)->Arg(10000)->UseManualTime()->MinTime(0.05)

void enqueueCopyToDevice(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(4096).value();
  std::vector<uint8_t> host(4096);
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { (void)stream.copyToDevice(buffer, host.data(), 4096); },
      [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueCopyToDevice)->HPU_BATCHES;

void enqueueCopyByAddress(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  // Among many: the allocation is looked up by its address.
  std::vector<Buffer> buffers;
  for (int i = 0; i < 10000; ++i) buffers.push_back(device.allocate(4096).value());
  HostMemory host = device.allocateHost(4096).value();
  CallTimer(state).run(
      static_cast<int>(state.range(0)),
      [&](int i) { (void)stream.copyToDevice(buffers[(i * 7919) % 10000].address(), host.data, 4096); },
      [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueCopyByAddress)->HPU_BATCHES;

/// 64 copies as one piece of work.
void enqueueCopyMany(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(64 * 4096).value();
  std::vector<uint8_t> host(64 * 4096);
  std::vector<CopyRange> ranges;
  for (uint64_t i = 0; i < 64; ++i)
    ranges.push_back({buffer.address() + i * 4096, reinterpret_cast<uintptr_t>(host.data()) + i * 4096, 4096});
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { (void)stream.copyMany(CopyDirection::kToDevice, ranges); },
      [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueCopyMany)->HPU_BATCHES;

/// One allocation and one free, among 10,000 others.
void allocateAndFree(benchmark::State& state) {
  Device device = openDevice();
  std::vector<Buffer> buffers(10000);
  for (Buffer& buffer : buffers) buffer = device.allocate(4096, "held").value();
  CallTimer(state).run(
      static_cast<int>(state.range(0)),
      [&](int i) {
        Buffer& buffer = buffers[(i * 7919) % 10000];
        buffer = Buffer();
        buffer = device.allocate(256 * (1 + i % 31), "held").value();
      },
      [] {});
}
BENCHMARK(allocateAndFree)->HPU_BATCHES;

void enqueueFill(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(4096).value();
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { (void)stream.fill(buffer, 1, 4096); },
      [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueFill)->HPU_BATCHES;

void enqueueRecord(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Event event;
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { (void)stream.record(event); }, [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueRecord)->HPU_BATCHES;

void enqueueWait(benchmark::State& state) {
  Device device = openDevice();
  Stream source = Stream::create(device).value(), stream = Stream::create(device).value();
  Event event;
  (void)source.record(event);
  (void)source.synchronize();
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { (void)stream.wait(event); }, [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueWait)->HPU_BATCHES;

/// A program of a few kilobytes that is launched with the same buffers.
void enqueueLaunch(benchmark::State& state) {
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  std::vector<Buffer> in{device.allocate(4096).value()}, out{device.allocate(4096).value()};
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { (void)executable.launch(stream, in, out); },
      [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueLaunch)->HPU_BATCHES;

/// The same by addresses.
void enqueueLaunchByAddress(benchmark::State& state) {
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  Buffer in = device.allocate(4096).value(), out = device.allocate(4096).value();
  LaunchArguments arguments{{in.address()}, {out.address()}, 0, {}};
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { (void)executable.launch(stream, arguments); },
      [&] { (void)stream.synchronize(); });
}
BENCHMARK(enqueueLaunchByAddress)->HPU_BATCHES;

/// A captured sequence of `range` launches (as above); the counters are per captured launch.
void replayPerLaunch(benchmark::State& state) {
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  std::vector<Buffer> in{device.allocate(4096).value()}, out{device.allocate(4096).value()};
  const int64_t launches = state.range(0);
  CaptureSession session = CaptureSession::begin(stream).value();
  for (int64_t i = 0; i < launches; ++i) (void)executable.launch(stream, in, out);
  GraphInstance instance = session.end().value().instantiate().value();
  CallTimer timer(state);
  timer.perCall = static_cast<double>(launches);
  timer.run(1, [&](int) { (void)instance.replay(stream); }, [&] { (void)stream.synchronize(); });
}
BENCHMARK(replayPerLaunch)->Arg(1)->Arg(10)->Arg(100)->Arg(1000)->UseManualTime()->MinTime(0.05);

/// A cached op: its key is built, looked up, and it is launched.
void eagerOp(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  EagerCache cache;
  Buffer in = device.allocate(4096).value(), out = device.allocate(4096).value();
  CallTimer(state).run(
      static_cast<int>(state.range(0)),
      [&](int i) {
        // Sixteen ops in turns, as different layers are.
        int64_t count = 1009 + i % 16;
        EagerKey key = EagerKey::Builder().add("copy").add("i32").add(count).add(2).build();
        auto op = cache.executable(
            device, key, [&]() -> StatusOr<Recipe> { return testing::toRecipe(testing::copyProgram(count)); });
        (void)op->launch(stream, {in}, {out});
      },
      [&] { (void)stream.synchronize(); });
}
BENCHMARK(eagerOp)->HPU_BATCHES;

/// 10,000 operations of four kinds behind a copy of 256 MiB: the caller is back before it is done.
void tenThousandBehindACopy(benchmark::State& state) {
  constexpr int64_t kBytes = 256 << 20;
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Buffer large = device.allocate(kBytes).value(), small = device.allocate(4096).value();
  std::vector<uint8_t> host(kBytes);
  Event event;
  double doneEarly = 0;
  for (auto _ : state) {
    (void)stream.copyToDevice(large, host.data(), kBytes);
    Clock::time_point start = Clock::now();
    for (int i = 0; i < 2500; ++i) {
      (void)stream.copyToDevice(small, host.data(), 4096);
      (void)stream.fill(small, 1, 4096);
      (void)stream.record(event);
      (void)stream.copyToHost(host.data(), small, 4096);
    }
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
    doneEarly += stream.query().value() ? 1 : 0;
    (void)stream.synchronize();
  }
  state.counters["finished_before_return"] = doneEarly;
  state.SetItemsProcessed(state.iterations() * 10000);
}
BENCHMARK(tenThousandBehindACopy)->UseManualTime()->MinTime(0.05)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hpu
