// SPDX-License-Identifier: Apache-2.0
// What links over several rails say to each other when somebody waits: counted, with a thread that never looks around.
#include "collectives/transport/net/Rails.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "RailEnds.h"
#include "collectives/transport/net/RailWire.h"

namespace hpu::collectives::net {
namespace {

/// Of networks in which nobody looks around while a test runs.
constexpr std::chrono::minutes kNoTick{30};

/// A network that counts the words which asked for an answer, and those that were said, at ends that were dialled.
class Counting : public Network {
 public:
  explicit Counting(std::shared_ptr<Network> network) : network_(std::move(network)) {}
  std::string_view name() const override { return network_->name(); }
  const Address& local() const override { return network_->local(); }
  StatusOr<std::unique_ptr<Door>> open(Dialled dialled, const Secret& secret) override {
    auto come = [words = words_, dialled = std::move(dialled)](std::shared_ptr<Link> link, const std::string& hello) {
      dialled(std::make_shared<Counted>(words, std::move(link)), hello);
    };
    return network_->open(std::move(come), secret);
  }
  std::shared_ptr<Link> dial(const std::string& address, const std::string& hello, std::shared_ptr<LinkEvents> events,
                             const base::Deadline& deadline, const Secret& secret) override {
    return network_->dial(address, hello, std::move(events), deadline, secret);
  }
  int asked() const { return words_->asked; }  ///< The peer has; the link knows it.
  int heard() const { return words_->heard; }
  int said() const { return words_->said; }

 private:
  struct Words {
    std::atomic<int> asked{0}, heard{0}, said{0};
  };
  struct Told : public LinkEvents {
    Told(std::shared_ptr<Words> words, std::shared_ptr<LinkEvents> events)
        : words(std::move(words)), to(std::move(events)) {}
    void onFrame(std::span<const std::byte> frame) override {
      const auto what = rails::decode(frame);
      to->onFrame(frame);
      if (!what.ok() || what->kind != rails::Frame::Kind::kBeat) return;
      ++words->heard;
      if (what->wantsAck) ++words->asked;
    }
    void onWritten(uint64_t id) override { to->onWritten(id); }
    void onRoom() override { to->onRoom(); }
    void onClosed(const Status& why) override { to->onClosed(why); }
    const std::shared_ptr<Words> words;
    const std::shared_ptr<LinkEvents> to;
  };
  class Counted : public Link {
   public:
    Counted(std::shared_ptr<Words> words, std::shared_ptr<Link> link)
        : words_(std::move(words)), link_(std::move(link)) {}
    void start(std::shared_ptr<LinkEvents> events) override {
      link_->start(std::make_shared<Told>(words_, std::move(events)));
    }
    bool send(std::span<const std::byte> frame) override {
      const auto what = rails::decode(frame);
      const int words = what.ok() && what->kind == rails::Frame::Kind::kBeat ? 1 : 0;
      words_->said += words;  // Before the other end has it.
      if (link_->send(frame)) return true;
      words_->said -= words;
      return false;
    }
    bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
               std::span<const std::byte> frame) override {
      return link_->write(id, data, bytes, to, frame);
    }
    bool drained() override { return link_->drained(); }
    Window openWindow(std::byte* data, int64_t bytes) override { return link_->openWindow(data, bytes); }
    void closeWindow(const Window& window) override { link_->closeWindow(window); }
    void close() override { link_->close(); }
    std::string describe() const override { return link_->describe(); }

