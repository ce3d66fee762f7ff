// SPDX-License-Identifier: Apache-2.0
// SharedEvent and OpenedEvent: the two sides of an event that other processes of the machine wait for.
// The one thing to know: what they share is a sealed memory file without a name (memfd). The handle names the process
// that made it and the descriptor there; so nothing is left when processes are killed, and who may open it is what the
// kernel says of /proc/PID/fd. Openers map it for reading only.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hpu/event.h"
#include "hpu/status.h"
#include "runtime/node/Protocol.h"

namespace hpu {

class TicketHandle;

namespace shared_event {

inline constexpr int kRecent = 15;
/// What a record came to. Of the last kRecent records; a later one takes an older one's place.
struct Outcome {
  std::atomic<uint64_t> stamp;  ///< The record's number times 4, and its State.
  uint32_t code;                ///< Of kFailed: a StatusCode, and what is to be said.
  uint32_t length;
  char text[240];
};
enum State : uint32_t { kPending, kDone, kFailed };

inline constexpr int kRuns = 1024;
/// Records that ended one after the other, with successive numbers and the same failure: so that what a record came to
/// is known for long after it has lost its place in `recent`.
struct FailedRun {
  std::atomic<uint64_t> first, last;
  std::atomic<uint64_t> code;
};

struct Block {
  uint32_t magic, version;
  uint8_t id[16];
  int64_t pid;
  uint64_t startTime;
  std::atomic<uint32_t> changes;  ///< A futex: counts what ended.
  uint32_t reserved;
  std::atomic<uint64_t> latest;     ///< The number of the last record; 0: there was none.
  std::atomic<uint64_t> doneBelow;  ///< All records with lower numbers are over.
  Outcome recent[kRecent];
  std::atomic<uint64_t> begun, runs;     ///< How many of them were begun, and are whole; each takes the oldest's place.
  std::atomic<uint64_t> forgottenBelow;  ///< Runs that have lost their place had lower numbers only.
  FailedRun failed[kRuns];
};
inline constexpr size_t kBytes = 32 << 10;
static_assert(sizeof(Block) <= kBytes);

/// A block that is mapped; any thread.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(void* data) : data_(data) {}
  ~Mapping();
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Mapping& operator=(Mapping&&) = delete;
  Block* block() const { return static_cast<Block*>(data_); }

 private:
  void* data_ = nullptr;
};

}  // namespace shared_event

/// The side of the process that records. Any thread may call anything.
class SharedEvent : public std::enable_shared_from_this<SharedEvent> {
 public:
  /// Errors: kResourceExhausted (descriptors, memory).
  static StatusOr<std::shared_ptr<SharedEvent>> create();
  SharedEvent(node::Fd file, shared_event::Mapping mapping) : file_(std::move(file)), mapping_(std::move(mapping)) {}
  EventHandle handle() const;
  /// It stands for the ticket from now on; the others learn of its end.
  void recorded(const std::shared_ptr<TicketHandle>& ticket) noexcept;

 private:
  struct Record;
  void finish(uint64_t number, const Status& status) noexcept;
  void remember(uint64_t number, StatusCode code) noexcept;
  shared_event::Block& block() const { return *mapping_.block(); }
  const node::Fd file_;
  const shared_event::Mapping mapping_;
  std::mutex mutex_;  // Guards what follows, and writing to the block.
  std::vector<uint64_t> pending_;
};

/// The side of another process (or the same one). Any thread may call anything.
class OpenedEvent {
 public:
  /// As Event::open.
  static StatusOr<std::shared_ptr<OpenedEvent>> open(const EventHandle& handle);
  OpenedEvent(shared_event::Mapping mapping, std::string place, uint64_t inode);
  /// The number of the last record; 0: there was none.
  uint64_t latest() const { return block().latest.load(std::memory_order_acquire); }
  /// What the record came to; nothing while it goes on. Does not look whether its process is alive.
  std::optional<Status> outcome(uint64_t number) const;
  /// The same; kUnavailable when it goes on and its process has ended.
  std::optional<Status> outcomeOrGone(uint64_t number) const;
  /// Waits; nothing: not by then.
  std::optional<Status> await(uint64_t number, std::chrono::steady_clock::time_point until) const;
  /// Changes when a record ends: a futex in shared memory.
  const std::atomic<uint32_t>& changes() const { return block().changes; }

 private:
  const shared_event::Block& block() const { return *mapping_.block(); }
  Status earlier(uint64_t number) const;
  bool ownerLives() const;
  const shared_event::Mapping mapping_;
  const std::string place_;  ///< Where the owner has the file.
  const uint64_t inode_;
  const int64_t pid_;
  const uint64_t startTime_;
};

/// Why a capture refuses to record one.
inline constexpr std::string_view kSharedInCapture =
    "other processes wait for a shared event when it is recorded, and nothing runs in a capture; record it after the "
    "replay";

/// How long a wait sleeps before it looks whether the other process is alive.
inline constexpr std::chrono::milliseconds kLookAfterOwner{50};

}  // namespace hpu
