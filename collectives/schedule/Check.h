// SPDX-License-Identifier: Apache-2.0
// checkSchedule: proves a schedule before it may run.
// The one thing to know: it follows every element's set of contributions, so a schedule that passes
// computes what its problem asks for, whatever the interleaving of the ranks.
#pragma once

#include "collectives/schedule/Schedule.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// Proves that: ranges are inside their buffers; sends and receives match in number, size and form;
/// no cycle, and no deadlock even when a send is done only after its receive and the pair's earlier
/// ones (unbuffered channels); two steps of a rank that touch the same elements, one of them
/// writing, are ordered, also when input and output share memory in place; what is read was
/// written; each output element gets exactly the contributions that the problem asks for, once, and
/// nothing else is written. Errors: kInternal, naming the step, the rank, the elements and what is
/// wrong. Cost: linear in steps times log.
Status checkSchedule(const Schedule& schedule);

}  // namespace hpu::collectives
