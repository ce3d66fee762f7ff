// SPDX-License-Identifier: Apache-2.0
// Whether a range of host addresses is memory of this process.
// The one thing to know: it tells what is mapped now; whoever owns the memory may unmap it afterwards.
#pragma once

#include <cstdint>

namespace hpu::base {

enum class MappedRange : uint8_t {
  kMapped,
  kNotMapped,           ///< Not all of it.
  kBeyondAddressSpace,  ///< Address and size wrap around.
};

/// Looks at mappings, not at pages: a microsecond for thousands of them, whatever the size. `bytes` > 0.
MappedRange mappedRange(uint64_t address, uint64_t bytes);

}  // namespace hpu::base
