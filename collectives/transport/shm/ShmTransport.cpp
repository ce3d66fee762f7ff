// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/ShmTransport.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/Cpus.h"
#include "base/Format.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "collectives/transport/shm/Handover.h"
#include "collectives/transport/shm/Heart.h"
#include "collectives/transport/shm/Memories.h"
#include "collectives/transport/shm/Process.h"
#include "collectives/transport/shm/Rings.h"
#include "collectives/transport/shm/Segment.h"
#include "collectives/transport/shm/SegmentWork.h"
#include "collectives/transport/shm/Spread.h"
#include "runtime/node/Ownership.h"

namespace hpu::collectives {
namespace shm {
namespace {

/// What errors call a rank.
int called(const std::vector<int32_t>& names, size_t rank) {
  return rank < names.size() ? names[rank] : static_cast<int>(rank);
}

class ShmTransport final : public Transport {
 public:
  ShmTransport(const ShmOptions& options, std::shared_ptr<Segment> segment, std::vector<ProcessCard> processes,
               std::vector<std::shared_ptr<node::PeerMemory>> memories)
      : identity_(options.identity),
        names_(options.names),
        rank_(options.rank),
        ranks_(options.ranks),
        generation_(forkGeneration()),
        segment_(std::move(segment)),
        waiter_(segment_->block(options.rank).doorbell),
        spread_(segment_, options.rank),
        processes_(std::move(processes)),
        memories_(std::move(memories)),
        broken_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(options.ranks))) {
    if (std::find(memories_.begin(), memories_.end(), nullptr) == memories_.end())
      work_ = std::make_unique<SegmentWork>(segment_, rank_, memories_);
    send_.resize(static_cast<size_t>(ranks_ * kNumLanes));
    receive_.resize(send_.size());
    for (int peer = 0; peer < ranks_; ++peer)
      for (int lane = 0; lane < kNumLanes && peer != rank_; ++lane) {
        send_[at(peer, static_cast<Lane>(lane))] =
            std::make_unique<SendRing>(*segment_, rank_, peer, static_cast<Lane>(lane));
        receive_[at(peer, static_cast<Lane>(lane))] =
            std::make_unique<ReceiveRing>(*segment_, peer, rank_, static_cast<Lane>(lane));
      }
  }

  ~ShmTransport() override {
    if (inChild()) {
      // What it has belongs to the parent, locks included.
      (void)new std::shared_ptr<Pulse>(std::move(pulse_));
      return;
    }
    if (pulse_) Heart::instance().remove(pulse_);
    letGoOfKept();
    segment_->end(rank_, RankState::kLeft);
    segment_->ringAll(rank_, /*urgent=*/true);
  }

  Status watch() {
    auto pulse = std::make_shared<Pulse>();
    pulse->segment = segment_;
    pulse->rank = rank_;
    const ProcessCard& mine = processes_[static_cast<size_t>(rank_)];
    for (int peer = 0; peer < ranks_; ++peer)
      if (!sameProcess(process(peer), mine))
        pulse->others.push_back({peer, process(peer), memories_[static_cast<size_t>(peer)]});
    HPU_RETURN_IF_ERROR(Heart::instance().add(pulse));
    pulse_ = std::move(pulse);
    return okStatus();
  }

