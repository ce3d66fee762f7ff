// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/CongestionWindow.h"

#include <gtest/gtest.h>

namespace hpu::roce {
namespace {

constexpr TimeNs kUs = 1'000;

TEST(CongestionWindow, WithoutNotificationsNothingIsHeldBack) {
  CongestionWindow window(128);
  for (TimeNs now = 0; now < 1'000'000 * kUs; now += 777 * kUs) {
    window.advance(now);
    ASSERT_EQ(window.packets(), 128u);
  }
}

TEST(CongestionWindow, TheFirstNotificationHalvesAndHalfIsBackAfterAPeriod) {
  CongestionWindow window(128);
  window.notified(1'000 * kUs);
  EXPECT_EQ(window.packets(), 64u);
  window.notified(1'030 * kUs);  // Of the same flow, too soon to count.
  EXPECT_EQ(window.packets(), 64u);
  EXPECT_EQ(window.notifications(), 2u);
  window.advance(1'055 * kUs);
  EXPECT_EQ(window.packets(), 96u);
}

TEST(CongestionWindow, StaysAtOnePacketUnderEndlessNotificationsAndRecoversWhenTheyEnd) {
  CongestionWindow window(128);
  TimeNs now = 0;
  for (int i = 0; i < 1000; ++i) window.notified(now += 50 * kUs);
  EXPECT_EQ(window.packets(), 1u);
  uint32_t before = window.packets();
  for (int i = 0; i < 400; ++i) {
    window.advance(now += 55 * kUs);
    ASSERT_GE(window.packets(), before) << "it only grows";
    before = window.packets();
  }
  EXPECT_EQ(window.packets(), 128u);
}

TEST(CongestionWindow, ALongSilenceIsTheSameAsManyShortOnes) {
  CongestionWindow once(1000), often(1000);
  once.notified(0);
  often.notified(0);
  for (TimeNs now = 0; now <= 1'000 * kUs; now += 10 * kUs) often.advance(now);
  once.advance(1'000 * kUs);
  EXPECT_EQ(once.packets(), often.packets());
}

}  // namespace
}  // namespace hpu::roce
