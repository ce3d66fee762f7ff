// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/MemoryTable.h"

#include "base/Format.h"

namespace hpu::roce {

StatusOr<uint32_t> MemoryTable::add(std::byte* host, uint64_t address, uint64_t bytes, Access access) {
  if (!host || bytes == 0 || address + (bytes - 1) < address)
    return invalidArgument(base::strCat("memory of ", bytes, " bytes at ", base::formatHex(address),
                                        " cannot be registered: it is empty or wraps around"));
  uint32_t key = 0;
  do {
    // SplitMix64: a bijection of a counter, so that a key comes again only after 2^32 others or so.
    state_ += 0x9E3779B97F4A7C15;
    uint64_t mixed = (state_ ^ state_ >> 30) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB;
    key = static_cast<uint32_t>(mixed ^ mixed >> 31);
  } while (key == 0 || regions_.contains(key));
  regions_[key] = {host, address, bytes, access};
  return key;
}

std::byte* MemoryTable::find(uint32_t key, uint64_t address, uint64_t bytes, Access access) const {
  const auto it = regions_.find(key);
  if (it == regions_.end()) return nullptr;
  const Region& region = it->second;
  if ((access.read && !region.access.read) || (access.write && !region.access.write) ||
      (access.atomic && !region.access.atomic))
    return nullptr;
  if (address < region.address || address - region.address > region.bytes) return nullptr;
  const uint64_t offset = address - region.address;
  if (bytes > region.bytes - offset) return nullptr;
  return region.host + offset;
}

}  // namespace hpu::roce
