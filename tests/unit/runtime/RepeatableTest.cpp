// SPDX-License-Identifier: Apache-2.0
// Work that can be done again: at once, and in captures by each replay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "ExternalProbe.h"
#include "TinyProgram.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/external_work.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::ElementsAre;
using testing::ExternalProbe;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kCount = 1000;
constexpr int64_t kBytes = kCount * 4;

/// Calls functions of the test.
class Repeated : public RepeatableWork {
 public:
  using Enqueue = std::function<Status(Stream, const std::vector<WorkMemory>&)>;
  explicit Repeated(Enqueue enqueue, std::vector<WorkMemory> memory = {})
      : enqueue_(std::move(enqueue)), memory_(std::move(memory)) {}
  Status wrong;
  std::atomic<int> prepared{0}, enqueued{0};

  std::string name() const override { return "again"; }
  Status prepare(const Stream&) override {
    ++prepared;
    return wrong;
  }
  Status enqueue(const Stream& stream, const std::vector<WorkMemory>& memory) override {
    ++enqueued;
    return enqueue_(stream, memory);
  }
  std::vector<WorkMemory> memory() const override { return memory_; }

 private:
  const Enqueue enqueue_;
  const std::vector<WorkMemory> memory_;
};

class RepeatableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device, {"main", 0}).value();
    side = Stream::create(device, {"side", 0}).value();
    in = device.allocate(kBytes).value();
    middle = device.allocate(kBytes).value();
    out = device.allocate(kBytes).value();
    std::iota(data.begin(), data.end(), 5);
  }
  /// Copies its first memory to its second.
  std::shared_ptr<Repeated> copying(const Buffer& from, const Buffer& to) {
    return std::make_shared<Repeated>(
        [](Stream on, const std::vector<WorkMemory>& memory) {
          return on.copyOnDevice(memory[1].address, memory[0].address, memory[0].bytes);
        },
        std::vector<WorkMemory>{{from.address(), kBytes}, {to.address(), kBytes}});
  }
  /// in -> middle (again) -> out -> result.
  CapturedGraph captureChain(const std::shared_ptr<RepeatableWork>& work) {
    CaptureSession session = CaptureSession::begin(stream).value();
    EXPECT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
    EXPECT_TRUE(stream.enqueueRepeatable(work).ok());
    EXPECT_TRUE(stream.copyOnDevice(out, 0, middle, 0, kBytes).ok());
    EXPECT_TRUE(stream.copyToHost(result.data(), out, kBytes).ok());
    return session.end().value();
  }
  /// `work` on a branch between a fork and a join; what follows it on the branch, and on the stream.
  CapturedGraph captureBranch(const std::shared_ptr<RepeatableWork>& work) {
    CaptureSession session = CaptureSession::begin(stream).value();
    Event forked, joined;
    EXPECT_TRUE(stream.fill(in, 1, kBytes).ok());
    EXPECT_TRUE(stream.record(forked).ok());
    EXPECT_TRUE(side.wait(forked).ok());
    EXPECT_TRUE(side.enqueueRepeatable(work).ok());
    EXPECT_TRUE(side.copyOnDevice(middle, 0, in, 0, kBytes).ok());
    EXPECT_TRUE(side.record(joined).ok());
    EXPECT_TRUE(stream.fill(out, 2, kBytes).ok());
    EXPECT_TRUE(stream.wait(joined).ok());
    EXPECT_TRUE(stream.copyOnDevice(out, 0, middle, 0, kBytes).ok());
    return session.end().value();
  }
  std::vector<int32_t> download(const Buffer& from) {
    std::vector<int32_t> values(kCount, -1);
    EXPECT_TRUE(stream.copyToHost(values.data(), from, kBytes).ok());
    EXPECT_TRUE(stream.synchronize().ok());
    return values;
  }

  Device device;
  Stream stream, side;
  Buffer in, middle, out;
  std::vector<int32_t> data = std::vector<int32_t>(kCount), result = std::vector<int32_t>(kCount, -1);
};

