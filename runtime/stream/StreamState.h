// SPDX-License-Identifier: Apache-2.0
// StreamState: what Stream handles share: a driver queue, its last work and its errors.
// The one thing to know: submit keeps the given owners alive until the work is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"
#include "hpu/stream.h"
#include "runtime/device/DeviceState.h"
#include "runtime/driver/Driver.h"

namespace hpu {

class CaptureState;

/// Any thread may call anything.
class StreamState {
 public:
  static StatusOr<std::shared_ptr<StreamState>> create(std::shared_ptr<DeviceState> device,
                                                       const StreamOptions& options);
  StreamState(std::shared_ptr<DeviceState> device, driver::QueueId queue, const StreamOptions& options);
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  const std::shared_ptr<DeviceState>& device() const { return device_; }
  driver::QueueId queue() const { return queue_; }
  const std::string& name() const { return options_.name; }
  int32_t priority() const { return options_.priority; }

  /// Enqueues work that starts no earlier than what the calling thread has observed. `owners` are
  /// released when it is done. Null when the work was captured instead.
  StatusOr<std::shared_ptr<TicketHandle>> submit(driver::Work work, std::string label, driver::Owners owners);
  /// The same with at most two owners, which may be null, at the cost of one allocation.
  StatusOr<std::shared_ptr<TicketHandle>> submit(driver::Work work, std::string label,
                                                 std::shared_ptr<const void> owner, std::shared_ptr<const void> other);
  /// For work that would touch memory which is not the program's: the error of the call; with the
  /// memory checker instead one of the stream, in the work's place. `label` as in submit.
  Status refuse(Status wrong, std::string label);
  /// The ticket of a kept item of a batch, or of signal `signal` of a launch that is one, for a handle without one.
  struct BatchTicket {
    size_t item = 0;
    uint32_t signal = driver::BatchItem::kNone;
    std::shared_ptr<TicketHandle> handle;
  };
  /// Enqueues a batch whose items without a queue go to this stream; `owner` is released when the
  /// last of them is done, whose ticket it returns. Errors: also kFailedPrecondition (a capture); nothing is enqueued
  /// then.
  StatusOr<std::shared_ptr<TicketHandle>> submitBatch(const std::vector<driver::BatchItem>& items,
                                                      std::shared_ptr<const void> owner,
                                                      const std::vector<BatchTicket>& wanted = {});

  /// Enqueues a wait for a ticket, of any device. Not of a capture.
  Status waitFor(std::shared_ptr<TicketHandle> ticket, bool onlyOrder);
  /// As Stream::extend.
  bool extend(const ExternalWork& work, const ExternalPorts& ports, std::vector<int64_t>& readyPs) const;
  /// As Stream::seal.
  void seal() const;

  /// From now on submit hands work over to `capture`. Errors: kFailedPrecondition (it is captured).
  Status joinCapture(std::shared_ptr<CaptureState> capture);
  /// Ends what joinCapture began, when it was with this capture.
  void leaveCapture(const CaptureState* capture);
  /// Null when the stream is not captured.
  std::shared_ptr<CaptureState> capture() const;
  /// Fails, and so does the capture, when the stream is captured: the call cannot be.
  Status refuseInCapture(std::string_view call, std::string_view why) const;

  /// The last enqueued work; null when there was none.
  std::shared_ptr<TicketHandle> last() const;
  /// As Stream::synchronize; `call` is the caller's, for errors.
  Status synchronize(int64_t deadlineMs, std::string_view call);
  /// The same, but takes no failure and is not told of one. Errors: kDeadlineExceeded, a bad setting.
  Status waitAll(int64_t deadlineMs, std::string_view call) const;
  /// The first failure up to `ticket` that was not taken yet, and takes it.
  Status takeError(driver::Ticket upTo);
  /// The same, and takes nothing.
  Status error(driver::Ticket upTo) const;
  /// As Stream::query.
  StatusOr<bool> query() const;

 private:
  StatusOr<std::shared_ptr<TicketHandle>> submitKeeping(driver::Work work, std::string label,
                                                        std::shared_ptr<const void> keepAlive);

  const std::shared_ptr<DeviceState> device_;
  const driver::QueueId queue_;
  const StreamOptions options_;
  mutable std::mutex mutex_;  // Guards both, and makes last_ the last of the queue.
  std::shared_ptr<TicketHandle> last_;
  std::shared_ptr<CaptureState> capture_;
  std::atomic<bool> captured_{false};  // There is one; written under the mutex.
};

}  // namespace hpu
