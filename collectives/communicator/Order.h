// SPDX-License-Identifier: Apache-2.0
// Order: which earlier operations a new one waits for when they are on other streams.
// The one thing to know: it depends on the calls alone and never on how far the host has come, so
// that device times do not either.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
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

/// An operation that was enqueued, for others to wait for. It keeps no stream alive.
class Enqueued {
 public:
  /// `communicator` tells communicators apart; the ranks of one have the same.
  Enqueued(const Stream& stream, uint64_t communicator) : communicator_(communicator), stream_(stream.state()) {}
  uint64_t communicator() const { return communicator_; }
  bool isOn(const Stream& stream) const {
    return !stream_.owner_before(stream.state()) && !stream.state().owner_before(stream_);
  }
  bool isOnStreamOf(const Enqueued& other) const {
    return !stream_.owner_before(other.stream_) && !other.stream_.owner_before(stream_);
  }
  /// Its end: recorded when it is enqueued.
  const Event& end() const { return end_; }

 private:
  const uint64_t communicator_;
  const std::weak_ptr<StreamState> stream_;
  const Event end_;
};

/// Of one device in this process: operations on different streams that touch the same addresses,
/// one of them writing, go one after the other, as HCCL has it (not with HABANA_WEAK_ORDER).
/// For each address it knows who was last to write there, and who has read since: whoever writes
/// waits for both, so what was there before them is waited for with them. What the program has seen
/// the end of is forgotten now and then: nothing that it enqueues could begin earlier.
class AddressOrder {
 public:
  using Operations = std::vector<std::shared_ptr<Enqueued>>;

  AddressOrder();
  /// That of the device; shared by its communicators.
  static std::shared_ptr<AddressOrder> of(const Device& device);

  /// Earlier operations of other communicators on other streams than `stream` that overlap: the
  /// last one of each stream. (Those of one communicator have an order already; and of its ranks
  /// that share a device none can wait for another one.)
  Operations conflicts(std::span<const Access> accesses, const Stream& stream, uint64_t communicator) const;
  /// `operation` was enqueued, and comes after its conflicts. Adding one again says that it, which is
  /// still the last of its stream, uses this too. Its cost grows with the logarithm of ranges().
  void add(std::span<const Access> accesses, const std::shared_ptr<Enqueued>& operation);
  /// of() was called more than once: there may be operations of several communicators.
  bool isShared() const { return shared_.load(std::memory_order_relaxed); }
  /// Ranges of addresses that are told apart.
  size_t ranges() const;

 private:
  struct Use {
    std::shared_ptr<Enqueued> operation;
    uint64_t number = 0;  ///< By the order of add().
  };
  struct Range {
    uint64_t end = 0;
    Use writer;                ///< The last one; null: nobody has written.
    std::vector<Use> readers;  ///< Since then; the last one of each stream and communicator.
    size_t crowd = 8;          ///< With so many readers those are looked for that can be forgotten.
  };
  using Ranges = std::map<uint64_t, Range>;  ///< By their first address; they do not overlap.

  void addWriter(const Access& access, const Use& use);
  void addReader(const Access& access, const Use& use);
  void addReader(Range& range, const Use& use);
  void splitAt(uint64_t address);
  void forgetSeen();

  mutable std::mutex mutex_;  // Guards all.
  Ranges ranges_;
  uint64_t lastNumber_ = 0;
  size_t crowd_;  ///< With so many ranges those are looked for that can be forgotten.
  std::atomic<bool> shared_{false};
};

}  // namespace hpu::collectives
