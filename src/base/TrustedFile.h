// SPDX-License-Identifier: Apache-2.0
// TrustedFile: an open file that only this user and root can have written (see checkTrusted in base/File.h).
// The one thing to know: what is judged is what is read: owner, mode and bytes are those of one descriptor, so nobody
// gains anything by putting another file under the name in between.
//
//   HPU_ASSIGN(auto file, hpu::base::TrustedFile::open(path));
//   HPU_ASSIGN(auto bytes, file.read());
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/FileBytes.h"

namespace hpu::base {

/// Not thread-safe.
class TrustedFile {
 public:
  /// Errors as checkTrusted; a symbolic link is no regular file.
  static StatusOr<TrustedFile> open(const std::string& path);
  TrustedFile(TrustedFile&& other) noexcept;
  TrustedFile& operator=(TrustedFile&&) = delete;
  ~TrustedFile();

  mode_t mode() const { return mode_; }
  int64_t size() const { return size_; }
  /// All of the file. Errors as FileBytes::read.
  StatusOr<std::shared_ptr<const FileBytes>> read() const;
  /// Sets the times of the file to now; a file system that refuses is ignored.
  void markUsed() const;

 private:
  TrustedFile(std::string path, int fd, mode_t mode, int64_t size);
  std::string path_;
  int fd_;
  mode_t mode_;
  int64_t size_;
};

}  // namespace hpu::base
