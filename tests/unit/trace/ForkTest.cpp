// SPDX-License-Identifier: Apache-2.0
// Processes that record beside each other: a file belongs to the process that opened it first.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>

#include "base/Log.h"
#include "runtime/trace/Environment.h"
#include "runtime/trace/Recorder.h"
#include "tests/unit/base/ForkOften.h"
#include "tests/unit/trace/TraceFixture.h"

namespace hpu::trace {
namespace {

class TraceForks : public TraceTest {
 protected:
  void SetUp() override {
    TraceTest::SetUp();
    path_ = file("run.hputrace");
    ::setenv("HPU_TRACE", path_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("HPU_TRACE");
    TraceTest::TearDown();
  }
  /// A process that ends as programs do: with exit handlers.
  static pid_t process(const std::function<bool()>& body) {
    pid_t pid = ::fork();
    if (pid == 0) {
      ::alarm(60);
      std::exit(body() ? 0 : 1);
    }
    return pid;
  }
  static bool endsWell(pid_t pid) {
    int status = -1;
    return ::waitpid(pid, &status, 0) == pid && status == 0;
  }
  /// What a process does that opens a device.
  static bool record(const char* event) {
    if (!startFromEnvironment().ok() || !recording()) return false;
    recordHost(event, "api", hostNowNs(), hostNowNs());
    return true;
  }
  /// The file is complete and has this one event.
  void expectEvent(const std::string& name, const std::string& event) {
    TraceData trace = readBack(name);
    EXPECT_TRUE(trace.stopped) << name;
    ASSERT_EQ(trace.threads.size(), 1u) << name;
    ASSERT_EQ(trace.threads[0].events.size(), 1u) << name;
    EXPECT_EQ(trace.text(trace.threads[0].events[0].name), event) << name;
  }
  std::string beside(pid_t pid) { return "run." + std::to_string(pid) + ".hputrace"; }
  std::string path_;
};

#if !defined(__SANITIZE_THREAD__)
TEST_F(TraceForks, AChildRecordsBesideItsParent) {
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  pid_t parent = process([&] {
    if (!record("parent")) return false;
    pid_t child = process([&] {
      if (!record("child")) return false;
      pid_t grandchild = process([] { return record("grandchild"); });
      return endsWell(grandchild) && ::write(pids[1], &grandchild, sizeof grandchild) == sizeof grandchild;
    });
    // One that does not record leaves everything as it is, too.
    return endsWell(child) && endsWell(process([] { return !recording(); })) &&
           ::write(pids[1], &child, sizeof child) == sizeof child;
  });
  ASSERT_TRUE(endsWell(parent));
  pid_t grandchild = 0, child = 0;
  ASSERT_EQ(::read(pids[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  ASSERT_EQ(::read(pids[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  ::close(pids[0]);
  ::close(pids[1]);
  expectEvent("run.hputrace", "parent");
  expectEvent(beside(child), "child");
  expectEvent(beside(grandchild), "grandchild");
}

TEST_F(TraceForks, AProcessRecordsBesideAnotherOneThatIsStillRecording) {
  int started[2], go[2];
  ASSERT_EQ(::pipe(started), 0);
  ASSERT_EQ(::pipe(go), 0);
  pid_t first = process([&] {
    if (!record("first")) return false;
    // A child that lives on does not keep the file from others.
    pid_t child = process([] { return ::pause() == 0; });
    char byte;
    return ::write(started[1], &child, sizeof child) == sizeof child && ::read(go[0], &byte, 1) == 1;
  });
  pid_t livesOn = 0;
  ASSERT_EQ(::read(started[0], &livesOn, sizeof livesOn), static_cast<ssize_t>(sizeof livesOn));
  pid_t second = process([] { return record("second"); });
  EXPECT_TRUE(endsWell(second));
  // In a program that records by itself this is an error, and the file stays.
  Options options;
  options.streamTo = path_;
  Status status = start(options);
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_NE(status.message().find("another process is recording to it"), std::string::npos) << status.message();
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  EXPECT_TRUE(endsWell(first));
  for (int fd : {started[0], started[1], go[0], go[1]}) ::close(fd);
  expectEvent("run.hputrace", "first");
  expectEvent(beside(second), "second");
  // Afterwards the name is free: a later run replaces the file.
  EXPECT_TRUE(endsWell(process([] { return record("later"); })));
  expectEvent("run.hputrace", "later");
  ::kill(livesOn, SIGKILL);
}

TEST_F(TraceForks, AChildThatHasNotRunYetKeepsNoFileFromOthers) {
  int started[2];
  ASSERT_EQ(::pipe(started), 0);
  EXPECT_TRUE(endsWell(process([&] {
    if (!record("first")) return false;
    pid_t child = ::_Fork();  // Runs no fork handler, as one that waits for a processor has run none.
    if (child == 0) {
      ::alarm(60);
      ::pause();
      ::_exit(0);
    }
    return ::write(started[1], &child, sizeof child) == sizeof child;
  })));
  pid_t child = 0;
  ASSERT_EQ(::read(started[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_TRUE(endsWell(process([] { return record("later"); })));
  expectEvent("run.hputrace", "later");
  ::kill(child, SIGKILL);
  for (int fd : started) ::close(fd);
}
#endif

TEST_F(TraceForks, AChildOfABusyRecorderRecords) {
  if (!base::kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  ::setenv("HPU_TRACE", "wrong.json", 1);
  base::setLogLevel(base::LogLevel::kOff);
  base::BusyThreads threads({[&] {
                               Options options;
                               options.streamTo = file("busy.hputrace");
                               if (start(options).ok()) (void)stop("").ok();
                             },
                             [] { HostScope scope("busy"); },
                             [] { recordOnTrack("track", "busy", "api", 0, 1, nullptr, 0); },
                             // It finds a recording, or is refused: it never records.
                             [] { (void)startFromEnvironment().ok(); }});
  base::forkOften(200, [&] {
    Options options;
    options.streamTo = file("child.hputrace");
    if (startFromEnvironment().code() != StatusCode::kInvalidArgument) return 1;
    nameThread("child");
    if (!start(options).ok()) return 2;
    recordHost("child", "api", hostNowNs(), hostNowNs());
    if (!stop("").ok()) return 3;
    TraceData trace = readBack("child.hputrace");
    return trace.stopped && trace.threads.size() == 1 && trace.threads[0].events.size() == 1 ? 0 : 4;
  });
  base::setLogLevel(base::LogLevel::kWarning);
}

}  // namespace
}  // namespace hpu::trace
