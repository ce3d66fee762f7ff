// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <tuple>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "recipe/BoxCover.h"
#include "recipe/CommandAccess.h"
#include "recipe/QueueOrder.h"
#include "recipe/VerifierParts.h"

namespace hpu::recipe {

using base::strCat;

namespace {

/// A scheduler may give each engine a signal whether it is raised or not.
constexpr uint64_t kSpareSignals = 64;

std::string pointText(std::span<const int64_t> point) {
  std::string text = "(";
  for (size_t d = 0; d < point.size(); ++d) text += strCat(d ? ", " : "", point[d]);
  return text + ")";
}

class CommandVerifier {
 public:
  /// `only`: ops whose commands' boxes and rings are looked at; null: all.
  explicit CommandVerifier(const Program& program, const std::vector<bool>* only = nullptr)
      : program_(program), only_(only), bundleOf_(program.ops.size(), kNone), firstOf_(program.ops.size() + 1, 0) {}

  Status run() {
    HPU_RETURN_IF_ERROR(verifyBundles());
    HPU_RETURN_IF_ERROR(verifyHostOrder());
    HPU_RETURN_IF_ERROR(verifyQueues());
    HPU_RETURN_IF_ERROR(verifyCovers());
    HPU_RETURN_IF_ERROR(verifyRings());
    HPU_RETURN_IF_ERROR(verifySignals());
    return completionOrder(program_).status();
  }

  Status runBoxes() {
    for (uint32_t i = 0; i < program_.bundles.size(); ++i)
      for (uint32_t op : program_.bundles[i].ops) bundleOf_[op] = i;
    HPU_RETURN_IF_ERROR(verifyQueues());
    return verifyRings();
  }

 private:
  Status verifyBundles() {
    for (uint32_t i = 0; i < program_.bundles.size(); ++i) {
      const Bundle& bundle = program_.bundles[i];
      if (bundle.ops.empty() || bundle.slices == 0) {
        return dataLoss(strCat(bundleText(i), " has ", bundle.ops.size(), " ops and ", bundle.slices, " slices"));
      }
      for (uint32_t op : bundle.ops) {
        if (op >= program_.ops.size()) {
          return dataLoss(strCat(bundleText(i), " holds op ", op, ", but the program has ", program_.ops.size()));
        }
        if (bundleOf_[op] != kNone) {
          return dataLoss(strCat(opText(program_, op), " is twice in bundles: in ", bundleOf_[op], " and ", i));
        }
        bundleOf_[op] = i;
      }
    }
    return okStatus();
  }

