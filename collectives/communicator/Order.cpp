// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Order.h"

#include <algorithm>

#include "base/AtFork.h"

namespace hpu::collectives {

Status Enqueued::mark() {
  std::lock_guard lock(mutex_);
  if (marked_) return okStatus();
  Stream stream = stream_;
  Status recorded = stream.record(event_);
  marked_ = recorded.ok();
  return recorded;
}

std::shared_ptr<AddressOrder> AddressOrder::of(const Device& device) {
  // Never destroyed: communicators may outlive statics.
  static auto* known = new std::map<const DeviceState*, std::weak_ptr<AddressOrder>>;
  std::lock_guard lock(base::processMutex());
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<AddressOrder>& slot = (*known)[device.state().get()];
  std::shared_ptr<AddressOrder> order = slot.lock();
  if (!order) slot = order = std::make_shared<AddressOrder>();
  return order;
}

std::vector<std::shared_ptr<Enqueued>> AddressOrder::conflicts(const std::vector<Access>& accesses,
                                                               const StreamState* stream, uint64_t communicator) {
  std::vector<std::shared_ptr<Enqueued>> found;
  std::lock_guard lock(mutex_);
  for (const auto& [other, entries] : entries_) {
    if (other == stream) continue;
    auto overlaps = [&](const Entry& entry) {
      if (entry.operation->communicator() == communicator) return false;
      return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
        return (access.write || entry.access.write) && access.begin < entry.access.end &&
               entry.access.begin < access.end;
      });
    };
    auto last = std::find_if(entries.rbegin(), entries.rend(), overlaps);
    if (last != entries.rend()) found.push_back(last->operation);
  }
  return found;
}

bool AddressOrder::add(const std::vector<Access>& accesses, const std::shared_ptr<Enqueued>& operation) {
  std::lock_guard lock(mutex_);
  std::deque<Entry>& entries = entries_[operation->stream()];
  several_ = several_ || entries_.size() > 1;
  for (const Access& access : accesses)
    if (access.begin < access.end) entries.push_back({access, operation});
  while (entries.size() > kEntries) {
    Entry& into = entries[1];
    const Access& from = entries[0].access;
    into.access = {std::min(into.access.begin, from.begin), std::max(into.access.end, from.end),
                   into.access.write || from.write};
    entries.pop_front();
  }
  return several_;
}

}  // namespace hpu::collectives
