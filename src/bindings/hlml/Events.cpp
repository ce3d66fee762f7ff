// SPDX-License-Identifier: Apache-2.0
// Event sets. Events are found by comparing fault counts, so a set sees what happens after the registration,
// whatever process caused it, and nothing runs in the background.
#include <time.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "base/AtFork.h"
#include "bindings/hlml/Library.h"

using hpu::hlml::guarded;
using hpu::hlml::Library;
using hpu::node::DeviceStatus;
using hpu::node::Fault;
using hpu::node::kNumFaults;

namespace {

// How often a wait looks.
constexpr int64_t kLookEveryNs = 10'000'000;

constexpr unsigned long long kEventsOf[kNumFaults] = {
    HLML_EVENT_ECC_SERR | HLML_EVENT_DRAM_SERR,  // kCorrectedEcc
    HLML_EVENT_ECC_DERR | HLML_EVENT_DRAM_DERR,  // kUncorrectedEcc
    HLML_EVENT_HPU_NON_FATAL,                    // kNonFatalEvent
    HLML_EVENT_CRITICAL_ERR,                     // kFatalEvent
    HLML_EVENT_CRITICAL_ERR,                     // kEndlessCommand
    HLML_EVENT_CRITICAL_ERR,                     // kLostHeartbeat
    HLML_EVENT_CLOCK_RATE,                       // kThermal
};

constexpr unsigned long long allEvents() {
  unsigned long long all = 0;
  for (unsigned long long events : kEventsOf) all |= events;
  return all;
}

struct Watch {
  unsigned long long types = 0;
  int64_t acquiredAtNs = 0;
  std::array<uint64_t, kNumFaults> seen = {};
};

struct EventSet {
  uint64_t generation = 0;
  std::mutex mutex;  // Guards the rest.
  bool freed = false;
  std::map<hlml_device_t, Watch> watches;
  std::deque<hlml_event_data_t> pending;
};

struct Registry {
  std::mutex mutex;  // Guards the rest.
  uintptr_t next = 1;
  std::map<uintptr_t, std::shared_ptr<EventSet>> sets;
};

Registry& registry();

// A forked child has the sets, too, and finds them whole and free. A fork waits for one that is asking its devices.
void prepareFork() {
  registry().mutex.lock();
  for (auto& [id, set] : registry().sets) set->mutex.lock();
}
void afterFork() {
  for (auto& [id, set] : registry().sets) set->mutex.unlock();
  registry().mutex.unlock();
}

Registry& registry() {
  static Registry* all = [] {
    static constexpr hpu::base::ForkHandlers kHandlers = {prepareFork, afterFork, afterFork};
    hpu::base::atFork(hpu::base::ForkRank::kMonitorEvents, kHandlers);
    return new Registry;  // Never destroyed, as the library.
  }();
  return *all;
}

/// Odd numbers, which no pointer to a device handle's pattern or to memory is.
hlml_event_set_t handleOf(uintptr_t id) {
  return reinterpret_cast<hlml_event_set_t>(id << 1 | 1);
}

std::shared_ptr<EventSet> find(hlml_event_set_t handle) {
  auto value = reinterpret_cast<uintptr_t>(handle);
  if (!(value & 1)) return nullptr;
  std::lock_guard lock(registry().mutex);
  auto it = registry().sets.find(value >> 1);
  if (it == registry().sets.end()) return nullptr;
  return it->second->generation == Library::get().generation() ? it->second : nullptr;
}

/// The bits of what happened since the last look.
unsigned long long update(Watch& watch, const DeviceStatus& status) {
  // Counts begin anew with each acquisition, and a reset may clear them.
  if (watch.acquiredAtNs != status.acquiredAtNs) watch.seen.fill(0);
  watch.acquiredAtNs = status.acquiredAtNs;
  unsigned long long happened = 0;
  for (int f = 0; f < kNumFaults; ++f) {
    if (status.faults[f] > watch.seen[f]) happened |= kEventsOf[f];
    watch.seen[f] = status.faults[f];
  }
  return happened & watch.types;
}

/// Asks all devices of the set once; its lock is held.
void look(EventSet& set) {
  for (auto& [device, watch] : set.watches) {
    DeviceStatus status;
    if (Library::get().deviceStatus(device, status) != HLML_SUCCESS) continue;
    if (unsigned long long happened = update(watch, status)) set.pending.push_back({device, happened});
  }
}

}  // namespace

hlml_return_t hlml_event_set_create(hlml_event_set_t* set) {
  return guarded([&] {
    uint64_t generation = Library::get().generation();
    if (!generation) return HLML_ERROR_UNINITIALIZED;
    if (!set) return HLML_ERROR_INVALID_ARGUMENT;
    auto created = std::make_shared<EventSet>();
    created->generation = generation;
    std::lock_guard lock(registry().mutex);
    // Sets of earlier initialisations cannot be named any more.
    std::erase_if(registry().sets, [&](auto& each) { return each.second->generation != generation; });
    registry().sets.emplace(registry().next, std::move(created));
    *set = handleOf(registry().next++);
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_event_set_free(hlml_event_set_t set) {
  return guarded([&] {
    HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
    std::shared_ptr<EventSet> found = find(set);
    if (!found) return HLML_ERROR_INVALID_ARGUMENT;
    {
      std::lock_guard lock(registry().mutex);
      registry().sets.erase(reinterpret_cast<uintptr_t>(set) >> 1);
    }
    std::lock_guard lock(found->mutex);
    found->freed = true;
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_device_register_events(hlml_device_t device, unsigned long long event_types, hlml_event_set_t set) {
  return guarded([&] {
    DeviceStatus status;
    HLML_RETURN_IF_ERROR(Library::get().deviceStatus(device, status));
    std::shared_ptr<EventSet> found = find(set);
    if (!found || event_types == 0 || event_types & ~allEvents()) return HLML_ERROR_INVALID_ARGUMENT;
    Watch watch;
    watch.types = event_types;
    update(watch, status);
    std::lock_guard lock(found->mutex);
    found->watches[device] = watch;
    return HLML_SUCCESS;
  });
}

hlml_return_t hlml_event_set_wait(hlml_event_set_t set, hlml_event_data_t* data, unsigned int timeoutms) {
  return guarded([&] {
    HLML_RETURN_IF_ERROR(hpu::hlml::checkInitialized());
    std::shared_ptr<EventSet> found = find(set);
    if (!found || !data) return HLML_ERROR_INVALID_ARGUMENT;
    const int64_t deadline = hpu::hlml::monotonicNs() + int64_t{timeoutms} * 1'000'000;
    while (true) {
      if (found->generation != Library::get().generation()) return HLML_ERROR_UNINITIALIZED;
      {
        std::lock_guard lock(found->mutex);
        if (found->freed) return HLML_ERROR_INVALID_ARGUMENT;
        if (found->pending.empty()) look(*found);
        if (!found->pending.empty()) {
          *data = found->pending.front();
          found->pending.pop_front();
          return HLML_SUCCESS;
        }
      }
      int64_t left = deadline - hpu::hlml::monotonicNs();
      if (left <= 0) return HLML_ERROR_TIMEOUT;
      timespec pause{0, static_cast<long>(std::min(left, kLookEveryNs))};
      nanosleep(&pause, nullptr);
    }
  });
}
