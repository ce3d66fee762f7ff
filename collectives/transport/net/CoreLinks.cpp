// SPDX-License-Identifier: Apache-2.0
// The links of the tree: how they are made, what goes over them, and what is done when one is no more.
#include <algorithm>
#include <utility>

#include "base/Format.h"
#include "collectives/transport/net/Core.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

/// Of a link to another parent in the tree.
constexpr int64_t kAgainMs = 2000;

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
  int parent = tree_.parentOf(rank_, lost_);
  // One that others have named is not waited for.
  while (parent >= 0 && !branches_.contains(parent) && book_.endOf(parent) == RankEnd::kGone) {
    lost_[static_cast<size_t>(parent)] = 1;
    parent = tree_.parentOf(rank_, lost_);
  }
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
    if (rank != rank_) book_.end(rank, RankEnd::kGone, unavailable(strCat("it takes this rank for gone (", why, ")")));
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

}  // namespace hpu::collectives::net
