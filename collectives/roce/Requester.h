// SPDX-License-Identifier: Apache-2.0
// Requester: the sending half of a reliable connection: requests out, answers in.
// The one thing to know: packets are sent in the order of their numbers and, when one was lost, again from there
// (go back N); a READ goes on from what is missing of it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/FunctionRef.h"
#include "collectives/roce/CongestionWindow.h"
#include "collectives/roce/Packet.h"
#include "collectives/roce/Psn.h"
#include "collectives/roce/Verbs.h"
#include "hpu/status.h"

namespace hpu::roce {

/// Takes a packet, whose payload is memory of a request or of the table, to be sent before it returns or copied. False:
/// it was not taken, and comes again.
using Emit = base::FunctionRef<bool(const Packet&)>;
using Complete = base::FunctionRef<void(const Completion&)>;

class Requester {
 public:
  /// Counters since the beginning.
  struct Counters {
    uint64_t packets = 0, again = 0;  ///< Sent; of these, not for the first time.
    uint64_t timeouts = 0, notReady = 0, sequenceErrors = 0, missingResponses = 0;
  };

  Requester(const QueuePairOptions& options, uint32_t peer);

  /// Errors: kInvalidArgument (a message of more than 2^31 bytes, an atomic operation without 8 bytes; nothing was
  /// posted).
  Status post(const Request& request);
  /// An answer of the peer. Completes requests, in their order.
  void receive(const Packet& packet, TimeNs now, Complete complete);
  /// The peer was told of congestion on the way to it.
  void congested(TimeNs now) { congestion_.notified(now); }
  /// What time has come for; sends what may be sent. `complete`: of requests that failed.
  void advance(TimeNs now, Emit emit, Complete complete);
  /// When advance() has something to do though nothing is received or posted.
  std::optional<TimeNs> nextTime() const;
  /// All that is not complete is flushed.
  void fail(Complete complete);

  bool idle() const { return works_.empty(); }
  bool failed() const { return failed_; }
  const Counters& counters() const { return counters_; }
  const CongestionWindow& congestion() const { return congestion_; }

 private:
  struct Work {
    Request request;
    uint32_t first = 0;    ///< PSN of its first packet.
    uint32_t packets = 1;  ///< Numbers that it takes: of a READ as many as its responses.
    uint32_t done = 0;     ///< Of these: acknowledged, or responses that have come.
    bool hasResult() const { return request.verb == Verb::kRead || isAtomic(); }
    bool isAtomic() const { return request.verb == Verb::kCompareSwap || request.verb == Verb::kFetchAdd; }
  };

  uint32_t oldest() const { return works_.empty() ? nextPsn_ : psnAdd(works_.front().first, works_.front().done); }
  uint32_t sending() const;
  void acknowledge(uint32_t through, TimeNs now, Complete complete);
  void takeResponse(const Packet& packet, TimeNs now, Complete complete);
  void takeNak(const Packet& packet, TimeNs now, Complete complete);
  void finishFront(Outcome outcome, Complete complete);
  void failFront(Outcome outcome, Complete complete);
  void progressed(TimeNs now);
  bool goBack(uint32_t psn, TimeNs now, Complete complete);
  bool emitNext(Emit emit);

  const QueuePairOptions options_;
  const uint32_t peer_;
  std::deque<Work> works_;
  size_t at_ = 0;        ///< Of works_: what is sent next, ...
  uint32_t packet_ = 0;  ///< ... and from which of its packets.
  uint32_t nextPsn_;     ///< Of the next request that is posted.
  uint32_t newest_;      ///< First number that was never sent.
  int retries_ = 0, notReady_ = 0;
  std::optional<TimeNs> timeout_;      ///< While something is on its way.
  std::optional<TimeNs> pausedUntil_;  ///< The peer is not ready.
  /// First numbers behind the READs and atomic operations that are on their way.
  std::deque<uint32_t> results_;
  std::optional<uint32_t> missing_;  ///< The response that was asked for again and has not come.
  bool failed_ = false;
  CongestionWindow congestion_;
  Counters counters_;
};

}  // namespace hpu::roce
