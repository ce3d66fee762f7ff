// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/device/HostRange.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/Format.h"

namespace hpu::synapse {

Result checkMapped(const char* name, uint64_t address, uint64_t bytes) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = address & ~(page - 1);
  // The kernel rounds the length up to pages, which must not pass the end of the address space either.
  if (bytes > UINT64_MAX - address || address - begin + bytes > UINT64_MAX - begin - page)
    return badArgument(base::strCat(name, " and size are beyond the address space"));
  // With MS_ASYNC it does nothing but to look whether the pages are there.
  if (msync(reinterpret_cast<void*>(static_cast<uintptr_t>(begin)), address - begin + bytes, MS_ASYNC) == 0 ||
      errno != ENOMEM)
    return {};
  return {synMappingNotFound,
          base::strCat(name, ": ", bytes, " bytes at ", base::formatHex(address), " are not memory of this process")};
}

}  // namespace hpu::synapse
