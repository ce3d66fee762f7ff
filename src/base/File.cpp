// SPDX-License-Identifier: Apache-2.0
#include "base/File.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::base {
namespace {

struct FdCloser {
  int fd;
  ~FdCloser() {
    if (fd >= 0) ::close(fd);
  }
};

template <typename Container>
StatusOr<Container> readAll(const std::string& path, int64_t maxBytes) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errnoStatus(errno, "open", path);
  FdCloser closer{fd};
  struct stat info;
  if (::fstat(fd, &info) != 0) return errnoStatus(errno, "stat", path);
  if (S_ISDIR(info.st_mode)) return invalidArgument(strCat("cannot read '", path, "': it is a directory"));
  Container data;
  try {
    // The size is a hint only: pipes and /proc files say 0.
    constexpr size_t kChunk = 1 << 16;
    size_t used = 0;
    data.resize(std::min<int64_t>(std::max<int64_t>(info.st_size + 1, kChunk), maxBytes));
    while (true) {
      if (used == data.size()) {
        if (static_cast<int64_t>(used) >= maxBytes) {
          char extra;
          ssize_t more = ::read(fd, &extra, 1);
          if (more == 0) break;
          if (more < 0 && errno == EINTR) continue;
          if (more < 0) return errnoStatus(errno, "read", path);
          return resourceExhausted(strCat("'", path, "' is larger than the limit of ", formatBytes(maxBytes)));
        }
        data.resize(std::min<int64_t>(static_cast<int64_t>(used) * 2 + kChunk, maxBytes));
      }
      ssize_t got = ::read(fd, data.data() + used, data.size() - used);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errnoStatus(errno, "read", path);
      if (got == 0) break;
      used += static_cast<size_t>(got);
    }
    data.resize(used);
    data.shrink_to_fit();
  } catch (const std::bad_alloc&) {
    return resourceExhausted(strCat("not enough host memory to read '", path, "'"));
  }
  return data;
}

std::string directoryOf(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Status errnoStatus(int error, std::string_view what, std::string_view path) {
  std::string message = strCat("cannot ", what, " '", path, "': ", errnoText(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return notFound(std::move(message));
    case EACCES:
    case EPERM:
    case EROFS:
      return {StatusCode::kPermissionDenied, std::move(message)};
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return resourceExhausted(std::move(message));
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
      return invalidArgument(std::move(message));
    case EEXIST:
      return alreadyExists(std::move(message));
    default:
      return unavailable(std::move(message));
  }
}

StatusOr<std::vector<uint8_t>> readFile(const std::string& path, int64_t maxBytes) {
  return readAll<std::vector<uint8_t>>(path, maxBytes);
}
StatusOr<std::string> readTextFile(const std::string& path, int64_t maxBytes) {
  return readAll<std::string>(path, maxBytes);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::move(other.temporary_)), fd_(std::exchange(other.fd_, -1)) {}
AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this != &other) {
    discard();
    path_ = std::move(other.path_);
    temporary_ = std::move(other.temporary_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}
AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::discard() {
  if (fd_ < 0) return;
  ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

StatusOr<AtomicFile> AtomicFile::create(const std::string& name) {
  if (name.empty()) return invalidArgument("cannot write a file without a name");
  std::string path = name;
  // Whatever stdout is. A regular file behind it must not be replaced: what the shell opened would be another one.
  if (path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1") {
    int fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return errnoStatus(errno, "open", path);
    return AtomicFile(path, "", fd);
  }
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return invalidArgument(strCat("cannot write '", path, "': it is a directory"));
    if (!S_ISREG(info.st_mode)) {
      // /dev/null, /dev/stdout, a named pipe: a rename would replace the node itself.
      int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
      if (fd < 0) return errnoStatus(errno, "open", path);
      return AtomicFile(path, "", fd);
    }
    // Behind a symbolic link the file is replaced, not the link.
    if (char* real = ::realpath(path.c_str(), nullptr)) {
      path = real;
      ::free(real);
    }
  } else if (errno != ENOENT) {
    return errnoStatus(errno, "create", name);
  }
  // A name of its own: one that has `path`'s in it would be too long for names that are just short enough. 0666 as the
  // shell would create it; the umask takes its share.
  static std::atomic<unsigned> counter{0};
  const size_t folderEnd = path.rfind('/') + 1;  // 0 without a slash.
  constexpr int kTries = 1000;                   // Names of a process on another host, and of one that was killed.
  for (int i = 0; i < kTries; ++i) {
    std::string temporary = strCat(path.substr(0, folderEnd), ".hpu-", ::getpid(), "-", counter.fetch_add(1), ".tmp");
    int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return AtomicFile(path, std::move(temporary), fd);
    if (errno != EEXIST) return errnoStatus(errno, "create", name);
  }
  return errnoStatus(EEXIST, "create a temporary file for", name);
}

Status AtomicFile::append(const void* data, size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t put = ::write(fd_, next, std::min<size_t>(bytes, size_t{1} << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errnoStatus(errno, "write", path_);
    next += put;
    bytes -= static_cast<size_t>(put);
  }
  return okStatus();
}

Status AtomicFile::commit() {
  if (fd_ < 0) return failedPrecondition(strCat("'", path_, "' was already committed"));
  if (::fsync(fd_) != 0) {
    int error = errno;
    // Some special file systems have no fsync; the rename is still atomic there.
    if (error != EINVAL && error != EROFS) {
      discard();
      return errnoStatus(error, "sync", path_);
    }
  }
  if (temporary_.empty()) {
    ::close(std::exchange(fd_, -1));
    return okStatus();
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    int error = errno;
    discard();
    return errnoStatus(error, "put the written file in the place of", path_);
  }
  ::close(std::exchange(fd_, -1));
  int directory = ::open(directoryOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    // The file is complete either way; syncing the directory only makes the name durable.
    (void)::fsync(directory);
    ::close(directory);
  }
  return okStatus();
}

Status writeFileAtomic(const std::string& path, const void* data, size_t bytes) {
  HPU_ASSIGN(AtomicFile file, AtomicFile::create(path));
  HPU_RETURN_IF_ERROR(file.append(data, bytes));
  return file.commit();
}
Status writeFileAtomic(const std::string& path, std::string_view text) {
  return writeFileAtomic(path, text.data(), text.size());
}

}  // namespace hpu::base
