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

bool accepts(const Problem& p, const RankMap& map) {
  return wellFormed(p) && p.ranks == map.ranks() &&
         (p.collective == Collective::kAllReduce || p.collective == Collective::kReduceScatter ||
          p.collective == Collective::kAllGather || p.collective == Collective::kAllToAll ||
          p.collective == Collective::kBarrier);
}

std::unique_ptr<Plan> make(const Problem& p, const RankMap& map, const PlanOptions&) {
  PlanSpec spec;
  spec.problem = p;
  spec.map = &map;
  spec.algorithm = "pairwise";
  spec.grid = CellGrid{p.count, {0, p.count}};
  switch (p.collective) {
    case Collective::kAllReduce: {
      spec.grid.boundaries = {0};
      for (int32_t r = 0; r < p.ranks; r++) spec.grid.boundaries.push_back(part({0, p.count}, p.ranks, r).end());
      const int64_t largest = largestPiece(spec.grid.boundaries);
      spec.write = [largest](ProgramBuilder& b) { allReduce(b, largest); };
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
    accepts, make, chunkChoices};

}  // namespace hpu::collectives
