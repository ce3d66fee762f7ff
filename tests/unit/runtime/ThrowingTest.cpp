// SPDX-License-Identifier: Apache-2.0
// Functions of the program that throw (docs/embedding.md, "Functions that throw"): the failure of the call or the work
// that they belong to, or a line of the log; the process goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ExternalProbe.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/dlpack.h"
#include "hpu/eager.h"
#include "hpu/log.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using testing::ExternalProbe;
using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

[[noreturn]] void boom() {
  throw std::runtime_error("boom");
}

/// What is logged as an error meanwhile.
class Logged {
 public:
  Logged() {
    setLogHook([this](LogLevel level, const std::string& message) {
      std::lock_guard lock(mutex_);
      if (level == LogLevel::kError) text_ += message + "\n";
    });
  }
  ~Logged() { setLogHook({}); }
  std::string text() {
    std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

class Throwing : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    DeviceOptions options;
    options.driver = GetParam();
    options.index = 0;
    options.hbmBytes = 64 * kMiB;
    device = Device::open(options).value();
    stream = Stream::create(device, {"main"}).value();
  }
  void expectUsable() {
    auto work = std::make_shared<ExternalProbe>("after");
    work->onStart = [](ExternalTurn& turn) { turn.complete(okStatus(), turn.arrivalPs()); };
    ASSERT_TRUE(stream.enqueue(work).ok());
    const Status status = stream.synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Device device;
  Stream stream;
};

TEST_P(Throwing, AStartIsTheFailureOfItsWork) {
  for (bool keeps : {true, false})
    for (bool inEnqueue : {true, false}) {
      auto work = std::make_shared<ExternalProbe>("exchange");
      std::shared_ptr<ExternalTurn> kept;
      work->inEnqueue = inEnqueue;
      work->onStartShared = [&](std::shared_ptr<ExternalTurn> turn) {
        if (keeps) kept = std::move(turn);
        boom();
      };
      ASSERT_TRUE(stream.enqueue(work).ok());
      const Status status = stream.synchronize();
      EXPECT_EQ(status.code(), StatusCode::kUnknown);
      EXPECT_THAT(status.message(), HasSubstr("ExternalWork::start has thrown: boom"));
      EXPECT_THAT(status.message(), HasSubstr("exchange"));
      if (kept) kept->complete(okStatus(), 0);  // Too late.
      expectUsable();
    }
}

TEST_P(Throwing, AStartThatHasCompletedChangesNothing) {
  auto work = std::make_shared<ExternalProbe>("exchange");
  work->onStart = [](ExternalTurn& turn) {
    turn.complete(okStatus(), turn.arrivalPs());
    throw 7;
  };
  ASSERT_TRUE(stream.enqueue(work).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST_P(Throwing, WorkThatIsSkippedCancelledOrHelpedIsLogged) {
  Logged log;
  auto first = std::make_shared<ExternalProbe>("first"), second = std::make_shared<ExternalProbe>("second");
  first->onHelp = [](std::chrono::steady_clock::time_point) { boom(); };
  first->onCancel = [](const Status&) { boom(); };
  second->onSkipped = boom;
  ASSERT_TRUE(stream.enqueue(first).ok());
  ASSERT_TRUE(stream.enqueue(second).ok());
  ASSERT_TRUE(first->awaitStart());
  EXPECT_EQ(stream.synchronize(50).code(), StatusCode::kDeadlineExceeded);
  device.reset(50).ignore();
  first->complete(okStatus(), 0);
  EXPECT_TRUE(device.reset().ok());
  EXPECT_THAT(log.text(), HasSubstr("ExternalWork::cancel has thrown: boom"));
  EXPECT_THAT(log.text(), HasSubstr("ExternalWork::skipped has thrown: boom"));
  EXPECT_EQ(first->helps > 0, log.text().find("ExternalWork::help has thrown: boom") != std::string::npos);
  expectUsable();
}

/// Throws from the one function that it is told to.
class Picky final : public ExternalWork {
 public:
  explicit Picky(std::string which) : which_(std::move(which)) {}
  std::string name() const override { return at("name"), "picky"; }
  ExternalPorts ports() const override { return at("ports"), ExternalPorts(); }
  bool extendable() const override { return at("extendable"), which_ == "sealed"; }
  bool startsInEnqueue() const override { return at("startsInEnqueue"), false; }
  void behind(const ExternalWork&, int64_t) override { at("behind"); }
  uint64_t progress() const override { return at("progress"), 0; }
  void sealed() override {
    endWhenBoth(nullptr, true);
    at("sealed");
  }
  void start(std::shared_ptr<ExternalTurn> turn) override { endWhenBoth(std::move(turn), which_ != "sealed"); }
  void skipped(const Status&) override {}
  void cancel(const Status&) override {}

 private:
  void at(const char* function) const {
    if (which_ == function) boom();
  }
  /// Complete when it has its turn and is sealed, in any order.
  void endWhenBoth(std::shared_ptr<ExternalTurn> turn, bool seals) {
    {
      std::lock_guard lock(mutex_);
      isSealed_ |= seals;
      if (turn) turn_ = std::move(turn);
      turn = isSealed_ ? std::exchange(turn_, nullptr) : nullptr;
    }
    if (turn) turn->complete(okStatus(), turn->arrivalPs());
  }
  const std::string which_;
  std::mutex mutex_;
  bool isSealed_ = false;
  std::shared_ptr<ExternalTurn> turn_;
};

TEST_P(Throwing, WhatEnqueueAsksIsAnErrorOfTheCall) {
  for (const char* which : {"name", "ports", "extendable", "startsInEnqueue"}) {
    const Status status = stream.enqueue(std::make_shared<Picky>(which));
    EXPECT_EQ(status.code(), StatusCode::kUnknown) << which;
    EXPECT_THAT(status.message(), HasSubstr(std::string("ExternalWork::") + which + " has thrown: boom"));
    expectUsable();
  }
}

TEST_P(Throwing, WhatWorkIsToldIsLoggedAndItGoesOn) {
  Logged log;
  auto before = std::make_shared<ExternalProbe>("before");
  ASSERT_TRUE(stream.enqueue(before).ok());
  ASSERT_TRUE(stream.enqueue(std::make_shared<Picky>("behind")).ok());
  ASSERT_TRUE(before->awaitStart());
  before->complete(okStatus(), 0);
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_THAT(log.text(), HasSubstr("ExternalWork::behind has thrown: boom"));
  ASSERT_TRUE(stream.enqueue(std::make_shared<Picky>("sealed")).ok());
  EXPECT_TRUE(stream.synchronize().ok());
  EXPECT_THAT(log.text(), HasSubstr("ExternalWork::sealed has thrown: boom"));
}

class PickyRepeated final : public RepeatableWork {
 public:
  std::string which;
  std::string name() const override { return at("name"), "again"; }
  Status prepare(const Stream&) override { return at("prepare"), okStatus(); }
  Status enqueue(const Stream&, const std::vector<WorkMemory>&) override { return at("enqueue"), okStatus(); }
  std::vector<WorkMemory> memory() const override { return at("memory"), std::vector<WorkMemory>(); }

 private:
  void at(const char* function) const {
    if (which == function) boom();
  }
};

TEST_P(Throwing, RepeatableWorkIsAnErrorOfTheCallTheCaptureOrTheReplay) {
  const auto expectThrown = [](const Status& status, const std::string& which) {
    EXPECT_EQ(status.code(), StatusCode::kUnknown) << which;
    EXPECT_THAT(status.message(), HasSubstr("RepeatableWork::" + which + " has thrown: boom"));
  };
  auto work = std::make_shared<PickyRepeated>();
  for (const char* which : {"memory", "enqueue"}) {
    work->which = which;
    expectThrown(stream.enqueueRepeatable(work), which);
  }
  for (const char* which : {"prepare", "memory", "name"}) {
    CaptureSession session = CaptureSession::begin(stream).value();
    work->which = which;
    expectThrown(stream.enqueueRepeatable(work), which);
    EXPECT_FALSE(session.end().ok());
  }
  work->which.clear();
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(stream.enqueueRepeatable(work).ok());
  GraphInstance instance = session.end().value().instantiate().value();
  work->which = "enqueue";
  expectThrown(instance.replay(stream), "enqueue");
  work->which.clear();
  EXPECT_TRUE(instance.replay(stream).ok());
  expectUsable();
}

TEST_P(Throwing, MemoryHooksAreLoggedAndTheCallGoesOn) {
  Logged log;
  MemoryHooks hooks;
  hooks.allocated = [](uint64_t, int64_t, const std::string&) { boom(); };
  hooks.freed = [](uint64_t, int64_t) { boom(); };
  hooks.outOfMemory = [](int64_t) -> bool { boom(); };
  ASSERT_TRUE(device.setMemoryHooks(hooks).ok());
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(device.allocate(kMiB).ok()) << "what a hook throws loses no memory";
  EXPECT_EQ(device.allocate(128 * kMiB).status().code(), StatusCode::kResourceExhausted);
  for (const char* hook : {"allocated", "freed", "outOfMemory"})
    EXPECT_THAT(log.text(), HasSubstr(std::string("MemoryHooks::") + hook + " has thrown: boom"));
  ASSERT_TRUE(device.setMemoryHooks({}).ok());
  EXPECT_EQ(device.memoryInfo().allocations, 0);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Throwing, ::testing::Values("sim", "null"),
                         [](const auto& info) { return info.param; });

TEST(ThrowingFunction, OfAnEagerCacheIsAnErrorOfAllWhoWait) {
  EagerCache cache;
  const EagerKey key = EagerKey::Builder().add(1).build();
  Status status = cache.recipe(key, []() -> StatusOr<Recipe> { boom(); }).status();
  EXPECT_EQ(status.code(), StatusCode::kUnknown);
  EXPECT_THAT(status.message(), HasSubstr("the compile function has thrown: boom"));
  status = cache.recipe(key, []() -> StatusOr<Recipe> { throw 7; }).status();
  EXPECT_THAT(status.message(), HasSubstr("something that is no std::exception"));
  status = cache.recipe(key, []() -> StatusOr<Recipe> { throw std::bad_alloc(); }).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

TEST(ThrowingFunction, ThatReleasesATensorIsLogged) {
  Logged log;
  int32_t data = 0;
  EXPECT_TRUE(SharedTensor::ofHost(&data, ElementType::kI32, {1}, boom).ok());
  EXPECT_THAT(log.text(), HasSubstr("the release function of SharedTensor::ofHost has thrown: boom"));
}

}  // namespace
}  // namespace hpu
