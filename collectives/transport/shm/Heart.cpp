// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/shm/Heart.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/Log.h"
#include "base/Thread.h"
#include "collectives/transport/shm/SegmentWork.h"

namespace hpu::collectives::shm {
namespace {

constexpr uint64_t kWakeKey = 0;
constexpr int kBeatMs = 100;
// Of processes whose end the kernel does not tell us.
constexpr int kLookMs = 50;

void markDead(const Pulse& pulse, int rank) {
  pulse.segment->end(rank, RankState::kDead);
  // Whichever process marked it, each wakes its own ranks.
  pulse.segment->ring(pulse.rank, /*urgent=*/true);
}

/// What can be seen without the kernel's help.
bool looksDead(const Pulse::Peer& peer) {
  if (peer.process.pidNamespace == myProcess().pidNamespace && startTimeOf(::getpid()) != 0)
    return startTimeOf(peer.process.pid) != peer.process.startTime;
  return peer.memory && !peer.memory->alive();
}

}  // namespace

struct Heart::State {
  /// A process that ranks of this one have as a peer.
  struct Watch {
    ProcessCard process;
    node::Fd fd;
    int users = 0;
    bool gone = false;
  };
  std::mutex lifecycle;  // Held while the thread is started or stopped; taken before mutex.
  std::mutex mutex;      // Guards everything below.
  std::vector<std::shared_ptr<Pulse>> pulses;
  std::map<uint64_t, Watch> watches;        // By a key of ours, from 1.
  std::map<uint64_t, uint64_t> keyOfToken;  // By the process's token.
  uint64_t nextKey = 1;
  int sources = 0;
  node::Fd epoll, wake;
  std::unique_ptr<std::thread> thread;
  bool hooked = false;

  static State*& theOne() {
    static State* state = nullptr;
    return state;
  }

  Status start() {
    if (thread) return okStatus();
    if (!hooked) {
      theOne() = this;
      static constexpr base::ForkHandlers kHandlers = {[] { theOne()->lifecycle.lock(), theOne()->mutex.lock(); },
                                                       [] { theOne()->mutex.unlock(), theOne()->lifecycle.unlock(); },
                                                       [] { theOne()->forked(); }};
      if (!base::atFork(base::ForkRank::kRankWatch, kHandlers))
        return resourceExhausted("cannot register a fork handler");
      hooked = true;
    }
    epoll = node::Fd(::epoll_create1(EPOLL_CLOEXEC));
    wake = node::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeKey;
    if (!epoll.valid() || !wake.valid() || ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
      return resourceExhausted("cannot create the descriptors that watch the ranks: " + base::errnoText(errno));
    try {
      auto made = std::make_unique<std::thread>();  // A thread that runs has a place to go.
      *made = base::startThread("hpu-heart", [this] { loop(); });
      thread = std::move(made);
    } catch (const std::system_error&) {
      return resourceExhausted("cannot start the thread that watches the ranks");
    }
    return okStatus();
  }

  /// In the child: the thread and what it watches are the parent's.
  void forked() {
    base::abandon(thread);
    epoll.reset();
    wake.reset();
    watches.clear();
    keyOfToken.clear();
    // Their locks may be held by threads that are not here.
    base::abandon(pulses);
    sources = 0;
    mutex.unlock();
    lifecycle.unlock();
  }

  void poke() {
    uint64_t one = 1;
    if (wake.valid() && ::write(wake.get(), &one, sizeof one) < 0 && errno != EAGAIN)
      HPU_LOG(kError, "cannot wake the thread that watches the ranks: " + base::errnoText(errno));
  }

  /// Under the mutex.
  void watch(const Pulse& pulse, const Pulse::Peer& peer) {
    auto [it, added] = keyOfToken.try_emplace(peer.process.token, nextKey);
    if (added) {
      Watch& made = watches[nextKey];
      made.process = peer.process;
      made.fd = openProcess(peer.process, made.gone);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.u64 = nextKey;
      if (made.fd.valid() && ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, made.fd.get(), &event) != 0) made.fd.reset();
      ++nextKey;
    }
    Watch& watch = watches[it->second];
    ++watch.users;
    if (watch.gone) markDead(pulse, peer.rank);
  }

