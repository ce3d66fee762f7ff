// SPDX-License-Identifier: Apache-2.0
// HCL: a model of the algorithms that the vendor's library has, from its published sources, to compare ours with on the
// same fabric. No figure of it was measured.
//
// What is taken from its sources: boxes exchange pairwise among the ranks of one index; in iteration i a rank sends to
// box my + i and receives from box my - i. An all-reduce is a reduce-scatter over boxes and then an all-gather. A
// broadcast scatters the data in the root's box, whose ranks send their shards to every other box one by one, and
// all-gathers it in each box; below 256 KB the root sends all of it to every box. Slices are of 512 KB a rank's piece.
//
// What is assumed, each in its favour where it was not clear:
// - eight iterations are in flight (its pool of buffers for reductions has eight), of any slices;
// - the all-gather of a slice runs while the next four slices are reduced (it has queue pairs of its own for each);
// - what has come from another box is added to the sum at once, at the rate of the device's memory;
// - partial results travel in the accumulator's type (it raises 16-bit types to f32);
// - starting a collective, a message and a reduction costs what it costs us.
#include <algorithm>
#include <utility>

#include "collectives/scaleout/Plans.h"

namespace hpu::collectives {
namespace {

constexpr int64_t kSliceBytes = 512 << 10;
constexpr int64_t kScatterBytes = 256 << 10;  ///< A broadcast of less is not scattered.
constexpr int32_t kIterationsInFlight = 8;
constexpr int64_t kSlicesBehind = 4;  ///< A slice is gathered that long after it was reduced.

/// Cells: slice, box, index (all-reduce); slice of a block (reduce-scatter, all-gather); slice, shard (broadcast).
struct Cut {
  int32_t boxes = 1, locals = 1;
  int64_t slices = 1;
  CellGrid cells;
  std::vector<int64_t> pieces;  ///< By slice: the largest piece.
};

Cut makeCut(const Problem& p, const RankMap& map) {
  Cut cut;
  cut.boxes = map.nodes();
  cut.locals = map.ranksPerNode();
  cut.cells.blockElements = p.count;
  const bool oneBlock = p.collective == Collective::kAllReduce;
  const bool shards = p.collective == Collective::kBroadcast;
  const int64_t pieces = oneBlock ? p.ranks : shards ? cut.locals : 1;
  const int64_t bytes = p.count / pieces * p.elementBytes;
  cut.slices = std::clamp<int64_t>((bytes + kSliceBytes - 1) / kSliceBytes, 1, 2048);
  for (int64_t s = 0; s < cut.slices; s++) {
    const Span slice = part({0, p.count}, cut.slices, s);
    int64_t largest = 0;
    for (int64_t i = 0; i < pieces; i++) {
      const Span piece = part(slice, pieces, i);
      largest = std::max(largest, piece.count);
      cut.cells.boundaries.push_back(piece.end());
    }
    cut.pieces.push_back(largest);
  }
  return cut;
}

class Hcl {
 public:
  Hcl(ProgramBuilder& b, const Cut& cut)
      : b_(b), cut_(cut), n_(b.position().node), l_(b.position().local), boxes_(cut.boxes), locals_(cut.locals) {
    const Collective collective = b.problem().collective;
    reduces_ = collective != Collective::kAllGather;
    gathers_ = collective != Collective::kReduceScatter;
    oneBlock_ = collective == Collective::kAllReduce;
    if (!reduces_) return;
    const int64_t largest = *std::max_element(cut.pieces.begin(), cut.pieces.end());
    turns_ = std::min<int64_t>(kIterationsInFlight, boxes_ * cut.slices);
    for (int64_t t = 0; t < turns_; t++) {
      for (int32_t s = 1; s < locals_; s++) raw_.push_back(b.room(BufferKind::kScratch, largest));
      partial_.push_back(b.room(BufferKind::kPartial, largest));
      arrived_.push_back(b.room(BufferKind::kPartial, largest));
      sums_.push_back(b.room(BufferKind::kPartial, largest));
    }
  }

