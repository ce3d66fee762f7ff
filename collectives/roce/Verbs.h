// SPDX-License-Identifier: Apache-2.0
// What is asked of a queue pair, and what it says of it at the end.
// The one thing to know: memory named in a request or a receive belongs to the queue pair until its completion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hpu::roce {

/// Nanoseconds of any clock that does not go back.
using TimeNs = int64_t;

enum class Verb : uint8_t { kSend, kWrite, kRead, kCompareSwap, kFetchAdd };

/// Of the sender. Requests of a queue pair are carried out in their order.
struct Request {
  uint64_t id = 0;
  Verb verb = Verb::kSend;
  /// What is sent or written; where that which is read goes; of an atomic operation 8 bytes for what was there.
  std::span<std::byte> local;
  uint64_t remoteAddress = 0;  ///< Of all but kSend.
  uint32_t remoteKey = 0;
  bool hasImmediate = false;  ///< Of kSend and kWrite; a write with one takes a receive of the peer.
  uint32_t immediate = 0;
  uint64_t compare = 0, swapOrAdd = 0;
  bool solicited = false;
};

/// A place for one SEND, or for the immediate of a write.
struct Receive {
  uint64_t id = 0;
  std::span<std::byte> buffer;
};

enum class Outcome : uint8_t {
  kSuccess,
  kInvalidRequest,    ///< The peer: malformed, not permitted in this place, or longer than its receive.
  kRemoteAccess,      ///< The peer: no such key, beyond its bounds, or not allowed.
  kRemoteOperation,   ///< The peer cannot.
  kRetriesExceeded,   ///< The peer does not answer.
  kReceiverNotReady,  ///< The peer had no receive for it, time and again.
  kLocalLength,       ///< Of a receive: the message is longer.
  kFlushed,           ///< The queue pair had failed, or was closed.
};
std::string_view outcomeName(Outcome outcome);

/// Of reliable connections (InfiniBand Architecture Specification 1.3, volume 1).
inline constexpr uint64_t kMostMessageBytes = uint64_t{1} << 31;

struct Completion {
  uint64_t id = 0;
  Outcome outcome = Outcome::kSuccess;
  bool isReceive = false;
  bool solicited = false;
  bool hasImmediate = false;
  uint32_t immediate = 0;
  uint64_t bytes = 0;  ///< Of a receive: what came.
};

struct QueuePairOptions {
  uint32_t number = 0;      ///< 24 bits, not 0 or 1.
  uint32_t pathMtu = 4096;  ///< Bytes: 256, 512, 1024, 2048 or 4096; the same on both sides.
  uint32_t firstPsn = 0;    ///< Of the first packet that this side sends.
  /// Packets on their way at most. What the peer's buffers take.
  uint32_t window = 128;
  /// READs and atomic operations on their way at most; the peer's, too.
  uint32_t reads = 16;
  TimeNs timeoutNs = 67'108'864;  ///< 4.096 us * 2^14, as rdma_rxe's least.
  /// After each timeout without progress the next one is twice as long, so often at most.
  int timeoutDoublings = 0;
  int retries = 7;             ///< Timeouts and losses without progress.
  int notReadyRetries = 7;     ///< 7: without end, as verbs have it.
  uint8_t notReadyTimer = 12;  ///< Code of the time that a peer is asked to wait; see notReadyNs.
  uint32_t ackEvery = 32;      ///< Packets after which an acknowledgement is asked for at the latest.
};
struct Peer {
  uint32_t number = 0;    ///< Its queue pair.
  uint32_t firstPsn = 0;  ///< Of the first packet that it sends.
};

// ---- The syndrome of an acknowledgement ----------------------------------------------------------
// InfiniBand Architecture Specification 1.3, volume 1, 9.7.5.2.

inline constexpr uint8_t kAck = 0x1F;  ///< Without credits.
inline constexpr uint8_t kNotReady = 0x20, kSequenceError = 0x60, kInvalidRequestError = 0x61;
inline constexpr uint8_t kRemoteAccessError = 0x62, kRemoteOperationError = 0x63;
enum class Answer : uint8_t { kAck, kNotReady, kReserved, kNak };
inline Answer answerOf(uint8_t syndrome) {
  return static_cast<Answer>(syndrome >> 5 & 3);
}
/// What a receiver that is not ready asks for, by its 5-bit code.
TimeNs notReadyNs(uint8_t code);

}  // namespace hpu::roce
