// SPDX-License-Identifier: Apache-2.0
// Chunks, string tables and the streaming file of the .hputrace format.
#include "runtime/trace/EventStream.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/File.h"
#include "base/Hash.h"

namespace hpu::trace {
namespace format {

uint64_t chunkChecksum(const uint8_t* header, const uint8_t* payload, size_t bytes) {
  return base::hash64(payload, bytes, base::hash64(header, kCheckedHeaderBytes));
}

void appendFileHeader(std::vector<uint8_t>& out) {
  out.insert(out.end(), kMagic, kMagic + sizeof kMagic);
  putFixed(out, kMajor);
  putFixed(out, kMinor);
  putFixed(out, kHeaderBytes);
  putFixed(out, uint64_t{0});
  putFixed(out, uint64_t{0});
}

void appendChunk(std::vector<uint8_t>& out, ChunkType type, uint32_t domain, uint32_t records,
                 const std::vector<uint8_t>& payload) {
  size_t at = out.size();
  putFixed(out, kChunkMagic);
  putFixed(out, static_cast<uint16_t>(type));
  putFixed(out, uint16_t{0});
  putFixed(out, domain);
  putFixed(out, records);
  putFixed(out, static_cast<uint64_t>(payload.size()));
  putFixed(out, chunkChecksum(&out[at], payload.data(), payload.size()));
  out.insert(out.end(), payload.begin(), payload.end());
}

}  // namespace format

namespace {

// The process has one recording, hence one open file; for leaveToParent.
std::atomic<int> openFile{-1};

/// Empties a regular file that no other process records to; a pipe or device is taken as it is.
Status takeFile(int fd, const std::string& path, bool& regular) {
  struct stat info;
  if (fstat(fd, &info) != 0) return base::errnoStatus(errno, "write trace", path);
  regular = S_ISREG(info.st_mode);
  if (!regular) return okStatus();
  // Held until close(). A file system without locks lets everybody write.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return {StatusCode::kAlreadyExists, "cannot write trace '" + path + "': another process is recording to it"};
  if (ftruncate(fd, 0) != 0) return base::errnoStatus(errno, "write trace", path);
  return okStatus();
}

}  // namespace

StatusOr<std::shared_ptr<FileSink>> FileSink::create(const std::string& path) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return base::errnoStatus(errno, "write trace", path);
  bool regular = false;
  if (Status status = takeFile(fd, path, regular); !status.ok()) {
    ::close(fd);
    return status;
  }
  openFile.store(fd, std::memory_order_relaxed);
  return std::shared_ptr<FileSink>(new FileSink(path, fd, regular));
}

void FileSink::leaveToParent() noexcept {
  if (int fd = openFile.exchange(-1, std::memory_order_relaxed); fd >= 0) ::close(fd);
}

FileSink::~FileSink() {
  close().ignore();
}

/// Behind the complete chunks; what is not written whole is taken back. mutex_ is held.
Status FileSink::put(const std::vector<uint8_t>& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    ssize_t n = ::write(fd_, bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Status status = base::errnoStatus(errno, "write trace", path_);
      cutAt(size_);
      return status;
    }
    written += static_cast<size_t>(n);
  }
  size_ += bytes.size();
  return okStatus();
}

void FileSink::cutAt(uint64_t size) {
  if (!regular_) return;
  // Should it fail, the reader finds an incomplete chunk at the end and says so.
  if (ftruncate(fd_, static_cast<off_t>(size)) == 0 && lseek(fd_, static_cast<off_t>(size), SEEK_SET) >= 0)
    size_ = size;
}

void FileSink::writeDropped() {
  if (!regular_ || fd_ < 0) return;
  std::vector<uint8_t> bytes;
  format::putFixed(bytes, static_cast<uint64_t>(dropped_ + lost_));
  // In place: needs no room on the disk.
  (void)!pwrite(fd_, bytes.data(), bytes.size(), format::kDroppedOffset);
}

void FileSink::append(const std::vector<uint8_t>& bytes, int64_t events) {
  std::lock_guard lock(mutex_);
  if (fd_ < 0) return;
  if (error_.ok()) {
    uint64_t start = size_;
    error_ = put(bytes);
    if (error_.ok()) {
      lastStart_ = start;
      lastEvents_ = events;
      return;
    }
  }
  lost_ += events;
  if (events > 0) writeDropped();
}

void FileSink::noteDropped(int64_t dropped) {
  std::lock_guard lock(mutex_);
  dropped_ = dropped;
  writeDropped();
}

Status FileSink::finish(base::FunctionRef<std::vector<uint8_t>(int64_t lost)> end) {
  {
    std::lock_guard lock(mutex_);
    Status status = fd_ >= 0 ? put(end(lost_)) : okStatus();
    // The session's chunk, the first, stays.
    if (!status.ok() && regular_ && lastStart_ > 0) {
      cutAt(lastStart_);
      lost_ += lastEvents_;
      writeDropped();
      put(end(lost_)).ignore();
    }
    if (error_.ok()) error_ = std::move(status);
  }
  return close();
}

Status FileSink::close() {
  std::lock_guard lock(mutex_);
  if (fd_ >= 0) {
    int mine = fd_;
    openFile.compare_exchange_strong(mine, -1, std::memory_order_relaxed);
    // A forked child holds a copy until it has run; the lock must not outlive the recording by that.
    (void)flock(fd_, LOCK_UN);
    if (::close(fd_) != 0 && error_.ok()) error_ = base::errnoStatus(errno, "write trace", path_);
    fd_ = -1;
  }
  return error_;
}

EventStream::EventStream(uint32_t domain, std::shared_ptr<FileSink> sink) : domain_(domain), sink_(std::move(sink)) {}

uint32_t EventStream::intern(std::string_view text) {
  if (text.empty()) return 0;
  CacheEntry& entry = cache_[(reinterpret_cast<uintptr_t>(text.data()) >> 3) % kCacheEntries];
  if (entry.data == text.data() && entry.size == text.size() && *texts_[entry.id - 1] == text) return entry.id;
  auto found = ids_.find(text);
  uint32_t id;
  if (found != ids_.end()) {
    id = found->second;
  } else {
    texts_.push_back(std::make_unique<std::string>(text));
    id = static_cast<uint32_t>(texts_.size());
    ids_.emplace(*texts_.back(), id);
    format::Encoder(strings_).text(text);
    ++numNewStrings_;
  }
  entry = {text.data(), text.size(), id};
  return id;
}

void EventStream::flush() {
  std::vector<uint8_t> bytes;
  std::vector<uint8_t>& out = sink_ ? bytes : finished_;
  // Strings first, so that a file that ends between the two has no dangling id.
  if (numNewStrings_) format::appendChunk(out, format::ChunkType::kStrings, domain_, numNewStrings_, strings_);
  if (numRecords_) format::appendChunk(out, format::ChunkType::kRecords, domain_, numRecords_, records_);
  if (sink_ && !bytes.empty()) sink_->append(bytes, numEvents_);
  strings_.clear();
  records_.clear();
  numNewStrings_ = numRecords_ = numEvents_ = 0;
  last_ = {};
}

}  // namespace hpu::trace
