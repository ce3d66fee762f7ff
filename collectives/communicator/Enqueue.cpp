// SPDX-License-Identifier: Apache-2.0
// Enqueuing: from checked calls to work of their streams, in the communicators' order.
#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/communicator/Call.h"
#include "collectives/communicator/Captured.h"
#include "collectives/communicator/Ports.h"
#include "collectives/communicator/Work.h"
#include "hpu/capture.h"

namespace hpu::collectives {
namespace {

struct Piece : PlacedCall {
  // Of a collective.
  CommunicatorState::Chosen chosen;
  Scratch scratch;
  /// The work that it has become, or was added to.
  std::shared_ptr<OperationWork> work;
  bool added = false;
};

/// All that may fail before anything is enqueued.
Status prepare(Piece& piece) {
  Call& call = piece.call;
  CommunicatorState& state = *call.state;
  HPU_RETURN_IF_ERROR(state.usable());
  if (call.isTransfer) return okStatus();
  std::lock_guard lock(state.enqueueMutex);
  auto chosen = state.choose(call.problem);
  if (!chosen.ok()) return inCall(nameOf(call), state, chosen.status());
  piece.chosen = std::move(*chosen);
  if (state.direct()) return okStatus();
  auto scratch = state.scratchFor(*piece.chosen.choice->schedule);
  if (!scratch.ok())
    return scratch.status().withContext(base::strCat(nameOf(call), " of ", state.title(), " needs memory"));
  piece.scratch = std::move(*scratch);
  return okStatus();
}

template <typename T>
void share(std::shared_ptr<T>& place, const std::shared_ptr<T>& value) {
  if (place != value) place = value;
}

/// As the state's next collective: all fields, as one without scratch whose ports are free.
void describe(CollectiveOperation& operation, CommunicatorState& state, const CollectiveArguments& arguments,
              const CommunicatorState::Chosen& chosen, KeptMemory&& kept) {
  operation.type = arguments.type;
  operation.arrivalPs = 0;
  operation.timeoutMs = state.timeoutMs();
  operation.deadlineMs = state.deadlineMs();
  operation.keepAlive = std::move(kept);
  operation.direct = state.direct();
  operation.follows = false;
  operation.sequence = state.lastSequence + 1;
  share(operation.schedule, chosen.choice->schedule);
  share(operation.timer, chosen.choice->timer);
  share(operation.placement, state.placement());
  if (operation.portsBusy) operation.portsPs = {};
  operation.portsBusy = false;
  operation.op = arguments.op;
  operation.scale = arguments.scale;
  operation.tableHash = state.tuner().tableHash();
  operation.input = arguments.input;
  operation.output = arguments.output;
  operation.scratch = operation.partial = 0;
}

CollectiveOperation operationOf(const Piece& piece) {
  const Call& call = piece.call;
  CollectiveOperation operation;
  describe(operation, *call.state, call.arguments, piece.chosen,
           {call.operands[0].keepAlive(), call.operands[1].keepAlive(), piece.scratch.buffer.keepAlive()});
  operation.scratch = piece.scratch.scratch;
  operation.partial = piece.scratch.partial;
  return operation;
}

std::span<const Access> accessesOf(const Call& call) {
  if (call.isTransfer) return call.accesses;
  return call.operandAccesses;
}

bool sameAccesses(std::span<const Access> a, std::span<const Access> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Access& x, const Access& y) { return x.begin == y.begin && x.end == y.end; });
}

/// Adds a collective to the one before it, where that takes on more: they are one piece of the stream's work then.
/// A wait for one of them is a wait for all, so while other communicators may, they use the same memory. Under
/// enqueueMutex; what the caller keeps is moved when it was added.
bool extend(const std::shared_ptr<CommunicatorState>& shared, const Stream& stream,
            const CollectiveArguments& arguments, const CommunicatorState::Chosen& chosen,
            std::span<const Access> accesses, KeptMemory& kept, bool repeated) {
  CommunicatorState& state = *shared;
  if (!state.growing) return false;
  AddressOrder& order = state.addressOrder();
  if (!state.weakOrder() && order.isShared() && !sameAccesses(accesses, state.growingAccesses)) return false;
  if (!stream.extend(*state.growing, *chosen.ports, state.portsReadyPs)) return false;
  state.began();
  state.growing->add(shared, chosen, arguments.output, [&](CollectiveOperation& operation) {
    describe(operation, state, arguments, chosen, std::move(kept));
    setPorts(operation, *chosen.ports, state.portsReadyPs);
  });
  ++state.lastSequence;
  // The order knows already that the piece uses the memory of the call that is repeated.
  if (!state.weakOrder() && (!repeated || order.isShared())) order.add(accesses, state.last.back());
  return true;
}

