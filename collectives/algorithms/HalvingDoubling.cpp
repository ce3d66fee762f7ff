// SPDX-License-Identifier: Apache-2.0
// Halving-doubling: reduce-scatter by exchanging halves with ever nearer partners, all-gather by
// doubling what one has. Ranks beyond a power of two are folded: of the first pairs, the odd rank
// gives everything to the even one and takes no part until the end.
#include <bit>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

class HalvingDoubling {
 public:
  /// `bound(r)`: where rank r's block of the whole begins; of `ranks` where the last one ends.
  template <typename Bound>
  HalvingDoubling(B& b, int ranks, Bound bound)
      : b_(b), parts_(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), folded_(ranks - parts_) {
    for (int v = 0; v <= parts_; v++) bounds_.push_back(bound(v == parts_ ? ranks : rankOf(v)));
    all_ = {bounds_.front(), bounds_.back() - bounds_.front()};
  }

  int parts() const { return parts_; }
  bool isFolded(int v) const { return v < folded_; }
  int rankOf(int v) const { return v < folded_ ? 2 * v : v + folded_; }
  /// Blocks of [v, v + number).
  Span blocks(int v, int number) const {
    const int64_t begin = bounds_[static_cast<size_t>(v)];
    return {begin, bounds_[static_cast<size_t>(v + number)] - begin};
  }

  /// Reduces block v of the whole at rank rankOf(v), where finish(v, sources of it) ends it;
  /// `sources(span)` are the ranges of a part of the block.
  template <typename Finish>
  void halve(Finish finish) {
    std::vector<Range> values;  // By v: what is reduced so far; input when nothing is.
    foldIn(values);
    int64_t largest = 0;
    for (int distance = parts_ / 2; distance >= 1; distance /= 2) {
      largest = 0;
      for (int v = 0; v < parts_; v += distance) largest = std::max(largest, blocks(v, distance).count);
      const Range raw = b_.allocate(BufferKind::kScratch, largest);
      const Range came = b_.allocate(BufferKind::kPartial, largest);
      const Range sum = b_.allocate(BufferKind::kPartial, distance > 1 ? largest : 0);
      for (int v = 0; v < parts_; v++) {
        const Span mine = blocks(v / distance * distance, distance);
        const int partner = v ^ distance;
        const Range theirs = slice(values, partner, 2 * distance, mine);
        const bool isRaw = theirs.buffer == BufferKind::kInput;
        const Range there = B::first(isRaw ? raw : came, mine.count, theirs.contributor);
        b_.move(rankOf(partner), theirs, rankOf(v), there);
        arrived_.push_back(there);
      }
      for (int v = 0; v < parts_; v++) {
        const Span mine = blocks(v / distance * distance, distance);
        const Range own = slice(values, v, 2 * distance, mine);
        const Range there = arrived_[static_cast<size_t>(v)];
        auto sources = [&](Span span) {
          std::vector<Range> result{cut(own, mine, span), cut(there, mine, span)};
          if ((v & distance) != 0) std::swap(result[0], result[1]);  // The lower rank first.
          return result;
        };
        if (distance == 1)
          finish(v, sources);
        else
          b_.reduce(rankOf(v), B::first(sum, mine.count), sources(mine));
      }
      arrived_.clear();
      if (distance > 1)
        for (int v = 0; v < parts_; v++)
          values[static_cast<size_t>(v)] = B::first(sum, blocks(v / distance * distance, distance).count);
    }
  }

  /// Spreads the blocks, each in place in the output of its rank.
  void doubleUp() {
    for (int distance = 1; distance < parts_; distance *= 2)
      for (int v = 0; v < parts_; v++) {
        const Range block = B::output(blocks(v / distance * distance, distance));
        b_.move(rankOf(v), block, rankOf(v ^ distance), block);
      }
  }

 private:
  B& b_;
  int parts_, folded_;
  std::vector<int64_t> bounds_;
  Span all_;
  std::vector<Range> arrived_;

  static Range cut(Range range, Span of, Span span) {
    return {range.buffer, range.offset + span.offset - of.offset, span.count, range.contributor};
  }
  /// A part of what v has reduced so far: of the blocks of its group of `group`.
  Range slice(const std::vector<Range>& values, int v, int group, Span span) const {
    return cut(values[static_cast<size_t>(v)], blocks(v / group * group, group), span);
  }

