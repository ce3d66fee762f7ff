// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/common/QueueExecutor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "runtime/driver/WorkCalls.h"
#include "runtime/driver/common/QueueCore.h"

namespace hpu::driver {

QueueExecutor::QueueExecutor(std::string deviceName, int maxWorkers, Body body, Gate gate, ExternalHooks external,
                             int deviceIndex)
    : core_(std::make_shared<Core>(std::move(deviceName), deviceIndex, maxWorkers, std::move(body), std::move(gate),
                                   std::move(external))) {
  base::stopAtExit(core_);
}

QueueExecutor::~QueueExecutor() {
  core_->drain();
}

void QueueExecutor::setFailed(std::function<void(const std::string&, const Status&)> failed) {
  Core::Section section(*core_);
  core_->failed = std::move(failed);
}

StatusOr<QueueId> QueueExecutor::createQueue(const std::string& name) try {
  auto queue = std::make_shared<Core::Queue>();
  // A worker for each queue, as far as there are to be as many: none is started while work is enqueued.
  if (!core_->startWorkers(static_cast<int>(std::min<int64_t>(load().queues + 1, core_->maxWorkers))))
    return resourceExhausted("cannot start a worker thread for " + core_->deviceName +
                             ": the system has no more threads");
  Core::Section section(*core_);
  queue->id = core_->nextQueue++;
  queue->name = name.empty() ? "queue " + std::to_string(queue->id) : name;
  core_->queues.emplace(queue->id, queue);
  return queue->id;
} catch (const std::bad_alloc&) {
  return core_->noMemory();
}

void QueueExecutor::destroyQueue(QueueId id) {
  Core::Section section(*core_);
  auto it = core_->queues.find(id);
  if (it == core_->queues.end()) return;
  std::shared_ptr<Core::Queue> queue = it->second;
  if (core_->open.queue == queue) core_->sealSoon();
  queue->closing = true;
  if (queue->state == QueueState::kIdle) core_->settle(queue);
}

StatusOr<Ticket> QueueExecutor::submit(QueueId id, Work work, std::shared_ptr<const void> keepAlive, std::string label,
                                       Accepted accepted, bool beginNow, int64_t earliestNs) {
  Ticket ticket = 0;
  Core::Turn turn;  // The work's, when this thread begins it.
  const auto* away = std::get_if<External>(&work);
  std::shared_ptr<ExternalWork> extendable;
  if (away) {
    HPU_ASSIGN(const bool isOpen, isExtendable(*away->work));
    if (isOpen) extendable = away->work;
  }
  {
    Core::Section section(*core_);
    core_->sealSoon();
    auto it = core_->queues.find(id);
    if (it == core_->queues.end() || it->second->closing)
      return notFound(base::strCat(core_->deviceName, " has no queue ", id));
    HPU_RETURN_IF_ERROR(core_->checkWait(work));
    const std::shared_ptr<Core::Queue>& queue = it->second;
    try {
      if (extendable) core_->unsealed.reserve(core_->unsealed.size() + 1);
      const ExternalWork* before = queue->lastExternal();
      ticket = core_->append(queue, work, keepAlive, label, false);
      accepted(ticket, before);
    } catch (const std::bad_alloc&) {
      if (ticket) core_->takeBack(*queue, work, keepAlive);
      return core_->noMemory();
    }
    if (extendable) core_->keepOpen(std::move(extendable), queue, ticket, earliestNs);
    if (queue->state != QueueState::kIdle) return ticket;
    // Nothing is skipped under its caller's locks.
    if (!beginNow || !core_->mayTakeTurns() || !queue->failureBefore(ticket).ok()) {
      core_->makeReady(queue);
      return ticket;
    }
    queue->beginsInSubmit = true;
    turn = core_->begin(queue);
  }
  const std::shared_ptr<Core::Queue> queue = turn.queue;
  core_->beginExternals(std::move(turn));
  Core::Section section(*core_);
  queue->beginsInSubmit = false;
  if (queue->waiters > 0) queue->progress.notify_all();
  return ticket;
}

bool QueueExecutor::extend(QueueId id, const ExternalWork& work, int64_t earliestNs,
                           base::FunctionRef<void(Ticket)> accepted) {
  auto lock = core_->look();
  const Core::Open& open = core_->open;
  if (open.work.get() != &work || open.queue->id != id || open.queue->closing || open.earliestNs != earliestNs ||
      open.queue->lastExternal() != &work || (open.queue->external && open.queue->external->complete))
    return false;
  try {
    accepted(core_->openTicket.load(std::memory_order_relaxed));
  } catch (const std::bad_alloc&) {
    return false;
  }
  return extendWork(*open.work);  // It is counted now, so nothing may fail behind it.
}

void QueueExecutor::seal() {
  core_->seal();
}

void QueueExecutor::sealSoon() {
  if (core_->openTicket.load(std::memory_order_relaxed) == 0) return;
  Core::Section section(*core_);
  core_->sealSoon();
}

StatusOr<std::vector<Ticket>> QueueExecutor::submitBatch(
    std::vector<Entry> entries, QueueId reportTo, base::FunctionRef<void(const std::vector<Ticket>&)> accepted) try {
  std::vector<Ticket> tickets(entries.size());
  std::vector<std::shared_ptr<Core::Queue>> queues(entries.size());
  Core::Section section(*core_);
  core_->sealSoon();
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (i > 0 && entry.queue == entries[i - 1].queue) {
      queues[i] = queues[i - 1];
    } else {
      auto it = core_->queues.find(entry.queue);
      if (it == core_->queues.end() || it->second->closing)
        return notFound(base::strCat("item ", i, ": ", core_->deviceName, " has no queue ", entry.queue));
      queues[i] = it->second;
    }
    Status status;
    if (entry.waitItem == BatchItem::kNone) status = core_->checkWait(entry.work);
    if (!status.ok()) return status.withContext(base::strCat("item ", i));
  }
  auto reporting = core_->queues.find(reportTo);
  if (reporting == core_->queues.end()) return notFound(base::strCat(core_->deviceName, " has no queue ", reportTo));
  const std::shared_ptr<Core::Queue>& report = reporting->second;
  size_t appended = 0;
  try {
    for (; appended < entries.size(); ++appended) {
      const size_t i = appended;
      Entry& entry = entries[i];
      if (auto* wait = std::get_if<WaitFor>(&entry.work); wait && entry.waitItem < i) {
        wait->ticket = tickets[entry.waitItem];
        if (entry.waitSignal != BatchItem::kNone) wait->ticket += 1 + entry.waitSignal;
      }
      tickets[i] = core_->append(queues[i], entry.work, entry.keepAlive, entry.label, !entry.kept);
      if (entry.queue != reportTo) queues[i]->items.back().report = report;
    }
    accepted(tickets);
  } catch (const std::bad_alloc&) {
    while (appended-- > 0) core_->takeBack(*queues[appended], entries[appended].work, entries[appended].keepAlive);
    return core_->noMemory();
  }
  for (const auto& queue : queues)
    if (queue->state == QueueState::kIdle) core_->makeReady(queue);
  return tickets;
} catch (const std::bad_alloc&) {
  return core_->noMemory();
}

