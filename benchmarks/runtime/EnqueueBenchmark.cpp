// SPDX-License-Identifier: Apache-2.0
// What the caller pays for an enqueue: each call is timed by itself, and the counters give percentiles in nanoseconds,
// those of an empty call in the same loop beside them (what the clock and the machine add). `Time` is that of a whole
// batch of calls. A call that fails ends its benchmark with the failure.
//
//   runtime_enqueue_benchmark [--json FILE] [Google Benchmark's options]
#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "DynamicSample.h"
#include "TinyProgram.h"
#include "arch/TargetDesc.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/eager.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/status.h"
#include "hpu/stream.h"
#include "plan/Instantiate.h"
#include "recipe/VerifierParts.h"

namespace hpu {
namespace {

using Clock = std::chrono::steady_clock;

Device openDevice() {
  DeviceOptions options;
  options.hbmBytes = int64_t{1} << 30;
  return Device::open(options).value();
}

/// False, and the benchmark ends with the failure, when there is one.
bool check(benchmark::State& state, const Status& status) {
  if (status.ok()) return true;
  state.SkipWithError(status.toString().c_str());
  return false;
}

class Samples {
 public:
  void add(int64_t ns) { ns_.push_back(ns); }
  double percentile(double fraction) {
    if (ns_.empty()) return 0;
    auto at = ns_.begin() + static_cast<std::ptrdiff_t>(fraction * static_cast<double>(ns_.size() - 1));
    std::nth_element(ns_.begin(), at, ns_.end());
    return static_cast<double>(*at);
  }

 private:
  std::vector<int64_t> ns_;
};

/// Nanoseconds of one call.
template <typename Call>
int64_t timed(const Call& call) {
  Clock::time_point start = Clock::now();
  call();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

/// Times `batch` calls one by one per iteration; `finish` comes after each batch, untimed. Both return a Status.
class CallTimer {
 public:
  explicit CallTimer(benchmark::State& state) : state_(state) {}
  double perCall = 1;  ///< Operations in one call, which the counters are divided by.

  template <typename Call, typename Finish>
  void run(int batch, const Call& call, const Finish& finish) {
    run(batch, call, finish, [](int) {});
  }
  /// `between` comes before each call, untimed.
  template <typename Call, typename Finish, typename Between>
  void run(int batch, const Call& call, const Finish& finish, const Between& between) {
    for (auto _ : state_) {
      int64_t sum = 0;
      Status status;
      for (int i = 0; i < batch && status.ok(); ++i) {
        between(i);
        const int64_t ns = timed([&] { status = call(i); });
        calls_.add(ns);
        sum += ns;
      }
      if (!check(state_, status) || !check(state_, finish())) return;
      for (int i = 0; i < batch; ++i)
        control_.add(timed([&] {
          Status nothing;
          benchmark::DoNotOptimize(nothing);
        }));
      state_.SetIterationTime(static_cast<double>(sum) * 1e-9);
    }
    report("", calls_, perCall);
    report("control_", control_, 1);
  }

 private:
  void report(const std::string& prefix, Samples& samples, double perCall) {
    state_.counters[prefix + "median_ns"] = samples.percentile(0.5) / perCall;
    state_.counters[prefix + "p99_ns"] = samples.percentile(0.99) / perCall;
    state_.counters[prefix + "p999_ns"] = samples.percentile(0.999) / perCall;
    state_.counters[prefix + "max_ns"] = samples.percentile(1) / perCall;
  }
  benchmark::State& state_;
  Samples calls_, control_;
};

/// The argument of all: how many calls follow each other before the stream is waited for.
#define HPU_BATCHES Arg(1)->Arg(100)->Arg(10000)->UseManualTime()->MinTime(0.05)

void enqueueCopyToDevice(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(4096).value();
  std::vector<uint8_t> host(4096);
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { return stream.copyToDevice(buffer, host.data(), 4096); },
      [&] { return stream.synchronize(); });
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
      [&](int i) { return stream.copyToDevice(buffers[(i * 7919) % 10000].address(), host.data, 4096); },
      [&] { return stream.synchronize(); });
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
      static_cast<int>(state.range(0)), [&](int) { return stream.copyMany(CopyDirection::kToDevice, ranges); },
      [&] { return stream.synchronize(); });
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
        auto allocated = device.allocate(256 * (1 + i % 31), "held");
        if (allocated.ok()) buffer = std::move(*allocated);
        return allocated.status();
      },
      [] { return okStatus(); });
}
BENCHMARK(allocateAndFree)->HPU_BATCHES;

