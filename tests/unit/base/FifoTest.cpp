// SPDX-License-Identifier: Apache-2.0
#include "base/Fifo.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>

namespace hpu::base {
namespace {

TEST(Fifo, DoesWhatADequeDoes) {
  std::mt19937 random(7);
  Fifo<int> fifo;
  std::deque<int> expected;
  for (int i = 0; i < 100000; ++i) {
    // Long and short in turns.
    const unsigned pushes = i / 5000 % 2 ? 3 : 6, what = random() % 10;
    if (what < pushes) {
      EXPECT_EQ(fifo.push(i), i);
      expected.push_back(i);
    } else if (!expected.empty() && what == 9) {
      fifo.popBack();
      expected.pop_back();
    } else if (!expected.empty()) {
      fifo.popFront();
      expected.pop_front();
    }
    ASSERT_EQ(fifo.size(), expected.size());
    ASSERT_EQ(fifo.empty(), expected.empty());
    if (expected.empty()) continue;
    ASSERT_EQ(fifo.front(), expected.front());
    ASSERT_EQ(fifo.back(), expected.back());
    const size_t at = random() % expected.size();
    ASSERT_EQ(fifo[at], expected[at]);
  }
  size_t seen = 0;
  fifo.forEach([&](int element) { EXPECT_EQ(element, expected[seen++]); });
  EXPECT_EQ(seen, expected.size());
}

TEST(Fifo, SwapsWithAnother) {
  Fifo<int> one, other;
  for (int i = 0; i < 40; ++i) one.push(i);
  for (int i = 0; i < 20; ++i) one.popFront();
  other.push(-1);
  one.swap(other);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one.front(), -1);
  ASSERT_EQ(other.size(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(other[i], static_cast<int>(i) + 20);
}

TEST(Fifo, LetsGoOfWhatIsTaken) {
  Fifo<std::shared_ptr<int>> fifo;
  auto one = std::make_shared<int>(1);
  for (int i = 0; i < 40; ++i) fifo.push(one);
  EXPECT_EQ(one.use_count(), 41);
  for (int i = 0; i < 20; ++i) fifo.popFront();
  EXPECT_EQ(one.use_count(), 21);
  fifo.popBack();
  EXPECT_EQ(one.use_count(), 20);
  fifo.clear();
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_TRUE(fifo.empty());
  fifo.push(one);
  EXPECT_EQ(fifo.front(), one);
}

}  // namespace
}  // namespace hpu::base
