// SPDX-License-Identifier: Apache-2.0
// Creation, calls and the end. CoreLinks.cpp has the links of the tree, CoreLife.cpp who lives.
#include "collectives/transport/net/Core.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;
using std::chrono::milliseconds;

std::string hostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

}  // namespace

Core::Core(const NetOptions& options, int64_t timeoutMs)
    : identity_(options.identity),
      rank_(options.rank),
      ranks_(options.ranks),
      timeoutMs_(timeoutMs),
      silence_(options.silenceMs),
      check_(options.check),
      tree_(options.nodeOf),
      localIndex_(options.nodeOf.size(), -1),
      nodeTransport_(options.node.get()),
      node_(options.node),
      endHeardNs_(std::make_unique<std::atomic<int64_t>[]>(options.nodeOf.size())),
      endCounts_(std::make_unique<std::atomic<bool>[]>(options.nodeOf.size())),
      book_(options.rank, options.nodeOf),
      lost_(options.nodeOf.size()),
      network_(options.network),
      secret_(options.secret) {
  int index = 0;
  for (int32_t rank : tree_.members(tree_.nodeOf(rank_))) localIndex_[static_cast<size_t>(rank)] = index++;
}

Core::~Core() = default;

FrameLimits Core::limits() const {
  FrameLimits limits;
  limits.ranks = ranks_;
  limits.nodes = tree_.nodes();
  return limits;
}

// ---- Creation ----

StatusOr<NetCard> Core::open() {
  auto dialled = [weak = weak_from_this()](std::shared_ptr<Link> link, const std::string& hello) {
    if (auto core = weak.lock()) core->dialled(std::move(link), hello);
  };
  auto door = network_->open(std::move(dialled), secret_);
  HPU_RETURN_IF_ERROR(door.status());
  NetCard card;
  card.pid = ::getpid();
  card.node = tree_.nodeOf(rank_);
  card.smallBytes = std::min(nodeTransport_->smallBytes(), kMostEagerBytes);
  card.host = hostName();
  card.address = network_->local().text();
  card.network = network_->name();
  card.door = (*door)->address();
  Lock lock(mutex_);
  door_ = std::move(*door);
  return card;
}

Status Core::connect(std::vector<NetCard> cards, const base::Deadline& deadline) {
  Lock lock(mutex_);
  cards_ = std::move(cards);
  smallBytes_ = kMostEagerBytes;
  for (const NetCard& card : cards_) smallBytes_ = std::min(smallBytes_, card.smallBytes);
  lanes_.resize(static_cast<size_t>(ranks_));
  for (int peer = 0; peer < ranks_; ++peer)
    if (!isLocal(peer))
      lanes_[static_cast<size_t>(peer)] = std::make_unique<Lanes>(*this, rank_, peer, smallBytes_, check_);
  dialParent();
  changed_.wait_until(lock, deadline.time(), [&] { return !failure_.ok() || grown(); });
  Status status = failure_.ok() && !grown() ? missing() : failure_;
  connecting_ = false;
  settle(lock);
  return status;
}

bool Core::grown() const {
  auto isUp = [&](int peer) {
    auto it = branches_.find(peer);
    return it != branches_.end() && it->second->up;
  };
  const int parent = tree_.parentOf(rank_, lost_);
  const auto children = tree_.childrenOf(rank_);
  return (parent < 0 || isUp(parent)) && std::all_of(children.begin(), children.end(), isUp);
}

Status Core::missing() const {
  std::string text;
  auto name = [&](int peer, const char* what) {
    auto it = branches_.find(peer);
    if (it != branches_.end() && it->second->up) return;
    text += strCat(text.empty() ? "" : "; ", nameOf(peer), what);
  };
  if (const int parent = tree_.parentOf(rank_, lost_); parent >= 0)
    name(parent, strCat(" at ", cards_[static_cast<size_t>(parent)].address, " has not answered").c_str());
  for (int child : tree_.childrenOf(rank_)) name(child, " has not dialled");
  return deadlineExceeded(
      strCat("connecting the nodes", ofCommunicator(), ": no link after ", timeoutMs_, " ms: ", text));
}

Status Core::watch() {
  if (!startTicking(shared_from_this())) return resourceExhausted("cannot start the thread that looks after the nodes");
  return okStatus();
}

void Core::begin() {
  Lock lock(mutex_);
  begun_ = true;
  lastTick_ = Clock::now();
  book_.listen(lastTick_);
  for (auto& [peer, branch] : branches_) branch->heardAt = lastTick_;
}

// ---- Calls ----

bool Core::publish(const CallRecord& record) {
  Lock lock(mutex_);
  if (record.sequence != book_.published() + 1) return false;
  bool taken = false;
  if (!book_.hasRoom(record.sequence)) {
    book_.refused(record.sequence);
  } else if (nodeTransport_->publish(record)) {
    book_.publish(record);
    taken = true;
  }
  pumpAll();
  settle(lock);
  return taken;
}

void Core::retire(uint64_t sequence) {
  Lock lock(mutex_);
  book_.retire(sequence);
  pumpAll();
  settle(lock);
}

