// SPDX-License-Identifier: Apache-2.0
// What threads do that wait (DeviceOptions::wait): results and device times are the same, deadlines hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "ExternalProbe.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kLongMs = 120000;
constexpr WaitPolicy kPolicies[] = {WaitPolicy::kHelp, WaitPolicy::kBlock, WaitPolicy::kSpin, WaitPolicy::kYield};

Device openWith(WaitPolicy policy, const char* driver = "sim", int index = 0) {
  DeviceOptions options;
  options.driver = driver;
  options.index = index;
  options.hbmBytes = 64 * kMiB;
  options.wait = policy;
  return Device::open(options).value();
}

struct Result {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> times;
  bool operator==(const Result&) const = default;
};

/// Copies, fills, functions, external work, events between two streams, and all ways to wait.
Result runProgram(WaitPolicy policy, const char* driver) {
  Device device = openWith(policy, driver);
  Stream a = Stream::create(device).value(), b = Stream::create(device).value();
  Result result;
  result.bytes.resize(3 * kMiB);
  std::vector<uint8_t> in(kMiB);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 7 + i / 255);
  Buffer buffer = device.allocate(3 * kMiB).value();
  for (int round = 0; round < 6; ++round) {
    Event filled, copied, called;
    EXPECT_TRUE(a.copyToDevice(buffer, in.data(), kMiB).ok());
    EXPECT_TRUE(a.copyOnDevice(buffer, kMiB, buffer, 0, kMiB).ok());
    EXPECT_TRUE(a.record(copied).ok());
    EXPECT_TRUE(b.fill(buffer, static_cast<uint8_t>(round + 1), kMiB, 2 * kMiB).ok());
    EXPECT_TRUE(b.record(filled).ok());
    EXPECT_TRUE(b.wait(copied).ok());
    auto probe = std::make_shared<testing::ExternalProbe>();
    probe->keepTurn = false;
    std::thread ends;
    probe->onStartShared = [&](std::shared_ptr<ExternalTurn> turn) {
      ends = std::thread([turn = std::move(turn)] { turn->complete(okStatus(), turn->arrivalPs() + 5000000); });
    };
    EXPECT_TRUE(b.enqueue(probe).ok());
    EXPECT_TRUE(b.callHost([] { return okStatus(); }).ok());
    EXPECT_TRUE(b.record(called).ok());
    if (round % 3 == 0) {
      EXPECT_TRUE(device.synchronize(kLongMs).ok());
    } else if (round % 3 == 1) {
      EXPECT_TRUE(called.synchronize(kLongMs).ok());
    }
    EXPECT_TRUE(b.synchronize(kLongMs).ok());
    EXPECT_TRUE(a.wait(filled).ok());
    EXPECT_TRUE(a.copyToHost(result.bytes.data(), buffer, 3 * kMiB).ok());
    EXPECT_TRUE(a.synchronize(kLongMs).ok());
    ends.join();
    for (const Event& event : {filled, copied, called}) result.times.push_back(event.deviceTimeNs().value());
  }
  return result;
}

TEST(WaitPolicy, ChangesNeitherResultsNorDeviceTimes) {
  for (const char* driver : {"sim", "null"}) {
    const Result expected = runProgram(WaitPolicy::kHelp, driver);
    if (driver == std::string("sim")) {
      EXPECT_EQ(expected.bytes[2 * kMiB], 6);
    }
    for (WaitPolicy policy : kPolicies)
      EXPECT_TRUE(runProgram(policy, driver) == expected) << driver << " " << static_cast<int>(policy);
  }
}

