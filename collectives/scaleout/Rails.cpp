// SPDX-License-Identifier: Apache-2.0
// Rails: what goes to another node leaves by the rail of the rank that has the destination's index there, so all rails
// of a node work and none is used twice. In a node data goes over the mesh, between nodes pairwise among the ranks of
// one index; chunks are in different phases at a time.
#include <algorithm>
#include <utility>

#include "collectives/scaleout/Plans.h"

namespace hpu::collectives {
namespace {

/// How many stages may have data on its way to their reduction, or to the next hop; more of small ones.
constexpr int32_t kStagesInFlight = 4;
constexpr int64_t kBytesInFlight = 8 << 20;

int32_t stagesInFlight(int64_t stages, int64_t bytesOfStage) {
  const int64_t most = std::max<int64_t>(kStagesInFlight, kBytesInFlight / std::max<int64_t>(1, bytesOfStage));
  return static_cast<int32_t>(std::clamp<int64_t>(most, 1, stages));
}

struct Grid {
  int32_t nodes, locals;
};

/// Rooms that take turns.
class Turns {
 public:
  Turns(ProgramBuilder& b, BufferKind kind, int64_t largest, int32_t number, int64_t cells = 1) {
    for (int32_t i = 0; i < number; i++) rooms_.push_back(b.room(kind, largest, cells));
  }
  const Part& operator[](int64_t i) const { return rooms_[static_cast<size_t>(i) % rooms_.size()]; }

 private:
  std::vector<Part> rooms_;
};

Part priced(Part part, int64_t elements, int64_t largest) {
  part.range.count = elements;
  part.largest = largest;
  return part;
}

// --- All-reduce ---

/// Cells: chunk, index in the node, node.
struct AllReduceCut {
  Grid grid;
  CellGrid cells;
  std::vector<int64_t> shares, pieces;  // By chunk: the largest of an index, and of an index and node.

  int64_t cell(int64_t chunk, int32_t index, int32_t node) const {
    return (chunk * grid.locals + index) * grid.nodes + node;
  }
};

AllReduceCut cutAllReduce(const Problem& p, Grid grid, int32_t chunks) {
  AllReduceCut cut{grid, {}, {}, {}};
  const std::vector<int64_t> chunk = cutByWeights(p.count, rampedWeights(chunks));
  cut.cells.blockElements = p.count;
  for (size_t c = 0; c + 1 < chunk.size(); c++) {
    int64_t share = 0, piece = 0;
    const Span whole{chunk[c], chunk[c + 1] - chunk[c]};
    for (int32_t l = 0; l < grid.locals; l++) {
      const Span ofIndex = part(whole, grid.locals, l);
      share = std::max(share, ofIndex.count);
      for (int32_t n = 0; n < grid.nodes; n++) {
        const Span ofNode = part(ofIndex, grid.nodes, n);
        piece = std::max(piece, ofNode.count);
        cut.cells.boundaries.push_back(ofNode.end());
      }
    }
    cut.shares.push_back(share);
    cut.pieces.push_back(piece);
  }
  return cut;
}

class AllReduce {
 public:
  AllReduce(ProgramBuilder& b, const AllReduceCut& cut)
      : b_(b),
        cut_(cut),
        n_(b.position().node),
        l_(b.position().local),
        nodes_(cut.grid.nodes),
        locals_(cut.grid.locals),
        chunks_(static_cast<int64_t>(cut.shares.size())),
        alone_(locals_ == 1),
        raw_(b, BufferKind::kScratch, largest(cut.shares), turns() * (locals_ - 1)),
        sums_(b, BufferKind::kPartial, alone_ ? 0 : largest(cut.shares), alone_ ? 0 : turns(), nodes_),
        others_(b, alone_ ? BufferKind::kScratch : BufferKind::kPartial, largest(cut.pieces), turns() * (nodes_ - 1)) {}

  void write() {
    // A pair's messages go in the order of the steps: what comes later in the pipeline of an earlier chunk is written
    // after what comes sooner of a later one.
    for (int64_t t = 0; t < chunks_ + 3; t++) {
      if (t < chunks_) reduceInNode(t);
      if (t >= 1 && t - 1 < chunks_) reduceAmongNodes(t - 1);
      if (t >= 2 && t - 2 < chunks_) gatherAmongNodes(t - 2);
      if (t >= 3) gatherInNode(t - 3);
    }
  }

