// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/HostPages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "base/File.h"
#include "base/Format.h"
#include "base/HostMemory.h"
#include "base/StatusMacros.h"

namespace hpu {
namespace {

std::atomic<int> gFiles{0};

/// True: there may be one more; takeBack() is due for it.
bool takeFile() {
  if (gFiles.fetch_add(1) < HostPages::kMostFiles) return true;
  gFiles.fetch_sub(1);
  return false;
}
void takeBack() {
  gFiles.fetch_sub(1);
}

int64_t wholePages(int64_t bytes) {
  return (bytes + base::pageBytes() - 1) / base::pageBytes() * base::pageBytes();
}

std::string_view kindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "no file with contents";
}

/// The file of a descriptor can hold [offset, offset + bytes) of memory.
Status checkFile(int fd, int64_t offset, int64_t bytes) {
  if (bytes <= 0) return invalidArgument(base::strCat("importHost: ", bytes, " bytes; the size must be positive"));
  if (offset < 0 || offset % base::pageBytes() != 0)
    return invalidArgument(
        base::strCat("importHost: the offset ", offset, " is no multiple of the page size, ", base::pageBytes()));
  if (bytes > INT64_MAX - 2 * base::pageBytes() - offset)
    return invalidArgument(base::strCat("importHost: ", bytes, " bytes at offset ", offset, " are no range of a file"));
  struct stat info;
  if (::fstat(fd, &info) != 0)
    return invalidArgument(base::strCat("importHost: ", fd, " is no open descriptor: ", base::errnoText(errno)));
  if (!S_ISREG(info.st_mode))
    return invalidArgument(base::strCat("importHost: descriptor ", fd, " is of ", kindOf(info.st_mode),
                                        ", which cannot be mapped; give one of memfd_create, shm_open or exportHost"));
  if (info.st_size < offset || info.st_size - offset < bytes)
    return outOfRange(base::strCat("importHost: ", bytes, " bytes at offset ", offset,
                                   " go past the end of the file, which has ", static_cast<int64_t>(info.st_size)));
  return okStatus();
}

}  // namespace

HostPages::HostPages(HostPages&& other) noexcept {
  *this = std::move(other);
}

HostPages& HostPages::operator=(HostPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_, other.mapped_);
  std::swap(file_, other.file_);
  std::swap(offset_, other.offset_);
  return *this;
}

HostPages::~HostPages() {
  if (data_) ::munmap(data_, mapped_);
  if (file_ < 0) return;
  ::close(file_);
  takeBack();
}

/// Address space for `bytes` and the page behind them.
StatusOr<HostPages> HostPages::reserve(int64_t bytes, int protection) {
  if (bytes > INT64_MAX - 2 * base::pageBytes())
    return resourceExhausted(base::strCat("cannot allocate ", bytes, " bytes of host memory"));
  const int64_t pages = wholePages(bytes);
  const auto total = static_cast<size_t>(pages + base::pageBytes());
  void* data = ::mmap(nullptr, total, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return resourceExhausted(
        base::strCat("cannot allocate ", base::formatBytes(bytes), " of host memory: ", base::errnoText(errno)));
  HostPages result(static_cast<std::byte*>(data), total);
  ::mprotect(result.data_ + pages, static_cast<size_t>(base::pageBytes()), PROT_READ);
  return result;
}

/// Puts the file into the place of what is reserved; false with errno.
bool HostPages::mapFile(int fd, int64_t offset, int64_t bytes) {
  return ::mmap(data_, static_cast<size_t>(wholePages(bytes)), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                offset) != MAP_FAILED;
}

StatusOr<HostPages> HostPages::create(int64_t bytes) {
  // Pages of its own: nothing else shares them, and a driver that pins memory pins pages. The kernel has a say first in
  // whether there is so much memory, which a file alone is not asked.
  HPU_ASSIGN(HostPages result, reserve(bytes, PROT_READ | PROT_WRITE));
  if (!takeFile()) return result;
  result.file_ = ::memfd_create("hpu-host", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (result.file_ < 0) {
    takeBack();
    return result;
  }
  if (::ftruncate(result.file_, wholePages(bytes)) != 0 || !result.mapFile(result.file_, 0, bytes))
    return resourceExhausted(
        base::strCat("cannot allocate ", base::formatBytes(bytes), " of host memory: ", base::errnoText(errno)));
  // Whoever imports it must not take pages away from under us.
  ::fcntl(result.file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return result;
}

StatusOr<HostPages> HostPages::import(int fd, int64_t offset, int64_t bytes) {
  HPU_RETURN_IF_ERROR(checkFile(fd, offset, bytes));
  HPU_ASSIGN(HostPages result, reserve(bytes, PROT_NONE));
  if (!result.mapFile(fd, offset, bytes)) {
    const int error = errno;
    std::string text = base::strCat("importHost: cannot map ", bytes, " bytes at offset ", offset, " of descriptor ",
                                    fd, ": ", base::errnoText(error));
    if (error == ENOMEM || error == EAGAIN || error == ENFILE) return resourceExhausted(text);
    return invalidArgument(text + "; it must be open for reading and writing, and not sealed against writes");
  }
  result.offset_ = offset;
  if (takeFile() && (result.file_ = ::fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) takeBack();
  return result;
}

}  // namespace hpu
