// SPDX-License-Identifier: Apache-2.0
// What an injected fault does, and that a reset ends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "TinyProgram.h"
#include "WorkerProcess.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/node.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using testing::WorkerProcess;

constexpr int64_t kCount = 1000;
constexpr int64_t kBytes = kCount * 4;

class Fault : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.index = 5;
    options.hbmBytes = 16 << 20;
    device = Device::open(options).value();
    stream = Stream::create(device, {"first", 0}).value();
    second = Stream::create(device, {"second", 0}).value();
    copy = Executable::load(device, testing::toRecipe(testing::copyProgram(kCount))).value();
    in = device.allocate(kBytes, "in").value();
    out = device.allocate(kBytes, "out").value();
    std::iota(data.begin(), data.end(), 1);
  }
  /// Copies in, computes, copies out; the failure, also of a wrong result.
  Status roundTrip(Stream& on) {
    std::vector<int32_t> result(kCount, -1);
    Status status = on.copyToDevice(in, data.data(), kBytes);
    if (status.ok()) status = copy.launch(on, {in}, {out});
    if (status.ok()) status = on.copyToHost(result.data(), out, kBytes);
    if (status.ok()) status = on.synchronize();
    if (status.ok() && result != data) return internalError("wrong numbers");
    return status;
  }
  void inject(node::Fault fault, int count = 1) {
    Status status = node::inject(5, fault, count);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  /// Waits for the owner's own answer, which a loaded machine may delay.
  node::DeviceStatus status() {
    for (int i = 0; i < 300; ++i) {
      auto now = std::chrono::system_clock::now().time_since_epoch();
      node::DeviceStatus result = node::query(5).value();
      if (result.updatedAtNs >= std::chrono::nanoseconds(now).count()) return result;
    }
    return {};
  }
  uint64_t count(node::Fault fault) { return status().faults[static_cast<int>(fault)]; }

  Device device;
  Stream stream, second;
  Executable copy;
  Buffer in, out;
  std::vector<int32_t> data = std::vector<int32_t>(kCount);
};

TEST_F(Fault, SomeAreOnlyCounted) {
  for (node::Fault fault : {node::Fault::kCorrectedEcc, node::Fault::kNonFatalEvent, node::Fault::kThermal}) {
    inject(fault, 3);
    EXPECT_EQ(count(fault), 3u);
  }
  EXPECT_TRUE(roundTrip(stream).ok());
  EXPECT_FALSE(status().lost);
  EXPECT_EQ(status().lastError, "");
  EXPECT_EQ(count(node::Fault::kFatalEvent), 0u);
}

TEST_F(Fault, UncorrectedErrorFailsTheNextWorkThatReadsAndNoOther) {
  inject(node::Fault::kUncorrectedEcc);
  EXPECT_EQ(count(node::Fault::kUncorrectedEcc), 1u);
  // Writing does not meet it.
  ASSERT_TRUE(second.copyToDevice(in, data.data(), kBytes).ok());
  ASSERT_TRUE(second.fill(out, 0, kBytes).ok());
  EXPECT_TRUE(second.synchronize().ok());
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  Status failure = stream.synchronize();
  EXPECT_EQ(failure.code(), StatusCode::kDataLoss);
  EXPECT_THAT(failure.message(), HasSubstr("ECC"));
  EXPECT_THAT(failure.message(), HasSubstr("queue 'first'"));
  EXPECT_THAT(failure.message(), HasSubstr("(at node 'load' (Copy) on the dma)"));
  ASSERT_NE(failure.work(), nullptr);
  EXPECT_EQ(failure.work()->device, device.info().index);
  EXPECT_EQ(failure.work()->stream, "first");
  EXPECT_EQ(failure.work()->operation, "launch");
  EXPECT_EQ(failure.work()->label, copy.recipe().name());
  EXPECT_EQ(failure.work()->node, "load");
  EXPECT_THAT(status().lastError, HasSubstr("ECC"));
  ASSERT_TRUE(device.reset().ok());
  EXPECT_TRUE(roundTrip(stream).ok());
  EXPECT_EQ(count(node::Fault::kUncorrectedEcc), 1u) << "counts outlive a reset";
  // Each kind of reader.
  inject(node::Fault::kUncorrectedEcc, 2);
  std::vector<int32_t> result(kCount);
  ASSERT_TRUE(stream.copyToHost(result.data(), in, kBytes).ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(second.copyOnDevice(out, 0, in, 0, kBytes).ok());
  EXPECT_EQ(second.synchronize().code(), StatusCode::kDataLoss);
  ASSERT_TRUE(device.reset().ok());
  EXPECT_TRUE(roundTrip(second).ok());
}

/// They are in order because they use the same memory in turns; what one leaves there is nothing to the next.
TEST_F(Fault, LaunchesThatShareMemoryOfTheirExecutableDoNotShareFailures) {
  Executable swap = Executable::load(device, testing::toRecipe(testing::swapProgram(kCount))).value();
  Buffer other = device.allocate(kBytes).value(), another = device.allocate(kBytes).value();
  inject(node::Fault::kUncorrectedEcc);
  ASSERT_TRUE(swap.launch(stream, {in, out}, {in, out}).ok());
  ASSERT_TRUE(swap.launch(second, {other, another}, {other, another}).ok());
  EXPECT_TRUE(second.synchronize().ok());
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kDataLoss);
}