 private:
  ProgramBuilder& b_;
  const AllReduceCut& cut_;
  int32_t n_, l_, nodes_, locals_;
  int64_t chunks_;
  bool alone_;  // Nodes of one rank: raw contributions travel.
  Turns raw_, sums_, others_;

  static int64_t largest(const std::vector<int64_t>& sizes) { return *std::max_element(sizes.begin(), sizes.end()); }
  int32_t turns() const { return static_cast<int32_t>(std::min<int64_t>(chunks_, kStagesInFlight)); }

  Part share(BufferKind kind, int64_t c, int32_t index) const {
    const int64_t first = cut_.cell(c, index, 0), last = first + nodes_;
    const int64_t largest = cut_.shares[static_cast<size_t>(c)];
    return kind == BufferKind::kInput ? b_.input(first, last, largest) : b_.output(first, last, largest);
  }
  Part piece(BufferKind kind, int64_t c, int32_t node) const {
    const int64_t cell = cut_.cell(c, l_, node), largest = cut_.pieces[static_cast<size_t>(c)];
    return kind == BufferKind::kInput ? b_.input(cell, cell + 1, largest) : b_.output(cell, cell + 1, largest);
  }
  /// What this node has of a piece: a partial result, or the contribution of its only rank.
  Part ofThisNode(int64_t c, int32_t node) const {
    if (alone_) return piece(BufferKind::kInput, c, node).of(b_.rank());
    const Part whole = share(BufferKind::kInput, c, l_), own = piece(BufferKind::kInput, c, node);
    return ProgramBuilder::inside(sums_[c], node, node + 1, own.range.offset - whole.range.offset, own.range.count,
                                  own.largest);
  }

  void reduceInNode(int64_t c) {
    if (alone_) return;
    const Part own = share(BufferKind::kInput, c, l_);
    std::vector<Part> sources(static_cast<size_t>(locals_));
    sources[static_cast<size_t>(l_)] = own.of(b_.rank());
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(local(s), share(BufferKind::kInput, c, (l_ + s) % locals_));
      const int32_t from = (l_ + locals_ - s) % locals_;
      const Part room =
          priced(raw_[c % turns() * (locals_ - 1) + s - 1], own.range.count, own.largest).of(b_.map().rankAt(n_, from));
      b_.receive(local(-s), room);
      sources[static_cast<size_t>(from)] = room;
    }
    b_.reduce(priced(sums_[c], own.range.count, own.largest), sources);
  }

  void reduceAmongNodes(int64_t c) {
    const Part own = piece(BufferKind::kOutput, c, n_);
    std::vector<Part> sources(static_cast<size_t>(nodes_));
    sources[static_cast<size_t>(n_)] = ofThisNode(c, n_);
    for (int32_t d = 1; d < nodes_; d++) {
      b_.send(node(d), ofThisNode(c, (n_ + d) % nodes_));
      const int32_t from = (n_ + nodes_ - d) % nodes_;
      Part room = priced(others_[c % turns() * (nodes_ - 1) + d - 1], own.range.count, own.largest);
      if (alone_) room = room.of(b_.map().rankAt(from, l_));
      b_.receive(node(-d), room);
      sources[static_cast<size_t>(from)] = room;
    }
    b_.reduce(own, sources);
  }

  void gatherAmongNodes(int64_t c) {
    for (int32_t d = 1; d < nodes_; d++) {
      b_.send(node(d), piece(BufferKind::kOutput, c, n_));
      b_.receive(node(-d), piece(BufferKind::kOutput, c, (n_ + nodes_ - d) % nodes_));
    }
  }

  void gatherInNode(int64_t c) {
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(local(s), share(BufferKind::kOutput, c, l_));
      b_.receive(local(-s), share(BufferKind::kOutput, c, (l_ + locals_ - s) % locals_));
    }
  }
};

// --- What has a block for each rank ---

