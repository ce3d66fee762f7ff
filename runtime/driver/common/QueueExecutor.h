// SPDX-License-Identifier: Apache-2.0
// QueueExecutor: in-order queues of work, run concurrently by a few worker threads.
// The one thing to know: a queue that waits holds no thread, so any number of queues may wait for
// each other; `submit` only appends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/FunctionRef.h"
#include "hpu/status.h"
#include "runtime/driver/Driver.h"

namespace hpu::driver {

/// Any thread may call anything. The members mean what they mean in DriverDevice.
class QueueExecutor {
 public:
  /// What the body of a launch calls when signal i of it is done; those it does not call for are
  /// done with the launch.
  using Signal = base::FunctionRef<void(uint32_t)>;
  /// Does one piece of work (never a WaitFor, nor External) on a worker thread.
  using Body = std::function<Status(const Work& work, const std::string& label, Signal signal)>;
  /// True for a launch that is not to begin: its queue stands still until a reset drops it. Asked
  /// once for each launch, under the executor's lock.
  using Gate = std::function<bool(const Work& work)>;

  /// Ends external work: once, from any thread; later calls do nothing.
  using Complete = std::function<void(Status)>;
  /// What happens to external work. Called without locks, by a worker or a thread that waits.
  struct ExternalHooks {
    /// Its turn has come; not ok: it was not begun, and `complete` is not called.
    std::function<Status(const External& work, Ticket ticket, Complete complete)> begin;
    /// It will not have its turn.
    std::function<void(const External& work, Ticket ticket, const Status& why)> skip;
  };

  /// `deviceName` and `deviceIndex` are for errors; at most `maxWorkers` (>= 1) pieces of work run at a time. Without
  /// `external` there is no external work.
  QueueExecutor(std::string deviceName, int maxWorkers, Body body, Gate gate = {}, ExternalHooks external = {},
                int deviceIndex = -1);
  /// Waits until everything submitted is done (no longer than HPU_WAIT_TIMEOUT_MS, then drops the
  /// rest and logs it). May run on one of its own worker threads: a buffer that is released there
  /// can be the last owner of the device.
  ~QueueExecutor();
  QueueExecutor(const QueueExecutor&) = delete;
  QueueExecutor& operator=(const QueueExecutor&) = delete;

  /// Is told, without locks, when a queue has an error; nobody is of what a reset drops or interrupts. Before there is
  /// any work.
  void setFailed(std::function<void(const std::string& queue, const Status& error)> failed);

  StatusOr<QueueId> createQueue(const std::string& name);
  void destroyQueue(QueueId queue);
  /// Is called with the ticket of new work, and with the external work that is directly before it on
  /// its queue (null: something else is, or nothing that is not done).
  using Accepted = base::FunctionRef<void(Ticket, const ExternalWork* before)>;
  /// `accepted` is called before any worker can see the work, in the order of tickets; it must not
  /// call the executor. `beginNow`: the calling thread itself begins external work when nothing is
  /// before it. `earliestNs`: for extend(). When `accepted` throws std::bad_alloc, the work is not
  /// submitted. Errors: also kResourceExhausted (host memory).
  StatusOr<Ticket> submit(QueueId queue, Work work, std::shared_ptr<const void> keepAlive, std::string label,
                          Accepted accepted, bool beginNow = false, int64_t earliestNs = 0);
  /// As Stream::extend. At most one piece of work of the device is open to it: what was submitted last.
  /// `accepted` is called with the work's ticket, as in submit.
  bool extend(QueueId queue, const ExternalWork& work, int64_t earliestNs, base::FunctionRef<void(Ticket)> accepted);
  /// Nothing more is added to what is open: the calling thread, which has no locks, tells it; or a worker does.
  void seal();
  void sealSoon();
  /// One item of a batch: its queue is resolved, its WaitFor names a ticket or an earlier entry.
  struct Entry {
    QueueId queue = 0;
    Work work;
    std::shared_ptr<const void> keepAlive;
    std::string label;
    uint32_t waitItem = BatchItem::kNone, waitSignal = BatchItem::kNone;
    bool kept = false;
  };
  /// Submits all entries under one lock, or none. `accepted` gets all tickets, as in submit.
  /// Failures of all of them are errors of the queue `reportTo`.
  StatusOr<std::vector<Ticket>> submitBatch(std::vector<Entry> entries, QueueId reportTo,
                                            base::FunctionRef<void(const std::vector<Ticket>&)> accepted);
  bool done(Ticket ticket) const;
  /// The calling thread itself works on the ticket's queue when no worker does, no work of the queue has taken more
  /// than 100 ms, and the deadline is a minute away or more; or nearer, when the queue's work has taken no more than a
  /// 16th of that time of late, and what is next is no more than that was (Launch::workPs). So a wait overruns its
  /// deadline only by work that is the first of its queue to take long: over a minute, or far more than like work
  /// before it. One thread at a time lends itself to external work that is in the way.
  Status wait(Ticket ticket, int64_t deadlineMs);
  /// What threads do in wait(): not kDefault. With others than kHelp they do no work, and lend themselves to none.
  void waitBy(WaitPolicy policy);
  void whenDone(Ticket ticket, std::function<void()> callback);
  Status takeError(QueueId queue, Ticket upTo);
  Status error(QueueId queue, Ticket upTo) const;
  Status failure(Ticket ticket) const;
  /// As DriverDevice::reset; `dropping` is called with the tickets of the work that goes, before
  /// what it owns is let go.
  Status reset(int64_t deadlineMs, base::FunctionRef<void(const std::vector<Ticket>&)> dropping);
  void forget(Ticket ticket);
  struct Load {
    int64_t work = 0;  ///< Pieces that are not done.
    int64_t queues = 0;
  };
  Load load() const;
  /// As DriverDevice::workDone.
  uint64_t workDone();
  /// As DriverDevice::motion.
  DriverDevice::Motion motion();
  /// Tickets handed out so far.
  Ticket lastTicket() const;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace hpu::driver
