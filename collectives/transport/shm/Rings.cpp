// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Rings.h"

#include <cstring>
#include <new>

namespace hpu::collectives::shm {
namespace {

RingHeader& headerOf(std::byte* ring) {
  return *reinterpret_cast<RingHeader*>(ring);
}
constexpr int64_t lines(int64_t bytes) {
  return static_cast<int64_t>(Geometry::aligned(static_cast<uint64_t>(bytes)));
}

}  // namespace

SendRing::SendRing(const Segment& segment, int from, int to, Lane lane)
    : header_(headerOf(segment.ring(from, to, lane))),
      descriptors_(segment.ring(from, to, lane) + segment.geometry().descriptorsAt()),
      bytes_(segment.ring(from, to, lane) + segment.geometry().bytesAt()),
      messages_(segment.geometry().messages),
      ringBytes_(segment.geometry().ringBytes),
      ends_(segment.geometry().messages) {}

bool SendRing::look(std::memory_order order) {
  uint64_t released = header_.released.load(order);
  if (released < seen_ || released > sent()) {
    broken_.store(true, std::memory_order_relaxed);
    return false;
  }
  if (released > seen_) tail_ = ends_[(released - 1) % messages_];
  seen_ = released;
  return true;
}

/// Where `bytes` would begin: not across the end of the ring.
int64_t SendRing::place(int64_t bytes) const {
  int64_t left = ringBytes_ - head_ % ringBytes_;
  return left < bytes ? head_ + left : head_;
}

bool SendRing::fits(int64_t bytes) const {
  if (sent() - seen_ >= messages_) return false;
  return bytes == 0 || place(lines(bytes)) + lines(bytes) - tail_ <= ringBytes_;
}

bool SendRing::hasRoom(int64_t bytes) {
  if (fits(bytes)) return true;
  if (!look(std::memory_order_acquire)) return false;
  if (fits(bytes)) return true;
  // Said before the last look: either it sees the release, or the receiver sees this.
  header_.full.store(1, std::memory_order_seq_cst);
  return look(std::memory_order_seq_cst) && fits(bytes);
}

void SendRing::send(uint64_t offset, int64_t bytes, bool shared, const MessageTag& tag) {
  const uint64_t index = sent();
  auto* descriptor = reinterpret_cast<Descriptor*>(descriptors_ + index % messages_ * kLine);
  descriptor->offset.store(offset, std::memory_order_relaxed);
  descriptor->bytes.store(bytes, std::memory_order_relaxed);
  descriptor->shared.store(shared ? 1 : 0, std::memory_order_relaxed);
  descriptor->tag = tag;
  ends_[index % messages_] = head_;
  sent_.store(index + 1, std::memory_order_relaxed);
  header_.offered.store(index + 1, std::memory_order_release);
}

void SendRing::sendCopy(const std::byte* data, int64_t bytes, const MessageTag& tag) {
  int64_t at = place(lines(bytes));
  if (bytes > 0) {
    std::memcpy(bytes_ + at % ringBytes_, data, static_cast<size_t>(bytes));
    head_ = at + lines(bytes);
  }
  send(static_cast<uint64_t>(at % ringBytes_), bytes, false, tag);
}

void SendRing::sendShared(uint64_t offset, int64_t bytes, const MessageTag& tag) {
  send(offset, bytes, true, tag);
}

ReceiveRing::ReceiveRing(const Segment& segment, int from, int to, Lane lane)
    : header_(headerOf(segment.ring(from, to, lane))),
      descriptors_(segment.ring(from, to, lane) + segment.geometry().descriptorsAt()),
      bytes_(segment.ring(from, to, lane) + segment.geometry().bytesAt()),
      messages_(segment.geometry().messages),
      ringBytes_(segment.geometry().ringBytes),
      smallBytes_(segment.geometry().smallBytes) {}

const Descriptor& ReceiveRing::descriptor(uint64_t index) const {
  return *reinterpret_cast<const Descriptor*>(descriptors_ + index % messages_ * kLine);
}

bool ReceiveRing::has(uint64_t index) {
  if (index < offered_) return true;
  uint64_t offered = header_.offered.load(std::memory_order_acquire);
  if (offered < offered_ || offered - released_ > messages_) {
    fail();
    return false;
  }
  offered_ = offered;
  return index < offered_;
}

std::optional<ReceiveRing::Message> ReceiveRing::look(uint64_t index) {
  if (broken() || index < released_ || !has(index)) return std::nullopt;
  const Descriptor& from = descriptor(index);
  Message message;
  message.offset = from.offset.load(std::memory_order_relaxed);
  message.bytes = from.bytes.load(std::memory_order_relaxed);
  message.shared = from.shared.load(std::memory_order_relaxed) != 0;
  message.tag = from.tag;
  if (message.bytes < 0) {
    fail();
    return std::nullopt;
  }
  if (message.shared) return message;
  if (message.bytes > smallBytes_ || message.offset > static_cast<uint64_t>(ringBytes_) ||
      message.bytes > ringBytes_ - static_cast<int64_t>(message.offset)) {
    fail();
    return std::nullopt;
  }
  message.data = bytes_ + message.offset;
  return message;
}

bool ReceiveRing::release() {
  if (broken() || !has(released_)) return false;
  // Read before the sender may write it anew.
  bool shared = descriptor(released_).shared.load(std::memory_order_relaxed) != 0;
  ++released_;
  header_.released.store(released_, std::memory_order_seq_cst);
  return shared || (header_.full.load(std::memory_order_seq_cst) != 0 &&
                    header_.full.exchange(0, std::memory_order_seq_cst) != 0);
}

}  // namespace hpu::collectives::shm
