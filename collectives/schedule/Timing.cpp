// SPDX-License-Identifier: Apache-2.0
#include "collectives/schedule/Timing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/FloatEnvironment.h"
#include "collectives/schedule/ArrivalMemory.h"
#include "collectives/schedule/Messages.h"
#include "collectives/topology/Traffic.h"

namespace hpu::collectives {

// What the simulation needs of a schedule, flat.
struct ScheduleTimer::Plan {
  struct Node {
    StepKind kind;
    int32_t rank, waits;
    int32_t partner, next;  // Of messages: the other end; the pair's next one.
    bool first;             // Of its pair.
    int64_t costPs;         // Of the link or the engine.
    int64_t bytes;          // Of a message.
  };
  std::vector<Node> nodes;
  Dependents dependents;
  std::vector<std::vector<int32_t>> startingOf;  // By rank: steps that wait for nothing.
  std::vector<int64_t> linkBytes;
  int64_t startPs = 0, messagePs = 0;
  Framing framing;
};

struct ScheduleTimer::Memory {
  std::mutex mutex;  // Guards `uses`.
  std::map<int32_t, std::shared_ptr<const RankUse>> uses;
  ArrivalMemory patterns;
};

namespace {

int64_t bytesOf(const Problem& problem, const Range& range) {
  return range.count * (range.buffer == BufferKind::kPartial ? problem.partialBytes : problem.elementBytes);
}

}  // namespace

ScheduleTimer::ScheduleTimer(const Schedule& schedule, const LinkModel& links)
    : plan_(std::make_unique<Plan>()), memory_(std::make_unique<Memory>()) {
  Plan& plan = *plan_;
  plan.startPs = links.startPs;
  plan.messagePs = links.messagePs;
  plan.framing = linkFraming(links);
  plan.linkBytes.assign(schedule.problem.ranks, 0);
  plan.startingOf.resize(schedule.problem.ranks);
  StatusOr<Messages> messages = matchMessages(schedule);
  if (!messages.ok()) return;  // Not a checked schedule: nothing to time.
  plan.dependents = dependentsOf(schedule);
  plan.nodes.resize(schedule.steps.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    Plan::Node& node = plan.nodes[i];
    node.kind = step.kind;
    node.rank = step.rank;
    node.waits = static_cast<int32_t>(step.after.size());
    node.partner = messages->partner[i];
    node.next = messages->next[i];
    node.first = messages->previous[i] < 0;
    node.costPs = 0;
    node.bytes = 0;
    if (node.waits == 0) plan.startingOf[step.rank].push_back(static_cast<int32_t>(i));
    if (step.kind == StepKind::kRecv) continue;
    int64_t bytes = 0;
    for (const Range& source : step.sources) bytes += bytesOf(schedule.problem, source);
    switch (step.kind) {
      case StepKind::kSend:
        node.costPs = links.linkPs(bytes);
        node.bytes = bytes;
        plan.linkBytes[step.rank] += bytes;
        break;
      case StepKind::kReduce:
        node.costPs = links.reducePs(bytes + bytesOf(schedule.problem, step.dst));
        break;
      default:
        node.costPs = links.copyPs(bytes + bytesOf(schedule.problem, step.dst));
        break;
    }
    if (step.kind != StepKind::kSend && step.dst.count == 0) node.costPs = 0;
  }
}

ScheduleTimer::~ScheduleTimer() = default;

namespace {

// Events in the order of their time, then of their number: deterministic.
class EventQueue {
 public:
  explicit EventQueue(size_t room) { heap_.reserve(room); }
  void push(int64_t timePs, int32_t number) {
    heap_.emplace_back(timePs, number);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }
  bool empty() const { return heap_.empty(); }
  std::pair<int64_t, int32_t> pop() {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    std::pair<int64_t, int32_t> top = heap_.back();
    heap_.pop_back();
    return top;
  }

