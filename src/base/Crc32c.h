// SPDX-License-Identifier: Apache-2.0
// crc32c: CRC-32C (Castagnoli, as iSCSI's and ext4's), by the processor's own instruction where it has one.
// The one thing to know: it finds damage, not intent: whoever changes the bytes can change the checksum as well.
//
//   uint32_t check = base::crc32c(0, data, bytes);
#pragma once

#include <cstddef>
#include <cstdint>

namespace hpu::base {

/// `crc` is that of the bytes before, 0 of none. `data` may be null when there are no bytes.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes);
/// The same by tables, on every processor.
uint32_t crc32cByTables(uint32_t crc, const void* data, size_t bytes);

}  // namespace hpu::base
