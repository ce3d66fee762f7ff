// SPDX-License-Identifier: Apache-2.0
// Places buffers with known live ranges into one address space: a pure library without MLIR.
// The one thing to know: two buffers whose live ranges meet never share a byte.
#pragma once

#include <cstdint>
#include <vector>

namespace hpu::memory {

struct Buffer {
  int64_t bytes = 0;
  /// First and last step (both inclusive) at which the buffer is in use.
  int64_t begin = 0, end = 0;
};

struct Plan {
  std::vector<int64_t> offsets;  ///< By buffer; multiples of the alignment.
  int64_t bytes = 0;             ///< High-water mark.
  int64_t largestLiveSet = 0;    ///< The most that is alive at one step, aligned sizes: a lower bound of `bytes`.
};

/// Largest-first, best gap. `reuse` false puts every buffer behind the other.
Plan planBuffers(const std::vector<Buffer>& buffers, int64_t alignment, bool reuse = true);

}  // namespace hpu::memory
