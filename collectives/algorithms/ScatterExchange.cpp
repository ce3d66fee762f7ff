// SPDX-License-Identifier: Apache-2.0
// Scatter-exchange: the peers of the root have a shard each, so that all links work and the root's
// carry every element once.
#include <algorithm>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

bool accepts(const Problem& p) {
  return wellFormed(p) && (p.collective == Collective::kBroadcast || p.collective == Collective::kReduce);
}

struct Shards {
  int ranks, root, peers;
  int32_t slices;
  int64_t share;  // Elements of a shard.
  Span direct;    // What follows the shards goes between the root and each peer directly.
  int peer(int shard) const { return (root + 1 + shard) % ranks; }
  Span piece(int shard, int32_t slice) const { return part({shard * share, share}, slices, slice); }
};

Shards cut(const Problem& p, const AlgorithmOptions& options) {
  const int peers = p.ranks - 1;
  const int32_t slices = usefulSlices(largestPart(p.count, peers), options.slices);
  // A single peer has nobody to exchange with.
  const int64_t share = peers == 1 ? 0 : relayedShare(p.count, peers, slices, options.hopBytes / p.elementBytes);
  const int64_t exchanged = share * peers;
  return {p.ranks, p.root, peers, usefulSlices(share, slices), share, {exchanged, p.count - exchanged}};
}

/// The root gives each peer its shard, the peers give theirs to each other; then the rest.
void broadcast(B& b, const Shards& s) {
  const Span all{0, s.direct.end()};
  b.copy(s.root, B::output(all), B::input(all));
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
  for (int shard = 0; shard < s.peers; shard++) b.move(s.root, B::input(s.direct), s.peer(shard), B::output(s.direct));
}

/// The mirror image: the root reduces the rest while each peer reduces its shard, of everybody, and
/// gives the result to the root. The root's contribution goes out over links that are idle
/// otherwise, so that what comes back is final and has the data's type.
void reduce(B& b, const Shards& s) {
  const int64_t elements = largestPart(s.share, s.slices);
  RankOrderReducer atRoot(b, s.ranks, s.direct.count, 1);
  RankOrderReducer atPeers(b, s.ranks, elements, s.slices);
  std::vector<Range> results;
  for (int32_t j = 0; j < s.slices && j < kSlicesInFlight; j++)
    results.push_back(b.allocate(BufferKind::kScratch, elements));
  atRoot.reduce(s.root, s.direct, B::output(s.direct), 0);
  for (int32_t j = 0; j < s.slices; j++)
    for (int shard = 0; shard < s.peers; shard++) {
      const Span piece = s.piece(shard, j);
      const Range result = B::first(results[static_cast<size_t>(j) % results.size()], piece.count);
      atPeers.reduce(s.peer(shard), piece, result, j);
      b.move(s.peer(shard), result, s.root, B::output(piece));
    }
}

Schedule make(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "scatter-exchange", options.slices);
  if (b.trivial()) return b.finish();
  if (p.collective == Collective::kBroadcast)
    broadcast(b, cut(p, options));
  else
    reduce(b, cut(p, options));
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