  void foldIn(std::vector<Range>& values) {
    const Range raw = b_.allocate(BufferKind::kScratch, folded_ > 0 ? all_.count : 0);
    const Range sum = b_.allocate(BufferKind::kPartial, folded_ > 0 ? all_.count : 0);
    for (int v = 0; v < parts_; v++) {
      const int rank = rankOf(v);
      const Range own = B::contribution(all_, rank);
      values.push_back(isFolded(v) ? sum : own);
      if (!isFolded(v)) continue;
      const Range there = B::first(raw, all_.count, rank + 1);
      b_.move(rank + 1, B::input(all_), rank, there);
      b_.reduce(rank, B::first(sum, all_.count), {own, there});
    }
  }
};

void allReduce(B& b, const Problem& p) {
  const Span all{0, p.count};
  const int parts = static_cast<int>(std::bit_floor(static_cast<unsigned>(p.ranks)));
  const int folded = p.ranks - parts;
  HalvingDoubling h(b, p.ranks, [&](int rank) {
    const int v = rank < 2 * folded ? rank / 2 : rank - folded;
    return v == parts ? p.count : part(all, parts, v).offset;
  });
  h.halve([&](int v, auto sources) {
    const Span mine = h.blocks(v, 1);
    b.reduce(h.rankOf(v), B::output(mine), sources(mine));
  });
  h.doubleUp();
  for (int v = 0; v < folded; v++) b.move(h.rankOf(v), B::output(all), h.rankOf(v) + 1, B::output(all));
}

void reduceScatter(B& b, const Problem& p) {
  HalvingDoubling h(b, p.ranks, [&](int rank) { return rank * p.count; });
  const Range other = b.allocate(BufferKind::kScratch, p.count);
  h.halve([&](int v, auto sources) {
    const int rank = h.rankOf(v);
    b.reduce(rank, B::output({0, p.count}), sources(Span{rank * p.count, p.count}));
    if (!h.isFolded(v)) return;
    b.reduce(rank, other, sources(Span{(rank + 1) * p.count, p.count}));
    b.move(rank, other, rank + 1, B::output({0, p.count}));
  });
}

void allGather(B& b, const Problem& p) {
  HalvingDoubling h(b, p.ranks, [&](int rank) { return rank * p.count; });
  const Range mine = B::input({0, p.count});
  for (int rank = 0; rank < p.ranks; rank++) b.copy(rank, B::output({rank * p.count, p.count}), mine);
  for (int v = 0; v < h.parts(); v++)
    if (h.isFolded(v)) b.move(h.rankOf(v) + 1, mine, h.rankOf(v), B::output({(h.rankOf(v) + 1) * p.count, p.count}));
  h.doubleUp();
  for (int v = 0; v < h.parts(); v++) {
    if (!h.isFolded(v)) continue;
    const int rank = h.rankOf(v);
    const Range before = B::output({0, (rank + 1) * p.count});
    const Range behind = B::output({(rank + 2) * p.count, (p.ranks - rank - 2) * p.count});
    b.move(rank, before, rank + 1, before);
    b.move(rank, behind, rank + 1, behind);
  }
}

bool accepts(const Problem& p) {
  return wellFormed(p) && (p.collective == Collective::kAllReduce || p.collective == Collective::kReduceScatter ||
                           p.collective == Collective::kAllGather);
}

Schedule make(const Problem& p, const AlgorithmOptions&) {
  B b(p, "halving-doubling", 1);
  if (b.trivial()) return b.finish();
  if (p.collective == Collective::kAllReduce)
    allReduce(b, p);
  else if (p.collective == Collective::kReduceScatter)
    reduceScatter(b, p);
  else
    allGather(b, p);
  return b.finish();
}

std::vector<int32_t> choices(const Problem&) {
  return {1};
}

}  // namespace

const Algorithm kHalvingDoubling{
    "halving-doubling",
    "Partners at distances n/2 .. 1 exchange and reduce halves, then double what they have: 2 log2 "
    "n "
    "messages a rank. Sums are a balanced tree over the ranks, lower ranks first, in the "
    "accumulator's type; of a number that is no power of two, the first pairs are added up before.",
    accepts, make, choices};

}  // namespace hpu::collectives
