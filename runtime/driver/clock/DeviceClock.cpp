// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/clock/DeviceClock.h"

#include <algorithm>
#include <map>
#include <new>
#include <queue>
#include <unordered_set>
#include <utility>

#include "base/AtFork.h"
#include "base/Format.h"
#include "base/HandedOver.h"
#include "base/Spin.h"

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

namespace {

// Programs without external work pay nothing for it.
std::atomic<bool> gAnyExternal{false};

/// The program has not seen the end of what the node stands for.
bool unseen(const TimeNode& node) {
  return node.dependence && node.ticket > node.dependence->queue->upTo.load();
}

void see(SeenQueue& queue, Ticket upTo) {
  Ticket before = queue.upTo.load();
  while (before < upTo && !queue.upTo.compare_exchange_weak(before, upTo)) {
  }
}

/// The program looks at the node's time, so all it depends on is over.
void see(const TimeNode& node) {
  if (!node.dependence) return;
  see(*node.dependence->queue, node.ticket);
  for (const auto& [queue, upTo] : node.dependence->others) see(*queue, upTo);
}

}  // namespace

std::mutex& DeviceClock::domain() {
  // Never destroyed: device objects may outlive static destructors.
  static std::mutex* mutex = [] {
    base::atFork(base::ForkRank::kDeviceClocks, base::forkHandlersOf<domain>());
    return new std::mutex;
  }();
  return *mutex;
}

void DeviceClock::addQueue(QueueId queue, const std::string& name) {
  std::lock_guard lock(domain());
  queues_[queue].name = name;
}

void DeviceClock::closeQueue(QueueId queue) {
  std::lock_guard lock(domain());
  closed_.push_back(queue);
  std::lock_guard inbox(inboxMutex_);
  foreseen_.erase(queue);
}

/// Null when it depends on no external work but what the program has seen the end of. Under
/// inboxMutex_: so it is a matter of the program's calls alone.
std::shared_ptr<const Dependence> DeviceClock::dependenceOf(const ClockItem& item) {
  const bool external = std::holds_alternative<TimedExternal>(item.work);
  if (external) gAnyExternal.store(true);
  if (!gAnyExternal.load()) return nullptr;
  const auto* wait = std::get_if<TimedWait>(&item.work);
  if (wait && (!wait->node || !unseen(*wait->node))) wait = nullptr;
  auto last = dependents_.find(item.queue);
  const bool behind = last != dependents_.end() && last->second.ticket > last->second.seen->upTo;
  if (!external && !wait && !behind) return nullptr;
  if (last == dependents_.end()) last = dependents_.try_emplace(item.queue).first;
  LastDependent& queue = last->second;
  if (behind && !wait) {
    queue.ticket = item.ticket;
    return queue.dependence;
  }
  auto dependence = std::make_shared<Dependence>();
  dependence->queue = queue.seen;
  auto add = [&](const std::shared_ptr<SeenQueue>& other, Ticket upTo) {
    if (other == queue.seen || upTo <= other->upTo.load()) return;
    for (auto& entry : dependence->others)
      if (entry.first == other) {
        entry.second = std::max(entry.second, upTo);
        return;
      }
    dependence->others.emplace_back(other, upTo);
  };
  if (behind)
    for (const auto& [other, upTo] : queue.dependence->others) add(other, upTo);
  if (wait) {
    for (const auto& [other, upTo] : wait->node->dependence->others) add(other, upTo);
    add(wait->node->dependence->queue, wait->node->ticket);
  }
  queue.ticket = item.ticket;
  queue.dependence = dependence;
  return dependence;
}

