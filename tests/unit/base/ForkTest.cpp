// SPDX-License-Identifier: Apache-2.0
// A child of busy threads uses what every part of the library uses: settings and the log.
#include <cstdio>

#include "base/AtFork.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "tests/unit/base/ForkOften.h"

namespace hpu::base {
namespace {

TEST(Forks, SettingsMayBeReadAndSetInAChild) {
  if (!kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  constexpr Setting kSetting = Setting::HPU_PROFILE_DIR;
  {
    auto write = [] { EXPECT_TRUE(settings::set(kSetting, "a").ok()); };
    auto read = [] { EXPECT_TRUE(settings::isSet(kSetting)); };
    write();
    BusyThreads threads({write, write, read, read});
    forkOften(300, [] {
      if (settings::rawText(kSetting) != "a") return 1;
      if (!settings::set(kSetting, "b").ok()) return 2;
      return settings::rawText(kSetting) == "b" ? 0 : 3;
    });
  }
  EXPECT_TRUE(settings::set(kSetting, "").ok());
}

TEST(Forks, AChildMayLog) {
  if (!kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  // Lines go nowhere: what is tested is that they end.
  int before = ::dup(STDERR_FILENO);
  ASSERT_NE(std::freopen("/dev/null", "w", stderr), nullptr);
  {
    auto line = [] { HPU_LOG(kError, "busy"); };
    line();
    BusyThreads threads({line, line, line});
    forkOften(300, [] {
      HPU_LOG(kError, "child");
      return 0;
    });
  }
  ::dup2(before, STDERR_FILENO);
  ::close(before);
}

TEST(Forks, TheLockOfSmallThingsIsFreeInAChild) {
  if (!kMayForkWhenBusy) GTEST_SKIP() << "not under a sanitizer";
  auto hold = [] { std::lock_guard lock(processMutex()); };
  hold();
  BusyThreads threads({hold, hold, hold});
  forkOften(300, [&] {
    hold();
    return 0;
  });
}

}  // namespace
}  // namespace hpu::base
