// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/sim/Hbm.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/Copy.h"
#include "base/File.h"
#include "base/Format.h"
#include "base/HostMemory.h"
#include "base/Parallel.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"

namespace hpu::driver {
namespace {

using base::pageBytes;

// Below this a range is written without asking the kernel for its holes, and not punched.
constexpr int64_t kSmallCopy = 64 << 10;
// Pages that a call asks the kernel for.
constexpr int64_t kPagesALook = 1024;
// A write to the file up to here is faster than reading another address space, even this one.
constexpr int64_t kSmallWrite = 16 << 10;
// Most that small writes may take between two looks at what the device holds.
constexpr int64_t kMaxCredit = 16 << 20;
// Bytes that are written between two looks at what the host still has: looking takes as long as
// writing a hundredth of it.
constexpr int64_t kLookBytes = 64 << 20;
// Bytes of one chunk of a parallel copy: past the caches, so that a second core helps.
constexpr int64_t kCopyGrain = 4 << 20;

/// Copies [0, bytes) in pieces on several threads. `copy(begin, end)` gives the bytes that it has copied from `begin`
/// on, or -1 with errno. `data` is the program's memory, which is not `allowed` ("readable") when that is EFAULT.
template <typename Copy>
Status checkedCopy(int64_t bytes, const void* data, std::string_view allowed, Copy copy) {
  std::atomic<int> failed{0};
  base::parallelFor(bytes, kCopyGrain, [&](int64_t begin, int64_t end) {
    while (begin < end && failed.load(std::memory_order_relaxed) == 0) {
      ssize_t done = copy(begin, end);
      if (done > 0)
        begin += done;
      else if (done == 0 || errno != EINTR)
        failed = done == 0 ? EFAULT : errno;
    }
  });
  if (failed == 0) return okStatus();
  const uint64_t address = base::hostAddress(data);
  if (failed == EFAULT)
    return notFound(base::strCat(bytes, " bytes at ", base::formatHex(address), " are not ", allowed,
                                 " host memory of this process any more, or never were"));
  return resourceExhausted(base::strCat("cannot copy ", bytes, " bytes of host memory at ", base::formatHex(address),
                                        ": ", base::errnoText(failed)));
}

/// Four bytes that repeat as the pattern does.
uint32_t repeated(uint32_t value, int elementBytes) {
  return elementBytes == 1 ? (value & 0xff) * 0x01010101u : elementBytes == 2 ? (value & 0xffff) * 0x00010001u : value;
}

void parallelCopy(std::byte* dst, const std::byte* src, int64_t bytes) {
  base::parallelFor(bytes, kCopyGrain,
                    [&](int64_t begin, int64_t end) { base::copyMemory(dst + begin, src + begin, end - begin); });
}

}  // namespace

Hbm::Hbm(int fd, std::byte* data, int64_t bytes, int64_t hostBudget, std::function<int64_t()> available)
    : fd_(fd),
      data_(data),
      bytes_(bytes),
      process_(::getpid()),
      hostBudget_(hostBudget),
      available_(std::move(available)) {}

Hbm::~Hbm() {
  // In a forked child nothing of it is mapped there, and perhaps something else is.
  if (process_ == ::getpid()) ::munmap(data_, static_cast<size_t>(bytes_));
  ::close(fd_);
}

StatusOr<std::unique_ptr<Hbm>> Hbm::create(int64_t bytes, int64_t hostBudget, std::function<int64_t()> available) {
  if (bytes <= 0 || bytes > INT64_MAX - pageBytes())
    return invalidArgument(base::strCat("a device with ", bytes, " bytes of HBM is not possible"));
  bytes = (bytes + pageBytes() - 1) / pageBytes() * pageBytes();
  int fd = ::memfd_create("hpu-hbm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return resourceExhausted("cannot create a memory file: " + base::errnoText(errno));
  void* data = MAP_FAILED;
  if (::ftruncate(fd, bytes) == 0)
    data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) {
    int error = errno;
    ::close(fd);
    return resourceExhausted(base::strCat("cannot map ", base::formatBytes(bytes),
                                          " of address space for a device's HBM: ", base::errnoText(error),
                                          ". Set HPU_SIM_HBM_BYTES to a smaller size"));
  }
  // Peers map the file: none may shrink it under the others. A forked child has no part in it, so
  // that it does not hold the memory of a parent that is gone.
  ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  ::madvise(data, static_cast<size_t>(bytes), MADV_DONTFORK);
  return std::unique_ptr<Hbm>(new Hbm(fd, static_cast<std::byte*>(data), bytes, hostBudget, std::move(available)));
}

bool Hbm::contains(DeviceAddress address, int64_t bytes) const {
  return bytes >= 0 && address >= kBase && address - kBase <= static_cast<uint64_t>(bytes_) &&
         static_cast<uint64_t>(bytes) <= static_cast<uint64_t>(bytes_) - (address - kBase);
}

/// First byte at or after `offset` that may differ from zero; `end` when there is none before it.
int64_t Hbm::nextData(int64_t offset, int64_t end) const {
  // The file offset that lseek moves is used by nobody.
  off_t found = ::lseek(fd_, offset, SEEK_DATA);
  if (found < 0) return errno == ENXIO ? end : offset;
  return std::min<int64_t>(found, end);
}
/// First page at or after the data at `offset` that was never written; `end` when there is none before it.
int64_t Hbm::nextHole(int64_t offset, int64_t end) const {
  // SEEK_HOLE looks at every page up to a hole, however far behind `end` that is, and a device may have a million of
  // them. Pages in the host's memory are data; what is not there may be swapped out, and is asked for one by one.
  const int64_t page = pageBytes();
  for (int64_t next = offset / page * page + page; next < end;) {
    unsigned char inMemory[kPagesALook];
    const int64_t pages = std::min<int64_t>((end - next + page - 1) / page, kPagesALook);
    if (::mincore(data_ + next, static_cast<size_t>(pages * page), inMemory) != 0)
      std::fill(inMemory, inMemory + pages, static_cast<unsigned char>(0));
    for (int64_t i = 0; i < pages; ++i, next += page)
      if (!(inMemory[i] & 1) && nextData(next, end) != next) return next;
  }
  return end;
}

Status Hbm::copyIn(DeviceAddress dst, const void* src, int64_t bytes) {
  return checkedCopy(bytes, src, "readable", [&](int64_t begin, int64_t end) {
    const auto* from = static_cast<const std::byte*>(src) + begin;
    std::byte* to = at(dst) + begin;
    const auto count = static_cast<size_t>(end - begin);
    if (end - begin > kSmallWrite) {
      // Without the file's lock, which holds one writer at a time.
      ::iovec local{to, count}, remote{const_cast<std::byte*>(from), count};
      ssize_t done = ::process_vm_readv(process_, &local, 1, &remote, 1, 0);
      if (done > 0) return done;
      // It does not reach memory of devices, and a container may forbid it: write() has the last word.
    }
    return ::pwrite(fd_, from, count, static_cast<off_t>(dst - kBase) + begin);
  });
}

Status Hbm::copyOut(void* dst, DeviceAddress src, int64_t bytes) const {
  return checkedCopy(bytes, dst, "writable", [&](int64_t begin, int64_t end) {
    return ::pread(fd_, static_cast<std::byte*>(dst) + begin, static_cast<size_t>(end - begin),
                   static_cast<off_t>(src - kBase) + begin);
  });
}

void Hbm::move(DeviceAddress dst, DeviceAddress src, int64_t bytes) {
  uint64_t distance = dst > src ? dst - src : src - dst;
  if (distance < static_cast<uint64_t>(bytes)) {
    std::memmove(at(dst), at(src), static_cast<size_t>(bytes));
    return;
  }
  int64_t from = static_cast<int64_t>(src - kBase), to = static_cast<int64_t>(dst - kBase);
  int64_t end = from + bytes;
  for (int64_t offset = from; offset < end;) {
    int64_t data = nextData(offset, end);
    if (data > offset) zero(to + (offset - from), data - offset);
    if (data == end) break;
    int64_t hole = nextHole(data, end);
    parallelCopy(data_ + to + (data - from), data_ + data, hole - data);
    offset = hole;
  }
}

void fillMemory(std::byte* begin, uint32_t value, int64_t bytes, int elementBytes) {
  const uint32_t word = repeated(value, elementBytes);
  const bool oneByte = word == (word & 0xff) * 0x01010101u;
  base::parallelFor((bytes + 3) / 4, kCopyGrain / 4, [&](int64_t firstWord, int64_t lastWord) {
    int64_t from = firstWord * 4, to = std::min(lastWord * 4, bytes);
    if (oneByte) {
      std::memset(begin + from, static_cast<int>(word & 0xff), static_cast<size_t>(to - from));
      return;
    }
    for (; from + 4 <= to; from += 4) std::memcpy(begin + from, &word, 4);
    if (from < to) std::memcpy(begin + from, &word, static_cast<size_t>(to - from));
  });
}

void Hbm::fill(DeviceAddress dst, uint32_t value, int64_t bytes, int elementBytes) {
  if (repeated(value, elementBytes) == 0)
    zero(static_cast<int64_t>(dst - kBase), bytes);
  else
    fillMemory(at(dst), value, bytes, elementBytes);
}

/// Zeroes what was written of a range.
void Hbm::zeroData(int64_t offset, int64_t bytes) {
  const int64_t end = offset + bytes;
  for (int64_t data = nextData(offset, end); data < end;) {
    int64_t hole = nextHole(data, end);
    std::memset(data_ + data, 0, static_cast<size_t>(hole - data));
    data = nextData(hole, end);
  }
}

/// Zeroes a range, which takes no memory: whole pages of a large one become holes.
void Hbm::zero(int64_t offset, int64_t bytes) {
  int64_t end = offset + bytes, page = pageBytes();
  int64_t first = (offset + page - 1) / page * page, last = end / page * page;
  if (bytes <= kSmallCopy || ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, last - first) != 0) {
    zeroData(offset, bytes);
    return;
  }
  zeroData(offset, first - offset);
  zeroData(last, end - last);
}

