// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/PortTimes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hpu::collectives {
namespace {

constexpr int64_t kStart = 7;

struct Case {
  Placement placement;
  std::vector<PortTimes> times;
  std::vector<const PortTimes*> ports;
  std::vector<int64_t> arrivals;
  LinkState state;

  Case(std::vector<int32_t> devices, std::vector<int32_t> nodes)
      : placement(std::move(devices), std::move(nodes)), times(placement.device.size()), ports(times.size()) {
    arrivals.assign(times.size(), 1000);
  }
  const LinkState& set() {
    for (size_t rank = 0; rank < times.size(); ++rank)
      ports[rank] = times[rank] == PortTimes() ? nullptr : &times[rank];
    setLinks(placement, [&](size_t rank) { return ports[rank]; }, arrivals, kStart, state);
    return state;
  }
  int64_t link(size_t from, size_t to) const { return state.freePs[from * times.size() + to]; }
};

TEST(PortTimes, WhatIsFreeBeforeTheFirstMessageIsLeftOut) {
  Case c({0, 1, 0, 1}, {0, 0, 1, 1});
  EXPECT_TRUE(c.set().trivial());
  for (PortTimes& times : c.times)
    for (auto& way : times) way.fill(1007);
  EXPECT_TRUE(c.set().trivial());
  c.arrivals = {1000, 1200, 1000, 1000};
  c.times[0][0][1] = 1207;  // To a rank that arrives later.
  EXPECT_TRUE(c.set().trivial());
}

TEST(PortTimes, OfALinkTheLaterEndCountsAndOnlyInANode) {
  Case c({0, 1, 0, 1}, {0, 0, 1, 1});
  c.times[0][0][1] = 1500;  // Rank 0 to device 1 of its node: rank 1, not rank 3.
  c.times[1][1][0] = 1600;
  c.times[3][0][0] = 2000;
  c.set();
  EXPECT_EQ(c.link(0, 1), 1600);
  EXPECT_EQ(c.link(1, 0), 0);
  EXPECT_EQ(c.link(0, 3), 0);
  EXPECT_EQ(c.link(3, 2), 2000);
  EXPECT_EQ(c.link(3, 0), 0);
  EXPECT_TRUE(c.state.railFreePs[0].empty() && c.state.railFreePs[1].empty());
}

TEST(PortTimes, RailsAreByRankOutwardsAndInwards) {
  Case c({0, 1, 0, 1}, {0, 0, 1, 1});
  c.times[1][0][kRailPort] = 1700;
  c.times[2][0][kRailPort] = 900;
  c.set();
  EXPECT_EQ(c.state.railFreePs[0], (std::vector<int64_t>{0, 1700, 0, 0}));
  EXPECT_TRUE(c.state.railFreePs[1].empty());
  EXPECT_TRUE(c.state.freePs.empty());
  c.times[3][1][kRailPort] = 1800;
  c.set();
  EXPECT_EQ(c.state.railFreePs[1], (std::vector<int64_t>{0, 0, 0, 1800}));
  c.times.assign(4, PortTimes());
  EXPECT_TRUE(c.set().trivial());
}

TEST(PortTimes, OneNodeIsAllPairs) {
  std::mt19937 rng(3);
  for (int round = 0; round < 50; ++round) {
    Case c({0, 2, 1, 5}, {0, 0, 0, 0});
    for (PortTimes& times : c.times)
      for (auto& way : times)
        for (size_t device = 0; device < kMostDevices; ++device)
          way[device] = rng() % 3 == 0 ? static_cast<int64_t>(rng() % 2000) : 0;
    for (int64_t& arrival : c.arrivals) arrival = static_cast<int64_t>(rng() % 1000);
    c.set();
    for (size_t from = 0; from < 4; ++from)
      for (size_t to = 0; to < 4; ++to) {
        const auto at = [&](size_t rank) { return static_cast<size_t>(c.placement.device[rank]); };
        int64_t expected = std::max(c.times[from][0][at(to)], c.times[to][1][at(from)]);
        if (expected <= std::max(c.arrivals[from], c.arrivals[to]) + kStart) expected = 0;
        EXPECT_EQ(c.state.freePs.empty() ? 0 : c.link(from, to), expected);
      }
  }
}

}  // namespace
}  // namespace hpu::collectives
