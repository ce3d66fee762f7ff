// SPDX-License-Identifier: Apache-2.0
// Mesh: every rank talks to every other one directly. What is only moved goes in one message; a
// reduction is cut into shards with an owner each, and into slices so that it overlaps the links.
#include <algorithm>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

/// Slice j of all shards is reduced at the owners; some slices later its result goes to everybody.
void allReduce(B& b, const Problem& p, int32_t slices) {
  const Span all{0, p.count};
  slices = usefulSlices(largestPart(p.count, p.ranks), slices);
  RankOrderReducer reducer(b, p.ranks, largestPart(largestPart(p.count, p.ranks), slices), slices);
  const int32_t lag = std::min(slices - 1, kSlicesInFlight - 2);
  for (int32_t j = 0; j < slices + lag; j++) {
    for (int owner = 0; owner < p.ranks && j < slices; owner++) {
      const Span piece = part(part(all, p.ranks, owner), slices, j);
      reducer.reduce(owner, piece, B::output(piece), j);
    }
    for (int shift = 1; shift < p.ranks && j >= lag; shift++)
      for (int owner = 0; owner < p.ranks; owner++) {
        const Range piece = B::output(part(part(all, p.ranks, owner), slices, j - lag));
        b.move(owner, piece, (owner + shift) % p.ranks, piece);
      }
  }
}

void reduceScatter(B& b, const Problem& p, int32_t slices) {
  slices = usefulSlices(p.count, slices);
  RankOrderReducer reducer(b, p.ranks, largestTapered(p.count, slices), slices);
  for (int32_t j = 0; j < slices; j++)
    for (int owner = 0; owner < p.ranks; owner++) {
      const Span piece = tapered({0, p.count}, slices, j);
      const Span from{owner * p.count + piece.offset, piece.count};
      reducer.reduce(owner, from, B::output(piece), j);
    }
}

void reduce(B& b, const Problem& p, int32_t slices) {
  slices = usefulSlices(p.count, slices);
  RankOrderReducer reducer(b, p.ranks, largestTapered(p.count, slices), slices);
  for (int32_t j = 0; j < slices; j++) {
    const Span piece = tapered({0, p.count}, slices, j);
    reducer.reduce(p.root, piece, B::output(piece), j);
  }
}

void barrier(B& b, const Problem& p) {
  for (int shift = 1; shift < p.ranks; shift++)
    for (int rank = 0; rank < p.ranks; rank++) b.signal(rank, (rank + shift) % p.ranks, {});
}

/// What is only moved. Ranks begin with different peers.
void exchange(B& b, const Problem& p) {
  const Span block{0, p.count};
  auto blockOf = [&](int rank) { return Span{rank * p.count, p.count}; };
  for (int shift = 0; shift < p.ranks; shift++)
    for (int from = 0; from < p.ranks; from++) {
      const int to = (from + shift) % p.ranks;
      switch (p.collective) {
        case Collective::kAllGather:
          b.move(from, B::input(block), to, B::output(blockOf(from)));
          break;
        case Collective::kAllToAll:
          b.move(from, B::input(blockOf(to)), to, B::output(blockOf(from)));
          break;
        case Collective::kBroadcast:
          if (from == p.root) b.move(from, B::input(block), to, B::output(block));
          break;
        case Collective::kGather:
          if (to == p.root) b.move(from, B::input(block), to, B::output(blockOf(from)));
          break;
        default:  // Scatter.
          if (from == p.root) b.move(from, B::input(blockOf(to)), to, B::output(block));
      }
    }
}

bool accepts(const Problem& p) {
  return wellFormed(p) && p.collective != Collective::kPointToPoint;
}

Schedule make(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "mesh", options.slices);
  if (b.trivial()) return b.finish();
  switch (p.collective) {
    case Collective::kAllReduce:
      allReduce(b, p, options.slices);
      break;
    case Collective::kReduceScatter:
      reduceScatter(b, p, options.slices);
      break;
    case Collective::kReduce:
      reduce(b, p, options.slices);
      break;
    case Collective::kBarrier:
      barrier(b, p);
      break;
    default:
      exchange(b, p);
  }
  return b.finish();
}

std::vector<int32_t> choices(const Problem& p) {
  const int64_t bytes = p.count * p.elementBytes;
  const int32_t most = std::clamp(512 / p.ranks, 1, 64);
  switch (p.collective) {
    case Collective::kAllReduce:
      return sliceChoices(bytes / p.ranks, 64 << 10, 4 << 20, most);
    case Collective::kReduceScatter:
    case Collective::kReduce:
      return sliceChoices(bytes, 64 << 10, 4 << 20, most);
    default:
      return {1};
  }
}

}  // namespace

const Algorithm kMesh{"mesh",
                      "Each rank sends each other one its share directly; a reduction has an owner "
                      "for each shard, who reduces all raw contributions in rank order and sends "
                      "the result on, slice by slice. Fills all links of all ranks: the best for "
                      "large data.",
                      accepts, make, choices};

}  // namespace hpu::collectives
