// SPDX-License-Identifier: Apache-2.0
// AddressOrder: order between streams of a device by the memory that their work touches, for programs that copy on one
// stream and compute or copy back on another without an event.
// The one thing to know: off unless HPU_SYNAPSE_ADDRESS_ORDER was set when the device was acquired; then an enqueue
// takes the device's lock, and waits on the device, not on the host.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "hpu/event.h"
#include "hpu/stream.h"

namespace hpu::synapse {

/// Memory that work reads or writes: addresses of the device, or of the host.
struct MemoryUse {
  uint64_t begin = 0, end = 0;
  bool writes = false, ofHost = false;
  bool overlaps(const MemoryUse& other) const {
    return ofHost == other.ofHost && begin < other.end && other.begin < end;
  }
};

/// Any thread may call anything.
class AddressOrder {
 public:
  explicit AddressOrder(bool enabled) : enabled_(enabled) {}
  bool isEnabled() const { return enabled_; }

  /// `enqueue()` enqueues one piece of work on `stream` and gives a Status: it comes after earlier work of other
  /// streams that touches the same memory, one of the two writing. Work that reads what failed to be written fails,
  /// too.
  template <typename Enqueue>
  Status inOrder(const Stream& stream, std::span<const MemoryUse> uses, Enqueue&& enqueue) {
    if (!enabled_) return enqueue();
    std::lock_guard lock(mutex_);
    if (Status status = wait(stream, uses); !status.ok()) return status;
    if (Status status = enqueue(); !status.ok()) return status;
    return add(stream, uses);
  }
  /// After a reset, which has dropped the work: nobody is to wait for it.
  void forget() {
    std::lock_guard lock(mutex_);
    uses_.clear();
  }

 private:
  struct Work {
    std::weak_ptr<StreamState> stream;
    Event end;
  };
  struct Use {
    MemoryUse memory;
    std::shared_ptr<const Work> work;
  };
  static bool isOn(const Work& work, const Stream& stream) {
    return !work.stream.owner_before(stream.state()) && !stream.state().owner_before(work.stream);
  }
  Status wait(const Stream& stream, std::span<const MemoryUse> uses);
  Status add(const Stream& stream, std::span<const MemoryUse> uses);

  /// So many are of programs that use ever new memory: forgetting what is done depends on how far the host has come,
  /// and so do device times then.
  static constexpr size_t kCrowd = 4096;

  const bool enabled_;
  std::mutex mutex_;       // Guards what follows; held while work is enqueued, so that all see one order.
  std::vector<Use> uses_;  ///< Of work that may not be done, oldest first.
  size_t crowd_ = kCrowd;  ///< With so many, what is done is looked for.
};

}  // namespace hpu::synapse
