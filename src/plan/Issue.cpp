// SPDX-License-Identifier: Apache-2.0
#include "plan/Issue.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/StatusMacros.h"
#include "plan/Dependencies.h"
#include "plan/Slices.h"

namespace hpu::plan {
namespace {

using perfmodel::Picoseconds;

/// So many of the commands that could run are looked at.
constexpr size_t kLookAhead = 64;
/// Pairs of commands of which one has to follow the other; each takes some bytes. Programs have a few for each command.
constexpr size_t kMostConflicts = size_t{1} << 24;

Status tooManyConflicts() {
  return resourceExhausted("the commands of the program touch the same bytes in more than 2^24 pairs");
}

/// The order of all commands in which they can be issued one after another, by number.
using Order = std::vector<uint32_t>;

class Issuer {
 public:
  explicit Issuer(const std::vector<const std::vector<SlicedCommand>*>& units) {
    ConflictFinder conflicts;
    for (const std::vector<SlicedCommand>* unit : units) {
      const auto first = static_cast<uint32_t>(commands_.size());
      for (const SlicedCommand& command : *unit) {
        const auto index = static_cast<uint32_t>(commands_.size());
        commands_.push_back(&command);
        before_.push_back(conflicts.add(index, command.accesses));
        for (uint32_t other : command.before) before_.back().push_back(first + other);
        conflicts_ += before_.back().size();
        if (conflicts_ > kMostConflicts) return;
      }
    }
  }

  Status status() const { return conflicts_ <= kMostConflicts ? okStatus() : tooManyConflicts(); }