TEST_F(Fault, FatalEventFailsEveryStreamUntilTheReset) {
  EXPECT_TRUE(roundTrip(stream).ok());
  inject(node::Fault::kFatalEvent);
  EXPECT_TRUE(status().lost);
  for (Stream* each : {&stream, &second}) {
    Status failure = roundTrip(*each);
    EXPECT_EQ(failure.code(), StatusCode::kUnavailable);
    EXPECT_THAT(failure.message(), HasSubstr("Device::reset"));
  }
  // Also where there is nothing but an event to record.
  Event event;
  Stream third = Stream::create(device).value();
  ASSERT_TRUE(third.record(event).ok());
  EXPECT_FALSE(third.synchronize().ok());
  ASSERT_TRUE(device.reset().ok());
  EXPECT_FALSE(status().lost);
  EXPECT_TRUE(roundTrip(stream).ok());
  EXPECT_TRUE(roundTrip(second).ok());
  EXPECT_EQ(count(node::Fault::kFatalEvent), 1u);
}

TEST_F(Fault, LostHeartbeatIsReportedUntilTheReset) {
  inject(node::Fault::kLostHeartbeat);
  EXPECT_TRUE(status().lost);
  EXPECT_TRUE(roundTrip(stream).ok());
  ASSERT_TRUE(device.reset().ok());
  EXPECT_FALSE(status().lost);
}

TEST_F(Fault, EndlessCommandLetsWaitsRunIntoTheirDeadlines) {
  inject(node::Fault::kEndlessCommand);
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  std::vector<int32_t> result(kCount);
  ASSERT_TRUE(stream.copyToHost(result.data(), out, kBytes).ok());
  Status late = stream.synchronize(30);
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(), HasSubstr("does not end"));
  EXPECT_THAT(late.message(), HasSubstr("Device::reset"));
  // The configured deadline as well, and no thread of ours goes into it.
  ::setenv("HPU_WAIT_TIMEOUT_MS", "70", 1);
  EXPECT_EQ(stream.synchronize().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(device.synchronize().code(), StatusCode::kDeadlineExceeded);
  ::unsetenv("HPU_WAIT_TIMEOUT_MS");
  EXPECT_EQ(status().queuedWork, 2);
  // Other streams go on.
  ASSERT_TRUE(second.fill(in, 7, kBytes).ok());
  EXPECT_TRUE(second.synchronize().ok());
  ASSERT_TRUE(device.reset().ok());
  EXPECT_EQ(status().queuedWork, 0);
  EXPECT_TRUE(roundTrip(stream).ok());
}

TEST_F(Fault, ManyEndlessCommandsHoldNoThreads) {
  constexpr int kStreams = 12;
  inject(node::Fault::kEndlessCommand, kStreams);
  std::vector<Stream> streams;
  std::vector<Executable> executables;
  std::vector<Buffer> buffers;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(Stream::create(device).value());
    executables.push_back(Executable::load(device, testing::toRecipe(testing::fillProgram(kCount, 3))).value());
    buffers.push_back(device.allocate(kBytes).value());
    ASSERT_TRUE(executables.back().launch(streams.back(), {}, {buffers.back()}).ok());
  }
  // Not a launch, which might come before one of theirs.
  ASSERT_TRUE(second.fill(in, 1, kBytes).ok());
  EXPECT_TRUE(second.synchronize().ok());
  for (Stream& each : streams) EXPECT_EQ(each.synchronize(0).code(), StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(device.reset().ok());
  for (int i = 0; i < kStreams; ++i) {
    ASSERT_TRUE(executables[i].launch(streams[i], {}, {buffers[i]}).ok());
    EXPECT_TRUE(streams[i].synchronize().ok());
  }
}

TEST_F(Fault, ResetFromAnotherThreadFreesWhoWaits) {
  inject(node::Fault::kEndlessCommand);
  ASSERT_TRUE(copy.launch(stream, {in}, {out}).ok());
  std::thread waiter([&] { (void)stream.synchronize(); });
  while (status().queuedWork == 0) std::this_thread::yield();
  ASSERT_TRUE(device.reset().ok());
  waiter.join();
  EXPECT_TRUE(roundTrip(stream).ok());
}

TEST_F(Fault, OtherProcessesDevicesCanBeHit) {
  WorkerProcess worker({"--index", "2"});
  ASSERT_EQ(worker.index(), 2) << worker.hello();
  EXPECT_EQ(worker.ask("round"), "right");
  ASSERT_TRUE(node::inject(2, node::Fault::kFatalEvent).ok());
  EXPECT_THAT(worker.ask("round"), HasSubstr("fatal event"));
  EXPECT_TRUE(roundTrip(stream).ok()) << "this process's device is sound";
  EXPECT_EQ(worker.ask("reset"), "reset");
  EXPECT_EQ(worker.ask("round"), "right");
}

}  // namespace
}  // namespace hpu
