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

TEST(Exit, LeavesTheDeviceToExitHandlersOfTheProgram) {
  expectDone("UsesTheDeviceInAnExitHandler", 4);
}

}  // namespace
}  // namespace hpu
