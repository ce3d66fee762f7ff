// SPDX-License-Identifier: Apache-2.0
// What the node says about itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "WorkerProcess.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/node.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;
using testing::WorkerProcess;

DeviceOptions at(int index) {
  DeviceOptions options;
  options.index = index;
  options.hbmBytes = 64 << 20;
  return options;
}

int64_t realtimeNs() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

/// The device's status once its owner has answered: on a loaded machine that may take longer than a
/// query waits.
node::DeviceStatus answered(int index) {
  node::DeviceStatus status;
  for (int i = 0; i < 300; ++i) {
    int64_t before = realtimeNs();
    status = node::query(index).value();
    if (status.updatedAtNs >= before) break;
  }
  return status;
}

template <typename T>
concept HasArrow = requires(T&& value) { std::forward<T>(value).operator->(); };
static_assert(HasArrow<node::Answer<node::NodeStatus>&> && HasArrow<const node::Answer<node::NodeStatus>&>);
static_assert(!HasArrow<decltype(node::query())> && !HasArrow<decltype(node::query(0))>,
              "what an arrow on a temporary gives is gone at the end of the expression");

TEST(NodeQuery, TheValueOfATemporaryLivesAsLongAsALoopOverItsDevices) {
  std::string addresses;
  for (const node::DeviceStatus& device : node::query().value().devices) addresses += device.pciAddress + " ";
  std::string expected;
  auto named = node::query();
  for (const node::DeviceStatus& device : named->devices) expected += device.pciAddress + " ";
  EXPECT_EQ(addresses, expected);
  EXPECT_EQ((*node::query(2)).index, 2);
}

TEST(NodeQuery, FreeNodeHasEightIdleDevices) {
  node::NodeStatus node = node::query().value();
  const char* name = std::getenv("HPU_NODE");
  EXPECT_EQ(node.identity, name ? name : "0");
  ASSERT_EQ(node.devices.size(), 8u);
  for (int i = 0; i < node::kDevices; ++i) {
    const node::DeviceStatus& device = node.devices[static_cast<size_t>(i)];
    EXPECT_EQ(device.index, i);
    EXPECT_EQ(device.owner.pid, 0);
    EXPECT_EQ(device.name, "HL-225");
    EXPECT_EQ(device.totalBytes, int64_t{96} << 30);
    EXPECT_EQ(device.usedBytes, 0);
    EXPECT_EQ(device.acquiredAtNs, 0);
    EXPECT_EQ(device.counters.deviceNs, 0);
    EXPECT_FALSE(device.uuid.empty());
  }
}

