// SPDX-License-Identifier: Apache-2.0
#include "pytorch/device/CachingAllocator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "pytorch/device/Runtime.h"
#include "pytorch/device/Streams.h"
#include "pytorch/record/Flush.h"

namespace hpu_torch {
namespace {

// Sizes as in PyTorch's allocator for CUDA, whose users' habits they fit: small tensors share segments of 2 MiB, others
// of 20 MiB, and what is larger has a segment of its own.
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kSmallLimit = kMiB, kSmallSegment = 2 * kMiB;
constexpr int64_t kLargeLimit = 10 * kMiB, kLargeSegment = 20 * kMiB;
constexpr int64_t kSegmentAlignment = 2 * kMiB;

int64_t roundUp(int64_t bytes, int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}
int64_t segmentBytes(int64_t bytes) {
  if (bytes <= kSmallLimit) return kSmallSegment;
  return bytes < kLargeLimit ? kLargeSegment : roundUp(bytes, kSegmentAlignment);
}
/// Whether what is left of a block is worth being one.
bool isWorthSplitting(const Segment& segment, int64_t left) {
  return segment.isSmall ? left >= kBlockAlignment : left > kSmallLimit;
}
std::string inWords(int64_t bytes) {
  char text[32];
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

}  // namespace

CachingAllocator::CachingAllocator(hpu::Device device, StreamTable& streams, c10::DeviceIndex index)
    : device_(std::move(device)), streams_(streams), index_(index) {
  stats_.limit = device_.memoryInfo().totalBytes;
  hpu::MemoryHooks hooks;
  // Asked by our own allocations, and by what else allocates on the device: constants and workspaces of executables.
  hooks.outOfMemory = [this](int64_t) {
    if (emptyCache() == 0) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.retries;
    return true;
  };
  check(device_.setMemoryHooks(hooks), "installing memory hooks");
}

Block* CachingAllocator::allocate(int64_t asked, c10::StreamId stream) {
  TORCH_CHECK(asked > 0, "an allocation of ", static_cast<uint64_t>(asked), " bytes on hpu:", static_cast<int>(index_));
  const int64_t bytes = roundUp(asked, kBlockAlignment);
  hpu::AllocateOptions options;
  options.label = "PyTorch";
  options.wait = false;
  for (int attempt = 0;; ++attempt) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      freeDone(/*wait=*/attempt > 0);
      if (Block* block = takeFree(bytes, stream)) return use(block, asked);
      if (attempt > 0 && releaseSegments() > 0) ++stats_.retries;
    }
    // First as much as usual, then after the cache was given back; at last no more than what is asked for, with waiting
    // for what the device's work still holds.
    options.wait = attempt == 2;
    hpu::StatusOr<hpu::Buffer> buffer = device_.allocate(attempt == 2 ? bytes : segmentBytes(bytes), options);
    if (!buffer.ok()) {
      if (attempt == 2 || buffer.status().code() != hpu::StatusCode::kResourceExhausted)
        outOfMemory(asked, buffer.status());
      // What is recorded keeps what it reads.
      if (attempt == 1) flush(index_, "memory");
      continue;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    addSegment(std::move(buffer).value(), bytes <= kSmallLimit, stream);
    // Another thread of the stream may have been faster, with a smaller rest: then once more.
    if (Block* block = takeFree(bytes, stream)) return use(block, asked);
    attempt = -1;
  }
}

void CachingAllocator::outOfMemory(int64_t bytes, const hpu::Status& status) {
  MemoryStats now;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++stats_.failures;
    now = stats_;
  }
  const hpu::MemoryInfo info = device_.memoryInfo();
  if (status.code() != hpu::StatusCode::kResourceExhausted)
    raise(status, "allocating on hpu:" + std::to_string(index_));
  const std::string text =
      "hpu:" + std::to_string(index_) + " is out of memory: tried to allocate " + inWords(bytes) + "; of " +
      inWords(info.totalBytes) + " of HBM " + inWords(now.used) + " are in tensors, " +
      inWords(now.reserved - now.used) + " are cached for streams or in parts of segments, " +
      inWords(info.usedBytes - now.reserved) + " are the runtime's, " + inWords(info.totalBytes - info.usedBytes) +
      " are free (the largest piece has " + inWords(info.largestFreeBytes) +
      "). Free tensors or make them smaller; torch.hpu.memory_summary() says what there is. [" + status.message() + "]";
  throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
}

