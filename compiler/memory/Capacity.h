// SPDX-License-Identifier: Apache-2.0
// Whether a program fits into a target's HBM: a pure function without MLIR.
#pragma once

#include <string>

#include "arch/TargetDesc.h"
#include "hpu/status.h"

namespace hpu::memory {

/// Bytes of HBM that a program needs while it runs.
struct HbmNeeds {
  int64_t weights = 0, workspace = 0, inputs = 0, outputs = 0;
  int64_t total() const { return weights + workspace + inputs + outputs; }
};

/// kResourceExhausted with all the numbers and what to do, when the needs are beyond the capacity. Nothing is ever
/// moved to the host's memory instead: a device cannot read it while a program runs.
Status checkCapacity(const HbmNeeds& needs, int64_t hbmBytes, std::string_view target);

}  // namespace hpu::memory
