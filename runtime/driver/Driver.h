// SPDX-License-Identifier: Apache-2.0
// The interface between the runtime and whatever executes: the simulated HPU, the null device, or a
// driver for silicon.
// The one thing to know: `submit` never blocks on execution; work of one queue runs in order,
// queues run concurrently, and a ticket is the only way to learn about the end, the failure and the
// device time of work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/HandedOver.h"
#include "hpu/device.h"
#include "hpu/external_work.h"
#include "hpu/memory.h"
#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::driver {

using QueueId = uint32_t;
/// Work items are numbered by the driver device, from 1, in the order of submission.
using Ticket = uint64_t;
using DeviceAddress = uint64_t;
using ProgramId = uint64_t;

struct CopyToDevice {
  DeviceAddress dst = 0;
  const void* src = nullptr;  ///< Valid until the ticket is done.
  int64_t bytes = 0;
};
struct CopyToHost {
  void* dst = nullptr;
  DeviceAddress src = 0;
  int64_t bytes = 0;
};
struct CopyOnDevice {
  DeviceAddress dst = 0, src = 0;
  int64_t bytes = 0;
};
/// Copies between the host and the device, or within the device, as one piece of work; the sides
/// that are host memory are pointers as numbers, valid until the ticket is done.
struct CopyMany {
  CopyDirection direction = CopyDirection::kToDevice;
  std::vector<CopyRange> ranges;
};
/// Repeats the low `elementBytes` (1, 2 or 4) bytes of `value`, the least significant first;
/// `bytes` is a multiple of them.
struct Fill {
  DeviceAddress dst = 0;
  uint32_t value = 0;
  int64_t bytes = 0;
  int32_t elementBytes = 1;
};
/// Of a launch, by section.
using Addresses = base::HandedOverVector<DeviceAddress>;
/// What work keeps alive until it is done.
using Owners = base::HandedOverVector<std::shared_ptr<const void>>;

/// How often the parts of a program have run whose iterations data decides: in the order in which they began, those of
/// parts of parts behind the count of what they are a part of.
struct LaunchOutcome {
  virtual ~LaunchOutcome() = default;
  std::vector<uint64_t> iterations;
};

/// Runs a loaded program. `sections[i]` is the device address of program section i (0 for SRAM); of an input or output
/// it may be one of host memory (HostWindow.h), as those of CopyOnDevice and Fill may.
/// signals[i] is an output of the program whose last write has a ticket of its own: the launch's
/// plus 1 + i. It is done no later than the launch.
struct Launch {
  ProgramId program = 0;
  Addresses sections;
  std::vector<uint32_t> signals;
  /// What the engines do for it, in device time without starts and waits; the driver fills it in. Says whether the host
  /// has as much to do as for another launch.
  int64_t workPs = 0;
  /// Where to say how often parts ran, when data decides that and device time depends on it; else null. The driver
  /// fills it in, and keeps it until the work is done.
  LaunchOutcome* outcome = nullptr;
};
class DriverDevice;
/// Holds the queue until `ticket` is done: one of any queue of this device, or of `other`. Device
/// time is ordered as well when both devices share a clock (simulated and null devices of a process
/// do). It fails as the ticket did, unless that is forgotten by then.
struct WaitFor {
  Ticket ticket = 0;
  std::shared_ptr<DriverDevice> other;  ///< Null: this device.
  bool onlyOrder = false;               ///< The ticket's failure is none of this.
};
/// Does nothing, but has a device time: what an event records.
struct Marker {};
/// Takes no time and fails with `status`: what was found wrong with work that is not to be refused
/// at its call.
struct Fault {
  Status status;
};

/// Something that the device does not do itself (hpu/external_work.h). The queue stands still until
/// it is complete, without a thread. Its device time is the one that it says.
struct External {
  std::shared_ptr<ExternalWork> work;
  bool isReport =
      false;  ///< It tells of the work before it, as a Marker does: skipped() gets that work's failure itself.
};

using Work =
    std::variant<CopyToDevice, CopyToHost, CopyOnDevice, Fill, Launch, WaitFor, Marker, CopyMany, Fault, External>;

/// "copy to device", "launch" ...: for errors and traces.
inline std::string_view workName(const Work& work) {
  static constexpr std::string_view kNames[] = {"copy to device", "copy to host", "copy on device", "fill",
                                                "launch",         "wait",         "marker",         "copies",
                                                "memory check",   "external work"};
  return kNames[work.index()];
}

