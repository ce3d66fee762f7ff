// SPDX-License-Identifier: Apache-2.0
// Sixteen threads use eight devices with all kinds of calls at once, and check every number that
// comes back. HPU_STRESS_SECONDS says how long (5 by default), HPU_STRESS_SEED with what.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "TinyProgram.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/eager.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/node.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

constexpr int kThreads = 16;
constexpr int kDevices = 8;
constexpr int64_t kCount = 2000;
constexpr int64_t kBytes = kCount * 4;

int64_t environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

Device openDevice(int index) {
  DeviceOptions options;
  options.index = index;
  options.hbmBytes = 64 << 20;
  return Device::open(options).value();
}

/// What all threads share.
struct Shared {
  std::vector<Device> devices;
  std::vector<Executable> copies;  ///< One a device: with the shared workspace, or the caller's.
  EagerCache eager{EagerOptions{6}};
  std::atomic<int64_t> calls{0};
};

#define HPU_OK(expression)                                         \
  do {                                                             \
    ::hpu::Status hpuStatus = (expression);                        \
    ASSERT_TRUE(hpuStatus.ok()) << where() << hpuStatus.message(); \
  } while (false)

class Worker {
 public:
  Worker(Shared& shared, uint64_t seed) : shared_(shared), seed_(seed), random_(seed) {}

  void run(std::chrono::steady_clock::time_point until) {
    while (std::chrono::steady_clock::now() < until && !::testing::Test::HasFatalFailure()) {
      call_ = pick(10);
      switch (call_) {
        case 0:
          roundTrip();
          break;
        case 1:
          launchByAddress();
          break;
        case 2:
          inPlace();
          break;
        case 3:
          outputEvents();
          break;
        case 4:
          twoDevices();
          break;
        case 5:
          captured();
          break;
        case 6:
          eagerOp();
          break;
        case 7:
          manyQueued();
          break;
        case 8:
          looks();
          break;
        default:
          ownDevice();
          break;
      }
      ++shared_.calls;
    }
  }

 private:
  std::string where() const { return "seed " + std::to_string(seed_) + ", call " + std::to_string(call_) + ": "; }
  uint64_t pick(uint64_t count) { return random_() % count; }
  Device& device() { return shared_.devices[index_]; }
  void choose() {
    index_ = pick(kDevices);
    stream_ = Stream::create(device(), {"stress", static_cast<int>(pick(3))}).value();
  }
  Buffer buffer(int64_t bytes = kBytes) { return device().allocate(bytes, "stress").value(); }
  std::vector<int32_t> numbers() {
    std::vector<int32_t> data(kCount);
    std::iota(data.begin(), data.end(), static_cast<int32_t>(random_()));
    return data;
  }

  void roundTrip() {
    choose();
    std::vector<int32_t> data = numbers(), out(kCount);
    Buffer in = buffer(), result = buffer();
    HPU_OK(stream_.copyToDevice(in, data.data(), kBytes));
    HPU_OK(shared_.copies[index_].launch(stream_, {in}, {result}));
    HPU_OK(stream_.copyToHost(out.data(), result, kBytes));
    in = result = Buffer();
    HPU_OK(stream_.synchronize());
    ASSERT_EQ(out, data) << where();
  }

  void launchByAddress() {
    choose();
    const Executable& copy = shared_.copies[index_];
    std::vector<int32_t> data = numbers(), out(kCount);
    Buffer in = buffer(), result = buffer(), workspace = buffer(copy.workspaceBytes());
    LaunchArguments arguments;
    arguments.inputs = {in.address()};
    arguments.outputs = {result.address()};
    arguments.workspace = workspace.address();
    HPU_OK(stream_.copyToDevice(in.address(), data.data(), kBytes));
    for (uint64_t i = 0; i <= pick(3); ++i) HPU_OK(Executable(copy).launch(stream_, arguments));
    HPU_OK(stream_.copyToHost(out.data(), result.address(), kBytes));
    HPU_OK(stream_.synchronize());
    ASSERT_EQ(out, data) << where();
  }

