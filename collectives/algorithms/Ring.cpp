// SPDX-License-Identifier: Apache-2.0
// Ring: every rank sends to the next one only. Sums travel along as partial results.
#include <algorithm>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

/// Sums that travel along the ring and end at their owners. Hop h (from 0) of what `owner` owns
/// starts at rank owner + 1 + h.
class Sums {
 public:
  /// `turns`: how many slices have room at once.
  Sums(B& b, int ranks, int64_t elements, int32_t turns) : b_(b), ranks_(ranks) {
    for (int32_t j = 0; j < turns; j++) {
      raw_.push_back(b.allocate(BufferKind::kScratch, elements));
      came_.push_back(b.allocate(BufferKind::kPartial, elements));
      // Two, by turns: one is on its way while the next is made.
      for (int i = 0; i < 2; i++) sum_.push_back(b.allocate(BufferKind::kPartial, elements));
    }
  }
  /// The last hop, ranks - 2, makes the result.
  void hop(int owner, int h, Span from, const Range& dst, int32_t slice) {
    const size_t j = static_cast<size_t>(slice) % raw_.size();
    const int sender = (owner + 1 + h) % ranks_, receiver = (sender + 1) % ranks_;
    auto sum = [&](int at) { return B::first(sum_[2 * j + static_cast<size_t>(at % 2)], from.count); };
    const Range came = h == 0 ? B::first(raw_[j], from.count, sender) : B::first(came_[j], from.count);
    b_.move(sender, h == 0 ? B::input(from) : sum(h - 1), receiver, came);
    b_.reduce(receiver, h == ranks_ - 2 ? dst : sum(h), {came, B::contribution(from, receiver)});
  }

 private:
  B& b_;
  int ranks_;
  std::vector<Range> raw_, came_, sum_;
};

/// Block r of `blocks` ends reduced at rank r. `from` and `dst` give the ranges of a slice.
template <typename From, typename Dst>
void reduceScatter(B& b, const Problem& p, int64_t largest, int32_t slices, From from, Dst dst) {
  Sums sums(b, p.ranks, largest, slices);
  for (int h = 0; h < p.ranks - 1; h++)
    for (int32_t j = 0; j < slices; j++)
      for (int owner = 0; owner < p.ranks; owner++) sums.hop(owner, h, from(owner, j), dst(owner, j), j);
}

/// Blocks that lie at their owners go around.
template <typename Block>
void allGather(B& b, const Problem& p, int32_t slices, Block block) {
  for (int h = 0; h < p.ranks - 1; h++)
    for (int32_t j = 0; j < slices; j++)
      for (int owner = 0; owner < p.ranks; owner++) {
        const Range piece = B::output(block(owner, j));
        b.move((owner + h) % p.ranks, piece, (owner + h + 1) % p.ranks, piece);
      }
}

void broadcast(B& b, const Problem& p, int32_t slices) {
  b.copy(p.root, B::output({0, p.count}), B::input({0, p.count}));
  for (int32_t j = 0; j < slices; j++)
    for (int h = 0; h < p.ranks - 1; h++) {
      const Span piece = part({0, p.count}, slices, j);
      b.move((p.root + h) % p.ranks, h == 0 ? B::input(piece) : B::output(piece), (p.root + h + 1) % p.ranks,
             B::output(piece));
    }
}

void reduce(B& b, const Problem& p, int32_t slices) {
  Sums sums(b, p.ranks, largestPart(p.count, slices), std::min(slices, kSlicesInFlight));
  for (int32_t j = 0; j < slices; j++)
    for (int h = 0; h < p.ranks - 1; h++) {
      const Span piece = part({0, p.count}, slices, j);
      sums.hop(p.root, h, piece, B::output(piece), j);
    }
}

bool accepts(const Problem& p) {
  switch (p.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kReduce:
      return wellFormed(p);
    default:
      return false;
  }
}

Schedule make(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "ring", options.slices);
  if (b.trivial()) return b.finish();
  const int32_t slices = usefulSlices(p.count, options.slices);
  const int64_t largest = largestPart(p.count, slices);
  auto shard = [&](int owner, int32_t j) { return part(part({0, p.count}, p.ranks, owner), slices, j); };
  auto slice = [&](int, int32_t j) { return part({0, p.count}, slices, j); };
  auto block = [&](int owner, int32_t j) {
    const Span piece = slice(owner, j);
    return Span{owner * p.count + piece.offset, piece.count};
  };
  auto out = [](auto span) { return [span](int owner, int32_t j) { return B::output(span(owner, j)); }; };
  switch (p.collective) {
    case Collective::kAllReduce:
      reduceScatter(b, p, largestPart(largestPart(p.count, p.ranks), slices), slices, shard, out(shard));
      allGather(b, p, slices, shard);
      break;
    case Collective::kReduceScatter:
      reduceScatter(b, p, largest, slices, block, out(slice));
      break;
    case Collective::kAllGather:
      for (int rank = 0; rank < p.ranks; rank++)
        b.copy(rank, B::output({rank * p.count, p.count}), B::input({0, p.count}));
      allGather(b, p, slices, block);
      break;
    case Collective::kBroadcast:
      broadcast(b, p, slices);
      break;
    default:
      reduce(b, p, slices);
  }
  return b.finish();
}

std::vector<int32_t> choices(const Problem& p) {
  const bool shards = p.collective == Collective::kAllReduce;
  const int64_t bytes = p.count * p.elementBytes / (shards ? p.ranks : 1);
  const int32_t most = p.collective == Collective::kBroadcast || p.collective == Collective::kReduce
                           ? 64
                           : std::clamp(128 / p.ranks, 1, 16);
  return sliceChoices(bytes, 64 << 10, 4 << 20, most);
}

}  // namespace

const Algorithm kRing{"ring",
                      "Data goes round the ring of ranks over one link of each. The sum of a block starts at the "
                      "rank "
                      "after its owner and is added up in ring order, in the accumulator's type. For nodes whose "
                      "ranks have one link to the next.",
                      accepts, make, choices};

}  // namespace hpu::collectives
