// SPDX-License-Identifier: Apache-2.0
#include "plan/SharedWaits.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hpu::plan {
namespace {

using recipe::Command;
using recipe::CommandRef;
using recipe::kNone;
using recipe::Program;

/// Of an instance with more pairs for each command, finding its waits anew costs less than to look at them.
constexpr size_t kMostPairs = 8;
/// Pairs that are looked at to find them.
constexpr size_t kMostLooks = 256;

/// Bytes of a section that an op touches whatever the sizes.
struct Touch {
  uint32_t section = 0;
  uint64_t begin = 0, end = 0;
  bool write = false;
  uint32_t ring = kNone, slots = 0;  ///< As OperandRegion's.
};

std::vector<std::vector<Touch>> touchesOf(const Program& program, const std::vector<OperandRegion>& regions) {
  std::vector<std::vector<Touch>> touches(program.ops.size());
  std::vector<std::vector<const OperandRegion*>> known(program.ops.size());
  for (const OperandRegion& region : regions) known[region.op].push_back(&region);
  std::vector<const recipe::Operand*> reads, writes;
  for (uint32_t op = 0; op < touches.size(); ++op) {
    reads.clear();
    writes.clear();
    recipe::appendOperands(program.ops[op], reads, writes);
    auto add = [&](const recipe::Operand& operand, bool write) {
      const recipe::SectionKind kind = program.sections[operand.section].kind;
      if (kind == recipe::SectionKind::kConst || kind == recipe::SectionKind::kInput) return;
      touches[op].push_back({operand.section, 0, UINT64_MAX, write});
      for (const OperandRegion* region : known[op])
        if (recipe::operandAt(program.ops[op], region->operand) == &operand)
          touches[op].back() = {operand.section, region->begin, region->end, write, region->ring, region->slots};
    };
    for (const recipe::Operand* operand : reads) add(*operand, false);
    for (const recipe::Operand* operand : writes) add(*operand, true);
  }
  return touches;
}

/// Of slices of two ops.
bool mayMeet(const std::vector<Touch>& a, uint32_t sliceA, const std::vector<Touch>& b, uint32_t sliceB) {
  for (const Touch& x : a)
    for (const Touch& y : b) {
      if (!(x.write || y.write) || x.section != y.section || x.begin >= y.end || y.begin >= x.end) continue;
      if (x.ring != kNone && x.ring == y.ring && sliceA % x.slots != sliceB % y.slots) continue;
      return true;
    }
  return false;
}

bool meet(const recipe::Access& x, const recipe::Access& y) {
  return (x.write || y.write) && x.box.section == y.box.section && !recipe::disjoint(x.box, y.box);
}

/// Goes through the commands in the order in which they were issued.
class PairFinder {
 public:
  using Counts = std::array<uint32_t, kQueues>;

  PairFinder(const Program& program, const std::vector<CommandRef>& commands,
             const std::vector<std::vector<Touch>>& touches)
      : program_(program), commands_(commands), touches_(touches), issued_(commands.size()) {}

  /// Numbers of commands; false when there are too many.
  bool find(const std::vector<uint32_t>& order, std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
    uint32_t last = 0;  // The highest number that was issued.
    for (uint32_t number : order) {
      const CommandRef ref = commands_[number];
      const Counts done = doneAtStart(ref);
      // Not known to be done.
      for (uint32_t queue = 0; queue < kQueues; ++queue)
        for (size_t i = done[queue]; i < queues_[queue].size(); ++i) consider(queues_[queue][i].number, number, pairs);
      // Done before it, and behind it in the program.
      for (uint32_t other = number + 1; other <= last; ++other) {
        ++looks_;
        if (issued_[other] && commands_[other].command < done[commands_[other].queue]) consider(other, number, pairs);
      }
      if (looks_ > kMostLooks * commands_.size() || pairs.size() > kMostPairs * commands_.size()) return false;
      queues_[ref.queue].push_back({number, done});
      ++queues_[ref.queue].back().done[ref.queue];
      issued_[number] = true;
      last = std::max(last, number);
    }
    return true;
  }

 private:
  struct Issued {
    uint32_t number = 0;
    Counts done{};  ///< By queue: commands that are done when this one is.
  };

  Counts doneAtStart(CommandRef ref) const {
    Counts done{};
    if (ref.command > 0) done = queues_[ref.queue][ref.command - 1].done;
    for (const recipe::Wait& wait : program_.queues[ref.queue].commands[ref.command].waits) {
      if (wait.value == 0) continue;
      const Counts& theirs = queues_[wait.signal][wait.value - 1].done;
      for (size_t queue = 0; queue < kQueues; ++queue) done[queue] = std::max(done[queue], theirs[queue]);
    }
    return done;
  }

  void consider(uint32_t a, uint32_t b, std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
    ++looks_;
    const Command &x = at(a), &y = at(b);
    if (mayMeet(touches_[x.op], x.slice, touches_[y.op], y.slice)) pairs.emplace_back(a, b);
  }

  const Command& at(uint32_t number) const {
    return program_.queues[commands_[number].queue].commands[commands_[number].command];
  }

