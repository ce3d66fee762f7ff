// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/Responder.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "collectives/roce/Psn.h"

namespace hpu::roce {
namespace {

bool isSend(Opcode opcode) {
  return opcode <= Opcode::kSendOnlyImmediate;
}
bool isWrite(Opcode opcode) {
  return opcode >= Opcode::kWriteFirst && opcode <= Opcode::kWriteOnlyImmediate;
}

}  // namespace

Responder::Responder(const QueuePairOptions& options, const Peer& peer, const MemoryTable& memory)
    : options_(options), peer_(peer.number), memory_(memory), expected_(peer.firstPsn & kPsnMask) {}

void Responder::receive(const Packet& packet, Complete complete) {
  if (failed_) return;
  ++counters_.packets;
  const int32_t ahead = psnDistance(expected_, packet.psn);
  if (ahead < 0) {
    ++counters_.duplicates;
    return takeDuplicate(packet);
  }
  if (ahead > 0) {
    ++counters_.outOfOrder;
    if (!saidGap_) acknowledge(kSequenceError, expected_);
    saidGap_ = true;
    return;
  }
  saidGap_ = false;
  takeExpected(packet, complete);
}

void Responder::takeExpected(const Packet& packet, Complete complete) {
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  if (isSend(packet.opcode)) return takeSend(packet, complete);
  if (isWrite(packet.opcode)) return takeWrite(packet, complete);
  // A message is not interrupted.
  if (message_ != Message::kNone) return refuse(kInvalidRequestError, complete);
  if (packet.opcode == Opcode::kReadRequest) return takeRead(packet, complete);
  if (traits.atomic) return takeAtomic(packet, complete);
  refuse(kInvalidRequestError, complete);
}

/// Whether it begins, goes on with or ends the message that is being received, with as many bytes as it has to have.
bool Responder::fitsMessage(const Packet& packet) const {
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  const Message of = isSend(packet.opcode) ? Message::kSend : Message::kWrite;
  if (message_ != (traits.first ? Message::kNone : of)) return false;
  const size_t bytes = packet.payload.size();
  if (!traits.last) return bytes == options_.pathMtu;
  return bytes <= options_.pathMtu && (traits.first || bytes > 0);
}

void Responder::takeSend(const Packet& packet, Complete complete) {
  if (!fitsMessage(packet)) return refuse(kInvalidRequestError, complete);
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  if (receives_.empty()) return notReady();
  if (traits.first) received_ = 0;
  const Receive& into = receives_.front();
  if (packet.payload.size() > into.buffer.size() - received_) {
    completeReceive(packet, received_, Outcome::kLocalLength, complete);
    return refuse(kInvalidRequestError, complete);
  }
  if (!packet.payload.empty()) memcpy(into.buffer.data() + received_, packet.payload.data(), packet.payload.size());
  received_ += packet.payload.size();
  message_ = traits.last ? Message::kNone : Message::kSend;
  if (traits.last) {
    ++messageNumber_;
    completeReceive(packet, received_, Outcome::kSuccess, complete);
  }
  arrived(packet);
}

void Responder::takeWrite(const Packet& packet, Complete complete) {
  if (!fitsMessage(packet)) return refuse(kInvalidRequestError, complete);
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  if (traits.immediate && receives_.empty()) return notReady();
  if (traits.first) {
    if (packet.length > kMostMessageBytes) return refuse(kInvalidRequestError, complete);
    received_ = 0;
    address_ = packet.address;
    key_ = packet.key;
    length_ = packet.length;
  }
  const uint64_t bytes = packet.payload.size();
  if (bytes > length_ - received_ || (traits.last && received_ + bytes != length_) ||
      (!traits.last && received_ + bytes == length_))
    return refuse(kInvalidRequestError, complete);
  if (length_ > 0) {
    // Of the whole message at first: nothing of one that is not allowed is written.
    const uint64_t checked = traits.first ? length_ : bytes;
    std::byte* to = memory_.find(key_, address_ + received_, checked, {.write = true});
    if (!to) return refuse(kRemoteAccessError, complete);
    if (to != MemoryTable::nowhere()) memcpy(to, packet.payload.data(), bytes);
  }
  received_ += bytes;
  message_ = traits.last ? Message::kNone : Message::kWrite;
  if (traits.last) {
    ++messageNumber_;
    if (traits.immediate) completeReceive(packet, received_, Outcome::kSuccess, complete);
  }
  arrived(packet);
}

uint32_t Responder::responsesOf(uint32_t length) const {
  return std::max<uint32_t>(1, static_cast<uint32_t>((uint64_t{length} + options_.pathMtu - 1) / options_.pathMtu));
}

/// A requester has no more than `reads` on their way, but for those that it asks for again.
size_t Responder::pendingResults(bool again) const {
  return static_cast<size_t>(std::count_if(answers_.begin(), answers_.end(), [&](const Answer& one) {
    return one.kind != Answer::Kind::kAcknowledge && one.again == again;
  }));
}

void Responder::takeRead(const Packet& packet, Complete complete) {
  if (packet.length > kMostMessageBytes || pendingResults(/*again=*/false) >= options_.reads)
    return refuse(kInvalidRequestError, complete);
  if (packet.length > 0 && !memory_.find(packet.key, packet.address, packet.length, {.read = true}))
    return refuse(kRemoteAccessError, complete);
  ++messageNumber_;
  Answer answer;
  answer.kind = Answer::Kind::kRead;
  answer.psn = packet.psn;
  answer.messageNumber = messageNumber_;
  answer.address = packet.address;
  answer.key = packet.key;
  answer.length = packet.length;
  answers_.push_back(answer);
  expected_ = psnAdd(expected_, responsesOf(packet.length));
}

void Responder::takeAtomic(const Packet& packet, Complete complete) {
  if (packet.address % 8 != 0 || pendingResults(/*again=*/false) >= options_.reads)
    return refuse(kInvalidRequestError, complete);
  std::byte* at = memory_.find(packet.key, packet.address, 8, {.atomic = true});
  if (!at) return refuse(kRemoteAccessError, complete);
  if (reinterpret_cast<uintptr_t>(at) % 8 != 0) return refuse(kRemoteOperationError, complete);
  std::atomic_ref<uint64_t> number(*reinterpret_cast<uint64_t*>(at));
  uint64_t original = packet.compare;
  if (packet.opcode == Opcode::kFetchAdd)
    original = number.fetch_add(packet.swapOrAdd);
  else
    number.compare_exchange_strong(original, packet.swapOrAdd);
  ++messageNumber_;
  Answer answer;
  answer.kind = Answer::Kind::kAtomic;
  answer.psn = packet.psn;
  answer.messageNumber = messageNumber_;
  answer.original = original;
  answers_.push_back(answer);
  atomics_.push_back({packet.psn, original});
  if (atomics_.size() > options_.reads) atomics_.pop_front();
  expected_ = psnAdd(expected_, 1);
}

/// The requester has not heard of it, or a copy came late.
void Responder::takeDuplicate(const Packet& packet) {
  const OpcodeTraits& traits = traitsOf(packet.opcode);
  if (isSend(packet.opcode) || isWrite(packet.opcode)) {
    if (packet.acknowledge || traits.last) acknowledge(kAck, psnAdd(expected_, -1));
    return;
  }
  if (pendingResults(/*again=*/true) >= options_.reads) return;  // It asks once more.
  Answer answer;
  answer.again = true;
  answer.psn = packet.psn;
  answer.messageNumber = messageNumber_;
  if (packet.opcode == Opcode::kReadRequest) {
    // Only what was asked for before, and may still be read.
    if (packet.length > kMostMessageBytes ||
        psnDistance(packet.psn, expected_) < static_cast<int32_t>(responsesOf(packet.length)))
      return;
    if (packet.length > 0 && !memory_.find(packet.key, packet.address, packet.length, {.read = true})) return;
    answer.kind = Answer::Kind::kRead;
    answer.address = packet.address;
    answer.key = packet.key;
    answer.length = packet.length;
    answers_.push_back(answer);
  } else if (traits.atomic) {
    const auto done =
        std::find_if(atomics_.begin(), atomics_.end(), [&](const Done& one) { return one.psn == packet.psn; });
    if (done == atomics_.end()) return;
    answer.kind = Answer::Kind::kAtomic;
    answer.original = done->original;
    answers_.push_back(answer);
  }
}

/// Packets of a message that has been taken; answers of its last one, or when that is asked for.
void Responder::arrived(const Packet& packet) {
  expected_ = psnAdd(expected_, 1);
  if (packet.acknowledge) acknowledge(kAck, packet.psn);
}

void Responder::acknowledge(uint8_t syndrome, uint32_t psn) {
  // The last of several says what all of them say.
  const bool again = syndrome == kAck && !answers_.empty() && answers_.back().kind == Answer::Kind::kAcknowledge &&
                     answers_.back().syndrome == kAck;
  Answer& answer = again ? answers_.back() : answers_.emplace_back();
  answer.syndrome = syndrome;
  answer.psn = psn;
  answer.messageNumber = messageNumber_;
}

void Responder::notReady() {
  ++counters_.notReady;
  saidGap_ = true;  // What follows the packet comes again with it.
  acknowledge(static_cast<uint8_t>(kNotReady | (options_.notReadyTimer & 31)), expected_);
}

void Responder::refuse(uint8_t syndrome, Complete complete) {
  ++counters_.refused;
  acknowledge(syndrome, expected_);
  fail(complete);
}

void Responder::fail(Complete complete) {
  failed_ = true;
  while (!receives_.empty()) {
    Completion completion;
    completion.id = receives_.front().id;
    completion.isReceive = true;
    completion.outcome = Outcome::kFlushed;
    receives_.pop_front();
    complete(completion);
  }
}

void Responder::completeReceive(const Packet& packet, uint64_t bytes, Outcome outcome, Complete complete) {
  Completion completion;
  completion.id = receives_.front().id;
  completion.isReceive = true;
  completion.outcome = outcome;
  completion.bytes = bytes;
  completion.solicited = packet.solicited;
  completion.hasImmediate = outcome == Outcome::kSuccess && traitsOf(packet.opcode).immediate;
  completion.immediate = completion.hasImmediate ? packet.immediate : 0;
  receives_.pop_front();
  complete(completion);
}

void Responder::advance(Emit emit, Complete complete) {
  while (!answers_.empty()) {
    Answer& answer = answers_.front();
    Packet packet;
    packet.queuePair = peer_;
    packet.psn = answer.psn;
    packet.syndrome = answer.syndrome;
    packet.messageNumber = answer.messageNumber;
    bool last = true;
    if (answer.kind == Answer::Kind::kAcknowledge) {
      packet.opcode = Opcode::kAcknowledge;
    } else if (answer.kind == Answer::Kind::kAtomic) {
      packet.opcode = Opcode::kAtomicAcknowledge;
      packet.original = answer.original;
    } else {
      const uint32_t bytes = std::min(answer.length, options_.pathMtu);
      last = answer.length <= options_.pathMtu;
      packet.opcode = !answer.begun ? (last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst)
                                    : (last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle);
      if (bytes > 0) {
        const std::byte* from = memory_.find(answer.key, answer.address, bytes, {.read = true});
        if (!from) {
          // It was withdrawn meanwhile.
          const uint32_t psn = answer.psn;
          answers_.clear();
          acknowledge(kRemoteAccessError, psn);
          ++counters_.refused;
          fail(complete);
          continue;
        }
        packet.payload = {reinterpret_cast<const uint8_t*>(from), bytes};
      }
    }
    if (!emit(packet)) return;
    if (last) {
      answers_.pop_front();
      continue;
    }
    answer.begun = true;
    answer.psn = psnAdd(answer.psn, 1);
    answer.address += options_.pathMtu;
    answer.length -= options_.pathMtu;
  }
}

}  // namespace hpu::roce
