// SPDX-License-Identifier: Apache-2.0
// Broadcast and reduce among nodes of different sizes. Every node but the root's has pieces of its own, as large as it
// has ranks: of a broadcast the root's node sends each piece once, to its node, which passes it to all others; a reduce
// is the mirror image. So the root's rails carry the data once, and nobody's more. In the root's node a peer has a
// share, which goes by its rail, and a *run* of the root's own share: all links of the root are as busy.
#include <algorithm>
#include <utility>

#include "collectives/scaleout/UnevenShares.h"

namespace hpu::collectives {
namespace {

constexpr int64_t kChunksInFlight = 4;

struct Cut {
  UnevenShares shares;
  int32_t rootNode = 0, rootLocal = 0, rootLocals = 1;
};

class Rooted {
 public:
  Rooted(ProgramBuilder& b, const Cut& cut)
      : b_(b),
        cut_(cut),
        shares_(cut.shares),
        n_(b.position().node),
        nodes_(b.map().nodes()),
        locals_(static_cast<int32_t>(b.map().ranksOf(n_).size())),
        inRootNode_(n_ == cut.rootNode),
        i_(inRootNode_ ? (b.position().local + locals_ - cut.rootLocal) % locals_ : b.position().local),
        first_(shares_.firstAtom(n_, i_)),
        last_(shares_.firstAtom(n_, i_ + 1)) {}

 protected:
  ProgramBuilder& b_;
  const Cut& cut_;
  const UnevenShares& shares_;
  const int32_t n_, nodes_, locals_;
  const bool inRootNode_;
  const int32_t i_;  // In the root's node: counted from the root.
  const int32_t first_, last_;

  bool isRoot() const { return inRootNode_ && i_ == 0; }
  int32_t nodeAt(int32_t shift) const { return (n_ + nodes_ + shift) % nodes_; }
  int32_t rankOf(int32_t i) const { return b_.map().rankAt(n_, inRootNode_ ? (i + cut_.rootLocal) % locals_ : i); }
  PeerName index(int32_t i) const { return rankAway(b_, rankOf(i)); }
  /// The rank of a node that an atom belongs to.
  PeerName owner(int32_t node, int32_t atom) const {
    const int32_t rank = shares_.ownerOf(node, atom);
    if (node != cut_.rootNode) return rankAway(b_, rank);
    const int32_t local = (b_.map().position(rank).local + cut_.rootLocal) % cut_.rootLocals;
    return rankAway(b_, b_.map().rankAt(node, local));
  }
  Part data(BufferKind kind, int64_t first, int64_t last) const {
    return exactly(kind == BufferKind::kInput ? b_.input(first, last, 0) : b_.output(first, last, 0));
  }
  Part atoms(BufferKind kind, int64_t c, int32_t first, int32_t last) const {
    return data(kind, shares_.cell(c, first, 0), shares_.cell(c, last, 0));
  }
  Part share(BufferKind kind, int64_t c, int32_t i) const {
    return atoms(kind, c, shares_.firstAtom(n_, i), shares_.firstAtom(n_, i + 1));
  }
  /// The part of the root's share that its peer i passes on, or sums.
  int32_t runAtom(int32_t i) const {
    return shares_.fractions.at(i - 1, int64_t{cut_.rootLocals} * (cut_.rootLocals - 1));
  }
  Part run(BufferKind kind, int64_t c, int32_t i) const { return atoms(kind, c, runAtom(i), runAtom(i + 1)); }
  Part piece(BufferKind kind, int64_t c, int32_t atom, int32_t node) const {
    return data(kind, shares_.cell(c, atom, node), shares_.cell(c, atom, node) + 1);
  }
  bool hasPieces(int32_t node) const { return node != cut_.rootNode; }
};

class Broadcast : Rooted {
 public:
  Broadcast(ProgramBuilder& b, const Cut& cut) : Rooted(b, cut) {}

  void write() {
    if (isRoot()) b_.copy(atomsOfAll(BufferKind::kOutput), atomsOfAll(BufferKind::kInput));
    for (int64_t c = 0; c < shares_.chunks; c++) {
      if (isRoot())
        root(c);
      else if (inRootNode_)
        peerOfRoot(c);
      else
        other(c);
    }
  }