  void inPlace() {
    choose();
    std::vector<int32_t> data = numbers(), out(kCount);
    Buffer weights = buffer();
    HPU_OK(stream_.copyToDevice(weights, data.data(), kBytes));
    for (int i = 0; i < 3; ++i) HPU_OK(Executable(shared_.copies[index_]).launch(stream_, {weights}, {weights}));
    HPU_OK(stream_.copyToHost(out.data(), weights, kBytes));
    Event event;
    HPU_OK(stream_.record(event));
    HPU_OK(event.synchronize());
    ASSERT_TRUE(event.deviceTimeNs().ok());
    ASSERT_EQ(out, data) << where();
  }

  void outputEvents() {
    choose();
    Executable fan = Executable::load(device(), testing::toRecipe(testing::fanOutProgram(kCount, {1, 0}))).value();
    Stream reader = Stream::create(device()).value();
    std::vector<int32_t> data = numbers(), early(kCount), late(kCount);
    Buffer in = buffer(), first = buffer(), second = buffer();
    Event one, two;
    LaunchArguments arguments;
    arguments.inputs = {in.address()};
    arguments.outputs = {first.address(), second.address()};
    arguments.events = {{0, one}, {1, two}};
    HPU_OK(stream_.copyToDevice(in, data.data(), kBytes));
    HPU_OK(fan.launch(stream_, arguments));
    HPU_OK(reader.wait(two));
    HPU_OK(reader.copyToHost(early.data(), second, kBytes));
    HPU_OK(reader.wait(one));
    HPU_OK(reader.copyToHost(late.data(), first, kBytes));
    HPU_OK(reader.synchronize());
    ASSERT_EQ(early, data) << where();
    ASSERT_EQ(late, data) << where();
    ASSERT_LT(two.deviceTimeNs().value(), one.deviceTimeNs().value()) << where();
  }

  void twoDevices() {
    choose();
    Stream here = stream_;
    std::vector<int32_t> data = numbers(), through(kCount), out(kCount);
    Buffer in = buffer();
    Event there, back;
    HPU_OK(here.copyToDevice(in, data.data(), kBytes));
    HPU_OK(here.copyToHost(through.data(), in, kBytes));
    HPU_OK(here.record(there));
    choose();
    Buffer result = buffer();
    HPU_OK(stream_.wait(there));
    HPU_OK(stream_.copyToDevice(result, through.data(), kBytes));
    HPU_OK(stream_.copyToHost(out.data(), result, kBytes));
    HPU_OK(stream_.record(back));
    HPU_OK(here.wait(back));
    HPU_OK(here.synchronize());
    ASSERT_EQ(out, data) << where();
    HPU_OK(stream_.synchronize());
    ASSERT_GE(back.deviceTimeNs().value(), there.deviceTimeNs().value()) << where();
  }

  void captured() {
    choose();
    Stream side = Stream::create(device()).value();
    std::vector<int32_t> data = numbers(), out(kCount), other(kCount);
    Buffer in = buffer(), result = buffer(), replacement = buffer();
    auto session = CaptureSession::begin(stream_);
    HPU_OK(session.status());
    Event forked, joined;
    HPU_OK(stream_.copyToDevice(in, data.data(), kBytes));
    HPU_OK(stream_.record(forked));
    HPU_OK(side.wait(forked));
    HPU_OK(side.copyToHost(other.data(), in, kBytes));
    HPU_OK(side.record(joined));
    HPU_OK(shared_.copies[index_].launch(stream_, {in}, {result}));
    HPU_OK(stream_.wait(joined));
    HPU_OK(stream_.copyToHost(out.data(), result, kBytes));
    auto graph = session->end();
    HPU_OK(graph.status());
    GraphInstance instance = graph->instantiate().value();
    for (int round = 0; round < 5; ++round) {
      if (round == 2) HPU_OK(instance.rebind(result, replacement));
      HPU_OK(instance.replay(round % 2 ? side : stream_));
      HPU_OK((round % 2 ? side : stream_).synchronize());
      ASSERT_EQ(out, data) << where() << round;
      ASSERT_EQ(other, data) << where() << round;
      std::iota(data.begin(), data.end(), static_cast<int32_t>(random_()));
    }
    HPU_OK(instance.replay(stream_));
    instance = GraphInstance();
    HPU_OK(stream_.synchronize());
  }

