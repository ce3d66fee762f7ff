// SPDX-License-Identifier: Apache-2.0
#include "base/Log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hpu::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Log, WritesEnabledLevelsToStderrOnly) {
  base::setLogLevel(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  HPU_LOG(kInfo, std::string("shown {not a format}"));
  HPU_LOG(kDebug, std::string("hidden"));
  std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(error, HasSubstr("[hpu] [info] shown {not a format}"));
  EXPECT_THAT(error, Not(HasSubstr("hidden")));
  base::setLogLevel(LogLevel::kWarning);
}

TEST(Log, DisabledMessageIsNotEvaluated) {
  base::setLogLevel(LogLevel::kError);
  int evaluated = 0;
  HPU_LOG(kInfo, (++evaluated, std::string("never")));
  EXPECT_EQ(evaluated, 0);
  base::setLogLevel(static_cast<LogLevel>(77));
  EXPECT_EQ(hpu::logLevel(), LogLevel::kOff);
  base::setLogLevel(LogLevel::kOff);
  EXPECT_FALSE(logEnabled(LogLevel::kError));
  base::setLogLevel(LogLevel::kWarning);
}

/// What the hook gets, and nothing else to standard error; undone at the end of the test.
struct LogHook : ::testing::Test {
  using Line = std::pair<LogLevel, std::string>;
  ~LogHook() override {
    hpu::setLogHook({});
    hpu::setLogLevel(LogLevel::kWarning);
  }
};

TEST_F(LogHook, TakesMessagesInPlaceOfStandardError) {
  std::vector<Line> lines;
  hpu::setLogHook([&](LogLevel level, const std::string& message) { lines.emplace_back(level, message); });
  hpu::setLogLevel(LogLevel::kInfo);
  EXPECT_EQ(hpu::logLevel(), LogLevel::kInfo);
  testing::internal::CaptureStderr();
  HPU_LOG(kInfo, "first");
  HPU_LOG(kDebug, "below the level");
  HPU_LOG(kError, "second");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(lines, (std::vector<Line>{{LogLevel::kInfo, "first"}, {LogLevel::kError, "second"}}));
  hpu::setLogHook({});
  testing::internal::CaptureStderr();
  HPU_LOG(kError, "third");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("third"));
  EXPECT_EQ(lines.size(), 2u);
}

TEST_F(LogHook, ThatThrowsOrLogsLosesNothing) {
  hpu::setLogHook([](LogLevel, const std::string&) { throw std::runtime_error("no disk"); });
  testing::internal::CaptureStderr();
  HPU_LOG(kError, "one");
  hpu::setLogHook([](LogLevel, const std::string&) { HPU_LOG(kError, "two"); });
  HPU_LOG(kError, "three");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("one"));
  EXPECT_THAT(text, HasSubstr("two"));
  EXPECT_THAT(text, Not(HasSubstr("three")));
}

TEST_F(LogHook, IsReplacedWhileOthersLog) {
  constexpr int kThreads = 4, kMessages = 2000;
  std::atomic<int> taken{0};
  auto hook = [&](LogLevel, const std::string&) { taken.fetch_add(1); };
  hpu::setLogHook(hook);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < kMessages; ++i) HPU_LOG(kError, "message");
    });
  for (int i = 0; i < 500; ++i) hpu::setLogHook(hook);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.load(), kThreads * kMessages);
}

TEST_F(LogHook, IsUsableInAForkedChild) {
  std::atomic<bool> stop{false};
  std::atomic<int> taken{0};
  hpu::setLogHook([&](LogLevel, const std::string&) { taken.fetch_add(1); });
  std::thread logging([&] {
    while (!stop) HPU_LOG(kError, "in the parent");
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int before = taken.load();
      HPU_LOG(kError, "in the child");
      ::_exit(taken.load() == before + 1 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  logging.join();
}

}  // namespace
}  // namespace hpu::base
