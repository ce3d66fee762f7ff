// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/Order.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/AtFork.h"

namespace hpu::collectives {
namespace {

// The least number of ranges at which some are forgotten.
constexpr size_t kLeastCrowd = 64;
// Of a program that never looks at a device time: beyond so many ranges, and readers of one range,
// those that are done are forgotten, although what is enqueued next may begin earlier then.
constexpr size_t kMostUnseen = 4096;

}  // namespace

AddressOrder::AddressOrder() : crowd_(kLeastCrowd) {}

std::shared_ptr<AddressOrder> AddressOrder::of(const Device& device) {
  // Never destroyed: communicators may outlive statics.
  static auto* known = new std::map<const DeviceState*, std::weak_ptr<AddressOrder>>;
  std::lock_guard lock(base::processMutex());
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<AddressOrder>& slot = (*known)[device.state().get()];
  std::shared_ptr<AddressOrder> order = slot.lock();
  if (order)
    order->shared_.store(true, std::memory_order_relaxed);
  else
    slot = order = std::make_shared<AddressOrder>();
  return order;
}

size_t AddressOrder::ranges() const {
  std::lock_guard lock(mutex_);
  return ranges_.size();
}

AddressOrder::Operations AddressOrder::conflicts(std::span<const Access> accesses, const Stream& stream,
                                                 uint64_t communicator) const {
  std::vector<const Use*> found;
  auto consider = [&](const Use& use) {
    if (!use.operation || use.operation->communicator() == communicator || use.operation->isOn(stream)) return;
    for (const Use*& other : found)
      if (other->operation->isOnStreamOf(*use.operation)) {
        if (other->number < use.number) other = &use;
        return;
      }
    found.push_back(&use);
  };
  std::lock_guard lock(mutex_);
  for (const Access& access : accesses) {
    auto it = ranges_.upper_bound(access.begin);
    if (it != ranges_.begin() && std::prev(it)->second.end > access.begin) --it;
    for (; it != ranges_.end() && it->first < access.end; ++it) {
      consider(it->second.writer);
      if (access.write) std::for_each(it->second.readers.begin(), it->second.readers.end(), consider);
    }
  }
  Operations result;
  for (const Use* use : found)
    if (!use->operation->end().isSeen()) result.push_back(use->operation);
  return result;
}

/// From now on no range reaches across `address`.
void AddressOrder::splitAt(uint64_t address) {
  auto it = ranges_.lower_bound(address);
  if (it == ranges_.begin()) return;
  Range& before = std::prev(it)->second;
  if (before.end <= address) return;
  Range rest = before;
  ranges_.emplace_hint(it, address, std::move(rest));
  before.end = address;
}

/// It comes after all that is there, so whoever waits for it waits for those.
void AddressOrder::addWriter(const Access& access, const Use& use) {
  auto it = ranges_.find(access.begin);
  if (it == ranges_.end() || it->second.end != access.end) {
    splitAt(access.begin);
    splitAt(access.end);
    ranges_.erase(ranges_.lower_bound(access.begin), ranges_.lower_bound(access.end));
    it = ranges_.emplace(access.begin, Range{access.end, {}, {}}).first;
  }
  it->second.writer = use;
  it->second.readers.clear();
}

void AddressOrder::addReader(Range& range, const Use& use) {
  auto same = std::find_if(range.readers.begin(), range.readers.end(), [&](const Use& other) {
    return other.operation->communicator() == use.operation->communicator() &&
           other.operation->isOnStreamOf(*use.operation);
  });
  if (same != range.readers.end()) {
    *same = use;
    return;
  }
  if (range.readers.size() >= range.crowd) {
    std::erase_if(range.readers, [](const Use& other) { return other.operation->end().isSeen(); });
    if (range.readers.size() >= kMostUnseen)
      std::erase_if(range.readers, [](const Use& other) { return other.operation->end().isDone(); });
    range.crowd = std::max<size_t>(2 * range.readers.size(), 8);
  }
  range.readers.push_back(use);
}

void AddressOrder::addReader(const Access& access, const Use& use) {
  auto it = ranges_.find(access.begin);
  if (it != ranges_.end() && it->second.end == access.end) return addReader(it->second, use);
  splitAt(access.begin);
  splitAt(access.end);
  it = ranges_.lower_bound(access.begin);
  for (uint64_t at = access.begin; at < access.end;) {
    const uint64_t next = it == ranges_.end() ? access.end : std::min(it->first, access.end);
    if (at < next) {  // No operation has used what is between.
      it = ranges_.emplace_hint(it, at, Range{next, {}, {}});
    }
    addReader(it->second, use);
    at = it->second.end;
    ++it;
  }
}

void AddressOrder::forgetSeen() {
  auto forget = [&](auto&& over) {
    for (auto it = ranges_.begin(); it != ranges_.end();) {
      Range& range = it->second;
      if (range.writer.operation && over(range.writer)) range.writer = {};
      std::erase_if(range.readers, over);
      it = !range.writer.operation && range.readers.empty() ? ranges_.erase(it) : std::next(it);
    }
  };
  forget([](const Use& use) { return use.operation->end().isSeen(); });
  if (ranges_.size() >= kMostUnseen) forget([](const Use& use) { return use.operation->end().isDone(); });
  crowd_ = std::max(2 * ranges_.size(), kLeastCrowd);
}

void AddressOrder::add(std::span<const Access> accesses, const std::shared_ptr<Enqueued>& operation) {
  std::lock_guard lock(mutex_);
  const Use use{operation, ++lastNumber_};
  // What it reads and writes it writes, for all that come later.
  for (const bool write : {false, true})
    for (const Access& access : accesses)
      if (access.write == write && access.begin < access.end) write ? addWriter(access, use) : addReader(access, use);
  if (ranges_.size() >= crowd_) forgetSeen();
}

}  // namespace hpu::collectives
