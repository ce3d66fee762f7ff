// SPDX-License-Identifier: Apache-2.0
// Order: which earlier operations a new one waits for when they are on other streams.
// The one thing to know: it depends on the calls alone and never on how far the host has come, so
// that device times do not either.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/stream.h"

namespace hpu::collectives {

/// Device addresses [begin, end) that an operation uses.
struct Access {
  uint64_t begin = 0, end = 0;
  bool write = false;
};

/// An operation that was enqueued, for others to wait for.
class Enqueued {
 public:
  /// `communicator` tells communicators apart; the ranks of one have the same.
  Enqueued(const Stream& stream, uint64_t communicator) : communicator_(communicator), stream_(stream) {}
  uint64_t communicator() const { return communicator_; }
  const StreamState* stream() const { return stream_.state().get(); }
  /// Marks the operation's place in its stream: now, which is right after it or, when only now
  /// somebody asks, later: what came in between is waited for too. Once.
  Status mark();
  const Event& event() const { return event_; }

 private:
  const uint64_t communicator_;
  const Stream stream_;
  Event event_;
  std::mutex mutex_;
  bool marked_ = false;  // Guarded by mutex_.
};

/// Of one device in this process: operations on different streams that touch the same addresses,
/// one of them writing, go one after the other, as HCCL has it (not with HABANA_WEAK_ORDER).
class AddressOrder {
 public:
  /// That of the device; shared by its communicators.
  static std::shared_ptr<AddressOrder> of(const Device& device);

  /// Earlier operations of other communicators on other streams than `stream` that overlap: the
  /// last one of each stream. (Those of one communicator have an order already; and of its ranks
  /// that share a device none can wait for another one.)
  std::vector<std::shared_ptr<Enqueued>> conflicts(const std::vector<Access>& accesses, const StreamState* stream,
                                                   uint64_t communicator);
  /// True: more than one stream had operations, so marks pay off.
  bool add(const std::vector<Access>& accesses, const std::shared_ptr<Enqueued>& operation);

 private:
  struct Entry {
    Access access;
    std::shared_ptr<Enqueued> operation;
  };
  // A stream that has more keeps the oldest as one range, with a later operation to wait for.
  static constexpr size_t kEntries = 64;
  std::mutex mutex_;                                         // Guards both.
  std::map<const StreamState*, std::deque<Entry>> entries_;  ///< In order of the stream.
  bool several_ = false;
};

}  // namespace hpu::collectives