  std::string_view name() const override { return "shm"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  std::byte* local(uint64_t address, int64_t bytes) const override {
    const auto& memory = memories_[static_cast<size_t>(rank_)];
    return memory && !inChild() ? memory->at(address, bytes) : nullptr;
  }

  bool holds(const std::byte* data, int64_t bytes) const override {
    uint64_t offset = 0;
    return ownOffset(data, bytes, offset);
  }

  StatusOr<Offered> offer(int peer, Lane lane, const std::byte* data, int64_t bytes, const MessageTag& tag) override {
    if (peer < 0 || peer >= ranks_ || peer == rank_ || bytes < 0 || (bytes > 0 && !data))
      return invalidArgument(
          base::strCat("rank ", rank_, " cannot offer ", bytes, " bytes to rank ", peer, " of ", ranks_));
    const bool small = bytes <= smallBytes();
    uint64_t offset = 0;
    if (!small && !ownOffset(data, bytes, offset))
      return invalidArgument(
          base::strCat("the ", bytes, " bytes that rank ", calledOf(rank_), " offers are not in its device's memory"));
    HPU_RETURN_IF_ERROR(peerStatus(peer));
    SendRing& ring = *send_[at(peer, lane)];
    if (!ring.hasRoom(small ? bytes : 0)) {
      if (!ring.broken()) return Offered::kFull;
      fail(peer);
      return peerStatus(peer);
    }
    if (small) {
      ring.sendCopy(data, bytes, tag);
    } else {
      ring.sendShared(offset, bytes, tag);
    }
    acted();
    segment_->ring(peer);
    return small ? Offered::kCopied : Offered::kShared;
  }
  int64_t smallBytes() const override { return segment_->geometry().smallBytes; }

  uint64_t released(int peer, Lane lane) const override {
    if (!isPeer(peer)) return 0;
    const SendRing& ring = *send_[at(peer, lane)];
    return std::min(ring.released(), ring.sent());
  }

  std::optional<Arrived> arrived(int peer, Lane lane, uint64_t index) override {
    if (!isPeer(peer)) return std::nullopt;
    ReceiveRing& ring = *receive_[at(peer, lane)];
    auto message = ring.look(index);
    if (message && message->shared) {
      const auto& memory = memories_[static_cast<size_t>(peer)];
      message->data = memory ? memory->at(memory->base() + message->offset, message->bytes) : nullptr;
      if (!message->data) {
        ring.fail();
        message.reset();
      }
    }
    if (ring.broken()) fail(peer);
    if (!message) return std::nullopt;
    return Arrived{message->data, message->bytes, message->tag};
  }

  void release(int peer, Lane lane) override {
    if (!isPeer(peer)) return;
    if (receive_[at(peer, lane)]->release()) segment_->ring(peer);
    acted();
  }

  bool publish(const CallRecord& record) override {
    if (inChild()) return false;
    // Threads that only enqueue are kept apart, too.
    if (ranks_ > 1 && ranks_ <= base::allowedCpus()) spread_.settle();
    std::lock_guard lock(calls_);
    RankBlock& own = segment_->block(rank_);
    if (record.sequence != own.published.load(std::memory_order_relaxed) + 1) return false;
    if (!allRetired(record.sequence)) {
      // Said before the last look: either it sees what others retire, or they see this.
      segment_->header().refused.store(1, std::memory_order_seq_cst);
      if (!allRetired(record.sequence)) return false;
    }
    if (work_) work_->clear(record.sequence);
    RecordSlot& slot = own.records[record.sequence % kRecords];
    uint64_t words[RecordSlot::kWords];
    const size_t count = record.portsBusy != 0 ? RecordSlot::kWords : RecordSlot::kWordsBeforePorts;
    std::memcpy(words, &record, count * sizeof words[0]);
    // A reader that gets any of the new words sees that the old sequence is gone.
    slot.sequence.store(0, std::memory_order_relaxed);
    for (size_t i = 0; i < count; ++i) slot.words[i].store(words[i], std::memory_order_release);
    // A reader of the record also sees that it is the last one.
    own.published.store(record.sequence, std::memory_order_release);
    // Of several that publish at a time, the last one sees all.
    slot.sequence.store(record.sequence, std::memory_order_seq_cst);
    acted();
    if (record.direct == 0) segment_->ringAll(rank_);
    return true;
  }

  std::optional<CallRecord> record(int peer, uint64_t sequence) const override {
    if (peer < 0 || peer >= ranks_ || sequence == 0 || inChild()) return std::nullopt;
    const RecordSlot& slot = segment_->block(peer).records[sequence % kRecords];
    if (slot.sequence.load(std::memory_order_seq_cst) != sequence) return std::nullopt;
    uint64_t words[RecordSlot::kWords];
    CallRecord record;
    auto take = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) words[i] = slot.words[i].load(std::memory_order_acquire);
      std::memcpy(reinterpret_cast<std::byte*>(&record) + begin * 8, words + begin, (end - begin) * 8);
    };
    take(0, RecordSlot::kWordsBeforePorts);
    if (record.portsBusy != 0) take(RecordSlot::kWordsBeforePorts, RecordSlot::kWords);
    if (slot.sequence.load(std::memory_order_relaxed) != sequence) return std::nullopt;
    return record;
  }

