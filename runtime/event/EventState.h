// SPDX-License-Identifier: Apache-2.0
// EventState: what Event handles share: the marker that was recorded last.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/ProcessOwned.h"
#include "hpu/event.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/event/SharedEvent.h"
#include "runtime/stream/StreamState.h"

namespace hpu {

/// What an event stands for at one moment.
struct Recorded {
  std::shared_ptr<TicketHandle> ticket;  ///< Null: nothing was recorded, or in a capture.
  std::weak_ptr<StreamState> stream;     ///< That it was recorded on.
  CapturedPoint captured;                ///< `set` is false when the last record was none of a capture.
};

/// Any thread may call anything.
class EventState {
 public:
  EventState() = default;
  /// One without a device time; others see it when `shared` is there.
  explicit EventState(std::shared_ptr<SharedEvent> shared) : timed_(false), shared_(std::move(shared)) {}
  /// Another process's.
  explicit EventState(std::shared_ptr<OpenedEvent> opened) : timed_(false), opened_(std::move(opened)) {}
  void set(std::shared_ptr<TicketHandle> ticket, const std::shared_ptr<StreamState>& stream);
  /// It was recorded in a capture, and has no ticket until it is recorded outside of one.
  void setCaptured(CapturedPoint point);
  /// Asked once for each call: another thread may record it at any moment.
  Recorded recorded() const;
  /// Errors: kFailedPrecondition in a forked child of the process that made it, as DeviceState::checkProcess.
  Status checkProcess() const;
  /// The same for a call that records it; kFailedPrecondition also when it is another process's.
  Status checkRecordable(std::string_view call) const;

  bool timed() const { return timed_; }
  /// Null when other processes do not see it.
  const std::shared_ptr<SharedEvent>& shared() const { return shared_; }
  /// Null when it is not another process's. It has no ticket then.
  const std::shared_ptr<OpenedEvent>& opened() const { return opened_; }

 private:
  const base::Birthplace birthplace_;
  const bool timed_ = true;
  const std::shared_ptr<SharedEvent> shared_;
  const std::shared_ptr<OpenedEvent> opened_;
  std::mutex sharing_;        // Records of a shared event have one order, here and for the others. Before mutex_.
  mutable std::mutex mutex_;  // Guards all.
  std::shared_ptr<TicketHandle> ticket_;
  std::weak_ptr<StreamState> stream_;
  CapturedPoint captured_;
};

}  // namespace hpu
