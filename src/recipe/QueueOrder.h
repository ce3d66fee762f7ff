// SPDX-License-Identifier: Apache-2.0
// Runs the queues of a program symbolically: an order in which its commands can complete, or the
// proof that they deadlock. The one thing to know: signals only count up, so if one order
// completes, every order does.
#pragma once

#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "recipe/CommandRef.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// Every command once, each after those before it in its queue and after enough signals for its
/// waits. Needs waits and signals in range. Errors: kDataLoss naming a command that never runs.
StatusOr<std::vector<CommandRef>> completionOrder(const Program& program);

}  // namespace hpu::recipe
