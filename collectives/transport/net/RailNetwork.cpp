// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/net/RailNetwork.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/Abandon.h"
#include "base/Format.h"
#include "base/ProcessOwned.h"
#include "base/StatusMacros.h"
#include "collectives/transport/net/RailLink.h"
#include "collectives/transport/net/RailWire.h"
#include "collectives/transport/net/Rails.h"

namespace hpu::collectives::net {
namespace rails {
namespace {

static_assert(kMostNetworkRails == kMostRails);

/// Keeps the network. In a forked child it does nothing.
class LinkHandle final : public Link {
 public:
  LinkHandle(std::shared_ptr<Network> network, std::shared_ptr<RailLink> link)
      : network_(std::move(network)), link_(std::move(link)) {}
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
  const std::shared_ptr<Network> network_;
  const std::shared_ptr<RailLink> link_;
};

/// The doors of a network, one a rail.
StatusOr<std::vector<std::unique_ptr<Door>>> openDoors(const std::shared_ptr<Rails>& rails,
                                                       const std::shared_ptr<DoorState>& state, const Secret& secret) {
  std::vector<std::unique_ptr<Door>> doors;
  for (size_t i = 0; i < rails->size(); ++i) {
    const int rail = static_cast<int>(i);
    auto come = [weak = std::weak_ptr<Rails>(rails), state, rail](std::shared_ptr<Link> link,
                                                                  const std::string& hello) {
      if (auto rails = weak.lock()) rails->dialled(rail, state, std::move(link), hello);
    };
    HPU_ASSIGN(std::unique_ptr<Door> door, rails->network(rail).open(std::move(come), secret));
    doors.push_back(std::move(door));
  }
  return doors;
}

std::vector<std::string> addressesOf(const std::vector<std::unique_ptr<Door>>& doors) {
  std::vector<std::string> addresses;
  for (const auto& door : doors) addresses.push_back(door->address());
  return addresses;
}

class RailDoor final : public Door {
 public:
  RailDoor(std::shared_ptr<Network> network, std::shared_ptr<Rails> rails, std::shared_ptr<DoorState> state,
           std::vector<std::unique_ptr<Door>> doors)
      : network_(std::move(network)), rails_(std::move(rails)), state_(std::move(state)), doors_(std::move(doors)) {
    address_ = encodeDoors(addressesOf(doors_));
  }
  ~RailDoor() override {
    if (!birthplace_.isHere()) {
      doors_.clear();
      base::abandon(network_);
      base::abandon(rails_);
      base::abandon(state_);
      return;
    }
    rails_->close(state_);
    doors_.clear();
  }
  const std::string& address() const override { return address_; }

 private:
  const base::Birthplace birthplace_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<Rails> rails_;
  std::shared_ptr<DoorState> state_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::string address_;
};

class RailNetwork final : public Network, public std::enable_shared_from_this<RailNetwork> {
 public:
  RailNetwork(std::shared_ptr<Rails> rails, std::vector<std::unique_ptr<Door>> again, const RailOptions& options)
      : rails_(std::move(rails)),
        again_(std::move(again)),
        name_(rails_->network(0).name()),
        local_(rails_->network(0).local()),
        next_(static_cast<unsigned>(std::max(options.spread, 0))) {}
  ~RailNetwork() override {
    again_.clear();
    rails_->stop();
  }
  std::string_view name() const override { return name_; }
  const Address& local() const override { return local_; }

  StatusOr<std::unique_ptr<Door>> open(Dialled dialled, const Secret& secret) override {
    if (!birthplace_.isHere()) return failedPrecondition("a network does not survive a fork: make one in the child");
    auto state = base::makeProcessOwned<DoorState>();
    state->dialled = [weak = weak_from_this(), dialled = std::move(dialled)](std::shared_ptr<RailLink> link,
                                                                             const std::string& hello) {
      if (auto network = weak.lock())
        dialled(base::makeProcessOwned<LinkHandle>(std::move(network), std::move(link)), hello);
      else
        link->close();
    };
    HPU_ASSIGN(auto doors, openDoors(rails_, state, secret));
    return std::unique_ptr<Door>(
        std::make_unique<RailDoor>(shared_from_this(), rails_, std::move(state), std::move(doors)));
  }

  std::shared_ptr<Link> dial(const std::string& address, const std::string& hello, std::shared_ptr<LinkEvents> events,
                             const base::Deadline& deadline, const Secret& secret) override {
    // The rail's says what is wrong with a forked child.
    if (!birthplace_.isHere()) return rails_->network(0).dial(address, hello, std::move(events), deadline, secret);
    Session session;
    if (::getrandom(session.data(), session.size(), 0) != static_cast<ssize_t>(session.size())) session = {};
    auto doors = decodeDoors(address);
    auto link = base::makeProcessOwned<RailLink>(rails_, session, /*dialler=*/true);
    rails_->add(session, true, link);
    link->dial(doors.ok() ? *doors : std::vector<std::string>(), static_cast<int>(next_++ % kMostRails), hello,
               std::move(events), deadline, secret);
    return base::makeProcessOwned<LinkHandle>(shared_from_this(), std::move(link));
  }

 private:
  const base::Birthplace birthplace_;
  const std::shared_ptr<Rails> rails_;
  std::vector<std::unique_ptr<Door>> again_;  // Where links are dialled again.
  const std::string name_;
  const Address local_;
  std::atomic<unsigned> next_;
};

}  // namespace
}  // namespace rails

StatusOr<std::shared_ptr<Network>> railNetwork(std::vector<std::shared_ptr<Network>> networks,
                                               const RailOptions& options) {
  using namespace rails;
  if (networks.empty() || networks.size() > kMostRails)
    return invalidArgument(
        base::strCat("a network of ", networks.size(), " rails; 1 to ", kMostRails, " are possible"));
  for (const auto& network : networks)
    if (!network || network->name() != networks[0]->name())
      return invalidArgument("the rails of a network are of one kind");
  auto all = base::makeProcessOwned<Rails>(std::move(networks), options.tick);
  HPU_ASSIGN(auto again, openDoors(all, base::makeProcessOwned<DoorState>(), options.secret));
  all->setDoors(addressesOf(again), options.secret);
  HPU_RETURN_IF_ERROR(all->start());
  return std::shared_ptr<Network>(base::makeProcessOwned<RailNetwork>(std::move(all), std::move(again), options));
}

}  // namespace hpu::collectives::net
