// SPDX-License-Identifier: Apache-2.0
// Enqueuing: from checked calls to work of their streams, in the communicators' order.
#include <algorithm>
#include <span>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/communicator/Call.h"
#include "collectives/communicator/Work.h"

namespace hpu::collectives {
namespace {

/// What goes to one stream as one piece.
struct Piece {
  std::shared_ptr<CommunicatorState> state;
  Stream stream;
  std::vector<Access> accesses;
  std::shared_ptr<OperationWork> work;
  std::shared_ptr<CollectiveWork> collective;  ///< The same, or null.
};

StatusOr<Piece> makePiece(Call call) {
  Piece piece{call.state, call.stream, call.accesses, nullptr, nullptr};
  HPU_RETURN_IF_ERROR(call.state->usable());
  if (call.isTransfer) {
    piece.work = std::make_shared<TransferWork>(std::move(call));
    return piece;
  }
  auto choice = call.state->tuner().choose(call.problem);
  if (!choice.ok()) return inCall(collectiveName(call.problem.collective), *call.state, choice.status());
  StatusOr<Scratch> scratch = Scratch();
  if (!call.state->direct()) {
    std::lock_guard lock(call.state->enqueueMutex);
    scratch = call.state->scratchFor(*(*choice)->schedule);
  }
  if (!scratch.ok())
    return scratch.status().withContext(
        base::strCat(collectiveName(call.problem.collective), " of ", call.state->title(), " needs memory"));
  piece.collective = std::make_shared<CollectiveWork>(std::move(call), std::move(*choice), *scratch);
  piece.work = piece.collective;
  return piece;
}

/// Collectives as they came, then the transfers, communicator by communicator, those of one stream
/// as one call: ranks list the transfers of a group in different places, and all must enqueue them
/// in the same one. With each, whether it goes beside the one before it.
std::vector<std::pair<Call, bool>> merged(std::vector<Call> calls) {
  std::vector<std::pair<Call, bool>> result;
  result.reserve(calls.size());
  if (calls.size() == 1) {
    result.emplace_back(std::move(calls[0]), false);
    return result;
  }
  std::vector<Call> transfers;
  for (Call& call : calls) {
    if (call.isTransfer) {
      transfers.push_back(std::move(call));
    } else {
      result.emplace_back(std::move(call), false);
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
                             [&](const auto& one) { return one.first.stream.state() == call.stream.state(); });
    if (same == result.end()) {
      result.emplace_back(call, result.size() > first);
      continue;
    }
    Call& into = same->first;
    into.transfers.insert(into.transfers.end(), call.transfers.begin(), call.transfers.end());
    into.buffers.insert(into.buffers.end(), call.buffers.begin(), call.buffers.end());
    into.accesses.insert(into.accesses.end(), call.accesses.begin(), call.accesses.end());
  }
  return result;
}

Status enqueuePiece(Piece& piece, bool beside) {
  CommunicatorState& state = *piece.state;
  // One for all communicators of a device would be simpler; but their operations may come from
  // different threads in any order, and only those of one communicator are in a sequence.
  std::lock_guard lock(state.enqueueMutex);
  AddressOrder::Operations conflicts;
  if (!state.weakOrder()) conflicts = state.addressOrder().conflicts(piece.accesses, piece.stream, state.number());
  // What comes before the first of those beside each other comes before all of them. Of both kinds only the order is
  // needed: memory that a failed communicator used is used again by the next one.
  for (const auto& list : {std::span(beside ? state.beforeLast : state.last), std::span(conflicts)})
    for (const auto& one : list)
      if (!one->isOn(piece.stream)) HPU_RETURN_IF_ERROR(piece.stream.waitInOrder(one->end()));
  auto enqueued = std::make_shared<Enqueued>(piece.stream, state.number());
  piece.work->setOrder(state.nextOrder);
  if (piece.collective) piece.collective->setSequence(state.lastSequence + 1);
  state.began();
  Status status = piece.stream.enqueue(piece.work, enqueued->end());
  if (!status.ok()) {
    state.ended();
    return status;
  }
  ++state.nextOrder;
  if (piece.collective) ++state.lastSequence;
  if (!beside) {
    state.beforeLast.swap(state.last);
    state.last.clear();
  }
  state.last.push_back(enqueued);
  if (!state.weakOrder()) state.addressOrder().add(piece.accesses, enqueued);
  return okStatus();
}

}  // namespace

Status enqueueCalls(std::vector<Call> calls) {
  std::vector<std::pair<Piece, bool>> pieces;
  pieces.reserve(calls.size());
  for (auto& [call, beside] : merged(std::move(calls))) {
    HPU_ASSIGN(Piece piece, makePiece(std::move(call)));
    pieces.emplace_back(std::move(piece), beside);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    auto& [piece, beside] = pieces[i];
    Status status = enqueuePiece(piece, beside);
    if (status.ok()) {
      piece.work->enqueued();
      continue;
    }
    status = inCall(piece.work->name(), *piece.state, status);
    // A part of a group cannot be taken back, and its peers would wait for the rest.
    for (size_t k = 0; i > 0 && k < pieces.size(); ++k)
      pieces[k].first.state->fail(status.withContext("a group could not be enqueued whole"));
    return status;
  }
  return okStatus();
}

}  // namespace hpu::collectives
