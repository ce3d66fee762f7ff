// SPDX-License-Identifier: Apache-2.0
// Rails among nodes of different sizes: every rank of a node has an equal share of what its node sends and takes in, so
// no rail is busier than the others of its node; where shares of two nodes do not match, a rank's goes to (comes from)
// several ranks of the other node. In a node data goes over the mesh, chunk by chunk, so that all phases overlap.
#include <algorithm>
#include <utility>

#include "collectives/scaleout/UnevenShares.h"

namespace hpu::collectives {
namespace {

constexpr int64_t kChunksInFlight = 4;
/// More than among equal nodes: small ones have more to do for a stage than large ones.
constexpr int64_t kBytesInFlight = 32 << 20;

/// Which rank of a node, and this one's peers.
class Member {
 public:
  explicit Member(ProgramBuilder& b)
      : b_(b),
        n_(b.position().node),
        l_(b.position().local),
        nodes_(b.map().nodes()),
        locals_(static_cast<int32_t>(b.map().ranksOf(b.position().node).size())) {}

 protected:
  ProgramBuilder& b_;
  const int32_t n_, l_, nodes_, locals_;

  int32_t nodeAt(int32_t shift) const { return (n_ + nodes_ + shift) % nodes_; }
  int32_t localAt(int32_t shift) const { return (l_ + locals_ + shift) % locals_; }
  int32_t sizeOf(int32_t node) const { return static_cast<int32_t>(b_.map().ranksOf(node).size()); }
  int32_t rankOf(int32_t local) const { return b_.map().rankAt(n_, local); }
  PeerName rank(int32_t rank) const { return rankAway(b_, rank); }
  PeerName peer(int32_t local) const { return rank(rankOf(local)); }
};

// --- All-reduce: a node sums the pieces that are its own of all atoms ---

class AllReduce : Member {
 public:
  AllReduce(ProgramBuilder& b, const UnevenShares& shares)
      : Member(b),
        shares_(shares),
        first_(shares.firstAtom(n_, l_)),
        atoms_(shares.firstAtom(n_, l_ + 1) - first_),
        turns_(std::min(shares.chunks, kChunksInFlight)) {
    int64_t share = 0, piece = 0;
    for (int64_t c = 0; c < shares.chunks; c++) {
      share = std::max(share, this->share(BufferKind::kInput, c, l_).range.count);
      for (int32_t a = first_; a < first_ + atoms_; a++)
        piece = std::max(piece, this->piece(BufferKind::kInput, c, a, n_).range.count);
    }
    for (int64_t t = 0; t < turns_; t++) {
      for (int32_t s = 1; s < locals_; s++) raw_.push_back(b.room(BufferKind::kScratch, share));
      sums_.push_back(b.room(BufferKind::kPartial, share, int64_t{atoms_} * nodes_));
      for (int64_t i = 0; hasPieces(n_) && i < int64_t{nodes_ - 1} * atoms_; i++)
        arrived_.push_back(b.room(BufferKind::kPartial, piece));
    }
  }

  void write() {
    // A pair's messages keep their order: what is ready sooner is written first.
    for (int64_t t = 0; t < shares_.chunks + 3; t++) {
      if (t < shares_.chunks) reduceInNode(t);
      if (t >= 1 && t - 1 < shares_.chunks) reduceAmongNodes(t - 1);
      if (t >= 2 && t - 2 < shares_.chunks) gatherAmongNodes(t - 2);
      if (t >= 3) gatherInNode(t - 3);
    }
  }

 private:
  const UnevenShares& shares_;
  const int32_t first_, atoms_;
  const int64_t turns_;
  std::vector<Part> raw_, sums_, arrived_;

