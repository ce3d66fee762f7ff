// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/hccl-sim/Explanation.h"

namespace hpu::tools::test {
namespace {

using ::testing::HasSubstr;

SimArguments asked(const std::string& op, std::vector<std::string> nodes, std::vector<int64_t> sizes = {1 << 20}) {
  SimArguments arguments;
  arguments.op = op;
  arguments.target = "gaudi3";
  arguments.nodes = std::move(nodes);
  arguments.sizes = std::move(sizes);
  return arguments;
}

TEST(SimRuns, AreEachSizeOnEachNodeCountWithEachAlgorithm) {
  SimArguments arguments = asked("all_reduce", {"2", "4"}, {1024, 1 << 20});
  auto runs = runsOf(arguments);
  ASSERT_TRUE(runs.ok()) << runs.status().message();
  EXPECT_EQ(runs->runs.size(), 4u);
  EXPECT_TRUE(runs->isComparison);
  EXPECT_EQ(runs->side, Side::kNodes);
  EXPECT_EQ(runs->runs[0].site->map.ranks(), 16);
  EXPECT_EQ(runs->runs[3].site->map.ranks(), 32);
  arguments.whatIfs = {"slow-node=1:0.5"};
  runs = runsOf(arguments);
  EXPECT_EQ(runs->runs.size(), 8u);
  EXPECT_EQ(runs->side, Side::kFabrics);
  EXPECT_EQ(runs->runs[0].site->label, "before");
  EXPECT_EQ(runs->runs[7].site->label, "slow-node=1:0.5");
  EXPECT_EQ(runs->runs[7].site->fabric.rateOf(1), 0.5);
  arguments.sweep = "oversubscription=1,2,4";
  EXPECT_EQ(runsOf(arguments)->runs.size(), 12u);
  arguments = asked("barrier", {"2"}, {1, 2, 3});
  EXPECT_EQ(runsOf(arguments)->runs.size(), 1u);
  arguments = asked("all_reduce", {"2"});
  arguments.ranksPerNode = 3;
  EXPECT_EQ(runsOf(arguments)->runs[0].site->map.ranks(), 6);
}

TEST(SimRuns, WrongUsesAreFoundBeforeAnythingIsPriced) {
  const auto message = [](const SimArguments& arguments) { return runsOf(arguments).status().message(); };
  EXPECT_THAT(message(asked("all_redcue", {"2"})), HasSubstr("there are all_reduce"));
  EXPECT_THAT(message(asked("all_reduce", {})), HasSubstr("--nodes"));
  EXPECT_THAT(message(asked("all_reduce", {"10000"})), HasSubstr("at most 16384"));
  SimArguments arguments = asked("all_reduce", {"2"});
  arguments.topology = "/nowhere.json";
  EXPECT_THAT(message(arguments), HasSubstr("neither a file nor one of"));
  arguments.topology = "hls-2";
  arguments.targetGiven = true;
  EXPECT_THAT(message(arguments), HasSubstr("is of gaudi2"));
  arguments = asked("all_reduce", {"2"});
  arguments.compare = {"all", "snail"};
  EXPECT_THAT(message(arguments), HasSubstr("no algorithm 'snail'"));
  arguments.algorithm = "hcl";
  EXPECT_THAT(message(arguments), HasSubstr("exclude"));
  arguments = asked("send_recv", {"2"});
  arguments.algorithm = "hcl";
  EXPECT_THAT(message(arguments), HasSubstr("no algorithms"));
  arguments = asked("all_reduce", {"2"});
  arguments.ranksPerNode = 9;
  EXPECT_THAT(message(arguments), HasSubstr("has 8 devices"));
  arguments = asked("all_reduce", {"2"});
  arguments.late = {"16:1"};
  EXPECT_THAT(message(arguments), HasSubstr("--late"));
  arguments = asked("all_reduce", {"2"});
  arguments.rootGiven = true;
  EXPECT_THAT(message(arguments), HasSubstr("no root"));
  arguments = asked("all_reduce", {"2"});
  arguments.draw = "/nowhere/x.svg";
  EXPECT_THAT(message(arguments), HasSubstr("/nowhere/x.svg"));
  arguments.draw = "x.png";
  EXPECT_THAT(message(arguments), HasSubstr(".svg or .html"));
  arguments.draw = "";
  arguments.ranks = {"1"};
  EXPECT_THAT(message(arguments), HasSubstr("--export-chakra"));
  arguments = asked("all_reduce", {"16"});
  arguments.chakra = "/tmp/x";
  EXPECT_THAT(message(arguments), HasSubstr("128 ranks are more than the 64"));
  arguments = asked("all_reduce", {"2", "4"});
  arguments.chakra = "/tmp/x";
  EXPECT_THAT(message(arguments), HasSubstr("one operation; this asks for 2"));
}

TEST(SimRuns, SizesThatWereRoundedAreSaid) {
  auto runs = runsOf(asked("all_gather", {"2"}, {1000, 1024, 3}));
  ASSERT_EQ(runs->notes.size(), 1u);
  EXPECT_THAT(runs->notes[0], HasSubstr("1000 bytes are not whole elements for each of 16 ranks: 960 bytes"));
  EXPECT_THAT(runs->notes[0], HasSubstr("1 more"));
}

SimResult priced(const SimArguments& arguments) {
  auto runs = runsOf(arguments);
  EXPECT_TRUE(runs.ok()) << runs.status().message();
  auto result = priceRun(*runs, runs->runs[0], arguments);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(*result) : SimResult();
}

TEST(SimRuns, EightSendersShareTheReceiversRail) {
  const SimResult result = priced(asked("incast", {"9"}, {64 << 20}));
  // 75 GB/s of the data sheet for all, less headers.
  EXPECT_LT(result.algbwGBps(), 75.0 / 8);
  EXPECT_GT(result.algbwGBps(), 9.0);
  EXPECT_NEAR(result.busbwGBps(), 8 * result.algbwGBps(), 1e-9);
}

TEST(SimRuns, EveryRankSimulatedGivesTheSameTimeAsTheAlikeOnesOnce) {
  for (const char* op : {"all_reduce", "all_to_all", "broadcast", "send_recv", "incast", "barrier"}) {
    SimArguments arguments = asked(op, {"4"});
    arguments.late = {"5:3"};
    const SimResult folded = priced(arguments);
    arguments.noFold = true;
    const SimResult every = priced(arguments);
    EXPECT_EQ(folded.timing.endPs, every.timing.endPs) << op;
    EXPECT_EQ(every.timing.classes, 32) << op;
  }
}

TEST(SimRuns, AnExplanationAddsUpForEveryOperation) {
  for (const std::string& op : simOpNames()) {
    SimArguments arguments = asked(op, {"3"});
    arguments.explain = true;
    const SimResult result = priced(arguments);
    const Explanation explanation = explain(result);
    int64_t account = 0, chain = 0;
    for (const TimePart& part : explanation.account) {
      account += part.ps;
      EXPECT_GE(part.ps, 0) << op << " " << part.name;
    }
    for (const TimePart& part : explanation.chain) chain += part.ps;
    EXPECT_EQ(account, result.timePs) << op;
    EXPECT_EQ(chain, result.timePs) << op;
    EXPECT_FALSE(explanation.ports.empty()) << op;
  }
}

}  // namespace
}  // namespace hpu::tools::test