bool QueueExecutor::done(Ticket ticket) const {
  // No worker brings the end closer, and the program may ask until it has come.
  if (base::isExitThread()) (void)base::workAtExit();
  Core::Section section(*core_);
  if (ticket == core_->openTicket.load(std::memory_order_relaxed)) core_->sealSoon();
  if (ticket < core_->nextTicket && !core_->outstanding.contains(ticket)) return true;
  core_->hurry();
  return false;
}

Status QueueExecutor::wait(Ticket ticket, int64_t deadlineMs) {
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
  seal();
  std::shared_ptr<Core::Queue> queue;
  {
    auto lock = core_->look();
    if (ticket == 0 || ticket >= core_->nextTicket)
      return invalidArgument(
          base::strCat("cannot wait for ticket ", ticket, " of ", core_->deviceName, ": it was never submitted"));
    const Core::Outstanding* entry = core_->outstanding.find(ticket);
    if (!entry) return core_->failureOf(ticket);
    queue = entry->queue;
  }
  const bool finished = core_->await(queue, ticket, deadline);
  auto lock = core_->look();
  if (finished || !core_->outstanding.contains(ticket)) return core_->failureOf(ticket);
  const std::string vain = base::strCat("queue '", queue->name, "' of ", core_->deviceName, " did not reach ticket ",
                                        ticket, " within ", deadline.totalMs(), " ms");
  if (queue->held()) {
    const std::string& label = queue->items.front().label;
    return deadlineExceeded(base::strCat(vain, ": a launch", label.empty() ? "" : " of '", label,
                                         label.empty() ? "" : "'", " does not end. Reset the device (Device::reset)"));
  }
  return deadlineExceeded(base::strCat(vain, "; ", core_->standing(queue), ", with ", queue->items.size(),
                                       " pieces of work queued. Wait longer (HPU_WAIT_TIMEOUT_MS) or look for a wait "
                                       "that is never satisfied"));
}

