// SPDX-License-Identifier: Apache-2.0
// Event: a point in a stream's work that other streams and the host can wait for, with its device time.
// The one thing to know: it also stands for the failure of the work before it, which stays with the event
// until it is recorded again (docs/launching.md, "Errors").
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "hpu/status.h"

namespace hpu {

struct EventOptions {
  bool timed = true;    ///< False: it has no device time, and is cheaper to record and to wait for.
  bool shared = false;  ///< Other processes of this machine may open it (Event::handle); it is never timed.
};

/// Names a shared event to other processes of this machine. Plain bytes.
struct EventHandle {
  uint8_t bytes[64] = {};
};

class EventState;

/// A shared handle. Recording again replaces what it stands for. Any thread may use it.
class HPU_API Event {
 public:
  Event();  ///< A new event that was never recorded; `query` is true then.
  ~Event();
  /// Errors: kResourceExhausted.
  static StatusOr<Event> create(const EventOptions& options) { return create(options, sizeof(EventOptions)); }
  static StatusOr<Event> create(const EventOptions& options, size_t optionsBytes);
  /// Of a shared event, for Event::open in another process of the same user. Errors: kFailedPrecondition (it was not
  /// made to be shared).
  StatusOr<EventHandle> handle() const;
  /// The event of another process: it may be waited for, by streams and threads, and asked about, but not recorded. It
  /// fails with kUnavailable when the process that recorded it ends before the work does. Errors: kInvalidArgument (no
  /// handle of an event), kNotFound (it is gone), kPermissionDenied (another user's), kResourceExhausted.
  static StatusOr<Event> open(const EventHandle& handle);
  /// True when the recorded work is done (or nothing was recorded), false when it is not. Errors: its
  /// failure, or kCancelled when a reset of the device dropped it; the stream keeps its own.
  StatusOr<bool> query() const;
  /// Waits on the host; deadlineMs < 0: HPU_WAIT_TIMEOUT_MS. Errors: kDeadlineExceeded; as query. The
  /// stream's failure up to the event is taken, as by Stream::synchronize.
  Status synchronize(int64_t deadlineMs = -1) const;
  /// As Stream::onDone, of what the event stands for now; at once when nothing was recorded. Errors: kInvalidArgument
  /// (empty), kFailedPrecondition (recorded in a capture), kResourceExhausted (no stream is left for the wait).
  Status onDone(std::function<void(const Status&)> told) const;
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
