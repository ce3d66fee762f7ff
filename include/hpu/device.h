// SPDX-License-Identifier: Apache-2.0
// Device: an open HPU. By default a simulated one that computes real numbers and models device
// time. The one thing to know: a Device handle is shared; the device closes when its last handle,
// buffer, stream and executable are gone.
//
//   HPU_ASSIGN(auto device, hpu::Device::open());
//   HPU_ASSIGN(auto buffer, device.allocate(1 << 20));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// What a host thread does that waits for a device's work.
enum class WaitPolicy : uint8_t {
  kDefault,  ///< HPU_WAIT_POLICY, else kHelp.
  kHelp,     ///< Works for the device meanwhile, and sleeps when there is nothing to do.
  kBlock,    ///< Sleeps at once: the core is somebody else's.
  kSpin,     ///< Looks again and again, and never sleeps: the least latency, for a core of its own.
  kYield,    ///< As kSpin, and offers the core to other threads between two looks.
};

struct DeviceOptions {
  std::string driver = "sim";  ///< "sim", or "null" (accepts everything, computes nothing).
  int index = kAnyDevice;      ///< Which device of the node, 0..7 in the order of PCI addresses.
  int moduleId = -1;           ///< The same by its slot on the board; -1: not by this.
  std::string pciAddress;      ///< The same by "0000:19:00.0" or "19:00.0"; empty: not by this.
  Target target = Target::kGaudi2;
  int64_t hbmBytes = 0;  ///< 0: HPU_SIM_HBM_BYTES, else the target's own capacity.
  int threads = 0;       ///< Host threads for the functional work; 0: HPU_NUM_THREADS, else all cores.
  WaitPolicy wait = WaitPolicy::kDefault;  ///< Of an open device its first opening's counts.
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

/// Something that somebody who looks after a device or a job should hear of (Device::setHealthHook).
struct HealthEvent {
  enum class Kind : uint8_t {
    kWorkFailed,      ///< Work of a stream failed; `status` is what its synchronize will say.
    kReset,           ///< The device was reset; what was enqueued is gone.
    kOutOfMemory,     ///< An allocation failed.
    kHostMemoryFull,  ///< A write found no memory of the host behind the device's (HPU_SIM_HOST_BYTES).
    kWaitTooLong,     ///< A wait came to its deadline; not of one that only asks (0 ms).
    kRankLost,        ///< A communicator on the device has failed; of an idle one, when asyncError() finds it.
  };
  Kind kind = Kind::kWorkFailed;
  std::string source;  ///< The stream, the label of memory, the communicator; may be empty.
  Status status;       ///< Never ok.
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
  static StatusOr<Device> open(const DeviceOptions& options = {}) { return open(options, sizeof(DeviceOptions)); }
  /// The same for a caller whose DeviceOptions has so many bytes (docs/versioning.md).
  static StatusOr<Device> open(const DeviceOptions& options, size_t optionsBytes);
  static std::vector<std::string> drivers();
  /// How many devices the node has, whoever uses them (HPU_NODE, docs/node.md). Errors: as node::query.
  static StatusOr<int> count();

  bool valid() const { return state_ != nullptr; }
  const DeviceInfo& info() const;
  /// HBM of at least `bytes` (> 0), aligned to 256 bytes. Freed with the last handle, in order with
  /// the work already enqueued. kResourceExhausted lists the largest holders; `label` names this
  /// one there.
  StatusOr<Buffer> allocate(int64_t bytes, const std::string& label = {});
  StatusOr<Buffer> allocate(int64_t bytes, const AllocateOptions& options) {
    return allocate(bytes, options, sizeof(AllocateOptions));
  }
  StatusOr<Buffer> allocate(int64_t bytes, const AllocateOptions& options, size_t optionsBytes);
  /// The live allocation that contains the address. Errors: kNotFound, with the nearest one.
  StatusOr<Buffer> find(uint64_t address) const;

  /// Host memory, see host_memory.h.
  StatusOr<HostMemory> allocateHost(int64_t bytes, const std::string& label = {});
  Status freeHost(const void* data);
  Status mapHost(void* data, int64_t bytes, const std::string& label = {});
  Status unmapHost(const void* data);
  StatusOr<HostMemory> findHost(const void* data) const;
  /// Maps [offset, offset + bytes) of a file that can be shared (memfd_create, shm_open, another device's or process's
  /// exportHost) for host and device; `offset` is a multiple of the page size. The descriptor stays the caller's, and
  /// may be closed. unmapHost ends it. Errors: kInvalidArgument (no file, or none that can be mapped), kOutOfRange (it
  /// is shorter), kResourceExhausted.
  StatusOr<HostMemory> importHost(int fd, int64_t offset, int64_t bytes, const std::string& label = {});
  /// A descriptor (the caller's to close) of the file behind the memory of allocateHost or importHost that contains
  /// `data`, and where in it that memory begins. Errors: kNotFound, kUnimplemented (the program's own memory, mapped by
  /// mapHost: it has no file), kResourceExhausted (the process has too many such files).
  struct SharedFile {
    int fd = -1;
    int64_t offset = 0, bytes = 0;
  };
  StatusOr<SharedFile> exportHost(const void* data) const;

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
  /// From now on peaks, of the device and of each label, count from what is used now.
  void resetPeakMemory();
  /// In place of those before; an empty MemoryHooks ends them. Calls that have begun go on.
  Status setMemoryHooks(MemoryHooks hooks);
  /// In place of the one before; an empty function ends it. Called on the thread that found out, without locks, soon
  /// after it happened; a wait for work of a device, or a reset, is refused in it (kFailedPrecondition), and what it
  /// throws is logged. Calls that have begun go on.
  Status setHealthHook(std::function<void(const HealthEvent&)> hook);
  /// By label, the largest first; the runtime's own (constants, workspaces) as well.
  std::vector<MemoryHolder> memoryHolders() const;
  DeviceCounters counters() const;
  /// A number that changes when the device finishes work, and with each call while it is inside of
  /// some. Does not look at the device clock and takes no lock: for who watches whether it goes on.
  uint64_t workDone() const;
  /// Waits for all streams. Errors: the sticky errors of streams, with the code of the first;
  /// kDeadlineExceeded; kFailedPrecondition (in a capture of the calling thread; work is not done and the call comes
  /// from a function or hook that the runtime calls, which the work may wait for).
  Status synchronize(int64_t deadlineMs = -1);
  /// Makes a failed or stuck device usable again: drops all queued work, interrupts what runs, and
  /// forgets the errors of all streams. Memory, its contents, streams and executables stay valid, and captures go on:
  /// nothing of them is enqueued. Errors: kDeadlineExceeded (work that does not end is named; deadlineMs < 0:
  /// HPU_WAIT_TIMEOUT_MS); kFailedPrecondition, and nothing is reset: inside of a function or hook that the runtime
  /// calls (it would wait for itself; tell another thread), and on a thread that captures a stream of the device (the
  /// capture fails, too).
  Status reset(int64_t deadlineMs = -1);

  const std::shared_ptr<DeviceState>& state() const { return state_; }
  explicit Device(std::shared_ptr<DeviceState> state);

 private:
  std::shared_ptr<DeviceState> state_;
};

}  // namespace hpu