 private:
  BufferKind kind() const { return isRoot() ? BufferKind::kInput : BufferKind::kOutput; }
  Part atomsOfAll(BufferKind kind) const { return data(kind, 0, shares_.cells.cells()); }

  void toNodes(int64_t c) {
    for (int32_t a = first_; a < last_; a++)
      for (int32_t d = 1; d < nodes_; d++) b_.send(owner(nodeAt(d), a), piece(kind(), c, a, nodeAt(d)));
  }

  void root(int64_t c) {
    for (int32_t i = 1; i < locals_; i++) {
      b_.send(index(i), share(kind(), c, i));
      b_.send(index(i), run(kind(), c, i));
    }
    toNodes(c);
  }

  void peerOfRoot(int64_t c) {
    const auto parts = [&](int32_t i, const auto& visit) {
      visit(share(kind(), c, i));
      visit(run(kind(), c, i));
    };
    parts(i_, [&](const Part& part) { b_.receive(index(0), part); });
    toNodes(c);
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t to = (i_ + s) % locals_, from = (i_ + locals_ - s) % locals_;
      if (to != 0) parts(i_, [&](const Part& part) { b_.send(index(to), part); });
      if (from != 0) parts(from, [&](const Part& part) { b_.receive(index(from), part); });
    }
  }

  void other(int64_t c) {
    const int32_t rootNode = cut_.rootNode;
    for (int32_t a = first_; a < last_; a++) {
      b_.receive(owner(rootNode, a), piece(kind(), c, a, n_));
      for (int32_t d = 1; d < nodes_; d++)
        if (nodeAt(d) != rootNode) b_.send(owner(nodeAt(d), a), piece(kind(), c, a, n_));
    }
    for (int32_t a = first_; a < last_; a++)
      for (int32_t d = 1; d < nodes_; d++)
        if (nodeAt(-d) != rootNode) b_.receive(owner(nodeAt(-d), a), piece(kind(), c, a, nodeAt(-d)));
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t from = (i_ + locals_ - s) % locals_;
      b_.send(index((i_ + s) % locals_), share(kind(), c, i_));
      b_.receive(index(from), share(kind(), c, from));
    }
  }
};

class Reduce : Rooted {
 public:
  Reduce(ProgramBuilder& b, const Cut& cut) : Rooted(b, cut), turns_(std::min(shares_.chunks - 1, kChunksInFlight)) {
    int64_t share = 0, run = 0, piece = 0;
    for (int64_t c = 0; c < shares_.chunks; c++) {
      share = std::max(share, this->share(BufferKind::kInput, c, i_).range.count);
      if (isPeerOfRoot()) run = std::max(run, this->run(BufferKind::kInput, c, i_).range.count);
      for (int32_t a = first_; a < last_; a++)
        piece = std::max(piece, this->piece(BufferKind::kInput, c, a, n_).range.count);
    }
    const int64_t cells = int64_t{last_ - first_} * nodes_;
    for (int64_t t = 0; t <= turns_; t++) {
      Rooms rooms;
      for (int32_t s = 1; s < locals_ && !isRoot(); s++) {
        rooms.raw.push_back(b.room(BufferKind::kScratch, share));
        rooms.rawRun.push_back(b.room(BufferKind::kScratch, run));
      }
      rooms.sum = b.room(BufferKind::kPartial, share, cells);  // In the root's node: what came from the others.
      rooms.run = b.room(BufferKind::kPartial, isRoot() ? share : run, isRoot() ? cells : 1);
      rooms.result = b.room(BufferKind::kScratch, isPeerOfRoot() ? share : 0, cells);
      for (int64_t i = 0; i < (inRootNode_ ? 0 : cells); i++)
        rooms.arrived.push_back(b.room(BufferKind::kPartial, piece));
      for (int32_t a = first_; a < (inRootNode_ ? first_ : last_); a++)
        rooms.totals.push_back(b.room(BufferKind::kPartial, piece));
      rooms_.push_back(std::move(rooms));
    }
  }

  void write() {
    // Behind by one: the sums of a node's own pieces wait for other nodes.
    for (int64_t c = 0; c <= shares_.chunks; c++) {
      if (!inRootNode_) {
        if (c < shares_.chunks) sumInNode(c);
        if (c > 0) sumPieces(c - 1);
      } else if (c < shares_.chunks) {
        isRoot() ? root(c) : peerOfRoot(c);
      }
    }
  }

