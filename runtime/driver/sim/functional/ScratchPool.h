// SPDX-License-Identifier: Apache-2.0
// ScratchPool: memory that runs of a program and of its instances work in, taken for a run and given back after it, so
// that new sizes find memory that is mapped already.
// The one thing to know: what a run finds in it is undefined.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "hpu/status.h"
#include "runtime/driver/sim/functional/HostBuffer.h"

namespace hpu::sim {

/// Any thread may call.
class ScratchPool {
 public:
  /// At least `bytes` bytes. Errors: HostBuffer::create's.
  StatusOr<HostBuffer> take(uint64_t bytes);
  /// Keeps it for others; of more than a few, the largest ones.
  void give(HostBuffer buffer);

 private:
  static constexpr size_t kMost = 2;
  std::mutex mutex_;
  std::vector<HostBuffer> free_;  // Guarded by mutex_.
};

}  // namespace hpu::sim
