// SPDX-License-Identifier: Apache-2.0
// Tree: binomial, rooted at the root: the children of v (counted from the root) are v + 1, v + 2,
// v + 4 ... below v's lowest set bit, and child v + d has the ranks [v + d, v + 2d) below it.
#include <algorithm>

#include "collectives/algorithms/Algorithms.h"

namespace hpu::collectives {
namespace {

using B = ScheduleBuilder;

bool accepts(const Problem& p) {
  return wellFormed(p) && (p.collective == Collective::kBroadcast || p.collective == Collective::kReduce ||
                           p.collective == Collective::kBarrier);
}

struct Tree {
  int ranks, root;
  int rank(int v) const { return (v + root) % ranks; }
  static int parent(int v) { return v & (v - 1); }
  std::vector<int> children(int v) const {
    std::vector<int> result;
    for (int d = 1; v + d < ranks && (v == 0 || d < (v & -v)); d *= 2) result.push_back(v + d);
    return result;
  }
};

void broadcast(B& b, const Problem& p, const Tree& tree, int32_t slices) {
  b.copy(p.root, B::output({0, p.count}), B::input({0, p.count}));
  for (int32_t j = 0; j < slices; j++) {
    const Span piece = part({0, p.count}, slices, j);
    for (int v = 1; v < p.ranks; v++) {  // A parent comes before its children.
      const int parent = Tree::parent(v);
      b.move(tree.rank(parent), parent == 0 ? B::input(piece) : B::output(piece), tree.rank(v), B::output(piece));
    }
  }
}

/// A rank reduces its own contribution and then its children's sums, nearest first, which is the
/// order of ranks counted from the root.
void reduce(B& b, const Problem& p, const Tree& tree, int32_t slices) {
  const int64_t elements = largestPart(p.count, slices);
  const size_t levels = tree.children(0).size();
  const auto turns = static_cast<size_t>(std::min(slices, kSlicesInFlight));
  std::vector<Range> raw, partial, own;  // Of a leaf; of a subtree, by turn and level; to send.
  for (size_t i = 0; i < turns; i++) {
    own.push_back(b.allocate(BufferKind::kPartial, elements));
    for (size_t level = 0; level < levels; level++) {
      raw.push_back(b.allocate(BufferKind::kScratch, elements));
      partial.push_back(b.allocate(BufferKind::kPartial, elements));
    }
  }
  for (int32_t j = 0; j < slices; j++) {
    const Span piece = part({0, p.count}, slices, j);
    const size_t turn = static_cast<size_t>(j) % turns;
    for (int v = p.ranks - 1; v >= 0; v--) {
      const int rank = tree.rank(v);
      std::vector<Range> sources{B::contribution(piece, rank)};
      size_t slot = turn * levels;
      for (const int child : tree.children(v)) {
        const bool leaf = tree.children(child).empty();
        const int from = tree.rank(child);
        const Range there = leaf ? B::first(raw[slot], piece.count, from) : B::first(partial[slot], piece.count);
        b.move(from, leaf ? B::input(piece) : B::first(own[turn], piece.count), rank, there);
        sources.push_back(there);
        slot++;
      }
      if (v == 0)
        b.reduce(rank, B::output(piece), sources);
      else if (sources.size() > 1)
        b.reduce(rank, B::first(own[turn], piece.count), sources);
    }
  }
}

/// Up to the root and down again.
void barrier(B& b, const Problem& p, const Tree& tree) {
  std::vector<std::vector<int32_t>> heard(static_cast<size_t>(p.ranks));
  for (int v = p.ranks - 1; v > 0; v--) {
    const auto parent = static_cast<size_t>(Tree::parent(v));
    heard[parent].push_back(b.signal(tree.rank(v), tree.rank(Tree::parent(v)), heard[static_cast<size_t>(v)]));
  }
  for (int v = 1; v < p.ranks; v++) {
    const auto parent = static_cast<size_t>(Tree::parent(v));
    heard[static_cast<size_t>(v)] = {b.signal(tree.rank(Tree::parent(v)), tree.rank(v), heard[parent])};
  }
}

Schedule make(const Problem& p, const AlgorithmOptions& options) {
  B b(p, "tree", options.slices);
  if (b.trivial()) return b.finish();
  const Tree tree{p.ranks, p.collective == Collective::kBarrier ? 0 : p.root};
  const int32_t slices = usefulSlices(p.count, options.slices);
  if (p.collective == Collective::kBarrier)
    barrier(b, p, tree);
  else if (p.collective == Collective::kBroadcast)
    broadcast(b, p, tree, slices);
  else
    reduce(b, p, tree, slices);
  return b.finish();
}

std::vector<int32_t> choices(const Problem& p) {
  if (p.collective == Collective::kBarrier) return {1};
  return sliceChoices(p.count * p.elementBytes, 64 << 10, 4 << 20, 64);
}

}  // namespace

const Algorithm kTree{"tree",
                      "A binomial tree from the root. A reduction adds up subtrees in the order of ranks counted "
                      "from "
                      "the root, in the accumulator's type. Few messages a rank; good where sending one costs much.",
                      accepts, make, choices};

}  // namespace hpu::collectives
