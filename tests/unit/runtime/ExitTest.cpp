// SPDX-License-Identifier: Apache-2.0
// Programs that exit while streams have work in flight: each is a child process that runs one of the disabled tests.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "TinyProgram.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/executable.h"
#include "hpu/stream.h"

namespace hpu {
namespace {

constexpr int64_t kSide = 512;
constexpr int kLaunches = 40;
constexpr int kDone = 42;  // What a child that got as far as it was to exits with.

/// A stream in the middle of matrix products.
struct Busy {
  Device device;
  Stream stream;
  Executable executable;
  std::vector<Buffer> buffers;
  std::vector<float> result;

  explicit Busy(int64_t side = kSide, int launches = kLaunches) {
    DeviceOptions options;
    options.hbmBytes = 64 << 20;
    device = Device::open(options).value();
    stream = Stream::create(device).value();
    executable = Executable::load(device, testing::toRecipe(testing::copyThenMultiplyProgram(side))).value();
    for (int i = 0; i < 3; ++i) buffers.push_back(device.allocate(side * side * 4).value());
    // One in the first row and else zero: the product's first element is one.
    result.assign(static_cast<size_t>(side * side), 0.0f);
    result[0] = 1.0f;
    EXPECT_TRUE(stream.copyToDevice(buffers[0].address(), result.data(), side * side * 4).ok());
    for (int i = 0; i < launches; ++i)
      EXPECT_TRUE(executable.launch(stream, {buffers[0]}, {buffers[1], buffers[2]}).ok());
  }
};

void pauseAsAsked() {
  const char* text = std::getenv("HPU_TEST_EXIT_US");
  std::this_thread::sleep_for(std::chrono::microseconds(text ? std::atoi(text) : 0));
}

/// Never let go: as in a program whose handles are members of something that lives for ever.
Busy* gBusy = nullptr;

TEST(ExitChild, DISABLED_Exits) {
  gBusy = new Busy;
  pauseAsAsked();
  std::exit(kDone);
}

TEST(ExitChild, DISABLED_ExitsQuickly) {
  gBusy = new Busy;
  pauseAsAsked();
  std::quick_exit(kDone);
}

TEST(ExitChild, DISABLED_ExitsOnAThreadOfTheRuntime) {
  gBusy = new Busy(kSide, 2);
  ASSERT_TRUE(gBusy->stream.callHost([]() -> Status { std::exit(kDone); }).ok());
  for (int i = 0; i < kLaunches; ++i)
    ASSERT_TRUE(
        gBusy->executable.launch(gBusy->stream, {gBusy->buffers[0]}, {gBusy->buffers[1], gBusy->buffers[2]}).ok());
  for (;;) ::pause();
}

TEST(ExitChild, DISABLED_ExitsWhileAnotherThreadWaits) {
  gBusy = new Busy;
  std::thread([] { (void)gBusy->stream.synchronize(); }).detach();
  pauseAsAsked();
  std::exit(kDone);
}

/// As the destructor of a static object does that was made before the first device.
void useTheDevice() {
  Busy& busy = *gBusy;
  bool good = busy.stream.copyToHost(busy.result.data(), busy.buffers[2].address(), kSide * kSide * 4).ok();
  Event event;
  good = good && busy.stream.record(event).ok();
  while (good && !event.query().value()) std::this_thread::yield();
  // And anew.
  good = good && busy.executable.launch(busy.stream, {busy.buffers[0]}, {busy.buffers[1], busy.buffers[2]}).ok();
  Stream other = Stream::create(busy.device).value();
  good = good && busy.stream.record(event).ok() && other.wait(event).ok() && other.synchronize().ok();
  good = good && busy.stream.synchronize().ok() && busy.result[0] == 1.0f && busy.result[1] == 0.0f;
  delete gBusy;
  ::_exit(good ? kDone : 1);
}

TEST(ExitChild, DISABLED_UsesTheDeviceInAnExitHandler) {
  ASSERT_EQ(std::atexit(useTheDevice), 0);
  gBusy = new Busy;
  pauseAsAsked();
  std::exit(0);
}

std::atomic<int> gCalls{0};

/// While the rest of the exit goes on, nothing of the program may run any more that it does not wait for.
void functionsHaveStopped() {
  const int before = gCalls;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  bool good = before > 0 && gCalls == before;
  // What an exit handler waits for is called, on its own thread.
  const std::thread::id self = std::this_thread::get_id();
  std::thread::id caller;
  good = good && gBusy->stream
                     .callHost([&] {
                       caller = std::this_thread::get_id();
                       return okStatus();
                     })
                     .ok();
  good = good && gBusy->stream.synchronize(60000).ok() && caller == self;
  ::_exit(good ? kDone : 1);
}

void callOften(const std::function<bool(std::function<void(const Status&)>)>& onDone) {
  for (int i = 0; i < 2000; ++i)
    ASSERT_TRUE(onDone([](const Status&) {
      ++gCalls;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }));
  while (gCalls < 2) std::this_thread::yield();
}

TEST(ExitChild, DISABLED_ExitsWhileFunctionsAreCalled) {
  ASSERT_EQ(std::atexit(functionsHaveStopped), 0);
  gBusy = new Busy(kSide, 0);
  callOften([](auto told) { return gBusy->stream.onDone(std::move(told)).ok(); });
  std::exit(0);
}

TEST(ExitChild, DISABLED_ExitsWhileFunctionsOfOpenedEventsAreCalled) {
  ASSERT_EQ(std::atexit(functionsHaveStopped), 0);
  gBusy = new Busy(kSide, 0);
  auto* event = new Event(Event::create({.shared = true}).value());
  auto* opened = new Event(Event::open(event->handle().value()).value());
  ASSERT_TRUE(gBusy->stream.record(*event).ok());
  callOften([&](auto told) { return opened->onDone(std::move(told)).ok(); });
  std::exit(0);
}

/// Waits for an event that is recorded as opened and done at its turn only.
void waitsForAnOpenedEvent() {
  Stream waiter = Stream::create(gBusy->device).value();
  static Event event = Event::create({.shared = true}).value();
  Event opened = Event::open(event.handle().value()).value();
  bool good = gBusy->stream.callHost([] { return okStatus(); }).ok() && gBusy->stream.record(event).ok();
  int told = 0;
  good = good && opened.onDone([&](const Status& status) { told = status.ok() ? 1 : -1; }).ok();
  good = good && waiter.wait(opened).ok() && waiter.synchronize(60000).ok();
  // Functions of events come when something is waited for.
  for (int i = 0; good && told == 0 && i < 100; ++i)
    good = waiter.callHost([] { return okStatus(); }).ok() && waiter.synchronize(60000).ok();
  ::_exit(good && told == 1 ? kDone : 1);
}

TEST(ExitChild, DISABLED_WaitsForAnOpenedEventInAnExitHandler) {
  ASSERT_EQ(std::atexit(waitsForAnOpenedEvent), 0);
  gBusy = new Busy(kSide, 0);
  std::exit(0);
}

TEST(ExitChild, DISABLED_ForksAChildThatExits) {
  gBusy = new Busy;
  const pid_t child = ::fork();
  if (child == 0) std::exit(kDone);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kDone) << status;
  EXPECT_TRUE(gBusy->stream.synchronize().ok());
  std::exit(::testing::Test::HasFailure() ? 1 : kDone);
}

/// The wait status of a child that runs the test.
int statusOf(const std::string& test, int us) {
  const std::string filter = "--gtest_filter=ExitChild.DISABLED_" + test, pause = std::to_string(us);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("HPU_TEST_EXIT_US", pause.c_str(), 1);
    // What a program leaves that exits in the middle of something, or whose parent was, looks like leaks.
    const char* options = std::getenv("ASAN_OPTIONS");
    ::setenv("ASAN_OPTIONS", (std::string(options ? options : "") + " detect_leaks=0").c_str(), 1);
    if (int null = ::open("/dev/null", O_WRONLY); null >= 0) ::dup2(null, STDOUT_FILENO);
    ::execl("/proc/self/exe", "exit_child", filter.c_str(), "--gtest_also_run_disabled_tests", nullptr);
    ::_exit(99);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

void expectDone(const std::string& test, int runs) {
  for (int run = 0; run < runs; ++run) {
    const int us = run * 977 % 12000;
    const int status = statusOf(test, us);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kDone)
        << test << ", " << us << " us after its launches: "
        << (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                : "exit code " + std::to_string(WEXITSTATUS(status)));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Exit, WithWorkInFlightIsClean) {
  const char* runs = std::getenv("HPU_TEST_EXIT_RUNS");
  expectDone("Exits", runs ? std::atoi(runs) : 24);
}

TEST(Exit, OfAnyKindWithWorkInFlightIsClean) {
  expectDone("ExitsQuickly", 2);
  expectDone("ExitsOnAThreadOfTheRuntime", 4);
  expectDone("ExitsWhileAnotherThreadWaits", 4);
  expectDone("ForksAChildThatExits", 2);
}

TEST(Exit, CallsNoMoreFunctions) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "ThreadSanitizer takes the thread of functions, which has ended and is not joined at exit, for a leak";
#endif
  expectDone("ExitsWhileFunctionsAreCalled", 2);
  expectDone("ExitsWhileFunctionsOfOpenedEventsAreCalled", 2);
  expectDone("WaitsForAnOpenedEventInAnExitHandler", 2);
}

TEST(Exit, LeavesTheDeviceToExitHandlersOfTheProgram) {
  expectDone("UsesTheDeviceInAnExitHandler", 4);
}

}  // namespace
}  // namespace hpu
