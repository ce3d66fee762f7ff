// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/local/LocalTransport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/Format.h"

namespace hpu::collectives {
namespace {

struct Message {
  std::vector<std::byte> copy;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  bool shared = false;
  MessageTag tag;
};

struct LaneState {
  std::deque<Message> messages;  // Not released.
  uint64_t released = 0;
  bool wasFull = false;
};

/// More than anybody waits for.
constexpr uint32_t kUrgent = 1 << 16;

struct RankState {
  LocalMemory memory;
  std::map<std::pair<int, int>, LaneState> from;  // By sender and lane.
  std::map<uint64_t, CallRecord> records;
  uint64_t published = 0, retired = 0;
  bool wasRefused = false;
  uint32_t changes = 0;
  uint64_t activity = 0, lastBeat = 0;
  bool dead = false, left = false, stopped = false;
  Status aborted;
  std::mutex sourceMutex;  // Held while the source is asked.
  std::function<uint64_t()> source;
};

struct State {
  explicit State(size_t ranks) : ranks(ranks) {}
  LocalOptions options;
  std::mutex mutex;  // Guards all but the ranks' sources.
  std::condition_variable changed;
  std::vector<RankState> ranks;

  int nameOf(int rank) const { return options.names.empty() ? rank : options.names[static_cast<size_t>(rank)]; }
  RankState& at(int rank) { return ranks[static_cast<size_t>(rank)]; }
  void tell(int rank, bool urgent = false) {
    at(rank).changes += urgent ? kUrgent : 1;
    changed.notify_all();
  }
  void tellAll(bool urgent = true) {
    for (RankState& rank : ranks) rank.changes += urgent ? kUrgent : 1;
    changed.notify_all();
  }
  Status status(int rank) {
    RankState& state = at(rank);
    if (!state.aborted.ok())
      return hpu::aborted(base::strCat("rank ", nameOf(rank), " gave up: ", state.aborted.message()));
    if (state.dead) return unavailable(base::strCat("rank ", nameOf(rank), " (this process, killed) is gone"));
    if (state.left)
      return unavailable(base::strCat("rank ", nameOf(rank), " (this process) has left the communicator"));
    return okStatus();
  }
};

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<State> state, int rank) : state_(std::move(state)), rank_(rank) {}
  ~LocalTransport() override {
    setProgressSource({});
    std::lock_guard lock(state_->mutex);
    state_->at(rank_).left = true;
    state_->tellAll();
  }
  std::string_view name() const override { return "local"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(state_->ranks.size()); }

  std::byte* local(uint64_t address, int64_t bytes) const override {
    const LocalMemory& memory = state_->at(rank_).memory;
    auto size = static_cast<uint64_t>(memory.bytes);
    if (bytes < 0 || address < memory.base || address - memory.base > size ||
        static_cast<uint64_t>(bytes) > size - (address - memory.base))
      return nullptr;
    return memory.data + (address - memory.base);
  }

  bool holds(const std::byte* data, int64_t bytes) const override {
    const LocalMemory& memory = state_->at(rank_).memory;
    auto offset = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(memory.data);
    return memory.data && bytes >= 0 && offset <= static_cast<uint64_t>(memory.bytes) &&
           static_cast<uint64_t>(bytes) <= static_cast<uint64_t>(memory.bytes) - offset;
  }

  StatusOr<Offered> offer(int peer, Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag) override {
    if (peer < 0 || peer >= ranks() || peer == rank_ || bytes < 0 || (bytes > 0 && !data))
      return invalidArgument(
          base::strCat("rank ", rank_, " cannot offer ", bytes, " bytes to rank ", peer, " of ", ranks()));
    bool small = bytes <= state_->options.smallBytes;
    if (!small && !holds(data, bytes))
      return invalidArgument(base::strCat("the ", bytes, " bytes that rank ", state_->nameOf(rank_),
                                          " offers are not in its device's memory"));
    std::lock_guard lock(state_->mutex);
    RankState& self = state_->at(rank_);
    if (Status status = state_->status(peer); !status.ok()) return status;
    LaneState& queue = state_->at(peer).from[{rank_, static_cast<int>(lane)}];
    if (queue.messages.size() >= state_->options.laneMessages) {
      queue.wasFull = true;
      return Offered::kFull;
    }
    Message& message = queue.messages.emplace_back();
    message.bytes = bytes;
    message.tag = tag;
    message.shared = !small;
    if (small) message.copy.assign(data, data + bytes);
    message.data = small ? message.copy.data() : data;
    if (self.dead) queue.messages.pop_back();
    ++self.activity;
    state_->tell(peer);
    return small ? Offered::kCopied : Offered::kShared;
  }
  int64_t smallBytes() const override { return state_->options.smallBytes; }

