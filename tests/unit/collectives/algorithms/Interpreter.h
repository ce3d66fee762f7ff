// SPDX-License-Identifier: Apache-2.0
// Interpreter: runs a schedule on real arrays of all ranks, in an interleaving drawn from a seed.
// The one thing to know: it shares nothing with the checker, the builder or the executor: it moves
// values, lets messages be copied early, late, or read in place at their sender, and looks at what
// lies in the outputs at the end.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/schedule/Schedule.h"

namespace hpu::collectives {

struct Interleaving {
  uint64_t seed = 1;
  bool inPlace = false;  ///< Of all ranks; false: of none. With `mixed` drawn for each rank.
  bool mixed = false;
  /// How many of ten messages are copied when they are offered, and read in place.
  int copied = 3, readInPlace = 4;
  /// A pair's next message waits until the one before is done.
  bool strict = false;
};

/// Empty, or what went wrong.
std::string interpret(const Schedule& schedule, const Interleaving& how);

}  // namespace hpu::collectives
