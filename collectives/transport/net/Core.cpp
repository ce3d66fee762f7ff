// SPDX-License-Identifier: Apache-2.0
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

/// What a rank that gives up or leaves gives data that is on its way.
constexpr int64_t kLingerMs = 2000;
/// Of a link to another parent in the tree.
constexpr int64_t kAgainMs = 2000;
/// A peer whose link breaks may have left: its word of that comes along the tree.
constexpr milliseconds kGrace{400};
constexpr int kTicksPerLook = 5;
/// More than the first rank of a node lets pass between two words.
constexpr milliseconds kNoWord{1500};

std::string hostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string secondsText(std::chrono::steady_clock::duration time) {
  const int64_t tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return strCat(tenths / 10, ".", tenths % 10, " s");
}

EndItem endItem(int rank, RankEnd end, const Status& why) {
  return {rank, end, why.code(), why.message().substr(0, kMostReasonBytes)};
}

}  // namespace

class Core::Events : public LinkEvents {
 public:
  Events(std::shared_ptr<Core> core, int peer, uint64_t attempt)
      : core_(std::move(core)), peer_(peer), attempt_(attempt) {}
  void onFrame(std::span<const std::byte> frame) override { core_->onFrame(peer_, attempt_, frame); }
  void onWritten(uint64_t) override {}
  void onRoom() override { core_->onRoom(peer_, attempt_); }
  void onClosed(const Status& why) override { core_->onClosed(peer_, attempt_, why); }

 private:
  const std::shared_ptr<Core> core_;
  const int peer_;
  const uint64_t attempt_;
};

/// Of a link to a rank that was taken for gone: says so, and ends.
class Core::Refusal : public LinkEvents, public std::enable_shared_from_this<Refusal> {
 public:
  Refusal(std::shared_ptr<Link> link, const EndItem& why) : link_(std::move(link)) { frame_.add(why); }
  void begin() {
    const std::shared_ptr<Link> link = link_;  // Nobody else has it yet.
    link->start(shared_from_this());
    say();
  }
  void onFrame(std::span<const std::byte>) override {}
  void onWritten(uint64_t) override {}
  void onRoom() override { say(); }
  void onClosed(const Status&) override { (void)take(); }

 private:
  std::shared_ptr<Link> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(link_, nullptr);
  }
  void say() {
    std::shared_ptr<Link> link;
    {
      std::lock_guard lock(mutex_);
      link = link_;
    }
    if (!link || !link->send(frame_.bytes())) return;
    link->close();
    (void)take();
  }
  std::mutex mutex_;  // Guards link_, which keeps this object until it is closed.
  std::shared_ptr<Link> link_;
  FrameWriter frame_;
};

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

// ---- The tree's links ----

Core::Branch* Core::find(int peer, uint64_t attempt) {
  auto it = branches_.find(peer);
  return it == branches_.end() || it->second->attempt != attempt ? nullptr : it->second.get();
}

Core::Branch& Core::grow(int peer) {
  cutOff(peer);
  auto& branch = branches_[peer] = std::make_unique<Branch>();
  branch->peer = peer;
  branch->attempt = ++attempts_;
  return *branch;
}

void Core::cutOff(int peer) {
  auto it = branches_.find(peer);
  if (it == branches_.end()) return;
  book_.detach(it->second->channel);
  cut_.push_back(std::move(it->second->link));
  branches_.erase(it);
}

void Core::isUp(Branch& branch) {
  if (branch.up) return;
  branch.up = true;
  branch.heardAt = Clock::now();
  book_.attach(branch.channel);
  pump(branch);
  changed_.notify_all();
}

void Core::dialParent() {
  const int parent = tree_.parentOf(rank_, lost_);
  if (parent < 0 || branches_.contains(parent) || finished_ || isGone_) return;
  Branch& branch = grow(parent);
  const auto deadline = base::Deadline::afterMs(begun_ ? std::min(timeoutMs_, kAgainMs) : timeoutMs_);
  std::lock_guard lock(networkMutex_);
  branch.link =
      network_->dial(cards_[static_cast<size_t>(parent)].door, encodeNetHello({rank_, ranks_, LinkUse::kTree}),
                     std::make_shared<Events>(shared_from_this(), parent, branch.attempt), deadline, secret_);
}

