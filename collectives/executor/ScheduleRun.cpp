// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/ScheduleRun.h"

#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/executor/Calls.h"

namespace hpu::collectives {
namespace {

using base::strCat;

constexpr Lane kLane = Lane::kCollective;

}  // namespace

ScheduleRun::ScheduleRun(Peers& peers, LaneCounts& counts, CollectiveOperation& operation,
                         std::shared_ptr<const RankPlan> plan)
    : CollectiveRun(peers, operation),
      counts_(counts),
      plan_(std::move(plan)),
      stepsLeft_(plan_->steps.size()),
      peerStates_(static_cast<size_t>(peers.ranks())),
      states_(plan_->steps.size()) {
  prepare(false);
}

Status ScheduleRun::start() {
  HPU_RETURN_IF_ERROR(checkProblem());
  const Schedule& schedule = *plan_->schedule;
  const Problem& problem = schedule.problem;
  struct {
    BufferKind kind;
    uint64_t address;
    int64_t elements;
  } const needs[] = {
      {BufferKind::kInput, operation_.input, inputElements(problem, peers_.rank())},
      {BufferKind::kOutput, operation_.output, outputElements(problem, peers_.rank())},
      {BufferKind::kScratch, operation_.scratch, schedule.scratchElements},
      {BufferKind::kPartial, operation_.partial, schedule.partialElements},
  };
  for (const auto& need : needs) {
    HPU_ASSIGN(buffers_[static_cast<size_t>(need.kind)], resolve(need.kind, need.address, need.elements));
  }
  const int64_t most = std::max(needs[0].elements, needs[1].elements) * problem.elementBytes;
  stream_ = most >= kStreamBytes / problem.ranks;
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].waits = plan_->steps[i].waits;
    states_[i].readers = plan_->steps[i].readers;
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].waits == 0) makeReady(static_cast<int32_t>(i));
  }
  return okStatus();
}

void ScheduleRun::makeReady(int32_t index) {
  const PlanStep& step = plan_->steps[static_cast<size_t>(index)];
  if (step.kind == StepKind::kSend || step.kind == StepKind::kRecv) {
    states_[static_cast<size_t>(index)].ready = true;
  } else {
    compute_.push_back(index);
  }
}

void ScheduleRun::stepDone(int32_t index) {
  const PlanStep& step = plan_->steps[static_cast<size_t>(index)];
  --stepsLeft_;
  for (uint32_t k = 0; k < step.numNext; ++k) {
    const int32_t next = plan_->next[step.firstNext + k];
    if (--states_[static_cast<size_t>(next)].waits == 0) makeReady(next);
  }
}

/// A message that nobody reads any more is released when all before it are.
void ScheduleRun::messageDone(int32_t receive) {
  states_[static_cast<size_t>(receive)].finished = true;
  const int peer = plan_->steps[static_cast<size_t>(receive)].peer;
  PeerState& state = peerStates_[static_cast<size_t>(peer)];
  const auto& list = plan_->receives[static_cast<size_t>(peer)];
  while (state.releasing < state.arrived && states_[static_cast<size_t>(list[state.releasing])].finished) {
    peers_.transport().release(peer, kLane);
    ++state.releasing;
  }
}

void ScheduleRun::readDone(const Operand& source) {
  if (source.alias < 0) return;
  if (--states_[static_cast<size_t>(source.alias)].readers == 0) messageDone(source.alias);
}

const std::byte* ScheduleRun::sourceData(const Operand& source) const {
  const int64_t offset = source.offset * elementBytes(source.buffer);
  const std::byte* base = source.alias >= 0 ? states_[static_cast<size_t>(source.alias)].message
                                            : buffers_[static_cast<size_t>(source.buffer)];
  return base ? base + offset : nullptr;
}

std::byte* ScheduleRun::dstData(const Operand& dst) const {
  std::byte* base = buffers_[static_cast<size_t>(dst.buffer)];
  return base ? base + dst.offset * elementBytes(dst.buffer) : nullptr;
}

