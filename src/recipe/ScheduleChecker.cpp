// SPDX-License-Identifier: Apache-2.0
#include "recipe/ScheduleChecker.h"

#include <algorithm>
#include <map>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/CommandAccess.h"
#include "recipe/QueueOrder.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

namespace {

/// Which commands are known to be done when a command starts, as a count for each queue.
class HappensBefore {
 public:
  HappensBefore(const Program& program, const std::vector<CommandRef>& order)
      : program_(program), queues_(program.queues.size()) {
    first_.push_back(0);
    for (const Queue& queue : program.queues) {
      first_.push_back(first_.back() + queue.commands.size());
    }
    clocks_.resize(first_.back() * queues_);
    collectRaisers();
    for (CommandRef ref : order) compute(ref);
  }

  /// True when `a` is done whenever `b` starts.
  bool ordered(CommandRef a, CommandRef b) const { return clock(b)[a.queue] > a.command; }

 private:
  /// The commands of one queue that raise one signal, in order.
  struct Raisers {
    uint32_t queue = 0;
    std::vector<uint32_t> commands;
  };

  void collectRaisers() {
    raisers_.resize(program_.numSignals);
    totals_.resize(program_.numSignals);
    for (uint32_t q = 0; q < queues_; ++q) {
      const std::vector<Command>& commands = program_.queues[q].commands;
      for (uint32_t c = 0; c < commands.size(); ++c) {
        if (commands[c].signal == kNone) continue;
        std::vector<Raisers>& all = raisers_[commands[c].signal];
        if (all.empty() || all.back().queue != q) all.push_back({q, {}});
        all.back().commands.push_back(c);
        ++totals_[commands[c].signal];
      }
    }
  }

  void compute(CommandRef ref) {
    uint32_t* own = clock(ref);
    const Command& command = program_.queues[ref.queue].commands[ref.command];
    if (ref.command > 0) {
      std::copy_n(clock({ref.queue, ref.command - 1}), queues_, own);
      own[ref.queue] = ref.command;
    }
    for (const Wait& wait : command.waits) {
      for (const Raisers& raisers : raisers_[wait.signal]) {
        // Were this queue's n-th raiser not done, the count could reach at most the others' raises and n-1.
        uint64_t others = totals_[wait.signal] - raisers.commands.size();
        if (wait.value <= others) continue;
        uint32_t done = raisers.commands[wait.value - others - 1];
        const uint32_t* theirs = clock({raisers.queue, done});
        for (size_t q = 0; q < queues_; ++q) own[q] = std::max(own[q], theirs[q]);
        own[raisers.queue] = std::max(own[raisers.queue], done + 1);
      }
    }
  }

  uint32_t* clock(CommandRef ref) { return clocks_.data() + (first_[ref.queue] + ref.command) * queues_; }
  const uint32_t* clock(CommandRef ref) const { return clocks_.data() + (first_[ref.queue] + ref.command) * queues_; }

  const Program& program_;
  size_t queues_;
  std::vector<size_t> first_;     ///< By queue: index of its first command among all.
  std::vector<uint32_t> clocks_;  ///< By command, one count a queue.
  std::vector<std::vector<Raisers>> raisers_;
  std::vector<uint64_t> totals_;
};

/// An access that later ones still have to be ordered after.
struct Pending {
  CommandRef command;
  Access access;
};

/// Bytes [key of the map, end) that all accesses so far split alike.
struct Segment {
  uint64_t end = 0;
  bool written = false;
  std::vector<uint32_t> pending;  ///< Indices into Checker::pending_.
};
using SegmentMap = std::map<uint64_t, Segment>;

class Checker {
 public:
  Checker(const Program& program, const std::vector<CommandRef>& order, const KernelReads* reads)
      : program_(program),
        order_(order),
        kernelReads_(reads),
        before_(program, order),
        segments_(program.sections.size()),
        hostPosition_(program.ops.size()) {
    for (uint32_t i = 0; i < program.hostOrder.size(); ++i) hostPosition_[program.hostOrder[i]] = i;
  }

  Status run() {
    for (uint32_t i = 0; i < program_.ops.size(); ++i) HPU_RETURN_IF_ERROR(checkAliasing(i));
    std::vector<Access> accesses;
    for (CommandRef ref : order_) {
      accesses.clear();
      appendAccesses(program_, at(ref), accesses, kernelReads_);
      // Reads first: what the command itself writes does not count as written before.
      std::stable_partition(accesses.begin(), accesses.end(), [](const Access& a) { return !a.write; });
      for (const Access& access : accesses) HPU_RETURN_IF_ERROR(touch(ref, access));
    }
    return okStatus();
  }

 private:
  /// An op must not write what it reads, except in place on the TPC, nor write anything twice.
  Status checkAliasing(uint32_t opIndex) {
    const Op& op = program_.ops[opIndex];
    reads_.clear();
    writes_.clear();
    appendOperands(op, reads_, writes_);
    for (size_t w = 0; w < writes_.size(); ++w) {
      MemoryBox written = wholeBox(*writes_[w]);
      for (const Operand* read : reads_) {
        // Constants are never written; a packed weight's sizes would say nothing about its bytes.
        if (program_.sections[read->section].kind == SectionKind::kConst || isEmpty(*read)) continue;
        MemoryBox source = wholeBox(*read);
        bool inPlace = op.engine == Engine::kTpc && source == written && read->ring == writes_[w]->ring;
        if (inPlace || disjoint(source, written)) continue;
        return dataLoss(strCat(opText(program_, opIndex), " reads and writes ", overlapText(source, written),
                               " through different views"));
      }
      for (size_t v = 0; v < w; ++v) {
        MemoryBox other = wholeBox(*writes_[v]);
        if (disjoint(other, written)) continue;
        return dataLoss(strCat(opText(program_, opIndex), " writes ", overlapText(other, written), " as two outputs"));
      }
    }
    return okStatus();
  }

