// SPDX-License-Identifier: Apache-2.0
// Links over several rails, whose connections are cut, silent and healed.
#include "collectives/transport/net/RailNetwork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "RailEnds.h"

namespace hpu::collectives::net {
namespace {

TEST(RailNetwork, CarriesFramesOfAllSizesAndWritesOfManyPieces) {
  Pair pair(2);
  Linked link(pair);
  const std::string largest(kMostFrameBytes, 'x');
  sendAll(*link.dialled, *link.dialledEvents, "");
  sendAll(*link.dialled, *link.dialledEvents, largest);
  sendAll(*link.taken, *link.takenEvents, "back");
  ASSERT_TRUE(link.takenEvents->waitForFrames(2));
  EXPECT_EQ(link.takenEvents->frames(), (std::vector<std::string>{"", largest}));
  const auto data = pattern((size_t{9} << 20) + 5, 1);
  std::vector<std::byte> place(data.size() + 100);
  const Window window = link.taken->openWindow(place.data(), static_cast<int64_t>(place.size()));
  ASSERT_TRUE(link.dialled->write(7, data.data(), static_cast<int64_t>(data.size()), window, bytesOf(largest)));
  ASSERT_TRUE(link.takenEvents->waitForFrames(3));
  EXPECT_EQ(link.takenEvents->frames()[2], largest);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), place.begin()));
  ASSERT_TRUE(link.dialledEvents->waitForWritten(1));
  ASSERT_TRUE(await([&] { return link.dialled->drained(); }));
  EXPECT_EQ(link.dialledEvents->written(), std::vector<uint64_t>{7});
  // One that was closed: the frame comes, and nothing is written.
  const Window closed = link.taken->openWindow(place.data(), 100);
  link.taken->closeWindow(closed);
  const std::byte before = place[0];
  const std::vector<std::byte> other(100, before ^ std::byte{1});
  ASSERT_TRUE(link.dialled->write(8, other.data(), 100, closed, bytesOf("late")));
  ASSERT_TRUE(link.takenEvents->waitForFrames(4));
  EXPECT_EQ(place[0], before);
  ASSERT_TRUE(link.dialledEvents->waitForWritten(2));
  link.dialled->close();
  EXPECT_EQ(link.takenEvents->waitForClosed().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(link.dialledEvents->closed());
}

TEST(RailNetwork, AWriteThatIsLargerThanItsWindowEndsTheLink) {
  Pair pair(2);
  Linked link(pair);
  std::vector<std::byte> place(100), data(101);
  const Window window = link.taken->openWindow(place.data(), 100);
  ASSERT_TRUE(link.dialled->write(1, data.data(), 101, window, bytesOf("too much")));
  EXPECT_EQ(link.takenEvents->waitForClosed().code(), StatusCode::kInvalidArgument);
}

TEST(RailNetwork, ADeadRailIsLeftAndTakenAgainWhenItIsBack) {
  Pair pair(2);
  Linked link(pair);
  EXPECT_NE(link.dialled->describe().find("rail 0"), std::string::npos);
  pair.cut(0);
  sendAll(*link.dialled, *link.dialledEvents, "one");
  sendAll(*link.taken, *link.takenEvents, "two");
  ASSERT_TRUE(link.takenEvents->waitForFrames(1));
  ASSERT_TRUE(link.dialledEvents->waitForFrames(1));
  EXPECT_NE(link.dialled->describe().find("rail 1"), std::string::npos);
  pair.heal(0);
  EXPECT_TRUE(await([&] { return link.dialled->describe().find("rail 0") != std::string::npos; }));
  sendAll(*link.dialled, *link.dialledEvents, "three");
  ASSERT_TRUE(link.takenEvents->waitForFrames(2));
  EXPECT_FALSE(link.dialledEvents->closed() || link.takenEvents->closed());
}

TEST(RailNetwork, ASilentRailIsLeftWhenAnotherOneIsUp) {
  Pair pair(2);
  Linked link(pair);
  pair.hold(0, true);
  sendAll(*link.dialled, *link.dialledEvents, "one");
  ASSERT_TRUE(link.takenEvents->waitForFrames(1));
  pair.hold(0, false);
  sendAll(*link.taken, *link.takenEvents, "two");
  ASSERT_TRUE(link.dialledEvents->waitForFrames(1));
  EXPECT_FALSE(link.dialledEvents->closed() || link.takenEvents->closed());
}