  uint64_t lastSequence(int peer) const override {
    if (peer < 0 || peer >= ranks_ || inChild()) return 0;
    return segment_->block(peer).published.load(std::memory_order_acquire);
  }

  void retire(uint64_t sequence) override {
    if (inChild()) return;
    auto& retired = segment_->block(rank_).retired;
    uint64_t before = retired.load(std::memory_order_relaxed);
    do {
      if (sequence <= before) return;
    } while (!retired.compare_exchange_weak(before, sequence, std::memory_order_seq_cst));
    auto& refused = segment_->header().refused;
    if (refused.load(std::memory_order_seq_cst) != 0 && refused.exchange(0, std::memory_order_seq_cst) != 0)
      segment_->ringAll(-1, /*urgent=*/true);
  }

  SharedWork* sharedWork() override { return work_.get(); }

  uint32_t changes() const override {
    return inChild() ? 0 : segment_->block(rank_).doorbell.changes.load(std::memory_order_seq_cst);
  }

  void waitForChange(uint32_t seen, std::chrono::steady_clock::time_point until, uint32_t atLeast) override {
    if (inChild()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    // With more ranks than cores there is somebody who needs it.
    const bool alone = spread_.settle();
    waiter_.wait(seen, until, atLeast, alone && ranks_ <= base::allowedCpus());
  }
  void wake() override {
    if (!inChild()) segment_->ring(rank_, /*urgent=*/true);
  }

  Status peerStatus(int peer) const override {
    if (peer < 0 || peer >= ranks_) return invalidArgument(base::strCat("there is no rank ", peer, " of ", ranks_));
    if (inChild()) return failedPrecondition("a communicator is of the process that made it, not of its child");
    const RankBlock& block = segment_->block(peer);
    auto state = static_cast<RankState>(block.state.load(std::memory_order_acquire));
    if (state == RankState::kPresent && !broken(peer)) return okStatus();
    const std::string who = nameOf(peer);
    switch (state) {
      case RankState::kPresent:
        return dataLoss(who + " wrote nonsense into the memory that the ranks share");
      case RankState::kAborted:
        return aborted(base::strCat(who, " gave up: ", reasonOf(peer).message()));
      case RankState::kLeft:
        return unavailable(base::strCat(who, " has left the communicator", ofCommunicator()));
      case RankState::kDead:
        break;
    }
    return unavailable(
        base::strCat(who, " is gone: its process ended without leaving the communicator", ofCommunicator()));
  }

  bool gone(int peer) const override {
    return peer >= 0 && peer < ranks_ && !inChild() &&
           segment_->block(peer).state.load(std::memory_order_acquire) == static_cast<uint32_t>(RankState::kDead);
  }

  Status abortReason(int peer) const override {
    if (peer < 0 || peer >= ranks_ || inChild() ||
        segment_->block(peer).state.load(std::memory_order_acquire) != static_cast<uint32_t>(RankState::kAborted))
      return okStatus();
    return reasonOf(peer);
  }

  uint64_t heartbeat(int peer) const override {
    if (peer < 0 || peer >= ranks_ || inChild()) return 0;
    const RankBlock& block = segment_->block(peer);
    return block.activity.load(std::memory_order_relaxed) + block.beats.load(std::memory_order_relaxed);
  }

  void setProgressSource(std::function<uint64_t()> source) override {
    if (!inChild()) Heart::instance().setSource(*pulse_, std::move(source));
  }

  std::string describe(int peer) const override {
    if (peer < 0 || peer >= ranks_ || inChild()) return base::strCat("rank ", calledOf(peer));
    return nameOf(peer, stateText(peer));
  }

  void abort(const Status& why) override {
    if (inChild()) return;
    {
      std::lock_guard lock(calls_);
      RankBlock& own = segment_->block(rank_);
      if (own.state.load(std::memory_order_relaxed) != static_cast<uint32_t>(RankState::kPresent)) return;
      const std::string text = why.ok() ? "the communicator was aborted" : why.message();
      const size_t bytes = std::min(text.size(), kReasonBytes);
      std::memcpy(own.reason, text.data(), bytes);
      own.reasonBytes.store(static_cast<uint32_t>(bytes), std::memory_order_relaxed);
      own.reasonCode.store(static_cast<uint32_t>(why.ok() ? StatusCode::kAborted : why.code()),
                           std::memory_order_relaxed);
      if (!segment_->end(rank_, RankState::kAborted)) return;
    }
    segment_->ringAll(-1, /*urgent=*/true);
  }

 private:
  static size_t at(int peer, Lane lane) { return static_cast<size_t>(peer * kNumLanes + static_cast<int>(lane)); }
  bool isPeer(int peer) const { return peer >= 0 && peer < ranks_ && peer != rank_ && !inChild(); }
  bool inChild() const { return generation_ != forkGeneration(); }
  const ProcessCard& process(int peer) const { return processes_[static_cast<size_t>(peer)]; }
  bool broken(int peer) const { return broken_[static_cast<size_t>(peer)].load(std::memory_order_relaxed); }
  void fail(int peer) { broken_[static_cast<size_t>(peer)].store(true, std::memory_order_relaxed); }
  void acted() { segment_->block(rank_).activity.fetch_add(1, std::memory_order_relaxed); }

  bool ownOffset(const std::byte* data, int64_t bytes, uint64_t& offset) const {
    const auto& memory = memories_[static_cast<size_t>(rank_)];
    if (!memory || inChild()) return false;
    const std::byte* begin = memory->at(memory->base(), 0);
    offset = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(begin);
    return memory->at(memory->base() + offset, bytes) == data;
  }

  /// Has everybody retired what lies where that record will?
  bool allRetired(uint64_t sequence) const {
    if (sequence <= kRecords) return true;
    for (int rank = 0; rank < ranks_; ++rank)
      if (segment_->block(rank).retired.load(std::memory_order_seq_cst) + kRecords < sequence) return false;
    return true;
  }

  int calledOf(int rank) const { return called(names_, static_cast<size_t>(rank)); }
  std::string ofCommunicator() const { return identity_.empty() ? "" : base::strCat(" '", identity_, "'"); }
  std::string nameOf(int peer, const std::string& state = {}) const {
    const bool here = sameProcess(process(peer), process(rank_));
    return base::strCat("rank ", calledOf(peer), " (",
                        here ? "this process" : base::strCat("process ", process(peer).pid), state.empty() ? "" : ", ",
                        state, ")");
  }
  std::string stateText(int peer) const {
    switch (static_cast<RankState>(segment_->block(peer).state.load(std::memory_order_acquire))) {
      case RankState::kPresent:
        break;
      case RankState::kAborted:
        return "gave up";
      case RankState::kLeft:
        return "has left";
      default:
        return "ended";
    }
    const ProcessCard& card = process(peer);
    if (card.pidNamespace != process(rank_).pidNamespace) return {};
    char state = 0;
    uint64_t start = startTimeOf(card.pid, &state);
    if (start != card.startTime || state == 'Z' || state == 'X') return "ended";
    return state == 'T' || state == 't' ? "stopped" : "";
  }
  Status reasonOf(int peer) const {
    const RankBlock& block = segment_->block(peer);
    size_t bytes = std::min<size_t>(block.reasonBytes.load(std::memory_order_relaxed), kReasonBytes);
    uint32_t code = block.reasonCode.load(std::memory_order_relaxed);
    if (code == 0 || code > static_cast<uint32_t>(StatusCode::kDataLoss))
      code = static_cast<uint32_t>(StatusCode::kAborted);
    return Status(static_cast<StatusCode>(code), std::string(block.reason, bytes));
  }

  const std::string identity_;
  const std::vector<int32_t> names_;
  const int rank_, ranks_;
  const uint32_t generation_;
  const std::shared_ptr<Segment> segment_;
  Waiter waiter_;
  Spread spread_;
  const std::vector<ProcessCard> processes_;
  const std::vector<std::shared_ptr<node::PeerMemory>> memories_;
  std::vector<std::unique_ptr<SendRing>> send_;
  std::vector<std::unique_ptr<ReceiveRing>> receive_;
  std::unique_ptr<SegmentWork> work_;                  // Null when a rank has no memory.
  const std::unique_ptr<std::atomic<bool>[]> broken_;  // By peer: it wrote nonsense.
  std::mutex calls_;  // Held by publish and abort: what they write has one writer at a time.
  std::shared_ptr<Pulse> pulse_;
};

// ---- Creation ----

constexpr char kFailed = '!';

/// "!14 text": how a rank tells the others that it cannot.
std::string failureText(const Status& status) {
  return base::strCat(kFailed, static_cast<int>(status.code()), " ", status.message());
}

/// The first failure among the texts, with its rank's number.
Status firstFailure(const std::vector<std::string>& texts, const ShmOptions& options) {
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const std::string& text = texts[rank];
    if (text.empty() || text[0] != kFailed) continue;
    size_t space = text.find(' ');
    auto code = base::parseInt(text.substr(1, space == std::string::npos ? space : space - 1));
    bool known = code.ok() && *code > 0 && *code <= static_cast<int>(StatusCode::kDataLoss);
    std::string message = space == std::string::npos ? std::string() : text.substr(space + 1);
    return Status(known ? static_cast<StatusCode>(*code) : StatusCode::kUnknown,
                  static_cast<int>(rank) == options.rank
                      ? message
                      : base::strCat("rank ", called(options.names, rank), ": ", message));
  }
  return okStatus();
}

