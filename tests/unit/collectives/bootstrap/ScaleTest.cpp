// SPDX-License-Identifier: Apache-2.0
// What meeting and leaving cost: messages and bytes, by the number of ranks.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>

#include "collectives/bootstrap/Bootstrap.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

namespace hpu::collectives {
namespace {

/// How many ranks, and whether each is of a process of its own.
constexpr size_t kValueBytes = 96;  // About what a rank tells of its device.

/// Nothing in it is alike.
std::string valueOf(int rank) {
  std::mt19937 random(static_cast<uint32_t>(rank) + 1);
  std::string value;
  while (value.size() < kValueBytes) value += static_cast<char>(random());
  return value;
}

class Scale : public testing::TestWithParam<std::pair<int, bool>> {};

TEST_P(Scale, MessagesGrowAsNLogNAndBytesAsNTimesTheResult) {
  const auto [ranks, alone] = GetParam();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < static_cast<rlim_t>(ranks) * 5)
    GTEST_SKIP() << "the process may have only " << limit.rlim_cur << " descriptors";

  constexpr int kPhases = 3;
  std::vector<std::string> cards;
  for (int rank = 0; rank < ranks; ++rank) cards.push_back(valueOf(rank));
  UniqueId id = createUniqueId().value();
  uint64_t nonce = decodeId(id).value().nonce;
  std::vector<Traffic> sent(static_cast<size_t>(ranks));
  Traffic coordinator;
  auto results = onRanks<Status>(ranks, [&, ranks = ranks, alone = alone](int rank) {
    auto joined = Bootstrap::join(id, rank, ranks, {.timeoutMs = 100000, .alone = alone});
    if (!joined.ok()) return joined.status();
    auto values = (*joined)->allGather("cards", cards[static_cast<size_t>(rank)], soon(100000));
    if (!values.ok()) return values.status();
    if (*values != cards) return internalError("wrong value");
    for (int phase = 1; phase < kPhases; ++phase)
      if (Status status = (*joined)->barrier("ready", soon(100000)); !status.ok()) return status;
    sent[static_cast<size_t>(rank)] = (*joined)->traffic();
    if (rank == 0) coordinator = *Coordinator::instance()->traffic(nonce);
    return (*joined)->barrier("end", soon(100000));
  });
  for (const Status& status : results) ASSERT_TRUE(status.ok()) << status.toString();

  Traffic all = coordinator, most = coordinator;
  for (const Traffic& one : sent) {
    all.messages += one.messages;
    all.bytes += one.bytes;
    most.messages = std::max(most.messages, one.messages);
    most.bytes = std::max(most.bytes, one.bytes);
  }
  double n = ranks, logN = std::max(1.0, std::log2(n));
  std::printf("%d ranks in %d processes: %llu messages, %llu bytes; the most of one rank: %llu and %llu\n", ranks,
              alone ? ranks : 1, static_cast<unsigned long long>(all.messages),
              static_cast<unsigned long long>(all.bytes), static_cast<unsigned long long>(most.messages),
              static_cast<unsigned long long>(most.bytes));
  // Six of them prove who each is, to the coordinator and to its parent in the tree.
  EXPECT_LE(static_cast<double>(all.messages), 5 * n * logN + 6 * n);
  // The result itself is n values on each of n processes. None sends more than all values to two
  // others and its part of them to one; the coordinator sends a constant for each rank.
  EXPECT_LE(static_cast<double>(all.bytes), n * n * (kValueBytes + 4) + 1000 * n * logN);
  EXPECT_LE(static_cast<double>(most.bytes), 3 * n * (kValueBytes + 4) + 1000 * logN);
  EXPECT_LE(static_cast<double>(coordinator.bytes), 400 * n);
  EXPECT_LE(static_cast<double>(coordinator.messages), 5 * n);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Scale,
                         testing::Values(std::pair(8, true), std::pair(64, true), std::pair(256, true),
                                         std::pair(1024, true), std::pair(1024, false)));

// Those who are there are told of the first one at once and of the others every 20 ms: at most two
// messages for each 20 ms.
TEST(Leaving, IsNotToldByAMessageForEachToEach) {
  constexpr int kRanks = 256;
  UniqueId id = createUniqueId().value();
  const uint64_t nonce = decodeId(id).value().nonce;
  auto joined = onRanks<std::shared_ptr<Bootstrap>>(kRanks, [&](int rank) {
    auto one = Bootstrap::join(id, rank, kRanks, {.timeoutMs = 100000});
    return one.ok() ? *one : nullptr;
  });
  for (const auto& one : joined) ASSERT_NE(one, nullptr);
  auto messages = [&] { return Coordinator::instance()->traffic(nonce)->messages; };
  const uint64_t before = messages();
  const auto start = std::chrono::steady_clock::now();
  for (int rank = 1; rank < kRanks; ++rank) joined[static_cast<size_t>(rank)].reset();
  Status status = joined[0]->barrier("alone", soon(100000));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.toString();
  EXPECT_NE(status.message().find("has left"), std::string::npos) << status.toString();
  uint64_t after;
  do {
    after = messages();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  } while (after != messages());
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LE(after - before, static_cast<uint64_t>(kRanks) * static_cast<uint64_t>(ms / 10 + 4));
}

}  // namespace
}  // namespace hpu::collectives
