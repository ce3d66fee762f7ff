// SPDX-License-Identifier: Apache-2.0
#include "runtime/stream/StreamState.h"

#include <utility>

#include "base/StatusMacros.h"

namespace hpu {
namespace {

using Owner = std::shared_ptr<const void>;

/// Owners of one piece of work; tells the allocator when they are let go.
class Holding {
 public:
  explicit Holding(std::shared_ptr<DeviceState> device) : device_(std::move(device)) {
    device_->memory().workBegins();
  }
  ~Holding() {
    first.reset();
    second.reset();
    more.clear();
    device_->memory().workEnded();
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  Owner first, second;  ///< Most work has no more.
  std::vector<Owner> more;

 private:
  const std::shared_ptr<DeviceState> device_;
};

}  // namespace

StatusOr<std::shared_ptr<StreamState>> StreamState::create(std::shared_ptr<DeviceState> device,
                                                           const StreamOptions& options) {
  HPU_ASSIGN(driver::QueueId queue, device->driver()->createQueue(options.name));
  auto stream = std::make_shared<StreamState>(device, queue, options);
  device->addStream(stream);
  return stream;
}

StreamState::StreamState(std::shared_ptr<DeviceState> device, driver::QueueId queue,
                         const StreamOptions& options)
    : device_(std::move(device)), queue_(queue), options_(options) {}

StreamState::~StreamState() {
  device_->driver()->destroyQueue(queue_);
  if (last_ && !last_->done()) device_->addOrphan(last_->ticket());
}

StatusOr<std::shared_ptr<TicketHandle>> StreamState::submit(driver::Work work, std::string label,
                                                            std::vector<Owner> owners) {
  std::shared_ptr<Holding> holding;
  if (!owners.empty()) {
    holding = std::make_shared<Holding>(device_);
    holding->more = std::move(owners);
  }
  return submitKeeping(std::move(work), std::move(label), std::move(holding));
}

StatusOr<std::shared_ptr<TicketHandle>> StreamState::submit(driver::Work work, std::string label,
                                                            Owner owner, Owner other) {
  std::shared_ptr<Holding> holding;
  if (owner || other) {
    holding = std::make_shared<Holding>(device_);
    holding->first = std::move(owner);
    holding->second = std::move(other);
  }
  return submitKeeping(std::move(work), std::move(label), std::move(holding));
}

Status StreamState::refuse(Status wrong, std::string label) {
  if (!device_->memory().checks()) return wrong;
  return submit(driver::Fault{std::move(wrong)}, std::move(label), nullptr, nullptr).status();
}

StatusOr<std::shared_ptr<TicketHandle>> StreamState::submitKeeping(driver::Work work,
                                                                   std::string label,
                                                                   Owner keepAlive) {
  driver::SubmitOptions options;
  options.earliestStartNs = device_->observedNs();
  options.priority = options_.priority;
  options.label = std::move(label);
  options.keepAlive = std::move(keepAlive);
  std::shared_ptr<TicketHandle> previous;  // Forgotten after the lock is gone.
  std::lock_guard lock(mutex_);
  HPU_ASSIGN(driver::Ticket ticket,
             device_->driver()->submit(queue_, std::move(work), std::move(options)));
  auto handle = std::make_shared<TicketHandle>(device_, ticket);
  previous = std::exchange(last_, handle);
  return handle;
}

std::shared_ptr<TicketHandle> StreamState::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

Status StreamState::takeError(driver::Ticket upTo) {
  return device_->driver()->takeError(queue_, upTo);
}

Status StreamState::synchronize(int64_t deadlineMs) {
  std::shared_ptr<TicketHandle> ticket = last();
  if (!ticket) return okStatus();
  HPU_RETURN_IF_ERROR(ticket->wait(deadlineMs));
  Status error = takeError(ticket->ticket());
  auto observed = ticket->observeEndNs();
  return error.ok() ? observed.status() : error;
}

}  // namespace hpu