void enqueueFill(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(4096).value();
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { return stream.fill(buffer, 1, 4096); },
      [&] { return stream.synchronize(); });
}
BENCHMARK(enqueueFill)->HPU_BATCHES;

void enqueueRecord(benchmark::State& state) {
  Device device = openDevice();
  Stream stream = Stream::create(device).value();
  Event event;
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { return stream.record(event); },
      [&] { return stream.synchronize(); });
}
BENCHMARK(enqueueRecord)->HPU_BATCHES;

void enqueueWait(benchmark::State& state) {
  Device device = openDevice();
  Stream source = Stream::create(device).value(), stream = Stream::create(device).value();
  Event event;
  if (!check(state, source.record(event)) || !check(state, source.synchronize())) return;
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { return stream.wait(event); }, [&] { return stream.synchronize(); });
}
BENCHMARK(enqueueWait)->HPU_BATCHES;

/// A program of a few kilobytes that is launched with the same buffers.
void enqueueLaunch(benchmark::State& state) {
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  std::vector<Buffer> in{device.allocate(4096).value()}, out{device.allocate(4096).value()};
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { return executable.launch(stream, in, out); },
      [&] { return stream.synchronize(); });
}
BENCHMARK(enqueueLaunch)->HPU_BATCHES;

/// The same by addresses.
void enqueueLaunchByAddress(benchmark::State& state) {
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  Buffer in = device.allocate(4096).value(), out = device.allocate(4096).value();
  LaunchArguments arguments{{in.address()}, {out.address()}, 0, {}, {}};
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { return executable.launch(stream, arguments); },
      [&] { return stream.synchronize(); });
}
BENCHMARK(enqueueLaunchByAddress)->HPU_BATCHES;

/// Launches of a program of one free dimension, of `sizes` sizes in turns, and (0) of the same program of a fixed size.
void enqueueLaunchOfSizes(benchmark::State& state, int sizes) {
  recipe::testing::DynamicBuilder builder;
  const recipe::testing::Num rows = builder.symbol("rows", 1, 64, 64), width = builder.number(16);
  const auto x = builder.input("x", {rows, width}), between = builder.workspace({rows, width});
  builder.unit({{builder.copy("in", x, between)}});
  builder.unit({{builder.copy("out", between, builder.output("y", {rows, width}))}});
  recipe::Program program = builder.finish();
  if (sizes == 0) program.dynamic = nullptr;
  Device device = openDevice();
  Executable executable =
      Executable::load(device, Recipe(std::make_shared<const recipe::Program>(std::move(program)))).value();
  Stream stream = Stream::create(device).value();
  Buffer in = device.allocate(4096).value(), out = device.allocate(4096).value();
  std::vector<LaunchArguments> arguments(static_cast<size_t>(std::max(sizes, 1)),
                                         {{in.address()}, {out.address()}, 0, {}, {}});
  for (int i = 0; i < sizes; ++i) {
    arguments[static_cast<size_t>(i)].inputShapes = {{64 - i, 16}};
    if (!check(state, executable.launch(stream, arguments[static_cast<size_t>(i)]))) return;
  }
  CallTimer(state).run(
      static_cast<int>(state.range(0)),
      [&](int i) { return executable.launch(stream, arguments[static_cast<size_t>(i) % arguments.size()]); },
      [&] { return stream.synchronize(); });
}
BENCHMARK_CAPTURE(enqueueLaunchOfSizes, fixed, 0)->HPU_BATCHES;
BENCHMARK_CAPTURE(enqueueLaunchOfSizes, one, 1)->HPU_BATCHES;
BENCHMARK_CAPTURE(enqueueLaunchOfSizes, sixteen, 16)->HPU_BATCHES;