Status Hbm::clear(DeviceAddress address, int64_t bytes) {
  if (!contains(address, bytes))
    return outOfRange(base::strCat("cannot clear ", bytes, " bytes at ", base::formatHex(address),
                                   ": outside of the device's memory"));
  zero(static_cast<int64_t>(address - kBase), bytes);
  return okStatus();
}

Status Hbm::discard(DeviceAddress address, int64_t bytes) {
  if (!contains(address, bytes))
    return outOfRange(base::strCat("cannot discard ", bytes, " bytes at ", base::formatHex(address),
                                   ": outside of the device's memory"));
  // Only whole pages inside of the range: a neighbour may share the pages at its edges.
  int64_t page = pageBytes(), offset = static_cast<int64_t>(address - kBase);
  int64_t first = (offset + page - 1) / page * page, last = (offset + bytes) / page * page;
  if (first < last && ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, last - first) != 0)
    return unavailable("cannot give HBM pages back: " + base::errnoText(errno));
  return okStatus();
}

Status Hbm::populate(DeviceAddress address, int64_t bytes) {
  if (!contains(address, bytes))
    return outOfRange(base::strCat("cannot populate ", bytes, " bytes at ", base::formatHex(address),
                                   ": outside of the device's memory"));
  const int64_t page = pageBytes(), offset = static_cast<int64_t>(address - kBase);
  const int64_t first = offset / page * page, last = (offset + bytes + page - 1) / page * page;
  if (bytes == 0) return okStatus();
  // Pages that are there stay as they are, so work of the device may write meanwhile.
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14, which older headers lack.
  int result = 0;
  do result = ::madvise(data_ + first, static_cast<size_t>(last - first), kPopulateWrite);
  while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EINVAL) {
    do result = ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, first, last - first);
    while (result != 0 && errno == EINTR);
    // A host that has neither takes the pages with the first access.
    if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) result = 0;
  }
  if (result == 0) return okStatus();
  return resourceExhausted(base::strCat("the host has no memory for ", base::formatBytes(bytes), " of simulated HBM: ",
                                        base::errnoText(errno), "; free buffers of any device, or end other programs"));
}