 private:
  std::vector<std::pair<int64_t, int32_t>> heap_;
};

}  // namespace

ScheduleTiming ScheduleTimer::run(std::span<const int64_t> arrivalPs, bool wantSteps, const LinkState& links) const {
  const Plan& plan = *plan_;
  const int32_t steps = static_cast<int32_t>(plan.nodes.size());
  const size_t ranks = plan.startingOf.size();
  ScheduleTiming timing;
  timing.linkBytes = plan.linkBytes;
  timing.endPs.assign(arrivalPs.begin(), arrivalPs.end());
  timing.endPs.resize(ranks, 0);
  if (wantSteps) timing.steps.resize(steps);

  struct State {
    int32_t waits;
    bool ready = false;
    int64_t readyPs = 0;
  };
  std::vector<State> state(steps);
  for (int32_t i = 0; i < steps; ++i) state[i].waits = plan.nodes[i].waits;
  std::vector<bool> turn(steps, false);  // Of sends: the pair's earlier ones have left the link.
  std::vector<int64_t> engineFreePs(ranks, 0);
  // By link: from when on it is free; ranks of one device share its links.
  int32_t devices = 0;
  for (int32_t device : links.devices) devices = std::max(devices, device + 1);
  const auto linkOf = [&](int32_t from, int32_t to) -> size_t {
    if (links.devices.empty()) return static_cast<size_t>(from) * ranks + static_cast<size_t>(to);
    return static_cast<size_t>(links.devices[from]) * static_cast<size_t>(devices) +
           static_cast<size_t>(links.devices[to]);
  };
  std::vector<int64_t> linkFreePs(links.devices.empty() ? ranks * ranks : static_cast<size_t>(devices) * devices, 0);
  EventQueue events(steps + ranks);

  // Sends `send`, if both ends are ready and it is its turn, and those behind it.
  auto advance = [&](int32_t send) {
    for (; send >= 0; send = plan.nodes[send].next) {
      const Plan::Node& node = plan.nodes[send];
      const State &from = state[send], &to = state[node.partner];
      if (!from.ready || !to.ready || !(node.first || turn[send])) return;
      const int32_t receiver = plan.nodes[node.partner].rank;
      int64_t& linkFree = linkFreePs[linkOf(node.rank, receiver)];
      int64_t start = std::max({from.readyPs, to.readyPs, linkFree});
      // What each end of the link has taken on before this operation.
      if (!links.freePs.empty())
        start = std::max(start, links.freePs[static_cast<size_t>(node.rank) * ranks + static_cast<size_t>(receiver)]);
      int64_t left = start + node.costPs, there = left + plan.messagePs;
      linkFree = left;
      events.push(there, send);
      events.push(there, node.partner);
      if (wantSteps) timing.steps[send] = timing.steps[node.partner] = {start, there};
      if (node.next >= 0) turn[node.next] = true;
    }
  };
  auto becomeReady = [&](int32_t i, int64_t now) {
    const Plan::Node& node = plan.nodes[i];
    state[i].ready = true;
    state[i].readyPs = now;
    if (node.kind == StepKind::kSend) return advance(i);
    if (node.kind == StepKind::kRecv) return advance(node.partner);
    int64_t start = std::max(now, engineFreePs[node.rank]);
    int64_t end = start + node.costPs;
    engineFreePs[node.rank] = end;
    if (wantSteps) timing.steps[i] = {start, end};
    events.push(end, i);
  };

  for (size_t r = 0; r < ranks; ++r)
    if (!plan.startingOf[r].empty()) events.push(timing.endPs[r] + plan.startPs, steps + static_cast<int32_t>(r));
  while (!events.empty()) {
    auto [now, number] = events.pop();
    if (number >= steps) {
      for (int32_t i : plan.startingOf[number - steps]) becomeReady(i, now);
      continue;
    }
    int64_t& end = timing.endPs[plan.nodes[number].rank];
    end = std::max(end, now);
    for (int32_t k = plan.dependents.first[number]; k < plan.dependents.first[number + 1]; ++k) {
      int32_t next = plan.dependents.steps[k];
      if (--state[next].waits == 0) becomeReady(next, now);
    }
  }
  return timing;
}

LinkState ScheduleTimer::relevant(std::span<const int64_t> arrivalPs, LinkState links) const {
  const size_t ranks = plan_->startingOf.size();
  bool any = false;
  for (size_t i = 0; i < links.freePs.size(); ++i) {
    const int64_t arrival = std::max(arrivalPs[i / ranks], arrivalPs[i % ranks]);
    if (links.freePs[i] > arrival + plan_->startPs)
      any = true;
    else
      links.freePs[i] = 0;
  }
  if (!any) links.freePs.clear();
  std::vector<int32_t> seen = links.devices;
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) == seen.end()) links.devices.clear();
  return links;
}

std::shared_ptr<const RankUse> ScheduleTimer::use(int32_t rank) const {
  {
    std::lock_guard lock(memory_->mutex);
    if (auto known = memory_->uses.find(rank); known != memory_->uses.end()) return known->second;
  }
  std::map<std::pair<int32_t, bool>, node::PortTraffic> carried;
  for (const Plan::Node& node : plan_->nodes) {
    if (node.kind != StepKind::kSend) continue;
    const int32_t receiver = plan_->nodes[static_cast<size_t>(node.partner)].rank;
    const node::PortTraffic message = plan_->framing.of(node.bytes, node.costPs);
    if (node.rank == rank) carried[{receiver, true}] += message;
    if (receiver == rank) carried[{node.rank, false}] += message;
  }
  auto use = std::make_shared<RankUse>();
  for (const auto& [link, traffic] : carried) use->links.push_back({link.first, link.second, traffic.busyPs, traffic});
  const std::vector<int64_t> ends = endPs(std::vector<int64_t>(plan_->startingOf.size(), 0));
  if (static_cast<size_t>(rank) < ends.size()) use->leastPs = ends[static_cast<size_t>(rank)];
  std::lock_guard lock(memory_->mutex);
  return memory_->uses.try_emplace(rank, std::move(use)).first->second;
}

