// SPDX-License-Identifier: Apache-2.0
// HostBuffer: page-aligned scratch memory of the functional executor, touched only where it is
// used. The one thing to know: it starts as zeros, and pages that are never touched cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "hpu/status.h"

namespace hpu::sim {

class HostBuffer {
 public:
  HostBuffer() = default;
  /// An anonymous mapping (huge pages where the system offers them). 0 bytes: an empty buffer.
  /// Errors: kResourceExhausted.
  static StatusOr<HostBuffer> create(uint64_t bytes);
  ~HostBuffer();
  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void swap(HostBuffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

/// Hands out 64-byte aligned pieces of a scratch area: sizes are added up at create, offsets used
/// at run.
class ScratchLayout {
 public:
  /// Offset of a new piece of `bytes` bytes.
  uint64_t add(uint64_t bytes) {
    uint64_t offset = bytes_;
    bytes_ += (bytes + 63) & ~uint64_t{63};
    return offset;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_ = 0;
};

}  // namespace hpu::sim
