// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/ScratchPool.h"

#include <algorithm>
#include <utility>

namespace hpu::sim {

StatusOr<HostBuffer> ScratchPool::take(uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    for (size_t i = free_.size(); i-- > 0;) {
      if (free_[i].bytes() < bytes) continue;
      HostBuffer found = std::move(free_[i]);
      free_.erase(free_.begin() + static_cast<int64_t>(i));
      return found;
    }
  }
  return HostBuffer::create(bytes);
}

void ScratchPool::give(HostBuffer buffer) {
  HostBuffer dropped;  // Unmapped after the lock.
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
  if (free_.size() <= kMost) return;
  auto smallest = std::min_element(free_.begin(), free_.end(),
                                   [](const HostBuffer& a, const HostBuffer& b) { return a.bytes() < b.bytes(); });
  dropped = std::move(*smallest);
  free_.erase(smallest);
}

}  // namespace hpu::sim
