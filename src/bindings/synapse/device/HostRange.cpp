// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/device/HostRange.h"

#include <sys/mman.h>

#include <cerrno>

#include "base/Format.h"
#include "base/HostMemory.h"

namespace hpu::synapse {

Result checkMapped(const char* name, uint64_t address, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(base::pageBytes());
  const uint64_t begin = address & ~(page - 1);
  // The kernel rounds the length up to pages, which must not pass the end of the address space either.
  if (bytes > UINT64_MAX - address || address - begin + bytes > UINT64_MAX - begin - page)
    return badArgument(base::strCat(name, " and size are beyond the address space"));
  // With MS_ASYNC it does nothing but to look whether the pages are there.
  if (msync(base::hostPointer(begin), address - begin + bytes, MS_ASYNC) == 0 || errno != ENOMEM) return {};
  return {synMappingNotFound,
          base::strCat(name, ": ", bytes, " bytes at ", base::formatHex(address), " are not memory of this process")};
}

}  // namespace hpu::synapse