/// Under enqueueMutex: more calls like this one may follow.
void remember(const Piece& piece) {
  const Call& call = piece.call;
  CommunicatorState::Repeated& repeated = call.state->repeated;
  repeated.arguments = call.arguments;
  repeated.stream = call.stream.state().get();
  repeated.chosen = piece.chosen;
  repeated.operands = {call.operands[0].state(), call.operands[1].state()};
  repeated.accesses = call.operandAccesses;
}

Status enqueue(Piece& piece) {
  Call& call = piece.call;
  CommunicatorState& state = *call.state;
  const std::span<const Access> accesses = accessesOf(call);
  // One for all communicators of a device would be simpler; but their operations may come from
  // different threads in any order, and only those of one communicator are in a sequence.
  std::unique_lock lock(state.enqueueMutex);
  AddressOrder::Operations conflicts;
  auto findConflicts = [&] {
    if (!state.weakOrder()) conflicts = state.addressOrder().conflicts(accesses, call.stream, state.number());
  };
  findConflicts();
  KeptMemory kept = {call.operands[0].keepAlive(), call.operands[1].keepAlive()};
  if (conflicts.empty() && !call.isTransfer &&
      extend(call.state, call.stream, call.arguments, piece.chosen, call.operandAccesses, kept, /*repeated=*/false)) {
    piece.work = state.growing;
    piece.added = true;
    remember(piece);
    return okStatus();
  }
  // What ends with that begins other operations, perhaps of this communicator.
  lock.unlock();
  call.stream.seal();
  lock.lock();
  findConflicts();
  // What comes before the first of those beside each other comes before all of them. Of both kinds only the order is
  // needed: memory that a failed communicator used is used again by the next one.
  for (const auto& list : {std::span(piece.beside ? state.beforeLast : state.last), std::span(conflicts)})
    for (const auto& one : list)
      if (!one->isOn(call.stream)) HPU_RETURN_IF_ERROR(call.stream.waitInOrder(one->end()));
  auto enqueued = std::make_shared<Enqueued>(call.stream, state.number());
  std::shared_ptr<CollectiveWork> collective;
  if (call.isTransfer) {
    piece.work = std::make_shared<TransferWork>(call);
  } else {
    piece.work = collective = std::make_shared<CollectiveWork>(call.state, piece.chosen, operationOf(piece));
  }
  piece.work->setOrder(state.nextOrder);
  state.began();
  Status status = call.stream.enqueue(piece.work, enqueued->end());
  if (!status.ok()) {
    state.ended();
    return status;
  }
  ++state.nextOrder;
  if (collective) ++state.lastSequence;
  if (!piece.beside) {
    state.beforeLast.swap(state.last);
    state.last.clear();
  }
  state.last.push_back(enqueued);
  state.growing = collective && collective->extendable() ? std::move(collective) : nullptr;
  state.growingAccesses = call.operandAccesses;
  if (state.growing) remember(piece);
  if (!state.weakOrder()) state.addressOrder().add(accesses, enqueued);
  return okStatus();
}

/// Without locks: lets it begin.
void afterEnqueue(Piece& piece) {
  if (piece.added)
    static_cast<CollectiveWork&>(*piece.work).added(*piece.call.state);
  else
    piece.work->enqueued();
}

}  // namespace

bool enqueueRepeated(const std::shared_ptr<CommunicatorState>& state, const CollectiveArguments& arguments,
                     const Stream& stream) {
  // Let go without the lock.
  KeptMemory kept;
  std::array<Buffer, 2> operands;
  std::shared_ptr<CollectiveWork> work;
  {
    std::lock_guard lock(state->enqueueMutex);
    const CommunicatorState::Repeated& last = state->repeated;
    if (!state->growing || last.stream != stream.state().get() || !(last.arguments == arguments)) return false;
    if (!state->usable().ok()) return false;
    for (size_t i = 0; i < last.operands.size(); ++i) {
      if (last.accesses[i].begin == last.accesses[i].end) continue;
      // The handle says that the address is still the program's.
      operands[i] = Buffer(last.operands[i].lock());
      if (!operands[i].valid()) return false;
      kept[i] = operands[i].keepAlive();
    }
    AddressOrder& order = state->addressOrder();
    if (!state->weakOrder() && order.isShared() && !order.conflicts(last.accesses, stream, state->number()).empty())
      return false;
    if (!extend(state, stream, arguments, last.chosen, last.accesses, kept, /*repeated=*/true)) return false;
    work = state->growing;
  }
  work->added(*state);
  return true;
}