Status checkOptions(const ShmOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaxShmRanks || options.rank < 0 || options.rank >= options.ranks ||
      !options.allGather)
    return invalidArgument(base::strCat("rank ", options.rank, " of ", options.ranks, " is not possible: up to ",
                                        kMaxShmRanks, " ranks share a machine"));
  return okStatus();
}

Status checkCards(const std::vector<RankCard>& cards, const ShmOptions& options) {
  const RankCard& mine = cards[static_cast<size_t>(options.rank)];
  const int own = called(options.names, static_cast<size_t>(options.rank));
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const ProcessCard& theirs = cards[rank].process;
    if (!sameMachine(theirs, mine.process))
      return failedPrecondition(base::strCat("rank ", called(options.names, rank),
                                             " is of another machine or network namespace than rank ", own,
                                             ": the ranks of a communicator must be of one"));
    if (theirs.user != mine.process.user)
      return failedPrecondition(base::strCat("rank ", called(options.names, rank), " is of user ", theirs.user,
                                             " and rank ", own, " of user ", mine.process.user,
                                             ": a node's devices are one user's"));
  }
  return okStatus();
}

StatusOr<std::vector<RankCard>> decodeCards(const std::vector<std::string>& texts, const std::vector<int32_t>& names) {
  std::vector<RankCard> cards(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].size() == sizeof(RankCard)) std::memcpy(&cards[rank], texts[rank].data(), sizeof(RankCard));
    if (texts[rank].size() != sizeof(RankCard) || cards[rank].magic != kMagic || cards[rank].version != kVersion)
      return dataLoss(base::strCat("rank ", called(names, rank),
                                   " speaks another version of the shared-memory transport; use "
                                   "one version of OpenHPU on a node"));
  }
  return cards;
}

