// SPDX-License-Identifier: Apache-2.0
// Pairwise: every rank talks to every other one directly, whatever the map. Needs no structure at all: nodes of
// different sizes, gaps, ranks in any order.
#include <algorithm>
#include <utility>

#include "collectives/algorithms/Algorithms.h"
#include "collectives/scaleout/Plans.h"

namespace hpu::collectives {
namespace {

PeerName by(int32_t shift) {
  return {PeerName::Form::kRankShift, shift, 0};
}

/// Contributions of all ranks, from the next one on, reduced in rank order.
void reduceAll(ProgramBuilder& b, const Part& dst, const Part& own, const std::function<Part(int32_t)>& forRank) {
  const int32_t ranks = b.problem().ranks;
  std::vector<Part> sources(static_cast<size_t>(ranks));
  sources[static_cast<size_t>(b.rank())] = own.of(b.rank());
  for (int32_t s = 1; s < ranks; s++) {
    b.send(by(s), forRank((b.rank() + s) % ranks));
    const int32_t from = (b.rank() + ranks - s) % ranks;
    const Part room = b.room(BufferKind::kScratch, own.largest).first(own.range.count).of(from);
    b.receive(by(-s), room);
    sources[static_cast<size_t>(from)] = room;
  }
  b.reduce(dst, sources);
}

void allReduce(ProgramBuilder& b, int64_t largest) {
  const int32_t ranks = b.problem().ranks, r = b.rank();
  const auto output = [&](int32_t rank) { return b.output(rank, rank + 1, largest); };
  const auto input = [&](int32_t rank) { return b.input(rank, rank + 1, largest); };
  reduceAll(b, output(r), input(r), input);
  for (int32_t s = 1; s < ranks; s++) {
    b.send(by(s), output(r));
    b.receive(by(-s), output((r + ranks - s) % ranks));
  }
}

void exchange(ProgramBuilder& b, bool allToAll) {
  const int32_t ranks = b.problem().ranks, r = b.rank();
  const int64_t count = b.problem().count;
  const auto block = [&](int32_t rank) { return b.output(rank, rank + 1, count); };
  const auto own = [&](int32_t rank) { return allToAll ? b.input(rank, rank + 1, count) : b.input(0, 1, count); };
  b.copy(block(r), own(r));
  for (int32_t s = 1; s < ranks; s++) {
    b.send(by(s), own((r + s) % ranks));
    b.receive(by(-s), block((r + ranks - s) % ranks));
  }
}

void barrier(ProgramBuilder& b) {
  for (int32_t s = 1; s < b.problem().ranks; s++) b.sendSignal(by(s));
  for (int32_t s = 1; s < b.problem().ranks; s++) b.receiveSignal(by(-s));
}

/// Each rank gets a share from the root and gives it to all others.
void broadcast(ProgramBuilder& b, int64_t largest) {
  const int32_t ranks = b.problem().ranks, r = b.rank(), root = b.problem().root;
  const int64_t count = b.problem().count;
  const auto share = [&](int32_t rank) {
    return r == root ? b.input(rank, rank + 1, largest) : b.output(rank, rank + 1, largest);
  };
  if (r == root) {
    b.copy(b.output(0, ranks, count), b.input(0, ranks, count));
    for (int32_t s = 1; s < ranks; s++) {
      b.send(by(s), share((r + s) % ranks));
      b.send(by(s), share(r));
    }
    return;
  }
  b.receive(by(root - r), share(r));
  b.receive(by(root - r), share(root));
  for (int32_t s = 1; s < ranks; s++) {
    if ((r + s) % ranks != root) b.send(by(s), share(r));
    const int32_t from = (r + ranks - s) % ranks;
    if (from != root) b.receive(by(-s), share(from));
  }
}

/// Each rank reduces a share and gives the result to the root.
void reduce(ProgramBuilder& b, int64_t largest) {
  const int32_t ranks = b.problem().ranks, r = b.rank(), root = b.problem().root;
  const auto input = [&](int32_t rank) { return b.input(rank, rank + 1, largest); };
  if (r == root) {
    reduceAll(b, b.output(r, r + 1, largest), input(r), input);
    for (int32_t s = 1; s < ranks; s++) {
      const int32_t from = (r + ranks - s) % ranks;
      b.receive(by(-s), b.output(from, from + 1, largest));
    }
    return;
  }
  const Part result = b.room(BufferKind::kScratch, largest).first(input(r).range.count);
  reduceAll(b, result, input(r), input);
  b.send(by(root - r), result);
}

/// Gather, scatter, point-to-point: only the root (and the destination) has more than one message.
void direct(ProgramBuilder& b) {
  const Problem& p = b.problem();
  const int32_t r = b.rank();
  const auto block = [&](int32_t rank, BufferKind kind) {
    return kind == BufferKind::kInput ? b.input(rank, rank + 1, p.count) : b.output(rank, rank + 1, p.count);
  };
  const Part in = r == p.root || p.collective == Collective::kGather ? b.input(0, 1, p.count) : Part{};
  if (p.collective == Collective::kPointToPoint) {
    if (r == p.root) b.send(by(p.destination - r), in);
    if (r == p.destination) b.receive(by(p.root - r), b.output(0, 1, p.count));
  } else if (p.collective == Collective::kGather) {
    if (r != p.root) return b.send(by(p.root - r), in);
    b.copy(block(r, BufferKind::kOutput), in);
    for (int32_t s = 1; s < p.ranks; s++) b.receive(by(-s), block((r + p.ranks - s) % p.ranks, BufferKind::kOutput));
  } else {
    if (r != p.root) return b.receive(by(p.root - r), b.output(0, 1, p.count));
    b.copy(b.output(0, 1, p.count), block(r, BufferKind::kInput));
    for (int32_t s = 1; s < p.ranks; s++) b.send(by(s), block((r + s) % p.ranks, BufferKind::kInput));
  }
}

bool accepts(const Problem& p, const RankMap& map) {
  return wellFormed(p) && p.ranks == map.ranks();
}

std::unique_ptr<Plan> make(const Problem& p, const RankMap& map, const PlanOptions&) {
  PlanSpec spec;
  spec.problem = p;
  spec.map = &map;
  spec.algorithm = "pairwise";
  spec.grid = CellGrid{p.count, {0, p.count}};
  // The root lies at another distance from each rank.
  const auto roleEach = [&] {
    spec.roles = p.ranks;
    spec.roleOf = [](int32_t rank) { return rank; };
  };
  switch (p.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce: {
      spec.grid.boundaries = {0};
      for (int32_t r = 0; r < p.ranks; r++) spec.grid.boundaries.push_back(part({0, p.count}, p.ranks, r).end());
      const int64_t largest = largestPiece(spec.grid.boundaries);
      if (p.collective == Collective::kAllReduce) {
        spec.write = [largest](ProgramBuilder& b) { allReduce(b, largest); };
        break;
      }
      roleEach();
      if (p.collective == Collective::kBroadcast)
        spec.write = [largest](ProgramBuilder& b) { broadcast(b, largest); };
      else
        spec.write = [largest](ProgramBuilder& b) { reduce(b, largest); };
      break;
    }
    case Collective::kReduceScatter:
      spec.write = [count = p.count](ProgramBuilder& b) {
        const auto input = [&](int32_t rank) { return b.input(rank, rank + 1, count); };
        reduceAll(b, b.output(0, 1, count), input(b.rank()), input);
      };
      break;
    case Collective::kBarrier:
      spec.write = barrier;
      break;
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kPointToPoint:
      roleEach();
      spec.write = direct;
      break;
    default:
      spec.write = [all = p.collective == Collective::kAllToAll](ProgramBuilder& b) { exchange(b, all); };
  }
  return makePlan(std::move(spec));
}

std::vector<int32_t> chunkChoices(const Problem&, const RankMap&, const Fabric&) {
  return {1};
}

}  // namespace

const PlanAlgorithm kPairwise{
    "pairwise",
    "Every rank sends every other one its share directly. Suits any map; fills the rails only "
    "when each rank has data of its own for each other one.",
    accepts,
    make,
    chunkChoices,
    estimatePairwisePs};

}  // namespace hpu::collectives