 private:
  struct Rooms {
    std::vector<Part> raw, rawRun;  // By other rank of the node.
    Part sum, run, result;
    std::vector<Part> arrived, totals;
  };
  const int64_t turns_;
  std::vector<Rooms> rooms_;

  bool isPeerOfRoot() const { return inRootNode_ && i_ != 0; }
  /// The last chunk may be of another size and has rooms of its own.
  const Rooms& rooms(int64_t c) const {
    return rooms_[static_cast<size_t>(c == shares_.chunks - 1 ? turns_ : c % turns_)];
  }
  /// A piece of this rank's share, in a room of the share.
  Part inShare(const Part& room, int64_t c, int32_t atom, int32_t node) const {
    const Part all = share(BufferKind::kInput, c, i_), own = piece(BufferKind::kInput, c, atom, node);
    const int64_t cell = int64_t{atom - first_} * nodes_ + node;
    return ProgramBuilder::inside(room, cell, cell + 1, own.range.offset - all.range.offset, own.range.count,
                                  own.range.count);
  }

  void sumInNode(int64_t c) {
    const Part own = share(BufferKind::kInput, c, i_);
    std::vector<Part> sources{own.of(b_.rank())};
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t to = (i_ + s) % locals_, from = (i_ + locals_ - s) % locals_;
      b_.send(index(to), share(BufferKind::kInput, c, to));
      const Part room = sizedLike(rooms(c).raw[static_cast<size_t>(s - 1)], own).of(rankOf(from));
      b_.receive(index(from), room);
      sources.push_back(room);
    }
    b_.reduce(sizedLike(rooms(c).sum, own), sources);
    for (int32_t a = first_; a < last_; a++)
      for (int32_t d = 1; d < nodes_; d++)
        if (hasPieces(nodeAt(d))) b_.send(owner(nodeAt(d), a), inShare(rooms(c).sum, c, a, nodeAt(d)));
  }

  void sumPieces(int64_t c) {
    for (int32_t a = first_; a < last_; a++) {
      const Part own = inShare(rooms(c).sum, c, a, n_);
      std::vector<Part> sources{own};
      for (int32_t d = 1; d < nodes_; d++) {
        if (!hasPieces(nodeAt(-d))) continue;
        const Part room = sizedLike(rooms(c).arrived[static_cast<size_t>((a - first_) * nodes_ + d)], own);
        b_.receive(owner(nodeAt(-d), a), room);
        sources.push_back(room);
      }
      if (sources.size() == 1) {
        b_.send(owner(cut_.rootNode, a), own);
        continue;
      }
      const Part total = sizedLike(rooms(c).totals[static_cast<size_t>(a - first_)], own);
      b_.reduce(total, sources);
      b_.send(owner(cut_.rootNode, a), total);
    }
  }

  /// An atom of a room that is as large as this rank's share.
  Part atomOf(const Part& room, int64_t c, int32_t atom) const {
    const Part all = share(BufferKind::kInput, c, i_), own = atoms(BufferKind::kInput, c, atom, atom + 1);
    const bool whole = room.end - room.begin == 1;
    const int64_t cell = whole ? 0 : int64_t{atom - first_} * nodes_;
    return ProgramBuilder::inside(room, cell, whole ? 1 : cell + nodes_, own.range.offset - all.range.offset,
                                  own.range.count, own.range.count);
  }

  /// The other nodes' sums of an atom of this rank's share. What a pair's message brings is reduced before the next one
  /// comes: it may be read where its sender has it.
  Part fromNodes(int64_t c, int32_t atom) {
    for (int32_t d = 1; d < nodes_; d++)
      b_.receive(owner(nodeAt(-d), atom), inShare(rooms(c).sum, c, atom, nodeAt(-d)));
    return atomOf(rooms(c).sum, c, atom);
  }

  void peerOfRoot(int64_t c) {
    const Part own = share(BufferKind::kInput, c, i_), ownRun = run(BufferKind::kInput, c, i_);
    std::vector<Part> raw, ofRun{ownRun.of(b_.rank())};
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t to = (i_ + s) % locals_, from = (i_ + locals_ - s) % locals_;
      if (to != 0) {
        b_.send(index(to), run(BufferKind::kInput, c, to));
        b_.send(index(to), share(BufferKind::kInput, c, to));
      }
      if (from != 0) {
        const Part room = sizedLike(rooms(c).rawRun[static_cast<size_t>(s - 1)], ownRun).of(rankOf(from));
        b_.receive(index(from), room);
        ofRun.push_back(room);
      }
      raw.push_back(sizedLike(rooms(c).raw[static_cast<size_t>(s - 1)], own).of(rankOf(from)));
      b_.receive(index(from), raw.back());
    }
    const Part sumOfRun = sizedLike(rooms(c).run, ownRun);
    b_.reduce(sumOfRun, ofRun);
    b_.send(index(0), sumOfRun);
    const Part& result = rooms(c).result;
    for (int32_t a = first_; a < last_; a++) {
      std::vector<Part> sources{atoms(BufferKind::kInput, c, a, a + 1).of(b_.rank()), fromNodes(c, a)};
      for (const Part& room : raw) sources.push_back(atomOf(room, c, a));
      b_.reduce(atomOf(result, c, a), sources);
    }
    b_.send(index(0), sizedLike(result, own));
  }

  void root(int64_t c) {
    const Part own = share(BufferKind::kInput, c, 0);
    for (int32_t i = 1; i < locals_; i++) b_.send(index(i), share(BufferKind::kInput, c, i));
    for (int32_t i = 1; i < locals_; i++) {
      const Part part = run(BufferKind::kInput, c, i);
      const int64_t first = int64_t{runAtom(i) - first_} * nodes_, last = int64_t{runAtom(i + 1) - first_} * nodes_;
      b_.receive(index(i), ProgramBuilder::inside(rooms(c).run, first, last, part.range.offset - own.range.offset,
                                                  part.range.count, part.range.count));
    }
    for (int32_t a = first_; a < last_; a++) {
      std::vector<Part> sources{atoms(BufferKind::kInput, c, a, a + 1).of(b_.rank()), fromNodes(c, a)};
      if (locals_ > 1) sources.push_back(atomOf(rooms(c).run, c, a));
      b_.reduce(atoms(BufferKind::kOutput, c, a, a + 1), sources);
    }
    for (int32_t i = 1; i < locals_; i++) b_.receive(index(i), share(BufferKind::kOutput, c, i));
  }
};

