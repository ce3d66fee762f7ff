// SPDX-License-Identifier: Apache-2.0
// MappedFile: a regular file mapped read-only into memory.
// The one thing to know: keep the shared pointer as owner of everything that points into the
// mapping; a file that is truncated while mapped raises SIGBUS, as with every mapping.
//
//   HPU_ASSIGN(auto file, hpu::base::MappedFile::open("weights.bin"));
//   parse(file->data(), file->size(), /*owner=*/file);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hpu/status.h"

namespace hpu::base {

/// Immutable; any thread may read.
class MappedFile {
 public:
  /// Maps the whole file; an empty one has size() 0 and a data() that is not null. Errors:
  /// kNotFound, kPermissionDenied, kInvalidArgument (not a regular file), kResourceExhausted.
  static StatusOr<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const uint8_t* data, size_t size);
  std::string path_;
  const uint8_t* data_;
  size_t size_;
};

}  // namespace hpu::base
