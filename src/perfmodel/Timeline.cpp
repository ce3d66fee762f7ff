// SPDX-License-Identifier: Apache-2.0
// The discrete-event simulation behind the device clock: between two events nothing changes but the
// remaining work of at most one command an engine, so each event costs a few integer operations.
#include "perfmodel/Timeline.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <string>

#include "base/StatusMacros.h"

namespace hpu::perfmodel {
namespace {

constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();
// Beyond this (46 days of device time) sums could overflow.
constexpr Picoseconds kMaxTime = Picoseconds{4} * 1000 * 1000 * 1000 * 1000 * 1000 * 1000;

/// Bandwidth is dealt out in parts of kShare, and remaining transfers are counted in picoseconds
/// alone times kShare: everything stays an integer.
constexpr int64_t kShare = 1 << 12;

/// One memory as the running commands share it: max-min fair, no command gets more than it can use.
struct Flow {
  int64_t remaining = 0;  ///< Picoseconds alone x kShare.
  int64_t cap = 0;        ///< Share at which the transfer just keeps up with the command's compute time.
  int64_t share = 0;
  void begin(Picoseconds alone, Picoseconds compute) {
    remaining = alone * kShare;
    cap = alone >= compute ? kShare : std::max<int64_t>((remaining + compute - 1) / compute, 1);
    share = 0;
  }
  Picoseconds left() const { return remaining == 0 ? 0 : (remaining + share - 1) / share; }
  void advance(Picoseconds dt) {
    // share <= kShare and remaining = time * kShare, so the product is in range when dt <= left().
    if (remaining) remaining = dt >= left() ? 0 : remaining - share * dt;
  }
};

struct QueueState {
  const std::vector<TimedCommand>* commands = nullptr;
  std::vector<Interval>* intervals = nullptr;
  uint32_t launch = 0, queue = 0;
  uint32_t next = 0;      ///< The command at the head.
  uint32_t nextWait = 0;  ///< Its first wait that is not known to be satisfied.
  uint8_t engine = 0;
  Picoseconds predecessorEnd = 0;
};

struct Runnable {
  Picoseconds since;
  int32_t priority;
  uint32_t launch, queue;
  uint32_t state;  ///< Index of the QueueState.
};
struct RunsLater {
  bool operator()(const Runnable& a, const Runnable& b) const {
    if (a.since != b.since) return a.since > b.since;
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.launch != b.launch) return a.launch > b.launch;
    return a.queue > b.queue;
  }
};

struct EngineState {
  std::priority_queue<Runnable, std::vector<Runnable>, RunsLater> runnable;
  Picoseconds freeFrom = 0;
  bool active = false;
  uint32_t state = 0;
  Picoseconds ready = 0, start = 0, computeEnd = 0;
  Flow hbm, sram;
};

struct Signals {
  std::vector<uint32_t> counts;
  std::vector<std::vector<uint32_t>> waiters;  ///< Indices of QueueStates.
};

class Simulation {
 public:
  Simulation(const arch::TargetDesc& target, const std::vector<TimedLaunch>& launches)
      : target_(target), launches_(launches) {}

  StatusOr<TimelineResult> run(const Picoseconds* engineFree);

 private:
  Status prepare(const Picoseconds* engineFree);
  Status arm(uint32_t state, Picoseconds now);
  void start(EngineState& engine, Picoseconds now);
  Status finish(uint8_t engine, Picoseconds now);
  void share(Flow EngineState::* flow);
  Status deadlock() const;

