// SPDX-License-Identifier: Apache-2.0
// Commands that exit, are killed, do not exist, and do not end.
#include "tools/hpu-trace/RunTraced.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "base/File.h"
#include "tests/unit/base/TemporaryFolder.h"

namespace hpu::tools {
namespace {

CommandEnd ran(std::vector<std::string> command, double timeout = 0) {
  CommandRun run;
  run.command = std::move(command);
  run.timeoutSeconds = timeout;
  StatusOr<CommandEnd> end = runCommand(run);
  EXPECT_TRUE(end.ok()) << end.status().message();
  return end.ok() ? *end : CommandEnd{};
}

TEST(RunTraced, KeepsTheExitCode) {
  EXPECT_EQ(ran({"true"}).exitCode, 0);
  EXPECT_EQ(ran({"sh", "-c", "exit 41"}).exitCode, 41);
  CommandEnd killed = ran({"sh", "-c", "kill -9 $$"});
  EXPECT_EQ(killed.exitCode, 128 + 9);
  EXPECT_EQ(killed.signal, 9);
  EXPECT_FALSE(killed.timedOut);
}

TEST(RunTraced, SetsTheEnvironmentAndPassesArgumentsAsTheyAre) {
  base::TemporaryFolder folder;
  CommandRun run;
  run.command = {"sh", "-c", "printf '%s|%s' \"$HPU_TRACE_LEVEL\" \"$1\" > " + folder.file("out"), "sh", "a b\"*"};
  run.environment = {{"HPU_TRACE_LEVEL", "node"}};
  ASSERT_TRUE(runCommand(run).ok());
  EXPECT_EQ(*base::readTextFile(folder.file("out")), "node|a b\"*");
}

TEST(RunTraced, SaysWhenTheCommandCannotBeStarted) {
  CommandRun run;
  run.command = {"no-such-program-anywhere"};
  StatusOr<CommandEnd> end = runCommand(run);
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.status().code(), StatusCode::kNotFound);
  EXPECT_NE(end.status().message().find("no-such-program-anywhere"), std::string::npos);
}

TEST(RunTraced, EndsACommandAndWhatItStartedAtTheDeadline) {
  base::TemporaryFolder folder;
  auto start = std::chrono::steady_clock::now();
  // The shell's child holds the pipe of nobody; only the group's signal reaches it.
  CommandEnd end = ran({"sh", "-c", "sleep 300 & echo $! > " + folder.file("pid") + "; wait"}, 0.3);
  EXPECT_TRUE(end.timedOut);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  pid_t left = std::stoi(*base::readTextFile(folder.file("pid")));
  // The orphan is reaped by init in its own time; being gone or a zombie is being ended.
  std::string state;
  for (int i = 0; i < 200; ++i) {
    StatusOr<std::string> stat = base::readTextFile("/proc/" + std::to_string(left) + "/stat");
    state = stat.ok() ? stat->substr(stat->rfind(')') + 2, 1) : "gone";
    if (state == "gone" || state == "Z" || state == "X") break;
    usleep(10'000);
  }
  EXPECT_TRUE(state == "gone" || state == "Z" || state == "X") << state;
}

TEST(RunTraced, ACommandThatIgnoresTheFirstSignalIsKilled) {
  CommandEnd end = ran({"sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"}, 0.2);
  EXPECT_TRUE(end.timedOut);
  EXPECT_EQ(end.signal, 9);
}

}  // namespace
}  // namespace hpu::tools
