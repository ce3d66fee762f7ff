// SPDX-License-Identifier: Apache-2.0
// Ends of ranks that others hear of too early or too late: data that comes behind them, creations that fail, ranks that
// come back. The links are within the process.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "NetWorld.h"
#include "collectives/transport/net/Frames.h"

namespace hpu::collectives {
namespace {

/// Does what it is given one after the other, each some time after the one before.
class Postman {
 public:
  explicit Postman(std::chrono::milliseconds pause) : pause_(pause), thread_([this] { run(); }) {}
  ~Postman() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  void post(std::function<void()> what) {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(what));
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(pause_);
      job();
      job = nullptr;
      lock.lock();
    }
  }
  const std::chrono::milliseconds pause_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ending_ = false;
  std::thread thread_;
};

class SlowEvents : public net::LinkEvents {
 public:
  SlowEvents(Postman& postman, std::shared_ptr<net::LinkEvents> to) : postman_(postman), to_(std::move(to)) {}
  void onFrame(std::span<const std::byte> frame) override {
    postman_.post([to = to_, bytes = std::vector<std::byte>(frame.begin(), frame.end())] { to->onFrame(bytes); });
  }
  void onWritten(uint64_t id) override {
    postman_.post([to = to_, id] { to->onWritten(id); });
  }
  void onRoom() override {
    postman_.post([to = to_] { to->onRoom(); });
  }
  void onClosed(const Status& why) override {
    postman_.post([to = to_, why] { to->onClosed(why); });
  }

 private:
  Postman& postman_;
  const std::shared_ptr<net::LinkEvents> to_;
};

class SlowLink : public net::Link {
 public:
  SlowLink(Postman& postman, std::shared_ptr<net::Link> link) : postman_(postman), link_(std::move(link)) {}
  void start(std::shared_ptr<net::LinkEvents> events) override {
    link_->start(std::make_shared<SlowEvents>(postman_, std::move(events)));
  }
  bool send(std::span<const std::byte> frame) override { return link_->send(frame); }
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const net::Window& to,
             std::span<const std::byte> frame) override {
    return link_->write(id, data, bytes, to, frame);
  }
  bool drained() override { return link_->drained(); }
  net::Window openWindow(std::byte* data, int64_t bytes) override { return link_->openWindow(data, bytes); }
  void closeWindow(const net::Window& window) override { link_->closeWindow(window); }
  void close() override { link_->close(); }
  std::string describe() const override { return link_->describe(); }

 private:
  Postman& postman_;
  const std::shared_ptr<net::Link> link_;
};

/// A network to which messages of others come slowly, and all else at once.
class SlowNetwork : public net::Network {
 public:
  SlowNetwork(Postman& postman, std::shared_ptr<net::Network> network)
      : postman_(postman), network_(std::move(network)) {}
  std::string_view name() const override { return network_->name(); }
  const Address& local() const override { return network_->local(); }
  StatusOr<std::unique_ptr<net::Door>> open(Dialled dialled, const Secret& secret) override {
    return network_->open(
        [&postman = postman_, dialled = std::move(dialled)](std::shared_ptr<net::Link> link, const std::string& hello) {
          const bool slow = net::decodeNetHello(hello).value().use == net::LinkUse::kMessages;
          dialled(slow ? std::make_shared<SlowLink>(postman, std::move(link)) : std::move(link), hello);
        },
        secret);
  }
  std::shared_ptr<net::Link> dial(const std::string& address, const std::string& hello,
                                  std::shared_ptr<net::LinkEvents> events, const base::Deadline& deadline,
                                  const Secret& secret) override {
    return network_->dial(address, hello, std::move(events), deadline, secret);
  }

 private:
  Postman& postman_;
  const std::shared_ptr<net::Network> network_;
};

