// SPDX-License-Identifier: Apache-2.0
// Responder: the receiving half of a reliable connection: requests in, memory touched, answers out.
// The one thing to know: a packet does something only when its number is the expected one; of those behind it only
// what the requester may have missed is said again (a READ is read again, an atomic operation is not done again).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "collectives/roce/MemoryTable.h"
#include "collectives/roce/Packet.h"
#include "collectives/roce/Requester.h"
#include "collectives/roce/Verbs.h"

namespace hpu::roce {

class Responder {
 public:
  struct Counters {
    uint64_t packets = 0, duplicates = 0, outOfOrder = 0;  ///< Received.
    uint64_t refused = 0, notReady = 0;
  };

  /// `memory` outlives it.
  Responder(const QueuePairOptions& options, const Peer& peer, const MemoryTable& memory);

  void post(const Receive& receive) { receives_.push_back(receive); }
  /// A request of the peer. `complete`: of receives.
  void receive(const Packet& packet, Complete complete);
  /// Sends answers.
  void advance(Emit emit, Complete complete);
  bool idle() const { return answers_.empty(); }
  /// After a packet that it had to refuse nothing is received any more.
  bool failed() const { return failed_; }
  /// Receives are flushed.
  void fail(Complete complete);
  const Counters& counters() const { return counters_; }

 private:
  enum class Message : uint8_t { kNone, kSend, kWrite };
  struct Answer {
    enum class Kind : uint8_t { kAcknowledge, kRead, kAtomic } kind = Kind::kAcknowledge;
    uint8_t syndrome = kAck;
    uint32_t psn = 0;  ///< Of a READ: of the next response.
    uint32_t messageNumber = 0;
    // Of a READ.
    uint64_t address = 0;
    uint32_t key = 0, length = 0;  ///< What is still to be sent.
    bool begun = false;
    bool again = false;     ///< Of a duplicate.
    uint64_t original = 0;  ///< Of an atomic operation.
  };
  struct Done {
    uint32_t psn = 0;
    uint64_t original = 0;
  };

  void takeExpected(const Packet& packet, Complete complete);
  void takeDuplicate(const Packet& packet);
  void takeSend(const Packet& packet, Complete complete);
  void takeWrite(const Packet& packet, Complete complete);
  void takeRead(const Packet& packet, Complete complete);
  void takeAtomic(const Packet& packet, Complete complete);
  bool fitsMessage(const Packet& packet) const;
  uint32_t responsesOf(uint32_t length) const;
  void acknowledge(uint8_t syndrome, uint32_t psn);
  void refuse(uint8_t syndrome, Complete complete);
  void notReady();
  void completeReceive(const Packet& packet, uint64_t bytes, Outcome outcome, Complete complete);
  void arrived(const Packet& packet);
  size_t pendingResults(bool again) const;

  const QueuePairOptions options_;
  const uint32_t peer_;
  const MemoryTable& memory_;
  std::deque<Receive> receives_;
  std::deque<Answer> answers_;
  std::deque<Done> atomics_;  ///< The last ones, for duplicates.
  uint32_t expected_;
  uint32_t messageNumber_ = 0;
  bool saidGap_ = false;  ///< Why packets ahead of the expected one are dropped has been said, once for each gap.
  bool failed_ = false;
  // The message that is being received.
  Message message_ = Message::kNone;
  uint64_t received_ = 0;  ///< Bytes of it.
  uint64_t address_ = 0, length_ = 0;
  uint32_t key_ = 0;
  Counters counters_;
};

}  // namespace hpu::roce