Status ScheduleRun::offerSends(int peer, bool& moved) {
  PeerState& state = peerStates_[static_cast<size_t>(peer)];
  const auto& list = plan_->sends[static_cast<size_t>(peer)];
  while (state.offered < list.size() && states_[static_cast<size_t>(list[state.offered])].ready) {
    const int32_t index = list[state.offered];
    const PlanStep& step = plan_->steps[static_cast<size_t>(index)];
    const Operand& source = plan_->sources[step.firstSource];
    MessageTag tag;
    tag.sequence = mine_.sequence;
    tag.count = step.count;
    const int64_t bytes = step.count * elementBytes(source.buffer);
    auto offered = peers_.transport().offer(peer, kLane, bytes ? sourceData(source) : nullptr, bytes, tag);
    if (!offered.ok()) {
      // What the peer said before it went is heard first: checkPeers decides.
      if (offered.status().code() != StatusCode::kInvalidArgument) return okStatus();
      return offered.status();
    }
    if (*offered == Offered::kFull) break;
    moved = true;
    peers_.advanced();
    ++state.offered;
    if (*offered == Offered::kCopied) {
      states_[static_cast<size_t>(index)].copied = true;
      readDone(source);
      stepDone(index);
    }
  }
  if (state.unreleased == state.offered) return okStatus();
  uint64_t released = 0;
  bool asked = false;
  while (state.unreleased < state.offered) {
    const int32_t index = list[state.unreleased];
    if (!states_[static_cast<size_t>(index)].copied) {
      if (!asked) {
        released = peers_.transport().released(peer, kLane) - counts_.sent[static_cast<size_t>(peer)];
        asked = true;
      }
      // Messages of earlier operations may be unreleased too: the difference is negative then.
      if (static_cast<int64_t>(released) <= static_cast<int64_t>(state.unreleased)) break;
      moved = true;
      peers_.sawPeer(peer);
      stepDone(index);
    }
    ++state.unreleased;
  }
  return okStatus();
}

/// Says where the messages go whose turn in this rank's memory has come.
void ScheduleRun::expectReceives(int peer) {
  PeerState& state = peerStates_[static_cast<size_t>(peer)];
  const auto& list = plan_->receives[static_cast<size_t>(peer)];
  while (state.expected < list.size() && states_[static_cast<size_t>(list[state.expected])].ready) {
    const PlanStep& step = plan_->steps[static_cast<size_t>(list[state.expected])];
    const int64_t bytes = step.count * elementBytes(step.dst.buffer);
    peers_.transport().expect(peer, kLane, counts_.received[static_cast<size_t>(peer)] + state.expected,
                              bytes > 0 ? dstData(step.dst) : nullptr, bytes);
    ++state.expected;
  }
}

Status ScheduleRun::takeArrived(int peer, bool& moved) {
  PeerState& state = peerStates_[static_cast<size_t>(peer)];
  const auto& list = plan_->receives[static_cast<size_t>(peer)];
  while (callers_[static_cast<size_t>(peer)].known && state.arrived < list.size()) {
    const int32_t index = list[state.arrived];
    StepState& mine = states_[static_cast<size_t>(index)];
    if (!mine.ready) break;
    auto message = peers_.transport().arrived(peer, kLane, counts_.received[static_cast<size_t>(peer)] + state.arrived);
    if (!message) break;
    const PlanStep& step = plan_->steps[static_cast<size_t>(index)];
    const int64_t bytes = step.count * elementBytes(step.dst.buffer);
    if (message->damaged)
      return dataLoss(strCat(callName(mine_), ": the ", message->bytes, " bytes of message ", state.arrived,
                             " from rank ", peer, " to rank ", peers_.rank(),
                             " were damaged on their way: their CRC-32C is not the one that the sender computed"));
    if (message->bytes != bytes || message->tag.sequence != mine_.sequence) {
      return internalError(strCat(callName(mine_), ": rank ", peer, " sent ", message->bytes, " bytes of operation ",
                                  message->tag.sequence, " as message ", state.arrived, ", and not ", bytes));
    }
    moved = true;
    peers_.sawPeer(peer);
    peers_.advanced();
    ++state.arrived;
    mine.message = message->data;
    if (step.alias || bytes == 0) {
      if (mine.readers == 0) messageDone(index);
      stepDone(index);
    } else {
      compute_.push_back(index);
    }
  }
  return okStatus();
}

Status ScheduleRun::pushPeer(int peer, bool& moved) {
  expectReceives(peer);
  HPU_RETURN_IF_ERROR(takeArrived(peer, moved));
  return offerSends(peer, moved);
}

bool ScheduleRun::scalesKnown(const PlanStep& step) const {
  for (const Operand& source : plan_->sourcesOf(step)) {
    if (source.contributor >= 0 && source.buffer != BufferKind::kPartial &&
        !callers_[static_cast<size_t>(source.contributor)].known) {
      return false;
    }
  }
  return true;
}

