// SPDX-License-Identifier: Apache-2.0
// The flows of each collective, run on small buffers, give what it is defined to give; parts cover
// them once, and shares cover the parts.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "collectives/executor/DirectPlan.h"

namespace hpu::collectives {
namespace {

using Buffers = std::vector<std::vector<int64_t>>;

/// Any value says whose it is and where it stood.
int64_t valueOf(int rank, int64_t index) {
  return (int64_t{1} << (4 * rank)) * 1000 + index;
}

/// By the definitions of the collectives, not by flows; -1: not written.
int64_t expected(const Problem& p, int rank, int64_t index) {
  auto sum = [&](int64_t at) {
    int64_t total = 0;
    for (int from = 0; from < p.ranks; ++from) total += valueOf(from, at);
    return total;
  };
  const int64_t block = p.count > 0 ? index / p.count : 0;
  const int64_t within = p.count > 0 ? index % p.count : 0;
  switch (p.collective) {
    case Collective::kAllReduce:
      return sum(index);
    case Collective::kReduce:
      return sum(index);
    case Collective::kReduceScatter:
      return sum(rank * p.count + index);
    case Collective::kAllGather:
    case Collective::kGather:
      return valueOf(static_cast<int>(block), within);
    case Collective::kAllToAll:
      return valueOf(static_cast<int>(block), rank * p.count + within);
    case Collective::kBroadcast:
    case Collective::kPointToPoint:
      return valueOf(p.root, index);
    case Collective::kScatter:
      return valueOf(p.root, rank * p.count + index);
    case Collective::kBarrier:
      break;
  }
  return -1;
}

void runAndCheck(const Problem& p) {
  SCOPED_TRACE(problemText(p));
  const DirectPlan plan = directPlan(p);
  Buffers outputs(static_cast<size_t>(p.ranks));
  std::vector<std::vector<int>> writes(outputs.size());
  for (int rank = 0; rank < p.ranks; ++rank) {
    const auto size = static_cast<size_t>(outputElements(p, rank));
    outputs[static_cast<size_t>(rank)].assign(size, -1);
    writes[static_cast<size_t>(rank)].assign(size, 0);
  }
  ASSERT_EQ(plan.firstPart(0), 0);
  ASSERT_EQ(plan.firstPart(p.ranks), plan.parts());
  for (int64_t index = 0; index < plan.parts(); ++index) {
    const DirectPlan::Part part = plan.part(index);
    ASSERT_GT(part.count, 0);
    ASSERT_FALSE(part.flows.empty());
    for (const Flow& flow : part.flows) {
      for (int64_t i = part.offset; i < part.offset + part.count; ++i) {
        int64_t value = 0;
        for (int from = 0; from < p.ranks; ++from) {
          if (flow.from != Flow::kAllRanks && flow.from != from) continue;
          ASSERT_LT(flow.input + i, inputElements(p, from));
          value += valueOf(from, flow.input + i);
        }
        for (int to = 0; to < p.ranks; ++to) {
          if (flow.to != Flow::kAllRanks && flow.to != to) continue;
          const auto at = static_cast<size_t>(flow.output + i);
          ASSERT_LT(at, outputs[static_cast<size_t>(to)].size());
          outputs[static_cast<size_t>(to)][at] = value;
          ++writes[static_cast<size_t>(to)][at];
        }
      }
    }
  }
  for (int rank = 0; rank < p.ranks; ++rank) {
    for (size_t i = 0; i < outputs[static_cast<size_t>(rank)].size(); ++i) {
      ASSERT_EQ(writes[static_cast<size_t>(rank)][i], 1) << "rank " << rank << ", element " << i;
      ASSERT_EQ(outputs[static_cast<size_t>(rank)][i], expected(p, rank, static_cast<int64_t>(i)))
          << "rank " << rank << ", element " << i;
    }
  }
}

TEST(DirectPlan, GivesWhatTheCollectiveIsDefinedToGive) {
  std::mt19937 random(7);
  for (int collective = 0; collective < kNumCollectives; ++collective) {
    for (int ranks : {1, 2, 3, 5, 8}) {
      for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1024}, int64_t{40001}}) {
        Problem p;
        p.collective = static_cast<Collective>(collective);
        p.ranks = ranks;
        p.count = count;
        p.root = static_cast<int32_t>(random() % static_cast<uint32_t>(ranks));
        p.destination = static_cast<int32_t>(random() % static_cast<uint32_t>(ranks));
        if (p.collective == Collective::kPointToPoint && p.root == p.destination) continue;
        p.elementBytes = int32_t{1} << random() % 4;
        runAndCheck(p);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(DirectPlan, SmallWorkIsOnePartAndLargeWorkHasSomeForEveryRank) {
  Problem p;
  p.ranks = 8;
  p.count = 256;
  EXPECT_EQ(directPlan(p).parts(), 1);
  p.collective = Collective::kAllToAll;  // Of 64 flows, which go together.
  p.count = 512;
  EXPECT_EQ(directPlan(p).parts(), 2);
  p.collective = Collective::kAllReduce;
  p.count = 16 << 20;
  const DirectPlan plan = directPlan(p);
  for (int rank = 0; rank < p.ranks; ++rank) EXPECT_GE(plan.firstPart(rank + 1) - plan.firstPart(rank), 4);
  EXPECT_EQ(plan.traffic, int64_t{16} * 4 * (16 << 20));
  p.collective = Collective::kBarrier;
  p.count = 0;
  EXPECT_EQ(directPlan(p).parts(), 0);
}

}  // namespace
}  // namespace hpu::collectives
