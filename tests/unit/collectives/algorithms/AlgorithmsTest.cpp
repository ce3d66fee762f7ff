// SPDX-License-Identifier: Apache-2.0
// Every registered algorithm on problems of all kinds: proven by the checker, and run by the
// interpreter, which knows nothing of the checker.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "Interpreter.h"
#include "base/Format.h"
#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Check.h"

namespace hpu::collectives {
namespace {

using base::strCat;

std::string name(const Algorithm& algorithm, const Problem& p, int32_t slices) {
  return strCat(std::string(algorithm.name), ", ", slices, " slices: ", problemText(p), ", root ", p.root);
}

Problem problem(Collective collective, int ranks, int64_t count, int root = 0) {
  Problem p;
  p.collective = collective;
  p.ranks = ranks;
  p.count = count;
  p.root = root;
  p.destination = (root + 1) % ranks;
  return p;
}

constexpr int kRanks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32};

std::vector<int64_t> counts(int n) {
  return {0, 1, 2, std::max(0, n - 1), n, n + 1, 63, 64, 65, 1023, 1024};
}

/// Every (collective, ranks, count, root) of the matrix that an algorithm accepts.
template <typename Visit>
void forEachProblem(const Visit& visit) {
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; c++)
      for (const int ranks : kRanks)
        for (const int root : std::set<int>{0, ranks / 2, ranks - 1})
          for (const int64_t count : counts(ranks)) {
            const Problem p = problem(static_cast<Collective>(c), ranks, count, root);
            if (algorithm.accepts(p)) visit(algorithm, p);
          }
}

TEST(Algorithms, PassTheCheckerOnTheWholeMatrix) {
  std::mt19937_64 random(11);
  int64_t checked = 0;
  forEachProblem([&](const Algorithm& algorithm, const Problem& p) {
    // Large groups: some of them.
    if (random() % (p.ranks > 9 ? 16 : p.ranks > 6 ? 4 : 1) != 0) return;
    const int32_t slices = random() % 2 == 0 ? 1 : static_cast<int32_t>(1 + random() % 9);
    const int64_t hop = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 1000);
    const Schedule s = algorithm.make(p, {slices, hop});
    const Status status = checkSchedule(s);
    EXPECT_TRUE(status.ok()) << name(algorithm, p, slices) << ": " << status.message();
    EXPECT_EQ(s.algorithm, algorithm.name);
    EXPECT_TRUE(s.problem == p);
    checked++;
  });
  EXPECT_GT(checked, 3000);
}

TEST(Algorithms, GiveTheRightDataInAnyInterleaving) {
  std::mt19937_64 random(12);
  int64_t run = 0;
  forEachProblem([&](const Algorithm& algorithm, const Problem& p) {
    if (random() % (p.ranks > 9 ? 64 : p.ranks > 4 ? 8 : 2) != 0 || p.count > 1023) return;
    const auto slices = static_cast<int32_t>(1 + random() % 8);
    Interleaving how;
    how.seed = random();
    how.inPlace = random() % 2 == 0;
    how.mixed = random() % 4 == 0;
    how.copied = static_cast<int>(random() % 11);
    how.readInPlace = static_cast<int>(random() % 11);
    how.strict = random() % 2 == 0;
    const int64_t hop = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 1000);
    EXPECT_EQ(interpret(algorithm.make(p, {slices, hop}), how), "")
        << name(algorithm, p, slices) << ", hop " << hop << ", seed " << how.seed << ", in place " << how.inPlace
        << how.mixed << ", copied " << how.copied << ", read in place " << how.readInPlace << ", strict " << how.strict;
    run++;
  });
  EXPECT_GT(run, 1000);
}

