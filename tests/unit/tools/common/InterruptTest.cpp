// SPDX-License-Identifier: Apache-2.0
// Signals and outputs, in child processes.
#include "tools/common/Interrupt.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "base/File.h"
#include "base/Format.h"
#include "tests/unit/base/TemporaryFolder.h"
#include "tools/common/OutputCheck.h"

namespace hpu::tools {
namespace {

/// How a child that does this ended: 128 + n for signal n.
int ended(const std::function<int()>& body) {
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(Interrupt, TheFirstSignalSetsAFlagAndALaterOneEndsTheProcess) {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(ended([&] {
                Interrupt interrupt("stopping", true);
                if (interrupt.signal() != 0) return 1;
                raise(number);
                return interrupt.signal() == number ? 0 : 2;
              }),
              0);
    EXPECT_EQ(ended([&] {
                Interrupt interrupt("stopping", true);
                raise(number);
                usleep(400'000);
                raise(number);
                return 0;
              }),
              128 + number);
  }
}

TEST(Interrupt, TwoSignalsAtOnceAreOneRequest) {
  EXPECT_EQ(ended([] {
              Interrupt interrupt("stopping", true);
              raise(SIGINT);
              raise(SIGINT);  // As timeout(1) sends them: to the process and to its group.
              return interrupt.signal() == SIGINT ? 0 : 1;
            }),
            0);
}

TEST(Interrupt, WhatIsIgnoredStaysIgnoredAndTheRestIsPutBack) {
  EXPECT_EQ(ended([] {
              signal(SIGINT, SIG_IGN);
              Interrupt interrupt("stopping", true);
              raise(SIGINT);
              return interrupt.signal();
            }),
            0);
  EXPECT_EQ(ended([] {
              {
                Interrupt interrupt("stopping", true);
              }
              raise(SIGTERM);
              return 0;
            }),
            128 + SIGTERM);
}

TEST(Interrupt, OneInsideOfAnotherHasTheSameSignalAndPutsNothingBack) {
  EXPECT_EQ(ended([] {
              Interrupt outer("ending", true);
              {
                Interrupt inner("stopping", true);
              }
              raise(SIGTERM);
              Interrupt later("stopping", true);
              return later.signal() == SIGTERM && outer.signal() == SIGTERM ? 0 : 1;
            }),
            0);
}

TEST(Interrupt, ASignalEndsTheWaitForTheReaderOfAPipe) {
  base::TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ended([&] {
              Interrupt interrupt("stopping", true);
              for (const std::string& other : {folder.file("none"), folder.path(), std::string("/dev/stdout")})
                if (!AwaitedReader::of(other, interrupt).ok()) return 1;
              // The writer's first signal, while it waits.
              const pid_t waiter = ::getpid();
              if (fork() == 0) {
                usleep(100'000);
                kill(waiter, SIGTERM);
                _exit(0);
              }
              Status status = AwaitedReader::of(pipe, interrupt).status();
              return status.code() == StatusCode::kCancelled && interrupt.signal() == SIGTERM ? 0 : 2;
            }),
            0);
  // A reader that is there is enough, whatever signal came.
  EXPECT_EQ(ended([&] {
              Interrupt interrupt("stopping", true);
              raise(SIGTERM);
              const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
              StatusOr<AwaitedReader> awaited = AwaitedReader::of(pipe, interrupt);
              const bool written = awaited.ok() && base::writeFileAtomic(pipe, "x", 1).ok();
              char byte = 0;
              return written && ::read(reader, &byte, 1) == 1 && byte == 'x' ? 0 : 3;
            }),
            0);
}

TEST(Interrupt, EndsByTheSignalWhenAllOthersHaveFinished) {
  base::TemporaryFolder folder;
  static const std::string done = folder.file("done");  // Outlives the child's handlers, and the folder its end.
  EXPECT_EQ(ended([] {
              std::atexit([] { (void)base::writeFileAtomic(done, "x", 1).ok(); });
              exit(static_cast<int>(endBySignal(SIGINT)));
              return 0;
            }),
            128 + SIGINT);
  EXPECT_EQ(access(done.c_str(), F_OK), 0) << "what exit() has to do comes first";
  EXPECT_EQ(signalName(SIGTERM), "SIGTERM");
}

TEST(OutputCheck, NamesTheOptionAndWhatIsWrongAndLeavesNothing) {
  base::TemporaryFolder folder;
  std::string file = folder.file("there"), inside = folder.file("there/x"), missing = folder.file("no/such/file");
  ASSERT_TRUE(base::writeFileAtomic(file, "x", 1).ok());
  EXPECT_TRUE(checkWritableFile("--trace", file).ok());
  EXPECT_TRUE(checkWritableFile("--trace", folder.file("new")).ok());
  EXPECT_NE(access(folder.file("new").c_str(), F_OK), 0);
  EXPECT_TRUE(checkWritableFile("--trace", "/dev/null").ok());
  for (const std::string& path : {inside, missing, folder.file(""), std::string()}) {
    Status status = checkWritableFile("--trace", path);
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_EQ(status.message().rfind("--trace", 0), 0u) << status.message();
  }
  EXPECT_TRUE(checkWritableFolder("--output", folder.file("new/deep/folder")).ok());
  EXPECT_NE(access(folder.file("new").c_str(), F_OK), 0);
  EXPECT_FALSE(checkWritableFolder("--output", inside).ok());
  EXPECT_FALSE(checkWritableFolder("--output", file).ok());
  EXPECT_EQ(*base::readTextFile(file), "x");
  EXPECT_FALSE(checkWritableFile("--trace", folder.file(std::string(300, 'n'))).ok());
  EXPECT_TRUE(checkWritableFile("--trace", folder.file(std::string(255, 'n'))).ok());
  // Folders that root's rights are enough for, but that take no files.
  for (const char* path : {"/proc/x", "/proc/self/x", "/dev/fd/977"}) {
    Status status = checkWritableFile("--trace", path);
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_NE(status.message().find(base::strCat("'", path, "'")), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("tmp"), std::string::npos) << status.message();
  }
  EXPECT_TRUE(checkWritableFile("--trace", "/dev/fd/2").ok());
}

}  // namespace
}  // namespace hpu::tools
