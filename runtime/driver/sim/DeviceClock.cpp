// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/DeviceClock.h"

#include <algorithm>
#include <queue>
#include <unordered_set>
#include <utility>

#include "base/Format.h"

namespace hpu::driver {

/// The head of a queue that could start at `ready`.
struct DeviceClock::Head {
  Picoseconds ready = 0;
  int32_t priority = 0;
  QueueId queue = 0;
  Ticket ticket = 0;
  /// For std::priority_queue, whose top is the greatest: the one that comes first.
  bool operator<(const Head& other) const {
    if (ready != other.ready) return ready > other.ready;
    if (priority != other.priority) return priority < other.priority;
    if (queue != other.queue) return queue > other.queue;
    return ticket > other.ticket;
  }
};

std::mutex& DeviceClock::domain() {
  // Never destroyed: device objects may outlive static destructors.
  static std::mutex* mutex = new std::mutex;
  return *mutex;
}

void DeviceClock::addQueue(QueueId queue, const std::string& name) {
  std::lock_guard lock(domain());
  queues_[queue].name = name;
}

void DeviceClock::closeQueue(QueueId queue) {
  std::lock_guard lock(domain());
  closed_.push_back(queue);
}

/// Under inboxMutex_.
DeviceClock::Pending& DeviceClock::append(ClockItem item, bool kept) {
  Ticket ticket = item.ticket;
  Pending& pending =
      inbox_.emplace_back(Pending{std::move(item), std::make_shared<TimeNode>(), {}});
  if (kept) nodes_.emplace(ticket, pending.node);
  if (const auto* launch = std::get_if<TimedProgram>(&pending.item.work)) {
    for (size_t i = 0; i < launch->signals.size(); ++i) {
      pending.signals.push_back(std::make_shared<TimeNode>());
      if (kept) nodes_.emplace(ticket + 1 + i, pending.signals.back());
    }
  }
  return pending;
}

void DeviceClock::submit(ClockItem item) {
  size_t waiting;
  {
    std::lock_guard lock(inboxMutex_);
    append(std::move(item), true);
    waiting = inbox_.size();
  }
  resolveWhenMany(waiting);
}

void DeviceClock::submitBatch(std::vector<ClockItem> items, const std::vector<BatchWait>& waits,
                              const std::vector<bool>& kept) {
  size_t waiting;
  {
    std::lock_guard lock(inboxMutex_);
    const size_t first = inbox_.size();
    inbox_.reserve(first + items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      if (auto* wait = std::get_if<TimedWait>(&items[i].work); wait && waits[i].item < i) {
        const Pending& source = inbox_[first + waits[i].item];
        wait->node =
            waits[i].signal < source.signals.size() ? source.signals[waits[i].signal] : source.node;
      }
      append(std::move(items[i]), kept[i]);
    }
    waiting = inbox_.size();
  }
  resolveWhenMany(waiting);
}

void DeviceClock::resolveWhenMany(size_t waiting) {
  if (waiting < kMaxUnresolved) return;
  std::lock_guard lock(domain());
  std::vector<DeviceClock*> visiting;
  resolve(visiting);
}

std::shared_ptr<const TimeNode> DeviceClock::node(Ticket ticket) {
  std::lock_guard lock(inboxMutex_);
  auto it = nodes_.find(ticket);
  return it == nodes_.end() ? nullptr : it->second;
}

void DeviceClock::forget(Ticket ticket) {
  std::lock_guard lock(inboxMutex_);
  nodes_.erase(ticket);
}

void DeviceClock::drop(const std::vector<Ticket>& tickets) {
  if (tickets.empty()) return;
  std::unordered_set<Ticket> gone(tickets.begin(), tickets.end());
  std::lock_guard lock(domain());
  takeInbox();
  for (QueueId id : active_)
    for (Pending& pending : queues_[id].items)
      if (gone.count(pending.item.ticket)) pending.item.work = TimedMarker{};
}

StatusOr<DeviceClock::Span> DeviceClock::span(Ticket ticket) {
  std::shared_ptr<const TimeNode> wanted = node(ticket);
  if (!wanted)
    return notFound(base::strCat("ticket ", ticket,
                                 " has no device time: it was never submitted, or "
                                 "was forgotten"));
  std::lock_guard lock(domain());
  std::vector<DeviceClock*> visiting;
  resolve(visiting);
  if (!wanted->resolved)
    return failedPrecondition(
        base::strCat("ticket ", ticket, " waits for another device's work that has no time yet"));
  return Span{wanted->start, wanted->end};
}

DeviceClock::Totals DeviceClock::totals() {
  std::lock_guard lock(domain());
  std::vector<DeviceClock*> visiting;
  resolve(visiting);
  return totals_;
}

DeviceClock::Totals DeviceClock::resolvedTotals() {
  std::lock_guard lock(domain());
  return totals_;
}

void DeviceClock::setObserver(Observer observer) {
  std::lock_guard lock(domain());
  observer_ = std::move(observer);
}

void DeviceClock::takeInbox() {
  std::vector<Pending> arrived;
  {
    std::lock_guard lock(inboxMutex_);
    arrived.swap(inbox_);
  }
  for (Pending& pending : arrived) {
    QueueId id = pending.item.queue;
    Queue& queue = queues_[id];
    if (queue.items.empty()) active_.push_back(id);
    queue.items.push_back(std::move(pending));
  }
}

/// Resolves what can be, asking the clocks of other devices for the times that this one waits for.
/// `visiting`: clocks whose resolve() calls this one; they go on when it returns.
void DeviceClock::resolve(std::vector<DeviceClock*>& visiting) {
  takeInbox();
  visiting.push_back(this);
  while (true) {
    resolveReady();
    // Every queue left is behind a wait for another device.
    std::vector<std::pair<std::shared_ptr<DeviceClock>, std::shared_ptr<const TimeNode>>> others;
    for (QueueId id : active_) {
      const auto* wait = std::get_if<TimedWait>(&queues_[id].items.front().item.work);
      if (wait && wait->clock && wait->node) others.emplace_back(wait->clock, wait->node);
    }
    bool progress = false;
    for (auto& [clock, node] : others) {
      bool onTheWay = std::find(visiting.begin(), visiting.end(), clock.get()) != visiting.end();
      if (!node->resolved && !onTheWay) clock->resolve(visiting);
      progress |= node->resolved;
    }
    if (!progress) break;
  }
  visiting.pop_back();
  std::erase_if(closed_, [&](QueueId id) {
    auto it = queues_.find(id);
    if (it != queues_.end() && !it->second.items.empty()) return false;
    if (it != queues_.end()) queues_.erase(it);
    return true;
  });
}

/// Resolves until the rest waits for other devices. True when something was resolved.
bool DeviceClock::resolveReady() {
  std::priority_queue<Head> heads;
  std::unordered_map<const TimeNode*, std::vector<QueueId>> waiting;
  auto consider = [&](QueueId id) {
    Queue& queue = queues_[id];
    const ClockItem& item = queue.items.front().item;
    Picoseconds ready = std::max(queue.end, item.earliest);
    if (const auto* wait = std::get_if<TimedWait>(&item.work); wait && wait->node) {
      if (!wait->node->resolved) {
        waiting[wait->node.get()].push_back(id);
        return;
      }
      ready = std::max(ready, wait->node->end);
    }
    heads.push({ready, item.priority, id, item.ticket});
  };
  for (QueueId id : active_) consider(id);
  bool any = false;
  while (!heads.empty()) {
    Head head = heads.top();
    heads.pop();
    Queue& queue = queues_[head.queue];
    Pending pending = std::move(queue.items.front());
    queue.items.pop_front();
    place(queue, pending, head.ready);
    any = true;
    if (!queue.items.empty()) consider(head.queue);
    auto release = [&](const TimeNode* node) {
      auto it = waiting.find(node);
      if (it == waiting.end()) return;
      std::vector<QueueId> released = std::move(it->second);
      waiting.erase(it);
      for (QueueId id : released) consider(id);
    };
    release(pending.node.get());
    for (const auto& signal : pending.signals) release(signal.get());
  }
  std::erase_if(active_, [&](QueueId id) { return queues_[id].items.empty(); });
  return any;
}

void DeviceClock::place(Queue& queue, Pending& pending, Picoseconds ready) {
  TimeNode& node = *pending.node;
  node.start = node.end = ready;
  LaunchPlacement placement;
  bool isLaunch = false, visible = false;
  if (const auto* transfer = std::get_if<TimedTransfer>(&pending.item.work)) {
    int resource = static_cast<int>(transfer->resource);
    node.start = engines_[resource].reserve(ready, transfer->cost.alone);
    node.end = node.start + transfer->cost.alone;
    totals_.busy[resource] += transfer->cost.alone;
    if (transfer->resource == Resource::kHostToDevice) totals_.hostToDeviceBytes += transfer->bytes;
    if (transfer->resource == Resource::kDeviceToHost) totals_.deviceToHostBytes += transfer->bytes;
    visible = true;
  } else if (const auto* launch = std::get_if<TimedProgram>(&pending.item.work)) {
    placement = placeLaunch(*launch->timeline, ready, engines_);
    node.start = placement.start;
    node.end = placement.end;
    for (int e = 0; e < kNumEngines; ++e) totals_.busy[e] += launch->timeline->busy[e];
    ++totals_.launches;
    totals_.commands += launch->timeline->commands;
    for (size_t i = 0; i < pending.signals.size(); ++i)
      pending.signals[i]->start = pending.signals[i]->end =
          launch->timeline->outputEnd(launch->signals[i], placement);
    isLaunch = visible = true;
  }
  node.resolved = true;
  for (const auto& signal : pending.signals) {
    // Work that was dropped is over at once, and so are its signals.
    if (!isLaunch) signal->start = signal->end = node.end;
    signal->resolved = true;
  }
  queue.end = node.end;
  totals_.end = std::max(totals_.end, node.end);
  if (visible && observer_)
    observer_(
        {pending.item, queue.name, ready, node.start, node.end, isLaunch ? &placement : nullptr});
}

}  // namespace hpu::driver