  bool hasPieces(int32_t node) const { return shares_.weights[static_cast<size_t>(node)] > 0; }
  Part data(BufferKind kind, int64_t first, int64_t last) const {
    return exactly(kind == BufferKind::kInput ? b_.input(first, last, 0) : b_.output(first, last, 0));
  }
  Part share(BufferKind kind, int64_t c, int32_t local) const {
    return data(kind, shares_.cell(c, shares_.firstAtom(n_, local), 0),
                shares_.cell(c, shares_.firstAtom(n_, local + 1), 0));
  }
  Part piece(BufferKind kind, int64_t c, int32_t atom, int32_t node) const {
    return data(kind, shares_.cell(c, atom, node), shares_.cell(c, atom, node) + 1);
  }
  /// What this node has of a piece.
  Part sumOf(int64_t c, int32_t atom, int32_t node) const {
    const Part all = share(BufferKind::kInput, c, l_), own = piece(BufferKind::kInput, c, atom, node);
    const int64_t cell = int64_t{atom - first_} * nodes_ + node;
    return ProgramBuilder::inside(sums_[static_cast<size_t>(c % turns_)], cell, cell + 1,
                                  own.range.offset - all.range.offset, own.range.count, own.range.count);
  }
  template <typename Visit>
  void forOwnAtoms(const Visit& visit) const {
    for (int32_t a = first_; a < first_ + atoms_; a++) visit(a);
  }

  void reduceInNode(int64_t c) {
    const Part own = share(BufferKind::kInput, c, l_);
    std::vector<Part> sources(static_cast<size_t>(locals_));
    sources[static_cast<size_t>(l_)] = own.of(b_.rank());
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t to = localAt(s), from = localAt(-s);
      b_.send(peer(to), share(BufferKind::kInput, c, to));
      const Part room = sizedLike(raw_[static_cast<size_t>(c % turns_ * (locals_ - 1) + s - 1)], own).of(rankOf(from));
      b_.receive(peer(from), room);
      sources[static_cast<size_t>(from)] = room;
    }
    b_.reduce(sizedLike(sums_[static_cast<size_t>(c % turns_)], own), sources);
  }

  void reduceAmongNodes(int64_t c) {
    const int64_t rooms = int64_t{nodes_ - 1} * atoms_;
    std::vector<std::vector<Part>> sources(static_cast<size_t>(atoms_));
    for (int32_t d = 1; d < nodes_; d++) {
      const int32_t to = nodeAt(d), from = nodeAt(-d);
      forOwnAtoms([&](int32_t a) {
        if (hasPieces(to)) b_.send(rank(shares_.ownerOf(to, a)), sumOf(c, a, to));
        if (!hasPieces(n_)) return;
        const auto i = static_cast<size_t>(a - first_);
        const Part room = sizedLike(arrived_[static_cast<size_t>(c % turns_ * rooms + int64_t{d - 1} * atoms_) + i],
                                    piece(BufferKind::kOutput, c, a, n_));
        b_.receive(rank(shares_.ownerOf(from, a)), room);
        sources[i].push_back(room);
      });
    }
    if (!hasPieces(n_)) return;
    forOwnAtoms([&](int32_t a) {
      std::vector<Part>& all = sources[static_cast<size_t>(a - first_)];
      all.push_back(sumOf(c, a, n_));
      b_.reduce(piece(BufferKind::kOutput, c, a, n_), all);
    });
  }

  void gatherAmongNodes(int64_t c) {
    for (int32_t d = 1; d < nodes_; d++) {
      const int32_t to = nodeAt(d), from = nodeAt(-d);
      forOwnAtoms([&](int32_t a) {
        if (hasPieces(n_)) b_.send(rank(shares_.ownerOf(to, a)), piece(BufferKind::kOutput, c, a, n_));
        if (hasPieces(from)) b_.receive(rank(shares_.ownerOf(from, a)), piece(BufferKind::kOutput, c, a, from));
      });
    }
  }

  void gatherInNode(int64_t c) {
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(peer(localAt(s)), share(BufferKind::kOutput, c, l_));
      b_.receive(peer(localAt(-s)), share(BufferKind::kOutput, c, localAt(-s)));
    }
  }
};

// --- What has a block for each rank: a node's blocks behind each other are cut into equal shares of another node ---

struct UnevenBlocks {
  Fractions fractions;  ///< Of a chunk of a block.
  CellGrid cells;
  int64_t chunks = 0, largest = 0;
  int64_t cell(int64_t block, int64_t chunk, int32_t atom) const {
    return (block * chunks + chunk) * fractions.atoms() + atom;
  }
};