  /// Checks an access against those before it and records it.
  Status touch(CommandRef ref, const Access& access) {
    SegmentMap& map = segments_[access.box.section];
    const uint64_t begin = access.box.begin, end = access.box.end;
    split(map, begin);
    split(map, end);
    const auto id = static_cast<uint32_t>(pending_.size());
    pending_.push_back({ref, access});
    // Where the section keeps nothing from before the launch, reads need a write first.
    const Section& section = program_.sections[access.box.section];
    bool needsWrite = !access.write && section.kind != SectionKind::kPersistent && !stateOf(program_, section);
    uint64_t at = begin;
    bool anyWritten = false;
    for (auto it = map.lower_bound(begin); at < end; ++it) {
      if (it == map.end() || it->first > at) {  // Bytes that nothing has touched.
        if (needsWrite && access.box.dense()) return unwritten(ref, access.box, at);
        uint64_t stop = it == map.end() ? end : std::min(end, it->first);
        it = map.emplace_hint(it, at, Segment{stop, false, {}});
      }
      Segment& segment = it->second;
      if (needsWrite && access.box.dense() && !segment.written) {
        return unwritten(ref, access.box, at);
      }
      anyWritten |= segment.written;
      for (uint32_t other : segment.pending) HPU_RETURN_IF_ERROR(checkPair(other, id));
      record(segment, id);
      at = segment.end;
    }
    if (needsWrite && !anyWritten) return unwritten(ref, access.box, begin);
    // A dense write leaves one segment.
    if (access.write && access.box.dense()) {
      map.erase(map.lower_bound(begin), map.lower_bound(end));
      map[begin] = {end, true, {id}};
    }
    return okStatus();
  }

  static void split(SegmentMap& map, uint64_t at) {
    auto it = map.upper_bound(at);
    if (it == map.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    Segment upper = it->second;
    it->second.end = at;
    map.emplace(at, std::move(upper));
  }

  /// Forgets what the new access stands for: whoever meets the old one later also meets the new one, and
  /// is ordered after the old one if it is after the new one.
  void record(Segment& segment, uint32_t id) {
    const Pending& now = pending_[id];
    std::erase_if(segment.pending, [&](uint32_t other) {
      const Pending& old = pending_[other];
      if (!now.access.write && old.access.write) return false;
      if (now.access.write && now.access.box.dense()) return true;
      if (old.command.queue != now.command.queue) return false;
      return now.access.box.dense() || old.access.box == now.access.box;
    });
    segment.pending.push_back(id);
    segment.written |= now.access.write;
  }

  Status checkPair(uint32_t oldId, uint32_t newId) {
    const Pending &a = pending_[oldId], &b = pending_[newId];
    if (!a.access.write && !b.access.write) return okStatus();
    if (a.command.queue == b.command.queue && a.command.command == b.command.command) {
      return okStatus();
    }
    const bool ordered = before_.ordered(a.command, b.command);
    if (ordered && hostAgrees(a, b)) return okStatus();
    if (disjoint(a.access.box, b.access.box)) return okStatus();
    return dataLoss(strCat(
        text(a.command), a.access.write ? " writes and " : " reads and ", text(b.command),
        b.access.write ? " writes " : " reads ", overlapText(a.access.box, b.access.box),
        ordered ? ", in this order, but hostOrder says the reverse" : ", but neither is ordered before the other"));
  }

  /// hostOrder runs whole ops; a bundle's rings it runs slice by slice.
  bool hostAgrees(const Pending& a, const Pending& b) const {
    const Command &x = at(a.command), &y = at(b.command);
    if (a.access.ring && b.access.ring && x.bundle == y.bundle && x.slice != y.slice) {
      return x.slice < y.slice;
    }
    return hostPosition_[x.op] <= hostPosition_[y.op];
  }

  Status unwritten(CommandRef ref, const MemoryBox& box, uint64_t at) const {
    return dataLoss(
        strCat(text(ref), " reads byte ", at, " of section ", box.section, ", which no command before it has written"));
  }
  std::string text(CommandRef ref) const {
    return strCat(commandText(program_, ref.queue, ref.command), ", of ", opText(program_, at(ref).op), ",");
  }
  static std::string overlapText(const MemoryBox& a, const MemoryBox& b) {
    return strCat("bytes ", std::max(a.begin, b.begin), " to ", std::min(a.end, b.end) - 1, " of section ", a.section);
  }
  const Command& at(CommandRef ref) const { return program_.queues[ref.queue].commands[ref.command]; }

  const Program& program_;
  const std::vector<CommandRef>& order_;
  const KernelReads* kernelReads_;
  HappensBefore before_;
  std::vector<SegmentMap> segments_;  ///< By section.
  std::vector<Pending> pending_;
  std::vector<uint32_t> hostPosition_;  ///< By op.
  std::vector<const Operand*> reads_, writes_;
};

}  // namespace

Status checkSchedule(const Program& program, const KernelReads* reads) {
  uint64_t commands = 0;
  for (const Queue& queue : program.queues) commands += queue.commands.size();
  // Clocks take a count for each pair; real programs have a few queues.
  if (commands * program.queues.size() > uint64_t{1} << 28) {
    return unimplemented(
        strCat("checking a schedule of ", commands, " commands on ", program.queues.size(), " queues"));
  }
  HPU_ASSIGN(std::vector<CommandRef> order, completionOrder(program));
  return Checker(program, order, reads).run();
}

}  // namespace hpu::recipe