/// Under inboxMutex_. When the item ends as far as the calls of the program tell: a matter of them alone, unlike
/// what is resolved by now. Ports are given out by it, because all ranks must find the same time for a transfer,
/// and the end of what is before it may depend on peers that have not come yet. A program that has seen a time submits
/// with an `earliest` that is no earlier, so that it never stays far behind.
Picoseconds DeviceClock::foresee(const ClockItem& item, const std::vector<std::shared_ptr<TimeNode>>& signals,
                                 std::vector<Picoseconds>* ports) {
  Picoseconds& end = foreseen_[item.queue];
  const Picoseconds ready = std::max(end, item.earliest);
  Picoseconds foreseen = ready;
  if (const auto* transfer = std::get_if<TimedTransfer>(&item.work)) {
    foreseen += transfer->cost.alone;
  } else if (const auto* launch = std::get_if<TimedProgram>(&item.work)) {
    LaunchPlacement alone;
    alone.offset = ready;
    alone.start = ready + launch->timeline->start;
    alone.end = foreseen = ready + launch->timeline->end;
    for (size_t i = 0; i < signals.size(); ++i)
      signals[i]->foreseen = launch->timeline->outputEnd(launch->signals[i], alone);
  } else if (const auto* wait = std::get_if<TimedWait>(&item.work)) {
    if (wait->node) foreseen = std::max(foreseen, wait->node->foreseen);
  } else if (const auto* external = std::get_if<TimedExternal>(&item.work)) {
    foreseen = foreseePorts(ready, external->ports, ports);
  }
  end = foreseen;
  return foreseen;
}

/// When external work ends as far as its ports tell, and from when on it has each.
Picoseconds DeviceClock::foreseePorts(Picoseconds ready, const ExternalPorts& external,
                                      std::vector<Picoseconds>* readyPs) {
  Picoseconds foreseen = ready + external.leastPs;
  for (const ExternalPorts::Use& use : external.uses) {
    const Picoseconds start = ports_[use.port].reserve(ready + external.startPs, use.busyPs);
    foreseen = std::max(foreseen, start + use.busyPs + external.tailPs);
    if (readyPs) readyPs->push_back(start);
  }
  return foreseen;
}

void DeviceClock::extend(Ticket ticket, QueueId queue, const ExternalPorts& ports, std::vector<Picoseconds>& readyPs) {
  readyPs.clear();
  readyPs.reserve(ports.uses.size());
  auto lock = base::lockSoon(inboxMutex_);
  Picoseconds& end = foreseen_[queue];
  end = foreseePorts(end, ports, &readyPs);
  // Nobody waits for it yet: that would have been submitted.
  if (const std::shared_ptr<TimeNode>* node = nodes_.find(ticket)) (*node)->foreseen = end;
}

/// Under inboxMutex_. Throws std::bad_alloc; the item is not there then.
void DeviceClock::append(ClockItem item, bool kept, std::vector<Picoseconds>* ports) {
  const Ticket ticket = item.ticket;
  std::shared_ptr<const Dependence> dependence = dependenceOf(item);
  auto newNode = [&] {
    auto node = base::makeHandedOver<TimeNode>();
    node->ticket = ticket;
    node->queue = item.queue;
    node->dependence = dependence;
    return node;
  };
  auto node = newNode();
  std::vector<std::shared_ptr<TimeNode>> signals;
  if (const auto* launch = std::get_if<TimedProgram>(&item.work))
    for (size_t i = 0; i < launch->signals.size(); ++i) signals.push_back(newNode());
  std::shared_ptr<ExternalTime> external;
  if (std::holds_alternative<TimedExternal>(item.work)) {
    external = std::make_shared<ExternalTime>();
    external->ticket = ticket;
    external->queue = item.queue;
  }
  node->foreseen = foresee(item, signals, ports);
  const bool closes = external != nullptr, held = dependence != nullptr;
  const Pending& pending = inbox_.push(
      Pending{std::move(item), std::move(node), std::move(signals), std::move(external), closes, false, held});
  ++sinceLook_;
  try {
    if (kept) {
      nodes_.add(ticket) = pending.node;
      for (size_t i = 0; i < pending.signals.size(); ++i) nodes_.add(ticket + 1 + i) = pending.signals[i];
    }
    if (pending.external) externals_.emplace(ticket, pending.external);
  } catch (...) {
    takeBack();
    throw;
  }
}

/// Under inboxMutex_: undoes the last append.
void DeviceClock::takeBack() noexcept {
  const Pending& last = inbox_.back();
  for (size_t i = 0; i <= last.signals.size(); ++i) nodes_.erase(last.item.ticket + i);
  externals_.erase(last.item.ticket);
  inbox_.popBack();
  --sinceLook_;
}

std::vector<Picoseconds> DeviceClock::submit(ClockItem item) {
  std::vector<Picoseconds> ports;
  auto lock = base::lockSoon(inboxMutex_);
  append(std::move(item), true, &ports);
  noteLook();
  return ports;
}

