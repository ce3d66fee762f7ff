// SPDX-License-Identifier: Apache-2.0
// PreparedWeights: constant weights that were packed for the host's kernels, once for all programs that have the same
// constants: the instances of a recipe of free dimensions.
// The one thing to know: it keeps nothing alive; packed weights live as long as a unit has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/FunctionRef.h"
#include "hpu/status.h"
#include "runtime/driver/sim/functional/HostBuffer.h"

namespace hpu::sim {

/// Any thread may call.
class PreparedWeights {
 public:
  /// `bytes` bytes that `fill` has written for the key, now or for another unit. Equal keys mean equal bytes.
  /// `fill` may use the threads of the process: no lock is held. Errors: HostBuffer::create's.
  StatusOr<std::shared_ptr<const HostBuffer>> get(const std::vector<int64_t>& key, uint64_t bytes,
                                                  base::FunctionRef<void(std::byte*)> fill);

 private:
  std::shared_ptr<const HostBuffer> find(const std::vector<int64_t>& key) const;

  mutable std::mutex mutex_;
  std::map<std::vector<int64_t>, std::weak_ptr<const HostBuffer>> known_;  // Guarded by mutex_.
};

}  // namespace hpu::sim
