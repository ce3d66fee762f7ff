// SPDX-License-Identifier: Apache-2.0
// QueuePair: one end of a reliable connection, without a socket and without a clock: packets and times in, packets,
// completions and the next time out.
// The one thing to know: nothing happens between calls. After receive() or post() call advance(); call it again when
// nextTime() has come, or when packets that were not taken can be. Not thread-safe.
//
//   QueuePair pair(options, peer, memory);
//   pair.post(Request{.id = 1, .verb = Verb::kWrite, .local = data, .remoteAddress = address, .remoteKey = key});
//   pair.advance(now, [&](const Packet& packet) { return socket.send(packet); });
//   ... pair.receive(packet, now); pair.advance(now, ...); while (auto done = pair.poll()) ...
#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "collectives/roce/MemoryTable.h"
#include "collectives/roce/Requester.h"
#include "collectives/roce/Responder.h"
#include "collectives/roce/Verbs.h"
#include "hpu/status.h"

namespace hpu::roce {

class QueuePair {
 public:
  /// Errors: kInvalidArgument (a path MTU, window or number that cannot be).
  static Status check(const QueuePairOptions& options, const Peer& peer);
  /// The options have passed check(). `memory` outlives the queue pair.
  QueuePair(const QueuePairOptions& options, const Peer& peer, const MemoryTable& memory);

  /// Errors: those of Requester::post; kFailedPrecondition (the connection has failed).
  Status post(const Request& request);
  /// Errors: kFailedPrecondition (the connection has failed).
  Status post(const Receive& receive);
  /// A packet of the peer to this queue pair, whose ICRC was right.
  void receive(const Packet& packet, TimeNs now);
  void advance(TimeNs now, Emit emit);
  std::optional<TimeNs> nextTime() const { return requester_.nextTime(); }
  /// Called when something was posted, so that advance() has something to do.
  void onPosted(std::function<void()> posted) { posted_ = std::move(posted); }
  bool hasCompletion() const { return !completions_.empty(); }
  /// The oldest completion that was not taken.
  std::optional<Completion> poll();
  /// Everything that was posted is flushed.
  void close();

  /// The peer's part or this one's is over: what was posted is flushed.
  bool failed() const { return requester_.failed() || responder_.failed(); }
  /// Nothing is to be sent or waited for.
  bool idle() const { return requester_.idle() && responder_.idle(); }
  const Requester& sender() const { return requester_; }
  const Requester::Counters& sent() const { return requester_.counters(); }
  const Responder::Counters& received() const { return responder_.counters(); }

 private:
  void failBoth();

  Requester requester_;
  Responder responder_;
  std::deque<Completion> completions_;
  std::function<void()> posted_;
};

}  // namespace hpu::roce
