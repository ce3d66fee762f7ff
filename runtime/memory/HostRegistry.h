// SPDX-License-Identifier: Apache-2.0
// HostRegistry: the host memory that a device knows, by address.
// The one thing to know: enqueued work owns the blocks it touches, so allocated memory is given
// back only when it is done, and mapped memory cannot be unmapped before.
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
#include "runtime/memory/HostPages.h"

namespace hpu {

/// Gives the pages back at its end, when they are the runtime's.
class HostBlock {
 public:
  HostBlock(HostMemory memory, HostPages pages) : memory_(std::move(memory)), pages_(std::move(pages)) {}
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  const HostMemory& memory() const { return memory_; }
  const HostPages& pages() const { return pages_; }
  /// Allocated or imported; else the program's, of which the registry knows a part.
  bool isWhole() const { return pages_.data() != nullptr; }

 private:
  const HostMemory memory_;
  const HostPages pages_;  ///< None: the program's own memory.
};

/// Any thread may call anything.
class HostRegistry {
 public:
  /// Errors: kInvalidArgument, kResourceExhausted.
  StatusOr<HostMemory> allocate(int64_t bytes, const std::string& label);
  /// Errors: kNotFound (not the start of allocated memory).
  Status free(const void* data);
  /// As Device::importHost.
  StatusOr<HostMemory> import(int fd, int64_t offset, int64_t bytes, const std::string& label);
  /// Errors: kInvalidArgument, kAlreadyExists (overlaps what is known).
  Status map(void* data, int64_t bytes, const std::string& label);
  /// Errors: kNotFound (not the start of mapped memory), kFailedPrecondition (enqueued work uses it).
  Status unmap(const void* data);
  /// Errors: kNotFound.
  StatusOr<HostMemory> find(const void* data) const;
  /// As Device::exportHost.
  struct Exported {
    int fd = -1;
    int64_t offset = 0, bytes = 0;
  };
  StatusOr<Exported> share(const void* data) const;

  /// The block that a copy touches; null when the range is not known here. Errors: kOutOfRange (it
  /// passes the end of allocated or imported memory).
  StatusOr<std::shared_ptr<const HostBlock>> use(const void* data, int64_t bytes, std::string_view what) const;

  /// The block in which a range of device addresses lies (driver/HostWindow.h). Errors: kNotFound, kOutOfRange; `what`
  /// begins the message.
  StatusOr<std::shared_ptr<const HostBlock>> useAddress(uint64_t address, int64_t bytes, std::string_view what) const;

 private:
  using Blocks = std::map<uintptr_t, std::shared_ptr<const HostBlock>>;
  Blocks::const_iterator containing(uintptr_t address) const;
  StatusOr<HostMemory> add(HostPages pages, int64_t bytes, bool allocated, const std::string& label);

  mutable std::mutex mutex_;      // Guards blocks_.
  Blocks blocks_;                 ///< By address; they do not overlap.
  std::atomic<size_t> count_{0};  ///< Of blocks_: at 0 a caller need not take the lock.
};

}  // namespace hpu