  /// A permutation in which a bundle's ops stand together, in the bundle's order.
  Status verifyHostOrder() {
    const std::vector<uint32_t>& order = program_.hostOrder;
    std::vector<bool> seen(program_.ops.size());
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] >= program_.ops.size() || seen[order[i]]) {
        return dataLoss(strCat("hostOrder[", i, "] is op ", order[i],
                               ", which is there twice or not one of the program's ", program_.ops.size()));
      }
      seen[order[i]] = true;
    }
    if (order.size() != program_.ops.size()) {
      return dataLoss(strCat("hostOrder lists ", order.size(), " of the program's ", program_.ops.size(), " ops"));
    }
    for (size_t i = 0; i < order.size();) {
      uint32_t bundle = bundleOf_[order[i]];
      if (bundle == kNone) {
        ++i;
        continue;
      }
      for (uint32_t op : program_.bundles[bundle].ops) {
        if (i == order.size() || order[i] != op) {
          return dataLoss(strCat("hostOrder[", i, "] should be op ", op, ": the ops of ", bundleText(bundle),
                                 " must stand together, in the bundle's order"));
        }
        ++i;
      }
    }
    return okStatus();
  }

  Status verifyQueues() {
    for (uint32_t q = 0; q < program_.queues.size(); ++q) {
      const Queue& queue = program_.queues[q];
      if (queue.engine >= Engine::kNic) {
        return dataLoss(strCat("queue ", q, " is of engine ", queue.engine, ", which runs no recipe commands"));
      }
      for (uint32_t c = 0; c < queue.commands.size(); ++c) {
        if (isLookedAt(queue.commands[c].op)) HPU_RETURN_IF_ERROR(verifyCommand(q, c));
        ++firstOf_[queue.commands[c].op + 1];
        ++numCommands_;
      }
    }
    for (size_t op = 1; op < firstOf_.size(); ++op) firstOf_[op] += firstOf_[op - 1];
    refs_.resize(numCommands_);
    std::vector<size_t> next(firstOf_.begin(), firstOf_.end() - 1);
    for (uint32_t q = 0; q < program_.queues.size(); ++q)
      for (uint32_t c = 0; c < program_.queues[q].commands.size(); ++c)
        refs_[next[program_.queues[q].commands[c].op]++] = {q, c};
    // A slice without a command would be meaningless, and a huge number of them would cost memory.
    for (uint32_t i = 0; i < program_.bundles.size(); ++i) {
      size_t commands = 0;
      for (uint32_t op : program_.bundles[i].ops) commands += commandsOf(op).size();
      if (program_.bundles[i].slices > commands) {
        return dataLoss(
            strCat(bundleText(i), " has ", program_.bundles[i].slices, " slices, but only ", commands, " commands"));
      }
    }
    return okStatus();
  }

  Status verifyCommand(uint32_t q, uint32_t c) {
    const Command& command = program_.queues[q].commands[c];
    auto where = [&] { return commandText(program_, q, c); };
    if (command.op >= program_.ops.size()) {
      return dataLoss(strCat(where(), " runs op ", command.op, ", but the program has ", program_.ops.size()));
    }
    const Op& op = program_.ops[command.op];
    if (op.engine != program_.queues[q].engine) {
      return dataLoss(strCat(where(), " runs ", opText(program_, command.op), " of engine ", engineName(op.engine)));
    }
    if (command.bundle != bundleOf_[command.op]) {
      return dataLoss(strCat(where(), " names bundle ", idText(command.bundle), ", but ", opText(program_, command.op),
                             " is in bundle ", idText(bundleOf_[command.op])));
    }
    if (command.bundle != kNone && command.slice >= program_.bundles[command.bundle].slices) {
      return dataLoss(strCat(where(), " is slice ", command.slice, " of ", bundleText(command.bundle), ", which has ",
                             program_.bundles[command.bundle].slices));
    }
    const size_t rank = op.space.size();
    if (command.lo.size() != rank || command.hi.size() != rank) {
      return dataLoss(strCat(where(), " has a box of rank ", command.lo.size(), " to ", command.hi.size(), ", but ",
                             opText(program_, command.op), " has an index space of rank ", rank));
    }
    uint32_t whole = op.engine == Engine::kTpc ? program_.kernels[op.tpc.kernel].wholeDims : 0;
    for (size_t d = 0; d < rank; ++d) {
      if (command.lo[d] < 0 || command.lo[d] >= command.hi[d] || command.hi[d] > op.space[d]) {
        return dataLoss(strCat(where(), " has the box ", pointText(command.lo), " to ", pointText(command.hi),
                               ", which is empty or leaves the index space ", shapeToString(op.space), " of ",
                               opText(program_, command.op)));
      }
      bool split = command.lo[d] != 0 || command.hi[d] != op.space[d];
      if (split && (whole >> d & 1)) {
        return dataLoss(strCat(where(), " splits dimension ", d, " of ", opText(program_, command.op),
                               ", which its kernel needs whole"));
      }
    }
    // Elsewhere in a period the pixels of a transposed convolution need other weights.
    if (op.engine == Engine::kMme && op.mme.packingFactor > 1 && op.mme.kind == MmeKind::kConvTranspose2d &&
        command.lo[3] % op.mme.strides[1]) {
      return dataLoss(strCat(where(), " of the packed ", opText(program_, command.op), " starts at column ",
                             command.lo[3], ", which is no multiple of the stride ", op.mme.strides[1]));
    }
    return okStatus();
  }

  Status verifyCovers() {
    for (uint32_t i = 0; i < program_.ops.size(); ++i) {
      const std::vector<int64_t>& space = program_.ops[i].space;
      std::vector<Box> boxes(commandsOf(i).size());
      for (size_t n = 0; n < boxes.size(); ++n) {
        const Command& command = at(commandsOf(i)[n]);
        std::copy(command.lo.begin(), command.lo.end(), boxes[n].lo.begin());
        std::copy(command.hi.begin(), command.hi.end(), boxes[n].hi.begin());
      }
      size_t numBoxes = boxes.size();
      CoverResult result = checkCover(space, std::move(boxes));
      if (result.cover == Cover::kExact) continue;
      if (result.cover == Cover::kTooIrregular) {
        return dataLoss(strCat("the ", numBoxes, " commands of ", opText(program_, i),
                               " split its index space too irregularly to be checked"));
      }
      return dataLoss(strCat("the ", numBoxes, " commands of ", opText(program_, i), " compute point ",
                             pointText({result.point.data(), space.size()}),
                             result.cover == Cover::kGap ? " not at all" : " more than once"));
    }
    return okStatus();
  }

  /// One use of a ring: by an operand of an op of a bundle.
  struct RingUse {
    uint32_t bundle, section;
    uint64_t offset;
    uint32_t op;
    const Operand* operand;
  };

  Status verifyRings() {
    std::vector<RingUse> uses;
    std::vector<const Operand*> operands, written;
    for (uint32_t i = 0; i < program_.ops.size(); ++i) {
      operands.clear();
      written.clear();
      appendOperands(program_.ops[i], operands, written);
      size_t reads = operands.size();
      operands.insert(operands.end(), written.begin(), written.end());
      for (size_t o = 0; o < operands.size(); ++o) {
        const Operand* operand = operands[o];
        if (operand->ring.slots == 0) continue;
        if (bundleOf_[i] == kNone) {
          return dataLoss(strCat(opText(program_, i), " uses the ring at byte ", operand->offset, " of section ",
                                 operand->section, ", but is in no bundle"));
        }
        if (isLookedAt(i)) HPU_RETURN_IF_ERROR(verifyRingFits(i, *operand, o >= reads));
        uses.push_back({bundleOf_[i], operand->section, operand->offset, i, operand});
      }
    }
    std::sort(uses.begin(), uses.end(), [](const RingUse& a, const RingUse& b) {
      return std::tie(a.bundle, a.section, a.offset, a.op) < std::tie(b.bundle, b.section, b.offset, b.op);
    });
    for (size_t i = 1; i < uses.size(); ++i) {
      const RingUse &a = uses[i - 1], &b = uses[i];
      if (a.bundle != b.bundle || a.section != b.section || a.offset != b.offset) continue;
      if (!isLookedAt(a.op) && !isLookedAt(b.op)) continue;
      HPU_RETURN_IF_ERROR(verifyRingsAgree(a, b));
    }
    return okStatus();
  }

  /// A slot holds the largest slice, and no two points of it are one element.
  Status verifyRingFits(uint32_t opIndex, const Operand& operand, bool written) {
    const Ring& ring = operand.ring;
    int64_t tile = 0;
    for (CommandRef ref : commandsOf(opIndex)) {
      tile = std::max(tile, at(ref).hi[ring.dim] - at(ref).lo[ring.dim]);
    }
    Operand slot = operand;
    slot.ring = {};
    slot.sizes[ring.dim] = tile;
    if (std::string why = written ? selfOverlap(slot) : std::string(); !why.empty())
      return dataLoss(strCat(opText(program_, opIndex), " has a ring at byte ", operand.offset, " of section ",
                             operand.section, ", each slot of which", why));
    uint64_t bytes = operandSpanBytes(slot);
    if (bytes <= ring.slotBytes) return okStatus();
    return dataLoss(strCat(opText(program_, opIndex), " puts slices of ",
                           bytes == UINT64_MAX ? "2^64 or more" : std::to_string(bytes),
                           " bytes into the ring at byte ", operand.offset, " of section ", operand.section,
                           ", whose slots have ", ring.slotBytes));
  }

  /// Commands that share a ring see the same slots, and through equal views the same part in each slice.
  Status verifyRingsAgree(const RingUse& a, const RingUse& b) {
    const Ring &x = a.operand->ring, &y = b.operand->ring;
    auto refuse = [&](const std::string& what) {
      return dataLoss(strCat(opText(program_, a.op), " and ", opText(program_, b.op), " share the ring at byte ",
                             a.offset, " of section ", a.section, " but ", what));
    };
    if (x.slots != y.slots || x.slotBytes != y.slotBytes) {
      return refuse(
          strCat("see ", x.slots, " slots of ", x.slotBytes, " and ", y.slots, " of ", y.slotBytes, " bytes"));
    }
    if (a.operand->sizes != b.operand->sizes) return okStatus();
    if (x.dim != y.dim) return refuse(strCat("follow dimensions ", x.dim, " and ", y.dim));
    sliceRange_.assign(program_.bundles[a.bundle].slices, {0, 0});
    for (uint32_t op : {a.op, b.op}) {
      for (CommandRef ref : commandsOf(op)) {
        const Command& command = at(ref);
        std::pair<int64_t, int64_t> range{command.lo[x.dim], command.hi[x.dim]};
        auto& known = sliceRange_[command.slice];
        if (known.second == 0) known = range;
        if (known == range) continue;
        return refuse(strCat("in slice ", command.slice, " use ", known.first, " to ", known.second, " and ",
                             range.first, " to ", range.second, " of dimension ", x.dim));
      }
    }
    return okStatus();
  }

  Status verifySignals() {
    // Signals that no command raises are harmless, but a huge number of them would cost memory.
    if (program_.numSignals > numCommands_ + kSpareSignals) {
      return dataLoss(strCat("the program has ", program_.numSignals, " signals, but only ", numCommands_,
                             " commands to raise them"));
    }
    std::vector<uint32_t> raises(program_.numSignals, 0);
    for (uint32_t q = 0; q < program_.queues.size(); ++q) {
      const std::vector<Command>& commands = program_.queues[q].commands;
      for (uint32_t c = 0; c < commands.size(); ++c) {
        if (commands[c].signal == kNone) continue;
        if (commands[c].signal >= program_.numSignals) {
          return dataLoss(strCat(commandText(program_, q, c), " raises signal ", commands[c].signal,
                                 ", but the program has ", program_.numSignals));
        }
        ++raises[commands[c].signal];
      }
    }
    for (uint32_t q = 0; q < program_.queues.size(); ++q) {
      const std::vector<Command>& commands = program_.queues[q].commands;
      for (uint32_t c = 0; c < commands.size(); ++c) {
        for (const Wait& wait : commands[c].waits) {
          if (wait.signal >= program_.numSignals) {
            return dataLoss(strCat(commandText(program_, q, c), " waits for signal ", wait.signal,
                                   ", but the program has ", program_.numSignals));
          }
          if (wait.value > raises[wait.signal]) {
            return dataLoss(strCat(commandText(program_, q, c), " waits for signal ", wait.signal, " to reach ",
                                   wait.value, ", but it is raised only ", raises[wait.signal], " times"));
          }
        }
      }
    }
    return okStatus();
  }

  bool isLookedAt(uint32_t op) const { return !only_ || (*only_)[op]; }
  std::span<const CommandRef> commandsOf(uint32_t op) const {
    return std::span(refs_).subspan(firstOf_[op], firstOf_[op + 1] - firstOf_[op]);
  }
  const Command& at(CommandRef ref) const { return program_.queues[ref.queue].commands[ref.command]; }
  std::string bundleText(uint32_t bundle) const {
    return strCat("bundle ", bundle, " '", program_.bundles[bundle].name, "'");
  }
  static std::string idText(uint32_t id) { return id == kNone ? "none" : std::to_string(id); }

  const Program& program_;
  const std::vector<bool>* only_;
  std::vector<uint32_t> bundleOf_;  ///< By op.
  std::vector<CommandRef> refs_;    ///< Of all commands, op by op ...
  std::vector<size_t> firstOf_;     ///< ... and where those of an op begin, and the end.
  std::vector<std::pair<int64_t, int64_t>> sliceRange_;
  uint64_t numCommands_ = 0;
};

}  // namespace

Status verifyCommands(const Program& program) {
  return CommandVerifier(program).run();
}

Status verifyBoxes(const Program& program, const std::vector<bool>* only) {
  return CommandVerifier(program, only).runBoxes();
}

}  // namespace hpu::recipe
