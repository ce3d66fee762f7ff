// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/Station.h"

#include <utility>

#include "base/AtFork.h"
#include "collectives/bootstrap/Client.h"
#include "collectives/bootstrap/Group.h"

namespace hpu::collectives {

std::shared_ptr<Station> Station::of(uint64_t nonce, uint64_t process) {
  using Key = std::pair<uint64_t, uint64_t>;
  // A child has another token, so it finds no station of its parent's.
  static auto* stations = new std::map<Key, std::weak_ptr<Station>>;  // Guarded by processMutex().
  auto fresh = std::make_shared<Station>();
  std::lock_guard lock(base::processMutex());
  std::erase_if(*stations, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Station>& known = (*stations)[{nonce, process}];
  if (auto station = known.lock()) return station;
  known = fresh;
  return fresh;
}

void Station::enter(std::weak_ptr<Client> client) {
  std::lock_guard lock(mutex_);
  std::erase_if(clients_, [](const auto& one) { return one.expired(); });
  clients_.push_back(std::move(client));
}

void Station::tell(const std::shared_ptr<const Roster>& roster) {
  std::vector<std::weak_ptr<Client>> clients;
  {
    std::lock_guard lock(mutex_);
    clients = clients_;
  }
  for (const auto& one : clients)
    if (auto client = one.lock()) client->learn(roster);
}

void Station::open(uint64_t group, int place, const std::shared_ptr<Group>& member) {
  std::vector<Kept> kept;
  {
    std::lock_guard lock(mutex_);
    Members& members = groups_[group];
    members.open[place] = member;
    if (auto it = members.kept.find(place); it != members.kept.end()) {
      kept = std::move(it->second);
      members.kept.erase(it);
    }
  }
  for (Kept& one : kept)
    if (auto from = one.from.lock()) member->takeUp(one.phase, from, std::move(one.part));
}

void Station::close(uint64_t group, int place, const Group* member) {
  std::shared_ptr<Group> held;  // Goes after the lock.
  std::lock_guard lock(mutex_);
  auto it = groups_.find(group);
  if (it == groups_.end()) return;
  auto open = it->second.open.find(place);
  if (open == it->second.open.end()) return;
  held = open->second.lock();
  if (held && held.get() != member) return;  // A later group of the same name.
  it->second.open.erase(open);
  if (it->second.open.empty()) groups_.erase(it);
}

std::shared_ptr<Group> Station::member(uint64_t group, int place) const {
  std::lock_guard lock(mutex_);
  auto it = groups_.find(group);
  if (it == groups_.end()) return nullptr;
  auto open = it->second.open.find(place);
  return open == it->second.open.end() ? nullptr : open->second.lock();
}

void Station::give(uint64_t group, int place, uint64_t phase, const std::shared_ptr<Group>& from, LocalPart part) {
  std::shared_ptr<Group> member;
  {
    std::lock_guard lock(mutex_);
    Members& members = groups_[group];
    if (auto open = members.open.find(place); open != members.open.end()) member = open->second.lock();
    if (!member) {
      members.kept[place].push_back({phase, from, std::move(part)});
      return;
    }
  }
  member->takeUp(phase, from, std::move(part));
}

}  // namespace hpu::collectives
