// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator come together: they meet, tell each other where they are, and make the transport
// that suits that: shared memory in a node, and a network between nodes.
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "base/File.h"
#include "base/Format.h"
#include "base/Hash.h"
#include "base/Log.h"
#include "base/Settings.h"
#include "base/StatusMacros.h"
#include "collectives/communicator/CommunicatorState.h"
#include "collectives/fabric/FabricFile.h"
#include "collectives/transport/net/NetTransport.h"
#include "collectives/transport/net/RailNetwork.h"
#include "collectives/transport/net/RoceNetwork.h"
#include "collectives/transport/net/TcpNetwork.h"
#include "collectives/transport/net/VerbsNetwork.h"
#include "collectives/transport/shm/ShmTransport.h"
#include "hpu/ports.h"
#include "runtime/node/Inventory.h"

namespace hpu::collectives {
namespace {

/// Ranks of one node have the same: who uses the devices of one HPU_NODE on one machine.
using NodeKey = std::array<uint64_t, 2>;
NodeKey nodeKeyOf(const shm::ProcessCard& process, const std::string& node) {
  std::string facts(reinterpret_cast<const char*>(process.bootId), sizeof process.bootId);
  facts += base::strCat(process.networkNamespace, " ", process.user, " ", node);
  return {base::hash64(facts, 1), base::hash64(facts, 2)};
}

/// What a rank says of itself when all meet.
struct Card {
  shm::ProcessCard process;
  UniqueId hall;
  NodeKey node = {};
  int32_t device = -1;
  int32_t rails = 1;   ///< Interfaces that carry data to other nodes,
  int32_t haveV6 = 0;  ///< and whether all of them may do so by IPv6.
};

/// For who asks what the devices' ports have met (hpu/ports.h).
void networkCounters(uint64_t (&counters)[node::kNumNetworkCounters]) {
  const roce::Endpoint::Counters c = net::roceCounters();
  const auto set = [&](node::NetworkCounter counter, uint64_t value) { counters[static_cast<int>(counter)] = value; };
  using Counter = node::NetworkCounter;
  set(Counter::kSent, c.sent);
  set(Counter::kReceived, c.received);
  set(Counter::kRetransmitted, c.pairs.again);
  set(Counter::kTimeouts, c.pairs.timeouts);
  set(Counter::kNaks, c.pairs.sequenceErrors);
  set(Counter::kNotReady, c.pairs.notReady);
  set(Counter::kMissedResponses, c.pairs.missingResponses);
  set(Counter::kBadIcrc, c.badIcrc);
  set(Counter::kMalformed, c.malformed);
  set(Counter::kStrays, c.noQueuePair + c.wrongPeer);
  set(Counter::kDuplicates, c.pairs.duplicates);
  set(Counter::kOutOfOrder, c.pairs.outOfOrder);
  set(Counter::kCongestionMarks, c.congestionSeen);
}

/// The setting's file for this process: one that all processes of a job name alike would be written over.
std::string captureOf(std::string file) {
  std::error_code error;
  const auto type = std::filesystem::status(file, error).type();
  const bool mayBeReplaced =
      type == std::filesystem::file_type::regular || type == std::filesystem::file_type::not_found;
  if (!file.empty() && mayBeReplaced && file.find("%p") == std::string::npos) file += ".%p";
  return file;
}

/// "10.0.0.1 (eth0, MTU 1500)"; the address alone when its interface has gone meanwhile.
std::string interfaceText(const Address& address) {
  const std::string withPort = address.text();
  const std::string text = withPort.substr(0, withPort.rfind(':'));
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return text;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6)) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, at->ifa_addr,
                at->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    auto found = fromSockaddr(storage);
    if (!found.ok()) continue;
    found->port = address.port;
    if (*found != address) continue;
    std::string mtu;
    if (auto file = base::readTextFile(base::strCat("/sys/class/net/", at->ifa_name, "/mtu"), 64); file.ok())
      mtu = base::strCat(", MTU ", file->substr(0, file->find('\n')));
    return base::strCat(text, " (", at->ifa_name, mtu, ")");
  }
  return text;
}

