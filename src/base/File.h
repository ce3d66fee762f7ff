// SPDX-License-Identifier: Apache-2.0
// Whole files: read one, or replace one so that a reader sees the old or the new bytes, never half.
// The one thing to know: errors name the path, the step that failed and errno's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hpu/status.h"

namespace hpu::base {

/// Reads a whole file (regular or not). Errors: kNotFound, kPermissionDenied, kInvalidArgument (a
/// directory), kResourceExhausted (beyond maxBytes), kUnavailable.
StatusOr<std::vector<uint8_t>> readFile(const std::string& path, int64_t maxBytes = INT64_MAX);
StatusOr<std::string> readTextFile(const std::string& path, int64_t maxBytes = INT64_MAX);

/// A file under construction beside its final path. Bytes are appended; commit() syncs and renames
/// it over the path; destroying it without commit leaves the old file as it was. Not thread-safe.
class AtomicFile {
 public:
  static StatusOr<AtomicFile> create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  /// Errors: kResourceExhausted (disk full), kUnavailable. After an error only destruction is
  /// valid.
  Status append(const void* data, size_t bytes);
  Status commit();

 private:
  /// An empty `temporary`: the target is a device or a pipe and is written in place.
  AtomicFile(std::string path, std::string temporary, int fd);
  void discard();
  std::string path_, temporary_;
  int fd_ = -1;
};

/// AtomicFile in one call.
Status writeFileAtomic(const std::string& path, const void* data, size_t bytes);
Status writeFileAtomic(const std::string& path, std::string_view text);

/// Whether only this user and root can have written what is at `path`: it is a regular file of theirs that others may
/// not write, in a folder in which others cannot put another one in its place. For files whose contents are run, or
/// decide what is. Errors: kNotFound, kPermissionDenied (says what is wrong, and the command that mends it).
Status checkTrusted(const std::string& path);

/// A Status for a failed system call: code from `error`, message "cannot <what> '<path>': <errno
/// text>".
Status errnoStatus(int error, std::string_view what, std::string_view path);

}  // namespace hpu::base