struct BlockCut {
  Grid grid;
  CellGrid cells;  // Chunks of a block.
  int64_t largest = 0;
  int64_t chunks() const { return cells.cells(); }
  int64_t sizeOf(int64_t chunk) const {
    return cells.boundaries[static_cast<size_t>(chunk) + 1] - cells.boundaries[static_cast<size_t>(chunk)];
  }
};

BlockCut cutBlocks(const Problem& p, Grid grid, int32_t chunks) {
  BlockCut cut{grid, {p.count, cutByWeights(p.count, taperedWeights(chunks))}, 0};
  cut.largest = largestPiece(cut.cells.boundaries);
  return cut;
}

class Blocks {
 public:
  Blocks(ProgramBuilder& b, const BlockCut& cut)
      : b_(b),
        cut_(cut),
        n_(b.position().node),
        l_(b.position().local),
        nodes_(cut.grid.nodes),
        locals_(cut.grid.locals),
        chunks_(cut.chunks()) {}

 protected:
  ProgramBuilder& b_;
  const BlockCut& cut_;
  const int32_t n_, l_, nodes_, locals_;
  const int64_t chunks_;

  int32_t nodeAt(int32_t shift) const { return (n_ + nodes_ + shift % nodes_) % nodes_; }
  int32_t localAt(int32_t shift) const { return (l_ + locals_ + shift % locals_) % locals_; }
  int64_t cell(int32_t node, int32_t local, int64_t c) const { return b_.map().rankAt(node, local) * chunks_ + c; }
  Part input(int32_t node, int32_t local, int64_t c) const {
    return b_.input(cell(node, local, c), cell(node, local, c) + 1, cut_.sizeOf(c));
  }
  Part output(int32_t node, int32_t local, int64_t c) const {
    return b_.output(cell(node, local, c), cell(node, local, c) + 1, cut_.sizeOf(c));
  }
};

/// A stage is a node that the result goes to, and a chunk of it: its blocks are reduced in this node, each at the rank
/// with the index of the block's rank, which sends the partial result on. What comes from another node is added to a
/// sum at once, because its sender cannot use the room that it was sent from before. This node's own blocks are the
/// last.
class ReduceScatter : Blocks {
 public:
  ReduceScatter(ProgramBuilder& b, const BlockCut& cut)
      : Blocks(b, cut),
        alone_(locals_ == 1),
        turns_(stagesInFlight(nodes_ * chunks_, cut.largest * locals_ * b.problem().elementBytes)),
        raw_(b, BufferKind::kScratch, cut.largest, turns_ * (locals_ - 1)),
        sums_(b, BufferKind::kPartial, cut.largest, alone_ ? 0 : turns_),
        arrived_(b, alone_ ? BufferKind::kScratch : BufferKind::kPartial, cut.largest, turns_) {
    for (int64_t c = 0; c < chunks_; c++) others_.push_back(b.room(BufferKind::kPartial, cut.sizeOf(c)));
  }

  void write() {
    const int64_t stages = (nodes_ - 1) * chunks_;
    for (int64_t stage = 0; stage < stages; stage++) {
      sumInNode(stage);
      pass(stage);
    }
    for (int64_t c = 0; c < chunks_; c++) {
      std::vector<Part> sources = contributions(stages + c, n_, c);
      sources.push_back(others_[static_cast<size_t>(c)]);
      b_.reduce(b_.output(c, c + 1, cut_.sizeOf(c)), sources);
    }
  }

 private:
  bool alone_;
  int32_t turns_;
  Turns raw_, sums_, arrived_;
  std::vector<Part> others_;  // By chunk: the sum of the other nodes.