  void eagerOp() {
    choose();
    auto value = static_cast<uint32_t>(pick(9));
    EagerKey key = EagerKey::Builder().add("fill").add(value).build();
    auto op = shared_.eager.executable(
        device(), key, [&]() -> StatusOr<Recipe> { return testing::toRecipe(testing::fillProgram(kCount, value)); });
    HPU_OK(op.status());
    Buffer out = buffer();
    std::vector<uint32_t> data(kCount);
    HPU_OK(op->launch(stream_, {}, {out}));
    HPU_OK(stream_.copyToHost(data.data(), out, kBytes));
    HPU_OK(stream_.synchronize());
    ASSERT_EQ(data, std::vector<uint32_t>(kCount, value)) << where();
    if (pick(20) == 0) shared_.eager.forget(device());
  }

  void manyQueued() {
    choose();
    Buffer target = buffer();
    uint32_t out = 0;
    Event event;
    for (uint32_t i = 0; i < 500; ++i) {
      HPU_OK(stream_.fill(target.address(), i, 4, kCount));
      if (i % 50 == 0) HPU_OK(stream_.record(event));
    }
    HPU_OK(stream_.copyToHost(&out, target, 4));
    while (true) {
      auto done = stream_.query();
      HPU_OK(done.status());
      if (*done) break;
      std::this_thread::yield();
    }
    ASSERT_EQ(out, 499u) << where();
  }

  void looks() {
    choose();
    (void)device().counters();
    (void)device().memoryInfo();
    (void)shared_.eager.statistics();
    HPU_OK(node::query(static_cast<int>(index_)).status());
    auto found = device().find(1);
    ASSERT_FALSE(found.ok());
    // A device out of memory says so and goes on.
    ASSERT_EQ(device().allocate(int64_t{1} << 40).status().code(), StatusCode::kResourceExhausted);
    HPU_OK(stream_.synchronize());
  }

  /// Handles of its own on a device that others use too, all let go while work may still run.
  void ownDevice() {
    index_ = pick(kDevices);
    Device mine = openDevice(static_cast<int>(index_));
    Executable fill = Executable::load(mine, testing::toRecipe(testing::fillProgram(kCount, 3))).value();
    Stream stream = Stream::create(mine).value();
    Buffer out = mine.allocate(kBytes).value();
    HPU_OK(fill.launch(stream, {}, {out}));
    if (pick(2)) HPU_OK(mine.synchronize());
  }

  Shared& shared_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  size_t index_ = 0;
  Stream stream_;
  uint64_t call_ = 0;
};

TEST(MixedStress, SixteenThreadsOnEightDevices) {
  const int64_t seconds = environment("HPU_STRESS_SECONDS", 5);
  const auto seed = static_cast<uint64_t>(environment("HPU_STRESS_SEED", std::random_device()() & 0xffffff));
  Shared shared;
  for (int d = 0; d < kDevices; ++d) {
    shared.devices.push_back(openDevice(d));
    shared.copies.push_back(
        Executable::load(shared.devices.back(), testing::toRecipe(testing::copyProgram(kCount, 2))).value());
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { Worker(shared, seed * 100 + t).run(until); });
  for (auto& thread : threads) thread.join();
  EXPECT_GT(shared.calls, kThreads);
  RecordProperty("calls", std::to_string(shared.calls));
  std::printf("%lld calls in %lld s, seed %llu\n", static_cast<long long>(shared.calls),
              static_cast<long long>(seconds), static_cast<unsigned long long>(seed));
  for (Device& device : shared.devices) EXPECT_TRUE(device.synchronize().ok());
  // Nothing is held but the constants and workspaces of what is loaded.
  shared.eager.clear();
  for (size_t d = 0; d < kDevices; ++d) EXPECT_LE(shared.devices[d].memoryInfo().usedBytes, 3 * (kBytes + 4096)) << d;
}

}  // namespace
}  // namespace hpu
