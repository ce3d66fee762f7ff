// SPDX-License-Identifier: Apache-2.0
// ExternalWork: a piece of a stream's work that something other than the device does: a collective,
// a transfer over a network, a function of the host. The one thing to know: the stream stands still
// while it is in progress, but no thread of the runtime does; it may take as long as it likes and
// ends when `ExternalTurn::complete` is called.
//
//   struct Callback : hpu::ExternalWork {
//     void start(std::shared_ptr<hpu::ExternalTurn> turn) override {
//       turn->complete(hpu::okStatus(), turn->arrivalPs());
//     }
//     ...
//   };
//   HPU_RETURN_IF_ERROR(stream.enqueue(std::make_shared<Callback>()));
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/status.h"

namespace hpu {

/// One span of what external work occupied in device time, for counters and traces.
struct ExternalSpan {
  std::string name;  ///< "recv from 3".
  int64_t startPs = 0, endPs = 0;
};

/// What external work takes of the ports of its device, as far as that can be said when it is enqueued.
/// Ports are numbered by who uses them; a device's clock hands each out in the order of submission.
struct ExternalPorts {
  struct Use {
    uint32_t port = 0;
    int64_t busyPs = 0;
  };
  std::vector<Use> uses;
  int64_t startPs = 0;  ///< From the work's arrival to the first use.
  int64_t tailPs = 0;   ///< From the end of a port's use to the work's end, at least.
  int64_t leastPs = 0;  ///< From the work's arrival to its end, at least.
};

/// What external work is given when its turn has come. Any thread may call.
class HPU_API ExternalTurn {
 public:
  virtual ~ExternalTurn();
  /// The device time, in picoseconds, at which the stream reached the work: by everything that was
  /// enqueued on the device before it, and nothing that came later.
  virtual int64_t arrivalPs() = 0;
  /// Ends the work, once; later calls do nothing. It took the device's network from arrivalPs() to
  /// `endPs` (an earlier one counts as the arrival). A failure becomes the stream's error. `spans`:
  /// details for traces. Call it without locks: it lets go of what the stream kept alive, which may
  /// be the device, and may start what is next. A turn that is let go without it ends with
  /// kInternal.
  virtual void complete(Status status, int64_t endPs, std::vector<ExternalSpan> spans = {}) = 0;
};

/// What these functions throw is an error of Stream::enqueue while it asks (name, ports, extendable, startsInEnqueue),
/// and the failure of the work from start(), unless it is complete; what the others throw is logged, and the work goes
/// on.
class HPU_API ExternalWork {
 public:
  virtual ~ExternalWork();
  /// What it is, for errors and traces: "all-reduce".
  virtual std::string name() const = 0;
  /// Called while it is enqueued, unless nothing is before it: `before` is directly before it on the
  /// stream, nothing of the program's lies between. When its turn comes, `before` has ended well, and
  /// its arrival is the later of that end and `earliestPs`: work that belongs to the same thing may
  /// begin what needs no more than that. Under locks of the runtime: must remember it, and no more.
  virtual void behind(const ExternalWork& before, int64_t earliestPs);
  /// Everything before it on the stream is done. Called once: on a thread of the runtime, one that
  /// waits for the stream, or one that completes external work before it. Must not wait for
  /// anything (in all functions here waits for work of a device are refused, kFailedPrecondition); may call complete(),
  /// which takes effect on return.
  virtual void start(std::shared_ptr<ExternalTurn> turn) = 0;
  /// Whether start() may be called by Stream::enqueue itself, when nothing is before the work on the
  /// stream: saves waking a thread. Under locks of the runtime then, so start() must keep the turn
  /// and no more; skipped() and cancel() are never called so.
  virtual bool startsInEnqueue() const;
  /// Called instead of start() when the work will never have its turn: the stream has failed, or
  /// the device was reset or closed. `why` is never ok.
  virtual void skipped(const Status& why) = 0;
  /// After start(): the device is being reset. complete() must follow soon, with `why` or a better
  /// reason.
  virtual void cancel(const Status& why) = 0;
  /// After start(): a thread of the host waits for this work and lends itself, at the latest until
  /// `until`; one at a time. Returns when the work is complete; may return earlier, and the runtime
  /// then lets the thread sleep until the work is complete.
  virtual void help(std::chrono::steady_clock::time_point until);
  /// Whether Stream::extend may add more of the same to it after it was enqueued. Such work is not complete before it
  /// was sealed. Asked when it is enqueued.
  virtual bool extendable() const;
  /// Of extendable work: one more is added (its ports are Stream::extend's), or (false) none can be, because it has
  /// failed. Under locks of the runtime: must count it, and no more.
  virtual bool extended();
  /// Of extendable work that is not over yet, once: nothing more will be added, because something else was enqueued on
  /// the device, or somebody waits for the work or asks about it. It must then be complete as soon as what was added is
  /// done; may call complete(). Without locks, by the thread that waits or enqueues, or by one of the runtime.
  virtual void sealed();
  /// A number that changes as long as the work advances: a wait for it goes on past its deadline
  /// then. 0 for work that does not tell. Any thread, also during start().
  virtual uint64_t progress() const;
  /// Asked once, when it is enqueued.
  virtual ExternalPorts ports() const;
  /// The answer, before behind() and start(): by `uses`, from when on the port is the work's, by what was
  /// enqueued on the device before it. It follows from the program's calls alone; an arrival that is later than
  /// could be foreseen counts as well. Under locks of the runtime: must remember it, and no more.
  virtual void portsReserved(std::vector<int64_t> readyPs);
};

/// Memory that repeatable work uses: addresses on the device.
struct WorkMemory {
  uint64_t address = 0;
  int64_t bytes = 0;
};

class Stream;

/// Work that is enqueued any number of times: what a capture keeps of a collective, a host function, or external work
/// of the program (Stream::enqueueRepeatable). Calls of one object come one after another. What they throw is an error
/// of enqueueRepeatable, and of the capture then, or of the replay.
class HPU_API RepeatableWork {
 public:
  virtual ~RepeatableWork();
  /// What it is, for errors, traces and CapturedGraph::describe.
  virtual std::string name() const = 0;
  /// Once for each capture that it is in: what can be found wrong with it beforehand. The capture fails with an error.
  virtual Status prepare(const Stream& stream);
  /// Enqueues it. `memory` is what memory() gave, with the addresses that GraphInstance::rebind has put in place.
  virtual Status enqueue(const Stream& stream, const std::vector<WorkMemory>& memory) = 0;
  /// What a graph keeps allocated as long as it may be replayed, and may rebind. Asked once.
  virtual std::vector<WorkMemory> memory() const;
};

}  // namespace hpu
