// SPDX-License-Identifier: Apache-2.0
// Host addresses that a program gives.
#pragma once

#include <cstdint>

#include "bindings/synapse/api/Result.h"

namespace hpu::synapse {

/// That all of a range is memory of this process. `name` is the argument's. Errors: synInvalidArgument,
/// synMappingNotFound.
Result checkMapped(const char* name, uint64_t address, uint64_t bytes);

}  // namespace hpu::synapse