struct SubmitOptions {
  int64_t earliestStartNs = 0;  ///< Device time that the submitting host thread has observed.
  int32_t priority = 0;
  std::shared_ptr<const void> keepAlive;  ///< Released when the work is done, just before `done` says so.
  std::string label;                      ///< For traces and errors.
};

/// One of several pieces of work that are submitted together.
struct BatchItem {
  static constexpr uint32_t kNone = UINT32_MAX;
  QueueId queue = 0;  ///< 0: BatchOptions::queue, with its priority.
  int32_t priority = 0;
  Work work;
  std::string label;
  /// Of a WaitFor, instead of its ticket: an item before it in the batch.
  uint32_t waitItem = kNone;
  uint32_t waitSignal = kNone;  ///< With waitItem: one of the launch's signals, not its end.
  bool kept = false;            ///< Its ticket is asked about; else it is forgotten at once.
};
struct BatchOptions {
  QueueId queue = 0;  ///< Also takes the failures of all items.
  int32_t priority = 0;
  int64_t earliestStartNs = 0;            ///< Of all items; see SubmitOptions.
  std::shared_ptr<const void> keepAlive;  ///< Released when the last item is done.
};

/// An open device. Any thread may call anything.
class DriverDevice {
 public:
  virtual ~DriverDevice() = default;
  virtual const DeviceInfo& info() const = 0;

  /// The device addresses that the runtime's allocator hands out: [base, base + bytes).
  struct MemoryRange {
    DeviceAddress base = 0;
    int64_t bytes = 0;
  };
  virtual MemoryRange memory() const = 0;
  /// Tells the driver that a range holds nothing of value any more (the simulator punches a hole).
  virtual Status discard(DeviceAddress address, int64_t bytes) = 0;
  /// Makes the bytes of a range zero, and no others. Takes no memory of the host for what was never written, and gives
  /// whole pages of a large range back. The caller orders it with work that uses the range. Errors: kOutOfRange.
  virtual Status clear(DeviceAddress address, int64_t bytes) = 0;
  /// Overwrites what was written in a range that nobody uses, with bytes that are NaN to most
  /// formats: a reader that is late notices (the memory checker).
  virtual Status poison(DeviceAddress address, int64_t bytes) { return okStatus(); }

  /// The file that holds the memory from memory().base on; it stays the device's. -1: there is none.
  virtual int memoryFile() const { return -1; }
  /// As Buffer::hostView, of a range of the device's memory; what the host writes there has memory of its own then.
  virtual StatusOr<void*> hostView(DeviceAddress address, int64_t bytes) {
    (void)address;
    (void)bytes;
    return unimplemented("the memory of devices of the driver '" + info().driver +
                         "' is not in reach of the host; copy it (Stream::copyToHost, Stream::copyToDevice)");
  }
  /// As Device::checkWrite, of a range of the device's memory.
  virtual Status checkWrite(DeviceAddress address, int64_t bytes) const {
    (void)address;
    (void)bytes;
    return okStatus();
  }

  /// Prepares a verified program for launches (maps its kernel image, sizes scratch).
  virtual StatusOr<ProgramId> loadProgram(std::shared_ptr<const recipe::Program> program) = 0;
  /// The same for a program with the kernel images and the very constants of `like`, which is loaded: what is made of
  /// these on the host is there once. What else the host prepares may be left to the first launch, which then fails
  /// with what is wrong with it. `sizes`, "batch = 2, seq = 17", are those that the program is for; traces tell them.
  /// kNotFound: there is no program `like`.
  virtual StatusOr<ProgramId> loadInstance(std::shared_ptr<const recipe::Program> program, ProgramId like,
                                           std::string sizes) {
    (void)like;
    (void)sizes;
    return loadProgram(std::move(program));
  }
  virtual void unloadProgram(ProgramId id) = 0;

  virtual StatusOr<QueueId> createQueue(const std::string& name) = 0;
  /// The queue takes no more work, and is forgotten once what it holds is done. Does not block.
  virtual void destroyQueue(QueueId queue) = 0;
  /// Errors: kNotFound (no such queue or program), kOutOfRange (an address outside of memory() and the host window),
  /// kInvalidArgument. Work that fails later: see takeError.
  virtual StatusOr<Ticket> submit(QueueId queue, Work work, SubmitOptions options) = 0;

  /// As Stream::extend; `earliestStartNs` must be that of the work's submission.
  virtual bool extend(QueueId queue, const ExternalWork& work, int64_t earliestStartNs, const ExternalPorts& ports,
                      std::vector<int64_t>& readyPs) {
    (void)queue;
    (void)work;
    (void)earliestStartNs;
    (void)ports;
    (void)readyPs;
    return false;
  }
  /// Nothing more is added to what was submitted. submit does that too, but has locks of its caller: then another
  /// thread tells the work. Call it without locks.
  virtual void seal() {}