/// What carries data to other nodes by one address of this machine, as the settings say. `rail`: its number.
StatusOr<std::shared_ptr<net::Network>> networkAt(const Address& local, size_t rail = 0) {
  HPU_ASSIGN(const std::string kind, settings::getString(Setting::HPU_COMM_NETWORK));
  if (kind == "tcp") return net::tcpNetwork(local);
  net::RoceOptions roce;
  HPU_ASSIGN(const int64_t mtu, settings::getInt(Setting::HPU_COMM_ROCE_MTU));
  if (mtu != 0 && (mtu < 256 || mtu > 4096))
    return invalidArgument(
        base::strCat("HPU_COMM_ROCE_MTU=", mtu, " is neither 0 (what the interfaces take) nor 256 to 4096"));
  roce.pathMtu = static_cast<uint32_t>(mtu);
  if (kind == "verbs") {
    net::VerbsOptions verbs;
    verbs.pathMtu = roce.pathMtu;
    HPU_ASSIGN(verbs.device, settings::getString(Setting::HPU_COMM_VERBS_DEVICE));
    return net::verbsNetwork(local, verbs);
  }
  HPU_ASSIGN(roce.capture, settings::getString(Setting::HPU_COMM_ROCE_PCAP));
  roce.capture = captureOf(std::move(roce.capture));
  if (rail > 0 && !roce.capture.empty()) roce.capture += base::strCat(".rail", rail);
  HPU_ASSIGN(const std::string faults, settings::getString(Setting::HPU_COMM_ROCE_FAULTS));
  if (!faults.empty()) {
    auto parsed = roce::parseFaults(faults);
    if (!parsed.ok()) return parsed.status().withContext("HPU_COMM_ROCE_FAULTS");
    roce.faults = *parsed;
  }
  ports::setNetworkSource(networkCounters);
  return net::roceNetwork(local, roce);
}

/// By all of them. `rails`: as many as the rank has that has most: all have links of one kind.
StatusOr<std::shared_ptr<net::Network>> networkOf(const std::vector<Address>& addresses, int rails, int rank,
                                                  const Secret& secret) {
  if (rails <= 1) return networkAt(addresses[0]);
  std::vector<std::shared_ptr<net::Network>> networks;
  for (size_t rail = 0; rail < addresses.size(); ++rail) {
    HPU_ASSIGN(std::shared_ptr<net::Network> network, networkAt(addresses[rail], rail));
    networks.push_back(std::move(network));
  }
  return net::railNetwork(std::move(networks), {.spread = rank, .secret = secret});
}

}  // namespace

Status CommunicatorState::connect() {
  base::Deadline deadline = base::Deadline::afterMs(initTimeoutMs_);
  Status aborted;
  auto met = std::exchange(creation_.meet, nullptr)(initTimeoutMs_);
  if (!met.ok()) return met.status().withContext(base::strCat("creation of the communicator ", title()));
  {
    std::lock_guard lock(mutex_);
    bootstrap_ = std::move(*met);
    if (!failure_.ok()) aborted = failure_;
  }
  // abort() has found either the bootstrap or nothing yet.
  if (!aborted.ok()) {
    bootstrap_->abandon(aborted);
    return aborted;
  }
  auto rest = [&]() -> Status {
    HPU_ASSIGN(hall_, Coordinator::instance()->openHall(bootstrap_->local(), bootstrap_->secret()));
    HPU_RETURN_IF_ERROR(meetRanks(deadline));
    if (placement_->nodes > 1) {
      HPU_ASSIGN(std::shared_ptr<const Cluster> cluster, makeCluster());
      tuner_ = std::make_shared<Tuner>(std::move(cluster), rank(), table_);
    } else {
      tuner_ = std::make_shared<Tuner>(linkModel(device_.info().target), table_);
    }
    HPU_ASSIGN(transport_, makeTransport(deadline));
    executor_ = Executor::create(transport_, title());
    direct_ = direct_ && transport_->sharedWork();
    // A rank that computes before its next call is not silent.
    transport_->setProgressSource(
        [executor = executor_, device = device_] { return executor->progress() + device.workDone(); });
    return bootstrap_->barrier("ready", deadline);
  };
  Status status = rest();
  if (!status.ok()) return status.withContext(base::strCat("creation of the communicator ", title()));
  if (placement_->nodes > 1) {
    usesRail_ = true;
    ports::changeRailUsers(countingDevice_, 1);
  }
  HPU_LOG(kInfo, base::strCat("communicator ", title(), " on device ", device_.info().pciAddress, " is ready: ",
                              placement_->nodes == 1 ? "one node" : base::strCat(placement_->nodes, " nodes"), ", ",
                              transport_->name()));
  return okStatus();
}

