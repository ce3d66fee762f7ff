// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/DeviceState.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Deadline.h"
#include "base/ExitGate.h"
#include "base/Format.h"
#include "base/PerThread.h"
#include "base/ProcessOwned.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "base/Thread.h"
#include "runtime/driver/Callback.h"
#include "runtime/driver/HostWindow.h"
#include "runtime/memory/BufferState.h"
#include "runtime/memory/MemoryPoolState.h"
#include "runtime/node/Inventory.h"
#include "runtime/node/Ownership.h"
#include "runtime/stream/HostCalls.h"
#include "runtime/stream/StreamState.h"
#include "runtime/trace/Environment.h"

namespace hpu {
namespace {

struct OpenDevices {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::weak_ptr<DeviceState>> devices;
  uint64_t generation = 0;  ///< Of the process that they belong to.
};
OpenDevices& openDevices();
std::mutex& openDevicesMutex() {
  return openDevices().mutex;
}
OpenDevices& openDevices() {
  static OpenDevices* instance = [] {
    base::atFork(base::ForkRank::kOpenDevices, base::forkHandlersOf<openDevicesMutex>());
    return new OpenDevices;  // Never destroyed: handles may outlive statics.
  }();
  return *instance;
}

std::atomic<uint64_t> gNextId{1};

struct Observed {
  uint64_t device;
  int64_t ns;
};
// Devices are few; those that were closed are dropped when the list gets long.
constexpr size_t kMaxObserved = 64;
struct ObservedTimes {
  std::vector<Observed> list;
};
std::vector<Observed>& observedTimes() {
  return base::perThread<ObservedTimes>().list;
}

std::string driverNames() {
  std::string names;
  for (const driver::DriverEntry& entry : driver::registeredDrivers())
    names += (names.empty() ? "" : ", ") + entry.name;
  return names;
}

/// The driver's index that the options name; kAnyDevice when by none.
StatusOr<int> wantedIndex(const driver::DriverEntry& entry, const DeviceOptions& options) {
  HPU_ASSIGN(int index, node::requestedIndex(options));
  // No process owns such a device, so the first is as free as any.
  return entry.owned ? index : std::max(index, 0);
}

// Attempts that find a device taken which is free when one looks: its name goes a moment after its
// owner, or others are faster.
constexpr int kMaxVainTries = 200;

/// After an attempt that found the device (any: all of them) taken: waits as long as it is worth
/// trying again; false when it is not. Errors: refuseInCallback.
StatusOr<bool> awaitDevice(const DeviceOptions& options, int index, const base::Deadline& patience, int& vainTries) {
  base::Deadline deadline = patience;
  bool vain = false;
  if (index != kAnyDevice) {
    int64_t owner = node::ownerPid(index);
    vain = owner == 0;
    // This process is just closing it, which takes as long as the work that is enqueued.
    if (owner == ::getpid()) {
      HPU_RETURN_IF_ERROR(refuseInCallback(base::strCat("Device::open of device ", index, ", which is closing,")));
      if (auto own = base::Deadline::fromMs(-1); own.ok()) deadline = *own;
    }
  }
  if (!vain) {
    if (deadline.expired()) return false;
    auto before = base::Deadline::Clock::now();
    if (!node::waitUntilFree(options, deadline).ok()) return false;
    vain = base::Deadline::Clock::now() - before < std::chrono::milliseconds(1);
  }
  if (!vain) return true;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ++vainTries < kMaxVainTries;
}

/// Closes a device with its last share. Closing waits for the device's work: a thread that is inside of some, or of a
/// function that some waits for, would wait for itself, so another one does it then.
struct Closer {
  explicit Closer(std::shared_ptr<driver::DriverDevice> closes) : driver(std::move(closes)) {}
  ~Closer() {
    if (currentCallback() == Callback::kNone) return;
    // The callback does not return any more, or is cut short, and the process ends.
    if (base::isExiting()) {
      base::abandon(driver);
      return;
    }
    try {
      base::startThread("hpu-closer", [closes = std::move(driver)] {}).detach();
    } catch (const std::system_error&) {
      // The system has no thread: it was closed here, and has waited for HPU_WAIT_TIMEOUT_MS at most.
    }
  }
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;
  std::shared_ptr<driver::DriverDevice> driver;
};

std::shared_ptr<driver::DriverDevice> withCloser(std::shared_ptr<driver::DriverDevice> driver) {
  driver::DriverDevice* device = driver.get();
  return {base::makeProcessOwned<Closer>(std::move(driver)), device};
}

/// What must agree for two open calls to mean the same device.
Status compatible(const DeviceInfo& open, const DeviceOptions& wanted) {
  if (open.target != wanted.target)
    return failedPrecondition(base::strCat("device ", open.index, " is open in this process as ",
                                           targetName(open.target), ", not ", targetName(wanted.target),
                                           "; close its handles first or use another index"));
  if (wanted.hbmBytes != 0 && wanted.hbmBytes > open.hbmBytes)
    return failedPrecondition(base::strCat("device ", open.index, " is open in this process with ",
                                           base::formatBytes(open.hbmBytes), " of HBM, less than the ",
                                           base::formatBytes(wanted.hbmBytes),
                                           " asked for; close its handles first or use another index"));
  return okStatus();
}

}  // namespace

StatusOr<std::shared_ptr<DeviceState>> DeviceState::open(const DeviceOptions& options) {
  const driver::DriverEntry* chosen = nullptr;
  for (const driver::DriverEntry& entry : driver::registeredDrivers())
    if (entry.name == options.driver) chosen = &entry;
  if (!chosen)
    return notFound(base::strCat("there is no driver '", options.driver, "'; this build has ", driverNames()));
  // Most settings are read where nothing can be returned; here their mistakes can.
  HPU_RETURN_IF_ERROR(settings::checkAll());
  HPU_RETURN_IF_ERROR(trace::startFromEnvironment());
  HPU_ASSIGN(int index, wantedIndex(*chosen, options));
  HPU_ASSIGN(int64_t patienceMs, settings::getInt(Setting::HPU_ACQUIRE_TIMEOUT_MS));
  base::Deadline patience = base::Deadline::afterMs(patienceMs);
  StatusCode busy = index == kAnyDevice ? StatusCode::kResourceExhausted : StatusCode::kUnavailable;
  for (int vainTries = 0;;) {
    StatusOr<std::shared_ptr<DeviceState>> result = tryOpen(*chosen, options, index);
    if (result.ok() || !chosen->owned || result.status().code() != busy) return result;
    HPU_ASSIGN(bool again, awaitDevice(options, index, patience, vainTries));
    if (!again) return result;
  }
}

StatusOr<std::shared_ptr<DeviceState>> DeviceState::tryOpen(const driver::DriverEntry& entry,
                                                            const DeviceOptions& options, int index) {
  OpenDevices& open = openDevices();
  // Goes after the lock: this may have become its last handle, and closing a device waits for its work.
  std::shared_ptr<DeviceState> existing;
  std::lock_guard lock(open.mutex);
  // After a fork these are the parent's; they stay as they are, for nobody here.
  if (uint64_t now = base::processGeneration(); open.generation != now) {
    open.devices.clear();
    open.generation = now;
  }
  if (index != kAnyDevice) existing = open.devices[{entry.name, index}].lock();
  if (existing) {
    HPU_RETURN_IF_ERROR(compatible(existing->info(), options));
    return existing;
  }
  HPU_ASSIGN(std::shared_ptr<driver::DriverDevice> driver, entry.open(options));
  auto state = base::makeProcessOwned<DeviceState>(std::move(driver));
  open.devices[{entry.name, state->info().index}] = state;
  return state;
}

DeviceState::DeviceState(std::shared_ptr<driver::DriverDevice> driver)
    : hostCalls_(base::makeProcessOwned<HostCalls>()),
      driver_(withCloser(std::move(driver))),
      id_(gNextId.fetch_add(1)),
      memory_(*driver_) {
  driver_->setMemorySource([this] { return memory_.info(); });
  driver_->setHealthSink([health = health_](HealthEvent::Kind kind, const std::string& queue, const Status& status) {
    health->tell(kind, queue, status);
  });
}

DeviceState::~DeviceState() {
  driver_->setMemorySource(nullptr);
}

Status DeviceState::checkProcess() const {
  if (birthplace_.isHere()) return okStatus();
  return failedPrecondition(base::strCat("device ", info().index,
                                         " was opened by the process that this one was forked from, whose alone it is; "
                                         "open a device in this process (Device::open)"));
}

StatusOr<std::shared_ptr<MemoryPoolState>> DeviceState::defaultPool() {
  HPU_RETURN_IF_ERROR(checkProcess());
  std::lock_guard lock(poolMutex_);
  if (!defaultPool_) {
    MemoryPoolOptions options;
    options.label = "default pool";
    HPU_ASSIGN(defaultPool_, MemoryPoolState::create(*this, std::move(options)));
  }
  return defaultPool_;
}

StatusOr<std::shared_ptr<const void>> DeviceState::owner(uint64_t address, int64_t bytes, std::string_view what) const {
  if (driver::isInHost(address)) {
    HPU_ASSIGN(std::shared_ptr<const void> block, host_.useAddress(address, bytes, what));
    return block;
  }
  HPU_ASSIGN(auto buffer, memory_.find(address, bytes, what));
  return std::shared_ptr<const void>(buffer->allocation());
}

int64_t DeviceState::observedNs() const {
  for (const Observed& entry : observedTimes())
    if (entry.device == id_) return entry.ns;
  return 0;
}

void DeviceState::observe(int64_t ns) const {
  std::vector<Observed>& observed = observedTimes();
  for (Observed& entry : observed) {
    if (entry.device != id_) continue;
    entry.ns = std::max(entry.ns, ns);
    return;
  }
  if (observed.size() >= kMaxObserved) observed.erase(observed.begin());
  observed.push_back({id_, ns});
}

void DeviceState::addStream(const std::shared_ptr<StreamState>& stream) {
  std::lock_guard lock(streamsMutex_);
  std::erase_if(streams_, [](const auto& entry) { return entry.expired(); });
  streams_.push_back(stream);
}

void DeviceState::addOrphan(driver::Ticket last) {
  std::vector<driver::Ticket> ended;
  {
    std::lock_guard lock(streamsMutex_);
    ended = orphans_;
    orphans_.push_back(last);
  }
  ended.push_back(last);
  // Without the lock: at the exit of the process this does work, whose end may come here.
  std::erase_if(ended, [&](driver::Ticket ticket) { return !driver_->done(ticket); });
  std::lock_guard lock(streamsMutex_);
  std::erase_if(orphans_,
                [&](driver::Ticket ticket) { return std::find(ended.begin(), ended.end(), ticket) != ended.end(); });
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
  constexpr std::string_view kCall = "Device::synchronize";
  // Nothing is taken before all is done: a failure would be lost behind the deadline of another stream.
  for (const auto& stream : streams) HPU_RETURN_IF_ERROR(stream->waitAll(deadline.remainingMs(), kCall));
  // The failure of a stream that is gone was logged when it went; only a timeout is news.
  for (driver::Ticket ticket : orphans) {
    if (driver_->done(ticket)) continue;
    HPU_RETURN_IF_ERROR(refuseInCallback(kCall));
    if (Status status = driver_->wait(ticket, deadline.remainingMs()); !driver_->done(ticket)) {
      if (deadlineMs != 0) health_->tell(HealthEvent::Kind::kWaitTooLong, {}, status);
      return status;
    }
  }
  Status first;
  std::vector<Status> told;
  for (const auto& stream : streams) {
    Status status = stream->synchronize(deadline.remainingMs(), kCall);
    if (status.ok()) continue;
    // The same failure, which the stream has because it waited for the other one.
    auto same = [&](const Status& other) { return status.work() && other.work() == status.work(); };
    if (std::any_of(told.begin(), told.end(), same)) continue;
    told.push_back(status);
    if (first.ok())
      first = std::move(status);
    else  // Reported now or never.
      first = Status::because(first, first.code(), base::strCat(first.message(), "; also: ", status.message()));
  }
  return first;
}

Status DeviceState::reset(int64_t deadlineMs) {
  HPU_RETURN_IF_ERROR(refuseEndingInCallback("Device::reset"));
  memory_.resetBegins();
  Status status = driver_->reset(deadlineMs);
  memory_.resetEnds();
  if (status.ok())
    health_->tell(HealthEvent::Kind::kReset, {},
                  cancelled(base::strCat("device ", info().index, " was reset: what was enqueued is gone")));
  else if (status.code() == StatusCode::kDeadlineExceeded)
    health_->tell(HealthEvent::Kind::kWaitTooLong, {}, status);
  return status;
}

Status TicketHandle::wait(int64_t deadlineMs, std::string_view call) const {
  if (currentCallback() != Callback::kNone && !done()) return refuseInCallback(call);
  Status status = device_->driver()->wait(ticket_, deadlineMs);
  if (done()) return okStatus();
  // Not of a wait that only asks.
  if (deadlineMs != 0 && status.code() == StatusCode::kDeadlineExceeded)
    device_->health().tell(HealthEvent::Kind::kWaitTooLong, {}, status);
  return status;
}

StatusOr<int64_t> TicketHandle::observeEndNs() const {
  HPU_ASSIGN(driver::DriverDevice::DeviceSpan span, device_->driver()->deviceSpan(ticket_));
  device_->observe(span.endNs);
  return span.endNs;
}

}  // namespace hpu
