// SPDX-License-Identifier: Apache-2.0
// ProcessStart: when a process began. With its pid that names it and none that comes after it.
#pragma once

#include <cstdint>

namespace hpu::node {

/// From /proc/PID/stat, in ticks since the machine was switched on; 0: no such process. `state`: 'R', 'S', 'T'
/// (stopped), 'Z' (ended, and nobody has asked how) ...
uint64_t startTimeOf(int64_t pid, char* state = nullptr);

}  // namespace hpu::node
