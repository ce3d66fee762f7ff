// SPDX-License-Identifier: Apache-2.0
#include "base/MappedFile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/File.h"
#include "base/Format.h"

namespace hpu::base {
namespace {
const uint8_t kEmpty[1] = {0};
}

MappedFile::MappedFile(std::string path, const uint8_t* data, size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<uint8_t*>(data_), size_);
}

StatusOr<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer before we can refuse it.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errnoStatus(errno, "open", path);
  struct stat info;
  if (::fstat(fd, &info) != 0) {
    int error = errno;
    ::close(fd);
    return errnoStatus(error, "stat", path);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalidArgument(
        strCat("cannot map '", path, "': it is ", S_ISDIR(info.st_mode) ? "a directory" : "not a regular file"));
  }
  const uint8_t* data = kEmpty;
  size_t size = static_cast<size_t>(info.st_size);
  if (size > 0) {
    void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
      int error = errno;
      ::close(fd);
      return errnoStatus(error, "map", path);
    }
    data = static_cast<const uint8_t*>(mapped);
  }
  ::close(fd);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size));
}

}  // namespace hpu::base