/// Where each rank is and is met, and what all must have alike.
Status CommunicatorState::meetRanks(const base::Deadline& deadline) {
  HPU_ASSIGN(const std::string node, node::identity());
  HPU_ASSIGN(const std::string network, settings::getString(Setting::HPU_COMM_NETWORK));
  HPU_ASSIGN(const std::string check, settings::getString(Setting::HPU_COMM_CHECK));
  HPU_ASSIGN(const Fabric fabric, settingsFabric(device_.info().target, 0));
  struct Difference {
    const char* what;
    std::string mine;
  } cards[] = {
      {"a device of type", std::string(targetName(device_.info().target))},
      {"the tuner table with hash", base::formatHex(table_.hash())},
      {"the network (HPU_COMM_NETWORK)", network},
      {"the check of data (HPU_COMM_CHECK)", check},
      {"the fabric (HPU_COMM_FABRIC)",
       base::strCat("'", fabric.name, "' with hash ", base::formatHex(base::hash64(fabricText(fabric))))},
      {"the members", creation_.members},
  };
  Card own;
  own.process = shm::myProcess();
  CoordinatorId hall = hall_->id();
  hall.secret = {};  // All ranks make it of theirs.
  own.hall = encodeId(hall);
  own.node = nodeKeyOf(own.process, node);
  own.device = device_.info().index;
  // What is wrong with them is said where they are needed.
  if (const auto addresses = dataAddresses(bootstrap_->local()); addresses.ok())
    own.rails = static_cast<int32_t>(addresses->size());
  // Trains of datagrams, and adapters as peers, want IPv6 (docs/roce.md); it is taken where all ranks have it.
  own.haveV6 = network == "roce" && haveV6(bootstrap_->local());
  bool allHaveV6 = true;
  std::string mine(reinterpret_cast<const char*>(&own), sizeof own);
  for (const Difference& card : cards) mine += card.mine + "\n";
  HPU_ASSIGN(auto all, bootstrap_->allGather("compare", mine, deadline));
  std::vector<int32_t> devices, nodes;
  std::map<NodeKey, int32_t> numbers;
  for (size_t other = 0; other < all.size(); ++other) {
    Card card;
    if (all[other].size() >= sizeof card) std::memcpy(&card, all[other].data(), sizeof card);
    auto hallId = decodeId(card.hall);
    if (!hallId.ok() || card.device < 0 || card.device >= kMostDevices)
      return invalidArgument(base::strCat("rank ", other, " is of another release than this one"));
    Peer peer;
    peer.process = card.process;
    peer.hall = *hallId;
    peer.hall.secret = Hall::secretOf(bootstrap_->secret(), hallId->nonce);
    peer.hall.process = base::strCat("the process of rank ", other, " of '", name_, "'");
    peers_.push_back(std::move(peer));
    devices.push_back(card.device);
    rails_ = std::max(rails_, card.rails);
    allHaveV6 = allHaveV6 && card.haveV6 != 0;
    nodes.push_back(numbers.try_emplace(card.node, static_cast<int32_t>(numbers.size())).first->second);
    all[other].erase(0, sizeof card);
  }
  ipOrder_ = allHaveV6 ? IpOrder::kV6First : IpOrder::kV4First;
  placement_ = std::make_shared<const Placement>(std::move(devices), std::move(nodes));
  for (size_t other = 1; other < all.size(); ++other) {
    if (all[other] == all[0]) continue;
    size_t a = 0, b = 0;
    for (const Difference& card : cards) {
      size_t endA = all[0].find('\n', a), endB = all[other].find('\n', b);
      if (endA == std::string::npos || endB == std::string::npos) break;
      std::string first = all[0].substr(a, endA - a), second = all[other].substr(b, endB - b);
      if (first != second)
        return invalidArgument(base::strCat("rank ", other, " has ", card.what, " ", second, ", rank 0 has ", first,
                                            ": all ranks must have the same"));
      a = endA + 1;
      b = endB + 1;
    }
    return invalidArgument(base::strCat("rank ", other, " is of another release than rank 0"));
  }
  return okStatus();
}

