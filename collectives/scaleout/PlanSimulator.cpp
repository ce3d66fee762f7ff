// SPDX-License-Identifier: Apache-2.0
#include "collectives/scaleout/PlanSimulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/Format.h"

namespace hpu::collectives {

using base::strCat;

int32_t PlanSimulator::port(PortUse::Kind kind, int32_t node, int32_t index, int32_t alike) {
  const uint64_t key =
      static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(node) << 28 | static_cast<uint64_t>(index);
  auto [it, isNew] = portOf_.try_emplace(key, static_cast<int32_t>(ports_.size()));
  if (!isNew) return it->second;
  const bool many = kind == PortUse::Kind::kUplink || kind == PortUse::Kind::kDownlink;
  Port port;
  port.use = static_cast<int32_t>(uses_.size());
  ports_.insert(ports_.end(), many ? lanes_ : 1, port);
  PortUse use;
  use.kind = kind;
  use.node = node;
  use.index = index;
  use.alike = alike;
  uses_.push_back(use);
  return it->second;
}

Status PlanSimulator::add(const Plan& plan, std::span<const RoleSteps> roles, const RankClasses& classes,
                          const RankPorts& ports, std::span<const int64_t> arrivalPs, const LinkState& links) {
  const RankMap& map = plan.map();
  // By the first rank of each rail.
  std::array<std::vector<int64_t>, 2> railFreePs;
  for (size_t way = 0; way < railFreePs.size(); ++way) {
    if (links.railFreePs[way].empty()) continue;
    railFreePs[way].assign(links.railFreePs[way].size(), 0);
    for (size_t r = 0; r < railFreePs[way].size(); ++r) {
      int64_t& free = railFreePs[way][static_cast<size_t>(ports.railFirst[r])];
      free = std::max(free, links.railFreePs[way][r]);
    }
  }
  if (fabric_.nodesPerLeaf > 0) {
    const double links = fabric_.nodesPerLeaf / fabric_.oversubscription;
    lanes_ = std::max(1, static_cast<int32_t>(links));
    laneFactor_ = lanes_ / links;
  }
  const auto operation = static_cast<int32_t>(operations_.size());
  const auto first = static_cast<int32_t>(ranks_.size());
  operations_.push_back({&plan, &classes, roles, first});
  int64_t steps = static_cast<int64_t>(rankOf_.size());
  for (const RankClasses::Class& one : classes.classes) {
    SimRank rank;
    rank.role = &roles[plan.roleOf(one.rank)];
    rank.operation = operation;
    rank.rank = one.rank;
    rank.alike = one.size;
    rank.base = static_cast<int32_t>(steps);
    rank.peers = peers_.size();
    rank.arrivalPs = rank.endPs = arrivalPs.empty() ? 0 : arrivalPs[one.rank];
    rank.rate = ports.rate[one.rank];
    steps += rank.role->size();
    // Below it are numbers for the ranks' beginnings.
    if (steps + first + static_cast<int64_t>(classes.classes.size()) > std::numeric_limits<int32_t>::max())
      return invalidArgument(strCat("plan '", plan.algorithm(), "' has more than ", steps,
                                    " steps to simulate: time it folded, or with fewer chunks"));
    peers_.resize(peers_.size() + rank.role->names.size());
    const Place place = map.place(one.rank);
    const auto portsOfFirst = [&](int32_t firstRank, auto use) {
      const RankClasses::Class& owner = classes.classes[classes.classOf[firstRank]];
      use(owner, map.place(owner.rank), ports.rail[owner.rank]);
    };
    rank.engine = port(PortUse::Kind::kEngine, place.node, place.device, one.size);
    if (map.nodes() > 1 && ports.rail[one.rank] >= 0) {
      portsOfFirst(ports.railFirst[one.rank], [&](const RankClasses::Class& owner, Place at, int32_t rail) {
        rank.railOut = port(PortUse::Kind::kRailOut, at.node, rail, owner.size);
        rank.railIn = port(PortUse::Kind::kRailIn, at.node, rail, owner.size);
      });
      const auto firstOfRail = static_cast<size_t>(ports.railFirst[one.rank]);
      if (!railFreePs[0].empty()) notBefore(rank.railOut, railFreePs[0][firstOfRail]);
      if (!railFreePs[1].empty()) notBefore(rank.railIn, railFreePs[1][firstOfRail]);
      if (ports.leaves)
        portsOfFirst(ports.leafFirst[one.rank], [&](const RankClasses::Class& owner, Place at, int32_t rail) {
          rank.uplink = port(PortUse::Kind::kUplink, fabric_.leafOf(at.node), rail, owner.size);
          rank.downlink = port(PortUse::Kind::kDownlink, fabric_.leafOf(at.node), rail, owner.size);
        });
    }
    ranks_.push_back(rank);
  }
  const auto all = static_cast<size_t>(steps);
  rankOf_.resize(all);
  partner_.resize(all, -1);
  next_.resize(all, -1);
  waits_.resize(all);
  leftPs_.resize(all, 0);
  for (size_t r = static_cast<size_t>(first); r < ranks_.size(); ++r) {
    SimRank& rank = ranks_[r];
    const bool wanted = std::any_of(options_.spansOf.begin(), options_.spansOf.end(), [&](int32_t want) {
      return want >= 0 && want < map.ranks() && classes.classes[classes.classOf[want]].rank == rank.rank;
    });
    if (wanted) {
      rank.spans = static_cast<int64_t>(stepStart_.size());
      stepStart_.resize(stepStart_.size() + static_cast<size_t>(rank.role->size()), 0);
      stepEnd_.resize(stepStart_.size(), 0);
    }
    for (int32_t i = 0; i < rank.role->size(); ++i) {
      rankOf_[rank.base + i] = static_cast<int32_t>(r);
      // Steps that wait for nothing wait for the rank's beginning.
      waits_[rank.base + i] = std::max(rank.role->waits[i], 1) + (rank.role->kind[i] == StepKind::kSend ? 1 : 0);
    }
  }
  for (size_t r = static_cast<size_t>(first); r < ranks_.size(); ++r)
    if (Status status = match(ports, static_cast<int32_t>(r), links); !status.ok()) return status;
  for (size_t r = static_cast<size_t>(first); r < ranks_.size(); ++r)
    for (const int32_t receive : ranks_[r].role->receives)
      if (partner_[ranks_[r].base + receive] < 0)
        return internalError(
            strCat("plan '", plan.algorithm(), "': rank ", ranks_[r].rank, ", step ", receive, " receives from rank ",
                   resolveChecked(map, ranks_[r].rank, ranks_[r].role->names[ranks_[r].role->peer[receive]]),
                   ", which does not send it"));
  return Status();
}

// Finds the other ends of a rank's sends.
Status PlanSimulator::match(const RankPorts& ports, int32_t from, const LinkState& links) {
  SimRank& rank = ranks_[from];
  const Operation& operation = operations_[rank.operation];
  const Plan& plan = *operation.plan;
  const RankMap& map = plan.map();
  const RoleSteps& role = *rank.role;
  std::vector<std::pair<int32_t, int32_t>> peers;  // Rank, name.
  for (size_t p = 0; p < role.names.size(); ++p) {
    const int32_t peer = resolveChecked(map, rank.rank, role.names[p]);
    if (peer < 0 || peer == rank.rank)
      return internalError(strCat("plan '", plan.algorithm(), "': rank ", rank.rank, " has a message with ",
                                  peer < 0 ? "a rank that is not of the map" : "itself"));
    peers.emplace_back(peer, static_cast<int32_t>(p));
  }
  std::sort(peers.begin(), peers.end());
  std::vector<int32_t> back, sends, receives;
  for (size_t k = 0; k < peers.size();) {
    const int32_t peer = peers[k].first;
    const int32_t to = operation.firstRank + operation.classes->classOf[peer];
    const RoleSteps& other = *ranks_[to].role;
    Peer info;
    const RankPorts::Way way = ports.way(fabric_, map, rank.rank, peer);
    if (way == RankPorts::Way::kMesh) {
      const int32_t slots = fabric_.devicesPerNode;
      info.link = port(PortUse::Kind::kMeshLink, map.place(rank.rank).node,
                       map.place(rank.rank).device * slots + map.place(peer).device, rank.alike);
      if (!links.freePs.empty())
        notBefore(info.link, links.freePs[static_cast<size_t>(rank.rank) * static_cast<size_t>(map.ranks()) +
                                          static_cast<size_t>(peer)]);
    } else if (rank.railOut < 0 || ranks_[to].railIn < 0) {
      return invalidArgument(strCat("rank ", rank.railOut < 0 ? rank.rank : peer, " is on node ",
                                    map.place(rank.railOut < 0 ? rank.rank : peer).node,
                                    ", none of whose rails is up, and has a message with another node"));
    }
    info.across = way == RankPorts::Way::kAcross;
    sends.clear();
    receives.clear();
    size_t names = 0;
    for (; k < peers.size() && peers[k].first == peer; ++k, ++names) {
      const int32_t name = peers[k].second;
      peers_[rank.peers + static_cast<size_t>(name)] = info;
      sends.insert(sends.end(), role.sends.begin() + role.sendsFirst[name],
                   role.sends.begin() + role.sendsFirst[name + 1]);
    }
    other.namesOf(map, peer, rank.rank, back);
    for (const int32_t name : back)
      receives.insert(receives.end(), other.receives.begin() + other.receivesFirst[name],
                      other.receives.begin() + other.receivesFirst[name + 1]);
    if (names > 1) std::sort(sends.begin(), sends.end());
    if (back.size() > 1) std::sort(receives.begin(), receives.end());
    if (sends.size() != receives.size())
      return internalError(strCat("plan '", plan.algorithm(), "': rank ", rank.rank, " sends ", sends.size(),
                                  " messages to rank ", peer, ", which receives ", receives.size(), " from it"));
    if (Status status = matchPair(from, to, sends, receives); !status.ok()) return status;
  }
  return Status();
}

Status PlanSimulator::matchPair(int32_t from, int32_t to, std::span<const int32_t> sends,
                                std::span<const int32_t> receives) {
  const SimRank &a = ranks_[from], &b = ranks_[to];
  for (size_t k = 0; k < sends.size(); ++k) {
    const int32_t send = a.base + sends[k], receive = b.base + receives[k];
    const auto both = [&] {
      return strCat("plan '", operations_[a.operation].plan->algorithm(), "': step ", sends[k], " of rank ", a.rank,
                    " and step ", receives[k], " of rank ", b.rank, " (or one like it)");
    };
    if (partner_[receive] >= 0) return internalError(strCat(both(), ": the receive has another send already"));
    if (a.role->bytes[sends[k]] != b.role->bytes[receives[k]])
      return internalError(strCat(both(), " are one message: ", a.role->bytes[sends[k]], " bytes are sent and ",
                                  b.role->bytes[receives[k]], " received"));
    partner_[send] = receive;
    partner_[receive] = send;
    if (k > 0) {
      next_[a.base + sends[k - 1]] = send;
      ++waits_[send];
    }
  }
  return Status();
}

void PlanSimulator::note(int32_t port, int32_t lane, int64_t readyPs, int64_t startPs, int64_t costPs, int64_t bytes) {
  PortUse& use = uses_[ports_[port].use];
  if (options_.wantPorts) {
    if (use.messages == 0 || startPs < use.firstPs) use.firstPs = startPs;
    use.lastPs = std::max(use.lastPs, startPs + costPs);
    use.busyPs += costPs;
    use.bytes += bytes;
    use.waitedPs += startPs - readyPs;
    ++use.messages;
  }
  if (options_.wantIntervals) intervals_.push_back({use.kind, use.node, use.index, lane, startPs, startPs + costPs});
}

// When the port begins with it.
int64_t PlanSimulator::take(int32_t port, int64_t readyPs, int64_t costPs, int64_t bytes) {
  int64_t& free = ports_[port].freePs;
  const int64_t start = std::max(readyPs, free);
  free = start + costPs;
  if (options_.wantPorts || options_.wantIntervals) note(port, 0, readyPs, start, costPs, bytes);
  return start;
}

int64_t PlanSimulator::takeLane(int32_t port, int64_t readyPs, int64_t costPs, int64_t bytes) {
  int32_t lane = 0;
  for (int32_t k = 1; k < lanes_; ++k)
    if (ports_[port + k].freePs < ports_[port + lane].freePs) lane = k;
  int64_t& free = ports_[port + lane].freePs;
  const int64_t start = std::max(readyPs, free);
  free = start + costPs;
  if (options_.wantPorts || options_.wantIntervals) note(port, lane, readyPs, start, costPs, bytes);
  return start;
}

int64_t PlanSimulator::lanePs(int64_t railPs) const {
  return static_cast<int64_t>(std::ceil(static_cast<double>(railPs - fabric_.railIssuePs) * laneFactor_));
}

void PlanSimulator::setSpan(int32_t step, int64_t startPs) {
  const SimRank& rank = ranks_[rankOf_[step]];
  if (rank.spans >= 0) stepStart_[static_cast<size_t>(rank.spans + step - rank.base)] = startPs;
}

// One of the things that the step waits for has come.
void PlanSimulator::release(int32_t step, int64_t nowPs) {
  if (--waits_[step] > 0) return;
  const SimRank& rank = ranks_[rankOf_[step]];
  const int32_t i = step - rank.base;
  switch (rank.role->kind[i]) {
    case StepKind::kSend:
      return begin(step, nowPs);
    case StepKind::kRecv:
      if (--waits_[partner_[step]] == 0) begin(partner_[step], nowPs);
      return;
    case StepKind::kCopy:
    case StepKind::kReduce:
      break;
  }
  const int64_t bytes = rank.role->bytes[i];
  const int64_t cost = bytes == 0                                ? 0
                       : rank.role->kind[i] == StepKind::kReduce ? fabric_.mesh.reducePs(bytes)
                                                                 : fabric_.mesh.copyPs(bytes);
  const int64_t start = take(rank.engine, nowPs, cost, bytes);
  setSpan(step, start);
  finishStep(step, start + cost);
}

// Both ends of a message are ready and the pair's earlier ones have begun; so may those behind it.
void PlanSimulator::begin(int32_t send, int64_t nowPs) {
  for (;;) {
    const SimRank& rank = ranks_[rankOf_[send]];
    const int32_t i = send - rank.base;
    const Peer& peer = peers_[rank.peers + static_cast<size_t>(rank.role->peer[i])];
    if (peer.link >= 0) {
      const int64_t bytes = rank.role->bytes[i];
      const int64_t cost = slowedPs(fabric_.mesh.linkPs(bytes), rank.rate);
      const int64_t start = take(peer.link, nowPs, cost, bytes);
      setSpan(send, start);
      setSpan(partner_[send], start);
      finish(send, std::max(start + cost + fabric_.mesh.messagePs, nowPs + 1));
    } else {
      push(nowPs, kRailOut, send);
    }
    send = next_[send];
    if (send < 0 || --waits_[send] > 0) return;
  }
}

void PlanSimulator::finish(int32_t send, int64_t endPs) {
  finishStep(send, endPs);
  finishStep(partner_[send], endPs);
}

void PlanSimulator::finishStep(int32_t step, int64_t endPs) {
  SimRank& rank = ranks_[rankOf_[step]];
  const int32_t i = step - rank.base;
  if (rank.spans >= 0) stepEnd_[static_cast<size_t>(rank.spans + i)] = endPs;
  if (rank.role->dependentsFirst[i] != rank.role->dependentsFirst[i + 1]) return push(endPs, kEnd, step);
  rank.endPs = std::max(rank.endPs, endPs);
  ++done_;
}

void PlanSimulator::end(int32_t step, int64_t nowPs) {
  SimRank& rank = ranks_[rankOf_[step]];
  const int32_t i = step - rank.base;
  rank.endPs = std::max(rank.endPs, nowPs);
  ++done_;
  for (int32_t k = rank.role->dependentsFirst[i]; k < rank.role->dependentsFirst[i + 1]; ++k)
    release(rank.base + rank.role->dependents[k], nowPs);
}

Status PlanSimulator::run() {
  const auto steps = static_cast<int32_t>(rankOf_.size());
  for (size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r].role->size() > 0)
      push(ranks_[r].arrivalPs + fabric_.mesh.startPs, kEnd, steps + static_cast<int32_t>(r));
  while (!events_.empty()) {
    const Event event = events_.pop();
    ++eventCount_;
    const int64_t now = event.timePs;
    const auto number = static_cast<int32_t>(event.key & 0xffffffff);
    const auto phase = static_cast<Phase>(event.key >> 32);
    if (phase == kEnd) {
      if (number < steps) {
        end(number, now);
        continue;
      }
      const SimRank& rank = ranks_[number - steps];
      for (int32_t i = 0; i < rank.role->size(); ++i)
        if (rank.role->waits[i] == 0) release(rank.base + i, now);
      continue;
    }
    // Of a message, the ports on the sender's side are ordered by its send, the others by its receive.
    const int32_t send = phase <= kUplink ? number : partner_[number];
    const SimRank& rank = ranks_[rankOf_[number]];
    const int64_t bytes = rank.role->bytes[number - rank.base];
    const int64_t full = fabric_.railPs(bytes);
    int64_t& left = leftPs_[send];
    switch (phase) {
      case kEnd:
        break;
      case kRailOut: {
        const int64_t cost = slowedPs(full, rank.rate);
        const int64_t start = take(rank.railOut, now, cost, bytes);
        left = start + cost;
        setSpan(send, start);
        setSpan(partner_[send], start);
        const bool across = peers_[rank.peers + static_cast<size_t>(rank.role->peer[number - rank.base])].across;
        if (across)
          push(start, kUplink, send);
        else
          push(start, kRailIn, partner_[send]);
        break;
      }
      case kUplink: {
        const int64_t cost = lanePs(full), start = takeLane(rank.uplink, now, cost, bytes);
        left = std::max(left, start + cost);
        push(start, kDownlink, partner_[send]);
        break;
      }
      case kDownlink: {
        const int64_t cost = lanePs(full), start = takeLane(rank.downlink, now, cost, bytes);
        left = std::max(left, start + cost);
        push(start, kRailIn, number);
        break;
      }
      case kRailIn: {
        const int64_t cost = slowedPs(full, rank.rate), start = take(rank.railIn, now, cost, bytes);
        const SimRank& sender = ranks_[rankOf_[send]];
        const Peer& peer = peers_[sender.peers + static_cast<size_t>(sender.role->peer[send - sender.base])];
        const int64_t latency = fabric_.railMessagePs + (peer.across ? fabric_.uplinkPs : 0);
        finish(send, std::max(std::max(left, start + cost) + latency, now + 1));
        break;
      }
    }
  }
  return done_ == static_cast<int64_t>(rankOf_.size()) ? Status() : stuck();
}

