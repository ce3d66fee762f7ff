// SPDX-License-Identifier: Apache-2.0
// Messages: which receive of a schedule belongs to which send.
// The one thing to know: steps are matched by their place in the order of their pair of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule/Schedule.h"
#include "hpu/status.h"

namespace hpu::collectives {

/// All by step; -1 for steps that are no messages.
struct Messages {
  std::vector<int32_t> partner;   ///< The other end.
  std::vector<int32_t> previous;  ///< The send (receive) before it of the same pair; -1: the first.
  std::vector<int32_t> next;      ///< The one after it.
  std::vector<int32_t> number;    ///< From 0 within its pair.
};

/// Errors: kInternal, when a pair's sends and receives differ in number, or a message's in size or
/// form. Ranks and peers must be valid. Cost: linear in steps.
StatusOr<Messages> matchMessages(const Schedule& schedule);

/// `after`, turned round: the steps that wait for step i are steps[first[i]] to steps[first[i +
/// 1]].
struct Dependents {
  std::vector<int32_t> first, steps;
};
Dependents dependentsOf(const Schedule& schedule);

}  // namespace hpu::collectives
