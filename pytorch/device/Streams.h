// SPDX-License-Identifier: Apache-2.0
// StreamTable: a device's streams by PyTorch's numbers, and the calling thread's current one.
// The one thing to know: 0 is the default stream; 1..32 and 33..64 are the pool, of usual and of high priority; a
// stream is made when it is first given work.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "hpu/event.h"
#include "hpu/stream.h"
#include "hpu_torch/api.h"
#include "pytorch/device/Runtime.h"

namespace hpu_torch {

inline constexpr c10::StreamId kPoolStreams = 32;                ///< Of each priority, as CUDA's pool has.
inline constexpr c10::StreamId kStreams = 1 + 2 * kPoolStreams;  ///< Numbers of streams of a device.
inline constexpr int64_t kMaxKeptBytes = int64_t{256} << 20;     ///< Of host memory that waits for copies, a stream.

/// Any thread may call anything.
class HPU_TORCH_API StreamTable {
 public:
  StreamTable(hpu::Device device, c10::DeviceIndex index) : device_(std::move(device)), index_(index) {}

  /// Throws when `id` is no stream of this library.
  hpu::Stream& get(c10::StreamId id);
  /// The same without making it: null when it was never given work.
  hpu::Stream* getOrNull(c10::StreamId id) noexcept;
  /// The next one of the pool.
  c10::StreamId fromPool(bool highPriority) noexcept;

  /// Keeps host memory of `bytes` until what the stream was given so far is done. It is let go by a thread that gives
  /// the stream work, or waits for it: never by one of the runtime, which must not wait for Python's lock.
  void keepUntilDone(c10::StreamId id, std::shared_ptr<void> what, int64_t bytes);
  /// Waits; throws the failure of the stream's work.
  void synchronize(c10::StreamId id);
  void synchronizeAll();
  bool query(c10::StreamId id);

 private:
  struct Kept {
    hpu::Event done;
    std::shared_ptr<void> what;
    int64_t bytes;
  };
  struct Slot {
    std::atomic<bool> made{false};
    hpu::Stream stream;
    std::mutex mutex;  ///< Guards what follows, and the making of the stream.
    std::deque<Kept> kept;
    int64_t keptBytes = 0;
  };
  Slot& slot(c10::StreamId id);
  /// What is done of `kept`, for the caller to let go of without a lock.
  static std::deque<Kept> takeDone(Slot& slot);

  hpu::Device device_;
  c10::DeviceIndex index_;
  Slot slots_[kStreams];
  std::atomic<uint32_t> nextUsual_{0}, nextHigh_{0};
};

/// The calling thread's current stream of a device; opens nothing.
HPU_TORCH_API c10::StreamId currentStreamId(c10::DeviceIndex index) noexcept;
HPU_TORCH_API void setCurrentStreamId(c10::DeviceIndex index, c10::StreamId id) noexcept;
/// The current stream of an open device.
inline hpu::Stream& currentStream(OpenDevice& device) {
  return device.streams->get(currentStreamId(device.index));
}

/// What PyTorch's events are: device time is the modelled clock's.
struct TorchEvent {
  hpu::Event event;
  c10::DeviceIndex device = -1;  ///< -1: never recorded.
  bool timed = true;
};
HPU_TORCH_API void record(TorchEvent& event, c10::DeviceIndex device, c10::StreamId stream);
HPU_TORCH_API void block(const TorchEvent& event, c10::DeviceIndex device, c10::StreamId stream);
HPU_TORCH_API bool query(const TorchEvent& event);
HPU_TORCH_API void synchronize(const TorchEvent& event);
/// Milliseconds of the device's clock from `start` to `end`.
HPU_TORCH_API double elapsedMs(const TorchEvent& start, const TorchEvent& end);

}  // namespace hpu_torch