std::vector<StepTime> ScheduleTimer::stepsOf(int32_t rank, std::span<const int64_t> arrivalPs,
                                             const LinkState& links) const {
  const ScheduleTiming timing = run(arrivalPs, true, links);
  std::vector<StepTime> steps;
  for (size_t i = 0; i < plan_->nodes.size(); ++i)
    if (plan_->nodes[i].rank == rank) steps.push_back(timing.steps[i]);
  return steps;
}

int64_t ScheduleTimer::startPs() const {
  return plan_->startPs;
}

std::vector<int64_t> ScheduleTimer::endPs(std::span<const int64_t> arrivalPs, const LinkState& links) const {
  std::vector<int64_t> ends;
  endPs(arrivalPs, links.trivial() ? LinkState() : relevant(arrivalPs, links), ends);
  return ends;
}

void ScheduleTimer::endPs(std::span<const int64_t> arrivalPs, const LinkState& links,
                          std::vector<int64_t>& ends) const {
  memory_->patterns.endPs(
      plan_->startingOf.size(), arrivalPs, links, ends,
      [&](std::span<const int64_t> arrivals, const LinkState& busy) { return run(arrivals, false, busy).endPs; });
}

int64_t ScheduleTimer::predictPs() const {
  std::vector<int64_t> ends = endPs(std::vector<int64_t>(plan_->startingOf.size(), 0));
  return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
}

size_t ScheduleTimer::steps() const {
  return plan_->nodes.size();
}

ScheduleTiming timeSchedule(const Schedule& schedule, const LinkModel& links, std::span<const int64_t> arrivalPs,
                            bool wantSteps) {
  return ScheduleTimer(schedule, links).run(arrivalPs, wantSteps);
}

int64_t predictPs(const Schedule& schedule, const LinkModel& links) {
  return ScheduleTimer(schedule, links).predictPs();
}

int64_t lowerBoundPs(const Problem& problem, const LinkModel& links) {
  int64_t n = problem.ranks;
  if (n < 2) return 0;
  double bytes = static_cast<double>(problem.count) * problem.elementBytes;
  double peers = static_cast<double>(n - 1);
  double perLink = 0;  // Bytes that each link of the busiest rank carries one way, at best.
  switch (problem.collective) {
    case Collective::kAllReduce:
      perLink = 2 * bytes / static_cast<double>(n);
      break;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      perLink = bytes;
      break;
    case Collective::kBroadcast:
    case Collective::kReduce:
      perLink = bytes / peers;
      break;
    case Collective::kPointToPoint:
      perLink = problem.root == problem.destination ? 0 : bytes / peers;
      break;
    case Collective::kBarrier:
      break;
  }
  return static_cast<int64_t>(perLink / links.linkBytesPerNs * 1000);
}

int64_t transfersEndPs(const LinkModel& links, int32_t rank, int64_t arrivalPs, std::span<const TransferLeg> legs) {
  base::FloatScope floats;  // On threads of the program; both ends must find the same times.
  int64_t end = arrivalPs, engineFree = 0;
  std::map<std::pair<int32_t, bool>, int64_t> linkFree, railReady;
  std::array<std::vector<std::pair<int64_t, const TransferLeg::Way*>>, 2> byRail;  // In, out: when they are ready.
  for (const TransferLeg& leg : legs) {
    int64_t ready = std::max({arrivalPs, leg.ownArrivalPs, leg.peerArrivalPs}) + links.startPs;
    if (leg.peer == rank) {
      if (!leg.send) continue;
      engineFree = std::max(ready, engineFree) + links.copyPs(2 * leg.bytes);
      end = std::max(end, engineFree);
      continue;
    }
    if (leg.way && leg.way->rail) {
      int64_t& before = railReady[{leg.peer, leg.send}];
      before = std::max(before, ready);
      byRail[leg.send ? 1 : 0].emplace_back(before, &*leg.way);
      continue;
    }
    const int64_t linkPs = links.linkPs(leg.bytes);
    const TransferLeg::Way way = leg.way.value_or(TransferLeg::Way{false, linkPs, linkPs, links.messagePs});
    int64_t& free = linkFree[{leg.peer, leg.send}];
    free = std::max(ready, free) + way.busyPs;
    end = std::max(end, free + way.messagePs);
  }
  for (auto& messages : byRail) {
    std::stable_sort(messages.begin(), messages.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    int64_t free = 0;
    for (const auto& [ready, way] : messages) {
      const int64_t start = std::max(ready, free);
      free = start + way->busyPs;
      end = std::max(end, start + std::max(way->busyPs, way->throughPs) + way->messagePs);
    }
  }
  return end;
}

}  // namespace hpu::collectives
