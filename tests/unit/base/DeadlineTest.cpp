// SPDX-License-Identifier: Apache-2.0
#include "base/Deadline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace hpu::base {
namespace {

TEST(Deadline, ZeroIsExpiredAtOnce) {
  EXPECT_TRUE(Deadline::afterMs(0).expired());
  EXPECT_EQ(Deadline::afterMs(0).remainingMs(), 0);
}

TEST(Deadline, ExpiresAfterItsTimeAndNotBefore) {
  auto begin = Deadline::Clock::now();
  Deadline deadline = Deadline::afterMs(30);
  EXPECT_FALSE(deadline.expired());
  std::this_thread::sleep_until(deadline.time());
  EXPECT_TRUE(deadline.expired());
  EXPECT_GE(Deadline::Clock::now() - begin, std::chrono::milliseconds(30));
}

TEST(Deadline, NegativeMeansTheConfiguredTimeout) {
  setenv("HPU_WAIT_TIMEOUT_MS", "1234", 1);
  EXPECT_EQ(Deadline::fromMs(-1).value().totalMs(), 1234);
  EXPECT_EQ(Deadline::fromMs(7).value().totalMs(), 7);
  setenv("HPU_WAIT_TIMEOUT_MS", "soon", 1);
  EXPECT_EQ(Deadline::fromMs(-1).status().code(), StatusCode::kInvalidArgument);
  unsetenv("HPU_WAIT_TIMEOUT_MS");
  EXPECT_EQ(Deadline::fromMs(-1).value().totalMs(), 600000);
}

TEST(Deadline, TheLongestOneDoesNotOverflow) {
  Deadline deadline = Deadline::afterMs(INT64_MAX);
  EXPECT_FALSE(deadline.expired());
  EXPECT_GT(deadline.remainingMs(), 1000);
}

}  // namespace
}  // namespace hpu::base
