// SPDX-License-Identifier: Apache-2.0
// DeviceClock: gives every piece of submitted work its device time when a caller asks for one, which is called a look.
// The one thing to know: a look resolves what was submitted so far, in the order (time at which it
// can start, priority, queue, ticket), and what was resolved never changes; the host's speed plays
// no part. External work cuts the order of submission into segments; docs/launching.md, "External
// work", has the rules.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/Fifo.h"
#include "hpu/external_work.h"
#include "hpu/status.h"
#include "runtime/driver/Driver.h"
#include "runtime/driver/TicketTable.h"
#include "runtime/driver/clock/EngineTimeline.h"
#include "runtime/driver/clock/TimeNode.h"
#include "runtime/driver/clock/TimedWork.h"

namespace hpu::driver {

/// Any thread may call anything. All clocks of a process share one lock, because they wait for each
/// other.
class DeviceClock : public std::enable_shared_from_this<DeviceClock> {
 public:
  using Observer = std::function<void(const ResolvedWork&)>;

  DeviceClock() = default;

  void addQueue(QueueId queue, const std::string& name);
  /// The queue gets no more items; it is forgotten once the ones it has are resolved.
  void closeQueue(QueueId queue);
  /// Submits an item; tickets rise from call to call. Only appends: after every kMaxUnresolved items without a look (of
  /// launches of instances, some hundreds) it notes that one is due there, which catchUp() or the next look makes up
  /// for. Throws std::bad_alloc: nothing was submitted then. So does submitBatch. Returned: of external work, from when
  /// on each of its ports is its own.
  std::vector<Picoseconds> submit(ClockItem item);
  /// External work that was submitted last takes on more, which begins at its end and uses `ports`; `readyPs`: from
  /// when on each of them is its own. Nothing has happened when that throws std::bad_alloc.
  void extend(Ticket ticket, QueueId queue, const ExternalPorts& ports, std::vector<Picoseconds>& readyPs);
  /// Makes up for the looks that are due: for a thread that has the time. Cheap when there are none.
  void catchUp();
  /// Which item of a batch, before it, a TimedWait stands for; its `node` is filled in then.
  struct BatchWait {
    uint32_t item = BatchItem::kNone, signal = BatchItem::kNone;
  };
  /// Submits several items at once. waits[i] belongs to items[i]; tickets of items that are not
  /// kept[i] have no span() and node().
  void submitBatch(std::vector<ClockItem> items, const std::vector<BatchWait>& waits, const std::vector<bool>& kept);
  /// The node of a ticket that was submitted and not forgotten, else null.
  std::shared_ptr<const TimeNode> node(Ticket ticket);
  /// The same for a TimedWait of another device: what is submitted from now on is another segment.
  std::shared_ptr<const TimeNode> nodeForOther(Ticket ticket);

  /// As DriverDevice::seen.
  bool seen(Ticket ticket);

  /// The time of external work that was submitted, once; null when it was taken or dropped.
  std::shared_ptr<ExternalTime> takeExternal(Ticket ticket);
  /// When the device gets to it; resolves what was submitted before it. All that its queue waits
  /// for must be done.
  Picoseconds arrival(ExternalTime& time);
  /// It ends at `end`, and no earlier than its arrival.
  void end(ExternalTime& time, Picoseconds end, std::vector<ExternalSpan> spans);
  /// A launch has run: so often, as LaunchOutcome says it, its parts.
  void end(ExternalTime& time, std::vector<uint64_t> iterations);
  /// It is over and took no time.
  void skip(ExternalTime& time);
  void forget(Ticket ticket);
  /// Work that will not be done takes no time, unless a look has given it one.
  void drop(const std::vector<Ticket>& tickets);

  struct Span {
    Picoseconds start = 0, end = 0;
  };
  /// Resolves. Errors: kNotFound (forgotten or never submitted); kFailedPrecondition (it waits for
  /// another device's work that has no time yet).
  StatusOr<Span> span(Ticket ticket);

