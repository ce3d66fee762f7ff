// SPDX-License-Identifier: Apache-2.0
// Scatter-exchange: the peers of the root have a shard each, so that all links work and the root's
// carry every element once.
#include <algorithm>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

bool accepts(const Problem& p) {
  return wellFormed(p) &&
         (p.collective == Collective::kBroadcast || p.collective == Collective::kReduce);
}

struct Shards {
  Span all;
  int peers, root, ranks;
  int32_t slices;
  int peer(int shard) const { return (root + 1 + shard) % ranks; }
  Span piece(int shard, int32_t slice) const {
    return part(part(all, peers, shard), slices, slice);
  }
};

/// The root gives each peer its shard, the peers give theirs to each other.
void broadcast(B& b, const Shards& s) {
  b.copy(s.root, B::output(s.all), B::input(s.all));
  for (int32_t j = 0; j < s.slices; j++) {
    for (int shard = 0; shard < s.peers; shard++) {
      const Span piece = s.piece(shard, j);
      b.move(s.root, B::input(piece), s.peer(shard), B::output(piece));
    }
    for (int shift = 1; shift < s.peers; shift++)
      for (int shard = 0; shard < s.peers; shard++) {
        const Range piece = B::output(s.piece(shard, j));
        b.move(s.peer(shard), piece, s.peer((shard + shift) % s.peers), piece);
      }
  }
}

/// The mirror image: each peer reduces its shard, of everybody, and gives the result to the root.
/// The root's contribution goes out over links that are idle otherwise, so that what comes back is
/// final and has the data's type.
void reduce(B& b, const Shards& s) {
  const int64_t elements = largestPart(largestPart(s.all.count, s.peers), s.slices);
  RankOrderReducer reducer(b, s.ranks, elements, s.slices);
  std::vector<Range> results;
  for (int32_t j = 0; j < s.slices && j < kSlicesInFlight; j++)
    results.push_back(b.allocate(BufferKind::kScratch, elements));
  for (int32_t j = 0; j < s.slices; j++)
    for (int shard = 0; shard < s.peers; shard++) {
      const Span piece = s.piece(shard, j);
      const Range result = B::first(results[static_cast<size_t>(j) % results.size()], piece.count);
      reducer.reduce(s.peer(shard), piece, result, j);
      b.move(s.peer(shard), result, s.root, B::output(piece));
    }
}

Schedule make(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "scatter-exchange", options.slices);
  if (b.trivial()) return b.finish();
  const Shards shards{{0, p.count},
                      p.ranks - 1,
                      p.root,
                      p.ranks,
                      usefulSlices(largestPart(p.count, p.ranks - 1), options.slices)};
  if (p.collective == Collective::kBroadcast)
    broadcast(b, shards);
  else
    reduce(b, shards);
  return b.finish();
}

std::vector<int32_t> choices(const Problem& p) {
  const int64_t bytes = p.count * p.elementBytes / std::max(1, p.ranks - 1);
  return sliceChoices(bytes, 32 << 10, 1 << 20, std::clamp(1024 / p.ranks, 1, 128));
}

}  // namespace

const Algorithm kScatterExchange{
    "scatter-exchange",
    "Broadcast: the root sends each peer a shard, which it passes on to the other peers slice by "
    "slice. Reduce: each peer reduces a shard of everybody's raw contributions in rank order and "
    "sends it to the root. The root's links carry every element once: the best for large data.",
    accepts, make, choices};

}  // namespace hpu::collectives