UnevenBlocks cutBlocks(const Problem& p, const RankMap& map, int32_t chunks) {
  UnevenBlocks blocks;
  blocks.fractions = sharesOfBlocks(map);
  const std::vector<int64_t> chunk = cutByWeights(p.count, taperedWeights(chunks));
  blocks.chunks = static_cast<int64_t>(chunk.size()) - 1;
  blocks.cells.blockElements = p.count;
  for (size_t c = 0; c + 1 < chunk.size(); c++) {
    const std::vector<int64_t> atoms = blocks.fractions.cut(chunk[c + 1] - chunk[c]);
    for (size_t a = 1; a < atoms.size(); a++) blocks.cells.boundaries.push_back(chunk[c] + atoms[a]);
    blocks.largest = std::max(blocks.largest, chunk[c + 1] - chunk[c]);
  }
  return blocks;
}

/// What a rank of one node has to do with a block of another.
struct Segment {
  int32_t block = 0, holder = 0;  ///< Local ranks: whose block, of its node; whose share it is, of the other.
  int32_t firstAtom = 0, lastAtom = 0;
};

class Blocks : protected Member {
 public:
  Blocks(ProgramBuilder& b, const UnevenBlocks& cut) : Member(b), cut_(cut), atoms_(cut.fractions.atoms()) {}

 protected:
  const UnevenBlocks& cut_;
  const int32_t atoms_;

  /// Of the blocks of `owner` node's ranks, the share of a local rank of the `holder` node.
  std::vector<Segment> shareOf(int32_t owner, int32_t holder, int32_t local) const {
    const int32_t blocks = sizeOf(owner), holders = sizeOf(holder);
    std::vector<Segment> segments;
    for (int32_t l = local * blocks / holders; l * holders < (local + 1) * blocks; l++)
      segments.push_back(segment(blocks, holders, l, local));
    return segments;
  }
  /// Of the block of a local rank of the `owner` node, what the ranks of the `holder` node have.
  std::vector<Segment> holdersOf(int32_t owner, int32_t holder, int32_t local) const {
    const int32_t blocks = sizeOf(owner), holders = sizeOf(holder);
    std::vector<Segment> segments;
    for (int32_t j = local * holders / blocks; j * blocks < (local + 1) * holders; j++)
      segments.push_back(segment(blocks, holders, local, j));
    return segments;
  }
  Part input(int64_t block, int64_t c, int32_t firstAtom, int32_t lastAtom) const {
    return exactly(b_.input(cut_.cell(block, c, firstAtom), cut_.cell(block, c, lastAtom), 0));
  }
  Part output(int64_t block, int64_t c, int32_t firstAtom, int32_t lastAtom) const {
    return exactly(b_.output(cut_.cell(block, c, firstAtom), cut_.cell(block, c, lastAtom), 0));
  }

 private:
  Segment segment(int32_t blocks, int32_t holders, int32_t block, int32_t holder) const {
    const int32_t begin = std::max(0, holder * blocks - block * holders);
    const int32_t end = std::min(holders, (holder + 1) * blocks - block * holders);
    return {block, holder, cut_.fractions.at(begin, holders), cut_.fractions.at(end, holders)};
  }
};

