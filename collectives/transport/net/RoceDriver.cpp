// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/RoceDriver.h"

#include <sys/epoll.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/StatusMacros.h"
#include "collectives/transport/net/RoceConnection.h"

namespace hpu::collectives::net {
namespace {

// At a time, so that callers come in between and other sockets are served.
constexpr int kBatches = 2;

}  // namespace

Status RoceDriver::start(std::shared_ptr<Progress> progress) {
  std::lock_guard lock(mutex_);
  progress_ = std::move(progress);
  key_ = progress_->add(shared_from_this());
  if (key_ == 0) return failedPrecondition("this program is ending: no network can be used any more");
  watch();
  if (watched_ != 0) return okStatus();
  progress_->remove(key_);
  return resourceExhausted("cannot watch the descriptor of RoCE: there are no descriptors or no memory for it");
}

void RoceDriver::leave() {
  std::lock_guard lock(mutex_);
  leaving_ = true;
  if (!kept_.empty()) progress_->setLingering(key_);
  poke();
}

RoceDriver::~RoceDriver() {
  std::lock_guard lock(past_->mutex);
  past_->counters += engine_->counters();
}

roce::Endpoint::Counters RoceDriver::counters() {
  auto lock = enter();
  return engine_->counters();
}

std::unique_lock<std::mutex> RoceDriver::enter() {
  callers_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  callers_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

// ---- What the thread does -----------------------------------------------------------------------

void RoceDriver::serve(uint32_t ready) {
  // A caller waits for the lock: it takes microseconds, and would not get it from a thread that is back at once.
  constexpr int kTries = 50;
  for (int i = 0; i < kTries && callers_.load(std::memory_order_relaxed) > 0; ++i) std::this_thread::yield();
  std::unique_lock lock(mutex_);
  if (ended_) return;
  if (now() >= armed_) armed_ = INT64_MAX;
  engine_->progress(kBatches);
  collect();
  passDeadlines();
  tellAll(lock);
  parted(lock);
  if (ended_) return;
  flush();
  if (!(ready & EPOLLIN)) engine_->rest();
  if (!leaving_ || !kept_.empty()) return;
  ended_ = true;
  progress_->watch(key_, engine_->descriptor(), watched_, 0);
  lock.unlock();
  progress_->remove(key_);
}

void RoceDriver::endWith(const Status& why) {
  std::unique_lock lock(mutex_);
  const auto all = kept_;
  for (const auto& connection : all) connection->fail(why);
  tellAll(lock);
  parted(lock);
  kept_.clear();
  ended_ = true;
}

void RoceDriver::collect() {
  while (const uint32_t number = engine_->takeCompleted()) {
    auto it = numbers_.find(number);
    if (it != numbers_.end()) it->second->collect();
  }
}

void RoceDriver::drain() {
  engine_->drain();
  collect();
}

void RoceDriver::tellAll(std::unique_lock<std::mutex>& lock) {
  while (!listed_.empty()) {
    const std::shared_ptr<RoceConnection> connection = std::move(listed_.front());
    listed_.pop_front();
    telling_ = connection.get();
    connection->tell(lock);
    telling_ = nullptr;
    told_.notify_all();
  }
}

void RoceDriver::waitUntilTold(std::unique_lock<std::mutex>& lock, const RoceConnection* connection) {
  if (isThread()) return;
  told_.wait(lock, [&] { return telling_ != connection; });
}

void RoceDriver::waitUntilTold(std::unique_lock<std::mutex>& lock, const RoceDoorway& door) {
  if (isThread()) return;
  told_.wait(lock, [&] { return !telling_ || telling_->door() != &door; });
}

void RoceDriver::parted(std::unique_lock<std::mutex>& lock) {
  std::deque<std::shared_ptr<RoceConnection>> parting;
  parting.swap(parting_);
  for (const auto& connection : parting) {
    std::shared_ptr<Link> tcp;
    if (!connection->hasParted(tcp)) continue;
    kept_.erase(connection);
    if (!tcp) continue;
    lock.unlock();
    tcp->close();
    tcp.reset();
    lock.lock();
  }
}

void RoceDriver::passDeadlines() {
  const roce::TimeNs now = RoceDriver::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const auto connection = deadlines_.begin()->second.lock();
    deadlines_.erase(deadlines_.begin());
    if (connection) connection->passed(now);
  }
}

// ---- What it is to do ---------------------------------------------------------------------------

roce::TimeNs RoceDriver::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Progress::Clock::now().time_since_epoch()).count();
}

StatusOr<std::unique_ptr<Pair>> RoceDriver::makePair(RoceConnection* connection, const PairOptions& options) {
  HPU_ASSIGN(std::unique_ptr<Pair> pair, engine_->makePair(options));
  numbers_[pair->number()] = connection;
  return pair;
}

void RoceDriver::releasePair(std::unique_ptr<Pair> pair) {
  if (pair) numbers_.erase(pair->number());
}

void RoceDriver::flush() {
  if (ended_) return;
  engine_->send();
  if (engine_->hasCompleted()) poke();
  watch();
  roce::TimeNs next = deadlines_.empty() ? INT64_MAX : deadlines_.begin()->first;
  if (const auto time = engine_->nextTime()) next = std::min(next, *time);
  // An earlier look is not put off: a timeout that moves on with each packet costs nothing.
  if (next >= armed_) return;
  armed_ = next;
  progress_->wakeAt(key_, Progress::Clock::time_point(std::chrono::nanoseconds(next)));
}

void RoceDriver::watch() {
  const uint32_t wanted = EPOLLIN | (engine_->wantsToWrite() ? uint32_t{EPOLLOUT} : 0);
  if (progress_->watch(key_, engine_->descriptor(), watched_, wanted)) watched_ = wanted;
}

void RoceDriver::poke() {
  if (!ended_) progress_->poke(key_);
}

void RoceDriver::list(std::shared_ptr<RoceConnection> connection) {
  listed_.push_back(std::move(connection));
  poke();
}

void RoceDriver::part(std::shared_ptr<RoceConnection> connection) {
  parting_.push_back(std::move(connection));
  poke();
}

void RoceDriver::setDeadline(const std::shared_ptr<RoceConnection>& connection, roce::TimeNs when) {
  deadlines_.emplace(when, connection);
  if (when < armed_) poke();
}

}  // namespace hpu::collectives::net