void DeviceClock::submitBatch(std::vector<ClockItem> items, const std::vector<BatchWait>& waits,
                              const std::vector<bool>& kept) {
  auto lock = base::lockSoon(inboxMutex_);
  const size_t first = inbox_.size();
  for (size_t i = 0; i < items.size(); ++i) {
    if (auto* wait = std::get_if<TimedWait>(&items[i].work); wait && waits[i].item < i) {
      const Pending& source = inbox_[first + waits[i].item];
      wait->node = waits[i].signal < source.signals.size() ? source.signals[waits[i].signal] : source.node;
    }
    try {
      append(std::move(items[i]), kept[i]);
    } catch (...) {
      while (inbox_.size() > first) takeBack();
      throw;
    }
  }
  noteLook();
}

/// Under inboxMutex_, behind what was submitted: times must not depend on when somebody gets to it.
void DeviceClock::noteLook() {
  if (sinceLook_ < kMaxUnresolved) return;
  sinceLook_ = 0;
  inbox_.back().look = true;
  lookDue_.store(true, std::memory_order_relaxed);
}

/// The next look is due kMaxUnresolved items from here. Only looks of the program move it: when a worker looks depends
/// on the host's speed, which device times must not.
void DeviceClock::programLooks() {
  auto lock = base::lockSoon(inboxMutex_);
  sinceLook_ = 0;
}

