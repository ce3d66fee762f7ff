// SPDX-License-Identifier: Apache-2.0
// Random changes of the schedules of every algorithm: whatever still passes the check works, on a
// machine that runs it on numbers, in any interleaving, in place or not, with received scratch
// copied or read at its sender.
#include <gtest/gtest.h>

#include <random>

#include "Schedules.h"
#include "collectives/algorithms/Registry.h"
#include "collectives/schedule/Check.h"

namespace hpu::collectives::test {
namespace {

class Mutations {
 public:
  explicit Mutations(uint32_t seed) : random_(seed) {}
  int32_t below(size_t n) { return static_cast<int32_t>(random_() % n); }

  void change(Schedule& s) {
    Step& step = s.steps[below(s.steps.size())];
    int32_t index = static_cast<int32_t>(&step - s.steps.data());
    switch (below(8)) {
      case 0:
        if (index > 0) step.after.push_back(below(index));
        break;
      case 1:
        if (!step.after.empty()) step.after.erase(step.after.begin() + below(step.after.size()));
        break;
      case 2: {  // Two steps of a kind change places.
        Step& other = s.steps[below(s.steps.size())];
        if (other.kind != step.kind || other.rank != step.rank) break;
        std::swap(other.sources, step.sources);
        std::swap(other.dst, step.dst);
        break;
      }
      case 3:
        if (!step.sources.empty() && step.sources[0].offset > 0) --step.sources[0].offset;
        break;
      case 4:
        if (step.dst.offset > 0) --step.dst.offset;
        break;
      case 5:
        if (step.sources.size() > 1) std::swap(step.sources[0], step.sources[below(step.sources.size())]);
        break;
      case 6:  // More order than is needed: within the rank, by a message that must be done.
        for (int32_t i = index - 1; i >= 0; --i)
          if (s.steps[i].rank == step.rank && below(3) == 0) {
            step.after.push_back(i);
            break;
          }
        break;
      case 7:
        if (step.kind == StepKind::kRecv && step.dst.buffer != BufferKind::kPartial)
          step.dst.buffer = below(2) ? BufferKind::kOutput : BufferKind::kScratch;
        break;
    }
  }

 private:
  std::mt19937 random_;
};

TEST(CheckMutation, WhatPassesWorks) {
  std::vector<Schedule> good;
  for (const Algorithm& algorithm : algorithms())
    for (int c = 0; c < kNumCollectives; ++c)
      for (int32_t ranks : {2, 3, 4}) {
        Problem problem{static_cast<Collective>(c), ranks, 7};
        if (problem.collective == Collective::kBarrier) problem.count = 0;
        problem.root = ranks - 1;
        if (algorithm.accepts(problem)) good.push_back(algorithm.make(problem, {2}));
      }
  ASSERT_GT(good.size(), 40u);
  Mutations mutations(11);
  int passed = 0, refused = 0;
  for (int round = 0; round < 1200; ++round) {
    Schedule s = good[round % good.size()];
    for (int changes = 1 + mutations.below(2); changes > 0; --changes) mutations.change(s);
    s.finish();
    if (!checkSchedule(s).ok()) {
      ++refused;
      continue;
    }
    ++passed;
    for (bool inPlace : {false, true})
      for (bool zeroCopy : {false, true})
        ASSERT_EQ(runSchedule(s, {1 + uint64_t(round), inPlace, zeroCopy}), "")
            << s.algorithm << ", " << problemText(s.problem) << ", round " << round;
  }
  EXPECT_GT(passed, 200);
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace hpu::collectives::test
