// SPDX-License-Identifier: Apache-2.0
// DeviceState: what Device handles, buffers, streams and executables of one open device share.
// The one thing to know: each host thread carries the latest device time that it has observed, and
// what it submits starts no earlier.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/BackgroundThread.h"
#include "base/ProcessOwned.h"
#include "hpu/device.h"
#include "hpu/status.h"
#include "runtime/device/Health.h"
#include "runtime/driver/Driver.h"
#include "runtime/memory/DeviceMemory.h"
#include "runtime/memory/HostRegistry.h"

namespace hpu {

class HostCalls;
class MemoryPoolState;
class StreamState;

/// Any thread may call anything.
class DeviceState : public std::enable_shared_from_this<DeviceState> {
 public:
  /// The device as it is open in this process, or newly opened. Errors: as Device::open.
  static StatusOr<std::shared_ptr<DeviceState>> open(const DeviceOptions& options);
  explicit DeviceState(std::shared_ptr<driver::DriverDevice> driver);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  /// Errors: kFailedPrecondition in a forked child of the process that opened it, where its locks may be held by
  /// threads that are not there. First of all in every call that comes from outside.
  Status checkProcess() const;

  const DeviceInfo& info() const { return driver_->info(); }
  const std::shared_ptr<driver::DriverDevice>& driver() const { return driver_; }
  DeviceMemory& memory() { return memory_; }
  HostRegistry& host() { return host_; }
  Health& health() { return *health_; }
  /// The owner of memory that work on the device may use, which the work keeps: a Buffer's, or host memory with a
  /// device address. Errors: as DeviceMemory::find.
  StatusOr<std::shared_ptr<const void>> owner(uint64_t address, int64_t bytes, std::string_view what) const;
  const std::shared_ptr<HostCalls>& hostCalls() const { return hostCalls_; }

  /// For what is made ahead of its use.
  base::BackgroundThread& background() { return background_; }

  /// The pool of Stream::allocate, made with the first call.
  StatusOr<std::shared_ptr<MemoryPoolState>> defaultPool();

  /// Latest device time in nanoseconds that the calling thread has observed on this device; 0 at
  /// first.
  int64_t observedNs() const;
  /// The calling thread has observed `ns`.
  void observe(int64_t ns) const;

  void addStream(const std::shared_ptr<StreamState>& stream);
  /// A stream is gone whose last work may still run.
  void addOrphan(driver::Ticket last);
  /// As Device::synchronize and Device::reset.
  Status synchronize(int64_t deadlineMs);
  Status reset(int64_t deadlineMs);

 private:
  /// Without waiting for a device that is in use.
  static StatusOr<std::shared_ptr<DeviceState>> tryOpen(const driver::DriverEntry& entry, const DeviceOptions& options,
                                                        int index);

  const base::Birthplace birthplace_;
  const std::shared_ptr<Health> health_ = std::make_shared<Health>();  // Shared with the driver's work.
  const std::shared_ptr<HostCalls> hostCalls_;                         // Outlives the driver, whose work ends on it.
  const std::shared_ptr<driver::DriverDevice> driver_;
  const uint64_t id_;  ///< Unique in the process.
  DeviceMemory memory_;
  HostRegistry host_;

  std::mutex poolMutex_;
  std::shared_ptr<MemoryPoolState> defaultPool_;  // Guarded by poolMutex_; goes before the memory.

  std::mutex streamsMutex_;  // Guards the two lists.
  std::vector<std::weak_ptr<StreamState>> streams_;
  std::vector<driver::Ticket> orphans_;

  base::BackgroundThread background_{"hpu-ahead"};
};

/// One ticket and the promise to the driver that nobody asks about it once this is gone.
class TicketHandle {
 public:
  /// Of no ticket (0) until is() is called, before anybody else has the handle: so that nothing can
  /// fail once the work is submitted.
  TicketHandle(std::shared_ptr<DeviceState> device, driver::Ticket ticket)
      : device_(std::move(device)), ticket_(ticket) {}
  void is(driver::Ticket ticket) { ticket_ = ticket; }
  ~TicketHandle() {
    if (ticket_) device_->driver()->forget(ticket_);
  }
  TicketHandle(const TicketHandle&) = delete;
  TicketHandle& operator=(const TicketHandle&) = delete;
  const std::shared_ptr<DeviceState>& device() const { return device_; }
  driver::Ticket ticket() const { return ticket_; }

  bool done() const { return device_->driver()->done(ticket_); }
  bool seen() const { return device_->driver()->seen(ticket_); }
  /// What it failed with, when it is done; ok when it is not.
  Status failure() const { return device_->driver()->failure(ticket_); }
  /// Waits until it is done, whether it failed or not; `call` is the caller's, for errors. Errors: kDeadlineExceeded, a
  /// bad setting, kFailedPrecondition (not done, and the thread is inside of a callback: Callback.h).
  Status wait(int64_t deadlineMs, std::string_view call) const;
  /// Device time at its end; the calling thread has observed it then. It must be done.
  StatusOr<int64_t> observeEndNs() const;

 private:
  const std::shared_ptr<DeviceState> device_;
  driver::Ticket ticket_;
};

}  // namespace hpu