TEST(NetEnds, ARankThatHasLeftIsThereUntilAllHasComeThatItHadSent) {
  // A pause is less than what a rank that left is given without data, and all of them are more than that.
  Postman postman(std::chrono::milliseconds(300));
  World world({0, 1});
  world.change = [&](NetOptions& options) {
    if (options.rank == 1) options.network = std::make_shared<SlowNetwork>(postman, options.network);
  };
  ASSERT_TRUE(world.start());
  constexpr uint64_t kMessages = 12;
  Transport& taker = *world.all[1];
  for (uint64_t i = 0; i < kMessages; ++i) {
    const auto byte = static_cast<std::byte>(i);
    ASSERT_TRUE(world.all[0]->offer(1, Lane::kCollective, &byte, 1, {}).ok());
    ASSERT_TRUE(await([&] { return world.all[0]->delivered(0); }));  // A frame of its own.
  }
  world.all[0].reset();
  ASSERT_TRUE(await([&] { return !taker.peerStatus(0).ok(); }));
  has(taker.peerStatus(0).message(), "has left");
  for (uint64_t i = 0; i < kMessages; ++i) {
    const auto message = taker.arrived(0, Lane::kCollective, i);
    ASSERT_TRUE(message) << "it has left before its message " << i << " has come";
    EXPECT_EQ(*message->data, static_cast<std::byte>(i));
    taker.release(0, Lane::kCollective);
  }
  world.all.clear();
}

TEST(NetEnds, ARankWhoseCreationFailsLetsGoOfTheLinksThatOthersHaveMadeToIt) {
  World world({0, 1, 2});
  std::atomic<bool> sent{false};
  std::weak_ptr<Transport> node;  // Of the rank that fails: as long as anything of it is there.
  world.change = [&](NetOptions& options) {
    if (options.rank != 2) return;
    node = options.node;
    options.allGather = [&, gather = options.allGather](const std::string& phase,
                                                        const std::string& mine) -> StatusOr<std::vector<std::string>> {
      auto texts = gather(phase, mine);
      if (phase != "net ready") return texts;
      EXPECT_TRUE(await([&] { return sent.load(); }));
      return unavailable("nobody knows how the others are");
    };
  };
  world.then = [&](int rank, Transport& transport) {
    if (rank != 1) return;
    const std::byte byte{};
    EXPECT_TRUE(transport.offer(2, Lane::kCollective, &byte, 1, {}).ok());
    EXPECT_TRUE(await([&] { return transport.delivered(0); }));
    sent = true;
  };
  const auto made = world.create();
  ASSERT_TRUE(made[0].ok() && made[1].ok());
  EXPECT_EQ(made[2].status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(await([&] { return node.expired(); })) << "a link keeps it";
}

TEST(NetEnds, ARankThatWasTakenForGoneAndComesBackNamesNobody) {
  World world(nine());
  world.silenceMs = 2500;
  world.neverJudge = {5};
  ASSERT_TRUE(world.start());
  world.freeze({5});
  for (int rank = 0; rank < world.ranks(); ++rank)
    if (rank != 5) {
      ASSERT_TRUE(await([&] { return world.all[static_cast<size_t>(rank)]->gone(5); })) << rank;
    }
  world.freeze({5}, false);
  // Its links are gone, as if those at their other ends were. It asks others, and is told what it is for them.
  auto othersAreWell = [&] {
    for (int rank = 0; rank < world.ranks(); ++rank)
      for (int other = 0; other < world.ranks(); ++other)
        if (rank != 5 && other != 5 && !world.all[static_cast<size_t>(rank)]->peerStatus(other).ok()) return false;
    return true;
  };
  auto knows = [&] {
    for (int rank = 0; rank < world.ranks(); ++rank)
      if (rank != 5 && !world.all[5]->gone(rank)) return false;
    return true;
  };
  ASSERT_TRUE(await([&] { return knows() || !othersAreWell(); }));
  EXPECT_TRUE(othersAreWell()) << "rank 1: " << world.all[0]->peerStatus(1).message();
  has(world.all[5]->peerStatus(8).message(), "is gone: it takes this rank for gone");
  for (int rank = 0; rank < world.ranks(); ++rank)
    if (rank != 5) {
      ASSERT_TRUE(await([&] { return world.all[static_cast<size_t>(rank)]->publish(callOf(1)); }));
    }
  for (int rank : {0, 8})
    ASSERT_TRUE(await([&] { return world.all[static_cast<size_t>(rank)]->record(1, 1).has_value(); }));
  EXPECT_TRUE(othersAreWell());
}

}  // namespace
}  // namespace hpu::collectives
