// SPDX-License-Identifier: Apache-2.0
// HostPages: pages of host memory that the runtime has mapped, and the file behind them, by which others map the same.
// The one thing to know: behind the last page lies one more that can be read, so that what reads a whole vector at the
// end of a tensor does not fault.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hpu/status.h"

namespace hpu {

/// Owns its mapping and its descriptor.
class HostPages {
 public:
  /// Zeros, at least `bytes` (> 0) of them, in a memory file of their own that nobody can shrink. Without a file when
  /// kMostFiles of the process have one, or it has no descriptor left. Errors: kResourceExhausted.
  static StatusOr<HostPages> create(int64_t bytes);
  /// [offset, offset + bytes) of a file, shared. Errors: as Device::importHost.
  static StatusOr<HostPages> import(int fd, int64_t offset, int64_t bytes);

  HostPages() = default;  ///< None.
  ~HostPages();
  HostPages(HostPages&& other) noexcept;
  HostPages& operator=(HostPages&& other) noexcept;

  void* data() const { return data_; }
  /// -1: there is none.
  int file() const { return file_; }
  /// Of the first byte, in the file.
  int64_t offset() const { return offset_; }

  /// A descriptor a block would else be all that a program of many small blocks may have.
  static constexpr int kMostFiles = 256;

 private:
  HostPages(std::byte* data, size_t mapped) : data_(data), mapped_(mapped) {}
  static StatusOr<HostPages> reserve(int64_t bytes, int protection);
  bool mapFile(int fd, int64_t offset, int64_t bytes);

  std::byte* data_ = nullptr;
  size_t mapped_ = 0;  ///< Bytes, with the page behind.
  int file_ = -1;
  int64_t offset_ = 0;
};

}  // namespace hpu