/// Boundaries of chunks that are as large as each other, but for the last one: rooms of several chunks in turn have
/// their cells at the same places.
std::vector<int64_t> equalChunks(int64_t count, int32_t chunks) {
  int64_t size = (count + chunks - 1) / chunks;
  if (size >= 1024) size = (size + 63) / 64 * 64;
  std::vector<int64_t> boundaries{0};
  while (boundaries.back() < count) boundaries.push_back(std::min(count, boundaries.back() + size));
  return boundaries;
}

}  // namespace

std::unique_ptr<Plan> makeUnevenRooted(PlanSpec spec, int32_t chunks) {
  auto cut = std::make_shared<Cut>();
  const Problem& p = spec.problem;
  const RankMap& map = *spec.map;
  cut->rootNode = map.position(p.root).node;
  cut->rootLocal = map.position(p.root).local;
  cut->rootLocals = static_cast<int32_t>(map.ranksOf(cut->rootNode).size());
  std::vector<int32_t> weights;
  for (int32_t n = 0; n < map.nodes(); n++)
    weights.push_back(n == cut->rootNode ? 0 : static_cast<int32_t>(map.ranksOf(n).size()));
  // No elements: nothing is written.
  std::vector<int64_t> chunk{0, p.count};
  if (p.count > 0)
    chunk = p.collective == Collective::kReduce ? equalChunks(p.count, chunks)
                                                : cutByWeights(p.count, rampedWeights(chunks));
  spec.chunks = static_cast<int32_t>(chunk.size()) - 1;
  cut->shares = UnevenShares::create(map, chunk, std::move(weights), [&](Fractions& fractions) {
    for (int64_t i = 1; i < cut->rootLocals - 1; i++)
      fractions.add(i, int64_t{cut->rootLocals} * (cut->rootLocals - 1));
  });
  spec.grid = cut->shares.cells;
  if (p.collective == Collective::kBroadcast)
    spec.write = [cut](ProgramBuilder& b) { Broadcast(b, *cut).write(); };
  else
    spec.write = [cut](ProgramBuilder& b) { Reduce(b, *cut).write(); };
  return makePlan(std::move(spec));
}

}  // namespace hpu::collectives
