// SPDX-License-Identifier: Apache-2.0
// Calls that would wait for themselves: from functions and hooks of the program that the runtime calls, they fail at
// once and say which call it was; a device whose last handle goes there is closed elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ExternalProbe.h"
#include "SmallDevice.h"
#include "TinyProgram.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using testing::ExternalProbe;
using ::testing::HasSubstr;
using testing::openSmall;

constexpr int64_t kMiB = 1 << 20;
constexpr int kLongMs = 60000;

/// Opens the device as another type, which needs the one before to be closed.
void expectCloses() {
  DeviceOptions options;
  options.index = 0;
  options.target = Target::kGaudi3;
  for (int i = 0;; ++i) {
    auto again = Device::open(options);
    if (again.ok()) return;
    ASSERT_LT(i, 1000) << again.status().message();
    std::this_thread::sleep_for(milliseconds(10));
  }
}

class CallbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(held.enqueue(never).ok());
    ASSERT_TRUE(held.record(notDone).ok());
    ASSERT_TRUE(never->awaitStart());
  }
  void TearDown() override {
    if (!device.valid()) return;
    EXPECT_TRUE(device.setHealthHook({}).ok());
    EXPECT_TRUE(device.setMemoryHooks({}).ok());
    if (auto turn = never->turn()) turn->complete(okStatus(), 0);
  }
  /// To be called where nothing may wait: each call fails at once.
  void tryAll() {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::pair<std::string, Status>> results;
    results.emplace_back("Device::reset", device.reset());
    results.emplace_back("Device::synchronize", device.synchronize());
    results.emplace_back("Stream::synchronize", held.synchronize());
    results.emplace_back("Event::synchronize", notDone.synchronize());
    // What is done is not waited for.
    results.emplace_back("", Stream::create(device).value().synchronize());
    results.emplace_back("", Event().synchronize());
    std::lock_guard lock(mutex);
    took = std::chrono::steady_clock::now() - start;
    refused = std::move(results);
    ++tries;
  }
  void expectRefused(const std::string& where) {
    const auto until = std::chrono::steady_clock::now() + seconds(60);
    while (tries == 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
    std::lock_guard lock(mutex);
    ASSERT_GE(tries, 1);
    EXPECT_LT(took, seconds(20));
    ASSERT_EQ(refused.size(), 6u);
    for (const auto& [call, status] : refused) {
      if (call.empty()) {
        EXPECT_TRUE(status.ok()) << status.message();
        continue;
      }
      EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << call;
      EXPECT_THAT(status.message(), AllOf(HasSubstr(call), HasSubstr(where), HasSubstr("thread of the program's own")));
    }
    tries = 0;
  }

  Device device = openSmall();
  Stream stream = Stream::create(device, {"main"}).value(), held = Stream::create(device, {"held"}).value();
  Event notDone;
  std::shared_ptr<ExternalProbe> never = std::make_shared<ExternalProbe>("never");
  std::mutex mutex;
  std::chrono::steady_clock::duration took{};
  std::vector<std::pair<std::string, Status>> refused;
  std::atomic<int> tries{0};
};

TEST_F(CallbackTest, FunctionsOfStreams) {
  const std::string where = "inside a function that a stream calls";
  ASSERT_TRUE(stream
                  .callHost([&] {
                    tryAll();
                    return okStatus();
                  })
                  .ok());
  expectRefused(where);
  ASSERT_TRUE(stream.onDone([&](const Status&) { tryAll(); }).ok());
  expectRefused(where);
  Event event;
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(event.onDone([&](const Status&) { tryAll(); }).ok());
  expectRefused(where);
  EXPECT_TRUE(stream.synchronize(kLongMs).ok());
}

TEST_F(CallbackTest, TheEndOfWhatAFunctionHasKept) {
  auto last = std::shared_ptr<int>(new int(0), [&](const int* number) {
    tryAll();
    delete number;
  });
  ASSERT_TRUE(stream.onDone([last](const Status&) {}).ok());
  last.reset();
  expectRefused("inside a function that a stream calls");
}