  void write() {
    // A pair's messages keep their order: what is ready sooner is written first.
    const int64_t behind = reduces_ ? kSlicesBehind : 0;
    for (int64_t s = 0; s < cut_.slices + behind + 1; s++) {
      if (gathers_ && s >= behind && s - behind < cut_.slices) gatherOverBoxes(s - behind);
      if (reduces_ && s < cut_.slices) reduce(s);
      if (gathers_ && s > behind) gatherInBox(s - behind - 1);
    }
  }

 private:
  ProgramBuilder& b_;
  const Cut& cut_;
  const int32_t n_, l_, boxes_, locals_;
  bool reduces_ = true, gathers_ = true, oneBlock_ = true;
  int64_t turns_ = 1, iteration_ = 0;
  std::vector<Part> raw_, partial_, arrived_, sums_;

  int32_t box(int32_t shift) const { return (n_ + boxes_ + shift) % boxes_; }
  int32_t index(int32_t shift) const { return (l_ + locals_ + shift) % locals_; }
  int64_t cell(int64_t s, int32_t box, int32_t index) const {
    return oneBlock_ ? (s * boxes_ + box) * locals_ + index : b_.map().rankAt(box, index) * cut_.slices + s;
  }
  int64_t size(int64_t s) const { return cut_.pieces[static_cast<size_t>(s)]; }
  /// Input of a reduction; output of a gathering.
  Part input(int64_t s, int32_t box, int32_t index) const {
    return b_.input(cell(s, box, index), cell(s, box, index) + 1, size(s));
  }
  Part output(int64_t s, int32_t box, int32_t index) const {
    return b_.output(cell(s, box, index), cell(s, box, index) + 1, size(s));
  }
  /// What this rank's reduction gives, and what it gathers.
  Part own(int64_t s) const {
    if (oneBlock_) return output(s, n_, l_);
    return reduces_ ? b_.output(s, s + 1, size(s)) : b_.input(s, s + 1, size(s));
  }
  static Part sized(Part room, const Part& like) {
    room.range.count = like.range.count;
    room.largest = like.largest;
    return room;
  }

  void reduce(int64_t s) {
    const Part& sum = sums_[static_cast<size_t>(s % turns_)];
    for (int32_t i = 0; i < boxes_; i++, iteration_++) {
      const auto turn = static_cast<size_t>(iteration_ % turns_);
      const Part piece = input(s, box(i), l_), mine = input(s, n_, l_);
      std::vector<Part> sources(static_cast<size_t>(locals_));
      sources[static_cast<size_t>(l_)] = piece.of(b_.rank());
      for (int32_t shift = 1; shift < locals_; shift++) {
        b_.send(local(shift), input(s, box(i), index(shift)));
        const Part room = sized(raw_[turn * static_cast<size_t>(locals_ - 1) + static_cast<size_t>(shift - 1)], piece)
                              .of(b_.map().rankAt(n_, index(-shift)));
        b_.receive(local(-shift), room);
        sources[static_cast<size_t>(index(-shift))] = room;
      }
      if (i == 0) {
        b_.reduce(sized(sum, mine), sources);
        continue;
      }
      const Part out = sized(partial_[turn], piece), in = sized(arrived_[turn], mine);
      b_.reduce(out, sources);
      b_.send(node(i), out);
      b_.receive(node(-i), in);
      b_.reduce(i == boxes_ - 1 ? own(s) : sized(sum, mine), {sized(sum, mine), in});
    }
  }

  void gatherOverBoxes(int64_t s) {
    if (!oneBlock_) b_.copy(output(s, n_, l_), own(s));
    for (int32_t i = 1; i < boxes_; i++) {
      b_.send(node(i), own(s));
      b_.receive(node(-i), output(s, box(-i), l_));
    }
  }

  void gatherInBox(int64_t s) {
    for (int32_t i = 0; i < boxes_; i++)
      for (int32_t shift = 1; shift < locals_; shift++) {
        b_.send(local(shift), i == 0 ? own(s) : output(s, box(-i), l_));
        b_.receive(local(-shift), output(s, box(-i), index(-shift)));
      }
  }
};

struct BroadcastCut {
  Cut cut;
  int32_t rootBox = 0, rootIndex = 0;
  bool scatters = true;
};

class Broadcast {
 public:
  Broadcast(ProgramBuilder& b, const BroadcastCut& cut)
      : b_(b),
        cut_(cut.cut),
        scatters_(cut.scatters),
        boxes_(cut.cut.boxes),
        locals_(cut.cut.locals),
        v_((b.position().node + boxes_ - cut.rootBox) % boxes_),
        i_((b.position().local + locals_ - cut.rootIndex) % locals_) {}

