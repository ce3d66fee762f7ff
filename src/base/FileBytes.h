// SPDX-License-Identifier: Apache-2.0
// FileBytes: the bytes of a regular file in memory of the process's own.
// The one thing to know: a mapped file changes when somebody writes to it, and ends the process (SIGBUS) when somebody
// truncates it; these bytes are what was read once, so what was checked of them stays true. They cost memory, and
// reading them what copying costs.
//
//   HPU_ASSIGN(auto file, hpu::base::FileBytes::read("model.recipe"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hpu/status.h"

namespace hpu::base {

/// Immutable; any thread may use it.
class FileBytes {
 public:
  /// Reads large files on several threads. Errors: kNotFound, kPermissionDenied, kInvalidArgument (not a regular
  /// file), kResourceExhausted (host memory), kUnavailable (it cannot be read, or became shorter meanwhile).
  static StatusOr<std::shared_ptr<const FileBytes>> read(const std::string& path);
  /// Of an open file, from its beginning; the descriptor stays the caller's. `path` names it in errors.
  static StatusOr<std::shared_ptr<const FileBytes>> read(int fd, const std::string& path);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const uint8_t* data() const { return data_; }  ///< At a page; never null.
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  FileBytes(std::string path, uint8_t* data, size_t size);
  std::string path_;
  uint8_t* data_;
  size_t size_;
};

}  // namespace hpu::base