void DeviceClock::catchUp() {
  if (!lookDue_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(domain());
  try {
    Clocks visiting{this};
    advance(0, visiting);
    forgetClosed();
  } catch (const std::bad_alloc&) {
    // What was submitted stays so; the next look makes up for it.
  }
}

std::shared_ptr<const TimeNode> DeviceClock::node(Ticket ticket) {
  auto lock = base::lockSoon(inboxMutex_);
  const std::shared_ptr<TimeNode>* node = nodes_.find(ticket);
  return node ? *node : nullptr;
}

bool DeviceClock::seen(Ticket ticket) {
  auto lock = base::lockSoon(inboxMutex_);
  const std::shared_ptr<TimeNode>* node = nodes_.find(ticket);
  return node && (*node)->dependence && !unseen(**node);
}

std::shared_ptr<const TimeNode> DeviceClock::nodeForOther(Ticket ticket) {
  auto lock = base::lockSoon(inboxMutex_);
  const std::shared_ptr<TimeNode>* node = nodes_.find(ticket);
  if (!node) return nullptr;
  if (inbox_.empty())
    closeStaged_ = true;
  else
    inbox_.back().closes = true;
  return *node;
}

std::shared_ptr<ExternalTime> DeviceClock::takeExternal(Ticket ticket) {
  auto lock = base::lockSoon(inboxMutex_);
  auto it = externals_.find(ticket);
  if (it == externals_.end()) return nullptr;
  std::shared_ptr<ExternalTime> time = std::move(it->second);
  externals_.erase(it);
  return time;
}

Picoseconds DeviceClock::arrival(ExternalTime& time) {
  std::lock_guard lock(domain());
  Clocks visiting{this};
  if (!time.arrived) advance(time.ticket, visiting);
  if (!time.arrived) {
    allow(time.queue, time.ticket - 1, visiting);
    settle(visiting);
  }
  forgetClosed();
  if (time.arrived) return time.arrival;
  // Clocks that wait for each other in a circle: the queue has come this far.
  auto it = queues_.find(time.queue);
  return it == queues_.end() ? 0 : it->second.end;
}

void DeviceClock::end(ExternalTime& time, Picoseconds end, std::vector<ExternalSpan> spans) {
  std::lock_guard lock(domain());
  time.ended = true;
  time.end = end;
  time.spans = std::move(spans);
}

void DeviceClock::skip(ExternalTime& time) {
  std::lock_guard lock(domain());
  time.ended = time.skipped = true;
}

void DeviceClock::forget(Ticket ticket) {
  auto lock = base::lockSoon(inboxMutex_);
  nodes_.erase(ticket);
}

void DeviceClock::drop(const std::vector<Ticket>& tickets) {
  if (tickets.empty()) return;
  std::unordered_set<Ticket> gone(tickets.begin(), tickets.end());
  std::lock_guard lock(domain());
  stage();
  auto dropIn = [&](std::deque<Pending>& items) {
    for (Pending& pending : items) {
      if (!gone.count(pending.item.ticket)) continue;
      pending.item.work = TimedMarker{};
      pending.external.reset();
    }
  };
  dropIn(staged_);
  for (QueueId id : active_) dropIn(queues_[id].items);
  std::lock_guard inbox(inboxMutex_);
  for (Ticket ticket : tickets) externals_.erase(ticket);
  // Nothing of what was to come comes: what is submitted now has the device to itself.
  foreseen_.clear();
  ports_.clear();
}

StatusOr<DeviceClock::Span> DeviceClock::span(Ticket ticket) {
  std::shared_ptr<const TimeNode> wanted = node(ticket);
  if (!wanted)
    return notFound(base::strCat("ticket ", ticket,
                                 " has no device time: it was never submitted, or "
                                 "was forgotten"));
  programLooks();
  std::lock_guard lock(domain());
  see(*wanted);
  Clocks visiting{this};
  advance(wanted->ticket, visiting);
  if (!wanted->resolved) allow(wanted->queue, wanted->ticket, visiting);
  settle(visiting);
  forgetClosed();
  if (!wanted->resolved)
    return failedPrecondition(base::strCat(
        "ticket ", ticket, " has no time yet: it waits for another device's work, or for external work, without one"));
  return Span{wanted->start, wanted->end};
}

DeviceClock::Totals DeviceClock::totals() {
  programLooks();
  std::lock_guard lock(domain());
  Clocks visiting{this};
  advance(UINT64_MAX, visiting);
  for (QueueId id : active_)
    for (Pending& pending : queues_[id].items) pending.allowed = true;
  settle(visiting);
  forgetClosed();
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

// ---- Segments
// -----------------------------------------------------------------------------------------

/// Fetches what was submitted.
void DeviceClock::stage() {
  base::Fifo<Pending> arrived;
  {
    auto lock = base::lockSoon(inboxMutex_);
    std::swap(arrived, inbox_);
    lookDue_.store(false, std::memory_order_relaxed);
    if (std::exchange(closeStaged_, false)) {
      if (staged_.empty())
        segmentClosed_ = true;
      else
        staged_.back().closes = true;
    }
  }
  arrived.forEach([&](Pending& pending) {
    if (pending.look) lookAt_ = pending.item.ticket;
    staged_.push_back(std::move(pending));
  });
}

/// The rest of the segment that is not closed, or the next one, takes part from now on; no more of it than up to the
/// next look that is due.
void DeviceClock::takeSegment() {
  boundary_ = nullptr;
  segmentClosed_ = false;
  bool looked = false;
  while (!staged_.empty() && !segmentClosed_ && !looked) {
    Pending pending = std::move(staged_.front());
    staged_.pop_front();
    taken_ = pending.item.ticket;
    segmentClosed_ = pending.closes;
    looked = pending.look;
    if (pending.closes) boundary_ = pending.external;
    QueueId id = pending.item.queue;
    Queue& queue = queues_[id];
    if (queue.items.empty()) active_.push_back(id);
    queue.items.push_back(std::move(pending));
  }
}

/// Resolves, segment by segment, up to the one with `upTo` and to all looks that are due. `visiting`: this clock, and
/// those that asked it and go on when it returns.
void DeviceClock::advance(Ticket upTo, Clocks& visiting) {
  stage();
  // As when somebody had looked there: all that was submitted by then takes part, and what came later does not yet.
  const auto wanted = [&] { return taken_ < lookAt_ || (upTo > 0 && (!segmentClosed_ || taken_ < upTo)); };
  while (!staged_.empty() && wanted()) {
    // What the end of the segment before depends on comes before everything that follows.
    if (boundary_ && !boundary_->arrived) {
      allow(boundary_->queue, boundary_->ticket - 1, visiting);
      settle(visiting);
    }
    takeSegment();
    settle(visiting);
  }
}

/// What the queue's items up to `upTo` are and depend on may take its place.
void DeviceClock::allow(QueueId queue, Ticket upTo, Clocks& visiting) {
  struct Point {
    DeviceClock* clock;
    QueueId queue;
    Ticket upTo;
  };
  std::vector<Point> todo{{this, queue, upTo}};
  std::map<std::pair<DeviceClock*, QueueId>, Ticket> reached;
  while (!todo.empty()) {
    const Point point = todo.back();
    todo.pop_back();
    Ticket& seen = reached[{point.clock, point.queue}];
    auto it = point.clock->queues_.find(point.queue);
    if (point.upTo <= seen || it == point.clock->queues_.end()) continue;
    std::vector<std::pair<std::shared_ptr<DeviceClock>, std::shared_ptr<const TimeNode>>> others;
    for (Pending& pending : it->second.items) {
      if (pending.item.ticket > point.upTo) break;
      if (pending.item.ticket <= seen) continue;
      pending.allowed = true;
      const auto* wait = std::get_if<TimedWait>(&pending.item.work);
      if (!wait || !wait->node || wait->node->resolved) continue;
      if (wait->clock)
        others.emplace_back(wait->clock, wait->node);
      else
        todo.push_back({point.clock, wait->node->queue, wait->node->ticket});
    }
    seen = point.upTo;
    for (const auto& [clock, node] : others) {
      clock->visit(visiting, [&] { clock->advance(node->ticket, visiting); });
      todo.push_back({clock.get(), node->queue, node->ticket});
    }
  }
}

/// Runs `body`, which resolves, unless that goes on already.
template <typename Body>
void DeviceClock::visit(Clocks& visiting, const Body& body) {
  if (std::find(visiting.begin(), visiting.end(), this) != visiting.end()) return;
  visiting.push_back(this);
  body();
  visiting.pop_back();
}

/// Resolves what can be of what takes part, asking the clocks of other devices for the times that
/// this one waits for.
void DeviceClock::settle(Clocks& visiting) {
  while (true) {
    resolveReady();
    // Every queue left is behind a wait for another device, external work, or what is held.
    std::vector<std::pair<std::shared_ptr<DeviceClock>, std::shared_ptr<const TimeNode>>> others;
    for (QueueId id : active_) {
      const Pending& head = queues_[id].items.front();
      if (head.held && !head.allowed) continue;
      const auto* wait = std::get_if<TimedWait>(&head.item.work);
      if (wait && wait->clock && wait->node) others.emplace_back(wait->clock, wait->node);
    }
    bool progress = false;
    for (auto& [clock, node] : others) {
      clock->visit(visiting, [&, &clock = clock, &node = node] {
        if (!node->resolved) clock->advance(node->ticket, visiting);
        if (!node->resolved) clock->settle(visiting);
        clock->forgetClosed();
      });
      progress |= node->resolved;
    }
    if (!progress) break;
  }
}

void DeviceClock::forgetClosed() {
  std::erase_if(closed_, [&](QueueId id) {
    auto it = queues_.find(id);
    if (it != queues_.end() && !it->second.items.empty()) return false;
    for (const Pending& pending : staged_)
      if (pending.item.queue == id) return false;
    if (it != queues_.end()) queues_.erase(it);
    std::lock_guard inbox(inboxMutex_);
    dependents_.erase(id);
    return true;
  });
}

/// Resolves until the rest waits for other devices or external work.
void DeviceClock::resolveReady() {
  std::priority_queue<Head> heads;
  std::unordered_map<const TimeNode*, std::vector<QueueId>> waiting;
  auto consider = [&](QueueId id) {
    Queue& queue = queues_[id];
    const Pending& first = queue.items.front();
    const ClockItem& item = first.item;
    Picoseconds ready = std::max(queue.end, item.earliest);
    if (ExternalTime* external = first.external.get()) {
      if (!std::exchange(external->arrived, true)) external->arrival = ready;
      if (!external->ended) return;
    }
    if (first.held && !first.allowed) return;
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
  while (!heads.empty()) {
    Head head = heads.top();
    heads.pop();
    Queue& queue = queues_[head.queue];
    Pending pending = std::move(queue.items.front());
    queue.items.pop_front();
    place(queue, pending, head.ready);
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
      pending.signals[i]->start = pending.signals[i]->end = launch->timeline->outputEnd(launch->signals[i], placement);
    isLaunch = visible = true;
  } else if (const ExternalTime* external = pending.external.get()) {
    node.end = std::max(ready, external->end);
    totals_.busy[static_cast<int>(Resource::kNic)] += node.end - node.start;
    visible = !external->skipped;
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
    observer_({pending.item, queue.name, ready, node.start, node.end, isLaunch ? &placement : nullptr,
               pending.external.get()});
}

}  // namespace hpu::driver
