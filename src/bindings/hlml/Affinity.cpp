// SPDX-License-Identifier: Apache-2.0
// CPUs and memory that are near to a device: all of the host, since the host's CPUs and memory are the device.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bindings/hlml/Library.h"

using hpu::hlml::guarded;
using hpu::hlml::Library;

namespace {

constexpr unsigned int kBits = 8 * sizeof(unsigned long);

/// Numbers of a list such as "0-3,8". Empty when the file is not there or is not such a list.
std::vector<int> readList(const char* path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  std::vector<int> numbers;
  const char* at = text.c_str();
  while (*at) {
    char* end = nullptr;
    long first = strtol(at, &end, 10), last = first;
    if (end == at) return {};
    if (*end == '-') last = strtol(end + 1, &end, 10);
    if (first < 0 || last < first || last > 1 << 20) return {};
    for (long n = first; n <= last; ++n) numbers.push_back(static_cast<int>(n));
    at = *end == ',' ? end + 1 : end;
    if (*end && *end != ',') return {};
  }
  return numbers;
}

std::vector<int> onlineCpus() {
  std::vector<int> cpus = readList("/sys/devices/system/cpu/online");
  if (cpus.empty())
    for (long n = 0; n < std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)); ++n) cpus.push_back(static_cast<int>(n));
  return cpus;
}

/// A kernel without NUMA has node 0.
std::vector<int> onlineNodes() {
  std::vector<int> nodes = readList("/sys/devices/system/node/online");
  return nodes.empty() ? std::vector<int>{0} : nodes;
}

hlml_return_t fill(hlml_device_t device, unsigned int words, unsigned long* set, std::vector<int> (*members)(),
                   hlml_affinity_scope_t scope) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    if (!set || scope > HLML_AFFINITY_SCOPE_SOCKET) return HLML_ERROR_INVALID_ARGUMENT;
    std::vector<int> all = members();
    auto most = static_cast<unsigned int>(*std::max_element(all.begin(), all.end()));
    if (most / kBits >= words) return HLML_ERROR_INSUFFICIENT_SIZE;
    std::fill(set, set + words, 0ul);
    for (int member : all)
      set[static_cast<unsigned int>(member) / kBits] |= 1ul << static_cast<unsigned int>(member) % kBits;
    return HLML_SUCCESS;
  });
}

/// CPUs as the scheduler's calls take them: as many words as this kernel wants.
using CpuMask = std::vector<unsigned long>;

/// Those of the calling thread; empty when the system does not say.
CpuMask cpusOfThread() {
  for (size_t words = 16; words <= 1 << 14; words *= 2) {
    CpuMask mask(words);
    if (sched_getaffinity(0, words * sizeof(unsigned long), reinterpret_cast<cpu_set_t*>(mask.data())) == 0)
      return mask;
    if (errno != EINVAL) break;
  }
  return {};
}

hlml_return_t useCpus(const CpuMask& mask) {
  const auto* set = reinterpret_cast<const cpu_set_t*>(mask.data());
  return sched_setaffinity(0, mask.size() * sizeof(unsigned long), set) == 0 ? HLML_SUCCESS : HLML_ERROR_NOT_SUPPORTED;
}

/// What the calling thread had when it first set its affinity here; empty: it has not, or has cleared it.
thread_local CpuMask tlsBefore;

/// Those of the device's CPUs that the thread may use anyway: taskset and its like are the user's word.
hlml_return_t useNearCpus(hlml_device_t device) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    const CpuMask before = cpusOfThread();
    if (before.empty()) return HLML_ERROR_NOT_SUPPORTED;
    CpuMask near(before.size());
    bool any = false;
    for (int cpu : onlineCpus()) {
      const auto word = static_cast<unsigned int>(cpu) / kBits;
      if (word < near.size()) near[word] |= before[word] & 1ul << static_cast<unsigned int>(cpu) % kBits;
      any |= word < near.size() && near[word] != 0;
    }
    if (!any) return HLML_ERROR_NOT_SUPPORTED;
    HLML_RETURN_IF_ERROR(useCpus(near));
    if (tlsBefore.empty()) tlsBefore = before;
    return HLML_SUCCESS;
  });
}

hlml_return_t useCpusOfBefore(hlml_device_t device) {
  return guarded([&] {
    int index = 0;
    HLML_RETURN_IF_ERROR(Library::get().indexOf(device, index));
    if (tlsBefore.empty()) return HLML_SUCCESS;
    HLML_RETURN_IF_ERROR(useCpus(tlsBefore));
    tlsBefore.clear();
    return HLML_SUCCESS;
  });
}

}  // namespace

hlml_return_t hlml_device_get_cpu_affinity(hlml_device_t device, unsigned int cpu_set_size, unsigned long* cpu_set) {
  return fill(device, cpu_set_size, cpu_set, onlineCpus, HLML_AFFINITY_SCOPE_NODE);
}

hlml_return_t hlml_device_get_cpu_affinity_within_scope(hlml_device_t device, unsigned int cpu_set_size,
                                                        unsigned long* cpu_set, hlml_affinity_scope_t scope) {
  return fill(device, cpu_set_size, cpu_set, onlineCpus, scope);
}

hlml_return_t hlml_device_get_memory_affinity(hlml_device_t device, unsigned int node_set_size, unsigned long* node_set,
                                              hlml_affinity_scope_t scope) {
  return fill(device, node_set_size, node_set, onlineNodes, scope);
}

hlml_return_t hlml_device_set_cpu_affinity(hlml_device_t device) {
  return useNearCpus(device);
}

hlml_return_t hlml_device_clear_cpu_affinity(hlml_device_t device) {
  return useCpusOfBefore(device);
}