void Core::dialled(std::shared_ptr<Link> link, const std::string& text) {
  const auto hello = decodeNetHello(text);
  // Not one of this communicator: the link is not taken.
  if (!hello.ok() || hello->ranks != ranks_ || hello->rank >= ranks_ || hello->rank == rank_) return;
  const int peer = hello->rank;
  Lock lock(mutex_);
  if (finished_) return lock.unlock();
  if (hello->use == LinkUse::kMessages) {
    Lanes* lanes = lanes_.empty() ? nullptr : lanes_[static_cast<size_t>(peer)].get();
    lock.unlock();
    if (lanes) lanes->dialled(std::move(link));
    return;
  }
  if (isGone_) return lock.unlock();
  if (book_.endOf(peer) == RankEnd::kGone) {
    // All are told that it is; what it says of others, whose links it has lost, is not to be heard.
    const auto refusal = std::make_shared<Refusal>(std::move(link), endItem(peer, RankEnd::kGone, book_.why(peer)));
    lock.unlock();
    return refusal->begin();
  }
  Branch& branch = grow(peer);
  branch.link = std::move(link);
  branch.link->start(std::make_shared<Events>(shared_from_this(), peer, branch.attempt));
  isUp(branch);
  settle(lock);
}

void Core::onRoom(int peer, uint64_t attempt) {
  Lock lock(mutex_);
  if (Branch* branch = find(peer, attempt)) {
    isUp(*branch);
    pump(*branch);
  }
  const bool asked = std::exchange(tellDelivered_, false);
  settle(lock);
  if (asked) wake();
}

void Core::onFrame(int peer, uint64_t attempt, std::span<const std::byte> frame) {
  Lock lock(mutex_);
  Branch* branch = find(peer, attempt);
  if (!branch) return;
  isUp(*branch);
  branch->heardAt = Clock::now();
  const bool first = !std::exchange(branch->heard, true);
  FrameReader in(frame, limits());
  Status status;
  while (status.ok()) {
    auto item = in.next();
    status = item.status();
    if (!item.ok() || !item->has_value()) break;
    if (const auto* end = std::get_if<EndItem>(&**item);
        end && first && end->rank == rank_ && end->end == RankEnd::kGone) {
      beGone(end->reason);
      return settle(lock);
    }
    status = book_.hear(branch->channel, **item);
  }
  if (!status.ok()) lost(peer, dataLoss(strCat("it speaks nonsense: ", status.message())));
  pumpAll();
  const bool asked = std::exchange(tellDelivered_, false);
  settle(lock);
  if (asked) wake();
}

void Core::onClosed(int peer, uint64_t attempt, const Status& why) {
  Lock lock(mutex_);
  if (find(peer, attempt)) lost(peer, why);
  pumpAll();
  settle(lock);
}

/// The link to a neighbour is no more; another one is looked for.
void Core::lost(int peer, const Status& why) {
  cutOff(peer);
  if (connecting_) {
    if (failure_.ok()) {
      const std::string address = cards_.empty() ? "" : strCat(" at ", cards_[static_cast<size_t>(peer)].address);
      failure_ = Status(why.code() == StatusCode::kAborted ? StatusCode::kUnavailable : why.code(),
                        strCat("no link to ", nameOf(peer), address, ": ", why.message()));
    }
    changed_.notify_all();
    return;
  }
  const bool nonsense = why.code() == StatusCode::kDataLoss || why.code() == StatusCode::kInvalidArgument;
  passOver(peer, nonsense ? dataLoss(why.message())
                          : unavailable(strCat("its process ended, or cannot be reached: ", why.message())));
}

/// Those of whom this rank has heard through it find another way, and have time for that.
void Core::passOver(int peer, const Status& why) {
  cutOff(peer);
  lost_[static_cast<size_t>(peer)] = 1;
  book_.end(peer, RankEnd::kGone, why);
  book_.bearWith(Clock::now() - silence_);
  dialParent();
}

/// The others take this rank for gone. Its neighbours find other ways when it lets them go.
void Core::beGone(const std::string& why) {
  isGone_ = true;
  while (!branches_.empty()) cutOff(branches_.begin()->first);
  for (int rank = 0; rank < ranks_; ++rank)
    if (!isLocal(rank)) book_.end(rank, RankEnd::kGone, unavailable(strCat("it takes this rank for gone (", why, ")")));
}

void Core::pump(Branch& branch) {
  if (!branch.up) return;
  do {
    if (branch.frame.empty()) continue;
    if (!branch.link->send(branch.frame.bytes())) return;
    branch.frame.clear();
    branch.spoken = true;
  } while (book_.fill(branch.channel, branch.frame));
}

void Core::pumpAll() {
  for (auto& [peer, branch] : branches_) pump(*branch);
}

void Core::settle(Lock& lock) {
  std::vector<std::shared_ptr<Link>> cut = std::move(cut_);
  cut_.clear();
  const bool news = book_.takeNews();
  lock.unlock();
  cut.clear();
  if (news) wake();
}

std::shared_ptr<Link> Core::dialPeer(int peer, std::shared_ptr<LinkEvents> events) {
  std::lock_guard lock(networkMutex_);
  return network_->dial(cards_[static_cast<size_t>(peer)].door, encodeNetHello({rank_, ranks_, LinkUse::kMessages}),
                        std::move(events), dialDeadline(), secret_);
}

