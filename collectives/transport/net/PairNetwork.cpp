// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/PairNetwork.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/Abandon.h"
#include "base/AtFork.h"
#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "collectives/transport/net/RoceConnection.h"
#include "collectives/transport/net/RoceWire.h"

namespace hpu::collectives::net {
namespace {

using base::strCat;

/// Before what TcpNetwork makes of a door.
std::string prefixOf(const RoceDriver& driver) {
  return strCat(driver.engine().name(), ":");
}

class PairNetwork;

class PairLink final : public Link {
 public:
  PairLink(std::shared_ptr<PairNetwork> network, std::shared_ptr<RoceConnection> connection)
      : network_(std::move(network)), connection_(std::move(connection)) {}
  ~PairLink() override { PairLink::close(); }
  void start(std::shared_ptr<LinkEvents> events) override {
    if (birthplace_.isHere()) connection_->start(std::move(events));
  }
  bool send(std::span<const std::byte> frame) override { return !birthplace_.isHere() || connection_->send(frame); }
  bool write(uint64_t id, const std::byte* data, int64_t bytes, const Window& to,
             std::span<const std::byte> frame) override {
    return !birthplace_.isHere() || connection_->write(id, data, bytes, to, frame);
  }
  bool drained() override { return !birthplace_.isHere() || connection_->drained(); }
  Window openWindow(std::byte* data, int64_t bytes) override {
    return birthplace_.isHere() ? connection_->openWindow(data, bytes) : Window{};
  }
  void closeWindow(const Window& window) override {
    if (birthplace_.isHere()) connection_->closeWindow(window);
  }
  void close() override {
    if (birthplace_.isHere()) connection_->close();
  }
  std::string describe() const override {
    return birthplace_.isHere() ? connection_->describe() : "a RoCE link of the parent process";
  }

 private:
  const base::Birthplace birthplace_;
  const std::shared_ptr<PairNetwork> network_;  // Lives as long as its links.
  const std::shared_ptr<RoceConnection> connection_;
};

class PairDoor final : public Door {
 public:
  PairDoor(std::shared_ptr<PairNetwork> network, std::shared_ptr<RoceDriver> driver,
           std::shared_ptr<RoceDoorway> doorway, std::unique_ptr<Door> tcp)
      : network_(std::move(network)),
        driver_(std::move(driver)),
        doorway_(std::move(doorway)),
        tcp_(std::move(tcp)),
        address_(strCat(prefixOf(*driver_), tcp_->address())) {}
  ~PairDoor() override {
    tcp_.reset();
    if (!birthplace_.isHere()) {
      base::abandon(doorway_);
      return;
    }
    auto lock = driver_->enter();
    doorway_->closed = true;
    driver_->waitUntilTold(lock, *doorway_);
  }
  const std::string& address() const override { return address_; }

 private:
  const base::Birthplace birthplace_;
  const std::shared_ptr<PairNetwork> network_;
  const std::shared_ptr<RoceDriver> driver_;
  std::shared_ptr<RoceDoorway> doorway_;
  std::unique_ptr<Door> tcp_;
  const std::string address_;
};

class PairNetwork final : public Network, public std::enable_shared_from_this<PairNetwork> {
 public:
  PairNetwork(std::shared_ptr<ProgressThread> thread, std::shared_ptr<Network> tcp, std::shared_ptr<RoceDriver> driver,
              const PairOptions& options)
      : thread_(std::move(thread)), tcp_(std::move(tcp)), driver_(std::move(driver)), options_(options) {}
  ~PairNetwork() override { driver_->leave(); }

  std::string_view name() const override { return driver_->engine().name(); }
  const Address& local() const override { return tcp_->local(); }

  StatusOr<std::unique_ptr<Door>> open(Dialled dialled, const Secret& secret) override {
    auto doorway = std::make_shared<RoceDoorway>();
    doorway->dialled = [weak = weak_from_this(), dialled = std::move(dialled)](
                           const std::shared_ptr<RoceConnection>& connection, const std::string& hello) {
      if (auto network = weak.lock())
        dialled(base::makeProcessOwned<PairLink>(std::move(network), connection), hello);
      else
        connection->close();
    };
    auto come = [driver = driver_, doorway, options = options_](std::shared_ptr<Link> tcp, const std::string& hello) {
      if (hello != roce_wire::tcpHello(driver->engine().name())) return;
      base::makeProcessOwned<RoceConnection>(driver, options)->offer(std::move(tcp), doorway);
    };
    HPU_ASSIGN(std::unique_ptr<Door> tcp, tcp_->open(std::move(come), secret));
    return std::make_unique<PairDoor>(shared_from_this(), driver_, std::move(doorway), std::move(tcp));
  }

