// SPDX-License-Identifier: Apache-2.0
// Transport: how the ranks of a communicator reach each other's data and calls.
// The one thing to know: nothing here waits. Operations are offered, looked for and released;
// `waitForChange` sleeps until anything has changed since. One object belongs to one rank; any
// thread may call anything, but offers, looks and releases of one lane come from one thread at a
// time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "hpu/status.h"

namespace hpu::collectives {

class SharedWork;

/// Independent sequences of messages from one rank to another.
enum class Lane : uint8_t {
  kCollective = 0,
  kPointToPoint = 1,
  kReply = 2,  ///< From the receiver of point-to-point messages back to the sender.
};
inline constexpr int kNumLanes = 3;

/// Of a node: each has a link to each other one.
inline constexpr int kMostDevices = 8;
/// What a device's messages go through: the link to each device of its node, by that one's number, and its rail to
/// other nodes.
inline constexpr int kRailPort = kMostDevices, kMostPorts = kMostDevices + 1;

/// What a rank says of a collective that it has begun; the others compare. Plain data: it lies in
/// shared memory.
struct CallRecord {
  uint64_t sequence = 0;     ///< Of the communicator's collectives, from 1.
  uint64_t fingerprint = 0;  ///< Of what must be alike on all ranks.
  uint64_t tableHash = 0;    ///< Tuner table.
  int64_t count = 0;
  int64_t arrivalPs = 0;           ///< Device time; see `follows`.
  double scale = 1;                ///< Of the rank's contribution.
  uint64_t input = 0, output = 0;  ///< Device addresses.
  int32_t root = 0, destination = 0;
  uint8_t collective = 0, type = 0, op = 0;  ///< Collective, ElementType, ReduceOp.
  /// 1: run by SharedWork. The others are not told of the record: who sees all of them is.
  uint8_t direct = 0;
  /// 1: the rank arrives when the collective before this one is over, but not before `arrivalPs`.
  uint8_t follows = 0;
  /// 1: some of `portsPs` is not 0. Else it is not told, and nobody looks at it.
  uint8_t portsBusy = 0;
  uint8_t reserved[2] = {};
  /// From when on the ports of this rank's device are the operation's, outwards and inwards.
  int64_t portsPs[2][kMostPorts] = {};
};

/// What comes with a message beside its bytes.
struct MessageTag {
  uint64_t sequence = 0;  ///< Of the lane's messages or the operation, as the sender counts.
  int64_t arrivalPs = 0;
  int64_t count = 0;
  uint32_t type = 0;
  uint32_t flags = 0;
};

struct Arrived {
  /// Readable until released. Null: there are no bytes, or not as many as were expected.
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  MessageTag tag;
  /// They are not the bytes that the sender had (NetOptions::check).
  bool damaged = false;
};

enum class Offered : uint8_t {
  kFull,    ///< Not taken: the lane holds as much as it can; try again after a change.
  kCopied,  ///< The caller's bytes are free again.
  kShared,  ///< The peer reads the caller's bytes in place: they stay as they are until released.
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;  ///< "shm"
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  /// Host address of this rank's device memory; null when it is not all there.
  virtual std::byte* local(uint64_t deviceAddress, int64_t bytes) const = 0;
  /// Whether those bytes of host memory are this rank's device memory.
  virtual bool holds(const std::byte* data, int64_t bytes) const = 0;