  /// The contributions of this node's ranks to the block of the rank with this index at a node.
  std::vector<Part> contributions(int64_t stage, int32_t node, int64_t c) {
    std::vector<Part> sources(static_cast<size_t>(locals_));
    sources[static_cast<size_t>(l_)] = input(node, l_, c).of(b_.rank());
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(local(s), input(node, localAt(s), c));
      const int32_t from = localAt(-s);
      const Part room = priced(raw_[stage % turns_ * (locals_ - 1) + s - 1], cut_.sizeOf(c), cut_.sizeOf(c))
                            .of(b_.map().rankAt(n_, from));
      b_.receive(local(-s), room);
      sources[static_cast<size_t>(from)] = room;
    }
    return sources;
  }

  void sumInNode(int64_t stage) {
    if (alone_) return;
    const int64_t c = stage % chunks_;
    const int32_t to = nodeAt(static_cast<int32_t>(stage / chunks_) + 1);
    const std::vector<Part> sources = contributions(stage, to, c);
    b_.reduce(priced(sums_[stage], cut_.sizeOf(c), cut_.sizeOf(c)), sources);
  }

  void pass(int64_t stage) {
    const int64_t c = stage % chunks_, size = cut_.sizeOf(c);
    const auto d = static_cast<int32_t>(stage / chunks_) + 1;
    b_.send(node(d), alone_ ? input(nodeAt(d), l_, c) : priced(sums_[stage], size, size));
    Part room = priced(arrived_[stage], size, size);
    if (alone_) room = room.of(b_.map().rankAt(nodeAt(-d), l_));
    b_.receive(node(-d), room);
    const Part& sum = others_[static_cast<size_t>(c)];
    b_.reduce(sum, d == 1 ? std::vector<Part>{room} : std::vector<Part>{sum, room});
  }
};

class AllGather : Blocks {
 public:
  AllGather(ProgramBuilder& b, const BlockCut& cut) : Blocks(b, cut) {}

  void write() {
    for (int32_t d = 1; d < nodes_; d++)
      for (int64_t c = 0; c < chunks_; c++) b_.send(node(d), own(c));
    for (int64_t c = 0; c < chunks_; c++) {
      b_.copy(output(n_, l_, c), own(c));
      for (int32_t s = 1; s < locals_; s++) {
        b_.send(local(s), own(c));
        b_.receive(local(-s), output(n_, localAt(-s), c));
      }
    }
    for (int32_t d = 1; d < nodes_; d++)
      for (int64_t c = 0; c < chunks_; c++) {
        const int32_t from = nodeAt(-d);
        b_.receive(node(-d), output(from, l_, c));
        for (int32_t s = 1; s < locals_; s++) {
          b_.send(local(s), output(from, l_, c));
          b_.receive(local(-s), output(from, localAt(-s), c));
        }
      }
  }

 private:
  Part own(int64_t c) const { return b_.input(c, c + 1, cut_.sizeOf(c)); }
};

/// A stage is a node that the blocks go to, and a chunk of them: each rank gets the blocks for the rank of its own
/// index there from the ranks of its node, and sends them on.
class AllToAll : Blocks {
 public:
  /// `merged`: the blocks of a node's ranks are contiguous in the output.
  AllToAll(ProgramBuilder& b, const BlockCut& cut, bool merged)
      : Blocks(b, cut),
        merged_(merged),
        rooms_(b, BufferKind::kScratch, locals_ > 1 ? cut.largest * locals_ : 0,
               stagesInFlight((nodes_ - 1) * chunks_, cut.largest * locals_ * b.problem().elementBytes), locals_) {}

  void write() {
    int64_t stage = 0;
    for (int32_t d = 1; d < nodes_; d++)
      for (int64_t c = 0; c < chunks_; c++, stage++) {
        collect(stage, d, c);
        pass(stage, d, c);
        if (d == 1) inNode(c);
      }
  }

 private:
  bool merged_;
  Turns rooms_;

  /// Where the block of a local rank lies on its way. Together they are contiguous when there is one chunk.
  Part room(int64_t stage, int32_t first, int32_t last, int64_t c) const {
    const int64_t size = cut_.sizeOf(c);
    return ProgramBuilder::inside(rooms_[stage], first, last, first * cut_.largest, (last - first) * size,
                                  (last - first) * size);
  }

