// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/TcpNetwork.h"

#include <sys/random.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "collectives/transport/net/ProgressThread.h"
#include "collectives/transport/net/TcpHandles.h"
#include "collectives/transport/net/TcpLink.h"
#include "collectives/transport/net/TcpListener.h"

namespace hpu::collectives::net {
namespace tcp {
namespace {

/// A forked child that was given its parent's finds it ended, and does not look at it.
class LinkHandle : public Link {
 public:
  LinkHandle(std::shared_ptr<ProgressThread> thread, std::shared_ptr<TcpLink> link)
      : thread_(std::move(thread)), link_(std::move(link)) {}
  ~LinkHandle() override { link_->close(); }

  void start(std::shared_ptr<LinkEvents> events) override {
    if (isHere()) link_->start(std::move(events));
  }
  bool send(std::span<const std::byte> frame) override { return !isHere() || link_->send(frame); }
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
             std::span<const std::byte> frame) override {
    return !isHere() || link_->write(id, data, bytes, to, frame);
  }
  bool drained() override { return !isHere() || link_->drained(); }
  Window openWindow(std::byte* data, int64_t bytes) override {
    return isHere() ? link_->openWindow(data, bytes) : Window{};
  }
  void closeWindow(const Window& window) override {
    if (isHere()) link_->closeWindow(window);
  }
  void close() override {
    if (isHere()) link_->close();
  }
  std::string describe() const override { return isHere() ? link_->describe() : "a link of a parent process"; }

 private:
  bool isHere() const { return birthplace_.isHere(); }

  const base::Birthplace birthplace_;
  const std::shared_ptr<ProgressThread> thread_;
  const std::shared_ptr<TcpLink> link_;
};

/// Of a process that ends: nobody could tell its events any more.
class NoLink : public Link {
 public:
  void start(std::shared_ptr<LinkEvents> events) override {}
  bool send(std::span<const std::byte> frame) override { return true; }
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
             std::span<const std::byte> frame) override {
    return true;
  }
  bool drained() override { return true; }
  Window openWindow(std::byte* data, int64_t bytes) override { return {}; }
  void closeWindow(const Window& window) override {}
  void close() override {}
  std::string describe() const override { return "no link"; }
};

}  // namespace

std::shared_ptr<Link> makeLinkHandle(std::shared_ptr<ProgressThread> thread, std::shared_ptr<TcpLink> link) {
  return base::makeProcessOwned<LinkHandle>(std::move(thread), std::move(link));
}

namespace {

class TcpDoor : public Door {
 public:
  /// `network` lives as long as the door.
  TcpDoor(std::shared_ptr<Network> network, std::shared_ptr<TcpListener> listener, std::shared_ptr<DoorState> state)
      : network_(std::move(network)), listener_(std::move(listener)), state_(std::move(state)) {
    address_ = encodePlace({listener_->address(), state_->number});
    listener_->addDoor(state_);
  }
  ~TcpDoor() override {
    // In a forked child nothing of it may be looked at: its locks may be held for ever.
    if (birthplace_.isHere()) {
      listener_->removeDoor(state_);
    } else {
      base::abandon(network_);
      base::abandon(listener_);
      base::abandon(state_);
    }
  }
  const std::string& address() const override { return address_; }

 private:
  const base::Birthplace birthplace_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<TcpListener> listener_;
  std::shared_ptr<DoorState> state_;
  std::string address_;
};

class TcpNetwork : public Network, public std::enable_shared_from_this<TcpNetwork> {
 public:
  TcpNetwork(std::shared_ptr<ProgressThread> thread, std::shared_ptr<TcpListener> listener, const Address& local)
      : thread_(std::move(thread)), listener_(std::move(listener)), local_(local) {}
  ~TcpNetwork() override { listener_->close(); }

  std::string_view name() const override { return "tcp"; }
  const Address& local() const override { return local_; }

  StatusOr<std::unique_ptr<Door>> open(Dialled dialled, const Secret& secret) override {
    if (!birthplace_.isHere()) return failedPrecondition("a network does not survive a fork: make one in the child");
    DoorNumber number;
    if (::getrandom(number.data(), number.size(), 0) != static_cast<ssize_t>(number.size()))
      return unavailable("cannot get random bytes: " + base::errnoText(errno));
    return std::unique_ptr<Door>(new TcpDoor(shared_from_this(), listener_,
                                             base::makeProcessOwned<DoorState>(number, secret, std::move(dialled))));
  }

  std::shared_ptr<Link> dial(const std::string& address, const std::string& hello, std::shared_ptr<LinkEvents> events,
                             const base::Deadline& deadline, const Secret& secret) override {
    auto thread = thread_;
    Status failed;
    if (!birthplace_.isHere()) {
      failed = failedPrecondition("a network does not survive a fork: make one in the child");
      auto own = ProgressThread::acquire();
      if (!own.ok()) return std::make_shared<NoLink>();
      thread = *own;
    }
    auto place = decodePlace(address);
    if (failed.ok() && !place.ok()) failed = place.status();
    if (failed.ok() && hello.size() > kMostHelloBytes)
      failed = invalidArgument(base::strCat("a hello of ", hello.size(), " bytes; at most ", kMostHelloBytes));
    const auto challenge = randomChallenge();
    if (failed.ok()) failed = challenge.status();
    auto link = base::makeProcessOwned<TcpLink>(thread->progress());
    link->dial(failed,
               {place.ok() ? *place : Place{}, hello.substr(0, kMostHelloBytes),
                challenge.ok() ? *challenge : Challenge{}, secret},
               local_, std::move(events), deadline);
    return makeLinkHandle(std::move(thread), std::move(link));
  }

 private:
  const base::Birthplace birthplace_;
  const std::shared_ptr<ProgressThread> thread_;
  const std::shared_ptr<TcpListener> listener_;
  const Address local_;
};

/// Networks of this process by their addresses; of a parent's nothing is looked at.
struct Known {
  base::Birthplace birthplace;
  Address local;
  std::weak_ptr<TcpNetwork> network;
};
std::vector<Known>& known() {
  static auto* instance = new std::vector<Known>;  // Networks may outlive statics.
  return *instance;
}

std::shared_ptr<TcpNetwork> findLocked(const Address& local) {
  std::erase_if(known(), [](const Known& one) { return !one.birthplace.isHere() || one.network.expired(); });
  for (const Known& one : known())
    if (one.local == local)
      if (auto network = one.network.lock()) return network;
  return nullptr;
}

}  // namespace
}  // namespace tcp

StatusOr<std::shared_ptr<Network>> tcpNetwork(const Address& local) {
  Address wanted = local;
  wanted.port = 0;
  {
    std::lock_guard lock(base::processMutex());
    if (auto network = tcp::findLocked(wanted)) return std::shared_ptr<Network>(std::move(network));
  }
  HPU_ASSIGN(auto thread, ProgressThread::acquire());
  HPU_ASSIGN(auto listener, tcp::TcpListener::open(thread, wanted));
  // Without the lock: what goes takes others.
  std::shared_ptr<Network> network;
  auto made = base::makeProcessOwned<tcp::TcpNetwork>(std::move(thread), std::move(listener), wanted);
  std::lock_guard lock(base::processMutex());
  if (auto other = tcp::findLocked(wanted)) {
    network = std::move(other);
  } else {
    tcp::known().push_back({{}, wanted, made});
    network = made;
  }
  return network;
}

}  // namespace hpu::collectives::net
