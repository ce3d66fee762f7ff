// SPDX-License-Identifier: Apache-2.0
// checkRoles: what makes it right to look at one rank of a role instead of all.
// The one thing to know: programs are looked at one after another, and only digests of them are kept; when two differ,
// both are written again to say where.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/scaleout/Program.h"

namespace hpu::collectives {
namespace {

using base::strCat;

uint64_t mix(uint64_t digest, uint64_t value) {
  digest = (digest ^ value) * 0x9e3779b97f4a7c15u;
  return digest ^ (digest >> 29);
}

std::string stepName(int32_t rank, size_t step, const ProgramStep& s) {
  return strCat("step ", step, " of rank ", rank, " (", collectives::stepName(s.kind), ")");
}

/// Everything but where data lies.
uint64_t digestOf(const Program& program, const ProgramStep& step) {
  uint64_t digest = mix(static_cast<uint64_t>(step.kind), static_cast<uint64_t>(step.bytes));
  if (step.peer >= 0) {
    const PeerName& peer = program.peers[static_cast<size_t>(step.peer)];
    digest = mix(digest, static_cast<uint64_t>(peer.form) + 1);
    digest = mix(mix(digest, static_cast<uint64_t>(peer.a)), static_cast<uint64_t>(peer.b));
  }
  digest = mix(mix(digest, static_cast<uint64_t>(step.dst.buffer)), step.sources.size());
  // In any order: contributions are reduced in the order of ranks.
  uint64_t buffers = 0;
  for (const Range& source : step.sources) buffers += uint64_t{1} << (16 * static_cast<int>(source.buffer));
  digest = mix(digest, buffers);
  for (const int32_t earlier : step.after) digest = mix(digest, static_cast<uint64_t>(earlier) + 7);
  return mix(digest, step.after.size());
}

class RoleCheck {
 public:
  explicit RoleCheck(const Plan& plan)
      : plan_(plan), map_(plan.map()), roles_(static_cast<size_t>(std::max(plan.roles(), 1))) {}

  Status run() {
    for (int32_t rank = 0; rank < map_.ranks(); ++rank) HPU_RETURN_IF_ERROR(look(rank));
    for (const auto& [pair, messages] : pairs_)
      if (messages.sent != messages.received || messages.sends != messages.receives)
        return unmatched(static_cast<int32_t>(pair >> 32), static_cast<int32_t>(pair & 0xffffffff), messages);
    return {};
  }

 private:
  struct Role {
    int32_t rank = -1;  ///< The first that has it.
    uint64_t digest = 0;
  };
  struct Messages {
    uint64_t sent = 0, received = 0;
    int64_t sends = 0, receives = 0;
  };
  const Plan& plan_;
  const RankMap& map_;
  std::vector<Role> roles_;
  std::unordered_map<uint64_t, Messages> pairs_;  // By sender, receiver.

  Messages& messages(int32_t from, int32_t to) {
    return pairs_[static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)];
  }

  /// Elements, form and price of a message.
  static uint64_t messageDigest(const ProgramStep& step, const Range& range) {
    const uint64_t partial = range.buffer == BufferKind::kPartial ? 1 : 0;
    return mix(mix(static_cast<uint64_t>(range.count), partial), static_cast<uint64_t>(step.bytes));
  }

  Status look(int32_t rank) {
    const Program program = plan_.program(rank);
    const int32_t role = plan_.roleOf(rank);
    if (role < 0 || role >= plan_.roles())
      return internalError(strCat("rank ", rank, " has role ", role, " of ", plan_.roles()));
    std::vector<int32_t> peers;
    for (const PeerName& name : program.peers) {
      const bool grid = name.form == PeerName::Form::kGridShift || name.form == PeerName::Form::kNodeXor;
      if (grid && map_.ranksPerNode() == 0)
        return internalError(strCat("rank ", rank, " names a peer by its place among nodes of different sizes"));
      if (name.form == PeerName::Form::kNodeXor && (map_.position(rank).node ^ name.a) >= map_.nodes())
        return internalError(strCat("rank ", rank, " names a peer of a node that is not there"));
      const int32_t peer = resolve(map_, rank, name);
      if (peer < 0 || peer >= map_.ranks() || peer == rank)
        return internalError(strCat("rank ", rank, " names rank ", peer, " of ", map_.ranks(), " as its peer"));
      peers.push_back(peer);
    }
    uint64_t digest =
        mix(static_cast<uint64_t>(program.scratchElements), static_cast<uint64_t>(program.partialElements));
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const ProgramStep& step = program.steps[i];
      HPU_RETURN_IF_ERROR(checkStep(program, rank, i));
      digest = mix(digest, digestOf(program, step));
      if (step.kind == StepKind::kSend) {
        Messages& m = messages(rank, peers[static_cast<size_t>(step.peer)]);
        m.sent = mix(m.sent, messageDigest(step, step.sources[0]));
        ++m.sends;
      } else if (step.kind == StepKind::kRecv) {
        Messages& m = messages(peers[static_cast<size_t>(step.peer)], rank);
        m.received = mix(m.received, messageDigest(step, step.dst));
        ++m.receives;
      }
    }
    Role& known = roles_[static_cast<size_t>(role)];
    if (known.rank < 0) {
      known = {rank, digest};
      return {};
    }
    return known.digest == digest ? Status{} : different(known.rank, rank, program);
  }