  /// Offers bytes of this rank's device memory (or of any memory, as long as smallBytes() suffices)
  /// to `peer` (not this rank), as the lane's next message. None is fine: then `data` may be null.
  /// Errors: kInvalidArgument (neither of the two memories), what peerStatus(peer) says when it is
  /// known already.
  virtual StatusOr<Offered> offer(int peer, Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag) = 0;
  /// Where message `index` from `peer` is wanted: `bytes` at `data` in this rank's device memory (none: then it may be
  /// null), which is nobody else's until the message has arrived. Said once a message, in their order, before or after
  /// it was offered, or not at all. Where bytes have to be moved they are put there, and arrived() gives `data`; ranks
  /// that read each other's memory have nothing to do. After abort() nothing is put there any more.
  virtual void expect(int peer, Lane lane, uint64_t index, std::byte* data, int64_t bytes) {}
  /// Messages up to this size are copied when they are offered: the low-latency path.
  virtual int64_t smallBytes() const = 0;
  /// Whether all that was copied, and the records up to `sequence` that pass by this rank, would reach the others
  /// though this process ended now. False: a change comes when it is so. An operation is done only then: its rank may
  /// leave.
  virtual bool delivered(uint64_t sequence) { return true; }
  /// How many of the messages that were offered to `peer` it has released, from the first one on; of those whose bytes
  /// are moved: whose bytes are the caller's again.
  /// The release of a copied message changes changes() only when an offer was kFull before it.
  virtual uint64_t released(int peer, Lane lane) const = 0;
  /// Message `index` (from 0) from `peer`; nothing when it has not come yet, or was released. What
  /// a peer has offered stays readable when it goes.
  virtual std::optional<Arrived> arrived(int peer, Lane lane, uint64_t index) = 0;
  /// The oldest message from `peer` that is not released is not needed any more.
  virtual void release(int peer, Lane lane) = 0;

  /// Tells all ranks of a call, the sequences one by one from 1. False: some rank (this one too)
  /// has not retired an earlier one yet (try again after a change).
  virtual bool publish(const CallRecord& record) = 0;
  /// The record of `peer` (or of this rank) with that sequence; nothing when it has not come.
  virtual std::optional<CallRecord> record(int peer, uint64_t sequence) const = 0;
  /// The last sequence that `peer` published, 0 for none: for errors.
  virtual uint64_t lastSequence(int peer) const = 0;
  /// This rank needs no records up to `sequence` any more.
  virtual void retire(uint64_t sequence) = 0;

  /// Null unless all ranks reach each other's device memory. It lives as long as this object.
  virtual SharedWork* sharedWork() { return nullptr; }

  /// A number that changes with everything that a peer does to this rank: its offers, its releases
  /// of shared messages, its records, retiring when a publish was refused, its end.
  virtual uint32_t changes() const = 0;
  /// Sleeps until changes() has counted `atLeast` (up to 1000) since `seen`, wake() or `until`; may
  /// return early. The end of a rank, in whatever way, and wake() count as many. It may look around
  /// for a moment first when each rank has a core, and pass its core on otherwise.
  virtual void waitForChange(uint32_t seen, std::chrono::steady_clock::time_point until, uint32_t atLeast = 1) = 0;
  /// From any thread of this process: makes waitForChange return.
  virtual void wake() = 0;

  /// Says whether a peer can still be expected to answer. Errors: kUnavailable (its process is
  /// gone, or it has left), kAborted (it gave up, with its reason); the message names the rank and
  /// its process. What it offered and published before is still there: look for that first. Cheap
  /// enough for every wake-up.
  virtual Status peerStatus(int peer) const = 0;
  /// The peer's process ended, or was killed, without leaving: unlike one that has left it had not
  /// done all that it was to do, as far as anybody knows.
  virtual bool gone(int peer) const = 0;
  /// What a peer that gave up said to abort(), with its code; ok for all others.
  virtual Status abortReason(int peer) const = 0;
  /// A number that changes as long as the peer's process lives, is not stopped, and its device or
  /// communicator advances. It does not for a rank that lives and has nothing to do.
  virtual uint64_t heartbeat(int peer) const = 0;
  /// What this rank's device has done so far, asked a few times a second by a thread of the
  /// process; it must not call the transport. No call of the previous source runs on return.
  virtual void setProgressSource(std::function<uint64_t()> source) = 0;
  /// "rank 3 (process 123, stopped)": for errors.
  virtual std::string describe(int peer) const = 0;
  /// Tells all peers that this rank gives up, and why; the first reason counts.
  virtual void abort(const Status& why) = 0;
};

}  // namespace hpu::collectives
