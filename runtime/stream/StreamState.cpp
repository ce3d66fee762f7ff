// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/StreamState.h"

#include <new>
#include <utility>

#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/Spin.h"
#include "base/StatusMacros.h"
#include "runtime/capture/CaptureState.h"

namespace hpu {
namespace {

using Owner = std::shared_ptr<const void>;

/// Owners of one piece of work; tells the allocator when they are let go.
class Holding {
 public:
  explicit Holding(std::shared_ptr<DeviceState> device) : device_(std::move(device)) { device_->memory().workBegins(); }
  ~Holding() {
    first.reset();
    second.reset();
    more.clear();
    device_->memory().workEnded();
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  Owner first, second;  ///< Most work has no more.
  driver::Owners more;

 private:
  const std::shared_ptr<DeviceState> device_;
};

}  // namespace

StatusOr<std::shared_ptr<StreamState>> StreamState::create(std::shared_ptr<DeviceState> device,
                                                           const StreamOptions& options) {
  HPU_RETURN_IF_ERROR(device->checkProcess());
  HPU_ASSIGN(driver::QueueId queue, device->driver()->createQueue(options.name));
  auto stream = base::makeProcessOwned<StreamState>(device, queue, options);
  device->addStream(stream);
  return stream;
}

StreamState::StreamState(std::shared_ptr<DeviceState> device, driver::QueueId queue, const StreamOptions& options)
    : device_(std::move(device)), queue_(queue), options_(options) {}

StreamState::~StreamState() {
  device_->driver()->destroyQueue(queue_);
  if (last_ && !last_->done()) device_->addOrphan(last_->ticket());
}

StatusOr<std::shared_ptr<TicketHandle>> StreamState::submit(driver::Work work, std::string label,
                                                            driver::Owners owners) try {
  HPU_RETURN_IF_ERROR(device_->checkProcess());
  if (auto capture = this->capture()) {
    HPU_RETURN_IF_ERROR(capture->add(*this, std::move(work), std::move(label), std::move(owners)).status());
    return std::shared_ptr<TicketHandle>();
  }
  std::shared_ptr<Holding> holding;
  if (!owners.empty()) {
    holding = base::makeProcessOwned<Holding>(device_);
    holding->more = std::move(owners);
  }
  return submitKeeping(std::move(work), std::move(label), std::move(holding));
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: the work was not enqueued");
}

StatusOr<std::shared_ptr<TicketHandle>> StreamState::submit(driver::Work work, std::string label, Owner owner,
                                                            Owner other) try {
  HPU_RETURN_IF_ERROR(device_->checkProcess());
  if (auto capture = this->capture()) {
    HPU_RETURN_IF_ERROR(
        capture->add(*this, std::move(work), std::move(label), {std::move(owner), std::move(other)}).status());
    return std::shared_ptr<TicketHandle>();
  }
  std::shared_ptr<Holding> holding;
  if (owner || other) {
    holding = base::makeProcessOwned<Holding>(device_);
    holding->first = std::move(owner);
    holding->second = std::move(other);
  }
  return submitKeeping(std::move(work), std::move(label), std::move(holding));
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: the work was not enqueued");
}

Status StreamState::waitFor(std::shared_ptr<TicketHandle> ticket, bool onlyOrder) {
  driver::WaitFor work{ticket->ticket(), nullptr, onlyOrder};
  if (ticket->device() != device_) work.other = ticket->device()->driver();
  // The wait keeps the ticket, so that its failure is known when the wait ends.
  return submit(std::move(work), {}, std::move(ticket), nullptr).status();
}

bool StreamState::extend(const ExternalWork& work, const ExternalPorts& ports, std::vector<int64_t>& readyPs) const {
  return !captured_.load(std::memory_order_acquire) &&
         device_->driver()->extend(queue_, work, device_->observedNs(), ports, readyPs);
}

void StreamState::seal() const {
  device_->driver()->seal();
}

Status StreamState::refuse(Status wrong, std::string label) {
  if (!device_->memory().checks()) return wrong;
  return submit(driver::Fault{std::move(wrong)}, std::move(label), nullptr, nullptr).status();
}

StatusOr<std::shared_ptr<TicketHandle>> StreamState::submitKeeping(driver::Work work, std::string label,
                                                                   Owner keepAlive) {
  driver::SubmitOptions options;
  options.earliestStartNs = device_->observedNs();
  options.priority = options_.priority;
  options.label = std::move(label);
  options.keepAlive = std::move(keepAlive);
  auto handle = base::makeProcessOwned<TicketHandle>(device_, 0);
  std::shared_ptr<TicketHandle> previous;  // Forgotten after the lock is gone.
  // Of external work, and of waits for the order alone, the caller may have locks: then a worker does it.
  const auto* wait = std::get_if<driver::WaitFor>(&work);
  if (!(wait && wait->onlyOrder) && !std::holds_alternative<driver::External>(work)) seal();
  auto lock = base::lockSoon(mutex_);
  HPU_ASSIGN(driver::Ticket ticket, device_->driver()->submit(queue_, std::move(work), std::move(options)));
  handle->is(ticket);
  previous = std::exchange(last_, handle);
  return handle;
}

StatusOr<std::shared_ptr<TicketHandle>> StreamState::submitBatch(const std::vector<driver::BatchItem>& items,
                                                                 Owner owner,
                                                                 const std::vector<BatchTicket>& wanted) try {
  HPU_RETURN_IF_ERROR(device_->checkProcess());
  HPU_RETURN_IF_ERROR(refuseInCapture("a batch", "it belongs to another graph"));
  driver::BatchOptions options;
  options.queue = queue_;
  options.priority = options_.priority;
  options.earliestStartNs = device_->observedNs();
  auto holding = base::makeProcessOwned<Holding>(device_);
  holding->first = std::move(owner);
  options.keepAlive = std::move(holding);
  std::shared_ptr<TicketHandle> handle;  // Of the last item, perhaps one that is wanted.
  for (const BatchTicket& each : wanted)
    if (each.item + 1 == items.size() && each.signal == driver::BatchItem::kNone) handle = each.handle;
  if (!handle) handle = base::makeProcessOwned<TicketHandle>(device_, 0);
  std::shared_ptr<TicketHandle> previous;  // Forgotten after the lock is gone.
  seal();
  auto lock = base::lockSoon(mutex_);
  HPU_ASSIGN(std::vector<driver::Ticket> tickets, device_->driver()->submitBatch(items, std::move(options)));
  handle->is(tickets.back());
  for (const BatchTicket& each : wanted)
    each.handle->is(tickets[each.item] + (each.signal == driver::BatchItem::kNone ? 0 : 1 + each.signal));
  previous = std::exchange(last_, handle);
  return handle;
} catch (const std::bad_alloc&) {
  return resourceExhausted("out of host memory: the work was not enqueued");
}

Status StreamState::joinCapture(std::shared_ptr<CaptureState> capture) {
  std::lock_guard lock(mutex_);
  if (capture_)
    return failedPrecondition(base::strCat("stream '", options_.name, "' is captured already; end that capture first"));
  capture_ = std::move(capture);
  captured_.store(true, std::memory_order_release);
  return okStatus();
}

void StreamState::leaveCapture(const CaptureState* capture) {
  std::shared_ptr<CaptureState> left;  // Let go after the lock.
  std::lock_guard lock(mutex_);
  if (capture_.get() != capture) return;
  left.swap(capture_);
  captured_.store(false, std::memory_order_release);
}

std::shared_ptr<CaptureState> StreamState::capture() const {
  if (!captured_.load(std::memory_order_acquire)) return nullptr;  // Asked for each piece of work.
  std::lock_guard lock(mutex_);
  return capture_;
}

Status StreamState::refuseInCapture(std::string_view call, std::string_view why) const {
  auto capture = this->capture();
  return capture ? capture->refuse(call, why) : okStatus();
}

std::shared_ptr<TicketHandle> StreamState::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

Status StreamState::takeError(driver::Ticket upTo) {
  return device_->driver()->takeError(queue_, upTo);
}

Status StreamState::error(driver::Ticket upTo) const {
  return device_->driver()->error(queue_, upTo);
}

StatusOr<bool> StreamState::query() const {
  std::shared_ptr<TicketHandle> ticket = last();
  if (!ticket) return true;
  if (!ticket->done()) return false;
  auto observed = ticket->observeEndNs();
  HPU_RETURN_IF_ERROR(error(ticket->ticket()));
  HPU_RETURN_IF_ERROR(observed.status());
  return true;
}

Status StreamState::waitAll(int64_t deadlineMs, std::string_view call) const {
  std::shared_ptr<TicketHandle> ticket = last();
  return ticket ? ticket->wait(deadlineMs, call) : okStatus();
}

Status StreamState::synchronize(int64_t deadlineMs, std::string_view call) {
  std::shared_ptr<TicketHandle> ticket = last();
  if (!ticket) return okStatus();
  HPU_RETURN_IF_ERROR(ticket->wait(deadlineMs, call));
  Status error = takeError(ticket->ticket());
  auto observed = ticket->observeEndNs();
  return error.ok() ? observed.status() : error;
}

}  // namespace hpu
