// SPDX-License-Identifier: Apache-2.0
// Enqueuing: from checked calls to work of their streams, in the communicators' order.
#include <algorithm>
#include <span>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/communicator/Call.h"
#include "collectives/communicator/Ports.h"
#include "collectives/communicator/Work.h"

namespace hpu::collectives {
namespace {

/// What goes to one stream in one place.
struct Piece {
  Call call;
  bool beside = false;  ///< It goes on together with the one before it.
  // Of a collective.
  CommunicatorState::Chosen chosen;
  Scratch scratch;
  /// The work that it has become, or was added to.
  std::shared_ptr<OperationWork> work;
  bool added = false;

  std::string name() const {
    return call.isTransfer ? TransferWork::nameOf(call) : std::string(collectiveName(call.problem.collective));
  }
};

/// All that may fail before anything is enqueued.
Status prepare(Piece& piece) {
  Call& call = piece.call;
  CommunicatorState& state = *call.state;
  HPU_RETURN_IF_ERROR(state.usable());
  if (call.isTransfer) return okStatus();
  std::lock_guard lock(state.enqueueMutex);
  auto chosen = state.choose(call.problem);
  if (!chosen.ok()) return inCall(piece.name(), state, chosen.status());
  piece.chosen = std::move(*chosen);
  if (state.direct()) return okStatus();
  auto scratch = state.scratchFor(*piece.chosen.choice->schedule);
  if (!scratch.ok())
    return scratch.status().withContext(base::strCat(piece.name(), " of ", state.title(), " needs memory"));
  piece.scratch = std::move(*scratch);
  return okStatus();
}

/// Collectives as they came, then the transfers, communicator by communicator, those of one stream
/// as one call: ranks list the transfers of a group in different places, and all must enqueue them
/// in the same one.
std::vector<Piece> merged(std::vector<Call> calls) {
  std::vector<Piece> result;
  result.reserve(calls.size());
  std::vector<Call> transfers;
  auto add = [&](Call call, bool beside) {
    Piece& piece = result.emplace_back();
    piece.call = std::move(call);
    piece.beside = beside;
  };
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
                             [&](const Piece& one) { return one.call.stream.state() == call.stream.state(); });
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

CollectiveOperation operationOf(const Piece& piece) {
  const Call& call = piece.call;
  CommunicatorState& state = *call.state;
  CollectiveOperation operation;
  operation.type = call.type;
  operation.timeoutMs = state.timeoutMs();
  operation.deadlineMs = state.deadlineMs();
  operation.keepAlive = {call.operands[0].state(), call.operands[1].state(), piece.scratch.buffer.state()};
  operation.direct = state.direct();
  operation.sequence = state.lastSequence + 1;
  operation.schedule = piece.chosen.choice->schedule;
  operation.timer = piece.chosen.choice->timer;
  operation.devices = state.devices();
  operation.op = call.op;
  operation.scale = call.scale;
  operation.tableHash = state.tuner().tableHash();
  operation.input = call.input;
  operation.output = call.output;
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
/// Whoever waits for one of them waits for all, so while other communicators may, they use the same memory.
bool extend(Piece& piece) {
  CommunicatorState& state = *piece.call.state;
  if (piece.call.isTransfer || !state.growing) return false;
  AddressOrder& order = state.addressOrder();
  if (!state.weakOrder() && order.isShared() && !sameAccesses(piece.call.operandAccesses, state.growingAccesses))
    return false;
  if (!piece.call.stream.extend(*state.growing, *piece.chosen.ports, state.portsReadyPs)) return false;
  state.began();
  piece.work = state.growing;
  piece.added = true;
  CollectiveOperation operation = operationOf(piece);
  setPorts(operation, *piece.chosen.ports, state.portsReadyPs);
  state.growing->add(piece.call.state, std::move(operation));
  ++state.lastSequence;
  if (!state.weakOrder()) order.add(piece.call.operandAccesses, state.last.back());
  return true;
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
  if (conflicts.empty() && extend(piece)) return okStatus();
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
  if (!state.weakOrder()) state.addressOrder().add(accesses, enqueued);
  return okStatus();
}

/// Without locks: lets it begin.
void afterEnqueue(Piece& piece) {
  if (piece.added)
    static_cast<CollectiveWork&>(*piece.work).added();
  else
    piece.work->enqueued();
}

}  // namespace

Status enqueueCall(Call call) {
  Piece piece;
  piece.call = std::move(call);
  HPU_RETURN_IF_ERROR(prepare(piece));
  if (Status status = enqueue(piece); !status.ok()) return inCall(piece.name(), *piece.call.state, status);
  afterEnqueue(piece);
  return okStatus();
}

Status enqueueCalls(std::vector<Call> calls) {
  std::vector<Piece> pieces = merged(std::move(calls));
  for (Piece& piece : pieces) HPU_RETURN_IF_ERROR(prepare(piece));
  for (size_t i = 0; i < pieces.size(); ++i) {
    Status status = enqueue(pieces[i]);
    if (status.ok()) {
      afterEnqueue(pieces[i]);
      continue;
    }
    status = inCall(pieces[i].name(), *pieces[i].call.state, status);
    // A part of a group cannot be taken back, and its peers would wait for the rest.
    for (size_t k = 0; i > 0 && k < pieces.size(); ++k)
      pieces[k].call.state->fail(status.withContext("a group could not be enqueued whole"));
    return status;
  }
  return okStatus();
}

}  // namespace hpu::collectives