  const Program& program_;
  const std::vector<CommandRef>& commands_;
  const std::vector<std::vector<Touch>>& touches_;
  std::vector<bool> issued_;                         ///< By number.
  std::array<std::vector<Issued>, kQueues> queues_;  ///< What was issued.
  size_t looks_ = 0;
};

}  // namespace

std::shared_ptr<const SharedWaits> SharedWaits::make(const Program& program, const recipe::KernelReads& reads,
                                                     const std::vector<IssueUnit>& units,
                                                     const std::vector<uint32_t>& order,
                                                     std::vector<OperandRegion> regions) {
  if (program.queues.size() != kQueues) return nullptr;
  std::shared_ptr<SharedWaits> shared(new SharedWaits);
  std::vector<uint32_t> queueOf;
  for (const IssueUnit& unit : units)
    forEachCommand(program, unit, ownTiles(program, unit), [&](const Command& command, const std::vector<uint32_t>&) {
      queueOf.push_back(static_cast<uint32_t>(program.ops[command.op].engine));
    });
  if (queueOf.size() != order.size()) return nullptr;
  shared->commands_.resize(order.size());
  uint32_t counts[kQueues] = {};
  for (uint32_t number : order) shared->commands_[number] = {queueOf[number], counts[queueOf[number]]++};
  std::vector<std::pair<uint32_t, uint32_t>> found;
  if (!PairFinder(program, shared->commands_, touchesOf(program, regions)).find(order, found)) return nullptr;
  std::vector<uint32_t> place(order.size(), kNone);  // In looked_.
  auto placeOf = [&](uint32_t number) {
    if (place[number] == kNone) {
      place[number] = static_cast<uint32_t>(shared->looked_.size());
      shared->looked_.push_back(shared->commands_[number]);
    }
    return place[number];
  };
  for (const auto& [a, b] : found) {
    const uint32_t first = placeOf(a);
    shared->pairs_.emplace_back(first, placeOf(b));
  }
  shared->kernels_.resize(program.kernels.size());
  for (const CommandRef& ref : shared->looked_) {
    const recipe::Op& op = program.ops[program.queues[ref.queue].commands[ref.command].op];
    if (op.engine == Engine::kTpc) shared->kernels_[op.tpc.kernel] = true;
  }
  shared->regions_ = std::move(regions);
  // Of the instance itself they hold, or its waits are not what they should be.
  if (!shared->holds(program, [&] { return reads; })) return nullptr;
  return shared;
}

bool SharedWaits::setBoxes(Program& program, const std::vector<IssueUnit>& units, const std::vector<Tiles>& tiles,
                           ChangedOps& changed) const {
  size_t number = 0;
  bool same = true;
  for (size_t u = 0; u < units.size(); ++u)
    forEachCommand(program, units[u], tiles[u], [&](const Command& box, const std::vector<uint32_t>&) {
      if (number == commands_.size()) same = false;
      if (!same) return;
      const CommandRef ref = commands_[number++];
      Command& command = program.queues[ref.queue].commands[ref.command];
      same = command.op == box.op && command.slice == box.slice && command.lo.size() == box.lo.size();
      if (!same) return;
      changed.set(command.op, command.lo, box.lo);
      changed.set(command.op, command.hi, box.hi);
    });
  return same && number == commands_.size();
}

bool SharedWaits::holds(const Program& program, base::FunctionRef<recipe::KernelReads()> reads,
                        const ChangedOps* changed) const {
  for (const OperandRegion& region : regions_) {
    if (changed && !changed->has(region.op)) continue;
    const recipe::Operand& operand = *recipe::operandAt(program.ops[region.op], region.operand);
    if (operand.ring.slots != region.slots) return false;
    // Slices of a view that begins within a slot would lie in two.
    if (region.ring != kNone && operand.offset != region.begin) return false;
    const uint64_t bytes = recipe::operandSpanBytes(operand);
    if (bytes == 0) continue;
    if (operand.offset < region.begin || operand.offset > region.end || bytes > region.end - operand.offset)
      return false;
  }
  auto isChanged = [&](uint32_t place) {
    const CommandRef ref = looked_[place];
    return !changed || changed->has(program.queues[ref.queue].commands[ref.command].op);
  };
  if (std::none_of(pairs_.begin(), pairs_.end(),
                   [&](const auto& pair) { return isChanged(pair.first) || isChanged(pair.second); }))
    return true;
  const recipe::KernelReads own = reads();
  std::vector<recipe::Access> accesses;
  accesses.reserve(4 * looked_.size());
  std::vector<size_t> begin;  // By command of a pair, and the end.
  begin.reserve(looked_.size() + 1);
  for (const CommandRef& ref : looked_) {
    begin.push_back(accesses.size());
    recipe::appendAccesses(program, program.queues[ref.queue].commands[ref.command], accesses, &own);
  }
  begin.push_back(accesses.size());
  for (const auto& [a, b] : pairs_)
    for (size_t x = begin[a]; x < begin[a + 1]; ++x)
      for (size_t y = begin[b]; y < begin[b + 1]; ++y)
        if (meet(accesses[x], accesses[y])) return false;
  return true;
}

}  // namespace hpu::plan