   private:
    const std::shared_ptr<Words> words_;
    const std::shared_ptr<Link> link_;
  };
  const std::shared_ptr<Network> network_;
  const std::shared_ptr<Words> words_ = std::make_shared<Words>();
};

/// Two processes, and what is said over the first rail.
struct CountedPair {
  std::shared_ptr<MemoryWires> wires = MemoryWires::create();
  std::shared_ptr<Counting> words = std::make_shared<Counting>(wires->join());
  std::shared_ptr<Network> a = *railNetwork({wires->join(), wires->join()}, {.tick = kNoTick});
  std::shared_ptr<Network> b = *railNetwork({words, wires->join()}, {.tick = kNoTick});
};

TEST(Rails, WhoAsksBeforeTheOwnerWasToldIsAnsweredOnceWhenHeWas) {
  CountedPair pair;
  Doorway door(pair.b);
  auto dialledEvents = std::make_shared<Recorder>(), takenEvents = std::make_shared<Recorder>();
  std::mutex mutex;
  std::condition_variable changed;
  int told = 0, allowed = 0;  // Frames that the owner hears, and that he may be done with.
  takenEvents->frameHook = [&](std::span<const std::byte>) {
    std::unique_lock lock(mutex);
    ++told;
    changed.notify_all();
    changed.wait(lock, [&] { return told <= allowed; });
  };
  auto dialled = pair.a->dial(door.address(), "hello", dialledEvents, soon());
  auto taken = door.next();
  ASSERT_NE(taken, nullptr);
  taken->start(takenEvents);
  ASSERT_TRUE(dialledEvents->waitForRooms(1));
  for (int round = 1; round <= 100; ++round) {
    sendAll(*dialled, *dialledEvents, "one");
    {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return told == round; }));
    }
    const int rooms = dialledEvents->rooms();
    EXPECT_FALSE(dialled->drained());
    EXPECT_FALSE(dialled->drained()) << "asks once";
    EXPECT_TRUE(await([&] { return pair.words->asked() == round; }));
    EXPECT_EQ(pair.words->said(), round - 1) << "an answer that says nothing new";
    {
      std::lock_guard lock(mutex);
      allowed = round;
      changed.notify_all();
    }
    ASSERT_TRUE(dialledEvents->waitForRooms(rooms + 1)) << "round " << round;
    ASSERT_TRUE(dialled->drained());
    ASSERT_EQ(pair.words->said(), round);
    ASSERT_EQ(pair.words->asked(), round);
  }
}

TEST(Rails, ADrainTakesAWordAndAnAnswer) {
  constexpr int kRounds = 300;
  CountedPair pair;
  Linked link(pair.a, pair.b);
  auto drain = [](Link& link, Recorder& events) {
    for (int round = 0; round < kRounds; ++round) {
      for (int frame = 0; frame <= round % 20; ++frame) sendAll(link, events, "frame");
      for (int rooms = events.rooms(); !link.drained(); rooms = events.rooms())
        if (!events.waitForRooms(rooms + 1)) return round;
    }
    return kRounds;
  };
  auto other = std::async(std::launch::async, [&] { return drain(*link.taken, *link.takenEvents); });
  EXPECT_EQ(drain(*link.dialled, *link.dialledEvents), kRounds);
  EXPECT_EQ(other.get(), kRounds);
  // Its own, an answer to each of the other end's, one where the last frame had to wait, and one for every 16 frames.
  EXPECT_LE(pair.words->asked(), kRounds);
  EXPECT_LE(pair.words->heard(), 4 * kRounds);
  EXPECT_LE(pair.words->said(), 4 * kRounds);
}

TEST(Rails, OnlyWhatTimeTellsWaitsForTheThreadToLookAround) {
  for (bool isCut : {false, true}) {
    Pair pair(2, {.tick = kNoTick});
    auto one = std::make_shared<Talker>(1, 2, 400, 40), two = std::make_shared<Talker>(2, 1, 400, 40);
    Doorway door(pair.b);
    auto dialled = pair.a->dial(door.address(), "", one, soon());
    auto taken = door.next();
    ASSERT_NE(taken, nullptr);
    taken->start(two);
    std::thread first([&] { one->talk(*dialled); }), second([&] { two->talk(*taken); });
    if (isCut) {
      EXPECT_TRUE(one->waitForSome());
      pair.cut(0);
    }
    first.join();
    second.join();
    EXPECT_TRUE(one->waitForAll());
    EXPECT_TRUE(two->waitForAll());
    one->mayClose();
    two->mayClose();
    dialled->close();
    taken->close();
  }
}

TEST(Rails, ANetworkEndsWhenItsLastLinkHasSaidWhatItHadTo) {
  Pair pair(2, {.tick = kNoTick});
  Linked link(pair.a, pair.b);
  pair.hold(0, true);
  sendAll(*link.dialled, *link.dialledEvents, "last");
  link.dialled->close();
  link.dialled = nullptr;
  auto ended = std::make_shared<std::promise<void>>();
  auto end = ended->get_future();
  // Not waited for when it does not end.
  std::thread([ended, network = std::move(pair.a)]() mutable {
    network = nullptr;
    ended->set_value();
  }).detach();
  pair.hold(0, false);
  ASSERT_EQ(end.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(link.takenEvents->waitForClosed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(link.takenEvents->frames(), std::vector<std::string>{"last"});
}

}  // namespace
}  // namespace hpu::collectives::net
