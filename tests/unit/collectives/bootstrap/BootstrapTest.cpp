// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Bootstrap.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/Format.h"
#include "base/Settings.h"
#include "collectives/bootstrap/ThisProcess.h"
#include "tests/unit/collectives/bootstrap/Ranks.h"

namespace hpu::collectives {
namespace {

using testing::HasSubstr;

int entriesOf(const char* path) {
  DIR* folder = opendir(path);
  int count = 0;
  while (readdir(folder)) ++count;
  closedir(folder);
  return count;
}

/// Values of different lengths, by rank and round.
std::string valueOf(int rank, int round) {
  return std::string(static_cast<size_t>((rank * 7 + round) % 40), static_cast<char>('a' + rank % 26)) +
         std::to_string(rank * 1000 + round);
}

TEST(Bootstrap, GathersEveryRanksValue) {
  for (auto [ranks, processes] : std::vector<std::pair<int, int>>{
           {1, 1}, {2, 1}, {3, 1}, {70, 1}, {2, 2}, {3, 3}, {8, 8}, {9, 9}, {70, 70}, {9, 4}, {70, 35}, {70, 69}}) {
    UniqueId id = createUniqueId().value();
    // The first ones are of this process, the others each of one of its own.
    const int shared = ranks - processes + 1;
    auto failures = onRanks<std::string>(ranks, [&, ranks = ranks](int rank) -> std::string {
      auto joined = Bootstrap::join(id, rank, ranks, {.timeoutMs = 30000, .alone = rank * 7 % ranks >= shared});
      if (!joined.ok()) return joined.status().toString();
      auto& all = *joined;
      if (all->rank() != rank || all->ranks() != ranks) return "not itself";
      for (int round = 0; round < 5; ++round) {
        auto values = all->allGather("round", valueOf(rank, round), soon());
        if (!values.ok()) return values.status().toString();
        for (int other = 0; other < ranks; ++other)
          if ((*values)[static_cast<size_t>(other)] != valueOf(other, round)) return "wrong value";
        if (Status status = all->barrier("barrier", soon()); !status.ok()) return status.toString();
      }
      for (int other = 0; other < ranks && ranks > 1; ++other)
        if (all->describe(other) != base::strCat("rank ", other, " (", processText(), ")")) return all->describe(other);
      return "";
    });
    for (const std::string& failure : failures) ASSERT_EQ(failure, "") << ranks << ", " << processes;
  }
}

TEST(Bootstrap, KeepsValuesForWhoNeedsThem) {
  auto all = joinAll(3);
  ASSERT_TRUE(all[0] && all[1] && all[2]);
  std::string large(wire::kMaxValueBytes, 'x');
  std::thread waiter([&] { EXPECT_EQ(all[2]->get("key", soon()).value(), large); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(all[1]->put("key", large, soon()).ok());
  waiter.join();
  EXPECT_EQ(all[0]->get("key", soon()).value(), large);
  EXPECT_EQ(all[1]->put("key", large + "x", soon()).code(), StatusCode::kInvalidArgument);
  auto missing = all[0]->get("nobody's", soon(30));
  EXPECT_EQ(missing.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(missing.status().message(), HasSubstr("nobody's"));
}

TEST(Bootstrap, SubgroupsAreOfTheirOwn) {
  const int ranks = 12;
  for (int alone : {0, 4, 12}) {
    UniqueId id = createUniqueId().value();
    auto failures = onRanks<std::string>(ranks, [&](int rank) -> std::string {
      auto joined = Bootstrap::join(id, rank, ranks, {.timeoutMs = 30000, .alone = rank * 5 % ranks < alone});
      if (!joined.ok()) return joined.status().toString();
      // Even and odd ranks, in reverse.
      std::vector<int> members;
      for (int member = ranks - 1; member >= 0; --member)
        if (member % 2 == rank % 2) members.push_back(member);
      auto half = (*joined)->subgroup("half", members);
      if (!half.ok()) return half.status().toString();
      if ((*half)->rank() != (ranks - 1 - rank) / 2) return "place";
      auto values = (*half)->allGather("half", std::to_string(rank), soon());
      if (!values.ok()) return values.status().toString();
      for (size_t i = 0; i < members.size(); ++i)
        if ((*values)[i] != std::to_string(members[i])) return "value";
      // A group of a group; and the store is the group's.
      auto pair = (*half)->subgroup("pair", {(*half)->rank()});
      if (!pair.ok() || (*pair)->allGather("own", "x", soon()).value() != std::vector<std::string>{"x"}) return "pair";
      if ((*half)->rank() == 0 && !(*half)->put("who", rank % 2 ? "odd" : "even", soon()).ok()) return "put";
      if ((*half)->get("who", soon()).value() != (rank % 2 ? "odd" : "even")) return "get";
      if (!(*joined)->barrier("end", soon()).ok()) return "barrier";
      return "";
    });
    for (const std::string& failure : failures) EXPECT_EQ(failure, "") << alone;
  }
  auto one = joinAll(1)[0];
  EXPECT_EQ(one->subgroup("other", {1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(one->subgroup("twice", {0, 0}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(one->subgroup("nobody", {}).status().code(), StatusCode::kInvalidArgument);
}

TEST(Bootstrap, TheEnvironmentsIdNeedsNoOther) {
  // A port that is free now.
  int port;
  {
    auto reactor = Reactor::acquire().value();
    Address any = parseAddress("127.0.0.1:1", "it").value();
    any.port = 0;
    port = reactor->listen(any, nullptr).value()->address().port;
  }
  ASSERT_TRUE(settings::set(Setting::HCCL_COMM_ID, "127.0.0.1:" + std::to_string(port)).ok());
  UniqueId given = createUniqueId().value();  // The root passes this one, the others zeros.
  auto results = onRanks<Status>(3, [&](int rank) {
    // The coordinator is rank 0's, and comes late.
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(150));
    auto joined = Bootstrap::join(rank == 0 ? given : UniqueId{}, rank, 3, {.timeoutMs = 20000});
    if (!joined.ok()) return joined.status();
    return (*joined)->barrier("all", soon());
  });
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.toString();
  auto again = Bootstrap::join({}, 1, 3, {.timeoutMs = 100});
  EXPECT_EQ(again.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(again.status().message(), HasSubstr("first communicator"));
  // A second id is a real one.
  UniqueId second = createUniqueId().value();
  EXPECT_FALSE(decodeId(second).value().fromEnvironment);
  EXPECT_TRUE(Bootstrap::join(second, 0, 1, {.timeoutMs = 20000}).ok());
  ASSERT_TRUE(settings::set(Setting::HCCL_COMM_ID, "").ok());
  EXPECT_EQ(Bootstrap::join({}, 0, 1).status().code(), StatusCode::kFailedPrecondition);
}

TEST(Bootstrap, ASocketNeverMeetsItself) {
  // A port of the system's own range with nobody behind it: enough tries hit it as their own.
  Address nobody = parseAddress("127.0.0.1:1", "it").value();
  nobody.port = 0;
  nobody.port = Reactor::acquire().value()->listen(nobody, nullptr).value()->address().port;
  for (int i = 0; i < 60000; ++i)
    ASSERT_EQ(connectTo(nobody, soon(1000)).status().code(), StatusCode::kUnavailable) << i;
}

TEST(Bootstrap, NothingGrowsWithCommunicators) {
  auto run = [](int times) {
    for (int i = 0; i < times; ++i) {
      auto all = joinAll(2);
      ASSERT_TRUE(all[0] && all[1]);
      std::thread other([&] { EXPECT_TRUE(all[1]->barrier("b", soon()).ok()); });
      EXPECT_TRUE(all[0]->barrier("b", soon()).ok());
      other.join();
    }
  };
  auto settle = [] {
    for (int i = 0; i < 500 && Coordinator::instance()->rooms() > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  run(5);
  settle();
  size_t rooms = Coordinator::instance()->rooms();
  int descriptors = entriesOf("/proc/self/fd"), threads = entriesOf("/proc/self/task");
  run(200);
  settle();
  EXPECT_LE(Coordinator::instance()->rooms(), rooms);
  EXPECT_LE(entriesOf("/proc/self/fd"), descriptors + 3);
  EXPECT_LE(entriesOf("/proc/self/task"), threads + 1);
}

}  // namespace
}  // namespace hpu::collectives
