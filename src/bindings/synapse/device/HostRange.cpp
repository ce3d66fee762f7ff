// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/device/HostRange.h"

#include "base/Format.h"
#include "base/MappedRange.h"

namespace hpu::synapse {

Result checkMapped(const char* name, uint64_t address, uint64_t bytes) {
  switch (base::mappedRange(address, bytes)) {
    case base::MappedRange::kMapped:
      return {};
    case base::MappedRange::kBeyondAddressSpace:
      return badArgument(base::strCat(name, " and size are beyond the address space"));
    case base::MappedRange::kNotMapped:
      break;
  }
  return {synMappingNotFound,
          base::strCat(name, ": ", bytes, " bytes at ", base::formatHex(address), " are not memory of this process")};
}

}  // namespace hpu::synapse
