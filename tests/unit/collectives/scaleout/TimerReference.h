// SPDX-License-Identifier: Apache-2.0
// The timer's model once more, by search instead of by queues: for small plans.
// The one thing to know: it shares nothing with the timer but how long a message or reduction takes by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/fabric/Fabric.h"
#include "collectives/scaleout/Program.h"
#include "collectives/schedule/Timing.h"

namespace hpu::collectives::test {

/// When each rank is done; of a plan that ends.
std::vector<int64_t> referenceEnds(const Plan& plan, const Fabric& fabric, const std::vector<int64_t>& arrivals,
                                   const LinkState& links = {});

}  // namespace hpu::collectives::test