  std::shared_ptr<Link> dial(const std::string& address, const std::string& hello, std::shared_ptr<LinkEvents> events,
                             const base::Deadline& deadline, const Secret& secret) override {
    auto connection = base::makeProcessOwned<RoceConnection>(driver_, options_);
    const std::string prefix = prefixOf(*driver_);
    if (!address.starts_with(prefix))
      connection->dialNobody(
          invalidArgument(strCat("an address of ", address.size(), " bytes that no door of a network '", name(),
                                 "' has: do all ranks have the same HPU_COMM_NETWORK?")),
          std::move(events));
    else if (hello.size() > kMostHelloBytes)
      connection->dialNobody(
          invalidArgument(strCat("a hello of ", hello.size(), " bytes; ", kMostHelloBytes, " are the most")),
          std::move(events));
    else
      connection->dial(*tcp_, address.substr(prefix.size()), hello, std::move(events), deadline, secret);
    return base::makeProcessOwned<PairLink>(shared_from_this(), std::move(connection));
  }

 private:
  const std::shared_ptr<ProgressThread> thread_;
  const std::shared_ptr<Network> tcp_;
  const std::shared_ptr<RoceDriver> driver_;
  const PairOptions options_;
};

// ---- Which there are ----------------------------------------------------------------------------

struct Networks {
  const uint64_t generation = base::processGeneration();
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Network>> all;

  std::mutex driversMutex;                         // Guards what follows; within the other one.
  std::vector<std::weak_ptr<RoceDriver>> drivers;  ///< A network's goes on until its links have parted.
  const std::shared_ptr<RocePast> past = std::make_shared<RocePast>();
};

/// This process's; a parent's is left as it is.
Networks& networks() {
  static Networks* instance = nullptr;
  std::lock_guard lock(base::processMutex());
  if (instance && instance->generation != base::processGeneration()) base::abandon(instance);
  if (!instance) instance = new Networks;  // Never destroyed: links may outlive statics.
  return *instance;
}

}  // namespace

StatusOr<std::shared_ptr<Network>> pairNetwork(const std::string& key,
                                               base::FunctionRef<StatusOr<std::shared_ptr<Network>>()> make) {
  Networks& own = networks();
  std::lock_guard lock(own.mutex);
  std::weak_ptr<Network>& known = own.all[key];
  if (auto network = known.lock()) return network;
  HPU_ASSIGN(std::shared_ptr<Network> network, make());
  known = network;
  return network;
}

StatusOr<std::shared_ptr<Network>> makePairNetwork(std::shared_ptr<Network> tcp, std::unique_ptr<PairEngine> engine,
                                                   const PairOptions& options) {
  HPU_ASSIGN(std::shared_ptr<ProgressThread> thread, ProgressThread::acquire());
  Networks& own = networks();
  auto driver = base::makeProcessOwned<RoceDriver>(std::move(engine), own.past);
  HPU_RETURN_IF_ERROR(driver->start(thread->progress()));
  {
    std::lock_guard lock(own.driversMutex);
    std::erase_if(own.drivers, [](const auto& one) { return one.expired(); });
    own.drivers.push_back(driver);
  }
  return std::shared_ptr<Network>(
      base::makeProcessOwned<PairNetwork>(std::move(thread), std::move(tcp), std::move(driver), options));
}

roce::Endpoint::Counters pairCounters() {
  Networks& own = networks();
  std::vector<std::shared_ptr<RoceDriver>> drivers;  // Let go without the lock.
  roce::Endpoint::Counters total;
  {
    std::lock_guard lock(own.driversMutex);
    for (const auto& one : own.drivers)
      if (auto driver = one.lock()) drivers.push_back(std::move(driver));
    std::lock_guard past(own.past->mutex);
    total = own.past->counters;
  }
  for (const auto& driver : drivers) total += driver->counters();
  return total;
}

}  // namespace hpu::collectives::net
