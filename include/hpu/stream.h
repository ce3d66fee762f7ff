// SPDX-License-Identifier: Apache-2.0
// Stream: a queue of device work, in order within, concurrent with other streams.
// The one thing to know: every enqueue returns at once; a failure of the work itself stays with the
// stream until a wait takes it, and what is enqueued until then is not run. `query` and `error` show it
// and leave it; streams that wait for an event behind it fail, too (docs/launching.md, "Errors").
//
//   HPU_ASSIGN(auto stream, hpu::Stream::create(device));
//   HPU_RETURN_IF_ERROR(stream.copyToDevice(buffer, data, bytes));
//   HPU_RETURN_IF_ERROR(executable.launch(stream, {buffer}, {out}));
//   HPU_RETURN_IF_ERROR(stream.copyToHost(result, out, bytes));
//   HPU_RETURN_IF_ERROR(stream.synchronize());
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hpu/device.h"
#include "hpu/event.h"
#include "hpu/external_work.h"
#include "hpu/memory.h"
#include "hpu/status.h"

namespace hpu {

class StreamState;

struct StreamOptions {
  std::string name;
  int priority = 0;  ///< Higher first among operations that may start at the same device time.
};

/// A shared handle; any thread may enqueue (each call is atomic in the order of arrival).
class HPU_API Stream {
 public:
  Stream();
  ~Stream();
  static StatusOr<Stream> create(const Device& device, const StreamOptions& options = {}) {
    return create(device, options, sizeof(StreamOptions));
  }
  static StatusOr<Stream> create(const Device& device, const StreamOptions& options, size_t optionsBytes);
  Device device() const;  ///< Empty for an empty handle.

  /// Copies; `offset` is into the buffer, in bytes. The host memory must stay valid until the copy
  /// is done (synchronize or an event). Errors: kOutOfRange, kInvalidArgument (another device's
  /// buffer).
  Status copyToDevice(const Buffer& dst, const void* src, int64_t bytes, int64_t offset = 0);
  Status copyToHost(void* dst, const Buffer& src, int64_t bytes, int64_t offset = 0);
  Status copyOnDevice(const Buffer& dst, int64_t dstOffset, const Buffer& src, int64_t srcOffset, int64_t bytes);
  Status fill(const Buffer& dst, uint8_t value, int64_t bytes, int64_t offset = 0);

  /// The same by device address. The range must lie in one live allocation, which stays alive until
  /// the work is done. Errors: kNotFound (no allocation has the address), kOutOfRange (it ends
  /// before the range does); with HPU_MEMORY_CHECK both are errors of the stream instead, with the
  /// history of the memory.
  Status copyToDevice(uint64_t dst, const void* src, int64_t bytes);
  Status copyToHost(void* dst, uint64_t src, int64_t bytes);
  Status copyOnDevice(uint64_t dst, uint64_t src, int64_t bytes);
  /// Writes the low `elementBytes` (1, 2 or 4) bytes of `pattern`, little-endian, `count` times.
  Status fill(uint64_t dst, uint32_t pattern, int elementBytes, int64_t count);
  /// All ranges as one piece of work, in no particular order: cheaper to enqueue, and one launch
  /// overhead in device time. Errors: as the copies, with the index of the range; nothing is
  /// enqueued then.
  Status copyMany(CopyDirection direction, const std::vector<CopyRange>& ranges);

  /// From a buffer of another device of this process, over the links between the two: reads and writes in order with
  /// this stream, so wait for an event of the other device's stream first. `dst` is this device's. Both may be the same
  /// device's. Errors: kOutOfRange, kInvalidArgument (`dst` is another device's; an empty buffer), kUnimplemented
  /// (devices of different drivers).
  Status copyFromDevice(const Buffer& dst, int64_t dstOffset, const Buffer& src, int64_t srcOffset, int64_t bytes);