  /// Submits the items in their order as if at one moment: nothing else comes between them on any
  /// queue. Returns their tickets. Errors: as submit, naming the item; then nothing is submitted.
  virtual StatusOr<std::vector<Ticket>> submitBatch(const std::vector<BatchItem>& items, BatchOptions options) = 0;

  /// True when done (or failed).
  virtual bool done(Ticket ticket) = 0;
  /// Waits for a ticket; deadlineMs < 0: HPU_WAIT_TIMEOUT_MS. Meanwhile the thread may do work of
  /// the device, and helps external work that is in the ticket's way; past its deadline it waits on
  /// as long as that advances. Errors: kDeadlineExceeded; the failure of the work (as long as the
  /// ticket is not forgotten).
  virtual Status wait(Ticket ticket, int64_t deadlineMs) = 0;
  /// Calls `callback` once when the ticket is done: now on this thread, or later on a driver's
  /// thread (then it must be short and must not submit to or wait for the device). Others may see
  /// that the ticket is done before; work behind it in its queue follows the callback.
  virtual void whenDone(Ticket ticket, std::function<void()> callback) = 0;
  /// The first failure among the queue's work up to `upTo` that was not taken yet; ok when there is
  /// none. Copies, fills, launches and external work that are enqueued behind a failure before it
  /// is taken are not run (kAborted for who waits for their tickets); waits and markers are, and
  /// markers and signals of launches fail with it.
  virtual Status takeError(QueueId queue, Ticket upTo) = 0;
  /// The same, and nothing is taken.
  virtual Status error(QueueId queue, Ticket upTo) = 0;
  /// What the ticket failed with, as wait() says it; ok when it is not done, or is forgotten.
  virtual Status failure(Ticket ticket) = 0;
  /// Makes the device usable again: drops work that is queued (kCancelled for who waits for it),
  /// interrupts what runs, cancels external work, and forgets the errors of all queues. Memory,
  /// programs and queues stay. deadlineMs < 0: HPU_WAIT_TIMEOUT_MS. Errors: kDeadlineExceeded (the
  /// work that does not end is named).
  virtual Status reset(int64_t deadlineMs) = 0;
  /// Promises that the ticket's failure and device time are not asked for and that no later WaitFor
  /// names it; the driver drops what it keeps about it. The work itself goes on.
  virtual void forget(Ticket ticket) = 0;

  struct DeviceSpan {
    int64_t startNs = 0, endNs = 0;
  };
  /// The device time of work; resolves the device clock over everything submitted so far. Errors:
  /// kFailedPrecondition (not done yet), kNotFound (forgotten or never submitted).
  virtual StatusOr<DeviceSpan> deviceSpan(Ticket ticket) = 0;

  /// Of external work: whether the program has asked for its device time, or for that of something which came after it;
  /// a matter of the program's calls alone. False when that is not known.
  virtual bool seen(Ticket ticket) const {
    (void)ticket;
    return false;
  }

  virtual DeviceCounters counters() = 0;
  /// Changes when work is finished, and with each call while some runs (external work does not
  /// count as running). Without locks.
  virtual uint64_t workDone() = 0;
  /// Whether what is enqueued goes on, for who considers waiting for it.
  struct Motion {
    bool running = true;  ///< Some of it runs, or is next; else all of it stands behind external work or a wait.
    uint64_t steps = 0;   ///< Changes when external work that is in the way advances, or another device does.
  };
  virtual Motion motion() { return {}; }
  /// Who is told of failures, without locks and on the thread that found out: of a queue's work, with its error (the
  /// queue's name), and of the host's memory. Before there is any work.
  using HealthSink = std::function<void(HealthEvent::Kind kind, const std::string& queue, const Status&)>;
  virtual void setHealthSink(HealthSink sink) { (void)sink; }
  /// Where the device learns what of its memory is allocated, for those who ask about the node;
  /// null takes it away. No call of the previous source runs on return.
  virtual void setMemorySource(std::function<MemoryInfo()> source) {}
};

/// A kind of device, registered by name.
struct DriverEntry {
  std::string name;
  std::function<StatusOr<std::shared_ptr<DriverDevice>>(const DeviceOptions&)> open;
  /// Its devices are the node's: each has one owner process (runtime/node/Ownership.h).
  bool owned = false;
};
/// "sim" first, which is the default, then "null".
const std::vector<DriverEntry>& registeredDrivers();

}  // namespace hpu::driver
