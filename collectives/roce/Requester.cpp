// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Requester.h"

#include <algorithm>
#include <cstring>

#include "base/Format.h"

namespace hpu::roce {
namespace {

constexpr int kWithoutEnd = 7;  // Of notReadyRetries.

std::span<const uint8_t> asBytes(std::span<std::byte> memory) {
  return {reinterpret_cast<const uint8_t*>(memory.data()), memory.size()};
}

Opcode opcodeOf(const Request& request, bool first, bool last) {
  const bool isWrite = request.verb == Verb::kWrite, immediate = request.hasImmediate && last;
  if (first && last) {
    if (isWrite) return immediate ? Opcode::kWriteOnlyImmediate : Opcode::kWriteOnly;
    return immediate ? Opcode::kSendOnlyImmediate : Opcode::kSendOnly;
  }
  if (first) return isWrite ? Opcode::kWriteFirst : Opcode::kSendFirst;
  if (!last) return isWrite ? Opcode::kWriteMiddle : Opcode::kSendMiddle;
  if (isWrite) return immediate ? Opcode::kWriteLastImmediate : Opcode::kWriteLast;
  return immediate ? Opcode::kSendLastImmediate : Opcode::kSendLast;
}

}  // namespace

Requester::Requester(const QueuePairOptions& options, uint32_t peer)
    : options_(options),
      peer_(peer),
      nextPsn_(options.firstPsn & kPsnMask),
      newest_(nextPsn_),
      congestion_(options.window) {}

Status Requester::post(const Request& request) {
  if (request.local.size() > kMostMessageBytes)
    return invalidArgument(
        base::strCat("a message of ", request.local.size(), " bytes; ", kMostMessageBytes, " are the most"));
  const bool atomic = request.verb == Verb::kCompareSwap || request.verb == Verb::kFetchAdd;
  if (atomic && (request.local.size() != 8 || request.remoteAddress % 8 != 0))
    return invalidArgument("an atomic operation has 8 bytes, at an address that is a multiple of 8");
  Work work;
  work.request = request;
  work.first = nextPsn_;
  if (!atomic)
    work.packets =
        static_cast<uint32_t>(std::max<uint64_t>(1, (request.local.size() + options_.pathMtu - 1) / options_.pathMtu));
  nextPsn_ = psnAdd(nextPsn_, work.packets);
  works_.push_back(work);
  return okStatus();
}

/// Number of the packet that is sent next.
uint32_t Requester::sending() const {
  return at_ < works_.size() ? psnAdd(works_[at_].first, packet_) : nextPsn_;
}

void Requester::receive(const Packet& packet, TimeNs now, Complete complete) {
  if (failed_ || works_.empty()) return;
  // Of what was never sent, or of what is over.
  if (psnDistance(packet.psn, newest_) <= 0) return;
  if (packet.opcode == Opcode::kAcknowledge) {
    switch (answerOf(packet.syndrome)) {
      case Answer::kAck:
        return acknowledge(packet.psn, now, complete);
      case Answer::kNotReady:
      case Answer::kNak:
        return takeNak(packet, now, complete);
      case Answer::kReserved:
        return;
    }
  }
  takeResponse(packet, now, complete);
}

/// All up to and with `through` has arrived; the first READ or atomic operation without its response was lost.
void Requester::acknowledge(uint32_t through, TimeNs now, Complete complete) {
  bool moved = false;
  while (!works_.empty()) {
    Work& work = works_.front();
    const int32_t ahead = psnDistance(work.first, through) + 1;  // Of its packets, and beyond.
    if (ahead <= static_cast<int32_t>(work.done)) break;
    if (work.hasResult()) {
      const uint32_t lost = psnAdd(work.first, work.done);
      if (moved) progressed(now);
      // Once: what was sent before that was asked for brings more such answers.
      if (missing_ != lost) {
        ++counters_.missingResponses;
        if (goBack(lost, now, complete)) missing_ = lost;
      }
      return;
    }
    work.done = std::min(static_cast<uint32_t>(ahead), work.packets);
    moved = true;
    if (work.done < work.packets) break;
    finishFront(Outcome::kSuccess, complete);
  }
  if (moved) progressed(now);
}

void Requester::takeResponse(const Packet& packet, TimeNs now, Complete complete) {
  // It acknowledges what is before it.
  acknowledge(psnAdd(packet.psn, -1), now, complete);
  if (failed_ || works_.empty()) return;
  Work& work = works_.front();
  if (!work.hasResult() || packet.psn != psnAdd(work.first, work.done)) return;  // A duplicate, or one is missing.
  const bool isAtomic = packet.opcode == Opcode::kAtomicAcknowledge;
  if (isAtomic != work.isAtomic() || (traitsOf(packet.opcode).aeth && answerOf(packet.syndrome) != Answer::kAck))
    return;
  if (isAtomic) {
    memcpy(work.request.local.data(), &packet.original, sizeof packet.original);
  } else {
    const uint64_t offset = uint64_t{work.done} * options_.pathMtu;
    const uint64_t bytes = std::min<uint64_t>(work.request.local.size() - offset, options_.pathMtu);
    if (packet.payload.size() != bytes) return failFront(Outcome::kInvalidRequest, complete);
    if (bytes > 0) memcpy(work.request.local.data() + offset, packet.payload.data(), bytes);
  }
  missing_.reset();
  if (++work.done == work.packets) finishFront(Outcome::kSuccess, complete);
  progressed(now);
}

void Requester::takeNak(const Packet& packet, TimeNs now, Complete complete) {
  // It acknowledges what is before it, and is of a packet that is not.
  acknowledge(psnAdd(packet.psn, -1), now, complete);
  if (failed_ || works_.empty() || oldest() != packet.psn) return;
  if (answerOf(packet.syndrome) == Answer::kNotReady) {
    ++counters_.notReady;
    if (options_.notReadyRetries != kWithoutEnd && notReady_++ >= options_.notReadyRetries)
      return failFront(Outcome::kReceiverNotReady, complete);
    const int before = retries_;
    if (!goBack(packet.psn, now, complete)) return;
    retries_ = before;  // It answers.
    pausedUntil_ = now + notReadyNs(packet.syndrome);
    timeout_.reset();
    return;
  }
  switch (packet.syndrome) {
    case kSequenceError:
      if (pausedUntil_) return;  // It comes again then.
      ++counters_.sequenceErrors;
      congestion_.lost(now);
      (void)goBack(packet.psn, now, complete);
      return;
    case kRemoteAccessError:
      return failFront(Outcome::kRemoteAccess, complete);
    case kRemoteOperationError:
      return failFront(Outcome::kRemoteOperation, complete);
    default:
      return failFront(Outcome::kInvalidRequest, complete);
  }
}

void Requester::finishFront(Outcome outcome, Complete complete) {
  Completion completion;
  completion.id = works_.front().request.id;
  completion.outcome = outcome;
  works_.pop_front();
  if (at_ > 0)
    --at_;
  else
    packet_ = 0;  // It was being sent again, and had arrived.
  complete(completion);
}

void Requester::failFront(Outcome outcome, Complete complete) {
  finishFront(outcome, complete);
  fail(complete);
}

void Requester::fail(Complete complete) {
  failed_ = true;
  timeout_.reset();
  pausedUntil_.reset();
  while (!works_.empty()) finishFront(Outcome::kFlushed, complete);
}

void Requester::progressed(TimeNs now) {
  retries_ = notReady_ = 0;
  // What had been asked for again has arrived.
  if (!works_.empty() && at_ == 0) packet_ = std::max(packet_, works_.front().done);
  timeout_.reset();
  if (psnDistance(oldest(), sending()) > 0) timeout_ = now + options_.timeoutNs;
}

/// Sends again from there on; false: that was once too often.
bool Requester::goBack(uint32_t psn, TimeNs now, Complete complete) {
  if (retries_++ >= options_.retries) {
    failFront(Outcome::kRetriesExceeded, complete);
    return false;
  }
  at_ = 0;
  while (at_ + 1 < works_.size() && psnDistance(works_[at_ + 1].first, psn) >= 0) ++at_;
  packet_ = static_cast<uint32_t>(std::max(0, psnDistance(works_[at_].first, psn)));
  while (!results_.empty() && psnDistance(psn, results_.back()) > 0) results_.pop_back();
  timeout_ = now + (options_.timeoutNs << std::min(retries_, options_.timeoutDoublings));
  return true;
}

/// Sends a packet; false: there is none, it may not be sent yet, or it was not taken.
bool Requester::emitNext(Emit emit) {
  if (at_ >= works_.size()) return false;
  const Work& work = works_[at_];
  const Request& request = work.request;
  const uint32_t psn = sending();
  const int32_t ahead = psnDistance(oldest(), psn);
  const auto open = static_cast<int32_t>(congestion_.packets());
  if (ahead >= open) return false;
  Packet packet;
  packet.queuePair = peer_;
  packet.psn = psn;
  packet.address = request.remoteAddress;
  packet.key = request.remoteKey;
  uint32_t numbers = 1;
  const uint64_t offset = uint64_t{packet_} * options_.pathMtu;
  if (work.hasResult()) {
    while (!results_.empty() && psnDistance(results_.front(), oldest()) >= 0) results_.pop_front();
    if (results_.size() >= options_.reads) return false;
    packet.acknowledge = true;
    if (work.isAtomic()) {
      packet.opcode = request.verb == Verb::kFetchAdd ? Opcode::kFetchAdd : Opcode::kCompareSwap;
      packet.swapOrAdd = request.swapOrAdd;
      packet.compare = request.compare;
    } else {
      // Long ones as several READs, since the peer sends as fast as it can; always cut in the same places, since a
      // peer does not know a READ of which it has done a part.
      const uint32_t cut = std::max<uint32_t>(1, options_.window / 2);
      numbers = std::min(work.packets, (packet_ / cut + 1) * cut) - packet_;
      // Its responses are the peer's packets; a window that congestion has shrunk does not keep the first one back.
      if (ahead > 0 && ahead + static_cast<int32_t>(numbers) > open) return false;
      packet.opcode = Opcode::kReadRequest;
      packet.address += offset;
      packet.length = static_cast<uint32_t>(
          std::min<uint64_t>(request.local.size() - offset, uint64_t{numbers} * options_.pathMtu));
    }
  } else {
    const bool first = packet_ == 0, last = packet_ + 1 == work.packets;
    packet.opcode = opcodeOf(request, first, last);
    packet.length = static_cast<uint32_t>(request.local.size());
    packet.immediate = request.immediate;
    packet.solicited = request.solicited && last;
    packet.payload =
        asBytes(request.local.subspan(offset, std::min<uint64_t>(request.local.size() - offset, options_.pathMtu)));
    packet.acknowledge = last || ahead + 1 >= open || (packet_ + 1) % options_.ackEvery == 0;
  }
  if (!emit(packet)) return false;
  ++counters_.packets;
  if (psnDistance(psn, newest_) > 0) ++counters_.again;
  if (work.hasResult()) results_.push_back(psnAdd(psn, numbers));
  packet_ += numbers;
  if (psnDistance(newest_, psnAdd(psn, numbers)) > 0) newest_ = psnAdd(psn, numbers);
  if (packet_ >= work.packets) {
    ++at_;
    packet_ = 0;
  }
  return true;
}

void Requester::advance(TimeNs now, Emit emit, Complete complete) {
  if (failed_) return;
  congestion_.advance(now);
  if (pausedUntil_) {
    if (now < *pausedUntil_) return;
    pausedUntil_.reset();
  }
  if (timeout_ && now >= *timeout_) {
    ++counters_.timeouts;
    congestion_.lost(now);
    missing_.reset();
    if (!goBack(oldest(), now, complete)) return;
  }
  while (emitNext(emit))
    if (!timeout_) timeout_ = now + options_.timeoutNs;
}

std::optional<TimeNs> Requester::nextTime() const {
  if (failed_) return std::nullopt;
  return pausedUntil_ ? pausedUntil_ : timeout_;
}

}  // namespace hpu::roce
