// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/PreparedWeights.h"

#include <utility>

#include "base/StatusMacros.h"

namespace hpu::sim {

/// With the mutex held.
std::shared_ptr<const HostBuffer> PreparedWeights::find(const std::vector<int64_t>& key) const {
  auto it = known_.find(key);
  return it == known_.end() ? nullptr : it->second.lock();
}

StatusOr<std::shared_ptr<const HostBuffer>> PreparedWeights::get(const std::vector<int64_t>& key, uint64_t bytes,
                                                                 base::FunctionRef<void(std::byte*)> fill) {
  {
    std::lock_guard lock(mutex_);
    if (auto known = find(key)) return known;
  }
  HPU_ASSIGN(HostBuffer made, HostBuffer::create(bytes));
  fill(made.data());
  auto buffer = std::make_shared<const HostBuffer>(std::move(made));
  std::lock_guard lock(mutex_);
  if (auto known = find(key)) return known;  // Another thread was first.
  std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
  known_[key] = buffer;
  return buffer;
}

}  // namespace hpu::sim
