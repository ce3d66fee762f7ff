// SPDX-License-Identifier: Apache-2.0
#include "TimerPlans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <tuple>

#include "base/Format.h"

namespace hpu::collectives::test {

TestPlan::TestPlan(RankMap map, std::vector<int32_t> roleOf, std::function<Program(int32_t)> write)
    : map_(std::move(map)), roleOf_(std::move(roleOf)), write_(std::move(write)) {
  problem_.ranks = map_.ranks();
  roleOf_.resize(static_cast<size_t>(map_.ranks()), 0);
  roles_ = 1 + *std::max_element(roleOf_.begin(), roleOf_.end());
}

int32_t add(Program& program, StepKind kind, PeerName peer, int64_t bytes, std::vector<int32_t> after) {
  ProgramStep step;
  step.kind = kind;
  step.bytes = bytes;
  step.after = std::move(after);
  if (kind == StepKind::kSend || kind == StepKind::kRecv) {
    auto known = std::find(program.peers.begin(), program.peers.end(), peer);
    step.peer = static_cast<int32_t>(known - program.peers.begin());
    if (known == program.peers.end()) program.peers.push_back(peer);
  }
  program.steps.push_back(std::move(step));
  return static_cast<int32_t>(program.steps.size()) - 1;
}

TestPlan planOf(const Schedule& schedule, RankMap map) {
  std::vector<int32_t> roles(static_cast<size_t>(map.ranks()));
  std::iota(roles.begin(), roles.end(), 0);
  return TestPlan(std::move(map), roles, [&schedule](int32_t rank) {
    Program program;
    std::vector<int32_t> number(schedule.steps.size(), -1);
    const auto bytesOf = [&](const Range& range) {
      return range.count *
             (range.buffer == BufferKind::kPartial ? schedule.problem.partialBytes : schedule.problem.elementBytes);
    };
    for (const int32_t i : schedule.ofRank[rank]) {
      const Step& step = schedule.steps[i];
      int64_t bytes = 0;
      if (step.kind != StepKind::kRecv)
        for (const Range& source : step.sources) bytes += bytesOf(source);
      if (step.kind != StepKind::kSend) bytes += bytesOf(step.dst);
      if (step.kind != StepKind::kSend && step.dst.count == 0) bytes = 0;
      std::vector<int32_t> after;
      for (const int32_t before : step.after) after.push_back(number[before]);
      number[i] = add(program, step.kind, toRank(step.peer), bytes, after);
    }
    return program;
  });
}

Fabric roundFabric(int32_t nodes, int32_t devices, int32_t rails) {
  Fabric f;
  f.name = "round";
  f.nodes = nodes;
  f.devicesPerNode = devices;
  f.rails = rails;
  f.railBytesPerNs = 1;
  f.railMessagePs = 50'000;
  f.uplinkPs = 30'000;
  f.railPacketBytes = 1 << 30;
  f.mesh.linkBytesPerNs = 2;
  f.mesh.packetBytes = 1 << 30;
  f.mesh.startPs = 7'000;
  f.mesh.messagePs = 100'000;
  f.mesh.reduceBytesPerNs = f.mesh.copyBytesPerNs = 10;
  f.mesh.stepPs = 20'000;
  return f;
}

namespace {

// Moves that all ranks make, each in the order of the others' (so nobody waits for ever): a message to a peer and one
// from the rank whose peer it is, between copies and reductions, each after some of what is before it.
TestPlan randomPlan(std::mt19937& rng, RankMap map, std::string& text) {
  const auto upTo = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  const int32_t nodes = map.nodes(), locals = map.ranksPerNode(), ranks = map.ranks();
  struct Move {
    PeerName to, from;
    int64_t bytes;
    int32_t shift;     // Of the local number, by grid shifts and flips.
    uint32_t senders;  // By local number; all unless roles are local numbers.
  };
  // Of roles: one; by the local number; at random; every other node.
  constexpr int32_t kModes[] = {0, 0, 0, 1, 1, 2, 3};
  const int32_t mode = kModes[upTo(7)];
  const bool flips = std::has_single_bit(static_cast<uint32_t>(nodes)) && nodes > 1;
  const bool shiftsRanks = mode != 1 && upTo(2) == 0;
  const bool onlyFlips = flips && upTo(2) == 0;
  std::vector<Move> moves;
  for (int32_t m = 2 + upTo(8); m > 0; --m) {
    const int64_t bytes = upTo(4) == 0 ? 0 : 1 + upTo(3) * 700 + upTo(2) * 13;
    const uint32_t senders = mode == 1 && upTo(2) == 0 ? static_cast<uint32_t>(rng()) | 1u : ~0u;
    const int32_t form = onlyFlips ? upTo(2) : upTo(3);
    if (flips && form == 0) {
      const int32_t flip = 1 + upTo(nodes - 1);
      moves.push_back({nodeXor(flip), nodeXor(flip), bytes, 0, senders});
    } else if (shiftsRanks && form == 1 && ranks > 1) {
      const int32_t shift = 1 + upTo(ranks - 1);
      moves.push_back({rankShift(shift), rankShift(-shift), bytes, 0, senders});
    } else {
      const int32_t a = onlyFlips ? 0 : upTo(nodes), b = upTo(locals);
      if (a == 0 && b == 0) continue;
      moves.push_back({gridShift(a, b), gridShift(-a, -b), bytes, b, senders});
    }
  }
  std::vector<int32_t> roles(static_cast<size_t>(ranks));
  for (int32_t r = 0; r < ranks; ++r)
    roles[r] = mode == 0 ? 0 : mode == 1 ? map.position(r).local : mode == 2 ? upTo(3) : map.position(r).node % 2;
  const auto seed = static_cast<uint32_t>(rng());
  text += base::strCat(moves.size(), " moves, roles ", mode, "; ");
  std::vector<int32_t> locally(static_cast<size_t>(ranks));
  for (int32_t r = 0; r < ranks; ++r) locally[r] = map.position(r).local;
  return TestPlan(std::move(map), roles, [=](int32_t rank) {
    std::mt19937 own(seed + 977u * static_cast<uint32_t>(roles[rank]));
    const auto below = [&](int32_t n) { return static_cast<int32_t>(own() % static_cast<uint32_t>(n)); };
    Program program;
    const auto some = [&](int32_t size) {  // Of the first `size` steps.
      std::vector<int32_t> after;
      for (int32_t k = std::min(size, below(4)); k > 0; --k) after.push_back(std::max(0, size - 1 - below(8)));
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      return after;
    };
    for (const Move& move : moves) {
      const int32_t l = locally[rank];
      const bool sends = move.senders >> (l % 32) & 1;
      const bool receives = move.senders >> ((l + locals - move.shift) % locals % 32) & 1;
      const bool sendsFirst = below(2) == 0;
      const auto before = static_cast<int32_t>(program.steps.size());
      for (int32_t turn = 0; turn < 2; ++turn) {
        if ((turn == 0) == sendsFirst && sends) send(program, move.to, move.bytes, some(before));
        if ((turn == 0) != sendsFirst && receives) receive(program, move.from, move.bytes, some(before));
      }
      for (int32_t k = below(3); k > 0; --k)
        add(program, below(2) ? StepKind::kReduce : StepKind::kCopy, {}, below(3) * 1500,
            some(static_cast<int32_t>(program.steps.size())));
    }
    return program;
  });
}

RankMap randomMap(std::mt19937& rng, const Fabric& fabric) {
  const auto upTo = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  std::vector<Place> places;
  std::vector<int32_t> nodes(static_cast<size_t>(fabric.nodes));
  std::iota(nodes.begin(), nodes.end(), 0);
  if (upTo(4) == 0) {  // Gaps.
    std::shuffle(nodes.begin(), nodes.end(), rng);
    nodes.resize(static_cast<size_t>(std::max(1, fabric.nodes - upTo(3))));
    std::sort(nodes.begin(), nodes.end());
  }
  const int32_t first = upTo(4) == 0 ? upTo(fabric.devicesPerNode) : 0;
  for (const int32_t node : nodes)
    for (int32_t d = first; d < fabric.devicesPerNode; ++d) places.push_back({node, d});
  if (upTo(4) == 0) std::shuffle(places.begin(), places.end(), rng);
  return RankMap::create(fabric, places).value();
}

}  // namespace

RandomCase randomCase(uint32_t seed, int operations) {
  std::mt19937 rng(seed);
  const auto upTo = [&](int32_t n) { return static_cast<int32_t>(rng() % static_cast<uint32_t>(n)); };
  constexpr int32_t kNodes[] = {1, 2, 3, 4, 6, 8, 9, 12}, kDevices[] = {1, 2, 3, 4, 8};
  RandomCase c;
  const int32_t nodes = kNodes[upTo(8)], devices = kDevices[upTo(5)];
  c.fabric = roundFabric(nodes, devices, upTo(2) ? devices : 1 + upTo(devices));
  c.fabric.railMessagePs = upTo(3) * 25'000;
  c.fabric.railIssuePs = upTo(2) * 3'000;
  c.fabric.mesh.stepPs = upTo(2) * 20'000;
  if (upTo(3) == 0) {
    c.fabric.nodesPerLeaf = 1 + upTo(4);
    c.fabric.oversubscription = 1 + upTo(5) / 2.0;
  }
  if (upTo(4) == 0) {
    const bool everyOther = upTo(2) == 0;
    const auto down = upTo(c.fabric.rails);
    for (int32_t node = 0; node < nodes; ++node) {
      if (everyOther ? node % 2 == 0 : upTo(3) > 0) continue;
      NodeException e;
      e.node = node;
      e.rate = everyOther || upTo(2) ? 0.5 : 1;
      if ((everyOther || upTo(2)) && c.fabric.rails > 1) e.railsDown = {everyOther ? down : upTo(c.fabric.rails)};
      c.fabric.exceptions.push_back(e);
    }
  }
  c.text = base::strCat("seed ", seed, ": ", nodes, " nodes of ", devices, ", ", c.fabric.rails, " rails, leaves of ",
                        c.fabric.nodesPerLeaf, " / ", c.fabric.oversubscription, ", ", c.fabric.exceptions.size(),
                        " exceptions; ");
  for (int k = 0; k < operations; ++k) {
    c.plans.push_back(randomPlan(rng, randomMap(rng, c.fabric), c.text));
    const RankMap& map = c.plans.back().map();
    std::vector<int64_t> arrivals(static_cast<size_t>(map.ranks()), 0);
    switch (upTo(9)) {
      case 0:
        arrivals[static_cast<size_t>(upTo(map.ranks()))] = 1'234'567;
        break;
      case 1:
        for (const int32_t rank : map.ranksOf(upTo(map.nodes()))) arrivals[rank] = 700'000;
        break;
      case 2:
        for (int64_t& arrival : arrivals) arrival = upTo(3) * 350'000;
        break;
      case 3:
        for (int32_t r = 0; r < map.ranks(); ++r) arrivals[r] = map.position(r).node % 2 * 350'000;
        break;
      default:
        break;
    }
    c.arrivals.push_back(arrivals);
  }
  return c;
}

void expectNoPortExceeded(const std::vector<PlanTiming>& timings, const Fabric& fabric, const std::string& text) {
  std::map<std::tuple<PortUse::Kind, int32_t, int32_t, int32_t>, std::vector<std::pair<int64_t, int64_t>>> byPort;
  for (const PortInterval& i : timings[0].intervals)
    byPort[{i.kind, i.node, i.index, i.lane}].emplace_back(i.startPs, i.endPs);
  for (auto& [port, intervals] : byPort) {
    std::sort(intervals.begin(), intervals.end());
    for (size_t i = 1; i < intervals.size(); ++i) ASSERT_LE(intervals[i - 1].second, intervals[i].first) << text;
  }
  int64_t last = 0;
  for (const PlanTiming& timing : timings)
    for (const int64_t end : timing.endPs) last = std::max(last, end);
  for (const PortUse& port : timings[0].ports) {
    EXPECT_LE(port.busyPs, port.lastPs - port.firstPs) << text << portText(fabric, port);
    EXPECT_LE(port.lastPs, last) << text << portText(fabric, port);
  }
}

}  // namespace hpu::collectives::test
