// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Work.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/communicator/Ports.h"
#include "collectives/schedule/Timing.h"
#include "hpu/ports.h"
#include "hpu/trace.h"

namespace hpu::collectives {
namespace {

RankLinks linksOf(CommunicatorState& state) {
  return {state.rank(), *state.placement(), state.links(), state.tuner().cluster().get()};
}

}  // namespace

OperationWork::OperationWork(std::shared_ptr<CommunicatorState> state, std::string name, bool mayGrow)
    : state_(std::move(state)),
      countingDevice_(state_->countingDevice()),
      of_(state_),
      name_(std::move(name)),
      sealed_(!mayGrow),
      reasons_(mayGrow ? 3 : 2),
      inProgress_(1) {}

std::shared_ptr<CommunicatorState> OperationWork::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

Status OperationWork::checkWrite(const CommunicatorState& state, uint64_t address, int64_t bytes) const {
  return bytes > 0 ? state.device().checkWrite(address, bytes) : okStatus();
}

Status OperationWork::inContext(const CommunicatorState& state, const Status& status, const char* what) const {
  return status.withContext(base::strCat(name_, " of the communicator ", state.title(), what));
}

void OperationWork::start(std::shared_ptr<ExternalTurn> turn) {
  if (!follows_) arriving_ = turn;
  turn_ = std::move(turn);
  started_ = true;
  if (enqueued_) arriveAtGate();
  leave(1);
}

void OperationWork::arriveAtGate() noexcept {
  if (atGate_.exchange(true)) return;
  std::shared_ptr<CommunicatorState> state = of_.lock();
  if (!state) return;  // It has ended, and what comes behind it too.
  // Not in start(): the clock may have much to look at, and that is called under locks.
  if (!follows_ && arriving_) {
    try {
      arrivalPs_.store(arriving_->arrivalPs(), std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
      state->fail(resourceExhausted("out of host memory: " + name_ + " has no device time"));
    }
    arriving_.reset();
  }
  place_.front().keep = shared_from_this();
  state->gate().arrive(std::move(place_));
}

void OperationWork::beginInOrder() noexcept {
  if (begun_.exchange(true)) return;  // Cancelled.
  std::shared_ptr<CommunicatorState> state;
  {
    std::lock_guard lock(mutex_);
    state = state_;
    self_ = shared_from_this();
  }
  try {
    begin(*state, arrivalPs(), follows_);
  } catch (const std::bad_alloc&) {
    // The others wait for this rank's part.
    const Status why = inContext(*state, resourceExhausted("out of host memory"));
    state->fail(why);
    dropRest(*state, why);
  }
}

// Of a stream that keeps a failure, of another communicator most often.
constexpr const char* kNotBegun =
    " was not begun, because its stream failed before (a stream that has failed is used again after it was "
    "synchronized, which reports that failure)";

/// What was not begun never will be.
void OperationWork::dropRest(CommunicatorState&, const Status& why) {
  if (int64_t operations = drop(); operations > 0) ended(operations, why, 0);
}

void OperationWork::skipped(const Status& why) {
  failed_ = true;
  // One that has begun ahead ends through the executor.
  const bool ahead = begun_.exchange(true);
  finished_ = true;
  std::shared_ptr<CommunicatorState> state = this->state();
  if (!state) return;
  // The others wait for this rank's part; it will never come.
  state->fail(inContext(*state, why, ahead ? " was begun in vain" : kNotBegun));
  arriveAtGate();
  if (!ahead) dropRest(*state, why);
}

void OperationWork::cancel(const Status& why) {
  std::shared_ptr<CommunicatorState> state = this->state();
  if (state) {
    state->fail(inContext(*state, why, " was cancelled"));
    // One that has begun ends through the executor.
    if (!begun_.exchange(true)) dropRest(*state, why);
  }
  seal();
}

void OperationWork::help(std::chrono::steady_clock::time_point until) {
  if (std::shared_ptr<CommunicatorState> state = this->state())
    state->executor().help(until, [this] { return finished_.load(std::memory_order_acquire); });
}

uint64_t OperationWork::progress() const {
  std::shared_ptr<CommunicatorState> state = this->state();
  return state ? state->executor().progress() + 1 : 1;  // It does tell.
}

void OperationWork::oneMore(const std::shared_ptr<CommunicatorState>& state) {
  if (inProgress_++ > 0) return;
  state_ = state;
  self_ = shared_from_this();
}

bool OperationWork::countOneMore() {
  int64_t reasons = reasons_.load();
  do {
    if (failed_ || sealed_ || reasons == 0) return false;
  } while (!reasons_.compare_exchange_weak(reasons, reasons + 1));
  return true;
}

void OperationWork::ended(int64_t operations, const Status& status, int64_t endPs, std::vector<ExternalSpan> spans) {
  std::shared_ptr<CommunicatorState> state;
  std::shared_ptr<OperationWork> self;
  {
    std::lock_guard lock(mutex_);
    if (!status.ok() && failure_.ok()) failure_ = status;
    endPs_ = std::max(endPs_, endPs);
    if (!spans.empty()) spans_ = std::move(spans);
    inProgress_ -= operations;
    if (inProgress_ > 0) {
      state = state_;
    } else {
      state = std::move(state_);
      self = std::move(self_);
    }
  }
  if (!status.ok()) {
    failed_ = true;
    state->note(status);
    seal();
  }
  leave(operations);
  for (int64_t i = 0; i < operations; ++i) state->ended();
}

void OperationWork::seal() {
  if (!sealed_.exchange(true)) leave(1);
}

void OperationWork::leave(int64_t reasons) {
  if (reasons_.fetch_sub(reasons, std::memory_order_acq_rel) == reasons) complete();
}

void OperationWork::carries(const std::shared_ptr<const OperationPorts>& ports) {
  if (same_ != ports) {
    addCarried();
    same_ = ports;
  }
  ++numSame_;
}

void OperationWork::addCarried() {
  const auto add = [&](node::PortTraffic& to, const node::PortTraffic& one) {
    to.messages += numSame_ * one.messages;
    to.packets += numSame_ * one.packets;
    to.payloadBytes += numSame_ * one.payloadBytes;
    to.bytes += numSame_ * one.bytes;
    to.busyPs += numSame_ * one.busyPs;
  };
  if (same_) {
    for (int link = 0; link < node::kLinks; ++link) {
      add(carried_[link].sent, same_->links[link].sent);
      add(carried_[link].received, same_->links[link].received);
    }
  }
  numSame_ = 0;
}

void OperationWork::complete() {
  std::shared_ptr<ExternalTurn> turn = std::move(turn_);  // It may hold the last of this.
  Status status;
  int64_t end = 0;
  std::vector<ExternalSpan> spans;
  {
    std::lock_guard lock(mutex_);
    status = failure_;
    end = std::max(endPs_, arrivalPs());
    spans = std::move(spans_);
    if (status.ok()) addCarried();
  }
  // Before anybody can have waited for it.
  if (status.ok()) ports::add(countingDevice_, carried_);
  finished_.store(true, std::memory_order_release);
  turn->complete(std::move(status), end, std::move(spans));
}

// ---- Collectives --------------------------------------------------------------------------------

CollectiveWork::CollectiveWork(const std::shared_ptr<CommunicatorState>& state, const CommunicatorState::Chosen& chosen,
                               CollectiveOperation operation)
    : OperationWork(state, std::string(collectiveName(operation.schedule->problem.collective)), operation.direct),
      rank_(static_cast<size_t>(state->rank())),
      direct_(operation.direct),
      choice_(chosen.choice),
      ports_(chosen.ports) {
  kept_.push_back(std::move(operation));
  carries(ports_);
}

void CollectiveWork::portsReserved(std::vector<int64_t> readyPs) {
  std::lock_guard lock(mutex_);
  setPorts(kept_.front(), *ports_, readyPs);
}

void CollectiveWork::behind(const ExternalWork& before, int64_t earliestPs) {
  const auto* other = dynamic_cast<const CollectiveWork*>(&before);
  if (direct_ && other && directlyBehind(*other)) follow(earliestPs);
}

/// Under mutex_.
void CollectiveWork::give(CommunicatorState& state, const Problem& problem, uint64_t output,
                          DescribeOperation describe) {
  const int64_t bytes = outputElements(problem, static_cast<int>(rank_)) * int64_t{problem.elementBytes};
  Status status;
  // What the one before it may write, which has the memory now, this one may, too.
  if (output != lastOutput_ || bytes != lastOutputBytes_) {
    status = checkWrite(state, output, bytes);
    lastOutput_ = output;
    lastOutputBytes_ = status.ok() ? bytes : -1;
  }
  if (status.ok() && refused_ == 0) {
    try {
      state.executor().add(describe, [this](OperationResult& result) { done(result); });
      return;
    } catch (const std::bad_alloc&) {
      status = resourceExhausted("out of host memory");
    }
  }
  // Those behind one that was refused have no place any more.
  if (refused_++ == 0) refusal_ = inContext(state, status);
}

void CollectiveWork::begin(CommunicatorState& state, int64_t arrivalPs, bool follows) {
  {
    std::lock_guard lock(mutex_);
    stage_ = Stage::kGiven;
    for (CollectiveOperation& operation : kept_) {
      operation.arrivalPs = arrivalPs;
      operation.follows = follows;
      follows = direct_;  // What was added comes when the one before it is over.
      give(state, operation.schedule->problem, operation.output,
           [&](CollectiveOperation& place) { place = std::move(operation); });
    }
    kept_.clear();
  }
  added(state);
}

void CollectiveWork::add(const std::shared_ptr<CommunicatorState>& state, const CommunicatorState::Chosen& chosen,
                         uint64_t output, DescribeOperation describe) noexcept {
  std::lock_guard lock(mutex_);
  oneMore(state);
  carries(chosen.ports);
  grown_ = true;
  switch (stage_) {
    case Stage::kGiven:
      return give(*state, chosen.choice->schedule->problem, output, [&](CollectiveOperation& operation) {
        describe(operation);
        operation.arrivalPs = arrivalPs();
        operation.follows = true;
      });
    case Stage::kKept:
      try {
        describe(kept_.emplace_back());
        return;
      } catch (const std::bad_alloc&) {
        refusal_ = resourceExhausted("out of host memory");
      }
      break;
    case Stage::kDropped:
      refusal_ = aborted("the stream failed before its turn");
      break;
  }
  ++refused_;
}

void CollectiveWork::added(CommunicatorState& state) {
  // What this thread has added it has seen refused; mostly nothing was.
  if (refused_.load(std::memory_order_relaxed) > 0) {
    Status refusal;
    int64_t refused;
    {
      std::lock_guard lock(mutex_);
      refused = refused_.exchange(0);
      refusal = refusal_;
    }
    if (refused > 0) {
      // The others wait for this rank's part.
      state.fail(refusal);
      ended(refused, refusal, 0);
    }
  }
  state.executor().drive();
}

int64_t CollectiveWork::drop() {
  std::vector<CollectiveOperation> dropped;  // Memory goes without the lock.
  std::lock_guard lock(mutex_);
  if (stage_ == Stage::kGiven) return 0;
  stage_ = Stage::kDropped;
  dropped.swap(kept_);
  return static_cast<int64_t>(dropped.size());
}

void CollectiveWork::done(OperationResult& result) {
  if (!result.status.ok()) return ended(1, result.status, 0);
  const int64_t end = result.endPs[rank_];
  if (!trace::active()) return ended(1, okStatus(), end);
  bool grown = false;
  {
    std::lock_guard lock(mutex_);
    grown = grown_;
  }
  // Of several operations there is no one schedule to show.
  std::vector<ExternalSpan> spans;
  if (!grown) {
    const std::vector<StepTime> times =
        choice_->timer->stepsOf(static_cast<int32_t>(rank_), result.arrivalPs, result.links);
    const Schedule& schedule = *choice_->schedule;
    // From the first message to (from) a peer to the last one.
    std::map<std::pair<bool, int>, StepTime> peers;
    size_t next = 0;
    for (int32_t index : schedule.ofRank[rank_]) {
      const Step& step = schedule.steps[static_cast<size_t>(index)];
      const StepTime& time = times[next++];
      if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
      auto [it, first] = peers.try_emplace({step.kind == StepKind::kSend, step.peer}, time);
      it->second.startPs = std::min(it->second.startPs, time.startPs);
      it->second.endPs = std::max(it->second.endPs, time.endPs);
    }
    const std::shared_ptr<CommunicatorState> state = this->state();
    for (const auto& [key, time] : peers)
      spans.push_back({messageName(linksOf(*state), key.first, key.second), time.startPs, time.endPs});
  }
  ended(1, okStatus(), end, std::move(spans));
}

// ---- Transfers ----------------------------------------------------------------------------------

std::string TransferWork::nameOf(const Call& call) {
  if (call.transfers.size() != 1) return base::strCat(call.transfers.size(), " sends and receives");
  return messageName(linksOf(*call.state), call.transfers[0].send, call.transfers[0].peer);
}

TransferWork::TransferWork(const Call& call)
    : OperationWork(call.state, nameOf(call), false),
      transfers_(call.transfers),
      accesses_(call.accesses),
      memory_(std::make_shared<std::vector<std::shared_ptr<const void>>>()),
      ports_(std::make_shared<const OperationPorts>(portsOf(transfers_, linksOf(*call.state)))) {
  for (const Buffer& buffer : call.buffers) memory_->push_back(buffer.keepAlive());
  carries(ports_);
}

void TransferWork::begin(CommunicatorState& state, int64_t arrivalPs, bool) {
  for (const Access& access : accesses_) {
    if (!access.write) continue;
    Status status = checkWrite(state, access.begin, static_cast<int64_t>(access.end - access.begin));
    if (status.ok()) continue;
    // The others wait for this rank's part.
    status = inContext(state, status);
    state.fail(status);
    memory_.reset();
    return ended(1, status, 0);
  }
  // Each follows those before it on its link.
  const RankLinks links = linksOf(state);
  const int64_t startPs = state.links().startPs;
  std::vector<int64_t> free(portsReadyPs_);
  for (Transfer& transfer : transfers_) {
    transfer.arrivalPs = arrivalPs;
    if (transfer.peer == state.rank()) continue;
    const uint32_t port = portOf(links, transfer.peer, transfer.send);
    for (size_t i = 0; i < free.size(); ++i) {
      if (ports_->uses[i].port != port) continue;
      free[i] = std::max(free[i], arrivalPs + startPs);
      transfer.arrivalPs = free[i] - startPs;
      free[i] += busyPs(links, transfer.peer, transfer.send, transfer.count * elementSize(transfer.type));
    }
  }
  TransferOperation operation;
  operation.arrivalPs = arrivalPs;
  operation.timeoutMs = state.timeoutMs();
  operation.deadlineMs = state.deadlineMs();
  if (!transfers_.empty()) operation.type = transfers_.front().type;
  operation.keepAlive[0] = std::move(memory_);
  operation.transfers = std::move(transfers_);
  state.executor().begin(std::move(operation), [this](OperationResult& result) { done(result); });
}

int64_t TransferWork::drop() {
  memory_.reset();
  return 1;
}

void TransferWork::done(OperationResult& result) {
  std::shared_ptr<CommunicatorState> state = this->state();
  if (!result.status.ok()) return ended(1, result.status, 0);
  std::vector<TransferLeg> legs;
  const RankLinks links = linksOf(*state);
  for (const OperationResult::Peer& peer : result.peers)
    legs.push_back({peer.peer, peer.send, peer.arrivalPs, peer.bytes, peer.ownArrivalPs,
                    wayOf(links, peer.peer, peer.send, peer.bytes)});
  std::vector<ExternalSpan> spans;
  if (trace::active())
    for (const TransferLeg& leg : legs)
      spans.push_back({messageName(links, leg.send, leg.peer),
                       std::max({arrivalPs(), leg.ownArrivalPs, leg.peerArrivalPs}),
                       transfersEndPs(state->links(), state->rank(), arrivalPs(), {&leg, 1})});
  ended(1, okStatus(), transfersEndPs(state->links(), state->rank(), arrivalPs(), legs), std::move(spans));
}

}  // namespace hpu::collectives
