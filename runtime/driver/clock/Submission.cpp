// SPDX-License-Identifier: Apache-2.0
// How the clock takes work: all of it under inboxMutex_, from the calls of the program alone. So what is noted here
// (dependences, foreseen ends, ports, looks that are due) is the same on every host, however far the device has got.
#include <algorithm>
#include <atomic>
#include <utility>

#include "base/HandedOver.h"
#include "base/Spin.h"
#include "runtime/driver/WorkVisitor.h"
#include "runtime/driver/clock/DeviceClock.h"

namespace hpu::driver {
namespace {

// Programs without external work pay nothing for it.
std::atomic<bool> gAnyExternal{false};

/// What decides the time of a launch when it has run: to others such a launch is like external work. Null: nothing
/// does.
std::shared_ptr<ExternalTime> outcomeOf(const ClockItem& item) {
  const auto* launch = std::get_if<TimedProgram>(&item.work);
  return launch ? launch->outcome : nullptr;
}

}  // namespace

/// Null when it depends on no external work but what the program has seen the end of. Under
/// inboxMutex_: so it is a matter of the program's calls alone.
std::shared_ptr<const Dependence> DeviceClock::dependenceOf(const ClockItem& item) {
  const bool external = std::holds_alternative<TimedExternal>(item.work) || outcomeOf(item);
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
  visitWork(
      item.work,
      [&](const TimedTransfer& transfer) {
        foreseen += transfer.cost.alone;
        if (transfer.link) foreseen += transfer.link->read.alone + transfer.link->written.alone;
      },
      [&](const TimedProgram& launch) {
        const LinkUse* link = launch.link.get();
        LaunchPlacement alone;
        alone.offset = ready + (link ? link->read.alone : 0);
        alone.start = alone.offset + launch.timeline->start;
        alone.end = alone.offset + launch.timeline->end;
        foreseen = alone.end + (link ? link->written.alone : 0);
        for (size_t i = 0; i < signals.size(); ++i)
          signals[i]->foreseen =
              isOutputOf(link, launch.signals[i]) ? foreseen : launch.timeline->outputEnd(launch.signals[i], alone);
      },
      [&](const TimedWait& wait) {
        if (wait.node) foreseen = std::max(foreseen, wait.node->foreseen);
      },
      [](const TimedMarker&) {},
      [&](const TimedExternal& external) { foreseen = foreseePorts(ready, external.ports, ports); });
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
  const bool isExternal = std::holds_alternative<TimedExternal>(item.work);
  std::shared_ptr<ExternalTime> external = isExternal ? std::make_shared<ExternalTime>() : outcomeOf(item);
  if (external) {
    external->ticket = ticket;
    external->queue = item.queue;
  }
  node->foreseen = foresee(item, signals, ports);
  const bool closes = external != nullptr, held = dependence != nullptr;
  const Pending& pending = inbox_.push(
      Pending{std::move(item), std::move(node), std::move(signals), std::move(external), closes, false, held});
  sinceLook_ += weightOf(pending.item);
  try {
    if (kept) {
      nodes_.add(ticket) = pending.node;
      for (size_t i = 0; i < pending.signals.size(); ++i) nodes_.add(ticket + 1 + i) = pending.signals[i];
    }
    if (isExternal) externals_.emplace(ticket, pending.external);
  } catch (...) {
    takeBack();
    throw;
  }
}

/// How much the item brings a look nearer: launches that each have a timeline of their own are not to pile up.
size_t DeviceClock::weightOf(const ClockItem& item) {
  constexpr size_t kMostInstances = 256;
  const auto* launch = std::get_if<TimedProgram>(&item.work);
  return launch && launch->isInstance ? kMaxUnresolved / kMostInstances : 1;
}

/// Under inboxMutex_: undoes the last append.
void DeviceClock::takeBack() noexcept {
  const Pending& last = inbox_.back();
  sinceLook_ -= std::min(sinceLook_, weightOf(last.item));
  for (size_t i = 0; i <= last.signals.size(); ++i) nodes_.erase(last.item.ticket + i);
  externals_.erase(last.item.ticket);
  inbox_.popBack();
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

/// Under inboxMutex_, behind what was submitted: times must not depend on when a worker gets to it.
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

void DeviceClock::forget(Ticket ticket) {
  auto lock = base::lockSoon(inboxMutex_);
  nodes_.erase(ticket);
}

}  // namespace hpu::driver
