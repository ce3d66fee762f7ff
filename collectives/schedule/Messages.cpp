// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/Messages.h"

#include "base/Format.h"

namespace hpu::collectives {
namespace {

using base::strCat;

// Steps of one kind, sorted by (sender, receiver) and within a pair in their order: two stable
// counting sorts, so that the cost does not grow with the square of the ranks.
std::vector<int32_t> sortedByPair(const Schedule& schedule, StepKind kind) {
  std::vector<int32_t> in, out;
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    if (schedule.steps[i].kind == kind) in.push_back(static_cast<int32_t>(i));
  out.resize(in.size());
  std::vector<size_t> first(schedule.problem.ranks + 1);
  for (bool bySender : {false, true}) {
    auto key = [&](int32_t i) {
      const Step& step = schedule.steps[i];
      return bySender == (kind == StepKind::kSend) ? step.rank : step.peer;
    };
    std::fill(first.begin(), first.end(), 0);
    for (int32_t i : in) ++first[key(i) + 1];
    for (size_t r = 1; r < first.size(); ++r) first[r] += first[r - 1];
    for (int32_t i : in) out[first[key(i)]++] = i;
    in.swap(out);
  }
  return in;
}

}  // namespace

StatusOr<Messages> matchMessages(const Schedule& schedule) {
  const std::vector<Step>& steps = schedule.steps;
  Messages messages;
  for (auto* list : {&messages.partner, &messages.previous, &messages.next, &messages.number})
    list->assign(steps.size(), -1);
  std::vector<int32_t> sends = sortedByPair(schedule, StepKind::kSend);
  std::vector<int32_t> receives = sortedByPair(schedule, StepKind::kRecv);
  size_t s = 0, r = 0;
  while (s < sends.size() || r < receives.size()) {
    // The next pair that has messages.
    std::pair<int32_t, int32_t> ofSend{INT32_MAX, 0}, ofReceive{INT32_MAX, 0};
    if (s < sends.size()) ofSend = {steps[sends[s]].rank, steps[sends[s]].peer};
    if (r < receives.size()) ofReceive = {steps[receives[r]].peer, steps[receives[r]].rank};
    std::pair<int32_t, int32_t> pair = std::min(ofSend, ofReceive);
    size_t sEnd = s, rEnd = r;
    while (sEnd < sends.size() && std::pair(steps[sends[sEnd]].rank, steps[sends[sEnd]].peer) == pair) ++sEnd;
    while (rEnd < receives.size() && std::pair(steps[receives[rEnd]].peer, steps[receives[rEnd]].rank) == pair) ++rEnd;
    if (sEnd - s != rEnd - r)
      return internalError(strCat("rank ", pair.first, " sends ", sEnd - s, " messages to rank ", pair.second,
                                  ", which receives ", rEnd - r, " from it"));
    for (int32_t number = 0; s < sEnd; ++s, ++r, ++number) {
      int32_t send = sends[s], receive = receives[r];
      messages.partner[send] = receive;
      messages.partner[receive] = send;
      messages.number[send] = messages.number[receive] = number;
      if (number > 0) {
        messages.previous[send] = sends[s - 1];
        messages.previous[receive] = receives[r - 1];
        messages.next[sends[s - 1]] = send;
        messages.next[receives[r - 1]] = receive;
      }
      const Range& from = steps[send].sources[0];
      const Range& to = steps[receive].dst;
      if (from.count != to.count)
        return internalError(strCat(stepText(schedule, send), " and ", stepText(schedule, receive),
                                    " are one message (number ", number, " of the pair) and differ in size"));
      if ((from.buffer == BufferKind::kPartial) != (to.buffer == BufferKind::kPartial))
        return internalError(strCat(stepText(schedule, send), " and ", stepText(schedule, receive),
                                    " are one message (number ", number,
                                    " of the pair), and only one end has partial results"));
    }
  }
  return messages;
}

Dependents dependentsOf(const Schedule& schedule) {
  Dependents result;
  result.first.assign(schedule.steps.size() + 1, 0);
  for (const Step& step : schedule.steps)
    for (int32_t before : step.after) ++result.first[before + 1];
  for (size_t i = 1; i < result.first.size(); ++i) result.first[i] += result.first[i - 1];
  result.steps.resize(result.first.back());
  std::vector<int32_t> at(result.first.begin(), result.first.end() - 1);
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    for (int32_t before : schedule.steps[i].after) result.steps[at[before]++] = static_cast<int32_t>(i);
  return result;
}

}  // namespace hpu::collectives
