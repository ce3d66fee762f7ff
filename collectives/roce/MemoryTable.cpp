// SPDX-License-Identifier: Apache-2.0
#include "collectives/roce/MemoryTable.h"

#include <sys/random.h>

#include <cerrno>

#include "base/Format.h"

namespace hpu::roce {

StatusOr<uint32_t> MemoryTable::add(std::byte* host, uint64_t address, uint64_t bytes, Access access) {
  if (!host || bytes == 0 || address + (bytes - 1) < address)
    return invalidArgument(base::strCat("memory of ", bytes, " bytes at ", base::formatHex(address),
                                        " cannot be registered: it is empty or wraps around"));
  uint32_t key = 0;
  do {
    if (unused_ == 0) {
      if (::getrandom(random_.data(), sizeof random_, 0) != static_cast<ssize_t>(sizeof random_))
        return unavailable("the system has no random numbers for a key of memory: " + base::errnoText(errno));
      unused_ = random_.size();
    }
    key = random_[--unused_];
  } while (key == 0 || regions_.contains(key));
  regions_[key] = {host, address, bytes, access};
  return key;
}

bool MemoryTable::withdraw(uint32_t key) {
  const auto it = regions_.find(key);
  if (it == regions_.end()) return false;
  it->second.host = nullptr;
  it->second.access.read = it->second.access.atomic = false;  // Those would tell something.
  return true;
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
  return region.host ? region.host + offset : nowhere();
}

}  // namespace hpu::roce
