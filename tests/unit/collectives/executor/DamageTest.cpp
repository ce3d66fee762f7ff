// SPDX-License-Identifier: Apache-2.0
// Data that a network damages behind its own checksum: messages between nodes carry one of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "Threads.h"
#include "World.h"
#include "collectives/transport/local/MemoryNetwork.h"
#include "collectives/transport/net/NetTransport.h"

namespace hpu::collectives {
namespace {

using ::testing::AllOf;
using testing::Call;
using ::testing::HasSubstr;
using testing::Outcome;
using testing::World;

/// Ranks on nodes of their own, over a network that damages every so manyth write.
struct Nodes {
  World world;
  std::vector<std::shared_ptr<LocalGroup>> groups;

  Nodes(int ranks, bool check, int64_t corruptEvery) : world(ranks) {
    MemoryWiresOptions wiresOptions;
    wiresOptions.corruptEvery = corruptEvery;
    auto wires = MemoryWires::create(wiresOptions);
    hpu::testing::ThreadGather gather(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) {
      auto& rank = world.rank(r);
      LocalOptions local;
      local.names = {r};
      groups.push_back(
          LocalGroup::create({{rank.memory.data(), rank.base, static_cast<int64_t>(rank.memory.size())}}, local));
    }
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        NetOptions options;
        options.identity = "damage";
        options.rank = r;
        options.ranks = ranks;
        for (int32_t node = 0; node < ranks; ++node) options.nodeOf.push_back(node);
        options.node = groups[static_cast<size_t>(r)]->transport(0);
        options.network = wires->join();
        options.timeoutMs = options.silenceMs = 60000;
        options.check = check;
        options.allGather = [&, r](const std::string&, const std::string& mine) { return gather(r, mine); };
        auto transport = createNetTransport(options);
        ASSERT_TRUE(transport.ok()) << transport.status().message();
        world.rank(r).transport = *transport;
        world.rank(r).executor = Executor::create(*transport, "damage");
      });
    for (std::thread& thread : threads) thread.join();
  }
};

Call large() {
  Call call;
  call.count = 30'000;
  call.algorithm = "ring";
  return call;
}

TEST(Damage, OfAMessageFailsTheOperationOnAllRanksAndNamesBothEnds) {
  Nodes nodes(3, /*check=*/true, /*corruptEvery=*/5);
  std::vector<Outcome> outcomes(3);
  for (int r = 0; r < 3; ++r)
    nodes.world.rank(r).executor->begin(nodes.world.operation(r, large()), outcomes[static_cast<size_t>(r)].done());
  int finders = 0;
  for (int r = 0; r < 3; ++r) {
    const Status status = outcomes[static_cast<size_t>(r)].wait().status;
    // The receiver's own word; the others hear of it from that rank.
    const bool found = status.code() == StatusCode::kDataLoss;
    finders += found;
    EXPECT_TRUE(found || status.code() == StatusCode::kAborted) << status.message();
    EXPECT_THAT(status.message(), AllOf(HasSubstr(" bytes of message "), HasSubstr("from rank"), HasSubstr("to rank"),
                                        HasSubstr("damaged on their way"), HasSubstr("all-reduce #1")));
  }
  EXPECT_GE(finders, 1);
}

TEST(Damage, IsNotSeenWithoutTheCheckAndWhatIsWholePassesIt) {
  std::mt19937_64 random(2);
  for (bool check : {false, true}) {
    Nodes nodes(3, check, 0);
    ASSERT_NO_FATAL_FAILURE(nodes.world.runAndCheck(large(), random));
    Call small = large();
    small.count = 100;
    ASSERT_NO_FATAL_FAILURE(nodes.world.runAndCheck(small, random));
  }
}

}  // namespace
}  // namespace hpu::collectives
