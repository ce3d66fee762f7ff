// SPDX-License-Identifier: Apache-2.0
// Device: an open HPU. By default a simulated one that computes real numbers and models device
// time. The one thing to know: a Device handle is shared; the device closes when its last handle,
// buffer, stream and executable are gone.
//
//   HPU_ASSIGN(auto device, hpu::Device::open());
//   HPU_ASSIGN(auto buffer, device.allocate(1 << 20));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hpu/host_memory.h"
#include "hpu/memory.h"
#include "hpu/status.h"
#include "hpu/target.h"
#include "hpu/types.h"

namespace hpu {

/// DeviceOptions::index: the first device of the node that nobody uses.
inline constexpr int kAnyDevice = -1;

/// The device address of the first byte of HBM, on every device.
inline constexpr uint64_t kHbmBase = 0x1000000000;

struct DeviceOptions {
  std::string driver = "sim";  ///< "sim", or "null" (accepts everything, computes nothing).
  int index = kAnyDevice;      ///< Which device of the node, 0..7 in the order of PCI addresses.
  int moduleId = -1;           ///< The same by its slot on the board; -1: not by this.
  std::string pciAddress;      ///< The same by "0000:19:00.0" or "19:00.0"; empty: not by this.
  Target target = Target::kGaudi2;
  int64_t hbmBytes = 0;  ///< 0: HPU_SIM_HBM_BYTES, else the target's own capacity.
  int threads = 0;       ///< Host threads for the functional work; 0: HPU_NUM_THREADS, else all cores.
};

struct DeviceInfo {
  std::string driver, name;
  Target target = Target::kGaudi2;
  int index = 0;
  int64_t hbmBytes = 0, sramBytes = 0;
  uint32_t moduleId = 0;   ///< The slot on the node's board.
  std::string pciAddress;  ///< "0000:19:00.0".
};

struct MemoryInfo {
  int64_t totalBytes = 0, usedBytes = 0, peakBytes = 0;
  int64_t largestFreeBytes = 0;
  int64_t allocations = 0, freeBlocks = 0;
  int64_t quarantinedBytes = 0;  ///< Freed and kept from use by the memory checker; part of usedBytes.
  /// 0: what is free is one block; towards 1: it is scattered.
  double fragmentation() const {
    int64_t free = totalBytes - usedBytes;
    return free > 0 ? 1.0 - static_cast<double>(largestFreeBytes) / static_cast<double>(free) : 0.0;
  }
};

/// What the allocations of one label hold together.
struct MemoryHolder {
  std::string label;
  int64_t bytes = 0, peakBytes = 0, allocations = 0;
};

/// Modelled busy nanoseconds by engine since the device was opened, and the device clock.
struct DeviceCounters {
  int64_t busyNs[kNumEngines] = {};
  int64_t deviceNs = 0;
  int64_t launches = 0, commands = 0, h2dBytes = 0, d2hBytes = 0;
};

class DeviceState;

/// Any thread may call anything.
class HPU_API Device {
 public:
  Device();
  ~Device();
  /// A device has one owner process (docs/node.md); opening it again in that process gives the same
  /// device. With kAnyDevice each call takes another one. HPU_ACQUIRE_TIMEOUT_MS waits for a busy
  /// one. Errors: kNotFound (no such driver, index, module id or PCI address), kInvalidArgument,
  /// kUnavailable (in use by another process, which is named), kResourceExhausted (all are, or out
  /// of memory), kFailedPrecondition (open with other options, or of another type).
  static StatusOr<Device> open(const DeviceOptions& options = {});
  static std::vector<std::string> drivers();

  bool valid() const { return state_ != nullptr; }
  const DeviceInfo& info() const;
  /// HBM of at least `bytes` (> 0), aligned to 256 bytes. Freed with the last handle, in order with
  /// the work already enqueued. kResourceExhausted lists the largest holders; `label` names this
  /// one there.
  StatusOr<Buffer> allocate(int64_t bytes, const std::string& label = {});
  StatusOr<Buffer> allocate(int64_t bytes, const AllocateOptions& options);
  /// The live allocation that contains the address. Errors: kNotFound, with the nearest one.
  StatusOr<Buffer> find(uint64_t address) const;

  /// Host memory, see host_memory.h.
  StatusOr<HostMemory> allocateHost(int64_t bytes, const std::string& label = {});
  Status freeHost(const void* data);
  Status mapHost(void* data, int64_t bytes, const std::string& label = {});
  Status unmapHost(const void* data);
  StatusOr<HostMemory> findHost(const void* data) const;

  /// A descriptor of the file that holds the device's memory (the caller's to close), for mapping
  /// [address, address + bytes), which lies at offset address - kHbmBase. Nothing orders such accesses
  /// with streams. Errors: kNotFound, kOutOfRange (no live allocation has the range), kUnimplemented
  /// (a device without memory), kResourceExhausted.
  StatusOr<int> memoryFile(uint64_t address, int64_t bytes) const;
  /// For external work, which writes by itself: whether the host has memory for the range's bytes (a
  /// simulated device takes it when a page is first written). Errors: kResourceExhausted, naming the
  /// budget (HPU_SIM_HOST_BYTES); kOutOfRange; kFailedPrecondition (an empty Device).
  Status checkWrite(uint64_t address, int64_t bytes) const;

  MemoryInfo memoryInfo() const;
  /// By label, the largest first; the runtime's own (constants, workspaces) as well.
  std::vector<MemoryHolder> memoryHolders() const;
  DeviceCounters counters() const;
  /// A number that changes when the device finishes work, and with each call while it is inside of
  /// some. Does not look at the device clock and takes no lock: for who watches whether it goes on.
  uint64_t workDone() const;
  /// Waits for all streams. Errors: the sticky errors of streams, with the code of the first;
  /// kDeadlineExceeded.
  Status synchronize(int64_t deadlineMs = -1);
  /// Makes a failed or stuck device usable again: drops all queued work, interrupts what runs, and
  /// forgets the errors of all streams. Memory, its contents, streams and executables stay valid.
  /// Errors: kDeadlineExceeded (work that does not end is named; deadlineMs < 0:
  /// HPU_WAIT_TIMEOUT_MS).
  Status reset(int64_t deadlineMs = -1);

  const std::shared_ptr<DeviceState>& state() const { return state_; }
  explicit Device(std::shared_ptr<DeviceState> state);

 private:
  std::shared_ptr<DeviceState> state_;
};

}  // namespace hpu
