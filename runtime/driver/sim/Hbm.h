// SPDX-License-Identifier: Apache-2.0
// Hbm: a simulated device's memory, a sparse file in memory mapped at its full capacity.
// The one thing to know: only pages that were written cost host memory; what was never written is not read through the
// mapping, because reading a hole there would allocate it. Memory of the program is only touched by the kernel.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hpu/status.h"
#include "runtime/driver/Driver.h"

namespace hpu::driver {

/// Any thread may call; bytes are guarded by the order of the queues.
class Hbm {
 public:
  /// Maps `bytes` (> 0, rounded up to a page), all zero. Errors: kInvalidArgument,
  /// kResourceExhausted.
  /// At most `hostBudget` bytes of it may be written; 0: no limit. `available` says what the host
  /// can give now (-1: not known), and is asked again as memory is written, because other devices
  /// and processes take from the same; empty: the budget alone counts.
  static StatusOr<std::unique_ptr<Hbm>> create(int64_t bytes, int64_t hostBudget = 0,
                                               std::function<int64_t()> available = {});
  ~Hbm();
  Hbm(const Hbm&) = delete;
  Hbm& operator=(const Hbm&) = delete;

  /// Device addresses start here, so that 0 and small numbers are never valid.
  static constexpr DeviceAddress kBase = kHbmBase;

  int64_t bytes() const { return bytes_; }
  /// The file behind it, which other processes may map; it stays the object's.
  int file() const { return fd_; }
  bool contains(DeviceAddress address, int64_t bytes) const;
  /// Host address of a device address that the memory contains.
  std::byte* at(DeviceAddress address) const { return data_ + (address - kBase); }

  /// The kernel copies, so host memory that is not there, or goes meanwhile, is an error; a part may be copied then.
  /// Errors: kNotFound (host memory that may not be touched), kResourceExhausted (the host has no pages).
  Status copyIn(DeviceAddress dst, const void* src, int64_t bytes);
  /// As copyIn. Reading takes no memory of the host.
  Status copyOut(void* dst, DeviceAddress src, int64_t bytes) const;
  /// Overlapping ranges are fine. Of those, what was never written becomes zeros that take memory.
  void move(DeviceAddress dst, DeviceAddress src, int64_t bytes);
  /// Repeats the low `elementBytes` (1, 2 or 4) bytes of `value`, little-endian; `bytes` is a
  /// multiple of them.
  void fill(DeviceAddress dst, uint32_t value, int64_t bytes, int elementBytes = 1);
  /// What was never written of the range becomes zeros that take memory of the host, so that accesses through the
  /// mapping find it. Errors: kResourceExhausted.
  Status populate(DeviceAddress address, int64_t bytes);
  /// Zeroes the range, and nothing else. That takes no memory of the host: what was never written stays so, and whole
  /// pages of a large range are given back. Errors: kOutOfRange.
  Status clear(DeviceAddress address, int64_t bytes);
  /// Gives the pages inside of the range back to the host; its bytes read as zero then.
  Status discard(DeviceAddress address, int64_t bytes);
  /// Fills what was written in the range with 0xff; the rest stays unwritten.
  Status poison(DeviceAddress address, int64_t bytes);

  /// Host memory that the device holds.
  int64_t residentBytes() const;
  /// Is there host memory for writing the range (or reading it through its mapping)? Errors: kResourceExhausted, naming
  /// the budget.
  Status checkBudget(DeviceAddress address, int64_t bytes) const;

 private:
  Hbm(int fd, std::byte* data, int64_t bytes, int64_t hostBudget, std::function<int64_t()> available);
  void zero(int64_t offset, int64_t bytes);
  void zeroData(int64_t offset, int64_t bytes);
  int64_t nextData(int64_t offset, int64_t end) const;
  int64_t nextHole(int64_t offset, int64_t end) const;
  int fd_;
  std::byte* data_;
  int64_t bytes_;
  const pid_t process_;  ///< In which it is mapped.
  const int64_t hostBudget_;
  const std::function<int64_t()> available_;
  mutable std::atomic<int64_t> sinceLook_{0};  ///< Bytes written since available_ was asked.
  mutable std::atomic<int64_t> credit_{0};     ///< Bytes that small writes may take before somebody looks again.
};

/// As Hbm::fill, of memory of the host.
void fillMemory(std::byte* begin, uint32_t value, int64_t bytes, int elementBytes);

/// Host memory that one device may take: HPU_SIM_HOST_BYTES, else what is available now (to the
/// system and the control group) less an eighth. 0 when that is not known. Errors: a bad setting.
StatusOr<int64_t> hostMemoryBudget();
/// What a device may still take of the host now, as above, when HPU_SIM_HOST_BYTES does not say how
/// much; -1: not known.
int64_t availableHostMemory();
/// What the processes of a control group (version 2; its folder) may still take together; -1: it
/// has no limit. Cached files count as free.
int64_t groupMemoryLeft(const std::string& folder);

}  // namespace hpu::driver