/// A stage is a node that the result goes to, and a chunk. What comes from another node is added to a sum at once.
class ReduceScatter : Blocks {
 public:
  ReduceScatter(ProgramBuilder& b, const UnevenBlocks& cut) : Blocks(b, cut) {
    size_t arriving = 1;
    for (int32_t n = 0; n < nodes_; n++) {
      segments_ = std::max(segments_, shareOf(n, n_, l_).size());
      if (n != n_) arriving = std::max(arriving, holdersOf(n_, n, l_).size());
    }
    arriving_ = arriving;
    const int64_t stages = nodes_ * cut.chunks, bytes = cut.largest * locals_ * b.problem().elementBytes;
    const int64_t inFlight = std::max(kChunksInFlight, kBytesInFlight / std::max<int64_t>(1, bytes));
    turns_ = static_cast<size_t>(std::clamp<int64_t>(inFlight, 1, stages));
    for (size_t i = 0; i < turns_ * segments_; i++) {
      for (int32_t s = 1; s < locals_; s++) raw_.push_back(b.room(BufferKind::kScratch, cut.largest));
      if (locals_ > 1) sums_.push_back(b.room(BufferKind::kPartial, cut.largest));
    }
    for (size_t i = 0; i < turns_ * arriving_; i++) {
      arrived_.push_back(b.room(BufferKind::kPartial, cut.largest));
      arrivedRaw_.push_back(b.room(BufferKind::kScratch, anyAlone() ? cut.largest : 0));
    }
    for (int64_t c = 0; c < cut.chunks; c++)
      others_.push_back(b.room(BufferKind::kPartial, output(0, c, 0, atoms_).range.count, atoms_));
  }

  void write() {
    size_t stage = 0;
    for (int32_t d = 1; d < nodes_; d++)
      for (int64_t c = 0; c < cut_.chunks; c++, stage++) {
        sumInNode(stage, nodeAt(d), c);
        arrive(stage, d, c);
      }
    for (int64_t c = 0; c < cut_.chunks; c++, stage++) {
      std::vector<Part> sources = contributions(stage, n_, c)[0];
      sources.push_back(others_[static_cast<size_t>(c)]);
      b_.reduce(output(0, c, 0, atoms_), sources);
    }
  }

 private:
  size_t segments_ = 1, arriving_ = 1, turns_ = 1;
  std::vector<Part> raw_, sums_, arrived_, arrivedRaw_, others_;

  bool anyAlone() const {
    for (int32_t n = 0; n < nodes_; n++)
      if (sizeOf(n) == 1) return true;
    return false;
  }

  /// By segment of this rank's share: the contributions of the node's ranks.
  std::vector<std::vector<Part>> contributions(size_t stage, int32_t to, int64_t c) {
    const auto part = [&](const Segment& s) { return input(b_.map().rankAt(to, s.block), c, s.firstAtom, s.lastAtom); };
    const std::vector<Segment> own = shareOf(to, n_, l_);
    std::vector<std::vector<Part>> sources(own.size(), std::vector<Part>(static_cast<size_t>(locals_)));
    for (size_t i = 0; i < own.size(); i++) sources[i][static_cast<size_t>(l_)] = part(own[i]).of(b_.rank());
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t from = localAt(-s);
      for (const Segment& segment : shareOf(to, n_, localAt(s))) b_.send(peer(localAt(s)), part(segment));
      for (size_t i = 0; i < own.size(); i++) {
        const size_t room =
            (stage % turns_ * segments_ + i) * static_cast<size_t>(locals_ - 1) + static_cast<size_t>(s - 1);
        const Part arriving = sizedLike(raw_[room], part(own[i])).of(rankOf(from));
        b_.receive(peer(from), arriving);
        sources[i][static_cast<size_t>(from)] = arriving;
      }
    }
    return sources;
  }

  void sumInNode(size_t stage, int32_t to, int64_t c) {
    const std::vector<std::vector<Part>> sources = contributions(stage, to, c);
    const std::vector<Segment> own = shareOf(to, n_, l_);
    for (size_t i = 0; i < own.size(); i++) {
      const PeerName receiver = rank(b_.map().rankAt(to, own[i].block));
      if (locals_ == 1) {  // The only contribution travels as it is.
        b_.send(receiver, input(b_.map().rankAt(to, own[i].block), c, own[i].firstAtom, own[i].lastAtom));
        continue;
      }
      const Part sum = sizedLike(sums_[stage % turns_ * segments_ + i], sources[i][0]);
      b_.reduce(sum, sources[i]);
      b_.send(receiver, sum);
    }
  }

  void arrive(size_t stage, int32_t d, int64_t c) {
    const int32_t from = nodeAt(-d);
    const std::vector<Segment> segments = holdersOf(n_, from, l_);
    const int64_t begin = output(0, c, 0, atoms_).range.offset;
    for (size_t i = 0; i < segments.size(); i++) {
      const int32_t sender = b_.map().rankAt(from, segments[i].holder);
      const Part own = output(0, c, segments[i].firstAtom, segments[i].lastAtom);
      const size_t at = stage % turns_ * arriving_ + i;
      const Part room = sizeOf(from) == 1 ? sizedLike(arrivedRaw_[at], own).of(sender) : sizedLike(arrived_[at], own);
      b_.receive(rank(sender), room);
      const Part sum =
          ProgramBuilder::inside(others_[static_cast<size_t>(c)], segments[i].firstAtom, segments[i].lastAtom,
                                 own.range.offset - begin, own.range.count, own.range.count);
      b_.reduce(sum, d == 1 ? std::vector<Part>{room} : std::vector<Part>{sum, room});
    }
  }
};

