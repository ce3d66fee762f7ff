// SPDX-License-Identifier: Apache-2.0
// Every allocation of an enqueue fails once: the queue stays as it was, and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "TinyProgram.h"
#include "base/BlockPool.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/external_work.h"
#include "hpu/stream.h"
#include "runtime/driver/common/QueueExecutor.h"
#include "tests/unit/runtime/FailingNew.h"

namespace hpu::driver {
namespace {

using hpu::testing::allocationFailed;
using hpu::testing::failAllocation;
using hpu::testing::failEachAllocation;

// What the pool has does not fail.
[[maybe_unused]] const bool kIsUnpooled = (base::setBlockPooling(false), true);

class OutOfMemory : public ::testing::Test {
 protected:
  std::atomic<int> done{0};
  QueueExecutor executor{"test device", 1, [this](const Work&, const std::string&, QueueExecutor::Signal) {
                           ++done;
                           return okStatus();
                         }};
};

TEST_F(OutOfMemory, ASubmissionThatFailsLeavesTheQueueAsItWas) {
  QueueId queue = executor.createQueue("q").value();
  constexpr int kRounds = 600;  // So that every table has to grow.
  int failures = 0;
  std::shared_ptr<int> owner;
  Ticket before = 0;
  for (int round = 0; round < kRounds; ++round)
    failures += failEachAllocation(
        [&] {
          owner = std::make_shared<int>(1);
          before = executor.lastTicket();
          Launch launch;
          launch.signals = {0, 1};
          return [&, work = Work(launch), label = std::string(40, 'x')]() mutable {
            return executor.submit(queue, std::move(work), owner, std::move(label), [](Ticket, const ExternalWork*) {});
          };
        },
        [&](const StatusOr<Ticket>& ticket) {
          EXPECT_EQ(ticket.status().code(), StatusCode::kResourceExhausted) << ticket.status().message();
          EXPECT_EQ(executor.lastTicket(), before);
          EXPECT_EQ(owner.use_count(), 1);
        });
  EXPECT_GT(failures, 0);
  EXPECT_TRUE(executor.wait(executor.lastTicket(), 60000).ok());
  EXPECT_EQ(done, kRounds);
  EXPECT_EQ(executor.load().work, 0);
}

TEST_F(OutOfMemory, ABatchIsSubmittedWholeOrNotAtAll) {
  const QueueId first = executor.createQueue("a").value(), second = executor.createQueue("b").value();
  constexpr int kRounds = 300;
  int failures = 0;
  std::shared_ptr<int> owner;
  Ticket before = 0;
  for (int round = 0; round < kRounds; ++round)
    failures += failEachAllocation(
        [&] {
          owner = std::make_shared<int>(1);
          before = executor.lastTicket();
          std::vector<QueueExecutor::Entry> entries(3);
          entries[0].queue = first;
          entries[1].queue = entries[2].queue = second;
          entries[0].work = entries[2].work = Fill{};
          entries[1].work = WaitFor{};
          entries[1].waitItem = 0;
          for (auto& entry : entries) entry.keepAlive = owner;
          return [&, entries = std::move(entries)]() mutable {
            return executor.submitBatch(std::move(entries), first, [](const std::vector<Ticket>&) {});
          };
        },
        [&](const auto& tickets) {
          EXPECT_EQ(tickets.status().code(), StatusCode::kResourceExhausted) << tickets.status().message();
          EXPECT_EQ(executor.lastTicket(), before);
          EXPECT_EQ(owner.use_count(), 1);
        });
  EXPECT_GT(failures, kRounds);
  EXPECT_TRUE(executor.wait(executor.lastTicket(), 60000).ok());
  EXPECT_EQ(done, 2 * kRounds);
  EXPECT_EQ(executor.load().work, 0);
}

TEST_F(OutOfMemory, WhatIsNotAcceptedIsNotSubmitted) {
  QueueId queue = executor.createQueue("q").value();
  auto refuse = [](Ticket, const ExternalWork*) { throw std::bad_alloc(); };
  EXPECT_EQ(executor.submit(queue, Fill{}, nullptr, "", refuse).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(executor.load().work, 0);
  auto ticket = executor.submit(queue, Fill{}, nullptr, "", [](Ticket, const ExternalWork*) {});
  EXPECT_EQ(ticket.value(), 1u);
  EXPECT_TRUE(executor.wait(1, 60000).ok());
  EXPECT_EQ(done, 1);
}

TEST(OutOfMemoryDevice, AStreamGoesOn) {
  DeviceOptions options;
  options.hbmBytes = 16 << 20;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value(), other = Stream::create(device).value();
  Buffer buffer = device.allocate(64).value(), copy = device.allocate(64).value();
  std::vector<uint8_t> bytes(64);
  Event event;
  const std::vector<std::function<Status()>> calls = {
      [&] { return stream.fill(buffer, 7, 64); },
      [&] { return stream.copyOnDevice(copy, 0, buffer, 0, 64); },
      [&] { return stream.record(event); },
      [&] { return other.wait(event); },
      [&] { return other.copyToHost(bytes.data(), copy, 64); },
  };
  int failures = 0;
  for (int round = 0; round < 50; ++round) {
    // The next round writes what this one reads.
    ASSERT_TRUE(other.synchronize().ok());
    for (size_t c = 0; c < calls.size(); ++c) {
      SCOPED_TRACE(c);
      failures += failEachAllocation(
          [&] { return [&] { return calls[c](); }; },
          [&](const Status& status) { EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message(); });
    }
  }
  EXPECT_GT(failures, 100);
  EXPECT_TRUE(device.synchronize().ok());
  EXPECT_EQ(bytes, std::vector<uint8_t>(64, 7));
  EXPECT_TRUE(event.elapsedNsSince(event).ok());
}

/// A launch with its outputs over its inputs is a launch and two copies: all of them or none.
TEST(OutOfMemoryDevice, AnInPlaceLaunchIsEnqueuedWholeOrNotAtAll) {
  DeviceOptions options;
  options.hbmBytes = 16 << 20;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value(), other = Stream::create(device).value();
  Executable swap = Executable::load(device, testing::toRecipe(testing::swapProgram(1000))).value();
  Buffer a = device.allocate(4000).value(), b = device.allocate(4000).value();
  ASSERT_TRUE(stream.fill(a, 1, 4000).ok());
  ASSERT_TRUE(stream.fill(b, 2, 4000).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  int failures = 0;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    Event first, second;
    LaunchArguments arguments{{a.address(), b.address()}, {a.address(), b.address()}, 0, {{0, first}, {1, second}}};
    failures += failEachAllocation([&] { return [&] { return swap.launch(round % 2 ? other : stream, arguments); }; },
                                   [&](const Status& status) {
                                     EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
                                     EXPECT_EQ(device.counters().launches, round);
                                   });
    EXPECT_EQ(device.counters().launches, round + 1);
    EXPECT_TRUE(second.synchronize().ok());
    EXPECT_TRUE(second.deviceTimeNs().ok());
  }
  EXPECT_GT(failures, kRounds);
  ASSERT_TRUE(device.synchronize().ok());
  std::vector<uint8_t> out(4000);
  ASSERT_TRUE(stream.copyToHost(out.data(), a, 4000).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(out, std::vector<uint8_t>(4000, 1)) << "swapped an even number of times";
}

/// Looking addresses up allocates, and what was found is used again although the program allocates other memory.
TEST(OutOfMemoryDevice, ALaunchByAddressesThatWasSeenBeforeNeedsNoLookUpBesideAllocations) {
  DeviceOptions options;
  options.hbmBytes = 16 << 20;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value();
  Executable copy = Executable::load(device, testing::toRecipe(testing::copyProgram(1000))).value();
  Buffer in = device.allocate(4000).value(), out = device.allocate(4000).value(), unrelated;
  LaunchArguments arguments{{in.address()}, {out.address()}, 0, {}};
  auto allocations = [&] {
    return failEachAllocation([&] { return [&] { return copy.launch(stream, arguments); }; }, [](const Status&) {});
  };
  ASSERT_TRUE(copy.launch(stream, arguments).ok());
  const int steady = allocations();
  unrelated = device.allocate(64).value();
  EXPECT_LE(allocations(), steady + 2) << "two for tables that may have to grow just then";
  // Memory that was freed is not used again for that.
  const uint64_t address = out.address();
  ASSERT_TRUE(stream.synchronize().ok());
  out = Buffer();
  EXPECT_EQ(copy.launch(stream, arguments).code(), StatusCode::kNotFound);
  out = device.allocate(4000, AllocateOptions{"again", address}).value();
  EXPECT_TRUE(copy.launch(stream, arguments).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

/// Begun by the thread that enqueues it, and ended by the test.
class Waiting : public ExternalWork {
 public:
  std::string name() const override { return "waiting"; }
  void start(std::shared_ptr<ExternalTurn> turn) override { turn_ = std::move(turn); }
  bool startsInEnqueue() const override { return true; }
  void skipped(const Status&) override { ++skips; }
  void cancel(const Status&) override {}
  void end() {
    if (auto turn = std::exchange(turn_, nullptr)) turn->complete(okStatus(), 0);
  }
  bool started() const { return turn_ != nullptr; }
  int skips = 0;

 private:
  std::shared_ptr<ExternalTurn> turn_;
};

TEST(OutOfMemoryExternal, WorkThatIsEnqueuedIsStartedOrSkippedAndTheStreamGoesOn) {
  DeviceOptions options;
  options.driver = "null";
  options.index = 0;
  Device device = Device::open(options).value();
  Stream stream = Stream::create(device).value();
  int skipped = 0, nth = 0;
  for (bool failed = true; failed; ++nth) {
    ASSERT_LT(nth, 200);
    auto work = std::make_shared<Waiting>();
    failAllocation(nth);
    Status status = stream.enqueue(work);
    failed = allocationFailed();
    EXPECT_EQ(work->started() + work->skips, status.ok() ? 1 : 0) << nth;
    skipped += work->skips;
    work->end();
    Status ended = stream.synchronize(20000);
    EXPECT_EQ(ended.code(), work->skips ? StatusCode::kResourceExhausted : StatusCode::kOk)
        << nth << ": " << ended.message();
    EXPECT_TRUE(stream.synchronize(20000).ok()) << nth;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_GT(nth, skipped);
}

}  // namespace
}  // namespace hpu::driver