  /// Memory for work that is enqueued on this stream from now on, of the device's default pool; see memory_pool.h.
  StatusOr<Buffer> allocate(int64_t bytes);
  /// Gives memory of a pool back to it, behind everything that was enqueued on this stream. What other streams do with
  /// it must be done, or waited for by this stream. Handles that are left keep the memory until they are gone. See
  /// memory_pool.h.
  Status free(Buffer buffer);

  /// Work that the device does not do itself, at its turn in the stream: see external_work.h.
  /// Errors: kInvalidArgument (null), kFailedPrecondition (the stream is captured).
  Status enqueue(std::shared_ptr<ExternalWork> work);
  /// The same; `end` is recorded too: it stands for the end of the work itself.
  Status enqueue(std::shared_ptr<ExternalWork> work, const Event& end);
  /// The same for work that can be done again: now, and in a capture by each replay. Errors: what its enqueue()
  /// returns, and, in a capture, those of prepare().
  Status enqueueRepeatable(std::shared_ptr<RepeatableWork> work);

  /// More of the same, in place of another piece of work directly behind `work`, which says that it is extendable: true
  /// when it was added. False, and nothing has happened, unless `work` was the last to be enqueued, on this stream and
  /// on the device, and nobody has waited for it or asked about it since, and the calling thread has not seen a later
  /// device time than when it was enqueued; and while a trace is recorded. `ports` and `readyPs` are what
  /// ExternalWork::ports and portsReserved are for other work. It costs no allocation.
  bool extend(const ExternalWork& work, const ExternalPorts& ports, std::vector<int64_t>& readyPs) const;
  /// Nothing more is added to what is open to it on the stream's device. enqueue() and waitInOrder() do that too, but
  /// leave it to another thread to tell the work, because their callers may have locks. This may complete the work and
  /// begin what comes after it: call it without locks, before those, so that no other thread has to.
  void seal() const;

  /// Calls a function of the program at its turn in the stream: what is before it is done, what comes after it begins
  /// when it has returned; not called when the stream has failed. What it returns or throws is a failure of the stream.
  /// It takes no device time. `name`: for traces and errors. Functions of a device run one after another on a thread of
  /// the runtime; they may enqueue, but not wait for work of a device or reset one (kFailedPrecondition), and may let
  /// go of the device. None begins while the process exits, unless the thread that exits waits for it. Errors:
  /// kInvalidArgument (empty), kFailedPrecondition (the stream is captured).
  Status callHost(std::function<Status()> function, const std::string& name = "host function");
  /// Calls `told` once, on the same thread, when everything enqueued so far is done, with ok, or with the failure of
  /// the stream, which stays there; with kCancelled after a reset. The stream does not wait for it. Calls for one
  /// stream come in the order of onDone. What it throws is logged. Errors: as callHost.
  Status onDone(std::function<void(const Status&)> told);

  /// From now on `event` stands for everything enqueued so far, and for its failure.
  Status record(const Event& event);
  /// What is enqueued from now on runs after the event. When the event's work fails, so does this stream,
  /// with that failure: nothing that depends on the work runs.
  Status wait(const Event& event);
  /// The same, for who needs the order and not what the work gives: its failure is not this stream's.
  Status waitInOrder(const Event& event);

  /// True when everything enqueued so far is done and the stream has no failure; false as long as
  /// something is not done. Then the failure, which stays: the next query returns it as well.
  StatusOr<bool> query() const;
  /// The stream's failure, which stays; ok when none is known by now. Does not wait.
  Status error() const;
  /// Waits for everything enqueued so far; deadlineMs < 0: HPU_WAIT_TIMEOUT_MS (default 600,000).
  /// Takes the stream's failure and returns it: what is enqueued from now on runs again.
  /// kDeadlineExceeded leaves the stream as it is.
  Status synchronize(int64_t deadlineMs = -1) const;

  const std::shared_ptr<StreamState>& state() const { return state_; }

 private:
  std::shared_ptr<StreamState> state_;
};

}  // namespace hpu