Status PlanSimulator::stuck() const {
  std::string text;
  int named = 0;
  const auto steps = static_cast<int32_t>(rankOf_.size());
  for (int32_t step = 0; step < steps && named < 4;) {
    const SimRank& rank = ranks_[rankOf_[step]];
    const int32_t i = step - rank.base;
    const StepKind kind = rank.role->kind[i];
    const bool waits = waits_[step] > 0 || (kind == StepKind::kRecv && waits_[partner_[step]] > 0);
    if (!waits) {
      ++step;
      continue;
    }
    text += strCat(named++ > 0 ? "; " : "", "rank ", rank.rank, ", step ", i, " (", stepName(kind));
    if (partner_[step] >= 0) {
      const SimRank& other = ranks_[rankOf_[partner_[step]]];
      const RankMap& map = operations_[rank.operation].plan->map();
      text += strCat(kind == StepKind::kSend ? " to" : " from", " rank ",
                     resolveChecked(map, rank.rank, rank.role->names[rank.role->peer[i]]), ", whose step ",
                     partner_[step] - other.base, " is the other end");
    }
    text += ")";
    step = rank.base + rank.role->size();  // The first of each rank.
  }
  return internalError(strCat("plan '", operations_[0].plan->algorithm(),
                              "' cannot end: ", static_cast<int64_t>(rankOf_.size()) - done_, " of ", rankOf_.size(),
                              " steps wait for ever: ", text));
}