TEST(NodeQuery, OwnDeviceIsReportedAsItIs) {
  int64_t before = realtimeNs();
  DeviceOptions options = at(6);
  options.target = Target::kGaudi3;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(1 << 20).value();
  {
    Buffer gone = device.allocate(2 << 20).value();
  }
  std::vector<uint8_t> data(1 << 20);
  ASSERT_TRUE(stream.copyToDevice(buffer, data.data(), 1 << 20).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  node::DeviceStatus status = answered(6);
  EXPECT_EQ(status.index, 6);
  EXPECT_EQ(status.target, Target::kGaudi3);
  EXPECT_EQ(status.name, "HL-325");
  EXPECT_EQ(status.clockProfile, "sustained");
  EXPECT_EQ(status.pciAddress, device.info().pciAddress);
  EXPECT_EQ(status.moduleId, device.info().moduleId);
  EXPECT_EQ(status.owner.pid, ::getpid());
  EXPECT_EQ(status.owner.name, "node_test");
  EXPECT_EQ(status.owner.streams, 1);
  EXPECT_EQ(status.totalBytes, 64 << 20);
  EXPECT_EQ(status.usedBytes, device.memoryInfo().usedBytes);
  EXPECT_EQ(status.owner.usedBytes, status.usedBytes);
  EXPECT_EQ(status.peakBytes, 3 << 20);
  EXPECT_EQ(status.counters.h2dBytes, 1 << 20);
  EXPECT_EQ(status.counters.deviceNs, device.counters().deviceNs);
  EXPECT_EQ(status.queuedWork, 0);
  EXPECT_GE(status.acquiredAtNs, before);
  EXPECT_GE(status.updatedAtNs, status.acquiredAtNs);
  EXPECT_EQ(status.lastError, "");
}

TEST(NodeQuery, OthersDevicesAreReportedAndFreedOnesAreIdleAgain) {
  WorkerProcess worker({"--index", "3", "--target", "gaudi1"});
  ASSERT_EQ(worker.index(), 3) << worker.hello();
  EXPECT_EQ(worker.ask("round"), "right");
  node::DeviceStatus status = answered(3);
  EXPECT_EQ(status.owner.pid, worker.pid());
  EXPECT_EQ(status.owner.name, "node_worker");
  EXPECT_EQ(status.name, "HL-205");
  EXPECT_EQ(status.counters.launches, 1);
  EXPECT_EQ(status.counters.h2dBytes, 200000);
  EXPECT_GE(status.usedBytes, 3 * 200000);
  worker.kill();
  status = node::query(3).value();
  EXPECT_EQ(status.owner.pid, 0);
  EXPECT_EQ(status.usedBytes, 0);
  EXPECT_EQ(status.counters.launches, 0);
  EXPECT_EQ(status.name, "HL-225");
}

TEST(NodeQuery, OwnerThatDoesNotAnswerIsKnownByItsProcess) {
  WorkerProcess worker({"--index", "2"});
  ASSERT_EQ(worker.index(), 2) << worker.hello();
  worker.stop();
  node::DeviceStatus status = node::query(2).value();
  EXPECT_EQ(status.owner.pid, worker.pid());
  EXPECT_EQ(status.owner.name, "node_worker");
  EXPECT_EQ(status.updatedAtNs, 0);
  worker.signal(SIGCONT);
  status = answered(2);
  EXPECT_EQ(status.totalBytes, 64 << 20);
  worker.stop();
  int64_t known = status.updatedAtNs;
  status = node::query(2).value();
  EXPECT_EQ(status.updatedAtNs, known) << "the last answer, with its time";
  EXPECT_EQ(status.totalBytes, 64 << 20);
  worker.signal(SIGCONT);
}

TEST(NodeQuery, QueuedWorkAndTheLastErrorAreShown) {
  setenv("HPU_SIM_HOST_BYTES", "1M", 1);
  Device device = Device::open(at(4)).value();
  unsetenv("HPU_SIM_HOST_BYTES");
  Device other = Device::open(at(0)).value();
  Stream stream = Stream::create(device).value(), slow = Stream::create(other).value();
  Buffer buffer = device.allocate(8 << 20).value(), theirs = other.allocate(32 << 20).value();
  ASSERT_TRUE(stream.fill(buffer, 1, 8 << 20).ok());
  EXPECT_FALSE(stream.synchronize().ok());
  EXPECT_THAT(answered(4).lastError, HasSubstr("HPU_SIM_HOST_BYTES"));
  // What waits for another device's work is queued here.
  std::vector<uint8_t> data(32 << 20);
  Event event;
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(slow.copyToDevice(theirs, data.data(), 32 << 20).ok());
  ASSERT_TRUE(slow.record(event).ok());
  ASSERT_TRUE(stream.wait(event).ok());
  ASSERT_TRUE(stream.fill(buffer, 1, 1 << 10).ok());
  node::DeviceStatus status = answered(4);
  if (!event.query().value()) {
    EXPECT_EQ(status.queuedWork, 2);
  }
  ASSERT_TRUE(slow.synchronize().ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(answered(4).queuedWork, 0);
}

TEST(NodeQuery, WatchingChangesNoDeviceTime) {
  // Work of two queues that compete: what was seen of it by the program itself is all that may fix
  // its times.
  auto run = [&](bool watched) {
    Device device = Device::open(at(0)).value();
    Stream low = Stream::create(device, {"low", 0}).value();
    Stream high = Stream::create(device, {"high", 1}).value();
    Buffer buffer = device.allocate(8 << 20).value();
    std::vector<uint8_t> data(8 << 20);
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(low.copyToDevice(buffer, data.data(), 8 << 20).ok());
      if (watched) (void)answered(0);
    }
    EXPECT_TRUE(high.copyToDevice(buffer, data.data(), 1 << 10).ok());
    Event event;
    EXPECT_TRUE(high.record(event).ok());
    EXPECT_TRUE(event.synchronize().ok());
    int64_t time = event.deviceTimeNs().value();
    EXPECT_TRUE(device.synchronize().ok());
    return time;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(NodeQuery, BadQuestionsAreRefused) {
  EXPECT_EQ(node::query(8).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(node::query(-1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(node::inject(8, node::Fault::kThermal).code(), StatusCode::kNotFound);
  EXPECT_EQ(node::inject(0, node::Fault::kThermal).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(node::inject(0, node::Fault::kThermal, 0).code(), StatusCode::kInvalidArgument);
  std::string identity = node::query().value().identity;
  setenv("HPU_NODE", "a/b", 1);
  EXPECT_EQ(node::query().status().code(), StatusCode::kInvalidArgument);
  setenv("HPU_NODE", identity.c_str(), 1);
}

TEST(NodeQuery, OnceASecondCostsLessThanAHundredthOfACore) {
  // Asker and owners are this process: its processor time is what both cost.
  std::vector<Device> devices;
  std::vector<Buffer> buffers;
  for (int i = 0; i < node::kDevices; ++i) {
    devices.push_back(Device::open(at(i)).value());
    for (int b = 0; b < 100; ++b) buffers.push_back(devices.back().allocate(1000).value());
  }
  auto processorNs = [] {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
  };
  constexpr int kQueries = 20;
  int64_t before = processorNs();
  for (int i = 0; i < kQueries; ++i) ASSERT_TRUE(node::query().ok());
  int64_t each = (processorNs() - before) / kQueries;
  RecordProperty("processor_us_a_query", std::to_string(each / 1000));
  EXPECT_LT(each, 10 * 1000 * 1000);
}

TEST(NodeQuery, OwnerWithoutDescriptorsDoesNotSpinAndAnswersLater) {
  WorkerProcess worker({"--index", "0"});
  ASSERT_EQ(worker.ask("starve"), "done");
  long before = std::atol(worker.ask("processor").c_str());
  for (int i = 0; i < 4; ++i) {
    // 100 ms each: it cannot take the call, but the kernel knows who it is.
    node::DeviceStatus status = node::query(0).value();
    EXPECT_EQ(status.owner.pid, worker.pid());
    EXPECT_EQ(status.updatedAtNs, 0);
  }
  EXPECT_LT(std::atol(worker.ask("processor").c_str()) - before, 100) << "milliseconds";
  ASSERT_EQ(worker.ask("relax"), "done");
  EXPECT_EQ(answered(0).totalBytes, 64 << 20);
}

TEST(NodeQuery, ManyThreadsAskWhileTheDeviceOpensAndCloses) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!done) EXPECT_TRUE(node::query().ok());
    });
  for (int i = 0; i < 100; ++i) {
    auto device = Device::open(at(i % 8));
    ASSERT_TRUE(device.ok()) << device.status().message();
    Stream stream = Stream::create(*device).value();
    Buffer buffer = device->allocate(1000).value();
    EXPECT_TRUE(stream.fill(buffer, 1, 1000).ok());
  }
  done = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace hpu
