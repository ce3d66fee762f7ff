// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/Ticker.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/AtFork.h"
#include "base/Thread.h"

namespace hpu::collectives::net {
namespace {

struct State {
  const uint64_t generation = base::processGeneration();
  std::mutex mutex;  // Guards all below.
  std::condition_variable changed;
  std::vector<std::shared_ptr<Ticking>> all;
  bool running = false;
};

/// Of this process, never destroyed: a forked child makes its own.
State& state() {
  static State* it = nullptr;
  std::lock_guard lock(base::processMutex());
  if (!it || it->generation != base::processGeneration()) it = new State;
  return *it;
}

void loop(State& state) {
  std::unique_lock lock(state.mutex);
  while (!state.all.empty()) {
    std::vector<std::shared_ptr<Ticking>> all = state.all;
    std::vector<const Ticking*> done;
    lock.unlock();
    for (const auto& one : all)
      if (!one->tick()) done.push_back(one.get());
    lock.lock();
    std::erase_if(state.all,
                  [&](const auto& one) { return std::find(done.begin(), done.end(), one.get()) != done.end(); });
    lock.unlock();
    all.clear();
    lock.lock();
    if (!state.all.empty()) state.changed.wait_for(lock, kTick);
  }
  state.running = false;
}

}  // namespace

bool startTicking(std::shared_ptr<Ticking> what) {
  State& mine = state();
  std::lock_guard lock(mine.mutex);
  if (!mine.running) {
    try {
      base::startThread("hpu-net-tick", [&mine] { loop(mine); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    mine.running = true;
  }
  mine.all.push_back(std::move(what));
  return true;
}

}  // namespace hpu::collectives::net
