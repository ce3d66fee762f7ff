// SPDX-License-Identifier: Apache-2.0
// The device addresses of host memory: a window of their own, far above the memory of any device.
// The one thing to know: an address in it is a host pointer behind the window's begin, so drivers translate without a
// table; that memory is there and stays there is the runtime's to see to, as with the host sides of copies.
#pragma once

#include <cstdint>

#include "base/HostMemory.h"

namespace hpu::driver {

inline constexpr uint64_t kHostWindow = uint64_t{1} << 56;
/// No pointer of a program is as large.
inline constexpr uint64_t kHostWindowBytes = uint64_t{1} << 56;

inline bool isInHost(uint64_t address) {
  return address - kHostWindow < kHostWindowBytes;  // Smaller ones wrap around.
}
inline bool isInHost(uint64_t address, int64_t bytes) {
  return bytes >= 0 && isInHost(address) && static_cast<uint64_t>(bytes) <= kHostWindowBytes - (address - kHostWindow);
}
inline uint64_t windowAddress(const void* pointer) {
  return kHostWindow + base::hostAddress(pointer);
}
inline void* windowPointer(uint64_t address) {
  return base::hostPointer(address - kHostWindow);
}

}  // namespace hpu::driver