  struct Totals {
    Picoseconds busy[kNumResources] = {};
    Picoseconds end = 0;  ///< Latest end of anything.
    int64_t launches = 0, commands = 0, hostToDeviceBytes = 0, deviceToHostBytes = 0;
  };
  /// Resolves.
  Totals totals();
  /// Of what is resolved by now: looking would give work its times earlier than the program does.
  Totals resolvedTotals();
  /// Called under the clocks' lock for each item as it is resolved: it must be short and must not
  /// call a clock. Null removes it.
  void setObserver(Observer observer);

  static constexpr size_t kMaxUnresolved = 1 << 16;

 private:
  struct Pending {
    ClockItem item;
    std::shared_ptr<TimeNode> node;
    std::vector<std::shared_ptr<TimeNode>> signals;  ///< Of a launch.
    std::shared_ptr<ExternalTime> external;          ///< Of external work, and of a launch with an outcome.
    bool closes = false;                             ///< It is the last of its segment.
    bool look = false;                               ///< A look is due when it is the last that was submitted.
    bool held = false;     ///< It has a dependence, and takes its place only when a look needs it.
    bool allowed = false;  ///< A look does.
  };
  struct Queue {
    std::string name;
    Picoseconds end = 0;  ///< Of its last resolved item.
    base::Fifo<Pending> items;
  };
  struct Head;

  using Clocks = std::vector<DeviceClock*>;
  void advance(Ticket upTo, Clocks& visiting);
  void settle(Clocks& visiting);
  void allow(QueueId queue, Ticket upTo, Clocks& visiting);
  void takeSegment();
  void stage();
  template <typename Body>
  void visit(Clocks& visiting, const Body& body);
  void forgetClosed();
  void append(ClockItem item, bool kept, std::vector<Picoseconds>* ports = nullptr);
  Picoseconds foresee(const ClockItem& item, const std::vector<std::shared_ptr<TimeNode>>& signals,
                      std::vector<Picoseconds>* ports);
  Picoseconds foreseePorts(Picoseconds ready, const ExternalPorts& external, std::vector<Picoseconds>* readyPs);
  void takeBack() noexcept;
  static size_t weightOf(const ClockItem& item);
  std::shared_ptr<const Dependence> dependenceOf(const ClockItem& item);
  void noteLook();
  void programLooks();
  void resolveReady();
  void place(Queue& queue, Pending& pending, Picoseconds ready);
  static std::mutex& domain();

  std::atomic<bool> lookDue_{false};  ///< Some item with `look` is not resolved yet.

  std::mutex inboxMutex_;  // Guards what follows; taken after domain() when both are held.
  base::Fifo<Pending> inbox_;
  size_t sinceLook_ = 0;      ///< Items behind the last `look`, or that came since the program looked.
  bool closeStaged_ = false;  ///< What was staged last ends its segment.
  std::unordered_map<Ticket, std::shared_ptr<ExternalTime>> externals_;  ///< Not taken yet.
  struct LastDependent {
    std::shared_ptr<SeenQueue> seen = std::make_shared<SeenQueue>();
    Ticket ticket = 0;
    std::shared_ptr<const Dependence> dependence;
  };
  std::unordered_map<QueueId, LastDependent> dependents_;  ///< Of queues that had any.
  TicketTable<std::shared_ptr<TimeNode>> nodes_;
  std::unordered_map<QueueId, Picoseconds> foreseen_;   ///< End of what was submitted last.
  std::unordered_map<uint32_t, EngineTimeline> ports_;  ///< Taken in the order of submission.

  // Guarded by domain().
  base::Fifo<Pending> arrived_;             ///< Of the inbox, in stage(); else empty, for its memory.
  base::Fifo<Pending> staged_;              ///< Submitted, in order; takes no part yet.
  Ticket taken_ = 0;                        ///< The last item that takes part.
  Ticket lookAt_ = 0;                       ///< The last staged item with `look`.
  bool segmentClosed_ = false;              ///< That item ends its segment, ...
  std::shared_ptr<ExternalTime> boundary_;  ///< ... and is external work (else null).
  std::unordered_map<QueueId, Queue> queues_;
  std::vector<QueueId> active_;  ///< Queues with items.
  std::vector<QueueId> closed_;  ///< Closed and not yet forgotten.
  EngineTimeline engines_[kNumResources];
  Totals totals_;
  Observer observer_;
};

}  // namespace hpu::driver
