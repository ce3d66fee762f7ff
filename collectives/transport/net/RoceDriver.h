// SPDX-License-Identifier: Apache-2.0
// RoceDriver: the engine of a RoCE network, its lock, and when its links are told what has happened.
// The one thing to know: one lock guards the engine and all links of it; the network's thread takes in what comes and
// tells events, without the lock, and callers send on their own threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "collectives/transport/net/PairEngine.h"
#include "collectives/transport/net/ProgressThread.h"

namespace hpu::collectives::net {

class RoceConnection;
struct RoceDoorway;

/// What drivers that are gone have counted.
struct RocePast {
  std::mutex mutex;  // Guards what follows.
  roce::Endpoint::Counters counters;
};

class RoceDriver : public Served, public std::enable_shared_from_this<RoceDriver> {
 public:
  RoceDriver(std::unique_ptr<PairEngine> engine, std::shared_ptr<RocePast> past)
      : past_(std::move(past)), engine_(std::move(engine)) {}
  ~RoceDriver() override;
  roce::Endpoint::Counters counters();
  /// Errors: kResourceExhausted.
  Status start(std::shared_ptr<Progress> progress);
  /// Nobody makes links any more; those that part still go out.
  void leave();

  void serve(uint32_t ready) override;
  void endWith(const Status& why) override;

  /// Callers go before the thread, which has the lock most of the time while data comes.
  std::unique_lock<std::mutex> enter();
  bool isThread() const { return progress_->isHere(); }

  // The rest under the lock.
  const PairEngine& engine() const { return *engine_; }
  static roce::TimeNs now();
  /// Until releasePair(). Errors: as PairEngine::makePair.
  StatusOr<std::unique_ptr<Pair>> makePair(RoceConnection* connection, const PairOptions& options);
  void releasePair(std::unique_ptr<Pair> pair);
  /// Sends what was posted, and looks when there is more to do.
  void flush();
  /// It has events.
  void list(std::shared_ptr<RoceConnection> connection);
  /// As long as it has a connection over TCP.
  void keep(std::shared_ptr<RoceConnection> connection) { kept_.insert(std::move(connection)); }
  /// It may have parted: the thread looks.
  void part(std::shared_ptr<RoceConnection> connection);
  void setDeadline(const std::shared_ptr<RoceConnection>& connection, roce::TimeNs when);
  /// Takes in what has come so far, for all.
  void drain();
  /// Tells what has been listed. On the thread.
  void tellAll(std::unique_lock<std::mutex>& lock);
  /// Until no event of it is being told; at once on the thread.
  void waitUntilTold(std::unique_lock<std::mutex>& lock, const RoceConnection* connection);
  /// The same for all that come to a door.
  void waitUntilTold(std::unique_lock<std::mutex>& lock, const RoceDoorway& door);

 private:
  void collect();
  void poke();
  void watch();
  void parted(std::unique_lock<std::mutex>& lock);
  void passDeadlines();

  const std::shared_ptr<RocePast> past_;
  std::shared_ptr<Progress> progress_;
  uint64_t key_ = 0;
  std::atomic<int> callers_{0};  ///< That wait for the lock.

  std::mutex mutex_;  // Guards what follows, and the links.
  const std::unique_ptr<PairEngine> engine_;
  std::unordered_map<uint32_t, RoceConnection*> numbers_;  ///< By queue pair; those that are not connected yet, too.
  std::unordered_set<std::shared_ptr<RoceConnection>> kept_;
  std::deque<std::shared_ptr<RoceConnection>> listed_, parting_;
  std::multimap<roce::TimeNs, std::weak_ptr<RoceConnection>> deadlines_;
  roce::TimeNs armed_ = INT64_MAX;  ///< When the thread looks by itself.
  uint32_t watched_ = 0;            ///< What epoll looks for.
  bool leaving_ = false, ended_ = false;
  const RoceConnection* telling_ = nullptr;
  std::condition_variable told_;
};

}  // namespace hpu::collectives::net