TEST_F(CallbackTest, FunctionsOfEventsOfOtherProcesses) {
  Event shared = Event::create({.shared = true}).value();
  Event opened = Event::open(shared.handle().value()).value(), still = opened;
  ASSERT_TRUE(stream.record(shared).ok());
  Status ofOpened;
  std::promise<void> gate;
  ASSERT_TRUE(opened
                  .onDone([&](const Status&) {
                    gate.get_future().wait();
                    ofOpened = opened.synchronize();
                    tryAll();
                  })
                  .ok());
  ASSERT_TRUE(held.record(shared).ok());  // Is not done.
  gate.set_value();
  expectRefused("inside a function that a stream calls");
  EXPECT_EQ(ofOpened.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ofOpened.message(), HasSubstr("Event::synchronize"));
}

TEST_F(CallbackTest, HealthHooks) {
  const std::string where = "inside a health hook";
  ASSERT_TRUE(device.setHealthHook([&](const HealthEvent&) { tryAll(); }).ok());
  ASSERT_TRUE(stream.callHost([] { return dataLoss("torn"); }).ok());  // On a thread of the runtime.
  expectRefused(where);
  EXPECT_EQ(stream.synchronize(kLongMs).code(), StatusCode::kDataLoss);
  EXPECT_FALSE(device.allocate(128 * kMiB).ok());  // On this one.
  expectRefused(where);
}

TEST_F(CallbackTest, ExternalWork) {
  const std::string where = "inside what a device's work calls";
  auto work = std::make_shared<ExternalProbe>();
  work->onStart = [&](ExternalTurn& turn) {
    tryAll();
    turn.complete(okStatus(), 0);
  };
  ASSERT_TRUE(stream.enqueue(work).ok());
  expectRefused(where);
  EXPECT_TRUE(stream.synchronize(kLongMs).ok());

  auto helped = std::make_shared<ExternalProbe>();
  helped->onHelp = [&](std::chrono::steady_clock::time_point) {
    tryAll();
    helped->complete(okStatus(), 0);
  };
  ASSERT_TRUE(stream.enqueue(helped).ok());
  ASSERT_TRUE(helped->awaitStart());
  EXPECT_TRUE(stream.synchronize(kLongMs).ok());  // Lends this thread.
  expectRefused(where);

  auto skipped = std::make_shared<ExternalProbe>();
  skipped->onSkipped = [&] { tryAll(); };
  ASSERT_TRUE(stream.callHost([] { return dataLoss("torn"); }).ok());
  ASSERT_TRUE(stream.enqueue(skipped).ok());
  EXPECT_EQ(stream.synchronize(kLongMs).code(), StatusCode::kDataLoss);
  expectRefused(where);

  auto cancelled = std::make_shared<ExternalProbe>();
  cancelled->onCancel = [&](const Status& why) {
    tryAll();
    cancelled->complete(why, 0);
  };
  ASSERT_TRUE(stream.enqueue(cancelled).ok());
  ASSERT_TRUE(cancelled->awaitStart());
  never->onCancel = [&](const Status& why) { never->complete(why, 0); };
  EXPECT_TRUE(device.reset(kLongMs).ok());
  std::lock_guard lock(mutex);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(refused.front().second.code(), StatusCode::kFailedPrecondition);
}

TEST_F(CallbackTest, MemoryThatIsFreedAtTheEndOfWork) {
  ASSERT_TRUE(
      device.setMemoryHooks({.allocated = {}, .freed = [&](uint64_t, int64_t) { tryAll(); }, .outOfMemory = {}}).ok());
  Buffer buffer = device.allocate(kMiB).value();
  auto gate = std::make_shared<ExternalProbe>("gate");
  ASSERT_TRUE(stream.enqueue(gate).ok());
  ASSERT_TRUE(stream.fill(buffer, 1, kMiB).ok());
  buffer = Buffer();
  EXPECT_EQ(tries, 0);
  ASSERT_TRUE(gate->awaitStart());
  gate->complete(okStatus(), 0);
  EXPECT_TRUE(stream.synchronize(kLongMs).ok());
  expectRefused("inside what a device's work calls");
}

