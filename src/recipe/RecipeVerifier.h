// SPDX-License-Identifier: Apache-2.0
// Checks every id, offset, size, box, wait and queue of a Program, whether it came from a file or from
// the compiler.
// The one thing to know: a verified program is safe to execute; that its schedule has no hazards is a
// separate proof (ScheduleChecker.h).
#pragma once

#include "hpu/status.h"
#include "recipe/Recipe.h"

namespace hpu::recipe {

/// The first violation, as kDataLoss: what and where ("op 12 'conv1' operand c ends at byte 5000 of
/// section 3, which has 4096"). Also proves that the queues cannot deadlock and that hostOrder is complete.
Status verifyProgram(const Program& program);

}  // namespace hpu::recipe
