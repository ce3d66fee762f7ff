// SPDX-License-Identifier: Apache-2.0
// HostBytes: host memory that starts as zero and takes pages only where it is written.
// The one thing to know: a const section whose tensors lie far apart costs what its tensors take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/Format.h"
#include "hpu/status.h"

namespace hpu::synapse {

/// Movable; thread-compatible.
class HostBytes {
 public:
  HostBytes() = default;
  /// Errors: kResourceExhausted.
  static StatusOr<HostBytes> zeroed(uint64_t bytes) {
    HostBytes result;
    result.data_.reset(static_cast<std::byte*>(std::calloc(bytes ? bytes : 1, 1)));
    if (!result.data_)
      return resourceExhausted("the host has no " + base::formatBytes(static_cast<int64_t>(bytes)) + " of memory");
    result.bytes_ = bytes;
    return result;
  }
  static StatusOr<HostBytes> copyOf(const void* from, uint64_t bytes) {
    StatusOr<HostBytes> result = zeroed(bytes);
    if (result.ok() && bytes) std::memcpy(result->data(), from, bytes);
    return result;
  }

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  uint64_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  uint64_t bytes_ = 0;
};

}  // namespace hpu::synapse
