// SPDX-License-Identifier: Apache-2.0
// Places buffers with known live ranges into one address space: a pure library without MLIR.
// The one thing to know: two buffers whose live ranges meet never share a byte.
#pragma once

#include <cstdint>
#include <vector>

namespace hpu::plan {

struct Buffer {
  int64_t bytes = 0;
  /// First and last step (both inclusive) at which the buffer is in use.
  int64_t begin = 0, end = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  ///< By buffer; multiples of the alignment.
  int64_t bytes = 0;             ///< High-water mark.
  int64_t largestLiveSet = 0;    ///< The most that is alive at one step, aligned sizes: a lower bound of `bytes`.
  int64_t tries = 0;             ///< Orders in which buffers were placed until this plan was the best one.
};

/// Best gap in several orders (by size, by size times life, by time, by the crowd around a buffer), then a search: what
/// sticks out at the top is placed earlier. It stops at the largest live set, or after a number of tries that depends
/// on the number of buffers alone, so the same buffers always get the same plan. `reuse` false puts every buffer behind
/// the other. Within `enough` bytes the first plan is taken. `search` false: none but those orders are tried.
Placement placeBuffers(const std::vector<Buffer>& buffers, int64_t alignment, bool reuse = true, int64_t enough = 0,
                       bool search = true);

/// The most bytes (in aligned sizes) that are alive at one step.
int64_t largestLiveSet(const std::vector<Buffer>& buffers, int64_t alignment);

}  // namespace hpu::plan
