// SPDX-License-Identifier: Apache-2.0
// Rings: both ends of a lane from one rank to another.
// The one thing to know: each end believes only what it has counted itself; what it reads of the
// other one is checked, and nonsense ends the lane instead of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/transport/shm/Layout.h"
#include "collectives/transport/shm/Segment.h"

namespace hpu::collectives::shm {

/// One thread at a time, except `released`.
class SendRing {
 public:
  SendRing(const Segment& segment, int from, int to, Lane lane);
  /// Room for a message with `bytes` in the ring (0: none). When there is none, the receiver will
  /// ring the sender's doorbell once there may be.
  bool hasRoom(int64_t bytes);
  /// Only after hasRoom.
  void sendCopy(const std::byte* data, int64_t bytes, const MessageTag& tag);
  void sendShared(uint64_t offset, int64_t bytes, const MessageTag& tag);
  /// What the receiver says that it has released.
  uint64_t released() const { return header_.released.load(std::memory_order_acquire); }
  uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

 private:
  /// False: the receiver claims what cannot be.
  bool look(std::memory_order order);
  bool fits(int64_t bytes) const;
  int64_t place(int64_t bytes) const;
  void send(uint64_t offset, int64_t bytes, bool shared, const MessageTag& tag);
  RingHeader& header_;
  std::byte* const descriptors_;
  std::byte* const bytes_;
  const uint64_t messages_;
  const int64_t ringBytes_;
  std::atomic<uint64_t> sent_{0};  // Written by the sending thread alone.
  uint64_t seen_ = 0;              // Releases that were looked at.
  // Positions in the ring's bytes count on for ever; a message's bytes do not wrap.
  int64_t head_ = 0, tail_ = 0;
  std::vector<int64_t> ends_;  // By message: where its bytes end.
  std::atomic<bool> broken_{false};
};

/// One thread at a time.
class ReceiveRing {
 public:
  ReceiveRing(const Segment& segment, int from, int to, Lane lane);
  struct Message {
    const std::byte* data = nullptr;  ///< Of a copied one.
    uint64_t offset = 0;              ///< Of a shared one: into the sender's device memory.
    int64_t bytes = 0;
    bool shared = false;
    MessageTag tag;
  };
  std::optional<Message> look(uint64_t index);
  /// True: the sender wants to know. Nothing to release: false.
  bool release();
  void fail() { broken_.store(true, std::memory_order_relaxed); }
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

 private:
  const Descriptor& descriptor(uint64_t index) const;
  bool has(uint64_t index);
  RingHeader& header_;
  const std::byte* const descriptors_;
  const std::byte* const bytes_;
  const uint64_t messages_;
  const int64_t ringBytes_, smallBytes_;
  uint64_t released_ = 0, offered_ = 0;
  std::atomic<bool> broken_{false};
};

}  // namespace hpu::collectives::shm