  Status checkStep(const Program& program, int32_t rank, size_t index) const {
    const ProgramStep& step = program.steps[index];
    const bool message = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
    const auto wrong = [&](const std::string& text) {
      return internalError(strCat(stepName(rank, index, step), " ", text));
    };
    if (message != (step.peer >= 0) || step.peer >= static_cast<int32_t>(program.peers.size()))
      return wrong(strCat("has peer number ", step.peer, " of ", program.peers.size()));
    const size_t most = step.kind == StepKind::kReduce ? step.sources.size() : step.kind == StepKind::kRecv ? 0 : 1;
    if (step.sources.size() != most || (step.kind == StepKind::kReduce && most == 0))
      return wrong(strCat("has ", step.sources.size(), " sources"));
    for (const int32_t earlier : step.after)
      if (earlier < 0 || earlier >= static_cast<int32_t>(index)) return wrong(strCat("waits for step ", earlier));
    int64_t bytes = 0;
    for (const Range& source : step.sources) HPU_RETURN_IF_ERROR(checkRange(program, rank, index, source, bytes));
    if (step.kind != StepKind::kSend) HPU_RETURN_IF_ERROR(checkRange(program, rank, index, step.dst, bytes));
    if (step.bytes < bytes) return wrong(strCat("is priced as ", step.bytes, " bytes and moves ", bytes));
    return {};
  }

  Status checkRange(const Program& program, int32_t rank, size_t index, const Range& range, int64_t& bytes) const {
    const Problem& p = plan_.problem();
    int64_t size = 0;
    switch (range.buffer) {
      case BufferKind::kInput:
        size = inputElements(p, rank);
        break;
      case BufferKind::kOutput:
        size = outputElements(p, rank);
        break;
      case BufferKind::kScratch:
        size = program.scratchElements;
        break;
      case BufferKind::kPartial:
        size = program.partialElements;
        break;
    }
    if (range.offset < 0 || range.count < 0 || range.offset > size || range.count > size - range.offset)
      return internalError(
          strCat(stepName(rank, index, program.steps[index]), " uses ", rangeText(range), " of ", size, " elements"));
    bytes += range.count * (range.buffer == BufferKind::kPartial ? p.partialBytes : p.elementBytes);
    return {};
  }

  Status different(int32_t first, int32_t rank, const Program& program) const {
    const Program other = plan_.program(first);
    const std::string who = strCat("ranks ", first, " and ", rank, " have role ", plan_.roleOf(rank), " and ");
    if (other.steps.size() != program.steps.size())
      return internalError(strCat(who, other.steps.size(), " and ", program.steps.size(), " steps"));
    for (size_t i = 0; i < program.steps.size(); ++i)
      if (digestOf(other, other.steps[i]) != digestOf(program, program.steps[i]))
        return internalError(strCat(who, "differ in more than ranges: ", stepName(first, i, other.steps[i]), ", ",
                                    stepName(rank, i, program.steps[i])));
    return internalError(strCat(who, "different sizes of their own buffers"));
  }

  Status unmatched(int32_t from, int32_t to, const Messages& m) const {
    const std::string pair = strCat("messages of rank ", from, " to rank ", to);
    if (m.sends != m.receives)
      return internalError(strCat(pair, ": ", m.sends, " sends and ", m.receives, " receives"));
    const Program sender = plan_.program(from), receiver = plan_.program(to);
    const auto next = [&](const Program& program, int32_t rank, StepKind kind, int32_t peer, size_t at) {
      for (; at < program.steps.size(); ++at) {
        const ProgramStep& step = program.steps[at];
        if (step.kind == kind && resolve(map_, rank, program.peers[static_cast<size_t>(step.peer)]) == peer) break;
      }
      return at;
    };
    size_t s = next(sender, from, StepKind::kSend, to, 0), r = next(receiver, to, StepKind::kRecv, from, 0);
    while (s < sender.steps.size() && r < receiver.steps.size()) {
      const ProgramStep &send = sender.steps[s], &receive = receiver.steps[r];
      if (messageDigest(send, send.sources[0]) != messageDigest(receive, receive.dst))
        return internalError(strCat(pair, ": ", stepName(from, s, send), " has ", rangeText(send.sources[0]),
                                    ", priced ", send.bytes, ", and ", stepName(to, r, receive), " ",
                                    rangeText(receive.dst), ", priced ", receive.bytes));
      s = next(sender, from, StepKind::kSend, to, s + 1);
      r = next(receiver, to, StepKind::kRecv, from, r + 1);
    }
    return internalError(strCat(pair, " differ in size"));
  }
};

}  // namespace

Status checkRoles(const Plan& plan) {
  return RoleCheck(plan).run();
}

}  // namespace hpu::collectives
