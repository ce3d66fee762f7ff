// SPDX-License-Identifier: Apache-2.0
// Book: what a rank knows of all ranks (their calls, what they have retired, their ends and heartbeats), and what each
// neighbour in the tree has been told of it.
// The one thing to know: a neighbour is told what is newer than what it knows, so that news spread once along each
// link, nothing is kept twice, and one that joins later is told everything.
//
//   book.publish(record);
//   while (book.fill(channel, frame)) link->send(frame.bytes()), frame.clear();
//
// Not thread-safe, but for endOf().
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/transport/net/Frames.h"

namespace hpu::collectives::net {

/// Records of a rank that may be unretired.
inline constexpr uint64_t kBookRecords = 64;

class Book {
 public:
  using Clock = std::chrono::steady_clock;
  Book(int rank, const std::vector<int32_t>& nodeOf);

  /// What a neighbour knows, as far as this rank does.
  class Channel {
   private:
    friend class Book;
    struct Told {
      uint64_t published = 0, retired = 0, refused = 0, beat = 0, stops = 0;
      bool ended = false;
    };
    std::vector<Told> told_;
    std::vector<uint64_t> alive_;
    /// Ranks, and behind them nodes, of which something may be new.
    std::deque<int32_t> fresh_;
    std::vector<uint8_t> isFresh_;
  };
  /// It is told everything that is known. It stays where it is until it is detached.
  void attach(Channel& channel);
  void detach(Channel& channel);
  /// What the neighbour says. Errors: kInvalidArgument (not an item of the tree; a record that skips others).
  Status hear(Channel& from, const Item& item);
  /// Adds what is new for the neighbour, as much as fits; false: nothing was added.
  bool fill(Channel& channel, FrameWriter& out);
  bool anythingFor(const Channel& channel) const { return !channel.fresh_.empty(); }

  // ---- Of this rank ----
  uint64_t published() const { return at(rank_).published; }
  /// Has every rank of other nodes retired what would be in its place?
  bool hasRoom(uint64_t sequence);
  /// There was none: the others are told, and news() says when there is.
  void refused(uint64_t sequence);
  void publish(const CallRecord& record);
  void retire(uint64_t sequence);

  // ---- Of any rank ----
  std::optional<CallRecord> record(int rank, uint64_t sequence) const;
  uint64_t lastSequence(int rank) const { return at(rank).published; }
  /// The first end counts.
  void end(int rank, RankEnd end, const Status& why);
  RankEnd endOf(int rank) const { return ends_[static_cast<size_t>(rank)].load(std::memory_order_acquire); }
  const Status& why(int rank) const { return at(rank).why; }
  /// This rank has advanced.
  void beat() { setBeat(rank_, at(rank_).beat + 1, nullptr); }
  uint64_t beatOf(int rank) const { return at(rank).beat; }
  /// What this rank sees of one of its node.
  void setStopped(int rank, bool stopped);
  bool stopped(int rank) const { return at(rank).stopped; }

  void alive(int node) { setAlive(node, nodes_[static_cast<size_t>(node)].alive + 1, nullptr); }
  uint64_t aliveOf(int node) const { return nodes_[static_cast<size_t>(node)].alive; }
  Clock::time_point heardAt(int node) const { return nodes_[static_cast<size_t>(node)].heardAt; }
  /// From then on silence counts.
  void listen(Clock::time_point now) {
    for (Node& node : nodes_) node.heardAt = now;
  }
  /// As if all nodes had been heard at that time at the earliest.
  void bearWith(Clock::time_point since) {
    for (Node& node : nodes_) node.heardAt = std::max(node.heardAt, since);
  }
  /// As if all nodes had been heard that much later: this rank did not listen.
  void forgive(Clock::duration gap);

  /// Since the last call: has the rank of this book to look around?
  bool takeNews() { return std::exchange(news_, false); }

 private:
  struct Rank {
    uint64_t published = 0, retired = 0;
    uint64_t tellRetired = 0;  ///< What is told by itself, not only with the next record.
    uint64_t refused = 0;      ///< The last record that did not fit.
    uint64_t beat = 0;
    uint64_t stops = 0;  ///< How often it was seen to stop or to go on.
    bool stopped = false;
    Status why;
    std::vector<CallRecord> records;  ///< kBookRecords when there are any.
  };
  struct Node {
    uint64_t alive = 0;
    Clock::time_point heardAt;
  };
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  static Channel::Told& told(Channel& channel, int rank) { return channel.told_[static_cast<size_t>(rank)]; }
  bool isLocal(int rank) const { return nodeOf_[static_cast<size_t>(rank)] == nodeOf_[static_cast<size_t>(rank_)]; }
  void freshen(int32_t what, const Channel* except);
  Status hearRecord(Channel& from, const RecordItem& item);
  void heardRetired(int rank, uint64_t sequence);
  void setAlive(int node, uint64_t number, Channel* from);
  void setBeat(int rank, uint64_t beat, Channel* from);
  void setEnd(int rank, RankEnd end, const Status& why, Channel* from);
  bool tell(Channel& channel, int32_t what, FrameWriter& out, bool& added);
  bool tellRank(Channel& channel, int rank, FrameWriter& out, bool& added);

  const int rank_;
  const std::vector<int32_t> nodeOf_;
  std::vector<Rank> ranks_;
  std::vector<Node> nodes_;
  const std::unique_ptr<std::atomic<RankEnd>[]> ends_;
  std::vector<Channel*> channels_;
  uint64_t allRetired_ = 0;   ///< All ranks of other nodes have, at least.
  uint64_t waitsFor_ = 0;     ///< This rank's record that was refused; 0: none.
  uint64_t wanted_ = 0;       ///< The highest record that another rank could not publish.
  uint64_t saidRetired_ = 0;  ///< Of this rank, what the others have been told.
  bool news_ = false;
};

}  // namespace hpu::collectives::net