/// The memory of every rank that has one; null for the others.
StatusOr<std::vector<std::shared_ptr<node::PeerMemory>>> mapMemories(const std::vector<RankCard>& cards,
                                                                     const std::vector<int32_t>& names,
                                                                     const base::Deadline& deadline) {
  std::vector<std::shared_ptr<node::PeerMemory>> memories(cards.size());
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const RankCard& card = cards[rank];
    if (card.deviceIndex < 0) continue;
    auto memory = deviceMemory(card.deviceIndex, deadline.remainingMs(), card.grant);
    if (!memory.ok()) return memory.status().withContext(base::strCat("the device of rank ", called(names, rank)));
    int64_t owner = (*memory)->ownerPid();
    if ((*memory)->bytes() != card.memoryBytes ||
        (owner > 0 && card.process.pidNamespace == myProcess().pidNamespace && owner != card.process.pid))
      return failedPrecondition(base::strCat("device ", card.deviceIndex, ", which rank ", called(names, rank),
                                             " (process ", card.process.pid, ") says is its own, is of process ", owner,
                                             ": all ranks must use one node (HPU_NODE)"));
    memories[rank] = std::move(*memory);
  }
  return memories;
}

StatusOr<std::shared_ptr<ShmTransport>> build(const ShmOptions& options, const std::vector<RankCard>& cards,
                                              Giver* giver, const base::Deadline& deadline) {
  HPU_RETURN_IF_ERROR(checkCards(cards, options));
  std::shared_ptr<Segment> segment;
  if (giver) {
    segment = giver->segment();
    HPU_RETURN_IF_ERROR(giver->give(cards, deadline));
  } else {
    HPU_ASSIGN(segment, takeSegment(cards[0], options.ranks, deadline));
  }
  HPU_ASSIGN(auto memories, mapMemories(cards, options.names, deadline));
  std::vector<ProcessCard> processes;
  for (const RankCard& card : cards) processes.push_back(card.process);
  auto transport =
      std::make_shared<ShmTransport>(options, std::move(segment), std::move(processes), std::move(memories));
  HPU_RETURN_IF_ERROR(transport->watch());
  return transport;
}

}  // namespace
}  // namespace shm