class AllGather : Blocks {
 public:
  AllGather(ProgramBuilder& b, const UnevenBlocks& cut) : Blocks(b, cut) {}

  void write() {
    for (int32_t d = 1; d < nodes_; d++)
      for (int64_t c = 0; c < cut_.chunks; c++)
        for (const Segment& s : holdersOf(n_, nodeAt(d), l_))
          b_.send(rank(b_.map().rankAt(nodeAt(d), s.holder)), input(0, c, s.firstAtom, s.lastAtom));
    for (int64_t c = 0; c < cut_.chunks; c++) {
      b_.copy(output(b_.rank(), c, 0, atoms_), input(0, c, 0, atoms_));
      for (int32_t s = 1; s < locals_; s++) {
        b_.send(peer(localAt(s)), input(0, c, 0, atoms_));
        b_.receive(peer(localAt(-s)), output(rankOf(localAt(-s)), c, 0, atoms_));
      }
    }
    for (int32_t d = 1; d < nodes_; d++)
      for (int64_t c = 0; c < cut_.chunks; c++) {
        const int32_t from = nodeAt(-d);
        const auto part = [&](const Segment& s) {
          return output(b_.map().rankAt(from, s.block), c, s.firstAtom, s.lastAtom);
        };
        const std::vector<Segment> own = shareOf(from, n_, l_);
        for (const Segment& s : own) b_.receive(rank(b_.map().rankAt(from, s.block)), part(s));
        for (int32_t s = 1; s < locals_; s++) {
          for (const Segment& segment : own) b_.send(peer(localAt(s)), part(segment));
          for (const Segment& segment : shareOf(from, n_, localAt(-s))) b_.receive(peer(localAt(-s)), part(segment));
        }
      }
  }
};

/// Blocks go directly: each rank has one for every rank of another node, so rails are equally busy anyway. At a time
/// the ranks of a node send to different ones of another, as evenly as their numbers allow.
class AllToAll : Blocks {
 public:
  AllToAll(ProgramBuilder& b, const UnevenBlocks& cut) : Blocks(b, cut) {}

  void write() {
    b_.copy(block(BufferKind::kOutput, b_.rank()), block(BufferKind::kInput, b_.rank()));
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(peer(localAt(s)), block(BufferKind::kInput, rankOf(localAt(s))));
      b_.receive(peer(localAt(-s)), block(BufferKind::kOutput, rankOf(localAt(-s))));
    }
    for (int32_t d = 1; d < nodes_; d++) {
      const int32_t to = nodeAt(d), from = nodeAt(-d);
      forEachOf(to, [&](int32_t other) { b_.send(rank(other), block(BufferKind::kInput, other)); });
      forEachOf(from, [&](int32_t other) { b_.receive(rank(other), block(BufferKind::kOutput, other)); });
    }
  }

 private:
  Part block(BufferKind kind, int32_t rank) const {
    const int64_t first = cut_.cell(rank, 0, 0), last = cut_.cell(rank + 1, 0, 0);
    return exactly(kind == BufferKind::kInput ? b_.input(first, last, 0) : b_.output(first, last, 0));
  }
  template <typename Visit>
  void forEachOf(int32_t node, const Visit& visit) const {
    const int32_t first = l_ * sizeOf(node) / locals_;
    for (int32_t i = 0; i < sizeOf(node); i++) visit(b_.map().rankAt(node, (first + i) % sizeOf(node)));
  }
};