/// A network over which the test can end a link, as if the peer had done there what it may not.
class Doubtful : public Network {
 public:
  explicit Doubtful(std::shared_ptr<Network> network) : network_(std::move(network)) {}
  std::string_view name() const override { return network_->name(); }
  const Address& local() const override { return network_->local(); }
  StatusOr<std::unique_ptr<Door>> open(Dialled dialled, const Secret& secret) override {
    return network_->open(std::move(dialled), secret);
  }
  std::shared_ptr<Link> dial(const std::string& address, const std::string& hello, std::shared_ptr<LinkEvents> events,
                             const base::Deadline& deadline, const Secret& secret) override {
    auto told = std::make_shared<Told>(std::move(events));
    {
      std::lock_guard lock(mutex_);
      last_ = told;
      ++dials_;
    }
    return network_->dial(address, hello, std::move(told), deadline, secret);
  }
  int dials() {
    std::lock_guard lock(mutex_);
    return dials_;
  }
  /// The last one that was dialled.
  bool isUp() {
    const auto told = last();
    return told && told->up;
  }
  void end(const Status& why) {
    const auto told = last();
    if (told && !told->over.exchange(true)) told->to->onClosed(why);
  }

 private:
  struct Told : public LinkEvents {
    explicit Told(std::shared_ptr<LinkEvents> events) : to(std::move(events)) {}
    void onFrame(std::span<const std::byte> frame) override {
      if (!over) to->onFrame(frame);
    }
    void onWritten(uint64_t id) override {
      if (!over) to->onWritten(id);
    }
    void onRoom() override {
      if (!over) to->onRoom();
      up = true;
    }
    void onClosed(const Status& why) override {
      if (!over.exchange(true)) to->onClosed(why);
    }
    const std::shared_ptr<LinkEvents> to;
    std::atomic<bool> up{false}, over{false};
  };
  std::shared_ptr<Told> last() {
    std::lock_guard lock(mutex_);
    return last_.lock();
  }
  const std::shared_ptr<Network> network_;
  std::mutex mutex_;
  std::weak_ptr<Told> last_;  ///< Its rail's link holds this network.
  int dials_ = 0;
};

TEST(RailNetwork, ARailThatNothingGoesOverIsLostWhenItIsRefusedAndNotTheLink) {
  auto wires = MemoryWires::create();
  // Either end may dial it.
  const auto one = std::make_shared<Doubtful>(wires->join()), other = std::make_shared<Doubtful>(wires->join());
  const std::vector<std::shared_ptr<Network>> near{wires->join(), one}, far{wires->join(), other};
  auto a = *railNetwork(near), b = *railNetwork(far);
  Doorway door(b);
  auto dialledEvents = std::make_shared<Recorder>(), takenEvents = std::make_shared<Recorder>();
  auto dialled = a->dial(door.address(), "hello", dialledEvents, soon());
  auto taken = door.next();
  ASSERT_NE(taken, nullptr);
  taken->start(takenEvents);
  // One rail is left and taken again; what was made over the other one stays.
  wires->cut(*near[0], *far[0]);
  ASSERT_TRUE(await([&] { return one->isUp() || other->isUp(); }));
  sendAll(*dialled, *dialledEvents, "one");
  sendAll(*taken, *takenEvents, "two");
  ASSERT_TRUE(takenEvents->waitForFrames(1) && dialledEvents->waitForFrames(1));
  wires->heal(*near[0], *far[0]);
  for (const auto& link : {dialled, taken})
    ASSERT_TRUE(await([&] { return link->describe().find("rail 0") != std::string::npos; }));
  sendAll(*dialled, *dialledEvents, "three");
  sendAll(*taken, *takenEvents, "four");
  ASSERT_TRUE(takenEvents->waitForFrames(2) && dialledEvents->waitForFrames(2));
  const int before = one->dials() + other->dials();
  for (const auto& rail : {one, other})
    if (rail->isUp()) rail->end(invalidArgument("the peer wrote where it may not"));
  // It is tried again, and the link goes on meanwhile.
  ASSERT_TRUE(await([&] { return one->dials() + other->dials() > before || dialledEvents->closed(); }));
  sendAll(*dialled, *dialledEvents, "five");
  sendAll(*taken, *takenEvents, "six");
  EXPECT_TRUE(takenEvents->waitForFrames(3) && dialledEvents->waitForFrames(3));
  EXPECT_FALSE(dialledEvents->closed() || takenEvents->closed());
  dialled->close();
  taken->close();
}

TEST(RailNetwork, ALinkEndsOnceWhenNoRailReachesThePeer) {
  for (bool ends : {false, true}) {
    Pair pair(2);
    Linked link(pair);
    sendAll(*link.dialled, *link.dialledEvents, "one");
    ASSERT_TRUE(link.takenEvents->waitForFrames(1));
    for (size_t rail = 0; rail < 2; ++rail) {
      if (ends)
        pair.wires->kill(*pair.far[rail]);
      else
        pair.cut(rail);
    }
    EXPECT_EQ(link.dialledEvents->waitForClosed().code(), StatusCode::kUnavailable);
    if (!ends) {
      EXPECT_EQ(link.takenEvents->waitForClosed().code(), StatusCode::kUnavailable);
    }
  }
}

