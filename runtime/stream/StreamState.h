// SPDX-License-Identifier: Apache-2.0
// StreamState: what Stream handles share: a driver queue, its last work and its errors.
// The one thing to know: submit keeps the given owners alive until the work is done.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "hpu/stream.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/Driver.h"

namespace hpu {

/// Any thread may call anything.
class StreamState {
 public:
  static StatusOr<std::shared_ptr<StreamState>> create(std::shared_ptr<DeviceState> device,
                                                       const StreamOptions& options);
  StreamState(std::shared_ptr<DeviceState> device, driver::QueueId queue,
              const StreamOptions& options);
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  const std::shared_ptr<DeviceState>& device() const { return device_; }
  driver::QueueId queue() const { return queue_; }

  /// Enqueues work that starts no earlier than what the calling thread has observed. `owners` are
  /// released when it is done.
  StatusOr<std::shared_ptr<TicketHandle>> submit(driver::Work work, std::string label,
                                                 std::vector<std::shared_ptr<const void>> owners);
  /// The same with at most two owners, which may be null, at the cost of one allocation.
  StatusOr<std::shared_ptr<TicketHandle>> submit(driver::Work work, std::string label,
                                                 std::shared_ptr<const void> owner,
                                                 std::shared_ptr<const void> other);
  /// For work that would touch memory which is not the program's: the error of the call; with the memory
  /// checker instead one of the stream, in the work's place. `label` as in submit.
  Status refuse(Status wrong, std::string label);
  /// The last enqueued work; null when there was none.
  std::shared_ptr<TicketHandle> last() const;
  /// As Stream::synchronize.
  Status synchronize(int64_t deadlineMs);
  /// The first failure up to `ticket` that was not reported yet.
  Status takeError(driver::Ticket upTo);

 private:
  StatusOr<std::shared_ptr<TicketHandle>> submitKeeping(driver::Work work, std::string label,
                                                        std::shared_ptr<const void> keepAlive);

  const std::shared_ptr<DeviceState> device_;
  const driver::QueueId queue_;
  const StreamOptions options_;
  mutable std::mutex mutex_;  // Guards last_, and makes it the last of the queue.
  std::shared_ptr<TicketHandle> last_;
};

}  // namespace hpu
