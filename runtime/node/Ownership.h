// SPDX-License-Identifier: Apache-2.0
// Ownership: acquiring a device of the node for this process, and answering for it.
// The one thing to know: one process owns a device; its death frees it at once, whatever kills it,
// and nothing is left anywhere that could be stale.
//
//   HPU_ASSIGN(auto owned, node::acquire(options));
//   owned->serve(&reporter, {hbmFile, base, bytes});
#pragma once

#include <cstdint>
#include <memory>

#include "base/Deadline.h"
#include "hpu/device.h"
#include "hpu/node.h"
#include "hpu/status.h"

namespace hpu::node {

/// What the service asks of an open device, on its own thread: both must be short, and must neither
/// open nor close a device.
class DeviceReporter {
 public:
  virtual ~DeviceReporter() = default;
  /// Fills in memory, counters, owner.usedBytes and owner.streams, queuedWork, faults, lost and
  /// lastError; the rest is filled in.
  virtual void report(DeviceStatus& status) = 0;
  virtual Status inject(Fault fault, int count) = 0;
};

/// A device's memory as a file that peers can map; fd < 0: there is none. The file stays the
/// caller's.
struct SharedMemory {
  int fd = -1;
  uint64_t base = 0;  ///< Device address of its first byte.
  int64_t bytes = 0;
};

/// A device that this process owns until the object goes. Any thread may call anything.
class OwnedDevice {
 public:
  OwnedDevice(int index, uint64_t key) : index_(index), key_(key) {}
  ~OwnedDevice();
  OwnedDevice(const OwnedDevice&) = delete;
  OwnedDevice& operator=(const OwnedDevice&) = delete;
  int index() const { return index_; }
  /// `reporter` answers from now on.
  void serve(DeviceReporter* reporter, const SharedMemory& memory);
  /// No call of the reporter runs on return; the device stays owned.
  void stopServing();

 private:
  const int index_;
  const uint64_t key_;
};

/// Takes the device that the options name, or with kAnyDevice the first free one, without waiting.
/// Errors: kNotFound, kInvalidArgument (the options, a bad setting), kFailedPrecondition
/// (HPU_NODE_TARGET), kUnavailable (that device is taken: by whom and what to do),
/// kResourceExhausted (all are: by whom), kInternal (the system refuses sockets).
StatusOr<std::unique_ptr<OwnedDevice>> acquire(const DeviceOptions& options);

/// Waits until acquire() may succeed. Errors: kDeadlineExceeded and those of acquire.
Status waitUntilFree(const DeviceOptions& options, const base::Deadline& deadline);

/// The process that owns the device, perhaps while it is closing it; 0: nobody, -1: not known.
int64_t ownerPid(int index);

}  // namespace hpu::node