  uint64_t released(int peer, Lane lane) const override {
    std::lock_guard lock(state_->mutex);
    return state_->at(peer).from[{rank_, static_cast<int>(lane)}].released;
  }
  std::optional<Arrived> arrived(int peer, Lane lane, uint64_t index) override {
    std::lock_guard lock(state_->mutex);
    LaneState& queue = state_->at(rank_).from[{peer, static_cast<int>(lane)}];
    if (index < queue.released || index - queue.released >= queue.messages.size()) return std::nullopt;
    const Message& message = queue.messages[index - queue.released];
    return Arrived{message.data, message.bytes, message.tag};
  }
  void release(int peer, Lane lane) override {
    std::lock_guard lock(state_->mutex);
    RankState& self = state_->at(rank_);
    LaneState& queue = self.from[{peer, static_cast<int>(lane)}];
    if (queue.messages.empty() || self.dead) return;
    bool tell = queue.messages.front().shared || std::exchange(queue.wasFull, false);
    queue.messages.pop_front();
    ++queue.released;
    ++self.activity;
    if (tell) state_->tell(peer);
  }

  bool publish(const CallRecord& record) override {
    std::lock_guard lock(state_->mutex);
    RankState& self = state_->at(rank_);
    if (record.sequence != self.published + 1) return false;
    for (const RankState& rank : state_->ranks)
      if (rank.retired + state_->options.records < record.sequence) {
        self.wasRefused = true;
        return false;
      }
    if (self.dead) return true;
    // The others have retired what makes room.
    if (self.records.size() >= state_->options.records) self.records.erase(self.records.begin());
    self.records[record.sequence] = record;
    self.published = record.sequence;
    ++self.activity;
    state_->tellAll(/*urgent=*/false);
    return true;
  }
  std::optional<CallRecord> record(int peer, uint64_t sequence) const override {
    std::lock_guard lock(state_->mutex);
    const auto& records = state_->at(peer).records;
    auto it = records.find(sequence);
    if (it == records.end()) return std::nullopt;
    return it->second;
  }
  uint64_t lastSequence(int peer) const override {
    std::lock_guard lock(state_->mutex);
    return state_->at(peer).published;
  }
  void retire(uint64_t sequence) override {
    std::lock_guard lock(state_->mutex);
    RankState& self = state_->at(rank_);
    if (self.dead) return;
    self.retired = std::max(self.retired, sequence);
    for (int rank = 0; rank < ranks(); ++rank)
      if (std::exchange(state_->at(rank).wasRefused, false)) state_->tell(rank, /*urgent=*/true);
  }

  uint32_t changes() const override {
    std::lock_guard lock(state_->mutex);
    return state_->at(rank_).changes;
  }
  void waitForChange(uint32_t seen, std::chrono::steady_clock::time_point until, uint32_t atLeast) override {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_until(lock, until, [&] { return state_->at(rank_).changes - seen >= atLeast; });
  }
  void wake() override {
    std::lock_guard lock(state_->mutex);
    state_->tell(rank_, /*urgent=*/true);
  }

  Status peerStatus(int peer) const override {
    std::lock_guard lock(state_->mutex);
    return state_->status(peer);
  }
  bool gone(int peer) const override {
    std::lock_guard lock(state_->mutex);
    return state_->at(peer).dead;
  }
  Status abortReason(int peer) const override {
    std::lock_guard lock(state_->mutex);
    return state_->at(peer).aborted;
  }
  uint64_t heartbeat(int peer) const override {
    RankState& other = state_->at(peer);
    uint64_t progress = 0;
    {
      std::lock_guard lock(other.sourceMutex);
      if (other.source) progress = other.source();
    }
    std::lock_guard lock(state_->mutex);
    if (!other.dead && !other.left && !other.stopped) other.lastBeat = progress + other.activity;
    return other.lastBeat;
  }
  void setProgressSource(std::function<uint64_t()> source) override {
    std::lock_guard lock(state_->at(rank_).sourceMutex);
    state_->at(rank_).source = std::move(source);
  }
  std::string describe(int peer) const override {
    std::lock_guard lock(state_->mutex);
    const RankState& other = state_->at(peer);
    return base::strCat("rank ", state_->nameOf(peer), " (this process",
                        other.dead      ? ", killed"
                        : other.left    ? ", has left"
                        : other.stopped ? ", stopped"
                                        : "",
                        ")");
  }
  void abort(const Status& why) override {
    std::lock_guard lock(state_->mutex);
    RankState& self = state_->at(rank_);
    if (self.dead || !self.aborted.ok()) return;
    self.aborted = why.ok() ? hpu::aborted("the communicator was aborted") : why;
    state_->tellAll();
  }

 private:
  const std::shared_ptr<State> state_;
  const int rank_;
};

class Group : public LocalGroup {
 public:
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<Transport> transport(int rank) override { return std::make_shared<LocalTransport>(state_, rank); }
  void kill(int rank) override {
    std::lock_guard lock(state_->mutex);
    state_->at(rank).dead = true;
    state_->tellAll();
  }
  void stop(int rank, bool stopped) override {
    std::lock_guard lock(state_->mutex);
    state_->at(rank).stopped = stopped;
  }

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace

std::shared_ptr<LocalGroup> LocalGroup::create(std::vector<LocalMemory> memories, LocalOptions options) {
  auto state = std::make_shared<State>(memories.size());
  state->options = options;
  for (size_t i = 0; i < memories.size(); ++i) state->ranks[i].memory = memories[i];
  return std::make_shared<Group>(std::move(state));
}

}  // namespace hpu::collectives
