// SPDX-License-Identifier: Apache-2.0
// Layout: what lies in the memory that the ranks of a communicator share.
// The one thing to know: all zero is its valid first state, and nothing that is read from it is
// trusted: sizes come from the number of ranks, and a peer's numbers are checked before use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/transport/Transport.h"
#include "collectives/transport/shm/Doorbell.h"

namespace hpu::collectives::shm {

inline constexpr uint64_t kMagic = 0x4d4d4f4355504853;  // "SHPUCOMM"
// Raise it whenever anything in this file changes.
inline constexpr uint32_t kVersion = 6;
inline constexpr size_t kLine = 64;

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

enum class RankState : uint32_t {
  kPresent = 0,
  kAborted = 1,  ///< Its reason is in the block.
  kLeft = 2,     ///< Its transport was destroyed.
  kDead = 3,     ///< Its process was seen to be gone, by any of the others.
};

struct Header {
  uint64_t magic, version, ranks, bytes;
  uint8_t id[16];
  alignas(kLine) std::atomic<uint32_t> refused;  ///< Somebody waits for others to retire records.
};

struct alignas(kLine) RecordSlot {
  static constexpr size_t kWords = sizeof(CallRecord) / 8;
  static constexpr size_t kWordsBeforePorts = offsetof(CallRecord, portsPs) / 8;
  static_assert(sizeof(CallRecord) % 8 == 0 && offsetof(CallRecord, portsPs) % 8 == 0);
  std::atomic<uint64_t> sequence;  ///< Of what is in it; 0 while it is written.
  std::atomic<uint64_t> words[kWords];
};
/// The rank's share of an operation that all work on (collectives/transport/SharedWork.h); the owner
/// clears it before it publishes the record of the same index.
struct alignas(kLine) WorkSlot {
  std::atomic<uint32_t> taken, finished;  ///< Parts.
};
inline constexpr uint64_t kRecords = 64;
inline constexpr size_t kReasonBytes = 1016;

/// What a rank tells all others. Each line has one writer, except the doorbell.
struct RankBlock {
  alignas(kLine) Doorbell doorbell;
  alignas(kLine) std::atomic<uint64_t> activity;  ///< Transport calls that did something.
  std::atomic<uint64_t> beats;                    ///< Times that its device was seen to advance.
  std::atomic<uint32_t> cpu;                      ///< 1 more than where it waited or published last; 0: it never did.
  alignas(kLine) std::atomic<uint64_t> published;
  alignas(kLine) std::atomic<uint64_t> retired;
  alignas(kLine) std::atomic<uint32_t> state;
  std::atomic<uint32_t> reasonBytes;
  std::atomic<uint32_t> reasonCode;
  char reason[kReasonBytes];
  alignas(kLine) std::atomic<uint64_t> cpus[16];  ///< Where it may run (base::CpuSet).
  alignas(kLine) std::atomic<uint64_t> working;   ///< The operation that it is within a part of.
  alignas(kLine) RecordSlot records[kRecords];
  WorkSlot work[kRecords];
};

/// A message: bytes in the ring or in the sender's device memory.
struct Descriptor {
  std::atomic<uint64_t> offset;  ///< Into the ring's bytes, or into the device memory.
  std::atomic<int64_t> bytes;
  std::atomic<uint64_t> shared;  ///< 1: in device memory.
  MessageTag tag;
};
static_assert(sizeof(Descriptor) <= kLine);

/// Messages of one lane from one rank to one other.
struct RingHeader {
  alignas(kLine) std::atomic<uint64_t> offered;   ///< Written by the sender.
  std::atomic<uint32_t> full;                     ///< The sender waits for room; the receiver takes it back.
  alignas(kLine) std::atomic<uint64_t> released;  ///< Written by the receiver.
};

/// Sizes and places, by the number of ranks: few ranks have deep lanes, many share a few dozen MB
/// of address space. Only what is used is ever given memory.
struct Geometry {
  explicit Geometry(int ranks)
      : ranks(static_cast<uint64_t>(ranks)),
        messages(ranks <= 8    ? 64
                 : ranks <= 16 ? 32
                               : 16),
        smallBytes(ranks <= 16 ? 4096 : 1024),
        ringBytes(ranks <= 8 ? 16384 : 4 * smallBytes) {}
  uint64_t ranks, messages;
  int64_t smallBytes;
  int64_t ringBytes;

  static constexpr uint64_t aligned(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
  uint64_t descriptorsAt() const { return sizeof(RingHeader); }
  uint64_t bytesAt() const { return descriptorsAt() + messages * kLine; }
  uint64_t ringStride() const { return aligned(bytesAt() + static_cast<uint64_t>(ringBytes)); }
  uint64_t blockAt(uint64_t rank) const { return aligned(sizeof(Header)) + rank * aligned(sizeof(RankBlock)); }
  uint64_t ringAt(uint64_t from, uint64_t to, uint64_t lane) const {
    return blockAt(ranks) + ((from * ranks + to) * kNumLanes + lane) * ringStride();
  }
  uint64_t total() const { return ringAt(ranks, 0, 0); }
};

}  // namespace hpu::collectives::shm
