// SPDX-License-Identifier: Apache-2.0
// Event: a point in a stream's work that other streams and the host can wait for, with its device time.
// The one thing to know: it also stands for the failure of the work before it, which stays with the event
// until it is recorded again (docs/launching.md, "Errors").
#pragma once

#include <cstdint>
#include <memory>

#include "hpu/status.h"

namespace hpu {

class EventState;

/// A shared handle. Recording again replaces what it stands for. Any thread may use it.
class HPU_API Event {
 public:
  Event();  ///< A new event that was never recorded; `query` is true then.
  ~Event();
  /// True when the recorded work is done (or nothing was recorded), false when it is not. Errors: its
  /// failure, or kCancelled when a reset of the device dropped it; the stream keeps its own.
  StatusOr<bool> query() const;
  /// Waits on the host; deadlineMs < 0: HPU_WAIT_TIMEOUT_MS. Errors: kDeadlineExceeded; as query. The
  /// stream's failure up to the event is taken, as by Stream::synchronize.
  Status synchronize(int64_t deadlineMs = -1) const;
  /// Of the end of external work (Stream::enqueue): whether the program has looked at its device time, or at that of
  /// something that came after it. Depends on the program's calls alone, unlike isDone(). False where that is not
  /// known.
  bool isSeen() const;
  /// As query(), but the calling thread takes no notice of the device time.
  bool isDone() const;
  /// Device nanoseconds from `start` to this event; both must be recorded and done.
  StatusOr<int64_t> elapsedNsSince(const Event& start) const;
  /// Device time of the event in nanoseconds since the device was opened; it must be done.
  StatusOr<int64_t> deviceTimeNs() const;

  const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

}  // namespace hpu
