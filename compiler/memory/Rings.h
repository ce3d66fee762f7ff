// SPDX-License-Identifier: Apache-2.0
// Places the SRAM tiles of bundles and of chains.
// The one thing to know: tiles that do not fit beside those of the next bundle share bytes with them. That is safe (the
// waits come from the bytes), it only costs the overlap of the two bundles, and it is said. Tiles of one chain never
// do.
#pragma once

#include <string>
#include <vector>

#include "compiler/memory/Memory.h"

namespace hpu::memory {

struct RingPlan {
  int64_t bytes = 0;               ///< High-water mark; never beyond the capacity when `error` is empty.
  std::vector<std::string> notes;  ///< A line for each bundle whose tiles cannot stay while the next one starts.
  std::string error;               ///< The tiles of one bundle or chain alone are beyond the capacity.
  int64_t chained = 0;             ///< Results that stay in SRAM.
};

/// Sets `hpu.ring` on every bundle with TPC ops among `units`, and `hpu.chain_ring` on every chained unit.
RingPlan planRings(llvm::ArrayRef<mlir::Operation*> units, int64_t sramBytes);

}  // namespace hpu::memory
