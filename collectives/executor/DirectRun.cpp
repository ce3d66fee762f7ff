// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/DirectRun.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/executor/Calls.h"

namespace hpu::collectives {
namespace {

using base::strCat;

// Of each source; what is written to several memories is still in the cache for the next one.
constexpr int64_t kBlock = 32 << 10;
// Beyond so many bytes to move, a rank without a share leaves them to the others, until none has
// done a part for so long.
constexpr int64_t kOwnTraffic = 256 << 10;
constexpr std::chrono::microseconds kPatience{2000};

}  // namespace

DirectRun::DirectRun(Peers& peers, CollectiveOperation& operation)
    : CollectiveRun(peers, operation), work_(*peers.transport().sharedWork()) {}

void DirectRun::prepare(std::shared_ptr<const DirectPlan> plan) {
  const uint64_t input = mine_.input, output = mine_.output;
  const bool alike = CollectiveRun::prepare(true);
  fits_ = fits_ && alike && operation_.input == input && operation_.output == output;
  if (!alike) memories_.assign(static_cast<size_t>(peers_.ranks()), {});
  plan_ = std::move(plan);
  stage_ = Stage::kStarted;
  first_ = endedHere_ = outOfPatience_ = false;
  visited_ = 0;
  leftSince_.reset();
  leftAt_ = 0;
}

Status DirectRun::start() {
  if (fits_) return okStatus();
  HPU_RETURN_IF_ERROR(checkProblem());
  const int64_t input = inputElements(problem(), peers_.rank());
  const int64_t output = outputElements(problem(), peers_.rank());
  HPU_RETURN_IF_ERROR(resolve(BufferKind::kInput, operation_.input, input).status());
  HPU_RETURN_IF_ERROR(resolve(BufferKind::kOutput, operation_.output, output).status());
  stream_ = std::max(input, output) * problem().elementBytes >= kStreamBytes / peers_.ranks();
  fits_ = true;
  return okStatus();
}

Status DirectRun::open() {
  for (int rank = 0; rank < peers_.ranks(); ++rank) {
    const Caller& caller = callers_[static_cast<size_t>(rank)];
    Memory& memory = memories_[static_cast<size_t>(rank)];
    if (memory.found && memory.inputAddress == caller.input && memory.outputAddress == caller.output) continue;
    memory = {};
    const int64_t input = inputElements(problem(), rank) * problem().elementBytes;
    const int64_t output = outputElements(problem(), rank) * problem().elementBytes;
    if (input > 0) memory.input = work_.memory(rank, caller.input, input);
    if (output > 0) memory.output = work_.memory(rank, caller.output, output);
    if ((input > 0 && !memory.input) || (output > 0 && !memory.output)) {
      return dataLoss(
          strCat(callText(mine_, true), ": rank ", rank, " published operands that are not in its device's memory"));
    }
    memory.found = true;
    memory.inputAddress = caller.input;
    memory.outputAddress = caller.output;
  }
  stage_ = Stage::kOpen;
  if (workers_ > 0) return okStatus();
  const int ranks = peers_.ranks(), rank = peers_.rank();
  workers_ = std::min(ranks, work_.cpus());
  // The same ones each time: their processes have mapped what they need, and it is in their caches.
  if (rank < workers_) {
    firstShare_ = ranks * rank / workers_;
    ownShares_ = ranks * (rank + 1) / workers_ - firstShare_;
  }
  return okStatus();
}

bool DirectRun::publish() {
  if (!peers_.transport().publish(mine_)) return false;
  stage_ = Stage::kPublished;
  bool moved = false;
  // What differs is found again when it matters.
  if (recordsLeft_ > 0) readRecords(moved).ignore();
  first_ = recordsLeft_ == 0;
  return true;
}

void DirectRun::haveTurn(bool endedHere) {
  CollectiveRun::haveTurn(endedHere);
  first_ |= endedHere;
}

Status DirectRun::push(Pace& pace, bool& moved, bool& paused) {
  if (stage_ == Stage::kStarted && publish()) moved = true;
  if (stage_ == Stage::kStarted) return okStatus();
  if (recordsLeft_ > 0) HPU_RETURN_IF_ERROR(readRecords(moved));
  if (recordsLeft_ > 0) return okStatus();
  if (stage_ == Stage::kPublished) {
    HPU_RETURN_IF_ERROR(open());
    const int64_t parts = plan_->parts();
    // One part is done sooner than anybody is woken.
    if (first_ && parts > 1) work_.ringFirst(workers_);
    if (parts == 0) {
      finishedBy(first_);
      moved = true;
    }
  }
  if (stage_ == Stage::kOpen) HPU_RETURN_IF_ERROR(takeParts(pace, moved, paused));
  return okStatus();
}

Status DirectRun::takeParts(Pace& pace, bool& moved, bool& paused) {
  const int ranks = peers_.ranks();
  while (visited_ < ranks) {
    if (visited_ >= ownShares_ && leaveToOthers()) return okStatus();
    const int share = (firstShare_ + visited_) % ranks;
    const int64_t first = plan_->firstPart(share), parts = plan_->firstPart(share + 1) - first;
    int64_t taken = parts;
    if (static_cast<int64_t>(work_.finished(share, mine_.sequence)) < parts) {
      if (pace.pause()) {
        paused = true;
        return okStatus();
      }
      taken = work_.take(share, mine_.sequence);
      // Looked at after it was said that this rank works: it sees who gives up, or is seen.
      const bool present = taken < parts && work_.allPresent();
      if (present) runPart(plan_->part(first + taken));
      work_.finish(share, mine_.sequence, present);
      if (taken < parts && !present) return okStatus();  // checkPeers says who is gone.
    }
    if (taken >= parts) {
      ++visited_;
      continue;
    }
    moved = true;
    peers_.advanced();
    if (wasSmall() || allFinished()) {
      finishedBy(/*thisRank=*/true);
      return okStatus();
    }
  }
  if (allFinished()) {
    finishedBy(/*thisRank=*/false);
    moved = true;
  }
  return okStatus();
}

void DirectRun::finishedBy(bool thisRank) {
  stage_ = Stage::kFinished;
  endedHere_ = thisRank;
}

/// Large work is left to those who have shares while they get on with it: to map what they have
/// mapped, and to run where they run, costs more than it helps.
bool DirectRun::leaveToOthers() {
  if (plan_->traffic <= kOwnTraffic || peers_.rank() < workers_) return false;
  const int64_t finished = finishedParts();
  if (finished >= plan_->parts()) {
    visited_ = peers_.ranks();
    return false;
  }
  if (outOfPatience_) return false;
  const auto now = Clock::now();
  if (!leftSince_ || finished != leftAt_) {
    if (leftSince_) begun_ = now;  // They get on: nobody is late.
    leftSince_ = now;
    leftAt_ = finished;
  }
  outOfPatience_ = now - *leftSince_ >= kPatience;
  return !outOfPatience_;
}

int64_t DirectRun::finishedParts() const {
  int64_t finished = 0;
  for (int rank = 0; rank < peers_.ranks(); ++rank) {
    // A broken peer's count is worth no more than its share.
    finished += std::min(static_cast<int64_t>(work_.finished(rank, mine_.sequence)),
                         plan_->firstPart(rank + 1) - plan_->firstPart(rank));
  }
  return finished;
}

bool DirectRun::allFinished() const {
  return finishedParts() >= plan_->parts();
}

void DirectRun::runPart(const DirectPlan::Part& part) {
  for (const Flow& flow : part.flows) runFlow(flow, part.offset, part.count);
}

void DirectRun::runFlow(const Flow& flow, int64_t offset, int64_t count) {
  const int64_t size = problem().elementBytes;
  const int64_t bytes = count * size;
  targets_.clear();
  sources_.clear();
  for (int rank = 0; rank < peers_.ranks(); ++rank) {
    const Memory& memory = memories_[static_cast<size_t>(rank)];
    if (flow.to == Flow::kAllRanks || flow.to == rank) {
      targets_.push_back(memory.output + (flow.output + offset) * size);
      work_.prepare(rank, targets_.back(), bytes);
    }
    if (flow.from == Flow::kAllRanks || flow.from == rank) {
      const std::byte* data = memory.input + (flow.input + offset) * size;
      sources_.push_back({data, false, callers_[static_cast<size_t>(rank)].scale});
      if (targets_.empty() || targets_.back() != data) work_.prepare(rank, data, bytes);
    }
  }
  const bool reduces = flow.from == Flow::kAllRanks;
  // What was read to be reduced is written where it lies in the cache.
  bool inPlace = false;
  for (const Source& source : sources_) {
    inPlace |= reduces && std::find(targets_.begin(), targets_.end(), source.data) != targets_.end();
  }
  const bool stream = stream_ && !inPlace;
  // Results that go around the caches to several memories are not read back from one of them.
  alignas(64) std::array<std::byte, kBlock> kept;
  const bool keep = stream && reduces && targets_.size() > 1;
  Reduce what;
  what.type = operation_.type;
  what.op = operation_.op;
  if (operation_.op == ReduceOp::kAverage) what.divisor = problem().ranks;
  what.stream = stream && !keep;
  const int64_t block = kBlock / size;
  for (int64_t at = 0; at < count; at += block) {
    what.count = std::min(block, count - at);
    const int64_t blockBytes = what.count * size;
    const std::byte* result = sources_[0].data;
    size_t next = 0;
    if (reduces) {
      what.dst = keep ? kept.data() : targets_[0];
      reduce(what, sources_);
      result = what.dst;
      next = keep ? 0 : 1;
    }
    for (; next < targets_.size(); ++next) {
      if (targets_[next] != result) copyBytes(targets_[next], result, blockBytes, stream);
    }
    for (Source& source : sources_) source.data += blockBytes;
    for (std::byte*& target : targets_) target += blockBytes;
  }
}

ChangesNeeded DirectRun::changesNeeded() {
  ChangesNeeded needed;
  if (leftSince_ && !outOfPatience_) needed.patience = restOf(kPatience, *leftSince_);
  return needed;
}

void DirectRun::finish() {
  peers_.transport().retire(mine_.sequence);
}

/// Peers that were stopped within a part may yet write into the output. What is published they may
/// have begun before this rank knew.
void DirectRun::abandon() {
  KeptMemory kept = std::exchange(operation_.keepAlive, {});
  if (stage_ == Stage::kStarted) return;
  for (auto& memory : kept) work_.keepWhileWorking(mine_.sequence, std::move(memory));
}

/// Parts are not done for ranks that have gone, so all have to be there to the end. That nobody
/// works while parts are missing cannot be, and is not waited for without end either.
bool DirectRun::waitsFor(int peer) const {
  if (!callers_[static_cast<size_t>(peer)].known || work_.works(peer, mine_.sequence) ||
      !peers_.transport().peerStatus(peer).ok()) {
    return true;
  }
  for (int rank = 0; rank < peers_.ranks(); ++rank) {
    if (!callers_[static_cast<size_t>(rank)].known || work_.works(rank, mine_.sequence)) {
      return false;
    }
  }
  return true;
}

std::string DirectRun::waitText(int peer) const {
  return strCat(work_.works(peer, mine_.sequence) ? " has not finished its part of " : " waits too in ",
                callName(mine_));
}

}  // namespace hpu::collectives
