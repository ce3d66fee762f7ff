// SPDX-License-Identifier: Apache-2.0
// Communicators come and go: descriptors, mappings and threads stay as many as they were.
// SHM_CHURN is how many (10,000).
#include <gtest/gtest.h>

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
  testing::Holdings before, after;
  auto live = [&](int rank) {
    for (int round = 0; round < rounds + 20; ++round) {
      // The first ones make what stays: thread-local buffers, libraries' pools.
      if (round == 20) {
        gather(rank, "");
        if (rank == 0) before = testing::holdings();
        gather(rank, "");
      }
      ShmOptions options;
      options.rank = rank;
      options.ranks = 2;
      options.deviceIndex = round % 3 ? rank : -1;
      options.allGather = [&](const std::string&,
                              const std::string& mine) -> StatusOr<std::vector<std::string>> {
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
    if (rank == 0) after = testing::holdings();
    gather(rank, "");
  };
  std::thread other(live, 1);
  live(0);
  other.join();
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.segments, 0);
  // The heap may have grown by a mapping or two.
  EXPECT_LE(after.mappings, before.mappings + 4);
}

}  // namespace
}  // namespace hpu::collectives