/// What the first launch of some sizes adds: their instance is made, of a program of `range` commands, and loaded. Of
/// sizes near others (`known`) and of sizes that are planned for first. Nothing is launched. `verify_ns`: what of it
/// the checks of a known bucket's instance take.
void newSizes(benchmark::State& state, bool known) {
  const auto program =
      std::make_shared<const recipe::Program>(recipe::testing::layersProgram(std::max<int64_t>(state.range(0) / 6, 1)));
  Device device = openDevice();
  Executable executable = Executable::load(device, Recipe(program)).value();
  // More than are kept, so that each is new when its turn comes again: in the last bucket, or each in its own.
  std::vector<recipe::Sizes> sizes;
  if (known)
    for (int64_t seq = 4096; seq > 3584; --seq) sizes.push_back({2, seq});
  for (int64_t batch = 1; !known && batch <= 8; ++batch)
    for (int64_t octave = 64; octave < 4096; octave *= 2)
      for (int64_t step = 1; step <= 4; ++step) sizes.push_back({batch, octave + step * octave / 4 - 1});
  auto make = [&](const recipe::Sizes& at) {
    return executable.workspaceBytes({{at[0] * at[1], 256}, {at[0]}, {at[1]}}).status();
  };
  if (known && !check(state, make(sizes[0]))) return;
  size_t next = 0;
  CallTimer(state).run(1, [&](int) { return make(sizes[++next % sizes.size()]); }, [] { return okStatus(); });
  auto instance = plan::instantiate(*program, sizes[0], arch::targetDesc(program->target));
  if (!check(state, instance.status())) return;
  Samples verified;
  for (int i = 0; i < 200; ++i) {
    Status status;
    verified.add(timed([&] {
      status = recipe::verifyMemory(**instance);
      if (status.ok()) status = recipe::verifyKernels(**instance);
      if (status.ok()) status = recipe::verifyOps(**instance);
      if (status.ok()) status = recipe::verifyBoxes(**instance);
    }));
    if (!check(state, status)) return;
  }
  double commands = 0;
  for (const recipe::Queue& queue : (*instance)->queues) commands += static_cast<double>(queue.commands.size());
  state.counters["commands"] = commands;
  state.counters["ns_a_command"] = state.counters["median_ns"] / commands;
  state.counters["verify_ns"] = verified.percentile(0.5);
}
BENCHMARK_CAPTURE(newSizes, known_bucket, true)->Arg(100)->Arg(400)->UseManualTime()->MinTime(0.05);
BENCHMARK_CAPTURE(newSizes, new_bucket, false)->Arg(100)->Arg(400)->UseManualTime()->MinTime(0.05);

/// The same while the program allocates and frees other memory between the launches, untimed.
void enqueueLaunchBesideAllocations(benchmark::State& state) {
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  Buffer in = device.allocate(4096).value(), out = device.allocate(4096).value(), other;
  LaunchArguments arguments{{in.address()}, {out.address()}, 0, {}, {}};
  CallTimer(state).run(
      static_cast<int>(state.range(0)), [&](int) { return executable.launch(stream, arguments); },
      [&] { return stream.synchronize(); }, [&](int) { other = device.allocate(256).value(); });
}
BENCHMARK(enqueueLaunchBesideAllocations)->HPU_BATCHES;

/// A captured sequence of `range` launches (as above); the counters are per captured launch.
void replayPerLaunch(benchmark::State& state) {
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  std::vector<Buffer> in{device.allocate(4096).value()}, out{device.allocate(4096).value()};
  const int64_t launches = state.range(0);
  CaptureSession session = CaptureSession::begin(stream).value();
  for (int64_t i = 0; i < launches; ++i)
    if (!check(state, executable.launch(stream, in, out))) return;
  GraphInstance instance = session.end().value().instantiate().value();
  CallTimer timer(state);
  timer.perCall = static_cast<double>(launches);
  timer.run(1, [&](int) { return instance.replay(stream); }, [&] { return stream.synchronize(); });
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
        return op.ok() ? op->launch(stream, {in}, {out}) : op.status();
      },
      [&] { return stream.synchronize(); });
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
    Status status = stream.copyToDevice(large, host.data(), kBytes);
    auto also = [&](const Status& next) {
      if (status.ok()) status = next;
    };
    Clock::time_point start = Clock::now();
    for (int i = 0; i < 2500; ++i) {
      also(stream.copyToDevice(small, host.data(), 4096));
      also(stream.fill(small, 1, 4096));
      also(stream.record(event));
      also(stream.copyToHost(host.data(), small, 4096));
    }
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
    StatusOr<bool> done = stream.query();
    also(done.status());
    doneEarly += done.ok() && *done ? 1 : 0;
    also(stream.synchronize());
    if (!check(state, status)) return;
  }
  state.counters["finished_before_return"] = doneEarly;
  state.SetItemsProcessed(state.iterations() * 10000);
}
BENCHMARK(tenThousandBehindACopy)->UseManualTime()->MinTime(0.05)->Unit(benchmark::kMillisecond);