  void write() {
    const int64_t cells = cut_.cells.cells(), count = b_.problem().count;
    const Part all = isRoot() ? b_.input(0, cells, count) : b_.output(0, cells, count);
    if (isRoot()) b_.copy(b_.output(0, cells, count), all);
    if (!scatters_) {
      if (i_ != 0) return b_.receive(local(-i_), all);
      if (v_ != 0) b_.receive(node(-v_), all);
      for (int32_t to = 1; to < boxes_ && v_ == 0; to++) b_.send(node(to), all);
      for (int32_t s = 1; s < locals_; s++) b_.send(local(s), all);
      return;
    }
    for (int64_t s = 0; s < cut_.slices; s++) {
      const Part own = shard(s, i_);
      if (isRoot())
        for (int32_t i = 1; i < locals_; i++) b_.send(local(i), shard(s, i));
      else if (v_ == 0)
        b_.receive(local(-i_), own);
      else
        b_.receive(node(-v_), own);
      for (int32_t to = 1; to < boxes_ && v_ == 0; to++) b_.send(node(to), own);
      for (int32_t shift = 1; shift < locals_; shift++) {
        const int32_t to = (i_ + shift) % locals_, from = (i_ + locals_ - shift) % locals_;
        if (v_ != 0 || to != 0) b_.send(local(shift), own);
        if (!isRoot()) b_.receive(local(-shift), shard(s, from));
      }
    }
  }

 private:
  ProgramBuilder& b_;
  const Cut& cut_;
  const bool scatters_;
  const int32_t boxes_, locals_, v_, i_;

  bool isRoot() const { return v_ == 0 && i_ == 0; }
  Part shard(int64_t s, int32_t i) const {
    const int64_t cell = s * locals_ + i, largest = cut_.pieces[static_cast<size_t>(s)];
    return isRoot() ? b_.input(cell, cell + 1, largest) : b_.output(cell, cell + 1, largest);
  }
};

bool accepts(const Problem& p, const RankMap& map) {
  return isUniform(p, map) && (p.collective == Collective::kAllReduce || p.collective == Collective::kReduceScatter ||
                               p.collective == Collective::kAllGather || p.collective == Collective::kBroadcast);
}

std::unique_ptr<Plan> make(const Problem& p, const RankMap& map, const PlanOptions&) {
  PlanSpec spec;
  spec.problem = p;
  spec.map = &map;
  spec.algorithm = "hcl";
  auto cut = std::make_shared<BroadcastCut>();
  cut->cut = makeCut(p, map);
  cut->rootBox = map.position(p.root).node;
  cut->rootIndex = map.position(p.root).local;
  cut->scatters = p.count * p.elementBytes >= kScatterBytes;
  spec.chunks = static_cast<int32_t>(cut->cut.slices);
  spec.grid = cut->cut.cells;
  if (p.collective != Collective::kBroadcast) {
    spec.write = [cut](ProgramBuilder& b) { Hcl(b, cut->cut).write(); };
    return makePlan(std::move(spec));
  }
  const int32_t boxes = map.nodes(), locals = map.ranksPerNode();
  spec.roles = boxes * locals;
  spec.roleOf = [&map, cut, boxes, locals](int32_t rank) {
    const Position at = map.position(rank);
    return (at.node + boxes - cut->rootBox) % boxes * locals + (at.local + locals - cut->rootIndex) % locals;
  };
  spec.write = [cut](ProgramBuilder& b) { Broadcast(b, *cut).write(); };
  return makePlan(std::move(spec));
}

std::vector<int32_t> chunkChoices(const Problem&, const RankMap&, const Fabric&) {
  return {1};  // It cuts by itself.
}

}  // namespace

const PlanAlgorithm kHcl{
    "hcl",
    "A model of the vendor's library: pairwise over boxes in slices of 512 KB, eight iterations in "
    "flight; the root of a broadcast sends to every box. To compare with; never chosen.",
    accepts,
    make,
    chunkChoices,
    estimateHclPs};

}  // namespace hpu::collectives
