// SPDX-License-Identifier: Apache-2.0
#include "collectives/executor/TransferRun.h"

#include <algorithm>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "collectives/executor/Calls.h"

namespace hpu::collectives {
namespace {

using base::strCat;

std::string contents(int64_t count, uint32_t type) {
  return strCat(count, " ", elementTypeName(static_cast<ElementType>(type)));
}

}  // namespace

TransferRun::TransferRun(Peers& peers) : peers_(peers), lines_(static_cast<size_t>(peers.ranks())) {}

MessageTag TransferRun::tagOf(const Pending& pending, uint64_t number) {
  MessageTag tag;
  tag.sequence = number;
  tag.arrivalPs = pending.arrivalPs();
  tag.count = pending.transfer().count;
  tag.type = static_cast<uint32_t>(pending.transfer().type);
  return tag;
}

Status TransferRun::begin(std::shared_ptr<TransferBatch> batch) {
  const auto& transfers = batch->operation.transfers;
  std::vector<std::byte*> data;
  for (const Transfer& transfer : transfers) {
    const int64_t size = elementSize(transfer.type);
    const char* what = transfer.send ? "send to" : "receive from";
    if (transfer.peer < 0 || transfer.peer >= peers_.ranks() || transfer.count < 0 || size == 0 ||
        transfer.count > INT64_MAX / size) {
      return invalidArgument(strCat(what, " rank ", transfer.peer, " of ", peers_.ranks(), ": ",
                                    contents(transfer.count, static_cast<uint32_t>(transfer.type)),
                                    " cannot be transferred"));
    }
    const int64_t bytes = transfer.count * size;
    data.push_back(bytes ? peers_.transport().local(transfer.address, bytes) : nullptr);
    if (bytes && !data.back()) {
      return invalidArgument(strCat(what, " rank ", transfer.peer, ": ", bytes, " bytes at device address ",
                                    base::formatHex(transfer.address), " are not in this device's memory"));
    }
    batch->results.push_back(
        {transfer.peer, transfer.send, 0, bytes, std::max(transfer.arrivalPs, batch->operation.arrivalPs)});
  }
  batch->left = transfers.size();
  active_.push_back(batch);
  for (size_t i = 0; i < transfers.size(); ++i) {
    Line& line = lines_[static_cast<size_t>(transfers[i].peer)];
    (transfers[i].send ? line.sends : line.receives).push_back({batch, i, data[i]});
    if (transfers[i].send || transfers[i].peer == peers_.rank()) continue;
    peers_.transport().expect(transfers[i].peer, Lane::kPointToPoint, line.firstReceive + line.receives.size() - 1,
                              data[i], batch->results[i].bytes);
  }
  return okStatus();
}

void TransferRun::complete(Pending& pending, int64_t peerArrivalPs, Finished& finished) {
  TransferBatch& batch = *pending.batch;
  batch.results[pending.index].arrivalPs = peerArrivalPs;
  if (--batch.left > 0) return;
  finished.push_back(pending.batch);
  active_.erase(std::find(active_.begin(), active_.end(), pending.batch));
}

Status TransferRun::pushSelf(Pace& pace, bool& moved, bool& paused, Finished& finished) {
  Line& line = lines_[static_cast<size_t>(peers_.rank())];
  while (!line.sends.empty() && !line.receives.empty()) {
    Pending& send = line.sends.front();
    Pending& receive = line.receives.front();
    const Transfer &from = send.transfer(), &to = receive.transfer();
    if (from.count != to.count || from.type != to.type) {
      return invalidArgument(strCat("rank ", peers_.rank(), " sends ",
                                    contents(from.count, static_cast<uint32_t>(from.type)), " to itself as transfer ",
                                    line.firstSend, " and receives ",
                                    contents(to.count, static_cast<uint32_t>(to.type))));
    }
    moved = true;
    if (!copyInBlocks(receive.data, send.data, send.bytes(), send.bytes() >= kStreamBytes / 2, line.copied, peers_,
                      pace)) {
      paused = true;
      return okStatus();
    }
    line.copied = 0;
    complete(send, receive.batch->operation.arrivalPs, finished);
    complete(receive, send.batch->operation.arrivalPs, finished);
    line.sends.pop_front();
    line.receives.pop_front();
    ++line.firstSend;
    ++line.firstReceive;
  }
  return okStatus();
}

Status TransferRun::pushSends(int peer, bool& moved, Finished& finished) {
  Line& line = lines_[static_cast<size_t>(peer)];
  Transport& transport = peers_.transport();
  while (line.offered < line.sends.size()) {
    Pending& send = line.sends[line.offered];
    auto offered =
        transport.offer(peer, Lane::kPointToPoint, send.data, send.bytes(), tagOf(send, line.firstSend + line.offered));
    if (!offered.ok()) {
      // What the peer said before it went is heard first: checkPeers decides.
      if (offered.status().code() != StatusCode::kInvalidArgument) break;
      return offered.status();
    }
    if (*offered == Offered::kFull) break;
    send.offered = true;
    send.copied = *offered == Offered::kCopied;
    ++line.offered;
    moved = true;
    peers_.advanced();
  }
  while (!line.sends.empty()) {
    Pending& send = line.sends.front();
    if (!send.offered) break;
    if (!send.replied) {
      auto reply = transport.arrived(peer, Lane::kReply, line.firstSend);
      if (!reply) break;
      const Transfer& mine = send.transfer();
      if (reply->tag.count != mine.count || reply->tag.type != static_cast<uint32_t>(mine.type)) {
        return invalidArgument(strCat(
            "rank ", peers_.rank(), " sends ", contents(mine.count, static_cast<uint32_t>(mine.type)), " as message ",
            line.firstSend, " to rank ", peer, ", which receives ", contents(reply->tag.count, reply->tag.type)));
      }
      send.replied = true;
      send.batch->results[send.index].arrivalPs = reply->tag.arrivalPs;
      transport.release(peer, Lane::kReply);
      moved = true;
      peers_.sawPeer(peer);
    }
    if (send.copied ? !transport.delivered(0) : transport.released(peer, Lane::kPointToPoint) <= line.firstSend) break;
    moved = true;
    peers_.sawPeer(peer);
    complete(send, send.batch->results[send.index].arrivalPs, finished);
    line.sends.pop_front();
    ++line.firstSend;
    --line.offered;
  }
  return okStatus();
}

Status TransferRun::pushReceives(int peer, Pace& pace, bool& moved, bool& paused, Finished& finished) {
  Line& line = lines_[static_cast<size_t>(peer)];
  Transport& transport = peers_.transport();
  while (line.replied < line.receives.size()) {
    auto offered = transport.offer(peer, Lane::kReply, nullptr, 0,
                                   tagOf(line.receives[line.replied], line.firstReceive + line.replied));
    if (offered.ok() && *offered == Offered::kFull) break;
    ++line.replied;  // A peer that is gone needs no answer, but may have sent before.
    moved = true;
    peers_.advanced();
  }
  // A reply goes before its message is looked at: the sender shall see what differs, too.
  while (line.replied > 0) {
    auto message = transport.arrived(peer, Lane::kPointToPoint, line.firstReceive);
    if (!message) break;
    Pending& receive = line.receives.front();
    const Transfer& mine = receive.transfer();
    if (message->tag.count != mine.count || message->tag.type != static_cast<uint32_t>(mine.type)) {
      return invalidArgument(strCat("rank ", peer, " sends ", contents(message->tag.count, message->tag.type),
                                    " as message ", line.firstReceive, " to rank ", peers_.rank(), ", which receives ",
                                    contents(mine.count, static_cast<uint32_t>(mine.type))));
    }
    if (message->damaged)
      return dataLoss(strCat("the ", message->bytes, " bytes of point-to-point message ", line.firstReceive,
                             " from rank ", peer, " to rank ", peers_.rank(),
                             " were damaged on their way: their CRC-32C is not the one that the sender computed"));
    if (message->bytes != receive.bytes() || (receive.bytes() > 0 && !message->data)) {
      return internalError(strCat("rank ", peer, " says that it sends ", contents(mine.count, message->tag.type),
                                  " as message ", line.firstReceive, " to this rank, and sends ", message->bytes,
                                  " bytes"));
    }
    moved = true;
    peers_.sawPeer(peer);
    if (receive.data != message->data &&
        !copyInBlocks(receive.data, message->data, receive.bytes(), receive.bytes() >= kStreamBytes / 2, line.copied,
                      peers_, pace)) {
      paused = true;
      return okStatus();
    }
    line.copied = 0;
    transport.release(peer, Lane::kPointToPoint);
    complete(receive, message->tag.arrivalPs, finished);
    line.receives.pop_front();
    ++line.firstReceive;
    --line.replied;
    peers_.advanced();
  }
  return okStatus();
}

Status TransferRun::push(Pace& pace, bool& moved, bool& paused, Finished& finished) {
  if (active_.empty()) return okStatus();
  // Offers first, to everybody: copying can take long.
  for (int peer = 0; peer < peers_.ranks(); ++peer) {
    if (peer != peers_.rank()) HPU_RETURN_IF_ERROR(pushSends(peer, moved, finished));
  }
  for (int shift = 0; shift < peers_.ranks() && !paused; ++shift) {
    const int peer = (peers_.rank() + shift) % peers_.ranks();
    HPU_RETURN_IF_ERROR(shift == 0 ? pushSelf(pace, moved, paused, finished)
                                   : pushReceives(peer, pace, moved, paused, finished));
  }
  return okStatus();
}

bool TransferRun::waitsFor(const Line& line, int peer) const {
  Transport& transport = peers_.transport();
  if (!line.receives.empty() &&
      !transport.arrived(peer, Lane::kPointToPoint, line.firstReceive + line.receives.size() - 1)) {
    return true;
  }
  return !line.sends.empty();
}

std::string TransferRun::waitText(const Line& line, int peer) const {
  std::string text = peers_.transport().describe(peer);
  const bool sends = !line.sends.empty();
  if (peer == peers_.rank()) text = "this rank";
  const Pending& first = sends ? line.sends.front() : line.receives.front();
  const std::string what = contents(first.transfer().count, static_cast<uint32_t>(first.transfer().type));
  if (!sends) return text + strCat(" has not sent message ", line.firstReceive, ", ", what);
  return text + strCat(first.replied ? " has not taken" : " has not begun to receive", " message ", line.firstSend,
                       ", ", what);
}

Status TransferRun::checkPeers() const {
  Status aborted;
  for (int peer = 0; peer < peers_.ranks(); ++peer) {
    const Line& line = lines_[static_cast<size_t>(peer)];
    if (line.sends.empty() && line.receives.empty()) continue;
    const bool self = peer == peers_.rank();
    Status status = self ? okStatus() : peers_.transport().peerStatus(peer);
    if (!self && !waitsFor(line, peer)) continue;
    if (status.code() == StatusCode::kUnavailable) {
      return unavailable(strCat(status.message(), ", during a transfer: ", waitText(line, peer)));
    }
    if (!status.ok()) {
      Status reason = peers_.transport().abortReason(peer);
      if (aborted.ok()) aborted = reason.ok() ? status : heardFrom(peer, reason);
      continue;
    }
    const Pending& first = line.sends.empty() ? line.receives.front() : line.sends.front();
    const int64_t timeoutMs = first.batch->operation.timeoutMs;
    if (peers_.standsStill(peer, first.batch->begun, timeoutMs)) {
      return deadlineExceeded(strCat("no progress for ", timeoutMs, " ms: ", waitText(line, peer)));
    }
    const int64_t deadlineMs = first.batch->operation.deadlineMs;
    if (pastDeadline(first.batch->begun, deadlineMs, peers_.now())) {
      return deadlineExceeded(strCat("not done ", deadlineMs,
                                     " ms after its turn had come (HPU_COMM_DEADLINE_MS): ", waitText(line, peer)));
    }
  }
  return aborted;
}

std::vector<std::shared_ptr<TransferBatch>> TransferRun::takeAll() {
  for (Line& line : lines_) {
    line.sends.clear();
    line.receives.clear();
    line.offered = line.replied = 0;
  }
  return std::move(active_);
}

}  // namespace hpu::collectives
