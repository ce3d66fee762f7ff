// SPDX-License-Identifier: Apache-2.0
// Capture: what streams are asked to do is recorded instead of done, and replayed as a whole any
// number of times, for a fraction of the cost of enqueuing it again.
// The one thing to know: only work of streams is captured, collectives and repeatable work included. What the host
// does itself (waiting, allocating, loading, resetting the device) is refused meanwhile on the thread that began the
// capture, which fails with the first such call. Other threads may reset the device: nothing captured is lost by that.
//
//   HPU_ASSIGN(auto session, hpu::CaptureSession::begin(stream));
//   HPU_RETURN_IF_ERROR(stream.copyToDevice(in, data, bytes));
//   HPU_RETURN_IF_ERROR(executable.launch(stream, {in}, {out}));
//   HPU_ASSIGN(auto graph, session.end());
//   HPU_ASSIGN(auto instance, graph.instantiate());
//   HPU_RETURN_IF_ERROR(instance.rebindSource(data, other, bytes));
//   HPU_RETURN_IF_ERROR(instance.replay(stream));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/memory.h"
#include "hpu/status.h"
#include "hpu/stream.h"

namespace hpu {

class CaptureState;
class CapturedWork;
class ReplayState;

/// Captured work, ready to be replayed; a shared handle. Any thread may call; the calls of one
/// instance follow each other. Replays of one instance are in order with each other, also on
/// different streams, because they use the same memory.
class HPU_API GraphInstance {
 public:
  GraphInstance();  ///< Empty; only assignable.
  ~GraphInstance();
  bool valid() const { return state_ != nullptr; }

  /// Enqueues all of it on `stream` (of the same device), as one call: the branches of the capture
  /// run concurrently, and what follows on `stream` follows all of them. A failure of any part is
  /// an error of `stream`. Errors: kFailedPrecondition, kInvalidArgument (another device); nothing is
  /// enqueued then.
  /// With repeatable work (collectives, Stream::enqueueRepeatable) it makes the same calls as were captured, in
  /// their order. Where one of them fails, its error says which operation it was: those before it are enqueued and
  /// run, and what follows on `stream` follows them; it and those after it are not, and `stream` has no failure by
  /// that. Other ranks wait for no collective that failed so: it fails its communicator on all of them. The work must
  /// not replay or rebind graphs itself (kFailedPrecondition).
  Status replay(const Stream& stream);

  /// From the next replay on, everything that used memory in [from, from + bytes) uses the same
  /// offset in [to, to + bytes), which must lie in one live allocation of HBM. The new memory stays alive
  /// as the captured one did, and what nothing uses any more is let go (a CapturedGraph keeps what it
  /// captured). Errors: kNotFound (nothing uses it, or no such allocation),
  /// kOutOfRange, kInvalidArgument (a launch's output would overwrite its input); nothing is
  /// changed then.
  Status rebind(uint64_t from, uint64_t to, int64_t bytes);
  /// The same for all of a buffer; `to` is no smaller than what is used of `from`.
  Status rebind(const Buffer& from, const Buffer& to);
  /// The same for host memory that copies read, and for host memory that copies write.
  Status rebindSource(const void* from, const void* to, int64_t bytes);
  Status rebindDestination(void* from, void* to, int64_t bytes);

  explicit GraphInstance(std::shared_ptr<ReplayState> state);

 private:
  std::shared_ptr<ReplayState> state_;
};

/// What a capture recorded; a shared, immutable handle. Everything that it uses stays alive with
/// it.
class HPU_API CapturedGraph {
 public:
  CapturedGraph();  ///< Empty; only assignable.
  ~CapturedGraph();
  bool valid() const { return work_ != nullptr; }
  int64_t operations() const;  ///< Copies, fills, launches, records, waits between branches, and repeatable work.
  int64_t launches() const;
  int64_t branches() const;  ///< Streams that took part; 1 without a fork.
  /// One line an operation, "branch 0: launch 'layer1'", in the order of capture.
  std::vector<std::string> describe() const;

  StatusOr<GraphInstance> instantiate() const;

  explicit CapturedGraph(std::shared_ptr<const CapturedWork> work);

 private:
  std::shared_ptr<const CapturedWork> work_;
};

/// A capture that goes on, until `end` or until the session is gone (then it is given up). Streams
/// join it by waiting for an event that was recorded in it, and must be waited for by the first
/// stream before the end. Any thread may enqueue meanwhile.
class HPU_API CaptureSession {
 public:
  CaptureSession();  ///< Empty; only assignable.
  ~CaptureSession();
  CaptureSession(CaptureSession&&) noexcept;
  CaptureSession& operator=(CaptureSession&&) noexcept;
  CaptureSession(const CaptureSession&) = delete;
  CaptureSession& operator=(const CaptureSession&) = delete;

  /// From now on work of `stream` is recorded. What was enqueued before is not affected. Errors:
  /// kFailedPrecondition (it is captured already).
  static StatusOr<CaptureSession> begin(const Stream& stream);
  /// A number of the capture that the stream is in, no other capture's; 0: none.
  static uint64_t of(const Stream& stream);
  /// Ends the capture; all its streams work as before. Errors: kFailedPrecondition, saying which
  /// call was refused in the capture, or which stream was not waited for.
  StatusOr<CapturedGraph> end();
  bool active() const { return state_ != nullptr; }

 private:
  std::shared_ptr<CaptureState> state_;
};

}  // namespace hpu
