// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Work.h"

#include <algorithm>
#include <map>
#include <new>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/schedule/Timing.h"
#include "hpu/trace.h"

namespace hpu::collectives {
namespace {

std::string spanName(bool send, int peer) {
  return base::strCat(send ? "send to " : "recv from ", peer);
}

Call& withScratch(Call& call, const Scratch& scratch) {
  if (scratch.buffer.valid()) call.buffers.push_back(scratch.buffer);
  return call;
}

/// Of a device of the node: the port towards each of them, and that from it.
uint32_t portOf(int32_t device, bool send) {
  return static_cast<uint32_t>(device) * 2 + (send ? 0 : 1);
}

void addUse(ExternalPorts& ports, uint32_t port, int64_t busyPs) {
  for (ExternalPorts::Use& use : ports.uses) {
    if (use.port != port) continue;
    use.busyPs += busyPs;  // Ranks of one device.
    return;
  }
  ports.uses.push_back({port, busyPs});
}

std::string transfersName(const std::vector<Transfer>& transfers) {
  if (transfers.size() != 1) return base::strCat(transfers.size(), " sends and receives");
  return spanName(transfers[0].send, transfers[0].peer);
}

}  // namespace

OperationWork::OperationWork(Call& call, std::string name)
    : state_(call.state),
      name_(std::move(name)),
      buffers_(std::make_shared<std::vector<Buffer>>(std::move(call.buffers))),
      accesses_(std::move(call.accesses)) {}

/// Peers write here too: it is this rank that knows what its host has.
Status OperationWork::checkWrites() const {
  for (const Access& access : accesses_) {
    if (!access.write) continue;
    HPU_RETURN_IF_ERROR(state_->device().checkWrite(access.begin, static_cast<int64_t>(access.end - access.begin)));
  }
  return okStatus();
}

void OperationWork::start(std::shared_ptr<ExternalTurn> turn) {
  if (!follows_) arriving_ = turn;
  turn_ = std::move(turn);
  started_ = true;
  if (enqueued_) arriveAtGate();
  meet();
}

void OperationWork::arriveAtGate() noexcept {
  if (atGate_.exchange(true)) return;
  // Not in start(): the clock may have much to look at, and that is called under locks.
  if (!follows_ && arriving_) {
    try {
      arrivalPs_.store(arriving_->arrivalPs(), std::memory_order_relaxed);
    } catch (const std::bad_alloc&) {
      state_->fail(resourceExhausted("out of host memory: " + name_ + " has no device time"));
    }
    arriving_.reset();
  }
  place_.front().keep = shared_from_this();
  state_->gate().arrive(std::move(place_));
}

void OperationWork::beginInOrder() noexcept {
  if (begun_.exchange(true)) return;  // Cancelled.
  Status status;
  try {
    status = checkWrites();
    if (status.ok()) {
      OperationCommon common;
      common.arrivalPs = arrivalPs();
      common.timeoutMs = state_->timeoutMs();
      common.deadlineMs = state_->deadlineMs();
      common.keepAlive = std::move(buffers_);
      return begin(std::move(common), follows_);
    }
  } catch (const std::bad_alloc&) {
    status = resourceExhausted("out of host memory");
  }
  // The others wait for this rank's part.
  status = status.withContext(base::strCat(name_, " of the communicator ", state_->title()));
  state_->fail(status);
  buffers_.reset();
  done({status, {}, {}, {}, {}});
}

void OperationWork::skipped(const Status& why) {
  // One that has begun ahead ends through the executor.
  const bool ahead = begun_.exchange(true);
  // The others wait for this rank's part; it will never come.
  state_->fail(why.withContext(
      base::strCat(name_, " of the communicator ", state_->title(), ahead ? " was begun in vain" : " was not begun")));
  arriveAtGate();
  if (!ahead) buffers_.reset();
  finished_ = true;
  state_->ended();
}

void OperationWork::cancel(const Status& why) {
  state_->fail(why.withContext(base::strCat(name_, " of the communicator ", state_->title(), " was cancelled")));
  // One that has begun ends through the executor.
  if (!begun_.exchange(true)) {
    buffers_.reset();
    done({why, {}, {}, {}, {}});
  }
}

void OperationWork::help(std::chrono::steady_clock::time_point until) {
  state_->executor().help(until, [this] { return finished_.load(std::memory_order_acquire); });
}

uint64_t OperationWork::progress() const {
  return state_->executor().progress() + 1;  // It does tell.
}

void OperationWork::done(OperationResult result) {
  if (!result.status.ok()) state_->note(result.status);
  result_ = std::move(result);
  meet();
}

void OperationWork::meet() {
  if (met_.fetch_add(1, std::memory_order_acq_rel) == 1) complete();
}

void OperationWork::complete() {
  std::shared_ptr<CommunicatorState> state = state_;  // The turn may hold the last of this.
  std::shared_ptr<ExternalTurn> turn = std::move(turn_);
  Status status = std::move(result_.status);
  std::vector<ExternalSpan> spans;
  int64_t end = arrivalPs();
  if (status.ok()) end = endPs(result_, trace::active() ? &spans : nullptr);
  finished_.store(true, std::memory_order_release);
  turn->complete(std::move(status), std::max(end, arrivalPs()), std::move(spans));
  state->ended();
}

// ---- Collectives --------------------------------------------------------------------------------

CollectiveWork::CollectiveWork(Call call, std::shared_ptr<const Choice> choice, const Scratch& scratch)
    : OperationWork(withScratch(call, scratch), std::string(collectiveName(call.problem.collective))),
      choice_(std::move(choice)) {
  operation_.type = call.type;
  operation_.direct = call.state->direct();
  operation_.schedule = choice_->schedule;
  operation_.timer = choice_->timer;
  operation_.op = call.op;
  operation_.scale = call.scale;
  operation_.tableHash = call.state->tuner().tableHash();
  operation_.input = call.input;
  operation_.output = call.output;
  operation_.scratch = scratch.scratch;
  operation_.partial = scratch.partial;
  operation_.devices = state().devices();
  const std::shared_ptr<const RankUse> use = choice_->timer->use(state().rank());
  for (const RankUse::Link& link : use->links)
    addUse(ports_, portOf((*operation_.devices)[static_cast<size_t>(link.peer)], link.send), link.busyPs);
  ports_.startPs = state().links().startPs;
  ports_.tailPs = state().links().messagePs;
  ports_.leastPs = use->leastPs;
}

void CollectiveWork::behind(const ExternalWork& before, int64_t earliestPs) {
  const auto* other = dynamic_cast<const CollectiveWork*>(&before);
  if (operation_.direct && other && directlyBehind(*other)) follow(earliestPs);
}

void CollectiveWork::begin(OperationCommon common, bool follows) {
  CollectiveOperation operation = std::move(operation_);
  common.type = operation.type;
  static_cast<OperationCommon&>(operation) = std::move(common);
  operation.follows = follows;
  for (size_t i = 0; i < portsReadyPs().size(); ++i) {
    const uint32_t port = ports_.uses[i].port;
    operation.portsPs[port % 2][port / 2] = portsReadyPs()[i];
  }
  state().executor().begin(std::move(operation),
                           [self = shared_from_this(), this](OperationResult result) { done(std::move(result)); });
}

int64_t CollectiveWork::endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const {
  auto rank = static_cast<size_t>(state().rank());
  if (!spans) return result.endPs[rank];
  ScheduleTiming timing = choice_->timer->run(result.arrivalPs, true, result.links);
  const Schedule& schedule = *choice_->schedule;
  // From the first message to (from) a peer to the last one.
  std::map<std::pair<bool, int>, StepTime> peers;
  for (int32_t index : schedule.ofRank[rank]) {
    const Step& step = schedule.steps[static_cast<size_t>(index)];
    if (step.kind != StepKind::kSend && step.kind != StepKind::kRecv) continue;
    const StepTime& time = timing.steps[static_cast<size_t>(index)];
    auto [it, first] = peers.try_emplace({step.kind == StepKind::kSend, step.peer}, time);
    it->second.startPs = std::min(it->second.startPs, time.startPs);
    it->second.endPs = std::max(it->second.endPs, time.endPs);
  }
  for (const auto& [key, time] : peers) spans->push_back({spanName(key.first, key.second), time.startPs, time.endPs});
  return timing.endPs[rank];
}

// ---- Transfers ----------------------------------------------------------------------------------

TransferWork::TransferWork(Call call)
    : OperationWork(call, transfersName(call.transfers)), transfers_(std::move(call.transfers)) {
  const LinkModel& links = state().links();
  for (const Transfer& transfer : transfers_) {
    if (transfer.peer == state().rank()) continue;
    addUse(ports_, portOf((*state().devices())[static_cast<size_t>(transfer.peer)], transfer.send),
           links.linkPs(transfer.count * elementSize(transfer.type)));
  }
  ports_.startPs = links.startPs;
  ports_.tailPs = links.messagePs;
}

void TransferWork::begin(OperationCommon common, bool) {
  TransferOperation operation;
  if (!transfers_.empty()) common.type = transfers_.front().type;
  // Each follows those before it on its link.
  const LinkModel& links = state().links();
  std::vector<int64_t> free(portsReadyPs());
  for (Transfer& transfer : transfers_) {
    transfer.arrivalPs = common.arrivalPs;
    if (transfer.peer == state().rank()) continue;
    const uint32_t port = portOf((*state().devices())[static_cast<size_t>(transfer.peer)], transfer.send);
    for (size_t i = 0; i < free.size(); ++i) {
      if (ports_.uses[i].port != port) continue;
      free[i] = std::max(free[i], common.arrivalPs + links.startPs);
      transfer.arrivalPs = free[i] - links.startPs;
      free[i] += links.linkPs(transfer.count * elementSize(transfer.type));
    }
  }
  static_cast<OperationCommon&>(operation) = std::move(common);
  operation.transfers = std::move(transfers_);
  state().executor().begin(std::move(operation),
                           [self = shared_from_this(), this](OperationResult result) { done(std::move(result)); });
}

int64_t TransferWork::endPs(const OperationResult& result, std::vector<ExternalSpan>* spans) const {
  std::vector<TransferLeg> legs;
  for (const OperationResult::Peer& peer : result.peers)
    legs.push_back({peer.peer, peer.send, peer.arrivalPs, peer.bytes, peer.ownArrivalPs});
  if (spans) {
    for (const TransferLeg& leg : legs)
      spans->push_back({spanName(leg.send, leg.peer), std::max({arrivalPs(), leg.ownArrivalPs, leg.peerArrivalPs}),
                        transfersEndPs(state().links(), state().rank(), arrivalPs(), {&leg, 1})});
  }
  return transfersEndPs(state().links(), state().rank(), arrivalPs(), legs);
}

}  // namespace hpu::collectives