std::vector<PlacedCall> merged(std::vector<Call> calls) {
  std::vector<PlacedCall> result;
  result.reserve(calls.size());
  std::vector<Call> transfers;
  auto add = [&](Call call, bool beside) { result.push_back({std::move(call), beside}); };
  for (Call& call : calls) {
    if (call.isTransfer) {
      transfers.push_back(std::move(call));
    } else {
      add(std::move(call), false);
    }
  }
  // Numbers are the same on every rank.
  std::stable_sort(transfers.begin(), transfers.end(), [](const Call& a, const Call& b) {
    return std::pair(a.state->number(), a.state->rank()) < std::pair(b.state->number(), b.state->rank());
  });
  size_t first = 0;  // Of the communicator's, in `result`.
  for (size_t i = 0; i < transfers.size(); ++i) {
    Call& call = transfers[i];
    if (i == 0 || transfers[i - 1].state != call.state) first = result.size();
    auto same = std::find_if(result.begin() + static_cast<std::ptrdiff_t>(first), result.end(),
                             [&](const PlacedCall& one) { return one.call.stream.state() == call.stream.state(); });
    if (same == result.end()) {
      add(call, result.size() > first);
      continue;
    }
    Call& into = same->call;
    into.transfers.insert(into.transfers.end(), call.transfers.begin(), call.transfers.end());
    into.buffers.insert(into.buffers.end(), call.buffers.begin(), call.buffers.end());
    into.accesses.insert(into.accesses.end(), call.accesses.begin(), call.accesses.end());
  }
  return result;
}

std::string nameOf(const Call& call) {
  return call.isTransfer ? TransferWork::nameOf(call) : std::string(collectiveName(call.problem.collective));
}

Status enqueueCall(Call&& call) {
  if (CaptureSession::of(call.stream) != 0) {
    std::vector<Call> calls;
    calls.push_back(std::move(call));
    return captureCalls(std::move(calls));
  }
  return enqueuePlaced({std::move(call)});
}

Status enqueuePlaced(PlacedCall&& placed) {
  Piece piece;
  static_cast<PlacedCall&>(piece) = std::move(placed);
  HPU_RETURN_IF_ERROR(prepare(piece));
  if (Status status = enqueue(piece); !status.ok()) return inCall(nameOf(piece.call), *piece.call.state, status);
  afterEnqueue(piece);
  return okStatus();
}

Status enqueueCalls(std::vector<Call> calls) {
  auto captured = std::stable_partition(calls.begin(), calls.end(),
                                        [](const Call& call) { return CaptureSession::of(call.stream) == 0; });
  if (captured != calls.end()) {
    if (Status wrong = checkCaptures(calls); !wrong.ok()) {
      for (const Call& call : calls) failCapture(call.stream, wrong);
      return wrong.withContext("nothing of the group was enqueued");
    }
    std::vector<Call> recorded(std::make_move_iterator(captured), std::make_move_iterator(calls.end()));
    calls.erase(captured, calls.end());
    HPU_RETURN_IF_ERROR(captureCalls(std::move(recorded)));
  }
  std::vector<Piece> pieces;
  for (PlacedCall& placed : merged(std::move(calls)))
    static_cast<PlacedCall&>(pieces.emplace_back()) = std::move(placed);
  for (Piece& piece : pieces) HPU_RETURN_IF_ERROR(prepare(piece));
  for (size_t i = 0; i < pieces.size(); ++i) {
    Status status = enqueue(pieces[i]);
    if (status.ok()) {
      afterEnqueue(pieces[i]);
      continue;
    }
    status = inCall(nameOf(pieces[i].call), *pieces[i].call.state, status);
    // A part of a group cannot be taken back, and its peers would wait for the rest.
    for (size_t k = 0; i > 0 && k < pieces.size(); ++k)
      pieces[k].call.state->fail(status.withContext("a group could not be enqueued whole"));
    return status;
  }
  return okStatus();
}

}  // namespace hpu::collectives
