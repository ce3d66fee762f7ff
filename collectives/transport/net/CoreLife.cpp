// SPDX-License-Identifier: Apache-2.0
// Who lives: what the rank is told of the others, and what is looked at a few times a second.
#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "collectives/transport/net/Core.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;
using std::chrono::milliseconds;

/// A peer whose link breaks may have left: its word of that comes along the tree.
constexpr milliseconds kGrace{400};
constexpr int kTicksPerLook = 5;
/// More than the first rank of a node lets pass between two words.
constexpr milliseconds kNoWord{1500};

std::string secondsText(std::chrono::steady_clock::duration time) {
  const int64_t tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return strCat(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

/// An end comes along the tree, and what the rank had sent before it along its own link, which may be slower.
RankEnd Core::endOf(int peer) {
  const auto at = static_cast<size_t>(peer);
  const RankEnd end = book_.endOf(peer);
  // Of its node's ranks a rank hears all by itself, but that they are given up.
  if (isLocal(peer) && end != RankEnd::kGone) return RankEnd::kNone;
  if (end == RankEnd::kNone || end == RankEnd::kAborted || endCounts_[at].load()) return end;
  int64_t heard = 0;
  const int64_t now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  if (endHeardNs_[at].compare_exchange_strong(heard, now)) heard = now;
  if (isLocal(peer)) {
    // The node's transport is about to say of a process that has ended how it did.
    const std::chrono::nanoseconds grace = hasEnded(peer) ? 10 * kGrace : kGrace;
    if (now - heard < grace.count()) return RankEnd::kNone;
  } else if (!lanes(peer).over()) {
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

bool Core::hasEnded(int mate) {
  std::lock_guard lock(nodeMutex_);
  return node_ && node_->describe(localIndex(mate)).find("ended") != std::string::npos;
}

bool Core::lookAtNode(bool all, std::vector<Seen>& seen) {
  std::lock_guard lock(nodeMutex_);
  if (!node_) return false;
  const uint64_t beat = node_->heartbeat(localIndex(rank_)) + activity_.load(std::memory_order_relaxed);
  const bool moved = beat != std::exchange(lastBeat_, beat);
  if (!all) return moved;
  for (int32_t rank : tree_.members(tree_.nodeOf(rank_))) {
    const int index = localIndex(rank);
    if (rank == rank_) continue;
    Seen one{rank, false, node_->heartbeat(index), RankEnd::kNone, node_->peerStatus(index)};
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

/// So that a neighbour hears this rank itself, and not only what others say through it.
void Core::speak() {
  const int node = tree_.nodeOf(rank_);
  for (auto& [peer, branch] : branches_)
    if (!std::exchange(branch->spoken, false) && branch->up && branch->frame.empty())
      branch->frame.add(AliveItem{node, book_.aliveOf(node)});
}

/// What is known of the reason, behind a colon.
std::string Core::whySilent(int peer) const {
  const auto stop = stops_.find(peer);
  if (book_.stopped(peer) || (stop != stops_.end() && stop->second.at)) return ": its process is stopped";
  const auto branch = branches_.find(peer);
  const std::string& network = cards_[static_cast<size_t>(peer)].network;
  // Such links are agreed upon over TCP.
  if (branch == branches_.end() || branch->second->heard || (network != "roce" && network != "verbs")) return "";
  return strCat(": none of its packets of RoCE (UDP) has ever come over the network '", network,
                "', though a TCP connection to it was made: does a firewall drop them?");
}

/// First the neighbours: one that stands still keeps what others say, who live. Of these another neighbour is to bring
/// news before they are judged; so they have twice the time.
void Core::checkSilence(Clock::time_point now) {
  if (silence_.count() == 0) return;
  std::map<int, Clock::duration> silent;
  for (const auto& [peer, branch] : branches_)
    if (const auto since = now - branch->heardAt; branch->up && since > silence_) silent.emplace(peer, since);
  // Not all of this node are neighbours, and some may have to become so who stand still.
  for (const auto& [mate, stop] : stops_)
    if (stop.at && now - *stop.at > silence_ && (branches_.contains(mate) || book_.endOf(mate) == RankEnd::kNone))
      silent.emplace(mate, now - *stop.at);
  for (const auto& [peer, since] : silent)
    passOver(peer, unavailable(strCat("nothing was heard from it for ", secondsText(since), whySilent(peer))));
  for (int node = 0; node < tree_.nodes(); ++node) {
    const auto since = now - book_.heardAt(node);
    if (node == tree_.nodeOf(rank_) || since <= 2 * silence_) continue;
    for (int32_t rank : tree_.members(node))
      if (!branches_.contains(rank))
        book_.end(rank, RankEnd::kGone,
                  unavailable(strCat("nothing was heard from its node for ", secondsText(since))));
  }
}

/// Only one that does nothing else meanwhile stands still: a tracer stops a process again and again.
void Core::noteStops(const std::vector<Seen>& seen, Clock::time_point now) {
  if (seen.empty()) stops_.clear();
  for (const Seen& one : seen) {
    Stop& stop = stops_[one.rank];
    const bool acted = std::exchange(stop.beat, one.beat) != one.beat;
    if (!one.stopped || acted) {
      stop.at.reset();
    } else if (!stop.at) {
      stop.at = now;
    }
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
    if (endHeardNs_[at].load() == 0 || endCounts_[at].load()) continue;
    ended |= endOf(peer) != RankEnd::kNone;
  }
  if (ended) wake();
  Lock lock(mutex_);
  if (finished_) return false;
  // Nobody was listening: this process stood still.
  if (const auto gap = now - lastTick_; gap > milliseconds(1000)) {
    book_.forgive(gap);
    for (auto& [peer, branch] : branches_) branch->heardAt += gap;
    for (auto& [mate, stop] : stops_)
      if (stop.at) *stop.at += gap;
  }
  lastTick_ = now;
  if (moved) book_.beat();
  if (looks) noteStops(seen, now);
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

}  // namespace hpu::collectives::net
