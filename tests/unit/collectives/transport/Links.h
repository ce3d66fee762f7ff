// SPDX-License-Identifier: Apache-2.0
// Links for tests of networks: what their events told, and two ends that know each other.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/net/TcpNetwork.h"

namespace hpu::collectives::net {

inline base::Deadline soon(int64_t ms = 30000) {
  return base::Deadline::afterMs(ms);
}
inline std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string textOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Address loopback(bool v6 = false) {
  Address address;
  address.v6 = v6;
  if (v6)
    address.ip[15] = 1;
  else
    address.ip[0] = 127, address.ip[3] = 1;
  return address;
}

/// Remembers what it was told.
class Recorder : public LinkEvents {
 public:
  void onFrame(std::span<const std::byte> frame) override {
    if (frameHook) frameHook(frame);
    change([&] { frames_.push_back(textOf(frame)); });
  }
  void onWritten(uint64_t id) override {
    change([&] { written_.push_back(id); });
  }
  void onRoom() override {
    change([&] { ++rooms_; });
  }
  void onClosed(const Status& why) override {
    change([&] {
      EXPECT_FALSE(closed_.has_value()) << "told twice of its end";
      closed_ = why;
    });
    if (closedHook) closedHook();
  }

  bool waitFor(const std::function<bool()>& what) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), what);
  }
  bool waitForFrames(size_t count) {
    return waitFor([&] { return frames_.size() >= count || closed_; }) && frames().size() >= count;
  }
  bool waitForWritten(size_t count) {
    return waitFor([&] { return written_.size() >= count || closed_; }) && written().size() >= count;
  }
  bool waitForRooms(int count) {
    return waitFor([&] { return rooms_ >= count || closed_; }) && rooms() >= count;
  }
  /// Of an end that does not come: ok.
  Status waitForClosed() {
    if (!waitFor([&] { return closed_.has_value(); })) return okStatus();
    std::lock_guard lock(mutex_);
    return *closed_;
  }
  std::vector<std::string> frames() { return locked(frames_); }
  std::vector<uint64_t> written() { return locked(written_); }
  int rooms() { return locked(rooms_); }
  bool closed() { return locked(closed_).has_value(); }

  std::function<void(std::span<const std::byte>)> frameHook;  ///< Set before the link has it.
  std::function<void()> closedHook;

 private:
  template <typename Change>
  void change(Change what) {
    std::lock_guard lock(mutex_);
    what();
    changed_.notify_all();
  }
  template <typename T>
  T locked(const T& value) {
    std::lock_guard lock(mutex_);
    return value;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> frames_;
  std::vector<uint64_t> written_;
  int rooms_ = 0;
  std::optional<Status> closed_;
};

/// A door that keeps the links which come.
class Doorway {
 public:
  explicit Doorway(std::shared_ptr<Network> network, const Secret& secret = {}) {
    auto dialled = [this](std::shared_ptr<Link> link, const std::string& hello) {
      std::lock_guard lock(mutex_);
      links_.push_back(std::move(link));
      hellos_.push_back(hello);
      changed_.notify_all();
    };
    auto opened = network->open(std::move(dialled), secret);
    EXPECT_TRUE(opened.ok()) << opened.status().toString();
    if (opened.ok()) door_ = std::move(*opened);
  }
  const std::string& address() const { return door_->address(); }
  /// Null: nobody came.
  std::shared_ptr<Link> next(std::string* hello = nullptr) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(30), [&] { return !links_.empty(); })) return nullptr;
    auto link = std::move(links_.front());
    if (hello) *hello = hellos_.front();
    links_.erase(links_.begin());
    hellos_.erase(hellos_.begin());
    return link;
  }
  size_t waiting() {
    std::lock_guard lock(mutex_);
    return links_.size();
  }
  void shut() { door_ = nullptr; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Link>> links_;
  std::vector<std::string> hellos_;
  std::unique_ptr<Door> door_;
};

/// Two ends of a link that is up.
struct Ends {
  std::shared_ptr<Recorder> dialledEvents = std::make_shared<Recorder>(), takenEvents = std::make_shared<Recorder>();
  std::shared_ptr<Link> dialled, taken;

  explicit Ends(const std::shared_ptr<Network>& network) {
    Doorway door(network);
    dialled = network->dial(door.address(), "hello", dialledEvents, soon());
    taken = door.next();
    EXPECT_NE(taken, nullptr);
    if (!taken) return;
    taken->start(takenEvents);
    EXPECT_TRUE(dialledEvents->waitForRooms(1));
  }
};

/// Again when there is room.
inline void sendAll(Link& link, Recorder& events, std::string_view frame) {
  for (int rooms = events.rooms(); !link.send(bytesOf(frame)) && events.waitForRooms(rooms + 1);)
    rooms = events.rooms();
}
inline std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    data[i] = static_cast<std::byte>(seed >> 56);
  }
  return data;
}

}  // namespace hpu::collectives::net
