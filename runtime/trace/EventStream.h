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

#include "base/FunctionRef.h"
#include "hpu/status.h"
#include "runtime/trace/Format.h"

namespace hpu::trace {

/// The file that Options::streamTo names. Thread-safe; the first failure is kept and ends the writing: the file then
/// ends with its last complete chunk, and what comes later is counted as lost.
class FileSink {
 public:
  /// Errors: also kAlreadyExists: another process is recording to the file, which stays as it is.
  static StatusOr<std::shared_ptr<FileSink>> create(const std::string& path);
  ~FileSink();
  /// Complete chunks with so many events.
  void append(const std::vector<uint8_t>& bytes, int64_t events = 0);
  /// What the recording has dropped so far: goes into the file's header (with what was lost), where it stands when the
  /// process is killed.
  void noteDropped(int64_t dropped);
  /// Appends the last chunk, `end(lost)`, and closes. On a full disk it takes the place of what was written last.
  Status finish(base::FunctionRef<std::vector<uint8_t>(int64_t lost)> end);
  /// Closes. The first error of the file's life.
  Status close();
  const std::string& path() const { return path_; }
  /// In a forked child: closes its copy of the parent's file, so that the parent's end frees it.
  static void leaveToParent() noexcept;

 private:
  FileSink(std::string path, int fd, bool regular) : path_(std::move(path)), regular_(regular), fd_(fd) {}
  Status put(const std::vector<uint8_t>& bytes);
  void cutAt(uint64_t size);
  void writeDropped();

  std::string path_;
  const bool regular_;  ///< Not a pipe: can be cut and written at any place.
  std::mutex mutex_;    ///< Guards all below.
  int fd_ = -1;
  Status error_;
  uint64_t size_ = 0, lastStart_ = 0;  ///< Of the complete chunks, and without those of the last append.
  int64_t lastEvents_ = 0, dropped_ = 0, lost_ = 0;
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
    numEvents_ += format::isEvent(tag);
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
  uint32_t numRecords_ = 0, numEvents_ = 0, numNewStrings_ = 0;
  std::array<int64_t, kSlots> last_{};
  std::unordered_map<std::string_view, uint32_t> ids_;  ///< Keys point into texts_.
  std::vector<std::unique_ptr<std::string>> texts_;
  std::array<CacheEntry, kCacheEntries> cache_;  ///< By address; checked by content.
};

}  // namespace hpu::trace