  void unwatch(const Pulse::Peer& peer) {
    auto it = keyOfToken.find(peer.process.token);
    if (it == keyOfToken.end()) return;
    auto watch = watches.find(it->second);
    if (--watch->second.users > 0) return;
    watches.erase(watch);
    keyOfToken.erase(it);
  }

  /// Under the mutex: tells all ranks that have one in that process.
  void end(Watch& watch) {
    watch.gone = true;
    watch.fd.reset();
    for (const auto& pulse : pulses)
      for (const Pulse::Peer& peer : pulse->others)
        if (sameProcess(peer.process, watch.process)) markDead(*pulse, peer.rank);
  }

  bool mustLook(const Watch& watch) const { return !watch.gone && !watch.fd.valid(); }

  int patience() {
    std::lock_guard lock(mutex);
    for (const auto& [key, watch] : watches)
      if (mustLook(watch)) return kLookMs;
    return sources > 0 ? kBeatMs : -1;
  }

  void loop() {
    std::array<epoll_event, 16> events;
    while (true) {
      int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), patience());
      std::vector<std::shared_ptr<Pulse>> beating;
      {
        std::lock_guard lock(mutex);
        // The last rank has gone.
        if (pulses.empty()) return;
        for (int i = 0; i < count; ++i) {
          uint64_t key = events[static_cast<size_t>(i)].data.u64;
          if (key == kWakeKey) {
            uint64_t sum = 0;
            (void)!::read(wake.get(), &sum, sizeof sum);
          } else if (auto it = watches.find(key); it != watches.end()) {
            end(it->second);
          }
        }
        for (auto& [key, watch] : watches) {
          if (!mustLook(watch)) continue;
          for (const auto& pulse : pulses)
            for (const Pulse::Peer& peer : pulse->others)
              if (!watch.gone && sameProcess(peer.process, watch.process) && looksDead(peer)) end(watch);
        }
        beating = pulses;
      }
      for (const auto& pulse : beating) beat(*pulse);
      letGoOfKept();
    }
  }

  static void beat(Pulse& pulse) {
    std::lock_guard lock(pulse.mutex);
    if (!pulse.source) return;
    uint64_t now = pulse.source();
    if (now != pulse.last) pulse.segment->block(pulse.rank).beats.fetch_add(1, std::memory_order_relaxed);
    pulse.last = now;
  }
};

Heart::Heart() : state_(std::make_unique<State>()) {}

Heart& Heart::instance() {
  static Heart* heart = new Heart;  // Never destroyed: communicators may outlive statics.
  return *heart;
}

Status Heart::add(const std::shared_ptr<Pulse>& pulse) {
  std::lock_guard life(state_->lifecycle);
  std::lock_guard lock(state_->mutex);
  if (Status status = state_->start(); !status.ok()) return status;
  state_->pulses.push_back(pulse);
  for (const Pulse::Peer& peer : pulse->others) state_->watch(*pulse, peer);
  // It may have to look from now on.
  state_->poke();
  return okStatus();
}

void Heart::remove(const std::shared_ptr<Pulse>& pulse) {
  setSource(*pulse, {});
  std::lock_guard life(state_->lifecycle);
  std::unique_ptr<std::thread> ended;
  {
    std::lock_guard lock(state_->mutex);
    auto it = std::find(state_->pulses.begin(), state_->pulses.end(), pulse);
    if (it == state_->pulses.end()) return;
    state_->pulses.erase(it);
    for (const Pulse::Peer& peer : pulse->others) state_->unwatch(peer);
    if (!state_->pulses.empty()) return;
    ended = std::move(state_->thread);
    state_->poke();
  }
  if (ended) ended->join();
  std::lock_guard lock(state_->mutex);
  state_->epoll.reset();
  state_->wake.reset();
}

void Heart::setSource(Pulse& pulse, std::function<uint64_t()> source) {
  int change = 0;
  {
    std::lock_guard lock(pulse.mutex);
    change = (source ? 1 : 0) - (pulse.source ? 1 : 0);
    pulse.source = std::move(source);
    pulse.last = 0;
  }
  if (change == 0) return;
  std::lock_guard lock(state_->mutex);
  state_->sources += change;
  if (change > 0) state_->poke();
}

}  // namespace hpu::collectives::shm
