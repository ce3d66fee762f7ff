// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/Program.h"

#include <algorithm>
#include <utility>

namespace hpu::collectives {

int32_t resolve(const RankMap& map, int32_t rank, PeerName peer) {
  const auto wrapped = [](int32_t value, int32_t size) { return ((value % size) + size) % size; };
  const Position here = map.position(rank);
  switch (peer.form) {
    case PeerName::Form::kGridShift:
      return map.rankAt(wrapped(here.node + peer.a, map.nodes()), wrapped(here.local + peer.b, map.ranksPerNode()));
    case PeerName::Form::kNodeXor:
      return map.rankAt(here.node ^ peer.a, here.local);
    case PeerName::Form::kRankShift:
      return wrapped(rank + peer.a, map.ranks());
    case PeerName::Form::kRank:
      return peer.a;
  }
  return peer.a;
}

namespace {

Schedule scheduleFor(const Plan& plan) {
  Schedule schedule;
  schedule.problem = plan.problem();
  schedule.algorithm = plan.algorithm();
  schedule.slices = plan.chunks();
  return schedule;
}

void append(Schedule& schedule, const Plan& plan, int32_t rank, Program program) {
  const auto base = static_cast<int32_t>(schedule.steps.size());
  schedule.steps.reserve(schedule.steps.size() + program.steps.size());
  for (ProgramStep& own : program.steps) {
    Step step;
    step.kind = own.kind;
    step.rank = rank;
    if (own.peer >= 0) step.peer = resolve(plan.map(), rank, program.peers[static_cast<size_t>(own.peer)]);
    step.dst = own.dst;
    step.sources = std::move(own.sources);
    step.after = std::move(own.after);
    for (int32_t& earlier : step.after) earlier += base;
    schedule.steps.push_back(std::move(step));
  }
  schedule.scratchElements = std::max(schedule.scratchElements, program.scratchElements);
  schedule.partialElements = std::max(schedule.partialElements, program.partialElements);
}

}  // namespace

Schedule assemble(const Plan& plan) {
  Schedule schedule = scheduleFor(plan);
  for (int32_t rank = 0; rank < plan.map().ranks(); ++rank) append(schedule, plan, rank, plan.program(rank));
  schedule.finish();
  return schedule;
}

Schedule scheduleOf(const Plan& plan, int32_t rank) {
  return scheduleOf(plan, rank, plan.program(rank));
}

Schedule scheduleOf(const Plan& plan, int32_t rank, Program program) {
  Schedule schedule = scheduleFor(plan);
  append(schedule, plan, rank, std::move(program));
  schedule.finish();
  return schedule;
}

}  // namespace hpu::collectives
