// SPDX-License-Identifier: Apache-2.0
// Lowering: one rank's part of a schedule in the form that the executor runs: flat arrays, counts
// of what each step waits for, messages numbered by peer.
// The one thing to know: what is received into scratch and only read by reductions, copies and
// small sends is never copied there: its readers read the peer's memory (an alias), and the message
// is released after the last one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/schedule/Schedule.h"

namespace hpu::collectives {

/// Where a step reads or writes.
struct Operand {
  BufferKind buffer = BufferKind::kInput;
  int32_t alias = -1;  ///< Of the plan's steps: the receive whose message has the data.
  int32_t contributor = -1;
  int64_t offset = 0;  ///< Elements into the buffer, or into the alias's message.
};

struct PlanStep {
  StepKind kind = StepKind::kCopy;
  bool alias = false;   ///< Of a receive: its bytes stay where they are.
  bool reread = false;  ///< Of what writes the output: a later step reads it there.
  int32_t peer = -1;
  int32_t readers = 0;  ///< Of an alias: sources that name it.
  int32_t waits = 0;    ///< Steps that must be done before.
  int64_t count = 0;    ///< Elements.
  Operand dst;
  uint32_t firstSource = 0, numSources = 0;  ///< In RankPlan::sources.
  uint32_t firstNext = 0, numNext = 0;       ///< In RankPlan::next: the steps that wait for this one.
};

struct RankPlan {
  std::shared_ptr<const Schedule> schedule;
  int32_t rank = 0;
  std::vector<PlanStep> steps;
  std::vector<Operand> sources;
  std::vector<int32_t> next;
  /// By peer: the sends and receives in the order of the pair's messages.
  std::vector<std::vector<int32_t>> sends, receives;

  std::span<const Operand> sourcesOf(const PlanStep& step) const {
    return {sources.data() + step.firstSource, step.numSources};
  }
};

/// The schedule must have passed checkSchedule: in particular it cannot deadlock when sends wait
/// for readers of aliases. Messages of up to `smallBytes` can be sent on from anywhere.
std::shared_ptr<const RankPlan> lowerSchedule(std::shared_ptr<const Schedule> schedule, int rank, int64_t smallBytes);

}  // namespace hpu::collectives
