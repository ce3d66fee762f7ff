// SPDX-License-Identifier: Apache-2.0
// Cpus: the CPUs that this process may run on.
#pragma once

#include <array>
#include <cstdint>

namespace hpu::base {

/// A bit for each, by number; of machines with more, the first ones.
using CpuSet = std::array<uint64_t, 16>;
/// Those of the calling thread; all zero when the system does not say.
CpuSet cpusOfThread();

/// At least 1; by the affinity of the process when it is first asked.
int allowedCpus();

}  // namespace hpu::base