StatusOr<std::shared_ptr<Transport>> createShmTransport(const ShmOptions& options) {
  using namespace shm;
  HPU_RETURN_IF_ERROR(checkOptions(options));
  int64_t timeoutMs = options.timeoutMs;
  if (timeoutMs < 0) {
    HPU_ASSIGN(timeoutMs, settings::getInt(Setting::HPU_COMM_INIT_TIMEOUT_MS));
  }
  const base::Deadline deadline = base::Deadline::afterMs(timeoutMs);

  letGoOfKept();

  // A rank that cannot go on says so in place of its card: the others need not wait for it.
  RankCard card;
  card.process = myProcess();
  card.deviceIndex = options.deviceIndex;
  Status status;
  std::shared_ptr<node::PeerMemory> own;
  std::unique_ptr<node::MemoryGrant> grant;  // Taken back when all have mapped what they need.
  if (options.deviceIndex >= 0) {
    const int64_t owner = node::ownerPid(options.deviceIndex);
    if (owner > 0 && owner != card.process.pid)
      status = failedPrecondition(
          base::strCat("device ", options.deviceIndex, " is of process ", owner, ", not of this rank's"));
    if (status.ok()) {
      auto memory = deviceMemory(options.deviceIndex, deadline.remainingMs());
      status = memory.status();
      if (memory.ok()) {
        own = std::move(*memory);
        card.memoryBytes = own->bytes();
      }
    }
    if (status.ok()) {
      auto made = node::MemoryGrant::create(options.deviceIndex);
      status = made.status();
      if (made.ok()) {
        grant = std::move(*made);
        card.grant = grant->token();
      }
    }
  }
  std::unique_ptr<Giver> giver;
  if (options.rank == 0 && status.ok()) {
    auto created = Giver::create(options.ranks);
    status = created.status();
    if (created.ok()) {
      giver = std::move(*created);
      std::memcpy(card.segment, giver->segment()->id().data(), sizeof card.segment);
    }
  }
  std::string text(reinterpret_cast<const char*>(&card), sizeof card);
  HPU_ASSIGN(std::vector<std::string> texts, options.allGather("shm cards", status.ok() ? text : failureText(status)));
  if (static_cast<int>(texts.size()) != options.ranks)
    return internalError(base::strCat("the exchange of ", options.ranks, " ranks brought ", texts.size(), " texts"));
  HPU_RETURN_IF_ERROR(firstFailure(texts, options));

  // From here on all come to the second exchange, whatever happens to one of them.
  std::shared_ptr<ShmTransport> transport;
  auto cards = decodeCards(texts, options.names);
  status = cards.status();
  if (cards.ok()) {
    auto built = build(options, *cards, giver.get(), deadline);
    status = built.status();
    if (built.ok()) transport = std::move(*built);
  }
  HPU_ASSIGN(texts, options.allGather("shm ready", status.ok() ? "ready" : failureText(status)));
  HPU_RETURN_IF_ERROR(firstFailure(texts, options));
  HPU_RETURN_IF_ERROR(status);
  return std::shared_ptr<Transport>(std::move(transport));
}

}  // namespace hpu::collectives
