// SPDX-License-Identifier: Apache-2.0
// Places the SRAM tiles of bundles.
// The one thing to know: tiles that do not fit beside those of the next bundle share bytes with them. That is safe (the
// waits come from the bytes), it only costs the overlap of the two bundles, and it is said.
#pragma once

#include <string>
#include <vector>

#include "compiler/memory/Memory.h"

namespace hpu::memory {

struct RingPlan {
  int64_t bytes = 0;               ///< High-water mark; never beyond the capacity when `error` is empty.
  std::vector<std::string> notes;  ///< A line for each bundle whose tiles cannot stay while the next one starts.
  std::string error;               ///< One bundle's tiles alone are beyond the capacity.
};

/// Sets `hpu.ring` on every bundle with TPC ops among `units`.
RingPlan planRings(llvm::ArrayRef<mlir::Operation*> units, int64_t sramBytes);

}  // namespace hpu::memory
