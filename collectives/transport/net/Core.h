// SPDX-License-Identifier: Apache-2.0
// Core: what is behind a rank's transport between nodes: its door, its links in the tree, what it knows of all ranks,
// and its lanes to each rank of another node.
// The one thing to know: it outlives the transport: a rank that has left goes on passing on what its neighbours in the
// tree say, as long as there is more than one of them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/transport/net/Book.h"
#include "collectives/transport/net/Lanes.h"
#include "collectives/transport/net/NetTransport.h"
#include "collectives/transport/net/Ticker.h"
#include "collectives/transport/net/Tree.h"

namespace hpu::collectives::net {

/// Any thread may call.
class Core : public LanesOwner, public Ticking, public std::enable_shared_from_this<Core> {
 public:
  Core(const NetOptions& options, int64_t timeoutMs);
  ~Core() override;

  // ---- Creation ----
  /// The door; what this rank tells the others.
  StatusOr<NetCard> open();
  /// Dials the tree; returns when all its links are up. Errors: kUnavailable, kDeadlineExceeded, kUnimplemented.
  Status connect(std::vector<NetCard> cards, const base::Deadline& deadline);
  /// Errors: kResourceExhausted.
  Status watch();
  /// All are connected: from now on nodes that say nothing are gone.
  void begin();
  /// It will not be: everything is closed.
  void shut();

  // ---- As Transport's ----
  const Tree& tree() const { return tree_; }
  bool isLocal(int rank) const { return tree_.nodeOf(rank) == tree_.nodeOf(rank_); }
  /// The rank's number in the node's transport.
  int localIndex(int rank) const { return localIndex_[static_cast<size_t>(rank)]; }
  Lanes& lanes(int peer) { return *lanes_[static_cast<size_t>(peer)]; }
  int64_t smallBytes() const { return smallBytes_; }
  /// What the rank did moves its heartbeat.
  void acted() { activity_.fetch_add(1, std::memory_order_relaxed); }

  bool publish(const CallRecord& record);
  std::optional<CallRecord> record(int peer, uint64_t sequence);
  uint64_t lastSequence(int peer);
  void retire(uint64_t sequence);
  /// Of ranks of this node: whether they were given up (as endOf()).
  Status peerStatus(int peer);
  /// Of ranks of other nodes.
  Status abortReason(int peer);
  /// Of ranks of other nodes: not before all is here that they had sent, or they had time for that. Of ranks of this
  /// node: kGone when one was given up, by whomever, of whose end the node's transport does not tell; else kNone.
  RankEnd endOf(int peer);
  bool delivered(uint64_t sequence);
  uint64_t heartbeat(int peer);
  std::string describe(int peer);

  void abort(const Status& why);
  /// The transport is destroyed.
  void leave();

  // ---- LanesOwner, Ticking ----
  std::shared_ptr<LanesOwner> self() override { return shared_from_this(); }
  std::shared_ptr<Link> dialPeer(int peer, std::shared_ptr<LinkEvents> events) override;
  base::Deadline dialDeadline() const override { return base::Deadline::afterMs(timeoutMs_); }
  FrameLimits limits() const override;
  void wake() override;
  void peerEnded(int peer, const EndItem& end) override;
  void peerBroken(int peer, const Status& why) override;
  bool tick() override;

 private:
  class Events;
  class Refusal;
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  /// What a rank that gives up or leaves gives data that is on its way.
  static constexpr int64_t kLingerMs = 2000;
  /// A link to a neighbour in the tree.
  struct Branch {
    int peer = 0;
    uint64_t attempt = 0;
    bool up = false;
    bool heard = false;         ///< A frame has come.
    bool spoken = false;        ///< Since the last look around.
    Clock::time_point heardAt;  ///< When the peer last said anything.
    std::shared_ptr<Link> link;
    Book::Channel channel;
    FrameWriter frame;  ///< Not taken by the link yet.
  };

  void dialled(std::shared_ptr<Link> link, const std::string& hello);
  void onFrame(int peer, uint64_t attempt, std::span<const std::byte> frame);
  void onRoom(int peer, uint64_t attempt);
  void onClosed(int peer, uint64_t attempt, const Status& why);

  Branch* find(int peer, uint64_t attempt);
  Branch& grow(int peer);
  void cutOff(int peer);
  void isUp(Branch& branch);
  void lost(int peer, const Status& why);
  void passOver(int peer, const Status& why);
  void beGone(const std::string& why);
  void dialParent();
  void pump(Branch& branch);
  void pumpAll();
  /// Unlocks, closes links that were cut off, and wakes when there is news.
  void settle(Lock& lock);
  /// Whether all links that this rank begins with are there.
  bool grown() const;
  Status missing() const;

  struct Seen {
    int rank = 0;
    bool stopped = false;
    uint64_t beat = 0;
    RankEnd end = RankEnd::kNone;
    Status why;
  };
  /// What the node's transport says of this rank and the others of the node.
  bool lookAtNode(bool all, std::vector<Seen>& seen);
  /// Whether the process of that rank of this node is no more, for all that can be seen.
  bool hasEnded(int mate);
  void noteStops(const std::vector<Seen>& seen, Clock::time_point now);
  void speak();
  std::string whySilent(int peer) const;
  void checkSilence(Clock::time_point now);
  bool isHead() const;
  bool finish(bool force);
  static EndItem endItem(int rank, RankEnd end, const Status& why);
  std::string nameOf(int peer) const;
  std::string ofCommunicator() const;

  const std::string identity_;
  const int rank_, ranks_;
  const int64_t timeoutMs_;
  const std::chrono::milliseconds silence_;
  const bool check_;
  const Tree tree_;
  std::vector<int> localIndex_;
  std::vector<NetCard> cards_;
  int64_t smallBytes_ = 0;
  std::vector<std::unique_ptr<Lanes>> lanes_;  // By rank; null for those of this node.
  std::atomic<uint64_t> activity_{0};

  Transport* const nodeTransport_;  // For what only the transport's user asks.
  std::mutex nodeMutex_;            // Guards node_, which is gone when the rank has left.
  std::shared_ptr<Transport> node_;
  uint64_t lastBeat_ = 0;  // Of the ticker's thread, as the next three.
  int ticks_ = 0;
  Clock::time_point lastTick_;
  struct Stop {
    uint64_t beat = 0;                    ///< What it has done, as it was last seen.
    std::optional<Clock::time_point> at;  ///< It stands still since.
  };
  std::map<int, Stop> stops_;  // Of other ranks of this node.

  /// By rank: when its end was first looked for after it was known (nanoseconds; 0: not yet), and whether it counts.
  std::unique_ptr<std::atomic<int64_t>[]> endHeardNs_;
  std::unique_ptr<std::atomic<bool>[]> endCounts_;

  std::mutex mutex_;  // Guards all below; no link and no door is closed under it.
  std::condition_variable changed_;
  Book book_;
  std::map<int, std::unique_ptr<Branch>> branches_;  // By rank.
  std::vector<uint8_t> lost_;                        // Ranks that are no neighbours any more.
  std::vector<std::shared_ptr<Link>> cut_;           // To be closed without the lock.
  std::mutex networkMutex_;                          // Guards network_; the last lock that is taken.
  std::shared_ptr<Network> network_;
  const Secret secret_;
  std::unique_ptr<Door> door_;
  uint64_t attempts_ = 0;
  Status failure_;  // Of the creation.
  Clock::time_point leftAt_;
  bool tellDelivered_ = false;
  bool connecting_ = true, begun_ = false, left_ = false, finished_ = false;
  bool isGone_ = false;  // For the others.
};

}  // namespace hpu::collectives::net
