// SPDX-License-Identifier: Apache-2.0
#include "tools/hccl-sim/Operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hpu::tools::test {
namespace {

using collectives::Fabric;
using collectives::RankMap;
using collectives::StepKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Operations : public ::testing::Test {
 protected:
  Fabric fabric = collectives::standardFabric(Target::kGaudi3, 4);
  RankMap map = *RankMap::all(fabric);
  StatusOr<Work> work(const std::string& name, int64_t bytes, int64_t root = 0) {
    WorkOptions options;
    options.op = *parseSimOp(name);
    options.root = root;
    return workOf(options, map, bytes);
  }
};

TEST_F(Operations, HaveTheFactorsOfNcclTests) {
  // nccl-tests' GetBw functions, for n = 32 ranks.
  const std::map<std::string, double> factors = {{"all_reduce", 2.0 * 31 / 32},
                                                 {"all_gather", 31.0 / 32},
                                                 {"reduce_scatter", 31.0 / 32},
                                                 {"all_to_all", 31.0 / 32},
                                                 {"gather", 31.0 / 32},
                                                 {"scatter", 31.0 / 32},
                                                 {"broadcast", 1},
                                                 {"reduce", 1},
                                                 {"send_recv", 1}};
  for (const auto& [name, factor] : factors) {
    auto w = work(name, 1 << 20);
    ASSERT_TRUE(w.ok()) << name << w.status().message();
    EXPECT_DOUBLE_EQ(w->busFactor(), factor) << name;
    EXPECT_EQ(w->bytes(), 1 << 20) << name;
  }
  EXPECT_EQ(work("incast", 1 << 20)->busFactor(), 8);
  EXPECT_EQ(work("barrier", 1 << 20)->bytes(), 0);
  EXPECT_EQ(simOpNames().size(), 11u);
}

TEST_F(Operations, SizesAreRoundedToWhatAllRanksShare) {
  EXPECT_EQ(work("all_gather", 1000)->bytes(), 32 * 4 * 7);
  EXPECT_EQ(work("all_gather", 1)->bytes(), 32 * 4);
  EXPECT_EQ(work("all_reduce", 1001)->bytes(), 1000);
  EXPECT_EQ(work("all_reduce", 1001)->askedBytes, 1001);
  EXPECT_EQ(work("all_to_all", 0)->bytes(), 0);
}

TEST_F(Operations, ThatCannotBeAreErrors) {
  EXPECT_THAT(parseSimOp("all_redcue").status().message(), HasSubstr("there are all_reduce"));
  EXPECT_THAT(work("broadcast", 4, 32).status().message(), HasSubstr("ranks 0 to 31"));
  EXPECT_THAT(work("broadcast", 4, -1).status().message(), HasSubstr("--root -1"));
  EXPECT_FALSE(work("all_gather", INT64_MAX).ok());
  WorkOptions options;
  options.op = SimOp::kIncast;
  for (int64_t senders : {0, 25}) {
    options.senders = senders;
    EXPECT_THAT(workOf(options, map, 4).status().message(), HasSubstr("give 1 to 24")) << senders;
  }
  options.op = SimOp::kSendRecv;
  for (int64_t shift : {0, 32, -1}) {
    options.shift = shift;
    EXPECT_THAT(workOf(options, map, 4).status().message(), HasSubstr("from 1 to 31")) << shift;
  }
}

TEST_F(Operations, SendersOfAnIncastAreOnOtherNodesAndSpreadOverThem) {
  WorkOptions options;
  options.op = SimOp::kIncast;
  options.root = 9;  // Node 1.
  options.senders = 5;
  EXPECT_THAT(workOf(options, map, 4)->senders, ElementsAre(16, 24, 0, 17, 25));
}

/// The k-th send of a to b and the k-th receive of b from a are one message of equal size; and roles are as Plan says.
void expectMatched(const collectives::Plan& plan) {
  std::map<std::pair<int32_t, int32_t>, std::vector<int64_t>> sent, received;
  std::map<int32_t, size_t> stepsOfRole;
  for (int32_t rank = 0; rank < plan.map().ranks(); ++rank) {
    const auto program = plan.program(rank);
    ASSERT_LT(plan.roleOf(rank), plan.roles());
    EXPECT_EQ(stepsOfRole.try_emplace(plan.roleOf(rank), program.steps.size()).first->second, program.steps.size());
    for (const auto& step : program.steps) {
      const int32_t peer = collectives::resolve(plan.map(), rank, program.peers[static_cast<size_t>(step.peer)]);
      EXPECT_NE(peer, rank);
      if (step.kind == StepKind::kSend) sent[{rank, peer}].push_back(step.bytes);
      if (step.kind == StepKind::kRecv) received[{peer, rank}].push_back(step.bytes);
    }
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(static_cast<int32_t>(stepsOfRole.size()), plan.roles());
}

TEST_F(Operations, MessagesMatch) {
  WorkOptions options;
  for (int64_t shift : {1, 8, 31}) {
    options.op = SimOp::kSendRecv;
    options.shift = shift;
    expectMatched(*messagePlan(*workOf(options, map, 1 << 20), map));
  }
  for (int64_t senders : {1, 8, 24}) {
    options.op = SimOp::kIncast;
    options.senders = senders;
    options.root = 5;
    const Work work = *workOf(options, map, (5 << 20) + 4);
    const auto plan = messagePlan(work, map);
    expectMatched(*plan);
    int64_t bytes = 0;
    for (const auto& step : plan->program(5).steps) bytes += step.bytes;
    EXPECT_EQ(bytes, senders * ((5 << 20) + 4));
  }
}

TEST_F(Operations, TheBoundOfMessagesIsThatOfTheBusiestPort) {
  WorkOptions options;
  options.op = SimOp::kIncast;
  // Data sheet: three ports of 200 Gb/s leave a Gaudi 3 for other nodes: 75 GB/s.
  auto plan = messagePlan(*workOf(options, map, 75'000'000), map);
  EXPECT_EQ(messagesBoundPs(*plan, fabric), 8'000'000'000);
  options.op = SimOp::kSendRecv;
  plan = messagePlan(*workOf(options, map, 75'000'000), map);
  EXPECT_EQ(messagesBoundPs(*plan, fabric), 1'000'000'000);
  fabric.exceptions.push_back({.node = 2, .rate = 0.5, .railsDown = {}, .devices = {}});
  EXPECT_EQ(messagesBoundPs(*plan, fabric), 2'000'000'000);
}

}  // namespace
}  // namespace hpu::tools::test
