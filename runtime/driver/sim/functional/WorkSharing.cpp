// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/functional/WorkSharing.h"

#include <algorithm>
#include <atomic>

#include "base/ExitGate.h"
#include "base/Parallel.h"

namespace hpu::sim {

struct BlockCursor::Shares {
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  Share shares[kMaxWorkers];
  int count = 0;
};

int64_t BlockCursor::next() {
  if (base::isCutShortByExit()) return -1;
  while (visited_ < shares_.count) {
    Shares::Share& share = shares_.shares[share_];
    // Reading first keeps an exhausted share's counter from growing.
    if (share.next.load(std::memory_order_relaxed) < share.end) {
      int64_t block = share.next.fetch_add(1, std::memory_order_relaxed);
      if (block < share.end) return block;
    }
    share_ = share_ + 1 == shares_.count ? 0 : share_ + 1;
    ++visited_;
  }
  return -1;
}

void shareBlocks(int64_t blocks, int threads, base::FunctionRef<void(int, BlockCursor&)> body) {
  if (blocks <= 0) return;
  int workers = static_cast<int>(std::min<int64_t>({blocks, std::max(threads, 1), kMaxWorkers}));
  BlockCursor::Shares shares;
  shares.count = workers;
  for (int i = 0; i < workers; ++i) {
    shares.shares[i].next.store(blocks * i / workers, std::memory_order_relaxed);
    shares.shares[i].end = blocks * (i + 1) / workers;
  }
  if (workers == 1) {
    BlockCursor cursor(shares, 0);
    body(0, cursor);
    return;
  }
  base::parallelFor(workers, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      BlockCursor cursor(shares, base::threadIndex() % workers);
      body(static_cast<int>(slot), cursor);
    }
  });
}

}  // namespace hpu::sim