  void collect(int64_t stage, int32_t d, int64_t c) {
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(local(s), input(nodeAt(d), localAt(s), c));
      const int32_t from = localAt(-s);
      b_.receive(local(-s), room(stage, from, from + 1, c));
    }
  }

  void pass(int64_t stage, int32_t d, int64_t c) {
    const int32_t from = nodeAt(-d);
    b_.send(node(d), input(nodeAt(d), l_, c));
    b_.receive(node(-d), output(from, l_, c));
    const auto some = [&](int32_t first, int32_t last) {
      if (first >= last) return;
      const int64_t cell = b_.map().rankAt(from, first), size = cut_.sizeOf(c);
      b_.send(node(d), room(stage, first, last, c));
      b_.receive(node(-d), b_.output(cell * chunks_ + c, cell * chunks_ + c + last - first, (last - first) * size));
    };
    if (merged_) {
      some(0, l_);
      some(l_ + 1, locals_);
    } else {
      for (int32_t s = 1; s < locals_; s++) some(localAt(-s), localAt(-s) + 1);
    }
  }

  void inNode(int64_t c) {
    b_.copy(output(n_, l_, c), input(n_, l_, c));
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(local(s), input(n_, localAt(s), c));
      b_.receive(local(-s), output(n_, localAt(-s), c));
    }
  }
};

// --- The algorithm ---

bool accepts(const Problem& p, const RankMap& map) {
  return isUniform(p, map) && (p.collective == Collective::kAllReduce || p.collective == Collective::kReduceScatter ||
                               p.collective == Collective::kAllGather || p.collective == Collective::kAllToAll);
}

std::unique_ptr<Plan> make(const Problem& p, const RankMap& map, const PlanOptions& options) {
  PlanSpec spec;
  spec.problem = p;
  spec.map = &map;
  spec.algorithm = "rails";
  spec.chunks = usefulSlices(p.count, std::min(options.chunks, 512));
  const Grid grid{map.nodes(), map.ranksPerNode()};
  if (p.collective == Collective::kAllReduce) {
    auto cut = std::make_shared<const AllReduceCut>(cutAllReduce(p, grid, spec.chunks));
    spec.grid = cut->cells;
    spec.write = [cut](ProgramBuilder& b) { AllReduce(b, *cut).write(); };
    return makePlan(std::move(spec));
  }
  auto cut = std::make_shared<const BlockCut>(cutBlocks(p, grid, spec.chunks));
  spec.grid = cut->cells;
  if (p.collective == Collective::kReduceScatter)
    spec.write = [cut](ProgramBuilder& b) { ReduceScatter(b, *cut).write(); };
  else if (p.collective == Collective::kAllGather)
    spec.write = [cut](ProgramBuilder& b) { AllGather(b, *cut).write(); };
  else {
    // Then what a rank sends together depends on its index.
    const bool merged = spec.chunks == 1 && grid.locals > 1 && isNodeMajor(map);
    if (merged) {
      spec.roles = grid.locals;
      spec.roleOf = [&map](int32_t rank) { return map.position(rank).local; };
    }
    spec.write = [cut, merged](ProgramBuilder& b) { AllToAll(b, *cut, merged).write(); };
  }
  return makePlan(std::move(spec));
}

std::vector<int32_t> chunkChoices(const Problem& p, const RankMap& map, const Fabric&) {
  const int64_t bytes = problemBytes(p);
  if (p.collective == Collective::kAllReduce) {
    std::vector<int32_t> choices{1};
    for (const int32_t chunks : {2, 4, 10, 16, 24, 32})
      if (bytes / map.ranks() / chunks >= (chunks < 16 ? 1024 : 8192)) choices.push_back(chunks);
    return choices;
  }
  // A node's block is a stage of the pipeline by itself.
  std::vector<int32_t> choices{1};
  for (const int32_t chunks : {2, 8, 32, 64})
    if (bytes / map.ranks() / chunks >= (32 << 10) && int64_t{chunks} * map.nodes() <= 512) choices.push_back(chunks);
  return choices;
}

}  // namespace

const PlanAlgorithm kRails{
    "rails",
    "Over the mesh to the rank with the destination's index, pairwise by the rails among the ranks of one index, over "
    "the mesh again, chunk by chunk so that all phases overlap. Fills all rails and links: the best for large data.",
    accepts,
    make,
    chunkChoices,
    estimateRailsPs};

}  // namespace hpu::collectives