// What hardware does at its worst: nothing is buffered, everything is read where it lies.
TEST(Algorithms, NeedNoBuffersToGoOn) {
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; c++)
      for (const int ranks : {2, 3, 5, 8})
        for (const bool inPlace : {false, true}) {
          const Problem p = problem(static_cast<Collective>(c), ranks, 500, 1);
          if (!algorithm.accepts(p)) continue;
          for (const int32_t slices : {1, 6}) {
            Interleaving how;
            how.seed = static_cast<uint64_t>(ranks);
            how.inPlace = inPlace;
            how.copied = 0;
            how.readInPlace = 10;
            how.strict = true;
            EXPECT_EQ(interpret(algorithm.make(p, {slices}), how), "")
                << name(algorithm, p, slices) << ", in place " << inPlace;
          }
        }
}

TEST(Algorithms, TakeTheLargestCountsAndRefuseLargerOnes) {
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; c++)
      for (const int ranks : {2, 3, 8, 32}) {
        Problem p = problem(static_cast<Collective>(c), ranks, INT64_MAX / 64 / ranks / ranks, 1);
        p.partialBytes = p.elementBytes = 8;
        if (!algorithm.accepts(p)) continue;
        const std::vector<int32_t> slices = algorithm.sliceChoices(p);
        const Status status = checkSchedule(algorithm.make(p, {slices.back()}));
        EXPECT_TRUE(status.ok()) << name(algorithm, p, slices.back()) << status.message();
        p.count = INT64_MAX / ranks;
        EXPECT_FALSE(algorithm.accepts(p)) << name(algorithm, p, 1);
        p.count = -1;
        EXPECT_FALSE(algorithm.accepts(p)) << name(algorithm, p, 1);
        p.count = 1;
        EXPECT_TRUE(algorithm.accepts(p)) << name(algorithm, p, 1);
        p.root = ranks;
        EXPECT_FALSE(algorithm.accepts(p)) << name(algorithm, p, 1);
      }
}

TEST(Algorithms, OddOptionsGiveRightSchedulesToo) {
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; c++)
      for (const AlgorithmOptions& options : {AlgorithmOptions{-3, 0}, AlgorithmOptions{0, -100},
                                              AlgorithmOptions{INT32_MAX, 0}, AlgorithmOptions{7, INT64_MAX}}) {
        const Problem p = problem(static_cast<Collective>(c), 3, 200, 2);
        if (!algorithm.accepts(p)) continue;
        const Schedule s = algorithm.make(p, options);
        const Status status = checkSchedule(s);
        EXPECT_TRUE(status.ok()) << name(algorithm, p, options.slices) << status.message();
        EXPECT_GE(s.slices, 1);
        EXPECT_LE(s.slices, 200);
      }
}

TEST(Algorithms, HaveFewStepsAndLittleScratch) {
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; c++)
      for (const int ranks : {2, 4, 8, 32}) {
        const Problem p = problem(static_cast<Collective>(c), ranks, int64_t{1} << 28);
        if (!algorithm.accepts(p)) continue;
        const std::vector<int32_t> slices = algorithm.sliceChoices(p);
        ASSERT_FALSE(slices.empty());
        EXPECT_TRUE(std::is_sorted(slices.begin(), slices.end()));
        EXPECT_LE(slices.size(), 5u);
        const Schedule s = algorithm.make(p, {slices.back()});
        for (const auto& steps : s.ofRank) EXPECT_LE(steps.size(), 4096u) << name(algorithm, p, slices.back());
        if (ranks > 8) continue;
        if (algorithm.name == "mesh" || algorithm.name == "scatter-exchange" || algorithm.name == "relays") {
          EXPECT_LE(s.scratchElements, p.count) << name(algorithm, p, slices.back());
          EXPECT_EQ(s.partialElements, 0);
        }
      }
}

/// Elements that a rank sends to each other one.
std::vector<int64_t> sent(const Schedule& s, int rank) {
  std::vector<int64_t> result(static_cast<size_t>(s.problem.ranks));
  for (const int32_t i : s.ofRank[static_cast<size_t>(rank)])
    if (s.steps[static_cast<size_t>(i)].kind == StepKind::kSend)
      result[static_cast<size_t>(s.steps[static_cast<size_t>(i)].peer)] +=
          s.steps[static_cast<size_t>(i)].sources[0].count;
  return result;
}

const Algorithm& find(std::string_view name, const Problem& p) {
  return *findAlgorithm(name, p).value();
}