bool ScheduleRun::runReduce(const PlanStep& step, Pace& pace) {
  const Problem& problem = plan_->schedule->problem;
  reduceSources_.clear();
  for (const Operand& source : plan_->sourcesOf(step)) {
    const bool partial = source.buffer == BufferKind::kPartial;
    const double scale =
        !partial && source.contributor >= 0 ? callers_[static_cast<size_t>(source.contributor)].scale : 1;
    reduceSources_.push_back({sourceData(source), partial, scale});
  }
  Reduce what;
  what.type = operation_.type;
  what.op = operation_.op;
  what.dstPartial = step.dst.buffer == BufferKind::kPartial;
  if (operation_.op == ReduceOp::kAverage && !what.dstPartial) what.divisor = problem.ranks;
  what.stream = stream_ && step.dst.buffer == BufferKind::kOutput && !step.reread;
  const int64_t dstBytes = elementBytes(step.dst.buffer);
  const int64_t block = kBlockBytes / dstBytes;
  std::byte* dst = dstData(step.dst);
  int64_t from = 0;
  while (computeAt_ < step.count) {
    for (Source& source : reduceSources_) {
      source.data += (computeAt_ - from) * (source.partial ? problem.partialBytes : problem.elementBytes);
    }
    from = computeAt_;
    what.count = std::min(block, step.count - computeAt_);
    what.dst = dst + computeAt_ * dstBytes;
    reduce(what, reduceSources_);
    computeAt_ += what.count;
    peers_.advanced();
    if (computeAt_ < step.count && pace.pause()) return false;
  }
  return true;
}

/// Runs the head of the queue; false: paused within it.
bool ScheduleRun::runCompute(int32_t index, Pace& pace) {
  const PlanStep& step = plan_->steps[static_cast<size_t>(index)];
  bool complete = true;
  if (step.count > 0) {
    if (step.kind == StepKind::kReduce) {
      complete = runReduce(step, pace);
    } else {
      const std::byte* src = step.kind == StepKind::kRecv ? states_[static_cast<size_t>(index)].message
                                                          : sourceData(plan_->sources[step.firstSource]);
      std::byte* dst = dstData(step.dst);
      const bool stream = stream_ && step.dst.buffer == BufferKind::kOutput && !step.reread;
      if (dst != src) {
        complete = copyInBlocks(dst, src, step.count * elementBytes(step.dst.buffer), stream, computeAt_, peers_, pace);
      }
    }
  }
  if (!complete) return false;
  computeAt_ = 0;
  if (step.kind == StepKind::kRecv) {
    messageDone(index);
  } else {
    for (const Operand& source : plan_->sourcesOf(step)) readDone(source);
  }
  stepDone(index);
  return true;
}

Status ScheduleRun::push(Pace& pace, bool& moved, bool& paused) {
  Transport& transport = peers_.transport();
  for (;;) {
    bool again = false;
    if (!published_ && transport.publish(mine_)) published_ = again = true;
    if (recordsLeft_ > 0) {
      const int before = recordsLeft_;
      Status status = readRecords(again);
      // A rank that gives up over a call that differs has told of its own: the others name the difference too.
      if (!status.ok() && published_) return status;
      if (recordsLeft_ < before) {
        compute_.insert(compute_.end(), unscaled_.begin(), unscaled_.end());
        unscaled_.clear();
      }
    }
    if (published_) {
      // Ranks begin with different peers, so that no one is asked by all at once.
      for (int shift = 1; shift < peers_.ranks(); ++shift) {
        HPU_RETURN_IF_ERROR(pushPeer((peers_.rank() + shift) % peers_.ranks(), again));
      }
    }
    if (computeHead_ < compute_.size() && published_) {
      const int32_t index = compute_[computeHead_];
      const PlanStep& step = plan_->steps[static_cast<size_t>(index)];
      again = true;
      if (step.kind == StepKind::kReduce && recordsLeft_ > 0 && !scalesKnown(step)) {
        unscaled_.push_back(index);
        ++computeHead_;
      } else {
        const bool complete = runCompute(index, pace);
        moved = true;
        if (!complete) {
          paused = true;
          return okStatus();
        }
        ++computeHead_;
      }
      if (computeHead_ == compute_.size()) {
        compute_.clear();
        computeHead_ = 0;
      }
    }
    moved |= again;
    if (!again || done()) return okStatus();
    if (pace.pause()) {
      paused = true;
      return okStatus();
    }
  }
}

