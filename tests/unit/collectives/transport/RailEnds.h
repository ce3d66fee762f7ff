// SPDX-License-Identifier: Apache-2.0
// Two ends of links over several rails within a process, for tests: their networks, and what may talk over them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "Links.h"
#include "collectives/transport/local/MemoryNetwork.h"
#include "collectives/transport/net/RailNetwork.h"

namespace hpu::collectives::net {

/// Two processes with some rails between them.
struct Pair {
  std::shared_ptr<MemoryWires> wires = MemoryWires::create();
  std::vector<std::shared_ptr<Network>> near, far;
  std::shared_ptr<Network> a, b;

  explicit Pair(int rails, const RailOptions& options = {}) {
    for (int rail = 0; rail < rails; ++rail) near.push_back(wires->join()), far.push_back(wires->join());
    a = *railNetwork(near, options);
    b = *railNetwork(far, options);
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
  explicit Linked(Pair& pair) : Linked(pair.a, pair.b) {}
  Linked(const std::shared_ptr<Network>& a, const std::shared_ptr<Network>& b) {
    Doorway door(b);
    std::string hello;
    dialled = a->dial(door.address(), "hello", dialledEvents, soon());
    taken = door.next(&hello);
    EXPECT_EQ(hello, "hello");
    taken->start(takenEvents);
    EXPECT_TRUE(dialledEvents->waitForRooms(1));
  }
};

inline bool await(const std::function<bool()>& condition) {
  for (int i = 0; i < 15000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
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
  bool waitForSome() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return closed_ || heard_ > frames_ / 4; });
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

}  // namespace hpu::collectives::net