TEST(RailNetwork, WhoIsNotWantedOrNotThereIsToldSo) {
  Pair pair(2);
  Doorway door(pair.b);
  auto events = std::make_shared<Recorder>();
  auto link = pair.a->dial(door.address(), "hello", events, soon());
  door.next().reset();
  EXPECT_EQ(events->waitForClosed().code(), StatusCode::kAborted);
  const std::string address = door.address();
  door.shut();
  auto later = std::make_shared<Recorder>();
  auto none = pair.a->dial(address, "hello", later, soon());
  EXPECT_EQ(later->waitForClosed().code(), StatusCode::kUnavailable);
  auto bad = std::make_shared<Recorder>();
  auto nothing = pair.a->dial("elsewhere", "hello", bad, soon());
  EXPECT_EQ(bad->waitForClosed().code(), StatusCode::kInvalidArgument);
}

TEST(RailNetwork, ARailThatIsDownFromTheBeginningOrMissingAtOneEndIsNotNeeded) {
  Pair pair(2);
  pair.cut(0);
  Linked link(pair);
  sendAll(*link.dialled, *link.dialledEvents, "one");
  ASSERT_TRUE(link.takenEvents->waitForFrames(1));
  auto only = *railNetwork({pair.wires->join()});
  Doorway door(only);
  for (int i = 0; i < 2; ++i) {
    auto events = std::make_shared<Recorder>();
    auto dialled = pair.a->dial(door.address(), "hello", events, soon());
    auto taken = door.next();
    ASSERT_NE(taken, nullptr);
    taken->start(std::make_shared<Recorder>());
    EXPECT_TRUE(events->waitForRooms(1));
  }
}

void talkWhileRailsFail(uint64_t seed, bool silence) {
  SCOPED_TRACE(seed);
  Pair pair(seed % 2 ? 3 : 2);
  const int frames = 400, writes = 40;
  auto one = std::make_shared<Talker>(seed + 1, seed + 2, frames, writes),
       two = std::make_shared<Talker>(seed + 2, seed + 1, frames, writes);
  Doorway door(pair.b);
  auto dialled = pair.a->dial(door.address(), "", one, soon());
  auto taken = door.next();
  ASSERT_NE(taken, nullptr);
  taken->start(two);
  std::atomic<bool> over{false};
  std::thread first([&] { one->talk(*dialled); }), second([&] { two->talk(*taken); });
  std::thread chaos([&] {
    std::mt19937_64 random(seed);
    for (int round = 0; !over; ++round) {
      const size_t rail = random() % pair.near.size();
      const auto pause = [&](uint64_t most) {
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % most));
      };
      if (silence) {
        pair.hold(rail, true);
        std::this_thread::sleep_for(std::chrono::milliseconds(1300));
        pair.hold(rail, false);
        pause(300);
      } else {
        pair.cut(rail);
        pause(40);
        pair.heal(rail);
        pause(round % 8 == 0 ? 600 : 30);
      }
    }
  });
  first.join();
  second.join();
  EXPECT_TRUE(one->waitForAll());
  EXPECT_TRUE(two->waitForAll());
  over = true;
  chaos.join();
  one->mayClose();
  two->mayClose();
  dialled->close();
  taken->close();
}

TEST(RailNetwork, EverythingComesOnceAndInOrderWhileRailsAreCutAndHealed) {
  const char* rounds = std::getenv("RAILS_ROUNDS");  // More of them, by hand.
  for (uint64_t seed = 1; seed <= (rounds ? std::stoull(rounds) : 4); ++seed) talkWhileRailsFail(seed, false);
}

TEST(RailNetwork, EverythingComesOnceAndInOrderWhileRailsFallSilent) {
  talkWhileRailsFail(100, true);
}

TEST(RailNetwork, CarriesDataOverTwoAddressesOfTcp) {
  Address other = loopback();
  other.ip[3] = 2;
  auto network = railNetwork({*tcpNetwork(loopback()), *tcpNetwork(other)});
  ASSERT_TRUE(network.ok()) << network.status().message();
  EXPECT_EQ((*network)->name(), "tcp");
  const auto data = pattern(size_t{20} << 20, 3);
  std::vector<std::byte> place(data.size());
  for (int i = 0; i < 2; ++i) {
    Ends ends(*network);
    EXPECT_NE(ends.dialled->describe().find(i == 0 ? "127.0.0.1" : "127.0.0.2"), std::string::npos)
        << ends.dialled->describe();
    const Window window = ends.taken->openWindow(place.data(), static_cast<int64_t>(place.size()));
    sendAll(*ends.taken, *ends.takenEvents, "window");
    ASSERT_TRUE(ends.dialledEvents->waitForFrames(1));
    ASSERT_TRUE(ends.dialled->write(1, data.data(), static_cast<int64_t>(data.size()), window, bytesOf("there")));
    ASSERT_TRUE(ends.takenEvents->waitForFrames(1));
    EXPECT_EQ(data, place);
    ends.taken->close();
    EXPECT_EQ(ends.dialledEvents->waitForClosed().code(), StatusCode::kUnavailable);
    std::fill(place.begin(), place.end(), std::byte{0});
  }
}

}  // namespace
}  // namespace hpu::collectives::net