  const arch::TargetDesc& target_;
  const std::vector<TimedLaunch>& launches_;
  TimelineResult result_;
  std::vector<QueueState> queues_;
  std::vector<Signals> signals_;
  std::vector<uint32_t> arrivals_;                       ///< Launches by earliest start.
  std::vector<std::pair<uint32_t, uint32_t>> queuesOf_;  ///< First and one past last QueueState of a launch.
  EngineState engines_[kNumEngines];
  uint64_t unfinished_ = 0;
};

Status Simulation::prepare(const Picoseconds* engineFree) {
  result_.intervals.resize(launches_.size());
  result_.launchStart.assign(launches_.size(), kNever);
  result_.launchEnd.assign(launches_.size(), 0);
  signals_.resize(launches_.size());
  queuesOf_.resize(launches_.size());
  size_t total = 0;
  for (const TimedLaunch& launch : launches_) total += launch.queues ? launch.queues->size() : 0;
  queues_.reserve(total);
  for (uint32_t l = 0; l < launches_.size(); ++l) {
    const TimedLaunch& launch = launches_[l];
    if (launch.earliestStart < 0 || launch.earliestStart > kMaxTime)
      return outOfRange("launch " + std::to_string(l) + " starts at " + std::to_string(launch.earliestStart) +
                        " ps, outside of the device clock");
    signals_[l].counts.assign(launch.numSignals, 0);
    signals_[l].waiters.resize(launch.numSignals);
    uint32_t first = static_cast<uint32_t>(queues_.size());
    uint32_t count = launch.queues ? static_cast<uint32_t>(launch.queues->size()) : 0;
    result_.intervals[l].resize(count);
    for (uint32_t q = 0; q < count; ++q) {
      const TimedQueue& queue = (*launch.queues)[q];
      result_.intervals[l][q].resize(queue.commands.size());
      QueueState state;
      state.commands = &queue.commands;
      state.intervals = &result_.intervals[l][q];
      state.launch = l;
      state.queue = q;
      state.engine = static_cast<uint8_t>(queue.engine) % kNumEngines;
      state.predecessorEnd = launch.earliestStart;
      if (!queue.commands.empty()) ++unfinished_;
      queues_.push_back(state);
    }
    queuesOf_[l] = {first, static_cast<uint32_t>(queues_.size())};
    arrivals_.push_back(l);
  }
  std::stable_sort(arrivals_.begin(), arrivals_.end(),
                   [&](uint32_t a, uint32_t b) { return launches_[a].earliestStart < launches_[b].earliestStart; });
  if (engineFree)
    for (int e = 0; e < kNumEngines; ++e) engines_[e].freeFrom = std::max<Picoseconds>(engineFree[e], 0);
  return okStatus();
}

/// Puts the queue among the runnable ones of its engine, or with the signal that its head waits
/// for.
Status Simulation::arm(uint32_t index, Picoseconds now) {
  QueueState& queue = queues_[index];
  Signals& signals = signals_[queue.launch];
  const TimedCommand& command = (*queue.commands)[queue.next];
  for (; queue.nextWait < command.waits.size(); ++queue.nextWait) {
    const recipe::Wait& wait = command.waits[queue.nextWait];
    if (wait.signal >= signals.counts.size())
      return internalError("launch " + std::to_string(queue.launch) + ", queue " + std::to_string(queue.queue) +
                           ", command " + std::to_string(queue.next) + " waits for signal " +
                           std::to_string(wait.signal) + " of " + std::to_string(signals.counts.size()));
    if (signals.counts[wait.signal] < wait.value) {
      signals.waiters[wait.signal].push_back(index);
      return okStatus();
    }
  }
  engines_[queue.engine].runnable.push({now, launches_[queue.launch].priority, queue.launch, queue.queue, index});
  return okStatus();
}

void Simulation::start(EngineState& engine, Picoseconds now) {
  engine.state = engine.runnable.top().state;
  engine.runnable.pop();
  QueueState& queue = queues_[engine.state];
  const Cost& cost = (*queue.commands)[queue.next].cost;
  engine.active = true;
  engine.ready = std::max(queue.predecessorEnd, engine.freeFrom);
  engine.start = now;
  engine.computeEnd = now + cost.compute;
  engine.hbm.begin(hbmTime(target_, cost.bytes.hbm), cost.compute);
  engine.sram.begin(sramTime(target_, cost.bytes.sram), cost.compute);
  Picoseconds& first = result_.launchStart[queue.launch];
  first = std::min(first, now);
}

Status Simulation::finish(uint8_t index, Picoseconds now) {
  EngineState& engine = engines_[index];
  QueueState& queue = queues_[engine.state];
  const TimedCommand& command = (*queue.commands)[queue.next];
  Interval& interval = (*queue.intervals)[queue.next];
  interval.ready = engine.ready;
  interval.start = engine.start;
  interval.end = now;
  interval.terms = command.cost.terms;
  interval.terms[static_cast<size_t>(Term::kSync)] += engine.start - engine.ready;
  interval.terms[static_cast<size_t>(Term::kMemory)] += now - engine.start - command.cost.alone;
  result_.busy[index] += now - engine.start;
  result_.launchEnd[queue.launch] = std::max(result_.launchEnd[queue.launch], now);
  result_.end = std::max(result_.end, now);
  engine.freeFrom = now;
  engine.active = false;

  uint32_t finished = engine.state;
  queue.predecessorEnd = now;
  queue.nextWait = 0;
  if (++queue.next == queue.commands->size())
    --unfinished_;
  else
    HPU_RETURN_IF_ERROR(arm(finished, now));

  if (command.signal == recipe::kNone) return okStatus();
  Signals& signals = signals_[queue.launch];
  if (command.signal >= signals.counts.size())
    return internalError("launch " + std::to_string(queue.launch) + " counts up signal " +
                         std::to_string(command.signal) + " of " + std::to_string(signals.counts.size()));
  ++signals.counts[command.signal];
  if (signals.waiters[command.signal].empty()) return okStatus();
  std::vector<uint32_t> woken;
  woken.swap(signals.waiters[command.signal]);
  for (uint32_t waiter : woken) HPU_RETURN_IF_ERROR(arm(waiter, now));
  // Keep the list's capacity when no command had to wait on.
  woken.clear();
  if (signals.waiters[command.signal].empty()) signals.waiters[command.signal].swap(woken);
  return okStatus();
}

/// Progressive filling: the most modest first, each at most an equal part of what is left.
void Simulation::share(Flow EngineState::* flow) {
  Flow* active[kNumEngines];
  int count = 0;
  for (EngineState& engine : engines_) {
    if (!engine.active || (engine.*flow).remaining == 0) continue;
    Flow* f = &(engine.*flow);
    int at = count++;
    for (; at > 0 && active[at - 1]->cap > f->cap; --at) active[at] = active[at - 1];
    active[at] = f;
  }
  int64_t left = kShare;
  for (int i = 0; i < count; ++i) {
    active[i]->share = std::min(active[i]->cap, left / (count - i));
    left -= active[i]->share;
  }
}

Status Simulation::deadlock() const {
  for (const QueueState& queue : queues_) {
    if (queue.next == queue.commands->size()) continue;
    const TimedCommand& command = (*queue.commands)[queue.next];
    if (queue.nextWait >= command.waits.size()) continue;
    const recipe::Wait& wait = command.waits[queue.nextWait];
    return internalError(
        "the queues deadlock: command " + std::to_string(queue.next) + " of queue " + std::to_string(queue.queue) +
        " (" + std::string(engineName(static_cast<Engine>(queue.engine))) + ") of launch " +
        std::to_string(queue.launch) + " waits for signal " + std::to_string(wait.signal) + " to reach " +
        std::to_string(wait.value) + ", which stays at " + std::to_string(signals_[queue.launch].counts[wait.signal]));
  }
  return internalError("the queues stopped without a waiting command");
}

StatusOr<TimelineResult> Simulation::run(const Picoseconds* engineFree) {
  HPU_RETURN_IF_ERROR(prepare(engineFree));
  Picoseconds now = 0;
  size_t arrived = 0;
  while (true) {
    // Everything that may start now, engine by engine.
    for (; arrived < arrivals_.size() && launches_[arrivals_[arrived]].earliestStart <= now; ++arrived) {
      auto [first, last] = queuesOf_[arrivals_[arrived]];
      for (uint32_t q = first; q < last; ++q)
        if (!queues_[q].commands->empty()) HPU_RETURN_IF_ERROR(arm(q, now));
    }
    for (EngineState& engine : engines_)
      if (!engine.active && !engine.runnable.empty() && engine.freeFrom <= now) start(engine, now);
    share(&EngineState::hbm);
    share(&EngineState::sram);

    // The next event: an arrival, an engine that becomes free, or the end of a transfer or a
    // computation.
    Picoseconds dt = kNever;
    if (arrived < arrivals_.size()) dt = launches_[arrivals_[arrived]].earliestStart - now;
    for (const EngineState& engine : engines_) {
      if (!engine.active) {
        if (!engine.runnable.empty()) dt = std::min(dt, engine.freeFrom - now);
        continue;
      }
      Picoseconds compute = engine.computeEnd > now ? engine.computeEnd - now : 0;
      Picoseconds hbm = engine.hbm.left(), sram = engine.sram.left();
      // What ends first changes the shares; the computation alone does not.
      if (hbm) dt = std::min(dt, hbm);
      if (sram) dt = std::min(dt, sram);
      if (!hbm && !sram) dt = std::min(dt, compute);
    }
    if (dt == kNever) break;
    now += dt;
    if (now > kMaxTime) return outOfRange("the device clock overflows: more than 46 days of device time");
    for (uint8_t e = 0; e < kNumEngines; ++e) {
      EngineState& engine = engines_[e];
      if (!engine.active) continue;
      engine.hbm.advance(dt);
      engine.sram.advance(dt);
    }
    for (uint8_t e = 0; e < kNumEngines; ++e) {
      EngineState& engine = engines_[e];
      if (engine.active && engine.computeEnd <= now && engine.hbm.remaining == 0 && engine.sram.remaining == 0)
        HPU_RETURN_IF_ERROR(finish(e, now));
    }
  }
  if (unfinished_ != 0) return deadlock();
  for (size_t l = 0; l < launches_.size(); ++l) {
    if (result_.launchStart[l] != kNever) continue;
    result_.launchStart[l] = result_.launchEnd[l] = launches_[l].earliestStart;
    result_.end = std::max(result_.end, result_.launchEnd[l]);
  }
  for (int e = 0; e < kNumEngines; ++e) result_.engineFree[e] = engines_[e].freeFrom;
  return std::move(result_);
}

}  // namespace

StatusOr<TimelineResult> simulate(const arch::TargetDesc& target, const arch::ClockProfile&,
                                  const std::vector<TimedLaunch>& launches, const Picoseconds* engineFree) {
  return Simulation(target, launches).run(engineFree);
}

Picoseconds lowerBound(const arch::TargetDesc& target, const std::vector<TimedQueue>& queues) {
  Picoseconds compute[kNumEngines] = {}, hbm = 0, sram = 0;
  for (const TimedQueue& queue : queues)
    for (const TimedCommand& command : queue.commands) {
      compute[static_cast<unsigned>(queue.engine) % kNumEngines] += command.cost.compute;
      hbm += hbmTime(target, command.cost.bytes.hbm);
      sram += sramTime(target, command.cost.bytes.sram);
    }
  return std::max({*std::max_element(compute, compute + kNumEngines), hbm, sram});
}

}  // namespace hpu::perfmodel
