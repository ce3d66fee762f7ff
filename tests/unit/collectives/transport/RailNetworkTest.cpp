// SPDX-License-Identifier: Apache-2.0
// Links over several rails, whose connections are cut, silent and healed.
#include "collectives/transport/net/RailNetwork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "Links.h"
#include "collectives/transport/local/MemoryNetwork.h"

namespace hpu::collectives::net {
namespace {

/// Two processes with some rails between them.
struct Pair {
  std::shared_ptr<MemoryWires> wires = MemoryWires::create();
  std::vector<std::shared_ptr<Network>> near, far;
  std::shared_ptr<Network> a, b;

  explicit Pair(int rails) {
    for (int rail = 0; rail < rails; ++rail) near.push_back(wires->join()), far.push_back(wires->join());
    a = *railNetwork(near);
    b = *railNetwork(far);
  }
  void cut(size_t rail) { wires->cut(*near[rail], *far[rail]); }
  void heal(size_t rail) { wires->heal(*near[rail], *far[rail]); }
  void hold(size_t rail, bool held) {
    wires->hold(*near[rail], held);
    wires->hold(*far[rail], held);
  }
};

/// A link between the two.
struct Linked {
  std::shared_ptr<Recorder> dialledEvents = std::make_shared<Recorder>(), takenEvents = std::make_shared<Recorder>();
  std::shared_ptr<Link> dialled, taken;
  explicit Linked(Pair& pair) {
    Doorway door(pair.b);
    std::string hello;
    dialled = pair.a->dial(door.address(), "hello", dialledEvents, soon());
    taken = door.next(&hello);
    EXPECT_EQ(hello, "hello");
    taken->start(takenEvents);
    EXPECT_TRUE(dialledEvents->waitForRooms(1));
  }
};

bool await(const std::function<bool()>& condition) {
  for (int i = 0; i < 15000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

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
    std::lock_guard lock(mutex_);
    return last_ && last_->up;
  }
  void end(const Status& why) {
    std::shared_ptr<Told> told;
    {
      std::lock_guard lock(mutex_);
      told = last_;
    }
    if (!told->over.exchange(true)) told->to->onClosed(why);
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
  const std::shared_ptr<Network> network_;
  std::mutex mutex_;
  std::shared_ptr<Told> last_;
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

/// One end: numbered frames, and writes into windows that the other end tells of; all is checked where it comes.
class Talker : public LinkEvents {
 public:
  static constexpr size_t kBytes = 100'000;

  Talker(uint64_t seed, uint64_t other, int frames, int writes)
      : seed_(seed), other_(other), frames_(frames), writes_(writes) {
    places_.assign(static_cast<size_t>(writes), std::vector<std::byte>(kBytes));
    sources_.resize(static_cast<size_t>(writes));
  }
  void onFrame(std::span<const std::byte> frame) override {
    std::lock_guard lock(mutex_);
    const std::string text = textOf(frame);
    if (text[0] == 'n') {
      EXPECT_EQ(text.substr(1, text.find(' ') - 1), std::to_string(heard_)) << "a frame out of order";
      EXPECT_EQ(text, numbered(other_, heard_));
      ++heard_;
    } else if (text[0] == 'w') {
      Window window;
      std::memcpy(&window.address, text.data() + 1, 8);
      std::memcpy(&window.key, text.data() + 9, 4);
      given_.push_back(window);
    } else {
      const auto number = static_cast<size_t>(std::stoi(text.substr(1)));
      EXPECT_EQ(number, arrived_) << "a write out of order";
      EXPECT_EQ(places_[number], pattern(kBytes, other_ * 1000 + number)) << number;
      // It is this end's own again.
      std::fill(places_[number].begin(), places_[number].end(), std::byte{0});
      ++arrived_;
    }
    changed_.notify_all();
  }
  void onWritten(uint64_t id) override {
    std::lock_guard lock(mutex_);
    std::vector<std::byte>& source = sources_[id];
    EXPECT_FALSE(source.empty()) << "told twice of write " << id;
    std::fill(source.begin(), source.end(), std::byte{0xEE});
    source.clear();
    source.shrink_to_fit();
    ++written_;
    changed_.notify_all();
  }
  void onRoom() override {
    std::lock_guard lock(mutex_);
    ++rooms_;
    changed_.notify_all();
  }
  void onClosed(const Status& why) override {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(mayClose_) << "closed: " << why.message();
    closed_ = true;
    changed_.notify_all();
  }

  void talk(Link& link) {
    std::mt19937_64 random(seed_);
    size_t windows = 0, wrote = 0;
    for (int number = 0; number < frames_ || windows < places_.size() || wrote < places_.size();) {
      const uint64_t what = random() % 3;
      if (what == 0 && number < frames_) {
        if (!until([&] { return link.send(bytesOf(numbered(seed_, number))); })) return;
        ++number;
      } else if (what == 1 && windows < places_.size()) {
        const Window window = link.openWindow(places_[windows].data(), kBytes);
        std::string text = "w";
        text.append(reinterpret_cast<const char*>(&window.address), 8);
        text.append(reinterpret_cast<const char*>(&window.key), 4);
        if (!until([&] { return link.send(bytesOf(text)); })) return;
        ++windows;
      } else if (wrote < places_.size()) {
        Window window;
        const std::byte* data;
        {
          std::unique_lock lock(mutex_);
          if (number == frames_ && windows == places_.size())
            changed_.wait_for(lock, std::chrono::seconds(30), [&] { return given_.size() > wrote || closed_; });
          if (given_.size() <= wrote) continue;
          window = given_[wrote];
          sources_[wrote] = pattern(kBytes, seed_ * 1000 + wrote);
          data = sources_[wrote].data();
        }
        const std::string behind = "d" + std::to_string(wrote);
        if (!until([&] { return link.write(wrote, data, kBytes, window, bytesOf(behind)); })) return;
        ++wrote;
      }
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 8));
    }
  }
  /// From now on the other end may close the link.
  void mayClose() {
    std::lock_guard lock(mutex_);
    mayClose_ = true;
  }
  bool waitForAll() {
    std::unique_lock lock(mutex_);
    const bool all = changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      return closed_ || (heard_ == frames_ && arrived_ == places_.size() && written_ == writes_);
    });
    EXPECT_TRUE(all && !closed_) << heard_ << " frames, " << arrived_ << " writes, " << written_ << " told of";
    for (const auto& place : places_)
      EXPECT_TRUE(std::all_of(place.begin(), place.end(), [](std::byte b) { return b == std::byte{0}; }))
          << "written when it was closed";
    return all;
  }

 private:
  static std::string numbered(uint64_t seed, int number) {
    const size_t size = (seed * 7919 + static_cast<uint64_t>(number) * 104729) % 3000;
    return "n" + std::to_string(number) + " " + std::string(number % 50 == 0 ? kMostFrameBytes - 20 : size, 'p');
  }
  bool until(const std::function<bool()>& what) {
    for (;;) {
      int rooms;
      {
        std::lock_guard lock(mutex_);
        if (closed_) return false;
        rooms = rooms_;
      }
      if (what()) return true;
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return rooms_ > rooms || closed_; })) {
        ADD_FAILURE() << "no room for a minute";
        return false;
      }
    }
  }

  const uint64_t seed_, other_;
  const int frames_, writes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int heard_ = 0, written_ = 0, rooms_ = 0;
  size_t arrived_ = 0;
  bool closed_ = false, mayClose_ = false;
  std::vector<std::vector<std::byte>> places_, sources_;
  std::deque<Window> given_;
};

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