/// Every message, and every release of a shared one, is a change of its own, and so is a rank's
/// record, which comes before its first message. What waits for several of them needs them all. A
/// rank that slept for single ones would be woken many times to find that it must wait on.
///
/// `least` may count no change that could depend on something that this rank can do before: a
/// shared message that can be copied is copied at once, because its sender waits for that.
ChangesNeeded ScheduleRun::changesNeeded() {
  constexpr int64_t kLarge = 64 << 10;  // Bytes to copy that are not worth putting off.
  if (!published_ || !unscaled_.empty()) return {};
  Transport& transport = peers_.transport();
  const int64_t small = transport.smallBytes();
  needs_.resize(states_.size());
  uint32_t all = 0, useful = 0, least = UINT32_MAX;
  bool blocked = false, large = false;
  auto bytesOf = [&](const PlanStep& step) { return step.count * elementBytes(step.dst.buffer); };
  auto stepAt = [&](int32_t index) -> const PlanStep& { return plan_->steps[static_cast<size_t>(index)]; };
  auto forAwaited = [&](auto&& f) {
    for (size_t peer = 0; peer < peerStates_.size(); ++peer) {
      const PeerState& state = peerStates_[peer];
      const auto& receives = plan_->receives[peer];
      if (state.arrived < receives.size() && states_[static_cast<size_t>(receives[state.arrived])].ready) {
        f(receives[state.arrived], callers_[peer].known ? 1u : 2u);
      }
      const auto& sends = plan_->sends[peer];
      blocked |=  // The lane is full.
          state.offered < sends.size() && states_[static_cast<size_t>(sends[state.offered])].ready;
      for (size_t k = state.unreleased; k < state.offered; ++k) {
        if (!states_[static_cast<size_t>(sends[k])].copied) f(sends[k], 1u);
      }
    }
  };
  auto forNext = [&](const PlanStep& step, auto&& f) {
    for (uint32_t k = 0; k < step.numNext; ++k) f(plan_->next[step.firstNext + k]);
  };
  forAwaited([&](int32_t index, uint32_t weight) {
    const PlanStep& step = stepAt(index);
    const bool receive = step.kind == StepKind::kRecv;
    all += weight;
    if (receive || step.numNext > 0) useful += weight;
    if (receive && !step.alias) {
      if (bytesOf(step) > small) least = 1;
      large |= bytesOf(step) >= kLarge;
    }
    forNext(step, [&](int32_t next) { needs_[static_cast<size_t>(next)] += weight; });
  });
  forAwaited([&](int32_t index, uint32_t) {
    forNext(stepAt(index), [&](int32_t next) {
      uint32_t& needs = needs_[static_cast<size_t>(next)];
      if (needs == 0) return;  // Counted already.
      const PlanStep& step = stepAt(next);
      if (step.kind == StepKind::kRecv) {
        // To be ready to receive is of no use before the message is there.
        const auto& list = plan_->receives[static_cast<size_t>(step.peer)];
        const PeerState& state = peerStates_[static_cast<size_t>(step.peer)];
        const bool front = state.arrived < list.size() && list[state.arrived] == next;
        const uint64_t number = counts_.received[static_cast<size_t>(step.peer)] + state.arrived;
        if (front && !transport.arrived(step.peer, kLane, number)) {
          ++needs;
          ++useful;
        }
        large |= !step.alias && bytesOf(step) >= kLarge;
      }
      least = std::min(least, std::exchange(needs, 0));
    });
  });
  if (blocked || all == 0) return {};
  least = std::min({least, all, kMostChanges});
  return {least, large ? least : std::clamp(useful, least, kMostChanges)};
}

void ScheduleRun::finish() {
  for (size_t peer = 0; peer < peerStates_.size(); ++peer) {
    counts_.sent[peer] += plan_->sends[peer].size();
    counts_.received[peer] += plan_->receives[peer].size();
  }
  peers_.transport().retire(mine_.sequence);
}

bool ScheduleRun::waitsFor(int peer) const {
  const auto p = static_cast<size_t>(peer);
  const PeerState& state = peerStates_[p];
  if (!callers_[p].known || state.unreleased < plan_->sends[p].size()) return true;
  if (state.arrived == plan_->receives[p].size()) return false;
  // All that it has to send may lie there already, while the steps here wait for others.
  return !peers_.transport().arrived(peer, kLane, counts_.received[p] + plan_->receives[p].size() - 1);
}

std::string ScheduleRun::waitText(int peer) const {
  const auto p = static_cast<size_t>(peer);
  const PeerState& state = peerStates_[p];
  if (state.arrived < plan_->receives[p].size()) {
    return strCat(" has sent ", state.arrived, " of its ", plan_->receives[p].size(), " messages in ", callName(mine_));
  }
  return strCat(" has taken ", state.unreleased, " of the ", plan_->sends[p].size(), " messages for it in ",
                callName(mine_));
}

}  // namespace hpu::collectives