Status Hbm::poison(DeviceAddress address, int64_t bytes) {
  if (!contains(address, bytes))
    return outOfRange(base::strCat("cannot poison ", bytes, " bytes at ", base::formatHex(address),
                                   ": outside of the device's memory"));
  int64_t first = static_cast<int64_t>(address - kBase), end = first + bytes;
  for (int64_t offset = nextData(first, end); offset < end;) {
    int64_t hole = nextHole(offset, end);
    std::memset(data_ + offset, 0xff, static_cast<size_t>(hole - offset));
    offset = nextData(hole, end);
  }
  return okStatus();
}

int64_t Hbm::residentBytes() const {
  struct stat info;
  return ::fstat(fd_, &info) == 0 ? static_cast<int64_t>(info.st_blocks) * 512 : 0;
}

Status Hbm::checkBudget(DeviceAddress address, int64_t bytes) const {
  if (hostBudget_ == 0 || bytes <= 0) return okStatus();
  // Small writes look together: looking costs more than they do.
  const int64_t begin = static_cast<int64_t>(address - kBase), page = pageBytes();
  const int64_t taken = (begin + bytes + page - 1) / page * page - begin / page * page;
  const int64_t since = sinceLook_.fetch_add(taken, std::memory_order_relaxed) + taken;
  if (bytes <= kSmallCopy && credit_.fetch_sub(taken, std::memory_order_relaxed) >= taken) return okStatus();
  int64_t resident = residentBytes(), room = hostBudget_ - resident;
  bool others = false;  // It is not this device that has taken the host's memory.
  if (available_ && since >= kLookBytes) {
    sinceLook_ = 0;
    int64_t now = available_();
    others = now >= 0 && now < room;
    if (others) room = now;
  }
  credit_ = std::clamp<int64_t>(room - taken, 0, kMaxCredit);
  if (taken <= room) return okStatus();
  // Only what was never written takes more memory.
  int64_t first = static_cast<int64_t>(address - kBase), end = first + bytes, holes = 0;
  for (int64_t offset = first; offset < end;) {
    int64_t data = nextData(offset, end);
    holes += data - offset;
    offset = data == end ? end : nextHole(data, end);
  }
  if (holes <= room) return okStatus();
  if (others)
    return resourceExhausted(base::strCat(
        "out of host memory for simulated HBM: ", base::formatBytes(holes), " more are needed, and the host has ",
        base::formatBytes(std::max<int64_t>(room, 0)), " to give; this device has ", base::formatBytes(resident),
        ". Free buffers of any device, end other programs, or set HPU_SIM_HOST_BYTES"));
  return resourceExhausted(base::strCat("out of host memory for simulated HBM: ", base::formatBytes(holes),
                                        " more than the ", base::formatBytes(resident),
                                        " in use would pass the budget of ", base::formatBytes(hostBudget_),
                                        "; free buffers or set HPU_SIM_HOST_BYTES"));
}

