// SPDX-License-Identifier: Apache-2.0
#include "base/MappedRange.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/HostMemory.h"

namespace hpu::base {

MappedRange mappedRange(uint64_t address, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(pageBytes());
  const uint64_t begin = address & ~(page - 1);
  // The kernel rounds the length up to pages, which must not pass the end of the address space either.
  if (bytes > UINT64_MAX - address || address - begin + bytes > UINT64_MAX - begin - page)
    return MappedRange::kBeyondAddressSpace;
  // With MS_ASYNC it does nothing but to look whether the pages are there.
  const bool missing = ::msync(hostPointer(begin), address - begin + bytes, MS_ASYNC) != 0 && errno == ENOMEM;
  return missing ? MappedRange::kNotMapped : MappedRange::kMapped;
}

}  // namespace hpu::base
