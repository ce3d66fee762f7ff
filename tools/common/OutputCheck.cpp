// SPDX-License-Identifier: Apache-2.0
#include "tools/common/OutputCheck.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/File.h"
#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::tools {
namespace {

using base::strCat;

/// A file can be made in the folder, which is there.
Status checkRoom(const std::string& option, const std::string& folder, const std::string& path) {
  std::string name = strCat(folder, folder.ends_with('/') ? "" : "/", ".hpu-check.XXXXXX");
  int fd = ::mkstemp(name.data());
  if (fd < 0) return base::errnoStatus(errno, "write", path).withContext(option);
  // A file system without room makes files, too.
  ssize_t put = ::write(fd, "x", 1);
  int error = errno;
  ::unlink(name.c_str());
  if (::close(fd) != 0 && put == 1) error = errno, put = -1;
  return put == 1 ? okStatus() : base::errnoStatus(error, "write", path).withContext(option);
}

/// `path` without what is not there at its end; "." when nothing of a relative one is.
std::string existingPart(std::filesystem::path path) {
  std::error_code ignored;
  while (!path.empty() && !std::filesystem::exists(path, ignored)) {
    std::filesystem::path parent = path.parent_path();
    if (parent == path) break;
    path = parent;
  }
  return path.empty() ? "." : path.string();
}

}  // namespace

Status checkWritableFile(const std::string& option, const std::string& path) {
  if (path.empty()) return invalidArgument(option + " needs the name of a file");
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    // Open files by number: what is behind them need not be in a folder.
    if (!S_ISDIR(info.st_mode) && (path.starts_with("/dev/") || path.starts_with("/proc/"))) return okStatus();
    if (S_ISDIR(info.st_mode)) return invalidArgument(strCat(option, ": cannot write '", path, "': it is a directory"));
    // /dev/null, /dev/stdout, a named pipe: opening it might wait for its other end.
    if (!S_ISREG(info.st_mode)) {
      if (::access(path.c_str(), W_OK) == 0) return okStatus();
      return base::errnoStatus(errno, "write", path).withContext(option);
    }
  } else if (errno != ENOENT) {
    return base::errnoStatus(errno, "write", path).withContext(option);
  }
  if (path.back() == '/') return invalidArgument(strCat(option, ": '", path, "' is the name of a folder"));
  // Behind a symbolic link the file is replaced, not the link.
  std::error_code error;
  std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  std::string folder = (error ? std::filesystem::path(path) : real).parent_path().string();
  if (folder.empty()) folder = ".";
  if (::stat(folder.c_str(), &info) != 0)
    return base::errnoStatus(errno, "write", path).withContext(strCat(option, ": no folder '", folder, "'"));
  if (!S_ISDIR(info.st_mode))
    return invalidArgument(strCat(option, ": cannot write '", path, "': '", folder, "' is not a folder"));
  // As it will be written; a file system without room makes files, too. Destroyed without commit(), it changes nothing.
  StatusOr<base::AtomicFile> trial = base::AtomicFile::create(path);
  Status written = trial.ok() ? trial->append("x", 1) : trial.status();
  return written.ok() ? written : written.withContext(option);
}

Status checkWritableFolder(const std::string& option, const std::string& path) {
  if (path.empty()) return invalidArgument(option + " needs the name of a folder");
  std::string there = existingPart(path);
  struct stat info;
  if (::stat(there.c_str(), &info) != 0) return base::errnoStatus(errno, "write to", path).withContext(option);
  if (!S_ISDIR(info.st_mode))
    return invalidArgument(strCat(option, ": cannot make '", path, "': '", there, "' is not a folder"));
  return checkRoom(option, there, path);
}

}  // namespace hpu::tools
