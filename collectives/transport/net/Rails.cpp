// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Rails.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/Format.h"
#include "base/Log.h"
#include "base/ProcessOwned.h"
#include "base/Thread.h"
#include "collectives/transport/net/RailLink.h"

namespace hpu::collectives::net::rails {
namespace {

/// Between two lines of one rail.
constexpr std::chrono::seconds kLogPause{5};

}  // namespace

Status Rails::start() {
  try {
    // The thread keeps it: it may be the last one to know it.
    thread_ = base::startThread("hpu-rails", [self = shared_from_this()] { self->loop(); });
  } catch (const std::system_error&) {
    return resourceExhausted("cannot start the thread of the rails");
  }
  return okStatus();
}

void Rails::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (!thread_.joinable()) return;
  if (isHere())
    thread_.detach();
  else
    thread_.join();
}

void Rails::loop() {
  id_ = std::this_thread::get_id();
  auto next = Clock::now() + tick_;
  std::unique_lock lock(mutex_);
  while (!stopping_ || !kept_.empty() || !ready_.empty()) {
    if (!come_.empty()) {
      Come come = std::move(come_.front());
      come_.pop_front();
      telling_ = come.door.get();
      const bool closed = come.door->closed;
      lock.unlock();
      if (closed)
        come.link->close();
      else
        come.door->dialled(std::move(come.link), come.hello);
      lock.lock();
      telling_ = nullptr;
      changed_.notify_all();
      lock.unlock();
      come = {};
      lock.lock();
    } else if (!ready_.empty()) {
      std::shared_ptr<RailLink> link = std::move(ready_.front());
      ready_.pop_front();
      lock.unlock();
      link->run();
      const bool isOver = link->isOver();
      lock.lock();
      if (isOver) std::erase(kept_, link);
      lock.unlock();
      link.reset();
      lock.lock();
    } else if (sessions_.empty() && kept_.empty()) {
      changed_.wait(lock);
      next = Clock::now() + tick_;
      continue;
    } else {
      changed_.wait_until(lock, next);
    }
    if (Clock::now() < next) continue;
    std::vector<std::shared_ptr<RailLink>> links;
    for (const auto& [session, link] : sessions_)
      if (auto one = link.lock()) links.push_back(std::move(one));
    lock.unlock();
    for (const auto& link : links) {
      link->tick(Clock::now());
      link->run();
    }
    links.clear();
    lock.lock();
    links = kept_;
    lock.unlock();
    // A link calls the rails under its own lock: links are asked, and die, without ours.
    std::erase_if(links, [](const auto& link) { return !link->isOver(); });
    lock.lock();
    std::erase_if(kept_, [&](const auto& link) { return std::find(links.begin(), links.end(), link) != links.end(); });
    lock.unlock();
    links.clear();
    lock.lock();
    next = Clock::now() + tick_;
  }
  std::deque<Come> left = std::move(come_);
  come_.clear();
  lock.unlock();
  for (Come& come : left) come.link->close();
}

void Rails::dialled(int rail, const std::shared_ptr<DoorState>& door, std::shared_ptr<Link> link,
                    const std::string& text) {
  const auto hello = decodeHello(text);
  if (!hello.ok()) return;
  std::shared_ptr<RailLink> known;
  {
    std::lock_guard lock(mutex_);
    auto it = sessions_.find({hello->session, !hello->dialler});
    if (it != sessions_.end()) known = it->second.lock();
  }
  if (known) {
    (void)known->attach(rail, std::move(link));
    return;
  }
  if (!hello->first || !hello->dialler || !door->dialled) return;
  auto made = base::makeProcessOwned<RailLink>(shared_from_this(), hello->session, /*dialler=*/false);
  add(hello->session, false, made);
  if (!made->attach(rail, std::move(link))) return;
  std::lock_guard lock(mutex_);
  come_.push_back({door, std::move(made), hello->owner});
  changed_.notify_all();
}

void Rails::close(const std::shared_ptr<DoorState>& door) {
  std::unique_lock lock(mutex_);
  door->closed = true;
  if (!isHere()) changed_.wait(lock, [&] { return telling_ != door.get(); });
}

void Rails::add(const Session& session, bool dialler, const std::shared_ptr<RailLink>& link) {
  std::lock_guard lock(mutex_);
  sessions_[{session, dialler}] = link;
  changed_.notify_all();
}

void Rails::remove(const Session& session, bool dialler) {
  std::lock_guard lock(mutex_);
  sessions_.erase({session, dialler});
}

void Rails::list(std::shared_ptr<RailLink> link) {
  std::lock_guard lock(mutex_);
  if (std::find(ready_.begin(), ready_.end(), link) != ready_.end()) return;
  ready_.push_back(std::move(link));
  changed_.notify_all();
}

void Rails::keep(const std::shared_ptr<RailLink>& link) {
  std::lock_guard lock(mutex_);
  kept_.push_back(link);
  changed_.notify_all();
}

bool Rails::log(int rail, bool isBack, const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    Logged& one = logged_[rail];
    if (isBack ? !one.isDown : now - one.at < kLogPause) return false;
    one.isDown = !isBack;
    if (!isBack) one.at = now;
  }
  HPU_LOG(kWarning, text);
  return true;
}

}  // namespace hpu::collectives::net::rails