void QueueExecutor::waitBy(WaitPolicy policy) {
  core_->waitPolicy.store(policy, std::memory_order_relaxed);
}

void QueueExecutor::whenDone(Ticket ticket, std::function<void()> callback) {
  core_->addCallback(ticket, std::move(callback));
}

Status QueueExecutor::takeError(QueueId id, Ticket upTo) {
  auto lock = core_->look();
  auto it = core_->queues.find(id);
  if (it == core_->queues.end()) return okStatus();
  Core::Queue& queue = *it->second;
  if (queue.error.ok() || queue.errorTicket > upTo) return okStatus();
  queue.skipBefore = core_->nextTicket;
  queue.taken = std::exchange(queue.error, Status());
  return queue.taken;
}

Status QueueExecutor::error(QueueId id, Ticket upTo) const {
  auto lock = core_->look();
  auto it = core_->queues.find(id);
  if (it == core_->queues.end() || it->second->errorTicket > upTo) return okStatus();
  return it->second->error;
}

Status QueueExecutor::failure(Ticket ticket) const {
  auto lock = core_->look();
  return core_->failureOf(ticket);
}

Status QueueExecutor::reset(int64_t deadlineMs, base::FunctionRef<void(const std::vector<Ticket>&)> dropping) {
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
  return core_->reset(deadline, dropping);
}

void QueueExecutor::forget(Ticket ticket) {
  auto lock = core_->look();
  if (Core::Outstanding* entry = core_->outstanding.find(ticket))
    entry->forgotten = true;
  else
    core_->failures.erase(ticket);
}

QueueExecutor::Load QueueExecutor::load() const {
  auto lock = core_->look();
  return {static_cast<int64_t>(core_->outstanding.size()), static_cast<int64_t>(core_->queues.size())};
}

uint64_t QueueExecutor::workDone() {
  if (core_->running.load(std::memory_order_relaxed) > 0) core_->advanced.fetch_add(1, std::memory_order_relaxed);
  return core_->advanced.load(std::memory_order_relaxed);
}

DriverDevice::Motion QueueExecutor::motion() {
  DriverDevice::Motion motion{false, 0};
  std::vector<std::shared_ptr<ExternalWork>> away;
  std::vector<std::shared_ptr<DriverDevice>> others;
  {
    auto lock = core_->look();
    for (const auto& [id, queue] : core_->queues) {
      motion.running |= queue->state == QueueState::kReady || queue->state == QueueState::kRunning;
      if (queue->external) away.push_back(std::get<External>(queue->external->item.work).work);
      if (queue->state != QueueState::kParked || queue->items.empty()) continue;
      if (const auto* wait = std::get_if<WaitFor>(&queue->items.front().work); wait && wait->other)
        others.push_back(wait->other);
    }
  }
  for (const auto& work : away) motion.steps += progressOf(*work);
  for (const auto& other : others) motion.steps += other->workDone();
  return motion;
}

Ticket QueueExecutor::lastTicket() const {
  auto lock = core_->look();
  return core_->nextTicket - 1;
}

}  // namespace hpu::driver