/// 200,000 enqueues without a look at the device: how many cost their thread more than 200 us of its own CPU time, or
/// of waiting for somebody (a lock). What the system takes the CPU away for is not counted; what a hypervisor takes may
/// be, so the same is counted of as many calls that do nothing.
void stallsOfABacklog(benchmark::State& state) {
  constexpr int kCalls = 200000;
  constexpr int64_t kStallNs = 200000;
  Device device = openDevice();
  Executable executable = Executable::load(device, testing::toRecipe(testing::copyProgram(1024))).value();
  Stream stream = Stream::create(device).value();
  Buffer in = device.allocate(4096).value(), out = device.allocate(4096).value();
  std::vector<uint8_t> host(4096);
  Event event;
  struct Reading {
    int64_t wallNs = 0, cpuNs = 0;
    long waits = 0;
  };
  auto read = [] {
    timespec cpu{};
    rusage usage{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    ::getrusage(RUSAGE_THREAD, &usage);
    return Reading{std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(),
                   int64_t{cpu.tv_sec} * 1000000000 + cpu.tv_nsec, usage.ru_nvcsw};
  };
  auto count = [&](const std::string& prefix, const auto& call) {
    double cpuStalls = 0, waitStalls = 0, longestCpu = 0, longestWait = 0;
    for (int i = 0; i < kCalls; ++i) {
      const Reading before = read();
      Status status = call(i);
      const Reading after = read();
      if (!check(state, status)) return false;
      const auto cpu = static_cast<double>(after.cpuNs - before.cpuNs);
      const auto waited = after.waits > before.waits ? static_cast<double>(after.wallNs - before.wallNs) - cpu : 0.0;
      longestCpu = std::max(longestCpu, cpu);
      longestWait = std::max(longestWait, waited);
      cpuStalls += cpu > kStallNs ? 1 : 0;
      waitStalls += waited > kStallNs ? 1 : 0;
    }
    state.counters[prefix + "cpu_stalls"] = cpuStalls;
    state.counters[prefix + "wait_stalls"] = waitStalls;
    state.counters[prefix + "longest_cpu_ns"] = longestCpu;
    state.counters[prefix + "longest_wait_ns"] = longestWait;
    return true;
  };
  for (auto _ : state) {
    if (!count("control_", [](int) { return okStatus(); })) return;
    const bool counted = count("", [&](int i) {
      if (i % 4 == 0) return stream.copyToDevice(in, host.data(), 4096);
      if (i % 4 == 1) return executable.launch(stream, {in}, {out});
      return i % 4 == 2 ? stream.record(event) : stream.fill(in, 1, 4096);
    });
    if (!counted || !check(state, stream.synchronize())) return;
  }
}
BENCHMARK(stallsOfABacklog)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hpu

int main(int argc, char** argv) {
  // --json FILE, or --json=FILE, is the report as a file beside the table.
  std::vector<std::string> words(argv, argv + argc);
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--json" && i + 1 < words.size()) {
      words[i] = "--benchmark_out=" + words[i + 1];
      words[i + 1] = "--benchmark_out_format=json";
    } else if (words[i].rfind("--json=", 0) == 0) {
      words[i] = "--benchmark_out=" + words[i].substr(7);
      words.emplace_back("--benchmark_out_format=json");
    }
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
