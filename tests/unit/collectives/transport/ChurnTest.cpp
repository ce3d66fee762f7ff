// SPDX-License-Identifier: Apache-2.0
// Communicators come and go: descriptors, mappings and threads stay as many as they were.
// SHM_CHURN is how many (10,000).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "ShmRank.h"
#include "Threads.h"

namespace hpu::collectives {
namespace {

TEST(ShmChurn, ThousandsOfCommunicatorsLeaveNothing) {
  const char* text = std::getenv("SHM_CHURN");
  const int rounds = text ? std::atoi(text) : 10000;
  auto devices = testing::openDevices(2);
  ASSERT_EQ(devices.size(), 2u);
  testing::ThreadGather gather(2);
  // A few first: they make what stays, thread-local buffers and libraries' pools.
  testing::Holdings before;
  auto live = [&](int rank, int many) {
    for (int round = 0; round < many; ++round) {
      ShmOptions options;
      options.rank = rank;
      options.ranks = 2;
      options.deviceIndex = round % 3 ? rank : -1;
      options.allGather = [&](const std::string&, const std::string& mine) -> StatusOr<std::vector<std::string>> {
        return gather(rank, mine);
      };
      auto transport = createShmTransport(options);
      if (!transport.ok()) {
        // The other thread waits for this one at every step: there is no way on.
        std::fprintf(stderr, "round %d: %s\n", round, transport.status().message().c_str());
        std::abort();
      }
      std::byte byte{7};
      // The peer may be gone again, with or without a word.
      (void)(*transport)->offer(1 - rank, Lane::kReply, &byte, 1, {});
      if (round % 2) (*transport)->setProgressSource([] { return uint64_t{1}; });
      if (round % 5 == 0) (*transport)->abort(internalError("enough"));
      // One that leaves at once, and one whose peers have left.
      if (round % 7 == 0) gather(rank, "");
      transport = internalError("gone");
      gather(rank, "");
    }
  };
  auto both = [&](int many) {
    std::thread other(live, 1, many);
    live(0, many);
    other.join();
  };
  // Owners learn a moment later that a peer maps their memory no more.
  auto settled = [&](const auto& good) {
    testing::Holdings held = testing::holdings();
    for (int i = 0; i < 2000 && !good(held); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      held = testing::holdings();
    }
    return held;
  };
  const testing::Holdings first = testing::holdings();
  auto asAtFirst = [&](const testing::Holdings& held) {
    return held.descriptors == first.descriptors && held.threads == first.threads;
  };
  both(20);
  before = settled(asAtFirst);
  EXPECT_EQ(before.descriptors, first.descriptors);
  both(rounds);
  const testing::Holdings after = settled(asAtFirst);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.segments, 0);
  // The heap may have grown by a mapping or two.
  EXPECT_LE(after.mappings, before.mappings + 4);
}

}  // namespace
}  // namespace hpu::collectives