TEST_F(RepeatableTest, IsEnqueuedAtOnceOutsideOfACapture) {
  auto work = copying(in, out);
  ASSERT_TRUE(stream.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(stream.enqueueRepeatable(work).ok());
  ASSERT_TRUE(stream.enqueueRepeatable(work).ok());
  EXPECT_EQ(work->enqueued, 2);
  EXPECT_EQ(work->prepared, 0);
  EXPECT_EQ(download(out), data);
  EXPECT_EQ(stream.enqueueRepeatable(nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Stream().enqueueRepeatable(work).code(), StatusCode::kFailedPrecondition);
}

TEST_F(RepeatableTest, IsEnqueuedAgainByEachReplayInItsPlace) {
  auto work = copying(in, middle);
  CapturedGraph graph = captureChain(work);
  EXPECT_THAT(graph.describe(), ElementsAre("branch 0: copy to device", "branch 0: external work 'again'",
                                            "branch 0: copy on device", "branch 0: copy to host"));
  EXPECT_EQ(work->prepared, 1);
  EXPECT_EQ(work->enqueued, 0);
  GraphInstance instance = graph.instantiate().value();
  for (int round = 1; round <= 3; ++round) {
    data[0] = round;
    ASSERT_TRUE(instance.replay(round == 3 ? side : stream).ok());
    ASSERT_TRUE(device.synchronize().ok());
    EXPECT_EQ(work->enqueued, round);
    EXPECT_EQ(result, data);
  }
  EXPECT_EQ(CaptureSession::of(stream), 0u);
}

TEST_F(RepeatableTest, ItsMemoryIsRebound) {
  GraphInstance instance = captureChain(copying(in, middle)).instantiate().value();
  Buffer other = device.allocate(kBytes).value();
  ASSERT_TRUE(instance.rebind(middle, other).ok());
  middle = Buffer();
  ASSERT_TRUE(stream.fill(out, 0, kBytes).ok());
  ASSERT_TRUE(instance.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(result, data);
  EXPECT_EQ(download(other), data);
  Buffer small = device.allocate(16).value();
  EXPECT_EQ(instance.rebind(other.address(), small.address(), 16).code(), StatusCode::kOutOfRange);
}

TEST_F(RepeatableTest, WhatPrepareFindsFailsTheCapture) {
  auto work = copying(in, out);
  work->wrong = invalidArgument("a count of -3");
  CaptureSession session = CaptureSession::begin(stream).value();
  EXPECT_NE(CaptureSession::of(stream), 0u);
  EXPECT_EQ(stream.enqueueRepeatable(work).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(session.end().status().message(), HasSubstr("a count of -3"));
  // And memory that is none.
  session = CaptureSession::begin(stream).value();
  auto stray =
      std::make_shared<Repeated>([](Stream, const auto&) { return okStatus(); }, std::vector<WorkMemory>{{16, 1}});
  EXPECT_EQ(stream.enqueueRepeatable(stray).code(), StatusCode::kNotFound);
  EXPECT_FALSE(session.end().ok());
}

TEST_F(RepeatableTest, AnEnqueueThatFailsEndsItsReplayThere) {
  int left = 1;
  auto work = std::make_shared<Repeated>(
      [&](Stream, const auto&) { return left-- > 0 ? okStatus() : unavailable("the network is down"); });
  GraphInstance instance = captureBranch(work).instantiate().value();
  ASSERT_TRUE(instance.replay(stream).ok());
  EXPECT_EQ(download(out)[0], 0x01010101);
  ASSERT_TRUE(stream.fill(in, 7, kBytes).ok());
  ASSERT_TRUE(stream.fill(middle, 7, kBytes).ok());
  ASSERT_TRUE(stream.fill(out, 7, kBytes).ok());
  Status status = instance.replay(stream);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("operation 3 of the graph ('again'"));
  // What is before it has run, what is behind it has not, and the stream has no failure.
  EXPECT_EQ(download(in)[0], 0x01010101);
  EXPECT_EQ(download(middle)[0], 0x07070707);
  EXPECT_EQ(download(out)[0], 0x07070707);
  left = 1;
  ASSERT_TRUE(instance.replay(stream).ok());
  EXPECT_EQ(download(out)[0], 0x01010101);
}

TEST_F(RepeatableTest, AFailureOnABranchIsOneOfTheReplaysStream) {
  std::atomic<bool> fails{false};
  auto work = std::make_shared<Repeated>([&](Stream on, const auto&) {
    auto probe = std::make_shared<ExternalProbe>("exchange");
    probe->keepTurn = false;
    probe->onStart = [&](ExternalTurn& turn) {
      turn.complete(fails ? dataLoss("damaged") : okStatus(), turn.arrivalPs() + 1000000);
    };
    return on.enqueue(probe);
  });
  GraphInstance instance = captureBranch(work).instantiate().value();
  for (int round = 0; round < 3; ++round) {
    fails = true;
    ASSERT_TRUE(stream.fill(middle, 7, kBytes).ok());
    ASSERT_TRUE(stream.fill(out, 7, kBytes).ok());
    ASSERT_TRUE(instance.replay(stream).ok());
    ASSERT_TRUE(instance.replay(stream).ok());  // Behind the failure; it does nothing.
    Status status = stream.synchronize();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.toString();
    EXPECT_EQ(download(middle)[0], 0x07070707);
    fails = false;
    ASSERT_TRUE(instance.replay(stream).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    EXPECT_EQ(download(out)[0], 0x01010101);
  }
}

TEST_F(RepeatableTest, ItsMemoryLivesAsLongAsAReplayIsInFlight) {
  auto probe = std::make_shared<ExternalProbe>("exchange");
  const int64_t used = device.memoryInfo().usedBytes;
  Buffer own = device.allocate(8 * kMiB).value();
  const int64_t owned = device.memoryInfo().usedBytes;
  auto work = std::make_shared<Repeated>([&](Stream on, const auto&) { return on.enqueue(probe); },
                                         std::vector<WorkMemory>{{own.address(), 8 * kMiB}});
  {
    GraphInstance instance = captureBranch(work).instantiate().value();
    own = Buffer();
    EXPECT_EQ(device.memoryInfo().usedBytes, owned);
    ASSERT_TRUE(instance.replay(stream).ok());
  }
  ASSERT_TRUE(probe->awaitStart());
  EXPECT_EQ(device.memoryInfo().usedBytes, owned);
  probe->turn()->complete(okStatus(), 0);
  ASSERT_TRUE(device.synchronize().ok());
  probe.reset();
  work.reset();
  // It is let go when the work is done, perhaps a moment after somebody saw that.
  for (int i = 0; i < 60000 && device.memoryInfo().usedBytes > used; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(device.memoryInfo().usedBytes, used);
}

TEST_F(RepeatableTest, MustNotReplayOrRebindGraphs) {
  GraphInstance instance;
  Status replayed, rebound;
  auto work = std::make_shared<Repeated>([&](Stream on, const auto&) {
    replayed = instance.replay(on);
    rebound = instance.rebind(in.address(), out.address(), kBytes);
    return okStatus();
  });
  instance = captureChain(work).instantiate().value();
  ASSERT_TRUE(instance.replay(stream).ok());
  EXPECT_EQ(replayed.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(rebound.code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(stream.synchronize().ok());
}

TEST_F(RepeatableTest, MayLaunchWhatTheGraphLaunches) {
  constexpr int64_t n = 32;
  auto program = Executable::load(device, testing::toRecipe(testing::copyThenMultiplyProgram(n, true))).value();
  Buffer a = device.allocate(n * n * 4).value(), b = device.allocate(n * n * 4).value();
  auto work = std::make_shared<Repeated>([&](Stream on, const auto&) { return program.launch(on, {b}, {a}); });
  std::vector<float> ones(n * n, 1.0F), values(n * n);
  ASSERT_TRUE(stream.copyToDevice(a, ones.data(), n * n * 4).ok());
  ASSERT_TRUE(stream.synchronize().ok());  // The replay is on another stream.
  CaptureSession session = CaptureSession::begin(stream).value();
  Event forked, joined;
  ASSERT_TRUE(program.launch(stream, {a}, {b}).ok());
  ASSERT_TRUE(stream.record(forked).ok());
  ASSERT_TRUE(side.wait(forked).ok());
  ASSERT_TRUE(side.enqueueRepeatable(work).ok());
  ASSERT_TRUE(side.record(joined).ok());
  ASSERT_TRUE(stream.wait(joined).ok());
  ASSERT_TRUE(program.launch(stream, {a}, {b}).ok());
  GraphInstance instance = session.end().value().instantiate().value();
  ASSERT_TRUE(instance.replay(side).ok());
  ASSERT_TRUE(program.launch(stream, {a}, {b}).ok());  // In order with the replay's: they share a workspace.
  ASSERT_TRUE(device.synchronize().ok());
  ASSERT_TRUE(stream.copyToHost(values.data(), a, n * n * 4).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(values, std::vector<float>(n * n, float{n} * n * n));
}

TEST_F(RepeatableTest, CallsOfOneObjectComeOneAfterAnother) {
  std::atomic<int> inside{0}, most{0};
  auto work = std::make_shared<Repeated>([&](Stream, const auto&) {
    most = std::max(most.load(), ++inside);
    std::this_thread::yield();
    --inside;
    return okStatus();
  });
  CapturedGraph first = captureChain(work), second = captureBranch(work);
  std::vector<GraphInstance> instances{first.instantiate().value(), first.instantiate().value(),
                                       second.instantiate().value()};
  std::vector<std::thread> threads;
  for (GraphInstance& instance : instances)
    threads.emplace_back([&] {
      Stream own = Stream::create(device).value();
      for (int i = 0; i < 50; ++i) EXPECT_TRUE(instance.replay(own).ok());
      EXPECT_TRUE(own.synchronize().ok());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(work->enqueued, 150);
  EXPECT_EQ(most, 1);
}

TEST_F(RepeatableTest, AReplayBehindAResetGoesOn) {
  auto probe = std::make_shared<ExternalProbe>("exchange");
  int calls = 0;
  probe->onCancel = [&](const Status& why) { probe->turn()->complete(why, 0); };
  auto work = std::make_shared<Repeated>(
      [&](Stream on, const auto&) { return calls++ == 0 ? on.enqueue(probe) : on.fill(middle, 3, kBytes); });
  GraphInstance instance = captureBranch(work).instantiate().value();
  ASSERT_TRUE(instance.replay(stream).ok());
  ASSERT_TRUE(probe->awaitStart());
  ASSERT_TRUE(device.reset().ok());
  ASSERT_TRUE(instance.replay(stream).ok());
  EXPECT_EQ(download(out)[0], 0x01010101);
}

}  // namespace
}  // namespace hpu