/// Holds a stream until it goes.
class Held {
 public:
  explicit Held(Stream& stream) {
    EXPECT_TRUE(stream
                    .callHost([open = open_] {
                      while (!open->load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                      return okStatus();
                    })
                    .ok());
  }
  ~Held() { *open_ = true; }

 private:
  const std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

TEST(WaitPolicy, DeadlinesHold) {
  for (WaitPolicy policy : kPolicies) {
    SCOPED_TRACE(static_cast<int>(policy));
    Device device = openWith(policy);
    Stream stream = Stream::create(device).value();
    Event event;
    {
      Held held(stream);
      ASSERT_TRUE(stream.record(event).ok());
      for (int64_t deadlineMs : {0, 20}) {
        const auto before = std::chrono::steady_clock::now();
        EXPECT_EQ(stream.synchronize(deadlineMs).code(), StatusCode::kDeadlineExceeded);
        EXPECT_EQ(event.synchronize(deadlineMs).code(), StatusCode::kDeadlineExceeded);
        EXPECT_EQ(device.synchronize(deadlineMs).code(), StatusCode::kDeadlineExceeded);
        EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(3 * deadlineMs));
      }
    }
    EXPECT_TRUE(stream.synchronize(kLongMs).ok());
    EXPECT_TRUE(event.query().value());
  }
}

TEST(WaitPolicy, OnlyHelpLendsTheThread) {
  for (WaitPolicy policy : kPolicies) {
    SCOPED_TRACE(static_cast<int>(policy));
    Device device = openWith(policy);
    Stream stream = Stream::create(device).value();
    auto probe = std::make_shared<testing::ExternalProbe>();
    const bool helps = policy == WaitPolicy::kHelp;
    const std::thread::id waiting = std::this_thread::get_id();
    std::atomic<bool> here{false};
    probe->onStart = [&](ExternalTurn&) { here = here || std::this_thread::get_id() == waiting; };
    if (helps) probe->onHelp = [&](std::chrono::steady_clock::time_point) { probe->complete(okStatus(), 0); };
    ASSERT_TRUE(stream.enqueue(probe).ok());
    std::thread other;
    if (!helps)
      other = std::thread([&] {
        EXPECT_TRUE(probe->awaitStart());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // The wait has mostly begun; it matters not.
        probe->complete(okStatus(), 0);
      });
    EXPECT_TRUE(stream.synchronize(kLongMs).ok());
    if (other.joinable()) other.join();
    EXPECT_EQ(probe->helps > 0, helps);
    if (!helps) {
      EXPECT_FALSE(here);
    }
  }
}

TEST(WaitPolicy, FailuresAndResetsEndAWait) {
  for (WaitPolicy policy : kPolicies) {
    SCOPED_TRACE(static_cast<int>(policy));
    Device device = openWith(policy);
    Stream stream = Stream::create(device).value();
    ASSERT_TRUE(stream.callHost([] { return dataLoss("the cause"); }).ok());
    EXPECT_EQ(stream.synchronize(kLongMs).code(), StatusCode::kDataLoss);
    auto probe = std::make_shared<testing::ExternalProbe>();
    probe->onCancel = [&](const Status& why) { probe->complete(why, 0); };
    ASSERT_TRUE(stream.enqueue(probe).ok());
    ASSERT_TRUE(probe->awaitStart());
    Event event;
    ASSERT_TRUE(stream.record(event).ok());
    std::future<Status> waited = std::async(std::launch::async, [&] { return event.synchronize(kLongMs); });
    EXPECT_TRUE(device.reset(kLongMs).ok());
    EXPECT_EQ(waited.get().code(), StatusCode::kCancelled);
    EXPECT_TRUE(stream.synchronize(kLongMs).ok());
  }
}

/// Whether a thread that waits for the device lends itself to external work, within so long.
bool lendsItself(const Device& device, int64_t withinMs) {
  Stream stream = Stream::create(device).value();
  auto probe = std::make_shared<testing::ExternalProbe>();
  probe->onHelp = [&](std::chrono::steady_clock::time_point) { probe->complete(okStatus(), 0); };
  EXPECT_TRUE(stream.enqueue(probe).ok());
  const Status waited = stream.synchronize(withinMs);
  if (waited.ok()) return true;
  EXPECT_TRUE(probe->awaitStart());
  probe->complete(okStatus(), 0);
  EXPECT_TRUE(stream.synchronize(kLongMs).ok());
  return false;
}

TEST(WaitPolicy, IsThatOfTheSettingUnlessTheProgramSaysOne) {
  for (const char* driver : {"sim", "null"}) {
    ::setenv("HPU_WAIT_POLICY", "block", 1);
    EXPECT_FALSE(lendsItself(openWith(WaitPolicy::kDefault, driver), 100));
    EXPECT_TRUE(lendsItself(openWith(WaitPolicy::kHelp, driver), kLongMs));
    ::setenv("HPU_WAIT_POLICY", "snooze", 1);
    DeviceOptions options;
    options.driver = driver;
    const Status wrong = Device::open(options).status();
    EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(wrong.message(), HasSubstr("HPU_WAIT_POLICY"));
    ::unsetenv("HPU_WAIT_POLICY");
    options.wait = static_cast<WaitPolicy>(77);
    const Status unknown = Device::open(options).status();
    EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(unknown.message(), HasSubstr("DeviceOptions::wait is 77"));
  }
}

}  // namespace
}  // namespace hpu