  Order programOrder() const {
    Order order(commands_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
    return order;
  }

  /// List scheduling: whichever command can start first, in program order where several can.
  Order earliestFirst() const { return listed(nullptr); }

  /// List scheduling: whichever command can start first; of several the one with the longest `tail`, if given, then in
  /// program order.
  Order listed(const Picoseconds* tail) const {
    const size_t count = commands_.size();
    std::vector<std::vector<uint32_t>> after(count);
    std::vector<size_t> missing(count);
    std::vector<Picoseconds> ready(count, 0);
    std::set<uint32_t> open[kQueues];
    for (uint32_t i = 0; i < count; ++i) {
      missing[i] = before_[i].size();
      for (uint32_t other : before_[i]) after[other].push_back(i);
      if (missing[i] == 0) open[commands_[i]->queue].insert(i);
    }
    Order order;
    order.reserve(count);
    Picoseconds free[kQueues] = {};
    while (order.size() < count) {
      uint32_t best = recipe::kNone;
      Picoseconds bestStart = std::numeric_limits<Picoseconds>::max();
      for (unsigned queue = 0; queue < kQueues; ++queue) {
        size_t seen = 0;
        for (uint32_t i : open[queue]) {
          if (++seen > kLookAhead) break;
          const Picoseconds start = std::max(free[queue], ready[i]);
          const bool isLonger = tail && start == bestStart && tail[i] > tail[best];
          const bool isEqual = start == bestStart && i < best && (!tail || tail[i] == tail[best]);
          if (start < bestStart || isLonger || isEqual) {
            best = i;
            bestStart = start;
          }
          if (!tail && start == free[queue]) break;  // The others come later in program order.
        }
      }
      const unsigned queue = commands_[best]->queue;
      open[queue].erase(best);
      order.push_back(best);
      free[queue] = bestStart + commands_[best]->cost.alone;
      for (uint32_t next : after[best]) {
        ready[next] = std::max(ready[next], free[queue]);
        if (--missing[next] == 0) open[commands_[next]->queue].insert(next);
      }
    }
    return order;
  }

  /// List scheduling, where several can start first, by what has to follow: whichever command begins the longest chain
  /// of others. Work that much waits for does not stand behind work that nobody waits for.
  Order longestTailFirst() const {
    std::vector<Picoseconds> tail(commands_.size(), 0);
    for (size_t i = commands_.size(); i-- > 0;) {
      tail[i] += commands_[i]->cost.alone;
      for (uint32_t other : before_[i]) tail[other] = std::max(tail[other], tail[i]);
    }
    return listed(tail.data());
  }

  /// The queues, one an engine.
  std::vector<recipe::Queue> fill(const Order& order) const {
    std::vector<recipe::Queue> queues;
    for (unsigned queue = 0; queue < kQueues; ++queue) queues.push_back({static_cast<Engine>(queue), {}});
    WaitPlacer waits(kQueues);
    std::vector<uint32_t> position(commands_.size());
    for (uint32_t index : order) {
      const SlicedCommand& source = *commands_[index];
      Clock needed(kQueues, 0);
      for (uint32_t other : before_[index]) {
        uint32_t& count = needed[commands_[other]->queue];
        count = std::max(count, position[other] + 1);
      }
      position[index] = waits.commands(source.queue);
      recipe::Command command = source.command;
      command.waits = waits.issue(source.queue, needed);
      command.signal = source.queue;
      queues[source.queue].commands.push_back(std::move(command));
    }
    return queues;
  }

  StatusOr<Issued> issue(const IssueContext& context, Order order) const {
    Issued issued;
    issued.queues = fill(order);
    std::vector<perfmodel::TimedQueue> timed(kQueues);
    for (unsigned queue = 0; queue < kQueues; ++queue) {
      timed[queue].engine = static_cast<Engine>(queue);
      timed[queue].commands.reserve(issued.queues[queue].commands.size());
    }
    for (uint32_t index : order) {
      const SlicedCommand& source = *commands_[index];
      perfmodel::TimedQueue& queue = timed[source.queue];
      const recipe::Command& command = issued.queues[source.queue].commands[queue.commands.size()];
      queue.commands.push_back({source.cost, command.waits, command.signal});
    }
    issued.lowerBound = perfmodel::lowerBound(context.target, timed);
    issued.order = std::move(order);
    perfmodel::TimedLaunch launch;
    launch.queues = &timed;
    launch.numSignals = kQueues;
    HPU_ASSIGN(perfmodel::TimelineResult result, perfmodel::simulate(context.target, context.clock, {launch}));
    issued.time = result.end;
    return issued;
  }

 private:
  std::vector<const SlicedCommand*> commands_;  ///< In program order.
  std::vector<std::vector<uint32_t>> before_;   ///< By command: what it has to follow.
  size_t conflicts_ = 0;                        ///< How many pairs those are.
};

}  // namespace

std::vector<SlicedCommand> sliceUnit(const IssueContext& context, const IssueUnit& unit) {
  std::vector<SlicedCommand> commands;
  forEachCommand(context.program, unit, ownTiles(context.program, unit),
                 [&](const recipe::Command& command, const std::vector<uint32_t>& before) {
                   SlicedCommand& sliced = commands.emplace_back();
                   sliced.command = command;
                   sliced.queue = static_cast<unsigned>(context.program.ops[command.op].engine);
                   sliced.cost = perfmodel::commandCost(context.program, command, context.target, context.clock);
                   recipe::appendAccesses(context.program, command, sliced.accesses, &context.reads);
                   sliced.before = before;
                 });
  return commands;
}

StatusOr<Issued> issueCommands(const IssueContext& context, const std::vector<const std::vector<SlicedCommand>*>& units,
                               bool reorder) {
  Issuer issuer(units);
  HPU_RETURN_IF_ERROR(issuer.status());
  HPU_ASSIGN(Issued best, issuer.issue(context, issuer.programOrder()));
  if (!reorder) return best;
  Order earliest = issuer.earliestFirst(), tails = issuer.longestTailFirst();
  for (Order* order : {&earliest, &tails}) {
    if (*order == best.order || (order == &tails && tails == earliest)) continue;
    HPU_ASSIGN(Issued other, issuer.issue(context, *order));
    if (other.time < best.time) best = std::move(other);
  }
  return best;
}

StatusOr<std::optional<std::vector<recipe::Queue>>> issueInOrder(const recipe::Program& program,
                                                                 const recipe::KernelReads& reads,
                                                                 const std::vector<IssueUnit>& units,
                                                                 const std::vector<uint32_t>& order) {
  // As Issuer does, but without anything that a price needs, and with few allocations.
  std::vector<recipe::Command> commands;
  commands.reserve(order.size());
  std::vector<uint32_t> before;
  std::vector<size_t> end;  // By command: where in `before` what it has to follow ends.
  end.reserve(order.size());
  std::vector<recipe::Access> accesses;
  ConflictFinder conflicts;
  for (const IssueUnit& unit : units) {
    const auto first = static_cast<uint32_t>(commands.size());
    forEachCommand(program, unit, ownTiles(program, unit),
                   [&](const recipe::Command& command, const std::vector<uint32_t>& also) {
                     accesses.clear();
                     recipe::appendAccesses(program, command, accesses, &reads);
                     if (before.size() <= kMostConflicts)
                       conflicts.add(static_cast<uint32_t>(commands.size()), accesses, before);
                     for (uint32_t other : also) before.push_back(first + other);
                     end.push_back(before.size());
                     commands.push_back(command);
                   });
  }
  if (before.size() > kMostConflicts) return tooManyConflicts();
  std::optional<std::vector<recipe::Queue>> queues;
  if (order.size() != commands.size()) return queues;
  queues.emplace();
  size_t counts[kQueues] = {};
  for (const recipe::Command& command : commands) ++counts[static_cast<unsigned>(program.ops[command.op].engine)];
  for (unsigned queue = 0; queue < kQueues; ++queue) {
    queues->push_back({static_cast<Engine>(queue), {}});
    queues->back().commands.reserve(counts[queue]);
  }
  WaitPlacer waits(kQueues);
  std::vector<uint32_t> position(commands.size(), recipe::kNone);
  for (uint32_t index : order) {
    Clock needed(kQueues, 0);
    for (size_t b = index > 0 ? end[index - 1] : 0; b < end[index]; ++b) {
      const uint32_t other = before[b];
      if (position[other] == recipe::kNone) return std::optional<std::vector<recipe::Queue>>();
      // It may have been moved to its queue already; its op stays.
      uint32_t& count = needed[static_cast<unsigned>(program.ops[commands[other].op].engine)];
      count = std::max(count, position[other] + 1);
    }
    recipe::Command& command = commands[index];
    const auto queue = static_cast<unsigned>(program.ops[command.op].engine);
    position[index] = waits.commands(queue);
    command.waits = waits.issue(queue, needed);
    command.signal = queue;
    (*queues)[queue].commands.push_back(std::move(command));
  }
  return queues;
}

}  // namespace hpu::plan