namespace {

/// The number behind `key`, which begins a line of the file; -1 when it is not there.
int64_t numberBehind(const std::string& path, const std::string& key) {
  auto text = base::readTextFile(path, 1 << 16);
  if (!text.ok()) return -1;
  text->insert(0, "\n");
  size_t at = text->find("\n" + key);
  if (at == std::string::npos) return -1;
  at = text->find_first_of("0123456789", at + 1 + key.size());
  if (at == std::string::npos) return -1;
  auto number = base::parseInt(std::string_view(*text).substr(at, text->find_first_not_of("0123456789", at) - at));
  return number.ok() ? *number : -1;
}

/// A control-group file with one number; -1 when it has none ("max") or is not there.
int64_t groupNumber(const std::string& path) {
  auto text = base::readTextFile(path, 64);
  if (!text.ok()) return -1;
  auto number = base::parseInt(std::string_view(*text).substr(0, text->find('\n')));
  return number.ok() ? *number : -1;
}

}  // namespace

int64_t groupMemoryLeft(const std::string& folder) {
  int64_t limit = groupNumber(folder + "/memory.max");
  int64_t used = groupNumber(folder + "/memory.current");
  if (limit < 0 || used < 0) return -1;
  // Files that are only cached give way, as in MemAvailable.
  for (const char* key : {"active_file ", "inactive_file "})
    used -= std::max<int64_t>(numberBehind(folder + "/memory.stat", key), 0);
  return std::clamp<int64_t>(limit - used, 0, limit);
}

int64_t availableHostMemory() {
  int64_t available = numberBehind("/proc/meminfo", "MemAvailable:");
  if (available >= 0) available *= 1024;
  if (int64_t left = groupMemoryLeft("/sys/fs/cgroup"); left >= 0)
    available = available < 0 ? left : std::min(available, left);
  return available < 0 ? -1 : available - available / 8;
}

StatusOr<int64_t> hostMemoryBudget() {
  HPU_ASSIGN(int64_t budget, settings::getInt(Setting::HPU_SIM_HOST_BYTES));
  return budget > 0 ? budget : std::max<int64_t>(availableHostMemory(), 0);
}

}  // namespace hpu::driver
