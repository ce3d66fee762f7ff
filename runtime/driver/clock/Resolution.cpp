// SPDX-License-Identifier: Apache-2.0
// How the clock resolves work: under the clocks' lock, segment by segment in the order of submission, and within a
// segment in the order (time at which it can start, priority, queue, ticket). A time that was given is never changed.
#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include "base/Spin.h"
#include "runtime/driver/WorkVisitor.h"
#include "runtime/driver/clock/DeviceClock.h"

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

/// Fetches what was submitted.
void DeviceClock::stage() {
  {
    auto lock = base::lockSoon(inboxMutex_);
    arrived_.swap(inbox_);
    lookDue_.store(false, std::memory_order_relaxed);
    if (std::exchange(closeStaged_, false)) {
      if (staged_.empty())
        segmentClosed_ = true;
      else
        staged_.back().closes = true;
    }
  }
  try {
    arrived_.forEach([&](Pending& pending) {
      if (pending.look) lookAt_ = pending.item.ticket;
      staged_.push(std::move(pending));
    });
  } catch (...) {
    arrived_.clear();  // It is empty before it becomes the inbox.
    throw;
  }
  arrived_.clear();
}

/// The rest of the segment that is not closed, or the next one, takes part from now on; no more of it than up to the
/// next look that is due.
void DeviceClock::takeSegment() {
  boundary_ = nullptr;
  segmentClosed_ = false;
  bool looked = false;
  while (!staged_.empty() && !segmentClosed_ && !looked) {
    Pending pending = std::move(staged_.front());
    staged_.popFront();
    taken_ = pending.item.ticket;
    segmentClosed_ = pending.closes;
    looked = pending.look;
    if (pending.closes) boundary_ = pending.external;
    QueueId id = pending.item.queue;
    Queue& queue = queues_[id];
    if (queue.items.empty()) active_.push_back(id);
    queue.items.push(std::move(pending));
  }
}

/// Resolves, segment by segment, up to the one with `upTo` and to all looks that are due. `visiting`: this clock, and
/// those that asked it and go on when it returns.
void DeviceClock::advance(Ticket upTo, Clocks& visiting) {
  stage();
  // As if a look had come there: all that was submitted by then takes part, and what came later does not yet.
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
    base::Fifo<Pending>& items = it->second.items;
    for (size_t i = 0; i < items.size(); ++i) {
      Pending& pending = items[i];
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
    queue.items.popFront();
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
  bool isLaunch = false, hasParts = false, visible = false;
  const LinkUse* link = nullptr;
  Picoseconds readStart = 0, writeStart = 0;
  // One direction of the host link from `from` on; returns when it begins there.
  auto cross = [&](Resource direction, const perfmodel::Cost& cost, int64_t bytes, Picoseconds from) {
    const int resource = static_cast<int>(direction);
    totals_.busy[resource] += cost.alone;
    (direction == Resource::kHostToDevice ? totals_.hostToDeviceBytes : totals_.deviceToHostBytes) += bytes;
    return engines_[resource].reserve(from, cost.alone);
  };
  auto linkReads = [&](Picoseconds from) {
    if (!link || link->readBytes == 0) return from;
    readStart = cross(Resource::kHostToDevice, link->read, link->readBytes, from);
    return readStart + link->read.alone;
  };
  // `node` is the work without the link.
  auto linkWrites = [&] {
    if (link && link->readBytes > 0) node.start = readStart;
    if (!link || link->writtenBytes == 0) return;
    writeStart = cross(Resource::kDeviceToHost, link->written, link->writtenBytes, node.end);
    node.end = writeStart + link->written.alone;
  };
  visitWork(
      pending.item.work,
      [&](const TimedTransfer& transfer) {
        link = transfer.link.get();
        int resource = static_cast<int>(transfer.resource);
        node.start = engines_[resource].reserve(linkReads(ready), transfer.cost.alone);
        node.end = node.start + transfer.cost.alone;
        totals_.busy[resource] += transfer.cost.alone;
        if (transfer.resource == Resource::kHostToDevice) totals_.hostToDeviceBytes += transfer.bytes;
        if (transfer.resource == Resource::kDeviceToHost) totals_.deviceToHostBytes += transfer.bytes;
        linkWrites();
        visible = true;
      },
      [&](const TimedProgram& launch) {
        if (pending.external && pending.external->skipped) return;
        link = launch.link.get();
        hasParts = !launch.timeline->parts.empty();
        if (hasParts) {
          PartsPlacement parts =
              placeParts(*launch.timeline, linkReads(ready), engines_,
                         pending.external ? &pending.external->iterations : nullptr, [&](const PartRun& run) {
                           if (observer_)
                             observer_({pending.item, queue.name, run.ready, run.start, run.end, run.placement, &run});
                         });
          placement = std::move(parts.whole);
          for (int e = 0; e < kNumEngines; ++e) totals_.busy[e] += parts.busy[e];
          totals_.commands += parts.commands;
        } else {
          placement = placeLaunch(*launch.timeline, linkReads(ready), engines_);
          for (int e = 0; e < kNumEngines; ++e) totals_.busy[e] += launch.timeline->busy[e];
          totals_.commands += launch.timeline->commands;
        }
        node.start = placement.start;
        node.end = placement.end;
        linkWrites();
        ++totals_.launches;
        for (size_t i = 0; i < pending.signals.size(); ++i)
          pending.signals[i]->start = pending.signals[i]->end =
              isOutputOf(link, launch.signals[i]) ? node.end : launch.timeline->outputEnd(launch.signals[i], placement);
        isLaunch = visible = true;
      },
      [&](const TimedExternal&) {
        node.end = std::max(ready, pending.external->end);
        totals_.busy[static_cast<int>(Resource::kNic)] += node.end - node.start;
        visible = !pending.external->skipped;
      },
      [](const TimedWait&) {}, [](const TimedMarker&) {});
  node.resolved = true;
  for (const auto& signal : pending.signals) {
    // Work that was dropped is over at once, and so are its signals.
    if (!isLaunch) signal->start = signal->end = node.end;
    signal->resolved = true;
  }
  queue.end = node.end;
  totals_.end = std::max(totals_.end, node.end);
  if (visible && observer_)
    observer_({pending.item, queue.name, ready, node.start, node.end, isLaunch && !hasParts ? &placement : nullptr,
               nullptr, isLaunch ? nullptr : pending.external.get(), link, readStart, writeStart});
}

}  // namespace hpu::driver