std::optional<CallRecord> Core::record(int peer, uint64_t sequence) {
  Lock lock(mutex_);
  return book_.record(peer, sequence);
}

uint64_t Core::lastSequence(int peer) {
  Lock lock(mutex_);
  return book_.lastSequence(peer);
}

bool Core::delivered(uint64_t sequence) {
  bool delivered = true;
  for (int peer = 0; peer < ranks_; ++peer)
    if (!isLocal(peer) && book_.endOf(peer) == RankEnd::kNone) delivered &= lanes(peer).delivered();
  Lock lock(mutex_);
  // What came from a rank of this node by shared memory may still be on its way along the tree, which passes by here.
  for (int rank = 0; rank < ranks_; ++rank)
    delivered &= book_.lastSequence(rank) >= sequence || book_.endOf(rank) != RankEnd::kNone;
  for (const auto& [peer, branch] : branches_)
    delivered &=
        !branch->up || (branch->frame.empty() && !book_.anythingFor(branch->channel) && branch->link->drained());
  tellDelivered_ |= !delivered;
  return delivered;
}

// ---- Names ----

std::string Core::ofCommunicator() const {
  return identity_.empty() ? "" : strCat(" '", identity_, "'");
}

std::string Core::nameOf(int peer) const {
  if (cards_.empty()) return strCat("rank ", peer, " (node ", tree_.nodeOf(peer), ")");
  const NetCard& card = cards_[static_cast<size_t>(peer)];
  return strCat("rank ", peer, " (process ", card.pid, " on host ", card.host, ", node ", card.node, ")");
}

// ---- The end ----

EndItem Core::endItem(int rank, RankEnd end, const Status& why) {
  return {rank, end, why.code(), why.message().substr(0, kMostReasonBytes)};
}

void Core::abort(const Status& why) {
  const Status reason = why.ok() ? hpu::aborted("the communicator was aborted") : why;
  const EndItem end = endItem(rank_, RankEnd::kAborted, reason);
  {
    Lock lock(mutex_);
    if (book_.endOf(rank_) != RankEnd::kNone) return;
    book_.end(rank_, RankEnd::kAborted, Status(end.code, end.reason));
    pumpAll();
    settle(lock);
  }
  nodeTransport_->abort(why);
  const auto deadline = base::Deadline::afterMs(kLingerMs);
  for (const auto& lanes : lanes_)
    if (lanes) lanes->stop(end, deadline);
}

void Core::leave() {
  EndItem end = endItem(rank_, RankEnd::kLeft, okStatus());
  if (book_.endOf(rank_) != RankEnd::kNone) {
    Lock lock(mutex_);
    end = endItem(rank_, book_.endOf(rank_), book_.why(rank_));
  }
  const auto deadline = base::Deadline::afterMs(kLingerMs), now = base::Deadline::afterMs(0);
  for (const auto& lanes : lanes_)
    if (lanes) lanes->prepareToLeave();
  for (int peer = 0; peer < ranks_; ++peer)
    if (!isLocal(peer)) lanes(peer).finish(end, book_.endOf(peer) == RankEnd::kNone ? deadline : now);
  {
    Lock lock(mutex_);
    book_.end(rank_, RankEnd::kLeft, okStatus());
    left_ = true;
    leftAt_ = Clock::now();
    pumpAll();
    settle(lock);
  }
  {
    std::lock_guard lock(nodeMutex_);
    node_.reset();  // Its user has another one.
  }
  (void)finish(/*force=*/false);
}

void Core::shut() {
  (void)finish(/*force=*/true);
  // Others, whose creation went well, may have made links; those that come now are not taken.
  const EndItem end = endItem(rank_, RankEnd::kLeft, okStatus());
  for (const auto& lanes : lanes_)
    if (lanes) lanes->finish(end, base::Deadline::afterMs(0));
}

/// Not on the network's own thread, which may have to end with it.
bool Core::finish(bool force) {
  Lock lock(mutex_);
  if (finished_) return true;
  if (!force) {
    if (!left_) return false;
    bool othersHere = false, told = true;
    for (int peer = 0; peer < ranks_; ++peer) othersHere |= peer != rank_ && book_.endOf(peer) == RankEnd::kNone;
    for (const auto& [peer, branch] : branches_)
      told &= branch->up && branch->frame.empty() && !book_.anythingFor(branch->channel);
    if (othersHere && branches_.size() > 1) return false;
    if (!told && Clock::now() - leftAt_ < milliseconds(kLingerMs)) return false;
  }
  finished_ = true;
  while (!branches_.empty()) cutOff(branches_.begin()->first);
  std::vector<std::shared_ptr<Link>> cut = std::move(cut_);
  cut_.clear();
  std::unique_ptr<Door> door = std::move(door_);
  lock.unlock();
  for (const auto& link : cut)
    if (link) link->close();
  cut.clear();
  door.reset();
  std::shared_ptr<Network> network;
  {
    std::lock_guard guard(networkMutex_);
    network = std::move(network_);
  }
  return true;
}

}  // namespace hpu::collectives::net
