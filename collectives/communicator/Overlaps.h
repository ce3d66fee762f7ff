// SPDX-License-Identifier: Apache-2.0
// Overlaps: whether sends and receives that go on together touch each other's memory.
#pragma once

#include <vector>

#include "collectives/executor/Executor.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// `transfers` of rank `rank`, with types and counts that were checked. What a rank sends to itself
/// may be received onto the very same bytes (all-gather-v in place), which then nobody writes.
/// Errors: kInvalidArgument (memory of a receive overlaps that of another transfer; names both).
Status checkOverlaps(const std::vector<Transfer>& transfers, int rank);

}  // namespace hpu::collectives
