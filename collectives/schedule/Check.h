// SPDX-License-Identifier: Apache-2.0
// checkSchedule: proves a schedule before it may run.
// The one thing to know: it follows every element's set of contributions, so a schedule that passes
// computes what its problem asks for, whatever the interleaving of the ranks.
#pragma once

#include "collectives/schedule/Schedule.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// Proves that
/// - ranges are inside their buffers, and nothing writes an input;
/// - sends and receives match in number, size and form (data or partial results);
/// - nobody waits for ever, even when a send is done only after its receive *and the steps that
///   read what was received into scratch* (they may read it at the sender), and the pair's next
///   send begins only after that (no buffers at all);
/// - two steps of a rank that touch the same elements, one of them writing, are ordered by `after`
///   within the rank (directly or not), also when input and output share memory in place;
/// - what is read was written by a step that the reader waits for;
/// - each output element is written, and has what the problem asks for: the right element, each
///   contribution once, through reductions whose last one is into data (that one scales, rounds and
///   averages; also when there is one rank only) and all others into partial buffers; `contributor`
///   names the right rank;
/// - in an all-reduce every rank combines the contributions in the same way: equal bits;
/// - nobody leaves a barrier before everybody has entered it (messages of no elements will do).
/// Errors: kInternal, naming the steps, ranks and elements and what is wrong. Cost: about linear in
/// steps: 0.3 us each.
Status checkSchedule(const Schedule& schedule);

}  // namespace hpu::collectives