// In slices, what a link carries is a slice more than the (n - 1)th part that it must at least.
TEST(Algorithms, OptimalBroadcastAndReduceLoadAllLinksAlike) {
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    const Problem p = problem(collective, 8, int64_t{7} << 20, 3);
    const Schedule s = find("scatter-exchange", p).make(p, {16});
    for (int rank = 0; rank < 8; rank++) {
      const std::vector<int64_t> elements = sent(s, rank);
      for (int to = 0; to < 8; to++) {
        if (to == rank || (collective == Collective::kBroadcast && to == 3)) continue;
        EXPECT_NEAR(elements[static_cast<size_t>(to)], 1 << 20, (1 << 20) / 17) << rank << " to " << to;
      }
    }
  }
}

TEST(Algorithms, RelaysShareALoadThatFillsTheLinksOfBothEnds) {
  const Problem p = problem(Collective::kPointToPoint, 8, int64_t{7} << 20, 3);
  const std::vector<int64_t> elements = sent(find("relays", p).make(p, {32}), p.root);
  for (int to = 0; to < 8; to++) {
    if (to == 3) continue;
    EXPECT_NEAR(elements[static_cast<size_t>(to)], 1 << 20, (1 << 20) / 30);
  }
}

TEST(Algorithms, WhatALinkCarriesDuringAHopGoesDirectly) {
  Problem p = problem(Collective::kPointToPoint, 8, int64_t{7} << 20, 3);
  const int64_t hop = 1 << 16;  // Elements of 4 bytes.
  std::vector<int64_t> elements = sent(find("relays", p).make(p, {32, 4 * hop}), p.root);
  EXPECT_NEAR(elements[4] - elements[5], hop + elements[5] / 32, 600);
  p.count = hop;
  elements = sent(find("relays", p).make(p, {32, 4 * hop}), p.root);
  EXPECT_EQ(elements[4], hop);
  p.collective = Collective::kBroadcast;
  EXPECT_EQ(sent(find("scatter-exchange", p).make(p, {32, 4 * hop}), 5), std::vector<int64_t>(8, 0));
}

TEST(Algorithms, TheMeshReducesRawContributionsInRankOrder) {
  for (const std::string_view algorithm : {"mesh", "mesh-one-shot"}) {
    const Problem p = problem(Collective::kAllReduce, 6, 6000);
    for (const Step& step : find(algorithm, p).make(p, {3}).steps) {
      if (step.kind != StepKind::kReduce) continue;
      ASSERT_EQ(step.sources.size(), 6u);
      for (int rank = 0; rank < 6; rank++) EXPECT_EQ(step.sources[static_cast<size_t>(rank)].contributor, rank);
    }
  }
}

TEST(Algorithms, HalvingDoublingSendsTwoMessagesForEachDoubling) {
  const Problem p = problem(Collective::kAllReduce, 16, 16000);
  const Schedule s = find("halving-doubling", p).make(p, {1});
  for (const auto& steps : s.ofRank)
    EXPECT_EQ(std::count_if(steps.begin(), steps.end(),
                            [&](int32_t i) { return s.steps[static_cast<size_t>(i)].kind == StepKind::kSend; }),
              8);
}

TEST(Algorithms, AnUnknownNameIsRefusedWithThoseThatThereAre) {
  const auto found = findAlgorithm("star", problem(Collective::kBroadcast, 4, 10));
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(found.status().message(),
            "no algorithm 'star' for broadcast on 4 ranks; there are: mesh, ring, tree, "
            "scatter-exchange");
}

TEST(Algorithms, EveryCollectiveHasOneOnEveryNumberOfRanks) {
  for (int c = 0; c < kNumCollectives; c++)
    for (int ranks = 1; ranks <= 40; ranks++) {
      const Problem p = problem(static_cast<Collective>(c), ranks, 1 << 20);
      EXPECT_TRUE(
          std::any_of(algorithms().begin(), algorithms().end(), [&](const Algorithm& a) { return a.accepts(p); }));
    }
}

}  // namespace
}  // namespace hpu::collectives
