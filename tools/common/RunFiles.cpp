// SPDX-License-Identifier: Apache-2.0
#include "tools/common/RunFiles.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/Format.h"

namespace hpu::tools {
namespace {

/// What tells a file from all others: the inode of one that is there, the path that one would get. Devices and pipes
/// may be used for anything (empty).
std::string identityOf(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return {};
    return base::strCat(info.st_dev, ":", info.st_ino);
  }
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  return error ? path : whole.string();
}

}  // namespace

Status RunFiles::read(const std::string& path) {
  Named file{identityOf(path), path, false};
  if (file.identity.empty()) return okStatus();
  for (const Named& other : files_)
    if (other.written && other.identity == file.identity)
      return invalidArgument("'" + other.path + "' would be written over the input '" + path +
                             "'; give another output");
  files_.push_back(std::move(file));
  return okStatus();
}

Status RunFiles::write(const std::string& path, bool again) {
  Named file{identityOf(path), path, true};
  if (file.identity.empty()) return okStatus();
  for (const Named& other : files_) {
    if (other.identity != file.identity) continue;
    if (other.written && other.path == path && again) return okStatus();
    if (other.written)
      return invalidArgument("'" + path + "' and '" + other.path + "' are one file; give each output its own");
    return invalidArgument("'" + path + "' would be written over the input '" + other.path + "'; give another output");
  }
  files_.push_back(std::move(file));
  return okStatus();
}

}  // namespace hpu::tools
