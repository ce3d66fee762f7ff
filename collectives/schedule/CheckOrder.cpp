// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/CheckOrder.h"

#include <algorithm>
#include <string>

#include "base/Format.h"

namespace hpu::collectives {
namespace {

using base::strCat;

// Every step has two nodes: it begins (a send: is offered), and it is done.
class OrderGraph {
 public:
  OrderGraph(const Schedule& schedule, const Messages& messages, const Dependents& dependents,
             std::span<const InPlaceReader> readers)
      : schedule_(schedule), messages_(messages), dependents_(dependents) {
    size_t steps = schedule.steps.size();
    firstReader_.assign(steps + 1, 0);
    for (const InPlaceReader& r : readers) ++firstReader_[r.reader + 1];
    for (size_t i = 0; i < steps; ++i) firstReader_[i + 1] += firstReader_[i];
    readerOf_.resize(readers.size());
    std::vector<int32_t> at(firstReader_.begin(), firstReader_.end() - 1);
    for (const InPlaceReader& r : readers) readerOf_[at[r.reader]++] = messages.partner[r.receive];
    waits_.assign(2 * steps, 0);
    for (size_t i = 0; i < steps; ++i) {
      const Step& step = schedule.steps[i];
      waits_[2 * i] = static_cast<int32_t>(step.after.size());
      waits_[2 * i + 1] = 1;
      if (step.kind == StepKind::kSend && messages.previous[i] >= 0) ++waits_[2 * i];
      if (step.kind == StepKind::kSend || step.kind == StepKind::kRecv) ++waits_[2 * i + 1];
    }
    for (int32_t send : readerOf_) ++waits_[2 * send + 1];
  }

  StatusOr<std::vector<int32_t>> order() {
    size_t steps = schedule_.steps.size();
    std::vector<int32_t> queue, result;
    queue.reserve(2 * steps);
    result.reserve(steps);
    for (size_t i = 0; i < steps; ++i)
      if (waits_[2 * i] == 0) queue.push_back(static_cast<int32_t>(2 * i));
    for (size_t head = 0; head < queue.size(); ++head) {
      int32_t node = queue[head], i = node / 2;
      bool done = node % 2;
      if (done != (schedule_.steps[i].kind == StepKind::kSend)) result.push_back(i);
      forSuccessors(node, [&](int32_t next) {
        if (--waits_[next] == 0) queue.push_back(next);
      });
    }
    if (queue.size() == 2 * steps) return result;
    return internalError(cycleText());
  }

 private:
  template <typename F>
  void forSuccessors(int32_t node, F&& f) const {
    int32_t i = node / 2;
    StepKind kind = schedule_.steps[i].kind;
    if (node % 2 == 0) {
      f(node + 1);
      if (kind == StepKind::kSend) f(2 * messages_.partner[i] + 1);
      return;
    }
    for (int32_t k = dependents_.first[i]; k < dependents_.first[i + 1]; ++k) f(2 * dependents_.steps[k]);
    if (kind == StepKind::kRecv) f(2 * messages_.partner[i] + 1);
    if (kind == StepKind::kSend && messages_.next[i] >= 0) f(2 * messages_.next[i]);
    for (int32_t k = firstReader_[i]; k < firstReader_[i + 1]; ++k) f(2 * readerOf_[k] + 1);
  }

  // Follows what is still waited for, backwards, until a node comes again.
  std::string cycleText() const {
    size_t nodes = waits_.size();
    std::vector<int32_t> waitsFor(nodes, -1);
    int32_t node = -1;
    for (size_t n = 0; n < nodes; ++n) {
      // Nodes that were never reached have all their successors waiting for them.
      if (waits_[n] == 0) continue;
      node = static_cast<int32_t>(n);
      forSuccessors(node, [&](int32_t next) { waitsFor[next] = static_cast<int32_t>(n); });
    }
    std::vector<bool> seen(nodes, false);
    while (!seen[node]) {
      seen[node] = true;
      node = waitsFor[node];
    }
    std::vector<int32_t> cycle;  // Steps, without repetition.
    int32_t start = node;
    do {
      if (cycle.empty() || cycle.back() != node / 2) cycle.push_back(node / 2);
      node = waitsFor[node];
    } while (node != start);
    if (cycle.size() > 1 && cycle.front() == cycle.back()) cycle.pop_back();
    std::string text = "deadlock: ";
    constexpr size_t kShown = 8;
    for (size_t k = 0; k < cycle.size() && k < kShown; ++k) text += stepText(schedule_, cycle[k]) + " waits for ";
    if (cycle.size() > kShown) text += strCat(cycle.size() - kShown, " more that wait for ");
    return text + "the first";
  }

  const Schedule& schedule_;
  const Messages& messages_;
  const Dependents& dependents_;
  std::vector<int32_t> firstReader_, readerOf_;  // By reader: the sends that wait for it.
  std::vector<int32_t> waits_;
};

}  // namespace

StatusOr<std::vector<int32_t>> orderSteps(const Schedule& schedule, const Messages& messages,
                                          const Dependents& dependents, std::span<const InPlaceReader> readers) {
  return OrderGraph(schedule, messages, dependents, readers).order();
}

bool Ancestry::isBefore(int32_t early, int32_t late) {
  const std::vector<Step>& steps = schedule_.steps;
  // Nearly always the answer is among the direct ones.
  for (int32_t a : steps[late].after)
    if (a == early) return true;
  if (seen_.empty()) seen_.assign(steps.size(), 0);
  if (++mark_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0);
    mark_ = 1;
  }
  stack_.assign(1, late);
  while (!stack_.empty()) {
    int32_t step = stack_.back();
    stack_.pop_back();
    for (int32_t a : steps[step].after) {
      if (a == early) return true;
      if (a < early || seen_[a] == mark_) continue;
      seen_[a] = mark_;
      stack_.push_back(a);
    }
  }
  return false;
}

Status checkBarrier(const Schedule& schedule, const Messages& messages, std::span<const int32_t> order) {
  int32_t ranks = schedule.problem.ranks;
  size_t words = (ranks + 63) / 64;
  // The ranks that have begun before a step (a send: is offered; others: is done).
  std::vector<uint64_t> begun(schedule.steps.size() * words, 0);
  std::vector<uint64_t> ends(ranks * words, 0);
  for (int32_t i : order) {
    const Step& step = schedule.steps[i];
    uint64_t* mine = &begun[i * words];
    mine[step.rank / 64] |= uint64_t{1} << (step.rank % 64);
    auto take = [&](int32_t other) {
      for (size_t w = 0; w < words; ++w) mine[w] |= begun[other * words + w];
    };
    for (int32_t a : step.after) take(a);
    if (step.kind == StepKind::kRecv) take(messages.partner[i]);
    for (size_t w = 0; w < words; ++w) ends[step.rank * words + w] |= mine[w];
  }
  for (int32_t rank = 0; rank < ranks; ++rank)
    for (int32_t other = 0; other < ranks; ++other)
      if (other != rank && !(ends[rank * words + other / 64] >> (other % 64) & 1))
        return internalError(strCat("rank ", rank, " can leave the barrier before rank ", other, " has entered it"));
  return {};
}

}  // namespace hpu::collectives
