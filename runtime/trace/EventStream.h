// SPDX-License-Identifier: Apache-2.0
// EventStream: the writing side of one domain: its string table, its open chunk and its finished
// ones. The one thing to know: not thread-safe; whoever owns it locks. Its bytes depend only on the
// calls made.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hpu/status.h"
#include "runtime/trace/Format.h"

namespace hpu::trace {

/// The file that Options::streamTo names. Thread-safe; the first failure is kept and ends the
/// writing.
class FileSink {
 public:
  /// Errors: also kAlreadyExists: another process is recording to the file, which stays as it is.
  static StatusOr<std::shared_ptr<FileSink>> create(const std::string& path);
  ~FileSink();
  void append(const std::vector<uint8_t>& bytes);
  /// Syncs and closes. The first error of the file's life.
  Status close();
  const std::string& path() const { return path_; }
  /// In a forked child: closes its copy of the parent's file, so that the parent's end frees it.
  static void leaveToParent() noexcept;

 private:
  FileSink(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::mutex mutex_;  ///< Guards fd_ and error_.
  std::string path_;
  int fd_ = -1;
  Status error_;
};

class EventStream {
 public:
  /// With a sink, finished chunks go there; else they stay in memory.
  explicit EventStream(uint32_t domain, std::shared_ptr<FileSink> sink = nullptr);

  uint32_t intern(std::string_view text);
  /// Where the record's fields go, between beginRecord and endRecord.
  format::Encoder beginRecord(format::Tag tag) {
    format::Encoder encoder(records_);
    encoder.tag(tag);
    return encoder;
  }
  void endRecord() {
    ++numRecords_;
    if (records_.size() >= format::kChunkBytes) flush();
  }
  /// The last value of a quantity in this chunk, for deltas; reset to 0 by each new chunk.
  int64_t& last(size_t slot) { return last_[slot]; }
  static constexpr size_t kSlots = 4;

  /// Closes the open chunk.
  void flush();
  /// Finished chunks that were kept in memory.
  const std::vector<uint8_t>& finished() const { return finished_; }

 private:
  struct CacheEntry {
    const char* data = nullptr;
    size_t size = 0;
    uint32_t id = 0;
  };
  static constexpr size_t kCacheEntries = 64;

  uint32_t domain_;
  std::shared_ptr<FileSink> sink_;
  std::vector<uint8_t> finished_, records_, strings_;
  uint32_t numRecords_ = 0, numNewStrings_ = 0;
  std::array<int64_t, kSlots> last_{};
  std::unordered_map<std::string_view, uint32_t> ids_;  ///< Keys point into texts_.
  std::vector<std::unique_ptr<std::string>> texts_;
  std::array<CacheEntry, kCacheEntries> cache_;  ///< By address; checked by content.
};

}  // namespace hpu::trace