TEST_F(CallbackTest, AnAllocationThereTakesWhatIsFreeAndDoesNotWait) {
  // The hook's thread is inside of the only work that goes on, and 4 MiB are free.
  Buffer large = device.allocate(40 * kMiB).value(), more = device.allocate(20 * kMiB).value();
  std::promise<StatusCode> small, big;
  std::atomic<bool> first{true};
  ASSERT_TRUE(device
                  .setMemoryHooks({.allocated = {},
                                   .freed =
                                       [&](uint64_t, int64_t) {
                                         if (!first.exchange(false)) return;
                                         small.set_value(device.allocate(kMiB).status().code());
                                         big.set_value(device.allocate(50 * kMiB).status().code());
                                       },
                                   .outOfMemory = {}})
                  .ok());
  auto gate = std::make_shared<ExternalProbe>("gate");
  ASSERT_TRUE(stream.enqueue(gate).ok());
  ASSERT_TRUE(stream.fill(large, 1, 40 * kMiB).ok());
  large = Buffer();
  ASSERT_TRUE(gate->awaitStart());
  const auto start = std::chrono::steady_clock::now();
  gate->complete(okStatus(), 0);
  EXPECT_EQ(small.get_future().get(), StatusCode::kOk);
  EXPECT_EQ(big.get_future().get(), StatusCode::kResourceExhausted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  EXPECT_TRUE(stream.synchronize(kLongMs).ok());
  EXPECT_TRUE(device.setMemoryHooks({}).ok());
}

TEST_F(CallbackTest, LoadingAnExecutableWaitsForItsConstants) {
  const Recipe recipe = testing::toRecipe(testing::constantProgram({1, 2, 3}));
  Status loaded;
  ASSERT_TRUE(stream
                  .callHost([&] {
                    for (int i = 0; i < 1000 && loaded.ok(); ++i) loaded = Executable::load(device, recipe).status();
                    return okStatus();
                  })
                  .ok());
  ASSERT_TRUE(stream.synchronize(kLongMs).ok());
  EXPECT_EQ(loaded.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(loaded.message(), HasSubstr("Executable::load"));
}

TEST_F(CallbackTest, SynchronizeOfADeviceWithAStreamThatIsGone) {
  std::optional<Stream> gone = Stream::create(device, {"gone"}).value();
  auto work = std::make_shared<ExternalProbe>("of a stream that is gone");
  ASSERT_TRUE(gone->enqueue(work).ok());
  gone.reset();
  never->complete(okStatus(), 0);
  ASSERT_TRUE(held.synchronize(kLongMs).ok());
  std::promise<Status> told;
  ASSERT_TRUE(held.onDone([&](const Status&) {
                    while (!held.query().value()) std::this_thread::sleep_for(milliseconds(1));  // This is over.
                    told.set_value(device.synchronize());
                  })
                  .ok());
  auto answer = told.get_future();
  const bool atOnce = answer.wait_for(seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(atOnce);
  ASSERT_TRUE(work->awaitStart());
  work->complete(okStatus(), 0);
  const Status status = answer.get();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("Device::synchronize"));
}

/// What a program has of a device.
struct Handles {
  Device device = openSmall();
  Stream stream = Stream::create(device, {"last"}).value();
};

TEST(CallbackClose, AFunctionMayLetGoOfItsDeviceWhileTheStreamWaitsForIt) {
  auto handles = std::make_shared<std::optional<Handles>>(std::in_place);
  std::promise<bool> ended;
  std::promise<void> go;
  Stream& stream = (*handles)->stream;
  ASSERT_TRUE(stream
                  .callHost([&, handles] {
                    go.get_future().wait();
                    const auto start = std::chrono::steady_clock::now();
                    handles->reset();  // Closes the device, whose work this is.
                    ended.set_value(std::chrono::steady_clock::now() - start < seconds(20));
                    return okStatus();
                  })
                  .ok());
  // More of it, that runs on the same thread.
  ASSERT_TRUE(stream.callHost([] { return okStatus(); }).ok());
  std::promise<Status> told;
  ASSERT_TRUE(stream.onDone([&](const Status& status) { told.set_value(status); }).ok());
  go.set_value();
  EXPECT_TRUE(ended.get_future().get());
  EXPECT_TRUE(told.get_future().get().ok()) << "what was enqueued is done before the device closes";
  expectCloses();
}

TEST(CallbackClose, ADeviceThatCloseIsNotWaitedForByItsOwnFunctions) {
  auto handles = std::make_shared<std::optional<Handles>>(std::in_place);
  std::promise<Status> opened;
  std::promise<void> go;  // A stream must not end in a call of it.
  ASSERT_TRUE((*handles)
                  ->stream
                  .callHost([&, handles] {
                    go.get_future().wait();
                    handles->reset();
                    DeviceOptions options;
                    options.index = 0;
                    opened.set_value(Device::open(options).status());
                    return okStatus();
                  })
                  .ok());
  handles.reset();
  auto answer = opened.get_future();
  go.set_value();
  ASSERT_EQ(answer.wait_for(seconds(20)), std::future_status::ready);
  const Status status = answer.get();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << status.message();
  EXPECT_THAT(status.message(), HasSubstr("Device::open"));
  expectCloses();
}

TEST(CallbackClose, AHealthHookMayHoldTheLastHandle) {
  auto handles = std::make_shared<std::optional<Handles>>(std::in_place);
  std::promise<void> told;
  ASSERT_TRUE((*handles)
                  ->device
                  .setHealthHook([&, handles](const HealthEvent& event) {
                    if (event.kind != HealthEvent::Kind::kWorkFailed) return;
                    handles->reset();
                    told.set_value();
                  })
                  .ok());
  std::promise<void> go;  // A stream must not end in a call of it.
  ASSERT_TRUE((*handles)
                  ->stream
                  .callHost([&] {
                    go.get_future().wait();
                    return dataLoss("torn");
                  })
                  .ok());
  go.set_value();
  ASSERT_EQ(told.get_future().wait_for(seconds(60)), std::future_status::ready);
  handles.reset();
  expectCloses();
}

TEST(CallbackReset, OfADeviceWhoseStreamIsCapturedIsRefusedOnTheCapturingThread) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(1000).value();
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(stream.fill(buffer, 1, 1000).ok());
  const Status refused = device.reset();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("Device::reset cannot be captured"));
  const Status ended = session.end().status();
  EXPECT_EQ(ended.message(), refused.message());
  EXPECT_TRUE(device.reset(kLongMs).ok());
}

TEST(CallbackReset, OnAnotherThreadLeavesACaptureAsItIs) {
  Device device = openSmall();
  Stream stream = Stream::create(device).value();
  Buffer buffer = device.allocate(1000).value();
  std::vector<uint8_t> out(1000);
  CaptureSession session = CaptureSession::begin(stream).value();
  ASSERT_TRUE(stream.fill(buffer, 7, 1000).ok());
  std::thread([&] { EXPECT_TRUE(device.reset(kLongMs).ok()); }).join();
  ASSERT_TRUE(stream.copyToHost(out.data(), buffer, 1000).ok());
  CapturedGraph graph = session.end().value();
  EXPECT_EQ(graph.operations(), 2);
  ASSERT_TRUE(graph.instantiate().value().replay(stream).ok());
  ASSERT_TRUE(stream.synchronize(kLongMs).ok());
  EXPECT_EQ(out, std::vector<uint8_t>(1000, 7));
}

}  // namespace
}  // namespace hpu
