// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/HostAccess.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/Format.h"

namespace hpu::driver {
namespace {

// Linux 5.14; headers may be older.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;
// Up to here faulting the pages in costs less than reading the list of mappings, and it is work
// that the copy would have to do otherwise.
constexpr uint64_t kPopulateBytes = 16 << 20;

/// Faults the pages in; 0, or errno.
int populate(uint64_t begin, uint64_t end, HostAccess access) {
  const int advice = access == HostAccess::kWrite ? kPopulateWrite : kPopulateRead;
  while (::madvise(reinterpret_cast<void*>(static_cast<uintptr_t>(begin)), end - begin, advice) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

uint64_t pageBytes() {
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return page;
}

/// As the process's list of mappings has it. True when there is no list.
bool mapped(uint64_t begin, uint64_t end, HostAccess access) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), &std::fclose);
  if (!maps) return true;
  char line[512];
  bool whole = true;  // The buffer holds a line's begin.
  while (begin < end && std::fgets(line, sizeof line, maps.get())) {
    bool starts = whole;
    whole = std::string_view(line).ends_with('\n');
    uint64_t first = 0, behind = 0, inode = 0;
    char read = '-', write = '-';
    if (!starts || std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %c%c%*2c %*x %*x:%*x %" SCNu64, &first, &behind, &read,
                               &write, &inode) != 5)
      continue;
    if (behind <= begin) continue;
    if (first > begin) return false;
    if ((access == HostAccess::kWrite ? write != 'w' : read != 'r')) return false;
    begin = behind;
    // Of a file that was truncated the mapping's tail is missing, if anything is.
    const uint64_t last = (std::min(behind, end) - 1) & ~(pageBytes() - 1);
    if (inode != 0 && populate(last, last + pageBytes(), access) == EFAULT) return false;
  }
  return begin >= end;
}

}  // namespace

Status checkHostAccess(const void* data, int64_t bytes, HostAccess access) {
  if (bytes <= 0) return okStatus();
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data));
  const uint64_t begin = address & ~(pageBytes() - 1);
  const uint64_t end = address + static_cast<uint64_t>(bytes);
  if (end > address) {
    const int failed = end - begin <= kPopulateBytes ? populate(begin, end, access) : EINVAL;
    if (failed == 0) return okStatus();
    // EFAULT: mapped, but nothing is behind it (a file that was truncated). Else an older kernel or
    // special memory may refuse what is right.
    if (failed != EFAULT && mapped(begin, end, access)) return okStatus();
  }
  return notFound(base::strCat(bytes, " bytes at ", base::formatHex(address), " are not ",
                               access == HostAccess::kWrite ? "writable" : "readable",
                               " host memory of this process any more, or never were"));
}

}  // namespace hpu::driver
