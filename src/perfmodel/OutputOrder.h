// SPDX-License-Identifier: Apache-2.0
// The order in which a program's outputs are done.
// The one thing to know: it is that of the device clock on idle engines, so that the runtime's
// signals come in the order that a user was told.
#pragma once

#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::perfmodel {

/// All outputs by the time at which they are done, with the target's default clock; equal times by
/// index. The program must be verified. Errors: as simulate.
StatusOr<std::vector<uint32_t>> outputOrder(const recipe::Program& program);

}  // namespace hpu::perfmodel
