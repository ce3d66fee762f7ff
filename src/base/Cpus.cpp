// SPDX-License-Identifier: Apache-2.0
#include "base/Cpus.h"

#include <sched.h>

#include <algorithm>

namespace hpu::base {

CpuSet cpusOfThread() {
  CpuSet result{};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return result;
  for (size_t cpu = 0; cpu < result.size() * 64; ++cpu)
    if (CPU_ISSET(cpu, &set)) result[cpu / 64] |= uint64_t{1} << (cpu % 64);
  return result;
}

int allowedCpus() {
  static const int count = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
  }();
  return count;
}

}  // namespace hpu::base