void Core::wake() {
  std::lock_guard lock(nodeMutex_);
  if (node_) node_->wake();
}

void Core::peerEnded(int peer, const EndItem& end) {
  // That a rank has left is believed when it comes along the tree, behind the last of its calls.
  if (end.end == RankEnd::kLeft) return wake();
  Lock lock(mutex_);
  book_.end(peer, end.end, Status(end.code, end.reason));
  pumpAll();
  settle(lock);
}

void Core::peerBroken(int peer, const Status& why) {
  Lock lock(mutex_);
  book_.end(peer, RankEnd::kGone, dataLoss(strCat("it speaks nonsense: ", why.message())));
  pumpAll();
  settle(lock);
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

// ---- Who lives ----

std::string Core::ofCommunicator() const {
  return identity_.empty() ? "" : strCat(" '", identity_, "'");
}

std::string Core::nameOf(int peer) const {
  if (cards_.empty()) return strCat("rank ", peer, " (node ", tree_.nodeOf(peer), ")");
  const NetCard& card = cards_[static_cast<size_t>(peer)];
  return strCat("rank ", peer, " (process ", card.pid, " on host ", card.host, ", node ", card.node, ")");
}

/// An end comes along the tree, and what the rank had sent before it along its own link, which may be slower.
RankEnd Core::endOf(int peer) {
  const auto at = static_cast<size_t>(peer);
  const RankEnd end = book_.endOf(peer);
  if (end == RankEnd::kNone || end == RankEnd::kAborted || isLocal(peer) || endCounts_[at].load()) return end;
  int64_t heard = 0;
  const int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  if (endHeardNs_[at].compare_exchange_strong(heard, now)) heard = now;
  if (!lanes(peer).over()) {
    std::chrono::nanoseconds grace = kGrace;
    // One that has left ends its link behind its last data: as long as that comes it is waited for.
    if (const auto last = lanes(peer).heardAt(); last && end == RankEnd::kLeft) {
      heard = std::max(heard, std::chrono::nanoseconds(last->time_since_epoch()).count());
      grace += milliseconds(kLingerMs);
    }
    if (now - heard < grace.count()) return RankEnd::kNone;
  }
  if (end == RankEnd::kLeft) lanes(peer).peerLeft();
  endCounts_[at].store(true);
  return end;
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

Status Core::peerStatus(int peer) {
  const RankEnd end = endOf(peer);
  if (end == RankEnd::kNone) return okStatus();
  Lock lock(mutex_);
  const Status& why = book_.why(peer);
  switch (end) {
    case RankEnd::kNone:
      break;
    case RankEnd::kAborted:
      return aborted(strCat(nameOf(peer), " gave up: ", why.message()));
    case RankEnd::kLeft:
      return unavailable(strCat(nameOf(peer), " has left the communicator", ofCommunicator()));
    case RankEnd::kGone:
      break;
  }
  return Status(why.code() == StatusCode::kDataLoss ? StatusCode::kDataLoss : StatusCode::kUnavailable,
                strCat(nameOf(peer), " is gone: ", why.message()));
}

Status Core::abortReason(int peer) {
  if (endOf(peer) != RankEnd::kAborted) return okStatus();
  Lock lock(mutex_);
  const Status& why = book_.why(peer);
  return why.ok() ? hpu::aborted(why.message()) : why;
}

uint64_t Core::heartbeat(int peer) {
  Lock lock(mutex_);
  return book_.beatOf(peer);
}

std::string Core::describe(int peer) {
  Lock lock(mutex_);
  std::string text = nameOf(peer);
  const auto silent = Clock::now() - book_.heardAt(tree_.nodeOf(peer));
  std::string state;
  switch (book_.endOf(peer)) {
    case RankEnd::kNone:
      if (book_.stopped(peer)) {
        state = ", stopped";
      } else if (silent > kNoWord) {
        state = strCat(", no word from its node for ", secondsText(silent));
      }
      break;
    case RankEnd::kAborted:
      state = ", gave up";
      break;
    case RankEnd::kLeft:
      state = ", has left";
      break;
    case RankEnd::kGone:
      state = ", gone";
      break;
  }
  text.insert(text.size() - 1, state);
  return text;
}

// ---- Looking around ----

bool Core::lookAtNode(bool all, std::vector<Seen>& seen) {
  std::lock_guard lock(nodeMutex_);
  if (!node_) return false;
  const uint64_t beat = node_->heartbeat(localIndex(rank_)) + activity_.load(std::memory_order_relaxed);
  const bool moved = beat != std::exchange(lastBeat_, beat);
  if (!all) return moved;
  for (int32_t rank : tree_.members(tree_.nodeOf(rank_))) {
    const int index = localIndex(rank);
    if (rank == rank_) continue;
    Seen one{rank, false, RankEnd::kNone, node_->peerStatus(index)};
    if (one.why.ok()) {
      one.stopped = node_->describe(index).find("stopped") != std::string::npos;
    } else if (Status reason = node_->abortReason(index); !reason.ok()) {
      one.end = RankEnd::kAborted;
      one.why = reason;
    } else {
      one.end = node_->gone(index) ? RankEnd::kGone : RankEnd::kLeft;
      if (one.end == RankEnd::kGone) one.why = unavailable("its process ended without leaving the communicator");
    }
    seen.push_back(std::move(one));
  }
  return moved;
}

/// The first rank of its node that is there speaks for the node.
bool Core::isHead() const {
  for (int32_t rank : tree_.members(tree_.nodeOf(rank_))) {
    if (rank == rank_) return true;
    if (!lost_[static_cast<size_t>(rank)]) return false;
  }
  return true;
}

/// Those of this node are looked after by the node's transport, which calls a process that stands still stopped; but
/// through this rank's parent comes all that it hears of other nodes.
bool Core::mustSpeak(int neighbour) const {
  return !isLocal(neighbour) || neighbour < rank_;
}

/// So that a neighbour hears this rank itself, and not only what others say through it.
void Core::speak() {
  const int node = tree_.nodeOf(rank_);
  for (auto& [peer, branch] : branches_)
    if (!std::exchange(branch->spoken, false) && branch->up && branch->frame.empty())
      branch->frame.add(AliveItem{node, book_.aliveOf(node)});
}

/// First the neighbours: one that stands still keeps what others say, who live. Of these another neighbour is to bring
/// news before they are judged; so they have twice the time.
void Core::checkSilence(Clock::time_point now) {
  if (silence_.count() == 0) return;
  std::vector<std::pair<int, Clock::duration>> silent;
  for (const auto& [peer, branch] : branches_)
    if (const auto since = now - branch->heardAt; branch->up && since > silence_ && mustSpeak(peer))
      silent.emplace_back(peer, since);
  for (const auto& [peer, since] : silent)
    passOver(peer, unavailable(strCat("nothing was heard from it for ", secondsText(since))));
  for (int node = 0; node < tree_.nodes(); ++node) {
    const auto since = now - book_.heardAt(node);
    if (node == tree_.nodeOf(rank_) || since <= 2 * silence_) continue;
    for (int32_t rank : tree_.members(node))
      if (!branches_.contains(rank))
        book_.end(rank, RankEnd::kGone,
                  unavailable(strCat("nothing was heard from its node for ", secondsText(since))));
  }
}

bool Core::tick() {
  const auto now = Clock::now();
  {
    Lock lock(mutex_);
    if (finished_ || !begun_) return !finished_;
  }
  const bool looks = ++ticks_ % kTicksPerLook == 1;
  std::vector<Seen> seen;
  const bool moved = lookAtNode(looks, seen);
  std::vector<std::pair<int, Status>> broken;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (isLocal(peer) || book_.endOf(peer) != RankEnd::kNone) continue;
    if (Status why = lanes(peer).lostBefore(now - kGrace); !why.ok()) broken.emplace_back(peer, why);
  }
  // Ends that were held back count now.
  bool ended = false;
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto at = static_cast<size_t>(peer);
    if (isLocal(peer) || endHeardNs_[at].load() == 0 || endCounts_[at].load()) continue;
    ended |= endOf(peer) != RankEnd::kNone;
  }
  if (ended) wake();
  Lock lock(mutex_);
  if (finished_) return false;
  // Nobody was listening: this process stood still.
  if (const auto gap = now - lastTick_; gap > milliseconds(1000)) {
    book_.forgive(gap);
    for (auto& [peer, branch] : branches_) branch->heardAt += gap;
  }
  lastTick_ = now;
  if (moved) book_.beat();
  for (const auto& [peer, why] : broken)
    book_.end(peer, RankEnd::kGone, unavailable(strCat("its process ended, or cannot be reached: ", why.message())));
  if (looks && isHead()) {
    book_.alive(tree_.nodeOf(rank_));
    for (const Seen& one : seen) {
      book_.setStopped(one.rank, one.stopped);
      // A neighbour's own word comes behind its last call; so does the end of its link.
      if (one.end != RankEnd::kNone && !branches_.contains(one.rank)) book_.end(one.rank, one.end, one.why);
    }
  }
  checkSilence(now);
  pumpAll();
  if (looks) {
    speak();
    pumpAll();
  }
  settle(lock);
  return !finish(/*force=*/false);
}

// ---- The end ----

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
