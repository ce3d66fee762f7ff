// SPDX-License-Identifier: Apache-2.0
// How long a peer has stood still, by who looks and who does not.
#include "collectives/executor/Peers.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "collectives/transport/local/LocalTransport.h"

namespace hpu::collectives {
namespace {

using std::chrono::milliseconds;

struct Pair {
  std::array<std::byte, 64> a{}, b{};
  std::shared_ptr<LocalGroup> group = LocalGroup::create({{a.data(), 0x1000, 64}, {b.data(), 0x2000, 64}});
  std::shared_ptr<Transport> rank = group->transport(0), peer = group->transport(1);
};

void lookFor(Peers& peers, milliseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) {
    peers.look();
    std::this_thread::sleep_for(milliseconds(10));
  }
  peers.look();
}

TEST(Peers, WhoLooksSeesThatAPeerStandsStill) {
  Pair pair;
  Peers peers(*pair.rank);
  const auto since = Clock::now();
  // Time in which this very thread gets no core does not count: as many looks as it takes.
  int64_t still = 0;
  for (int i = 0; i < 100 && still < 400; ++i) {
    lookFor(peers, milliseconds(50));
    still = peers.stillMs(1, since);
  }
  EXPECT_GE(still, 400);
  EXPECT_LE(milliseconds(still), Clock::now() - since);
}

TEST(Peers, TimeInWhichNobodyLookedIsNotHeldAgainstAPeer) {
  Pair pair;
  Peers peers(*pair.rank);
  peers.look();
  const auto since = Clock::now();
  // As when the process is stopped, or a machine has no core for it.
  std::this_thread::sleep_for(milliseconds(1000));
  peers.look();
  EXPECT_LE(peers.stillMs(1, since), 100);
  // Nor what was before the question, twice.
  const auto later = Clock::now();
  peers.look();
  EXPECT_GE(peers.stillMs(1, later), 0);
  // A rank that looks again and again, however seldom, gives up in the end.
  int64_t still = 0;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(milliseconds(200));
    peers.look();
    const int64_t before = std::exchange(still, peers.stillMs(1, since));
    EXPECT_GT(still, before);
  }
  EXPECT_GE(still, 500);
}

}  // namespace
}  // namespace hpu::collectives
