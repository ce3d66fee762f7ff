// SPDX-License-Identifier: Apache-2.0
#include "base/Log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hpu::base {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Log, WritesEnabledLevelsToStderrOnly) {
  setLogLevel(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  HPU_LOG(kInfo, std::string("shown {not a format}"));
  HPU_LOG(kDebug, std::string("hidden"));
  std::string error = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(error, HasSubstr("[hpu] [info] shown {not a format}"));
  EXPECT_THAT(error, Not(HasSubstr("hidden")));
  setLogLevel(LogLevel::kWarning);
}

TEST(Log, DisabledMessageIsNotEvaluated) {
  setLogLevel(LogLevel::kError);
  int evaluated = 0;
  HPU_LOG(kInfo, (++evaluated, std::string("never")));
  EXPECT_EQ(evaluated, 0);
  setLogLevel(LogLevel::kOff);
  EXPECT_FALSE(logEnabled(LogLevel::kError));
  setLogLevel(LogLevel::kWarning);
}

}  // namespace
}  // namespace hpu::base
