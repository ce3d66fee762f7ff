// SPDX-License-Identifier: Apache-2.0
// Proves that a program's queues and signals order every two commands that meet in memory, one of them
// writing, and order them as hostOrder does.
// The one thing to know: the proof holds for every timing of the engines, because it uses only what waits
// guarantee (vector clocks over the queues), never an order in which commands happen to run.
#pragma once

#include "hpu/status.h"
#include "recipe/CommandAccess.h"

namespace hpu::recipe {

/// Checks a program that verifyProgram accepts. The first hazard, as kDataLoss, names both commands, their
/// ops and the bytes:
///   - two commands meet and neither is ordered before the other, or the order contradicts hostOrder
///     (within a bundle's rings: slice by slice);
///   - a command reads workspace, SRAM or output bytes that nothing has written before;
///   - an op writes over its own input, unless as exactly the same view on a TPC (in place).
/// `reads` says what the kernels read of their inputs (see CommandAccess.h). Near-linear in the number of commands.
Status checkSchedule(const Program& program, const KernelReads* reads = nullptr);

}  // namespace hpu::recipe
