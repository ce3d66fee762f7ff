// SPDX-License-Identifier: Apache-2.0
// Addresses and pages of the host's memory.
// The one thing to know: APIs pass host addresses as numbers beside those of devices; here they become pointers.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace hpu::base {

inline void* hostPointer(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}
inline uint64_t hostAddress(const void* pointer) {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
}

/// Of a page of memory; a power of two.
inline int64_t pageBytes() {
  static const int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

}  // namespace hpu::base