/// The network that device time is of; its nodes are taken in the order of the ranks.
StatusOr<std::shared_ptr<const Cluster>> CommunicatorState::makeCluster() const {
  auto cluster = std::make_shared<Cluster>();
  HPU_ASSIGN(cluster->fabric, settingsFabric(device_.info().target, placement_->nodes));
  std::vector<Place> places;
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    places.push_back({placement_->node[at], placement_->device[at]});
  }
  HPU_ASSIGN(cluster->map, RankMap::create(cluster->fabric, std::move(places)));
  return std::shared_ptr<const Cluster>(std::move(cluster));
}

/// Shared memory in the node; with other nodes, links between.
StatusOr<std::shared_ptr<Transport>> CommunicatorState::makeTransport(const base::Deadline& deadline) {
  const auto gatherOf = [&deadline](std::shared_ptr<Bootstrap> group) {
    return [group = std::move(group), deadline](const std::string& phase, const std::string& mine) {
      return group->allGather(phase, mine, deadline);
    };
  };
  const bool alone = placement_->nodes == 1;
  ShmOptions shm;
  shm.identity = creation_.identity;
  shm.rank = rank();
  shm.ranks = ranks();
  shm.deviceIndex = device_.info().index;
  shm.timeoutMs = deadline.remainingMs();
  shm.allGather = gatherOf(bootstrap_);
  if (alone) return createShmTransport(shm);

  const int32_t node = placement_->node[static_cast<size_t>(rank())];
  std::vector<int> members;
  for (int other = 0; other < ranks(); ++other)
    if (placement_->node[static_cast<size_t>(other)] == node) members.push_back(other);
  HPU_ASSIGN(const std::shared_ptr<Bootstrap> group, bootstrap_->subgroup(base::strCat("node ", node), members));
  shm.identity = base::strCat(creation_.identity, "/node ", node);
  shm.names.assign(members.begin(), members.end());
  shm.rank = group->rank();
  shm.ranks = group->ranks();
  shm.allGather = gatherOf(group);
  // What is wrong with the settings is said before anybody waits.
  NetOptions net;
  net.secret = derivedSecret(bootstrap_->secret(), "links", 0);
  HPU_ASSIGN(const std::vector<Address> addresses, dataAddresses(bootstrap_->local(), ipOrder_));
  HPU_ASSIGN(net.network, networkOf(addresses, rails_, rank(), net.secret));
  HPU_ASSIGN(net.silenceMs, settings::getInt(Setting::HPU_COMM_SILENCE_MS));
  if (net.silenceMs < 0 || (net.silenceMs > 0 && net.silenceMs < kLeastSilenceMs))
    return invalidArgument(
        base::strCat("HPU_COMM_SILENCE_MS=", net.silenceMs, " is neither 0 nor at least ", kLeastSilenceMs));
  HPU_ASSIGN(const std::string check, settings::getString(Setting::HPU_COMM_CHECK));
  net.check = check == "crc32c";
  HPU_ASSIGN(net.node, createShmTransport(shm));
  net.identity = creation_.identity;
  net.rank = rank();
  net.ranks = ranks();
  net.nodeOf = placement_->node;
  net.timeoutMs = deadline.remainingMs();
  net.allGather = gatherOf(bootstrap_);
  std::string from;
  for (const Address& address : addresses) from += (from.empty() ? "" : ", ") + interfaceText(address);
  HPU_LOG(kInfo, base::strCat("communicator ", title(), ": data to other nodes by ", net.network->name(), " from ",
                              from, ipOrder_ == IpOrder::kV6First ? " (IPv6, which all ranks have)" : "",
                              rails_ <= 1 ? "" : base::strCat(", over ", addresses.size(), " rails of its own"),
                              "; it is of node ", node, " of ", placement_->nodes));
  return createNetTransport(net);
}

}  // namespace hpu::collectives
