// SPDX-License-Identifier: Apache-2.0
// Rails, one shot: as few messages behind each other as there can be: one over the mesh and one over a rail. Every rank
// gets all that it needs at once and reduces it itself, so the rails carry more than they must.
#include <algorithm>
#include <utility>

#include "collectives/scaleout/Plans.h"

namespace hpu::collectives {
namespace {

/// So many nodes are told at once; beginning a message costs far less than waiting for one.
constexpr int32_t kSignalsAtOnce = 32;

class OneShot {
 public:
  explicit OneShot(ProgramBuilder& b)
      : b_(b),
        n_(b.position().node),
        l_(b.position().local),
        nodes_(b.map().nodes()),
        locals_(b.map().ranksPerNode()),
        count_(b.problem().count) {}

  /// Every rank reduces the node's contributions, in the order of their indices, and then the nodes' results in theirs.
  void allReduce() {
    const Part own = b_.input(0, 1, count_), result = b_.output(0, 1, count_);
    std::vector<Part> contributions(static_cast<size_t>(locals_));
    contributions[static_cast<size_t>(l_)] = own.of(b_.rank());
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t from = (l_ + locals_ - s) % locals_;
      b_.send(local(s), own);
      const Part room = b_.room(BufferKind::kScratch, count_).of(b_.map().rankAt(n_, from));
      b_.receive(local(-s), room);
      contributions[static_cast<size_t>(from)] = room;
    }
    // Also of one rank: in place the result overwrites the input, which others may read where it lies.
    const Part sum = b_.room(BufferKind::kPartial, count_);
    b_.reduce(sum, contributions);
    std::vector<Part> sources(static_cast<size_t>(nodes_));
    sources[static_cast<size_t>(n_)] = sum;
    for (int32_t d = 1; d < nodes_; d++) {
      const int32_t from = (n_ + nodes_ - d) % nodes_;
      b_.send(node(d), sum);
      const Part room = b_.room(BufferKind::kPartial, count_);
      b_.receive(node(-d), room);
      sources[static_cast<size_t>(from)] = room;
    }
    b_.reduce(result, sources);
  }

  /// By the rails first: the blocks of a node's ranks are contiguous, and of each index one rank sends all of them.
  void reduceScatter() {
    const int64_t all = count_ * locals_;
    const auto blocks = [&](int32_t node) { return b_.input(node * locals_, (node + 1) * locals_, all); };
    std::vector<Part> sources(static_cast<size_t>(nodes_));
    sources[static_cast<size_t>(n_)] = blocks(n_).of(b_.rank());
    for (int32_t d = 1; d < nodes_; d++) {
      const int32_t from = (n_ + nodes_ - d) % nodes_;
      b_.send(node(d), blocks((n_ + d) % nodes_));
      const Part room = b_.room(BufferKind::kScratch, all).of(b_.map().rankAt(from, l_));
      b_.receive(node(-d), room);
      sources[static_cast<size_t>(from)] = room;
    }
    const Part result = b_.output(0, 1, count_);
    if (locals_ == 1) return b_.reduce(result, sources);
    const Part sums = b_.room(BufferKind::kPartial, all, locals_);
    b_.reduce(sums, sources);
    const auto block = [&](int32_t l) { return ProgramBuilder::inside(sums, l, l + 1, l * count_, count_, count_); };
    std::vector<Part> partial(static_cast<size_t>(locals_));
    partial[static_cast<size_t>(l_)] = block(l_);
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(local(s), block((l_ + s) % locals_));
      const Part room = b_.room(BufferKind::kPartial, count_);
      b_.receive(local(-s), room);
      partial[static_cast<size_t>((l_ + locals_ - s) % locals_)] = room;
    }
    b_.reduce(result, partial);
  }

  /// First in the node; then each rank knows of its node, and in each round of more nodes: dissemination.
  void barrier() {
    for (int32_t s = 1; s < locals_; s++) b_.sendSignal(local(s));
    for (int32_t s = 1; s < locals_; s++) b_.receiveSignal(local(-s));
    for (int64_t known = 1; known < nodes_; known *= kSignalsAtOnce) {
      std::vector<int32_t> shifts;
      for (int32_t i = 1; i < kSignalsAtOnce && i * known < nodes_; i++)
        shifts.push_back(static_cast<int32_t>(i * known));
      for (const int32_t shift : shifts) b_.sendSignal(node(shift));
      for (const int32_t shift : shifts) b_.receiveSignal(node(-shift));
    }
  }

 private:
  ProgramBuilder& b_;
  const int32_t n_, l_, nodes_, locals_;
  const int64_t count_;
};

bool accepts(const Problem& p, const RankMap& map) {
  if (!isUniform(p, map)) return false;
  return p.collective == Collective::kAllReduce || p.collective == Collective::kBarrier ||
         (p.collective == Collective::kReduceScatter && isNodeMajor(map));
}

std::unique_ptr<Plan> make(const Problem& p, const RankMap& map, const PlanOptions&) {
  PlanSpec spec;
  spec.problem = p;
  spec.map = &map;
  spec.algorithm = "rails-one-shot";
  spec.grid = CellGrid{p.count, {0, p.count}};
  spec.write = [](ProgramBuilder& b) {
    OneShot program(b);
    switch (b.problem().collective) {
      case Collective::kAllReduce:
        return program.allReduce();
      case Collective::kReduceScatter:
        return program.reduceScatter();
      default:
        return program.barrier();
    }
  };
  return makePlan(std::move(spec));
}

std::vector<int32_t> chunkChoices(const Problem&, const RankMap&, const Fabric&) {
  return {1};
}

}  // namespace

const PlanAlgorithm kRailsOneShot{
    "rails-one-shot",
    "One message over the mesh and one over a rail behind each other; every rank reduces what it needs by itself. The "
    "least latency, for small data.",
    accepts,
    make,
    chunkChoices,
    estimateOneShotPs};

}  // namespace hpu::collectives
