// SPDX-License-Identifier: Apache-2.0
#include "base/FileBytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/File.h"
#include "base/Format.h"
#include "base/Parallel.h"

namespace hpu::base {
namespace {

// Of one read: past the caches, so that a second core helps.
constexpr int64_t kReadGrain = 4 << 20;
// Smaller ones get no huge pages: a process may load thousands of them.
constexpr size_t kHugeBytes = 8 << 20;

uint8_t kNoBytes[1] = {0};

/// 0; an errno, or -1 when the file ends before.
int readRange(int fd, uint8_t* to, int64_t begin, int64_t end) {
  while (begin < end) {
    ssize_t got = ::pread(fd, to + begin, static_cast<size_t>(end - begin), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : -1;
    begin += got;
  }
  return 0;
}

}  // namespace

FileBytes::FileBytes(std::string path, uint8_t* data, size_t size) : path_(std::move(path)), data_(data), size_(size) {}

FileBytes::~FileBytes() {
  if (size_ > 0) ::munmap(data_, size_);
}

StatusOr<std::shared_ptr<const FileBytes>> FileBytes::read(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer before we can refuse it.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errnoStatus(errno, "open", path);
  struct FdCloser {
    int fd;
    ~FdCloser() { ::close(fd); }
  } closer{fd};
  return read(fd, path);
}

StatusOr<std::shared_ptr<const FileBytes>> FileBytes::read(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return errnoStatus(errno, "stat", path);
  if (!S_ISREG(info.st_mode))
    return invalidArgument(
        strCat("cannot read '", path, "': it is ", S_ISDIR(info.st_mode) ? "a directory" : "not a regular file"));
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const FileBytes>(new FileBytes(path, kNoBytes, 0));
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return resourceExhausted(
        strCat("no host memory for the ", formatBytes(info.st_size), " of '", path, "': ", errnoText(errno)));
  if (size >= kHugeBytes) ::madvise(memory, size, MADV_HUGEPAGE);  // A hint.
  auto* data = static_cast<uint8_t*>(memory);
  std::shared_ptr<const FileBytes> file(new FileBytes(path, data, size));
  std::atomic<int> failed{0};
  parallelFor(static_cast<int64_t>(size), kReadGrain, [&](int64_t begin, int64_t end) {
    if (int error = readRange(fd, data, begin, end); error != 0) failed = error;
  });
  if (failed < 0)
    return unavailable(strCat("cannot read '", path, "': it became shorter than its ", info.st_size,
                              " bytes while it was read; load it again when it is written"));
  if (failed > 0) return errnoStatus(failed, "read", path);
  ::mprotect(memory, size, PROT_READ);
  return file;
}

}  // namespace hpu::base