PlanTiming PlanSimulator::timing(size_t index) const {
  const Operation& operation = operations_[index];
  const RankClasses& classes = *operation.classes;
  PlanTiming timing;
  timing.classes = static_cast<int64_t>(classes.classes.size());
  timing.events = eventCount_;
  for (const int32_t one : classes.classOf) timing.endPs.push_back(ranks_[operation.firstRank + one].endPs);
  for (const int32_t want : options_.spansOf) {
    if (want < 0 || want >= static_cast<int32_t>(classes.classOf.size())) continue;
    const SimRank& rank = ranks_[operation.firstRank + classes.classOf[want]];
    for (int32_t i = 0; i < rank.role->size(); ++i)
      timing.spans.push_back(
          {want, i, stepStart_[static_cast<size_t>(rank.spans + i)], stepEnd_[static_cast<size_t>(rank.spans + i)]});
  }
  if (index > 0) return timing;
  timing.intervals = intervals_;
  if (!options_.wantPorts) return timing;
  for (const PortUse& use : uses_)
    if (use.messages > 0) timing.ports.push_back(use);
  for (PortUse& use : timing.ports)
    if (use.kind == PortUse::Kind::kUplink || use.kind == PortUse::Kind::kDownlink) use.busyPs /= lanes_;
  std::sort(timing.ports.begin(), timing.ports.end(), [](const PortUse& a, const PortUse& b) {
    return std::tuple(-a.busyPs, a.kind, a.node, a.index) < std::tuple(-b.busyPs, b.kind, b.node, b.index);
  });
  return timing;
}

}  // namespace hpu::collectives
