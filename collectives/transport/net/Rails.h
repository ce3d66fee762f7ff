// SPDX-License-Identifier: Apache-2.0
// Rails: what all links over several rails of a network have in common: the networks of the rails, the thread that
// tells owners, and the links by their sessions.
// The one thing to know: the networks' own threads only take note of what comes; owners are told, and connections
// closed, on this one thread, so that nobody waits for a thread that waits for him.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/transport/net/Network.h"
#include "collectives/transport/net/RailWire.h"

namespace hpu::collectives::net::rails {

class RailLink;
using Clock = std::chrono::steady_clock;

/// A door of the network's user; null of the network's own ones, where links are dialled again.
struct DoorState {
  std::function<void(std::shared_ptr<RailLink> link, const std::string& hello)> dialled;
  bool closed = false;  ///< Guarded by Rails' lock.
};

/// Any thread may call.
class Rails : public std::enable_shared_from_this<Rails> {
 public:
  Rails(std::vector<std::shared_ptr<Network>> networks, std::chrono::milliseconds tick)
      : networks_(std::move(networks)), tick_(tick) {}

  size_t size() const { return networks_.size(); }
  Network& network(int rail) const { return *networks_[static_cast<size_t>(rail)]; }
  /// Starts the thread. Errors: kResourceExhausted.
  Status start();
  /// The thread ends when links that were closed have said what they had to. `thread` is waited for, unless this is it.
  void stop();
  bool isHere() const { return id_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  /// What a door of `rail` does with somebody who dials.
  void dialled(int rail, const std::shared_ptr<DoorState>& door, std::shared_ptr<Link> link, const std::string& hello);
  /// When it returns nobody is told of that door any more.
  void close(const std::shared_ptr<DoorState>& door);

  /// `dialler`: which end of it. Both may be of this network.
  void add(const Session& session, bool dialler, const std::shared_ptr<RailLink>& link);
  void remove(const Session& session, bool dialler);
  /// link->run() comes.
  void list(std::shared_ptr<RailLink> link);
  /// A link is closed and has something to say yet: it is kept for so long.
  void keep(const std::shared_ptr<RailLink>& link);

  /// Where this network's links are dialled again. Set before any link is made.
  void setDoors(std::vector<std::string> doors, const Secret& secret) {
    doors_ = std::move(doors);
    secret_ = secret;
  }
  const std::vector<std::string>& doors() const { return doors_; }
  const Secret& secret() const { return secret_; }  ///< Of such doors, here and at peers.
  /// A rail that went down, or is back: logged once in a while. False: not this time.
  bool log(int rail, bool isBack, const std::string& text);

 private:
  struct Come {
    std::shared_ptr<DoorState> door;
    std::shared_ptr<RailLink> link;
    std::string hello;
  };
  void loop();

  const std::vector<std::shared_ptr<Network>> networks_;
  const std::chrono::milliseconds tick_;
  std::vector<std::string> doors_;
  Secret secret_{};
  std::thread thread_;
  std::atomic<std::thread::id> id_{};

  std::mutex mutex_;  // Guards all below; no lock of a link is taken under it.
  std::condition_variable changed_;
  bool stopping_ = false;
  const DoorState* telling_ = nullptr;
  std::deque<std::shared_ptr<RailLink>> ready_;
  std::deque<Come> come_;
  std::map<std::pair<Session, bool>, std::weak_ptr<RailLink>> sessions_;
  std::vector<std::shared_ptr<RailLink>> kept_;
  struct Logged {
    bool isDown = false;
    Clock::time_point at;  ///< When it was last said that it is down.
  };
  std::map<int, Logged> logged_;  // By rail.
};

}  // namespace hpu::collectives::net::rails
