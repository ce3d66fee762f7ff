// SPDX-License-Identifier: Apache-2.0
// HostRegistry: the host memory that a device knows, by address.
// The one thing to know: enqueued copies own the blocks they touch, so allocated memory is given
// back only when they are done, and mapped memory cannot be unmapped before.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "hpu/host_memory.h"
#include "hpu/status.h"

namespace hpu {

/// Gives the memory back at its end when it was allocated.
class HostBlock {
 public:
  explicit HostBlock(HostMemory memory) : memory_(std::move(memory)) {}
  ~HostBlock();
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  const HostMemory& memory() const { return memory_; }

 private:
  const HostMemory memory_;
};

/// Any thread may call anything.
class HostRegistry {
 public:
  /// Errors: kInvalidArgument, kResourceExhausted.
  StatusOr<HostMemory> allocate(int64_t bytes, const std::string& label);
  /// Errors: kNotFound (not the start of allocated memory).
  Status free(const void* data);
  /// Errors: kInvalidArgument, kAlreadyExists (overlaps what is known).
  Status map(void* data, int64_t bytes, const std::string& label);
  /// Errors: kNotFound (not the start of mapped memory), kFailedPrecondition (enqueued copies use
  /// it).
  Status unmap(const void* data);
  /// Errors: kNotFound.
  StatusOr<HostMemory> find(const void* data) const;

  /// The block that a copy touches; null when the range is not known here. Errors: kOutOfRange (it
  /// passes the end of allocated memory).
  StatusOr<std::shared_ptr<const HostBlock>> use(const void* data, int64_t bytes, std::string_view what) const;

 private:
  using Blocks = std::map<uintptr_t, std::shared_ptr<const HostBlock>>;
  Blocks::const_iterator containing(uintptr_t address) const;

  mutable std::mutex mutex_;      // Guards blocks_.
  Blocks blocks_;                 ///< By address; they do not overlap.
  std::atomic<size_t> count_{0};  ///< Of blocks_: at 0 a caller need not take the lock.
};

}  // namespace hpu
