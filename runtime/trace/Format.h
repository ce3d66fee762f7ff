// SPDX-License-Identifier: Apache-2.0
// The .hputrace container: a header, then chunks that are only ever appended.
// The one thing to know: every chunk is complete and checked by itself, and belongs to one domain
// (the session, a host thread or a device), so that a device's chunks do not depend on what the
// host did.
//
//   file   = header chunk*
//   header = "HPUTRACE" u16 major u16 minor u32 headerBytes u64 dropped u64 0        (32 bytes)
//   chunk  = u32 magic u16 type u16 0 u32 domain u32 records u64 bytes u64 checksum  (32 bytes)
//   payload
//
// `dropped` (since 1.3) is what a recording to a file has dropped so far: the one number that is changed in place, for
// recordings without a kEnd chunk.
// Integers are little-endian; payloads are LEB128 varints (signed ones zigzag) and interned
// strings. String ids count up from 1 in each domain (0 is ""), in the order of its kStrings
// chunks.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "hpu/trace.h"

namespace hpu::trace::format {

inline constexpr char kMagic[8] = {'H', 'P', 'U', 'T', 'R', 'A', 'C', 'E'};
inline constexpr uint16_t kMajor = 1, kMinor = 3;
inline constexpr uint32_t kHeaderBytes = 32, kChunkHeaderBytes = 32, kDroppedOffset = 16;
inline constexpr uint32_t kChunkMagic = 0x4b4e4348;  // "HCNK"
/// A domain's records are cut into chunks of about this size: what a killed process loses at most.
inline constexpr size_t kChunkBytes = 64 << 10;

enum class ChunkType : uint16_t {
  kSession = 1,  ///< producer, pid, level, maxEvents, start (host ns); since 1.1 also the host's
                 ///< boot id, the wall clock at the start (ns since 1970) and the program's name
  kStrings = 2,  ///< { length, bytes }
  kRecords = 3,  ///< { tag, ... }, see Tag
  kEnd = 4,      ///< dropped events, recorded events, end (host ns): the recording was stopped
  kProcess = 5,  ///< One process of a merged trace (since 1.1): pid, producer, name, boot id, level,
                 ///< dropped events, 1 when it was stopped, start and end (ns since the session's
                 ///< start), start on its own host clock and on the wall clock; #threads { thread };
                 ///< #devices { device, its index in the process }
};

/// The domain of a chunk: its kind in the upper byte, the thread's or device's index below.
enum class DomainKind : uint8_t { kSession = 0, kThread = 1, kDevice = 2 };
constexpr uint32_t domainId(DomainKind kind, uint32_t index) {
  return static_cast<uint32_t>(kind) << 24 | (index & 0xffffff);
}
constexpr DomainKind domainKind(uint32_t domain) {
  return static_cast<DomainKind>(domain >> 24);
}
constexpr uint32_t domainIndex(uint32_t domain) {
  return domain & 0xffffff;
}

/// First varint of a record. Times that are deltas count from the previous record of the same
/// chunk.
enum class Tag : uint8_t {
  // Threads. Host times in nanoseconds since the session's start.
  kThread = 1,       ///< tid, name
  kHostEvent = 2,    ///< name, category, start delta, duration, #args, { key << 1 | isText, value }
  kHostCounter = 3,  ///< name, time delta, value
  kClockEdge = 4,    ///< device, launch, edge, time delta, device ps
  // Devices. Times in picoseconds of the device clock.
  kDevice = 16,   ///< target, name, clock profile
  kProgram = 17,  ///< name, ops, bundles, queues with their commands; counted up from 0
  kLaunch = 18,   ///< launch, queue, queue name, label, program + 1, start, duration; counted up from 0
  kCommand = 19,  ///< launch index, command delta, ready delta, sync, duration
  kSpan = 20,     ///< track (since 1.2 also the network's), queue, queue name, launch, name, category, program + 1, op,
                  ///< ready, sync,
                  ///< duration, bytes, terms
  kDeviceCounter = 21,  ///< name, time delta, value
};

/// A record that counts against the recording's limit; the others say what is what.
constexpr bool isEvent(Tag tag) {
  return tag != Tag::kThread && tag != Tag::kDevice && tag != Tag::kProgram;
}

/// Appends to a byte vector.
class Encoder {
 public:
  explicit Encoder(std::vector<uint8_t>& out) : out_(out) {}
  void varint(uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<uint8_t>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<uint8_t>(value));
  }
  void signedVarint(int64_t value) { varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void tag(Tag tag) { out_.push_back(static_cast<uint8_t>(tag)); }
  void text(std::string_view text) {
    varint(text.size());
    size_t at = out_.size();
    out_.resize(at + text.size());
    if (!text.empty()) std::memcpy(out_.data() + at, text.data(), text.size());
  }

 private:
  std::vector<uint8_t>& out_;
};

/// Reads from bytes that may be anything: after a failure every read gives 0 and ok() stays false.
class Decoder {
 public:
  Decoder(const uint8_t* data, size_t bytes) : at_(data), end_(data + bytes) {}
  bool ok() const { return ok_; }
  bool done() const { return !ok_ || at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) return fail();
      uint8_t byte = *at_++;
      if (shift == 63 && byte > 1) return fail();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return fail();
  }
  int64_t signedVarint() {
    uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  /// A value that must be at most `most`.
  uint64_t upTo(uint64_t most) {
    uint64_t value = varint();
    return value <= most ? value : fail();
  }
  std::string_view text() {
    uint64_t size = varint();
    if (size > left()) return fail(), std::string_view();
    std::string_view view(reinterpret_cast<const char*>(at_), static_cast<size_t>(size));
    at_ += size;
    return view;
  }
  uint64_t fail() {
    ok_ = false;
    at_ = end_;
    return 0;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  bool ok_ = true;
};

/// Fixed-size little-endian fields of the headers (all supported hosts are little-endian).
template <typename T>
void putFixed(std::vector<uint8_t>& out, T value) {
  size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}
template <typename T>
T getFixed(const uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

/// The file header, and a chunk around a payload.
void appendFileHeader(std::vector<uint8_t>& out);
void appendChunk(std::vector<uint8_t>& out, ChunkType type, uint32_t domain, uint32_t records,
                 const std::vector<uint8_t>& payload);
/// Calls visit(type, domain, records, payload, payload bytes) for every complete chunk of a file that
/// the Reader has read.
template <typename Visit>
void forEachChunk(const uint8_t* file, size_t bytes, Visit&& visit) {
  if (bytes < kHeaderBytes) return;
  uint64_t at = getFixed<uint32_t>(file + 12);
  while (at < bytes && bytes - at >= kChunkHeaderBytes) {
    const uint8_t* h = file + at;
    uint64_t size = getFixed<uint64_t>(h + 16);
    if (size > bytes - at - kChunkHeaderBytes) return;
    visit(static_cast<ChunkType>(getFixed<uint16_t>(h + 4)), getFixed<uint32_t>(h + 8), getFixed<uint32_t>(h + 12),
          h + kChunkHeaderBytes, static_cast<size_t>(size));
    at += kChunkHeaderBytes + size;
  }
}

/// The checksum of a chunk: of its payload, seeded with the first kCheckedHeaderBytes of its
/// header.
inline constexpr size_t kCheckedHeaderBytes = 24;
uint64_t chunkChecksum(const uint8_t* header, const uint8_t* payload, size_t bytes);

}  // namespace hpu::trace::format