Block* CachingAllocator::takeFree(int64_t bytes, c10::StreamId stream) {
  FreeBlocks& blocks = bytes <= kSmallLimit ? smallFree_ : largeFree_;
  Block wanted;
  wanted.stream = stream;
  wanted.bytes = bytes;
  auto found = blocks.lower_bound(&wanted);
  if (found == blocks.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  blocks.erase(found);
  const int64_t left = block->bytes - bytes;
  if (left > 0 && isWorthSplitting(*block->segment, left)) {
    auto* rest = new Block;
    rest->segment = block->segment;
    rest->address = block->address + bytes;
    rest->bytes = left;
    rest->stream = stream;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    blocks.insert(rest);
  }
  return block;
}

Block* CachingAllocator::use(Block* block, int64_t asked) {
  block->state = Block::State::kUsed;
  block->asked = asked;
  block->sizes.clear();
  stats_.used += block->bytes;
  stats_.usedPeak = std::max(stats_.usedPeak, stats_.used);
  stats_.largest = std::max(stats_.largest, block->bytes);
  ++stats_.allocations;
  ++stats_.activeBlocks;
  return block;
}

void CachingAllocator::free(Block* block) noexcept {
  if (isForkedChild()) return;  // The block is the parent's; its lock may have been held by a thread that is not here.
  std::lock_guard<std::mutex> lock(mutex_);
  ++stats_.frees;
  --stats_.activeBlocks;
  stats_.used -= block->bytes;
  block->asked = 0;
  if (block->users.empty()) return giveBack(block);
  Waiting waiting{block, {}};
  for (c10::StreamId user : block->users) {
    hpu::Stream* stream = streams_.getOrNull(user);
    hpu::EventOptions untimed;
    untimed.timed = false;
    hpu::StatusOr<hpu::Event> event = hpu::Event::create(untimed);
    if (stream && event.ok() && stream->record(*event).ok()) waiting.events.push_back(std::move(event).value());
  }
  block->users.clear();
  block->state = Block::State::kWaiting;
  stats_.waiting += block->bytes;
  waiting_.push_back(std::move(waiting));
}

void CachingAllocator::giveBack(Block* block) {
  FreeBlocks& blocks = freeBlocks(*block->segment);
  block->state = Block::State::kFree;
  if (Block* other = block->before; other && other->state == Block::State::kFree) {
    blocks.erase(other);
    other->bytes += block->bytes;
    other->after = block->after;
    if (other->after) other->after->before = other;
    delete block;
    block = other;
  }
  if (Block* other = block->after; other && other->state == Block::State::kFree) {
    blocks.erase(other);
    block->bytes += other->bytes;
    block->after = other->after;
    if (block->after) block->after->before = block;
    delete other;
  }
  blocks.insert(block);
}

void CachingAllocator::addSegment(hpu::Buffer buffer, bool isSmall, c10::StreamId stream) {
  auto* segment = new Segment;
  segment->owner = this;
  segment->isSmall = isSmall;
  auto* block = new Block;
  block->segment = segment;
  block->address = buffer.address();
  block->bytes = buffer.size();
  block->stream = stream;
  segment->first = block;
  segment->buffer = std::move(buffer);
  segment->place = segments_.insert(segments_.end(), segment);
  stats_.reserved += block->bytes;
  stats_.reservedPeak = std::max(stats_.reservedPeak, stats_.reserved);
  ++stats_.deviceAllocations;
  ++stats_.activeSegments;
  freeBlocks(*segment).insert(block);
}

void CachingAllocator::freeDone(bool wait) {
  if (waiting_.empty()) return;
  // Asked, and not waited for with Event::synchronize: that would take a failure of the stream, which is its user's to
  // see. Work that has failed, or was dropped by a reset, uses the memory no more.
  auto isDone = [](const hpu::Event& event) {
    hpu::StatusOr<bool> done = event.query();
    return !done.ok() || *done;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    bool allDone = true;
    for (const hpu::Event& event : it->events) {
      while (!isDone(event) && wait && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      allDone = allDone && isDone(event);
    }
    if (!allDone) {
      ++it;
      continue;
    }
    stats_.waiting -= it->block->bytes;
    giveBack(it->block);
    it = waiting_.erase(it);
  }
}

int64_t CachingAllocator::releaseSegments() {
  int64_t released = 0;
  for (FreeBlocks* blocks : {&smallFree_, &largeFree_})
    for (auto it = blocks->begin(); it != blocks->end();) {
      Block* block = *it;
      if (block->before || block->after) {
        ++it;
        continue;
      }
      it = blocks->erase(it);
      released += block->bytes;
      stats_.reserved -= block->bytes;
      ++stats_.deviceFrees;
      --stats_.activeSegments;
      segments_.erase(block->segment->place);
      delete block->segment;  // The device frees the memory in order with the work that uses it.
      delete block;
    }
  return released;
}

void CachingAllocator::recordStream(Block* block, c10::StreamId stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream == block->stream) return;
  if (std::find(block->users.begin(), block->users.end(), stream) == block->users.end()) block->users.push_back(stream);
}

int64_t CachingAllocator::emptyCache() {
  std::lock_guard<std::mutex> lock(mutex_);
  freeDone(/*wait=*/false);
  return releaseSegments();
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

void CachingAllocator::resetPeaks() {
  std::lock_guard<std::mutex> lock(mutex_);
  stats_.usedPeak = stats_.used;
  stats_.reservedPeak = stats_.reserved;
  stats_.largest = 0;
}

std::vector<SegmentInfo> CachingAllocator::snapshot() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentInfo> segments;
  for (const Segment* segment : segments_) {
    SegmentInfo info{segment->buffer.address(), segment->buffer.size(), segment->isSmall, {}};
    for (const Block* block = segment->first; block; block = block->after)
      info.blocks.push_back({block->address, block->bytes, block->asked, block->stream, block->state});
    segments.push_back(std::move(info));
  }
  return segments;
}

}  // namespace hpu_torch
