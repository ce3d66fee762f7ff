// SPDX-License-Identifier: Apache-2.0
// Events without a device time, and events that processes share. The other process is this program, started anew
// (OtherProcess), which does as it is told over a socket.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "Gate.h"
#include "SmallDevice.h"
#include "base/Crc32c.h"
#include "hpu/capture.h"
#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

extern char** environ;

namespace hpu {
namespace {

using testing::Gate;
using ::testing::HasSubstr;
using testing::openSmall;

constexpr int kSocketOfOther = 9;
constexpr int kLongMs = 120000;  // Far beyond what a loaded machine needs.

std::string toHex(const EventHandle& handle) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : handle.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

EventHandle fromHex(const std::string& text) {
  EventHandle handle;
  for (size_t i = 0; i < sizeof handle.bytes && 2 * i + 2 <= text.size(); ++i)
    handle.bytes[i] = static_cast<uint8_t>(std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
  return handle;
}

std::string codeOf(const Status& status) {
  return std::string(statusCodeName(status.code())) + " " + status.message();
}

/// One line; empty when the other end is gone or did not answer in time.
std::string readLine(int fd) {
  std::string line;
  while (true) {
    pollfd event{fd, POLLIN, 0};
    if (::poll(&event, 1, kLongMs) <= 0) return {};
    char c = 0;
    if (::read(fd, &c, 1) != 1) return {};
    if (c == '\n') return line;
    line += c;
  }
}

void writeLine(int fd, std::string line) {
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  ASSERT_EQ(::send(fd, line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
}

class OtherProcess {
 public:
  OtherProcess() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kSocketOfOther);
    const char* arguments[] = {"/proc/self/exe", "--gtest_filter=SharedEventOther.DISABLED_DoesAsItIsTold",
                               "--gtest_also_run_disabled_tests", nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, const_cast<char**>(arguments), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    EXPECT_EQ(readLine(socket_), "ready");
  }
  ~OtherProcess() {
    ::close(socket_);
    if (pid_ > 0) kill();
  }
  std::string ask(const std::string& command) {
    writeLine(socket_, command);
    return readLine(socket_);
  }
  Event open(const std::string& command) {
    auto event = Event::open(fromHex(ask(command)));
    EXPECT_TRUE(event.ok()) << event.status().toString();
    return event.ok() ? *event : Event();
  }
  void kill(bool reap = true) {
    ::kill(pid_, SIGKILL);
    if (!reap) return;
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

// Not a test: what OtherProcess runs.
TEST(SharedEventOther, DISABLED_DoesAsItIsTold) {
  ASSERT_NE(::fcntl(kSocketOfOther, F_GETFD), -1) << "this is a part of other tests";
  writeLine(kSocketOfOther, "ready");
  Device device = openSmall(6);
  Stream stream = Stream::create(device).value();
  Event made, opened;
  Gate gate;
  std::promise<std::string> told;
  for (std::string line = readLine(kSocketOfOther); !line.empty(); line = readLine(kSocketOfOther)) {
    std::string answer = "?";
    if (line == "make") {
      made = Event::create({.shared = true}).value();
      answer = toHex(made.handle().value());
    } else if (line == "hold") {
      gate.hold(stream);
      answer = codeOf(stream.record(made));
    } else if (line == "hold and fail") {
      gate.hold(stream, dataLoss("what the other process found"));
      answer = codeOf(stream.record(made));
    } else if (line == "record") {
      answer = codeOf(stream.record(made));
    } else if (line == "release") {
      gate.release();
      answer = codeOf(made.synchronize(kLongMs));
    } else if (line == "let go") {
      made = Event();
      answer = "OK";
    } else if (line.rfind("open ", 0) == 0) {
      auto event = Event::open(fromHex(line.substr(5)));
      if (event.ok()) opened = *event;
      answer = codeOf(event.status());
    } else if (line == "query") {
      auto done = opened.query();
      answer = done.ok() ? (*done ? "true" : "false") : codeOf(done.status());
    } else if (line == "synchronize") {
      answer = codeOf(opened.synchronize(kLongMs));
    } else if (line == "wait") {
      answer = codeOf(stream.wait(opened));
    } else if (line == "stream") {
      auto done = stream.query();
      answer = done.ok() ? (*done ? "true" : "false") : codeOf(done.status());
    } else if (line == "finish") {
      answer = codeOf(stream.synchronize(kLongMs));
    } else if (line == "listen") {
      answer = codeOf(opened.onDone([&](const Status& status) { told.set_value(codeOf(status)); }));
    } else if (line == "told") {
      answer = told.get_future().get();
    }
    writeLine(kSocketOfOther, answer);
  }
}

Event makeShared() {
  return Event::create({.shared = true}).value();
}

TEST(UntimedEvent, OrdersStreamsAndTellsOfItsEndButHasNoTime) {
  Device device = openSmall(0);
  Stream a = Stream::create(device).value(), b = Stream::create(device).value();
  Event untimed = Event::create({.timed = false}).value(), timed = Event::create({}).value();
  EXPECT_TRUE(untimed.query().value());
  EXPECT_TRUE(untimed.synchronize().ok());
  Gate gate;
  gate.hold(a);
  Buffer buffer = device.allocate(1000).value();
  std::vector<uint8_t> out(1000);
  ASSERT_TRUE(a.fill(buffer, 7, 1000).ok());
  ASSERT_TRUE(a.record(untimed).ok());
  ASSERT_TRUE(a.record(timed).ok());
  ASSERT_TRUE(b.wait(untimed).ok());
  ASSERT_TRUE(b.copyToHost(out.data(), buffer, 1000).ok());
  EXPECT_FALSE(untimed.query().value());
  gate.release();
  EXPECT_TRUE(b.synchronize().ok());
  EXPECT_EQ(out, std::vector<uint8_t>(1000, 7));
  EXPECT_TRUE(untimed.query().value());
  ASSERT_TRUE(timed.synchronize().ok());
  EXPECT_TRUE(timed.deviceTimeNs().ok());
  for (const Status& status : {untimed.deviceTimeNs().status(), untimed.elapsedNsSince(timed).status(),
                               timed.elapsedNsSince(untimed).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("EventOptions::timed"));
  }
  EXPECT_EQ(untimed.handle().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(untimed.handle().status().message(), HasSubstr("EventOptions::shared"));
}

TEST(UntimedEvent, KeepsTheFailureBeforeIt) {
  Device device = openSmall(0);
  Stream stream = Stream::create(device).value();
  Event untimed = Event::create({.timed = false}).value();
  ASSERT_TRUE(stream.callHost([] { return dataLoss("the cause"); }).ok());
  ASSERT_TRUE(stream.record(untimed).ok());
  EXPECT_EQ(untimed.synchronize().code(), StatusCode::kDataLoss);
  EXPECT_EQ(untimed.query().status().code(), StatusCode::kDataLoss);
}

TEST(UntimedEvent, MayBeRecordedInACapture) {
  Device device = openSmall(0);
  Stream a = Stream::create(device).value(), b = Stream::create(device).value();
  Buffer buffer = device.allocate(1000).value();
  Event fork = Event::create({.timed = false}).value(), join = Event::create({.timed = false}).value();
  CaptureSession session = CaptureSession::begin(a).value();
  ASSERT_TRUE(a.record(fork).ok());
  ASSERT_TRUE(b.wait(fork).ok());
  ASSERT_TRUE(b.fill(buffer, 1, 1000).ok());
  ASSERT_TRUE(b.record(join).ok());
  ASSERT_TRUE(a.wait(join).ok());
  EXPECT_TRUE(session.end().ok());
}

TEST(SharedEvent, OfAnotherProcessIsWaitedForByAThread) {
  OtherProcess other;
  Event event = other.open("make");
  EXPECT_TRUE(event.query().value()) << "nothing was recorded";
  EXPECT_TRUE(event.synchronize().ok());
  EXPECT_TRUE(event.isDone());
  ASSERT_THAT(other.ask("hold"), HasSubstr("OK"));
  EXPECT_FALSE(event.query().value());
  EXPECT_FALSE(event.isDone());
  const Status late = event.synchronize(0);
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  std::future<Status> waited = std::async(std::launch::async, [&] { return event.synchronize(kLongMs); });
  EXPECT_THAT(other.ask("release"), HasSubstr("OK"));
  EXPECT_TRUE(waited.get().ok());
  EXPECT_TRUE(event.query().value());
}

TEST(SharedEvent, OfAnotherProcessIsWaitedForByStreamsAndFunctions) {
  OtherProcess other;
  Event event = other.open("make");
  Device device = openSmall(0);
  Stream a = Stream::create(device).value(), b = Stream::create(device).value();
  Buffer buffer = device.allocate(1000).value();
  std::vector<uint8_t> out(1000, 9);
  ASSERT_THAT(other.ask("hold"), HasSubstr("OK"));
  std::promise<Status> told;
  ASSERT_TRUE(event.onDone([&](const Status& status) { told.set_value(status); }).ok());
  ASSERT_TRUE(a.wait(event).ok());
  ASSERT_TRUE(a.fill(buffer, 5, 1000).ok());
  ASSERT_TRUE(a.copyToHost(out.data(), buffer, 1000).ok());
  ASSERT_TRUE(b.waitInOrder(event).ok());
  EXPECT_FALSE(a.query().value());
  EXPECT_FALSE(b.query().value());
  EXPECT_THAT(other.ask("release"), HasSubstr("OK"));
  EXPECT_TRUE(a.synchronize(kLongMs).ok());
  EXPECT_TRUE(b.synchronize(kLongMs).ok());
  EXPECT_EQ(out, std::vector<uint8_t>(1000, 5));
  EXPECT_TRUE(told.get_future().get().ok());
  // What is over holds nobody.
  ASSERT_TRUE(a.wait(event).ok());
  EXPECT_TRUE(a.synchronize(kLongMs).ok());
}

TEST(SharedEvent, OfThisProcessIsWaitedForByAnother) {
  OtherProcess other;
  Device device = openSmall(0);
  Stream stream = Stream::create(device).value();
  Event event = makeShared();
  ASSERT_THAT(other.ask("open " + toHex(event.handle().value())), HasSubstr("OK"));
  EXPECT_EQ(other.ask("query"), "true");
  Gate gate;
  gate.hold(stream);
  ASSERT_TRUE(stream.record(event).ok());
  EXPECT_EQ(other.ask("query"), "false");
  ASSERT_THAT(other.ask("wait"), HasSubstr("OK"));
  ASSERT_THAT(other.ask("listen"), HasSubstr("OK"));
  EXPECT_EQ(other.ask("stream"), "false");
  gate.release();
  EXPECT_THAT(other.ask("finish"), HasSubstr("OK"));
  EXPECT_THAT(other.ask("told"), HasSubstr("OK"));
  EXPECT_THAT(other.ask("synchronize"), HasSubstr("OK"));
  EXPECT_TRUE(event.synchronize().ok());
  EXPECT_TRUE(event.query().value());
}

TEST(SharedEvent, CarriesTheFailureAndItsText) {
  OtherProcess other;
  Event event = other.open("make");
  Device device = openSmall(0);
  Stream a = Stream::create(device).value(), b = Stream::create(device).value(), c = Stream::create(device).value();
  ASSERT_THAT(other.ask("hold and fail"), HasSubstr("OK"));
  ASSERT_TRUE(a.wait(event).ok());
  ASSERT_TRUE(b.waitInOrder(event).ok());
  EXPECT_THAT(other.ask("release"), HasSubstr("DATA_LOSS"));
  for (const Status& status : {event.synchronize(kLongMs), event.query().status(), a.synchronize(kLongMs)}) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("what the other process found"));
  }
  EXPECT_TRUE(b.synchronize(kLongMs).ok());
  ASSERT_TRUE(c.wait(event).ok());
  EXPECT_EQ(c.synchronize(kLongMs).code(), StatusCode::kDataLoss);
  // Recorded again, it stands for something else.
  ASSERT_THAT(other.ask("record"), HasSubstr("OK"));
  EXPECT_TRUE(event.synchronize(kLongMs).ok());
}

TEST(SharedEvent, FailsWhenItsProcessEndsBeforeTheWork) {
  for (bool reaped : {true, false}) {
    OtherProcess other;
    Event event = other.open("make");
    Device device = openSmall(0);
    Stream a = Stream::create(device).value(), b = Stream::create(device).value();
    ASSERT_THAT(other.ask("hold"), HasSubstr("OK"));
    std::promise<Status> told;
    ASSERT_TRUE(event.onDone([&](const Status& status) { told.set_value(status); }).ok());
    ASSERT_TRUE(a.wait(event).ok());
    ASSERT_TRUE(b.waitInOrder(event).ok());
    std::future<Status> waited = std::async(std::launch::async, [&] { return event.synchronize(kLongMs); });
    other.kill(reaped);
    for (const Status& status :
         {waited.get(), a.synchronize(kLongMs), told.get_future().get(), event.synchronize(kLongMs)}) {
      EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
      EXPECT_THAT(status.message(), HasSubstr("has ended"));
    }
    EXPECT_TRUE(b.synchronize(kLongMs).ok());
    EXPECT_EQ(event.query().status().code(), StatusCode::kUnavailable);
  }
}

TEST(SharedEvent, StaysDoneWhenItsProcessEndsAfterTheWork) {
  OtherProcess other;
  const std::string handle = other.ask("make");
  Event event = Event::open(fromHex(handle)).value();
  ASSERT_THAT(other.ask("record"), HasSubstr("OK"));
  ASSERT_TRUE(event.synchronize(kLongMs).ok());
  other.kill();
  EXPECT_TRUE(event.query().value());
  EXPECT_TRUE(event.synchronize().ok());
  const Status gone = Event::open(fromHex(handle)).status();
  EXPECT_EQ(gone.code(), StatusCode::kNotFound);
  EXPECT_THAT(gone.message(), HasSubstr("has ended"));
}

TEST(SharedEvent, IsGoneWithItsLastHandle) {
  OtherProcess other;
  const std::string handle = other.ask("make");
  Event event = Event::open(fromHex(handle)).value();
  ASSERT_THAT(other.ask("let go"), HasSubstr("OK"));
  EXPECT_EQ(Event::open(fromHex(handle)).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(event.query().value());
  // With work in flight the end is still told.
  Event second = other.open("make");
  ASSERT_THAT(other.ask("hold"), HasSubstr("OK"));
  ASSERT_THAT(other.ask("let go"), HasSubstr("OK"));
  EXPECT_FALSE(second.query().value());
  EXPECT_THAT(other.ask("release"), HasSubstr("OK"));
  EXPECT_TRUE(second.synchronize(kLongMs).ok());
}

TEST(SharedEvent, IsCancelledByAReset) {
  Device device = openSmall(0), waiting = openSmall(1);
  Stream stream = Stream::create(device).value(), waiter = Stream::create(waiting).value();
  Event event = makeShared();
  Event opened = Event::open(event.handle().value()).value();
  Gate gate;
  gate.hold(stream);
  ASSERT_TRUE(stream.record(event).ok());
  // A reset of the device that waits ends its wait, and nothing else.
  ASSERT_TRUE(waiter.wait(opened).ok());
  Event behind;
  ASSERT_TRUE(waiter.record(behind).ok());
  ASSERT_TRUE(waiting.reset().ok());
  EXPECT_EQ(behind.synchronize(kLongMs).code(), StatusCode::kCancelled);
  EXPECT_FALSE(opened.query().value());
  // And one of the device that records fails those who wait.
  ASSERT_TRUE(waiter.wait(opened).ok());
  std::thread reset([&] { EXPECT_TRUE(device.reset().ok()); });
  EXPECT_EQ(opened.synchronize(kLongMs).code(), StatusCode::kCancelled);
  gate.release();
  reset.join();
  EXPECT_EQ(waiter.synchronize(kLongMs).code(), StatusCode::kCancelled);
}

TEST(SharedEvent, ManyRecordsGoOnWhileOthersAreWaitedFor) {
  Device device = openSmall(0);
  Stream held = Stream::create(device).value(), busy = Stream::create(device).value();
  Stream waiter = Stream::create(device).value();
  Event event = makeShared();
  Event opened = Event::open(event.handle().value()).value();
  Gate gate;
  gate.hold(held);
  ASSERT_TRUE(held.record(event).ok());
  std::promise<Status> told;
  ASSERT_TRUE(opened.onDone([&](const Status& status) { told.set_value(status); }).ok());
  ASSERT_TRUE(waiter.wait(opened).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(busy.record(event).ok());
  EXPECT_TRUE(opened.synchronize(kLongMs).ok());
  EXPECT_FALSE(waiter.query().value()) << "it waits for the first record";
  gate.release();
  EXPECT_TRUE(waiter.synchronize(kLongMs).ok());
  EXPECT_TRUE(told.get_future().get().ok());
}

TEST(SharedEvent, ManyWaitsShareOneThread) {
  Device device = openSmall(0, "null");
  Stream stream = Stream::create(device).value();
  constexpr int kEvents = 200;  // More than the kernel waits for at once.
  std::vector<Event> events, opened;
  std::atomic<int> told{0};
  Gate gate;
  gate.hold(stream);
  for (int i = 0; i < kEvents; ++i) {
    events.push_back(makeShared());
    opened.push_back(Event::open(events.back().handle().value()).value());
    ASSERT_TRUE(stream.record(events.back()).ok());
    ASSERT_TRUE(opened.back().onDone([&](const Status& status) { told += status.ok() ? 1 : 1000; }).ok());
  }
  EXPECT_EQ(told.load(), 0);
  gate.release();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLongMs);
  while (told.load() < kEvents && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(told.load(), kEvents);
  EXPECT_TRUE(stream.synchronize(kLongMs).ok());
}

TEST(SharedEvent, IsNotTimedNotRecordedByOthersAndNotCaptured) {
  Device device = openSmall(0);
  Stream stream = Stream::create(device).value();
  Event event = makeShared(), ordinary;
  ASSERT_TRUE(stream.record(event).ok());
  ASSERT_TRUE(event.synchronize().ok());
  Event opened = Event::open(event.handle().value()).value();
  for (const Event& each : {event, opened}) {
    EXPECT_EQ(each.deviceTimeNs().status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(each.deviceTimeNs().status().message(), HasSubstr("shared between processes"));
    EXPECT_EQ(each.elapsedNsSince(each).status().code(), StatusCode::kFailedPrecondition);
  }
  const Status foreign = stream.record(opened);
  EXPECT_EQ(foreign.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(foreign.message(), HasSubstr("only the process that made it"));
  EXPECT_EQ(opened.handle().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ordinary.handle().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(opened.onDone(nullptr).code(), StatusCode::kInvalidArgument);
  for (const Event& each : {event, opened}) {
    CaptureSession session = CaptureSession::begin(stream).value();
    EXPECT_FALSE(stream.record(each).ok());
    session.end().status().ignore();
  }
  CaptureSession session = CaptureSession::begin(stream).value();
  EXPECT_FALSE(stream.wait(opened).ok());
  EXPECT_FALSE(session.end().ok());
  EXPECT_TRUE(stream.record(event).ok());
  EXPECT_TRUE(stream.synchronize().ok());
}

TEST(SharedEvent, DamagedAndForgedHandlesAreErrors) {
  const Event event = makeShared();
  const EventHandle good = event.handle().value();
  EXPECT_EQ(Event::open(EventHandle()).status().code(), StatusCode::kInvalidArgument);
  for (size_t i = 0; i < sizeof good.bytes; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      EventHandle bad = good;
      bad.bytes[i] ^= static_cast<uint8_t>(1 << bit);
      ASSERT_EQ(Event::open(bad).status().code(), StatusCode::kInvalidArgument) << i << " " << bit;
    }
  // What somebody writes who knows the layout: other processes, descriptors (sockets, pipes, files, none), ids.
  int pipes[2];
  ASSERT_EQ(::pipe2(pipes, O_CLOEXEC), 0);
  Device device = openSmall(0);  // Has sockets and a memory file.
  std::mt19937 random(1);
  const auto forge = [](EventHandle& handle) {
    const uint32_t check = base::crc32c(0, handle.bytes, 60);
    std::memcpy(handle.bytes + 60, &check, 4);
  };
  for (int i = 0; i < 1500; ++i) {
    EventHandle bad = good;
    switch (i % 5) {
      case 0: {  // Another process, or none.
        const int64_t pid = i % 2 ? static_cast<int64_t>(random() % 70000) : static_cast<int64_t>(random()) << 31;
        std::memcpy(bad.bytes + 8, &pid, 8);
        break;
      }
      case 1:
        bad.bytes[16 + random() % 8] ^= static_cast<uint8_t>(1 + random() % 255);  // When it began.
        break;
      case 2:
        bad.bytes[32 + random() % 16] ^= static_cast<uint8_t>(1 + random() % 255);  // The event.
        break;
      case 3: {
        const auto descriptor = static_cast<int32_t>(i % 2 ? random() % 40 : random());
        if (std::memcmp(bad.bytes + 48, &descriptor, 4) == 0) continue;
        std::memcpy(bad.bytes + 48, &descriptor, 4);
        break;
      }
      default:
        for (size_t at = 4; at < 60; ++at) bad.bytes[at] = static_cast<uint8_t>(random());
        break;
    }
    forge(bad);
    const StatusCode code = Event::open(bad).status().code();
    EXPECT_TRUE(code == StatusCode::kInvalidArgument || code == StatusCode::kNotFound)
        << i << " " << statusCodeName(code);
  }
  ::close(pipes[0]);
  ::close(pipes[1]);
  EXPECT_TRUE(Event::open(good).ok());
}

TEST(SharedEvent, IsNoForkedChilds) {
  Event event = makeShared();
  Event opened = Event::open(event.handle().value()).value();
  const EventHandle handle = event.handle().value();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = event.query().status().code() == StatusCode::kFailedPrecondition &&
                         opened.query().status().code() == StatusCode::kFailedPrecondition &&
                         event.handle().status().code() == StatusCode::kFailedPrecondition;
    // But it may open the parent's, like any process.
    auto again = Event::open(handle);
    ::_exit(refused && again.ok() && again->query().ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace hpu
