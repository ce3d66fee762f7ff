// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/DeviceState.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "base/Deadline.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Environment.h"

namespace hpu {
namespace {

struct OpenDevices {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::weak_ptr<DeviceState>> devices;
};
OpenDevices& openDevices() {
  static OpenDevices* instance = new OpenDevices;  // Never destroyed: handles may outlive statics.
  return *instance;
}

std::atomic<uint64_t> gNextId{1};

struct Observed {
  uint64_t device;
  int64_t ns;
};
// Devices are few; those that were closed are dropped when the list gets long.
constexpr size_t kMaxObserved = 64;
thread_local std::vector<Observed> tlsObserved;

std::string driverNames() {
  std::string names;
  for (const driver::DriverEntry& entry : driver::registeredDrivers())
    names += (names.empty() ? "" : ", ") + entry.name;
  return names;
}

/// What must agree for two open calls to mean the same device.
Status compatible(const DeviceInfo& open, const DeviceOptions& wanted) {
  if (open.target != wanted.target)
    return failedPrecondition(base::strCat(
        "device ", open.index, " is open in this process as ", targetName(open.target), ", not ",
        targetName(wanted.target), "; close its handles first or use another index"));
  if (wanted.hbmBytes != 0 && wanted.hbmBytes > open.hbmBytes)
    return failedPrecondition(base::strCat(
        "device ", open.index, " is open in this process with ", base::formatBytes(open.hbmBytes),
        " of HBM, less than the ", base::formatBytes(wanted.hbmBytes),
        " asked for; close its handles first or use another index"));
  return okStatus();
}

}  // namespace

StatusOr<std::shared_ptr<DeviceState>> DeviceState::open(const DeviceOptions& options) {
  const driver::DriverEntry* chosen = nullptr;
  for (const driver::DriverEntry& entry : driver::registeredDrivers())
    if (entry.name == options.driver) chosen = &entry;
  if (!chosen)
    return notFound(
        base::strCat("there is no driver '", options.driver, "'; this build has ", driverNames()));
  // Most settings are read where nothing can be returned; here their mistakes can.
  HPU_RETURN_IF_ERROR(settings::checkAll());
  HPU_RETURN_IF_ERROR(trace::startFromEnvironment());
  OpenDevices& open = openDevices();
  std::lock_guard lock(open.mutex);
  std::weak_ptr<DeviceState>& slot = open.devices[{options.driver, options.index}];
  if (std::shared_ptr<DeviceState> existing = slot.lock()) {
    HPU_RETURN_IF_ERROR(compatible(existing->info(), options));
    return existing;
  }
  HPU_ASSIGN(std::shared_ptr<driver::DriverDevice> driver, chosen->open(options));
  auto state = std::make_shared<DeviceState>(std::move(driver));
  slot = state;
  return state;
}

DeviceState::DeviceState(std::shared_ptr<driver::DriverDevice> driver)
    : driver_(std::move(driver)), id_(gNextId.fetch_add(1)), memory_(*driver_) {}

int64_t DeviceState::observedNs() const {
  for (const Observed& entry : tlsObserved)
    if (entry.device == id_) return entry.ns;
  return 0;
}

void DeviceState::observe(int64_t ns) const {
  for (Observed& entry : tlsObserved) {
    if (entry.device != id_) continue;
    entry.ns = std::max(entry.ns, ns);
    return;
  }
  if (tlsObserved.size() >= kMaxObserved) tlsObserved.erase(tlsObserved.begin());
  tlsObserved.push_back({id_, ns});
}

void DeviceState::addStream(const std::shared_ptr<StreamState>& stream) {
  std::lock_guard lock(streamsMutex_);
  std::erase_if(streams_, [](const auto& entry) { return entry.expired(); });
  streams_.push_back(stream);
}

void DeviceState::addOrphan(driver::Ticket last) {
  std::lock_guard lock(streamsMutex_);
  std::erase_if(orphans_, [&](driver::Ticket ticket) { return driver_->done(ticket); });
  if (!driver_->done(last)) orphans_.push_back(last);
}

Status DeviceState::synchronize(int64_t deadlineMs) {
  HPU_ASSIGN(base::Deadline deadline, base::Deadline::fromMs(deadlineMs));
  std::vector<std::shared_ptr<StreamState>> streams;
  std::vector<driver::Ticket> orphans;
  {
    std::lock_guard lock(streamsMutex_);
    for (const auto& entry : streams_)
      if (auto stream = entry.lock()) streams.push_back(std::move(stream));
    orphans = orphans_;
  }
  Status first;
  for (const auto& stream : streams) {
    Status status = stream->synchronize(deadline.remainingMs());
    if (first.ok()) first = std::move(status);
  }
  for (driver::Ticket ticket : orphans) {
    Status status = driver_->wait(ticket, deadline.remainingMs());
    // The failure of a stream that is gone was logged when it went; only a timeout is news.
    if (first.ok() && !driver_->done(ticket)) first = std::move(status);
  }
  return first;
}

Status TicketHandle::wait(int64_t deadlineMs) const {
  Status status = device_->driver()->wait(ticket_, deadlineMs);
  return done() ? okStatus() : status;
}

StatusOr<int64_t> TicketHandle::observeEndNs() const {
  HPU_ASSIGN(driver::DriverDevice::DeviceSpan span, device_->driver()->deviceSpan(ticket_));
  device_->observe(span.endNs);
  return span.endNs;
}

}  // namespace hpu
