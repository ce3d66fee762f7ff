// SPDX-License-Identifier: Apache-2.0
// EventState: what Event handles share: the marker that was recorded last.
#pragma once

#include <memory>
#include <mutex>

#include "base/ProcessOwned.h"
#include "hpu/event.h"
#include "runtime/capture/CaptureState.h"
#include "runtime/device/DeviceState.h"
#include "runtime/stream/StreamState.h"

namespace hpu {

/// Any thread may call anything.
class EventState {
 public:
  void set(std::shared_ptr<TicketHandle> ticket, const std::shared_ptr<StreamState>& stream);
  /// It was recorded in a capture, and has no ticket until it is recorded outside of one.
  void setCaptured(CapturedPoint point);
  /// `set` is false when the last record was none of a capture.
  CapturedPoint captured() const;
  /// Null when nothing was recorded.
  std::shared_ptr<TicketHandle> ticket() const;
  /// The stream that it was recorded on; null when that is gone.
  std::shared_ptr<StreamState> stream() const;
  /// Errors: kFailedPrecondition in a forked child of the process that made it, as DeviceState::checkProcess.
  Status checkProcess() const;

 private:
  const base::Birthplace birthplace_;
  mutable std::mutex mutex_;  // Guards all.
  std::shared_ptr<TicketHandle> ticket_;
  std::weak_ptr<StreamState> stream_;
  CapturedPoint captured_;
};

}  // namespace hpu
