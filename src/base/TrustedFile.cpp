// SPDX-License-Identifier: Apache-2.0
#include "base/TrustedFile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::base {
namespace {

struct Descriptor {
  explicit Descriptor(int given) : fd(given) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int release() { return std::exchange(fd, -1); }
  int fd;
};

}  // namespace

TrustedFile::TrustedFile(std::string path, int fd, mode_t mode, int64_t size)
    : path_(std::move(path)), fd_(fd), mode_(mode), size_(size) {}
TrustedFile::TrustedFile(TrustedFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), mode_(other.mode_), size_(other.size_) {}
TrustedFile::~TrustedFile() {
  if (fd_ >= 0) ::close(fd_);
}

StatusOr<TrustedFile> TrustedFile::open(const std::string& path) {
  auto theirs = [](const struct stat& info) { return info.st_uid != ::geteuid() && info.st_uid != 0; };
  auto denied = [&](auto... parts) {
    return Status(StatusCode::kPermissionDenied, strCat("'", path, "' is not trusted: ", parts...));
  };
  constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  // The file is looked up in the very folder that is judged below.
  Descriptor in(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (in.fd < 0) return errnoStatus(errno, "open", folder);
  // O_NONBLOCK: opening a FIFO must not wait for a writer before we can refuse it.
  Descriptor file(::openat(in.fd, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (file.fd < 0) {
    const int error = errno;
    struct stat link;
    if (::fstatat(in.fd, name.c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(link.st_mode))
      return denied("it is no regular file");
    return errnoStatus(error, "open", path);
  }
  struct stat info, folderInfo;
  if (::fstat(file.fd, &info) != 0) return errnoStatus(errno, "stat", path);
  if (::fstat(in.fd, &folderInfo) != 0) return errnoStatus(errno, "stat", folder);
  if (!S_ISREG(info.st_mode)) return denied("it is no regular file");
  if (theirs(info)) return denied("it is of user ", info.st_uid, ", who could have put anything into it");
  if (info.st_mode & kOthersWrite) return denied("others may write it (chmod go-w '", path, "')");
  if (theirs(folderInfo))
    return denied("its folder is of user ", folderInfo.st_uid, ", who could put another file in its place");
  // In a sticky folder (as /tmp) only its owner replaces a file.
  if ((folderInfo.st_mode & kOthersWrite) && !(folderInfo.st_mode & S_ISVTX))
    return denied("others may write its folder, and put another file in its place (chmod go-w '", folder, "')");
  return TrustedFile(path, file.release(), info.st_mode, info.st_size);
}

StatusOr<std::shared_ptr<const FileBytes>> TrustedFile::read() const {
  return FileBytes::read(fd_, path_);
}

void TrustedFile::markUsed() const {
  ::futimens(fd_, nullptr);
}

Status checkTrusted(const std::string& path) {
  return TrustedFile::open(path).status();
}

}  // namespace hpu::base