// --- The algorithm ---

bool accepts(const Problem& p, const RankMap& map) {
  return isUneven(p, map) && (p.collective == Collective::kAllReduce || p.collective == Collective::kReduceScatter ||
                              p.collective == Collective::kAllGather || p.collective == Collective::kAllToAll ||
                              p.collective == Collective::kBroadcast || p.collective == Collective::kReduce);
}

std::unique_ptr<Plan> make(const Problem& p, const RankMap& map, const PlanOptions& options) {
  PlanSpec spec;
  spec.problem = p;
  spec.map = &map;
  spec.algorithm = "rails-uneven";
  spec.chunks = usefulSlices(p.count, std::min(options.chunks, 512));
  // Shares of two nodes overlap in another way at each place.
  spec.roles = p.ranks;
  spec.roleOf = [](int32_t rank) { return rank; };
  switch (p.collective) {
    case Collective::kAllReduce: {
      auto shares = std::make_shared<const UnevenShares>(
          UnevenShares::create(map, cutByWeights(p.count, rampedWeights(spec.chunks)), allReduceWeights(map)));
      spec.grid = shares->cells;
      spec.write = [shares](ProgramBuilder& b) { AllReduce(b, *shares).write(); };
      return makePlan(std::move(spec));
    }
    case Collective::kReduceScatter:
    case Collective::kAllGather: {
      auto cut = std::make_shared<const UnevenBlocks>(cutBlocks(p, map, spec.chunks));
      spec.grid = cut->cells;
      if (p.collective == Collective::kAllGather)
        spec.write = [cut](ProgramBuilder& b) { AllGather(b, *cut).write(); };
      else
        spec.write = [cut](ProgramBuilder& b) { ReduceScatter(b, *cut).write(); };
      return makePlan(std::move(spec));
    }
    case Collective::kAllToAll: {
      spec.chunks = 1;
      UnevenBlocks blocks;
      blocks.chunks = 1;
      blocks.cells = CellGrid{p.count, {0, p.count}};
      auto cut = std::make_shared<const UnevenBlocks>(std::move(blocks));
      spec.grid = cut->cells;
      spec.write = [cut](ProgramBuilder& b) { AllToAll(b, *cut).write(); };
      return makePlan(std::move(spec));
    }
    default: {
      const int32_t chunks = spec.chunks;
      return makeUnevenRooted(std::move(spec), chunks);
    }
  }
}

std::vector<int32_t> chunkChoices(const Problem& p, const RankMap& map, const Fabric&) {
  const int64_t bytes = problemBytes(p);
  std::vector<int32_t> choices{1};
  if (p.collective == Collective::kAllToAll) return choices;
  const bool blocks = p.collective == Collective::kReduceScatter || p.collective == Collective::kAllGather;
  const bool rooted = p.collective == Collective::kBroadcast || p.collective == Collective::kReduce;
  for (const int32_t chunks : {2, 4, 8, 16, 32, 64, 128}) {
    if (bytes / map.ranks() / chunks < (rooted ? 16 << 10 : 32 << 10)) break;
    if (!rooted && chunks > 32) break;
    // A chunk is some messages with each other node: more of them are a program that takes longer to write than a
    // choice may, and more memory.
    if (!rooted && !blocks && int64_t{chunks} * map.nodes() > 2048) break;
    if (blocks && int64_t{chunks} * map.nodes() > 512) break;
    choices.push_back(chunks);
  }
  return choices;
}

}  // namespace

const PlanAlgorithm kRailsUneven{
    "rails-uneven",
    "Rails among nodes of different sizes: each rank carries an equal share of what its node sends and takes in, to "
    "and "
    "from the ranks of other nodes whose shares overlap with it, and over the mesh. For large data.",
    accepts,
    make,
    chunkChoices,
    estimateUnevenPs};

}  // namespace hpu::collectives
