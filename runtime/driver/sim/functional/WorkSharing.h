// SPDX-License-Identifier: Apache-2.0
// WorkSharing: runs numbered blocks on several threads, each starting with its own contiguous
// share. The one thing to know: a thread gets the same share of the same loop every time, so that
// consecutive layers find their data in that core's cache; whoever is done first takes over blocks
// of the others.
#pragma once

#include <cstdint>

#include "base/FunctionRef.h"

namespace hpu::sim {

inline constexpr int kMaxWorkers = 64;

/// Hands out block numbers to one worker.
class BlockCursor {
 public:
  /// The next block, or -1 when none is left.
  int64_t next();

 private:
  friend void shareBlocks(int64_t, int, base::FunctionRef<void(int, BlockCursor&)>);
  struct Shares;
  BlockCursor(Shares& shares, int first) : shares_(shares), share_(first) {}
  Shares& shares_;
  int share_;
  int visited_ = 0;
};

/// Calls body(slot, cursor) on up to min(threads, blocks, kMaxWorkers) threads; the body takes
/// blocks until the cursor is empty. Each slot in [0, threads) is used by one call at a time.
/// Returns when all blocks are done.
void shareBlocks(int64_t blocks, int threads, base::FunctionRef<void(int slot, BlockCursor&)> body);

}  // namespace hpu::sim
