// SPDX-License-Identifier: Apache-2.0
// Rails, trees: broadcast and reduce. Each index has a share of the data and carries it between nodes along two binary
// trees that take turns with the chunks: a node has children in one of them at most, so no rail carries more than a
// share each way. In a node the ranks exchange shares over the mesh.
//
// In the root's node all data leaves (a reduce: enters) over the root's seven links. The share of the root's own rail
// must reach its peers, too: each gets a part of it from the root and passes it to the others; so each link of the root
// carries 1/8 + 1/56 = 1/7 of the data.
//
// One chunk: the small form. The root's rail carries all to a tree of large fan-out, whose ranks serve their nodes.
#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "collectives/scaleout/Plans.h"

namespace hpu::collectives {
namespace {

/// Of the small form: beginning a message costs far less than waiting for one.
constexpr int32_t kFanOut = 32;
/// So many chunks are exchanged together in a node.
constexpr int32_t kChunksOfGroup = 4;
/// Groups that may be on their way to their reduction.
constexpr int32_t kGroupsInFlight = 12;

/// A node's place in a tree, by numbers from the root's.
struct TreePlace {
  int32_t parent = -1;
  std::vector<int32_t> children;
};

/// The in-order binary tree of [first, last): its root has the most trailing zeros. Those that have children are even.
void growTree(std::vector<TreePlace>& tree, int32_t parent, int32_t first, int32_t last) {
  if (first >= last) return;
  const auto width = static_cast<uint32_t>(last - 1) ^ static_cast<uint32_t>(first - 1);
  const auto top = static_cast<int32_t>(static_cast<uint32_t>(last - 1) & ~(std::bit_floor(width) - 1));
  tree[static_cast<size_t>(top)].parent = parent;
  tree[static_cast<size_t>(parent)].children.push_back(top);
  growTree(tree, top, first, top);
  growTree(tree, top, top + 1, last);
}

/// Node 0 has one child in each; every other node has children in one at most.
std::vector<TreePlace> binaryTree(int32_t nodes, bool second) {
  std::vector<TreePlace> tree(static_cast<size_t>(nodes));
  growTree(tree, 0, 1, nodes);
  if (!second) return tree;
  // The same tree of other numbers: odd and even ones change places.
  const int32_t others = nodes - 1;
  const auto renamed = [&](int32_t v) { return v <= 0 ? v : others % 2 == 0 ? nodes - v : v % others + 1; };
  std::vector<TreePlace> other(static_cast<size_t>(nodes));
  for (int32_t v = 0; v < nodes; v++) {
    TreePlace place = tree[static_cast<size_t>(v)];
    place.parent = renamed(place.parent);
    for (int32_t& child : place.children) child = renamed(child);
    other[static_cast<size_t>(renamed(v))] = std::move(place);
  }
  return other;
}

std::vector<TreePlace> wideTree(int32_t nodes) {
  std::vector<TreePlace> tree(static_cast<size_t>(nodes));
  for (int32_t v = 1; v < nodes; v++) {
    const int32_t parent = (v - 1) / kFanOut;
    tree[static_cast<size_t>(v)].parent = parent;
    tree[static_cast<size_t>(parent)].children.push_back(v);
  }
  return tree;
}

/// Cells: group; share (by index from the root's); chunk of the group. A chunk of the root's own share has a cell for
/// each of its peers.
struct Cut {
  int32_t nodes = 0, locals = 0, rootNode = 0, rootLocal = 0;
  int32_t group = 1;  ///< Chunks of a group.
  int32_t parts = 1;  ///< Cells of a chunk of the root's share.
  int64_t groups = 1;
  CellGrid cells;
  std::vector<int64_t> shares;               ///< By group: the largest share.
  std::vector<std::vector<int64_t>> pieces;  ///< By group, chunk: the largest of a share.
  std::vector<int64_t> runs;                 ///< By group: the largest part of the root's share that a peer passes on.
  std::vector<TreePlace> trees[2];
  bool small = false;

  int64_t cell(int64_t g, int32_t share, int32_t q) const {
    const int64_t base = g * group * (parts + locals - 1);
    return share == 0 ? base + int64_t{q} * parts : base + int64_t{group} * parts + int64_t{share - 1} * group + q;
  }
  int64_t cellsOf(int32_t share) const { return share == 0 ? parts : 1; }
};

/// The first and the last groups are small: little is done before the first chunk can go and after the last has come.
std::vector<int32_t> groupWeights(int32_t groups) {
  std::vector<int32_t> weights;
  for (int32_t i = 0; i < groups; i++) weights.push_back(1 << std::min({3, i, groups - 1 - i}));
  return weights;
}

Cut makeCut(const Problem& p, const RankMap& map, int32_t chunks) {
  Cut cut;
  cut.nodes = map.nodes();
  cut.locals = map.ranksPerNode();
  cut.rootNode = map.position(p.root).node;
  cut.rootLocal = map.position(p.root).local;
  cut.cells.blockElements = p.count;
  if (chunks == 1) {
    cut.small = true;
    cut.cells.boundaries = {0, p.count};
    cut.trees[0] = wideTree(cut.nodes);
    return cut;
  }
  cut.group = std::min(kChunksOfGroup, std::max(2, chunks / 8));
  cut.parts = std::max(1, cut.locals - 1);
  cut.groups = (chunks + cut.group - 1) / cut.group;
  cut.trees[0] = binaryTree(cut.nodes, false);
  cut.trees[1] = binaryTree(cut.nodes, true);
  const std::vector<int64_t> group = cutByWeights(p.count, groupWeights(static_cast<int32_t>(cut.groups)));
  for (int64_t g = 0; g < cut.groups; g++) {
    const Span whole{group[static_cast<size_t>(g)], group[static_cast<size_t>(g) + 1] - group[static_cast<size_t>(g)]};
    int64_t largest = 0;
    std::vector<int64_t> pieces(static_cast<size_t>(cut.group));
    for (int32_t i = 0; i < cut.locals; i++) {
      const Span share = part(whole, cut.locals, i);
      largest = std::max(largest, share.count);
      for (int32_t q = 0; q < cut.group; q++) {
        const Span chunk = part(share, cut.group, q);
        pieces[static_cast<size_t>(q)] = std::max(pieces[static_cast<size_t>(q)], chunk.count);
        const int32_t parts = i == 0 ? cut.parts : 1;
        for (int32_t w = 0; w < parts; w++) cut.cells.boundaries.push_back(part(chunk, parts, w).end());
      }
    }
    cut.shares.push_back(largest);
    cut.pieces.push_back(std::move(pieces));
    int64_t run = 0;
    for (int32_t w = 0; w < cut.parts; w++) {
      const auto first = static_cast<size_t>(cut.cell(g, 0, 0) + int64_t{w} * cut.group);
      run = std::max(run, cut.cells.boundaries[first + static_cast<size_t>(cut.group)] - cut.cells.boundaries[first]);
    }
    cut.runs.push_back(run);
  }
  return cut;
}

class TreeProgram {
 public:
  TreeProgram(ProgramBuilder& b, const Cut& cut)
      : b_(b),
        cut_(cut),
        nodes_(cut.nodes),
        locals_(cut.locals),
        n_(b.position().node),
        l_(b.position().local),
        v_((n_ + nodes_ - cut.rootNode) % nodes_),
        i_((l_ + locals_ - cut.rootLocal) % locals_) {}

 protected:
  ProgramBuilder& b_;
  const Cut& cut_;
  const int32_t nodes_, locals_, n_, l_;
  const int32_t v_, i_;  // Node and index from the root's.

  bool isRoot() const { return v_ == 0 && i_ == 0; }
  const TreePlace& place(int32_t tree) const { return cut_.trees[tree][static_cast<size_t>(v_)]; }
  const TreePlace& place(int64_t g, int32_t q) const { return place(static_cast<int32_t>((g * cut_.group + q) % 2)); }
  PeerName toNode(int32_t v) const { return node(v - v_); }
  PeerName toIndex(int32_t i) const { return local(i - i_); }

  Part data(BufferKind kind, int64_t first, int64_t last, int64_t largest) const {
    return kind == BufferKind::kInput ? b_.input(first, last, largest) : b_.output(first, last, largest);
  }
  /// A chunk of a share.
  Part piece(BufferKind kind, int64_t g, int32_t share, int32_t q) const {
    const int64_t first = cut_.cell(g, share, q);
    return data(kind, first, first + cut_.cellsOf(share), cut_.pieces[static_cast<size_t>(g)][static_cast<size_t>(q)]);
  }
  /// A share of a group.
  Part share(BufferKind kind, int64_t g, int32_t share) const {
    const int64_t first = cut_.cell(g, share, 0);
    return data(kind, first, first + cut_.cellsOf(share) * cut_.group, cut_.shares[static_cast<size_t>(g)]);
  }
  /// What a peer of the root passes on of the root's share.
  Part run(BufferKind kind, int64_t g, int32_t i) const {
    const int64_t first = cut_.cell(g, 0, 0) + int64_t{i - 1} * cut_.group;
    return data(kind, first, first + cut_.group, cut_.runs[static_cast<size_t>(g)]);
  }
  Part whole(BufferKind kind) const { return data(kind, 0, cut_.cells.cells(), b_.problem().count); }
};

class Broadcast : TreeProgram {
 public:
  using TreeProgram::TreeProgram;

  void write() {
    if (isRoot()) b_.copy(whole(BufferKind::kOutput), whole(BufferKind::kInput));
    if (cut_.small) return writeSmall();
    for (int64_t g = 0; g < cut_.groups; g++) {
      if (isRoot())
        root(g);
      else if (v_ == 0)
        peerOfRoot(g);
      else
        other(g);
    }
  }

 private:
  void writeSmall() {
    const Part all = whole(isRoot() ? BufferKind::kInput : BufferKind::kOutput);
    if (i_ != 0) return b_.receive(toIndex(0), all);
    if (v_ != 0) b_.receive(toNode(place(0).parent), all);
    for (const int32_t child : place(0).children) b_.send(toNode(child), all);
    for (int32_t s = 1; s < locals_; s++) b_.send(local(s), all);
  }

  void root(int64_t g) {
    for (int32_t q = 0; q < cut_.group; q++) {
      for (int32_t i = 1; i < locals_; i++) b_.send(toIndex(i), piece(BufferKind::kInput, g, i, q));
      for (const int32_t child : place(g, q).children) b_.send(toNode(child), piece(BufferKind::kInput, g, 0, q));
    }
    for (int32_t i = 1; i < locals_; i++) b_.send(toIndex(i), run(BufferKind::kInput, g, i));
  }

  void peerOfRoot(int64_t g) {
    for (int32_t q = 0; q < cut_.group; q++) {
      b_.receive(toIndex(0), piece(BufferKind::kOutput, g, i_, q));
      for (const int32_t child : place(g, q).children) b_.send(toNode(child), piece(BufferKind::kOutput, g, i_, q));
    }
    b_.receive(toIndex(0), run(BufferKind::kOutput, g, i_));
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t to = (i_ + s) % locals_, from = (i_ + locals_ - s) % locals_;
      if (to != 0) {
        b_.send(toIndex(to), share(BufferKind::kOutput, g, i_));
        b_.send(toIndex(to), run(BufferKind::kOutput, g, i_));
      }
      if (from != 0) {
        b_.receive(toIndex(from), share(BufferKind::kOutput, g, from));
        b_.receive(toIndex(from), run(BufferKind::kOutput, g, from));
      }
    }
  }

  void other(int64_t g) {
    for (int32_t q = 0; q < cut_.group; q++) {
      const Part own = piece(BufferKind::kOutput, g, i_, q);
      b_.receive(toNode(place(g, q).parent), own);
      for (const int32_t child : place(g, q).children) b_.send(toNode(child), own);
    }
    for (int32_t s = 1; s < locals_; s++) {
      b_.send(local(s), share(BufferKind::kOutput, g, i_));
      b_.receive(local(-s), share(BufferKind::kOutput, g, (i_ + locals_ - s) % locals_));
    }
  }
};

/// The mirror image: shares are reduced in each node, and on their way over the rails.
class Reduce : TreeProgram {
 public:
  Reduce(ProgramBuilder& b, const Cut& cut) : TreeProgram(b, cut) {
    if (cut.small) return;
    turns_ = static_cast<int32_t>(std::min<int64_t>(cut.groups, kGroupsInFlight));
    const int64_t largest = *std::max_element(cut.shares.begin(), cut.shares.end());
    const int64_t run = *std::max_element(cut.runs.begin(), cut.runs.end());
    int64_t piece = 0;
    for (const std::vector<int64_t>& pieces : cut.pieces)
      piece = std::max(piece, *std::max_element(pieces.begin(), pieces.end()));
    for (int32_t turn = 0; turn < turns_; turn++) {
      Rooms rooms;
      for (int32_t s = 1; s < locals_; s++) {
        rooms.raw.push_back(b.room(BufferKind::kScratch, isRoot() ? 0 : largest, cut.group));
        rooms.rawRun.push_back(b.room(BufferKind::kScratch, v_ == 0 && !isRoot() ? run : 0));
      }
      for (int32_t q = 0; q < cut.group; q++) {
        rooms.children[0].push_back(b.room(BufferKind::kPartial, piece));
        rooms.children[1].push_back(b.room(BufferKind::kPartial, v_ == 0 ? 0 : piece));
        rooms.results.push_back(b.room(v_ == 0 ? BufferKind::kScratch : BufferKind::kPartial, isRoot() ? 0 : piece));
      }
      if (!isRoot()) rooms.run = b.room(BufferKind::kPartial, v_ == 0 ? run : 0);
      rooms_.push_back(std::move(rooms));
    }
    // Parts of the root's share come in runs and are read in chunks: their room is not used again.
    for (int64_t g = 0; g < cut.groups && isRoot(); g++)
      runs_.push_back(b.room(BufferKind::kPartial, cut.shares[static_cast<size_t>(g)], int64_t{cut.group} * cut.parts));
  }

  void write() {
    if (cut_.small) return writeSmall();
    for (int64_t g = 0; g < cut_.groups; g++) {
      if (isRoot())
        root(g);
      else if (v_ == 0)
        peerOfRoot(g);
      else
        other(g);
    }
  }

 private:
  struct Rooms {
    std::vector<Part> raw, rawRun;  // By other rank of the node: its contribution to this rank's share, run.
    std::vector<Part> children[2];  // By chunk.
    std::vector<Part> results;      // By chunk of this rank's share.
    Part run;                       // Partial result of this rank's run.
  };
  int32_t turns_ = 1;
  std::vector<Rooms> rooms_;
  std::vector<Part> runs_;  // At the root, by group: the other ranks' partial results of its share.

  static Part sized(Part room, const Part& like) {
    room.range.count = like.range.count;
    room.largest = like.largest;
    return room;
  }
  int32_t rankOf(int32_t i) const { return b_.map().rankAt(n_, (i + cut_.rootLocal) % locals_); }
  /// A chunk inside of a room of its share. The room is filled as a whole.
  Part inRoom(const Part& room, int64_t g, int32_t q) const {
    const Part all = share(BufferKind::kInput, g, i_), own = piece(BufferKind::kInput, g, i_, q);
    const int64_t cells = (room.end - room.begin) / cut_.group;
    return ProgramBuilder::inside(room, cells * q, cells * (q + 1), own.range.offset - all.range.offset,
                                  own.range.count, own.largest);
  }

  void writeSmall() {
    const Part own = whole(BufferKind::kInput);
    if (i_ != 0) return b_.send(toIndex(0), own);
    std::vector<Part> sources{own.of(b_.rank())};
    for (int32_t s = 1; s < locals_; s++) {
      const Part room = b_.room(BufferKind::kScratch, own.largest).of(rankOf(s));
      b_.receive(local(s), room);
      sources.push_back(room);
    }
    for (const int32_t child : place(0).children) {
      const Part room = b_.room(BufferKind::kPartial, own.largest);
      b_.receive(toNode(child), room);
      sources.push_back(room);
    }
    if (v_ == 0) return b_.reduce(whole(BufferKind::kOutput), sources);
    const Part sum = b_.room(BufferKind::kPartial, own.largest);
    b_.reduce(sum, sources);
    b_.send(toNode(place(0).parent), sum);
  }

  /// Contributions to this rank's share, from and to all ranks of the node that `wants` one.
  void exchange(int64_t g) {
    const Rooms& rooms = rooms_[static_cast<size_t>(g % turns_)];
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t to = (i_ + s) % locals_, from = (i_ + locals_ - s) % locals_;
      const bool toRoot = v_ == 0 && to == 0;
      if (!toRoot) b_.send(toIndex(to), share(BufferKind::kInput, g, to));
      if (!isRoot())
        b_.receive(toIndex(from), sized(rooms.raw[static_cast<size_t>(s - 1)], share(BufferKind::kInput, g, i_)));
      if (v_ != 0 || isRoot()) continue;
      if (!toRoot) b_.send(toIndex(to), run(BufferKind::kInput, g, to));
      if (from != 0)
        b_.receive(toIndex(from), sized(rooms.rawRun[static_cast<size_t>(s - 1)], run(BufferKind::kInput, g, i_)));
    }
  }

  /// This rank's share: contributions of the node, partial results of the children.
  std::vector<Part> sources(int64_t g, int32_t q) {
    const Rooms& rooms = rooms_[static_cast<size_t>(g % turns_)];
    std::vector<Part> result{piece(BufferKind::kInput, g, i_, q).of(b_.rank())};
    for (int32_t s = 1; s < locals_; s++)
      result.push_back(inRoom(rooms.raw[static_cast<size_t>(s - 1)], g, q).of(rankOf((i_ + locals_ - s) % locals_)));
    const std::vector<int32_t>& children = place(g, q).children;
    for (size_t child = 0; child < children.size(); child++) {
      const Part room = sized(rooms.children[child][static_cast<size_t>(q)], result[0]);
      b_.receive(toNode(children[child]), room);
      result.push_back(room);
    }
    return result;
  }

  void other(int64_t g) {
    exchange(g);
    for (int32_t q = 0; q < cut_.group; q++) {
      const std::vector<Part> from = sources(g, q);
      const Part sum = sized(rooms_[static_cast<size_t>(g % turns_)].results[static_cast<size_t>(q)], from[0]);
      b_.reduce(sum, from);
      b_.send(toNode(place(g, q).parent), sum);
    }
  }

  void peerOfRoot(int64_t g) {
    const Rooms& rooms = rooms_[static_cast<size_t>(g % turns_)];
    exchange(g);
    // The node's part of the root's share.
    const Part own = run(BufferKind::kInput, g, i_), sum = sized(rooms.run, own);
    std::vector<Part> raw{own.of(b_.rank())};
    for (int32_t s = 1; s < locals_; s++) {
      const int32_t from = (i_ + locals_ - s) % locals_;
      if (from != 0) raw.push_back(sized(rooms.rawRun[static_cast<size_t>(s - 1)], own).of(rankOf(from)));
    }
    b_.reduce(sum, raw);
    b_.send(toIndex(0), sum);
    for (int32_t q = 0; q < cut_.group; q++) {
      const std::vector<Part> from = sources(g, q);
      const Part result = sized(rooms.results[static_cast<size_t>(q)], from[0]);
      b_.reduce(result, from);
      b_.send(toIndex(0), result);
    }
  }

  void root(int64_t g) {
    const Rooms& rooms = rooms_[static_cast<size_t>(g % turns_)];
    exchange(g);
    const Part all = share(BufferKind::kInput, g, 0);
    const Part& runs = runs_[static_cast<size_t>(g)];
    for (int32_t i = 1; i < locals_; i++) {
      const Part own = run(BufferKind::kInput, g, i);
      b_.receive(toIndex(i), ProgramBuilder::inside(runs, int64_t{i - 1} * cut_.group, int64_t{i} * cut_.group,
                                                    own.range.offset - all.range.offset, own.range.count, own.largest));
    }
    for (int32_t q = 0; q < cut_.group; q++) {
      std::vector<Part> last{piece(BufferKind::kInput, g, 0, q).of(b_.rank())};
      for (const int32_t child : place(g, q).children) {
        const Part room = sized(rooms.children[0][static_cast<size_t>(q)], last[0]);
        b_.receive(toNode(child), room);
        last.push_back(room);
      }
      if (locals_ > 1) last.push_back(inRoom(runs, g, q));
      b_.reduce(piece(BufferKind::kOutput, g, 0, q), last);
      for (int32_t i = 1; i < locals_; i++) b_.receive(toIndex(i), piece(BufferKind::kOutput, g, i, q));
    }
  }
};

/// By node from the root's: nodes other than that whose parents and children are equally far away, in the same order,
/// have one number, from 0; the root's has -1.
std::vector<int32_t> numbersByPlace(const Cut& cut) {
  std::vector<int32_t> numbers(static_cast<size_t>(cut.nodes), -1);
  std::map<std::vector<int32_t>, int32_t> known;
  const auto away = [&](int32_t v, int32_t other) { return (other - v + cut.nodes) % cut.nodes; };
  for (int32_t v = 1; v < cut.nodes; v++) {
    std::vector<int32_t> place;
    for (const std::vector<TreePlace>& tree : cut.trees) {
      if (tree.empty()) continue;  // The small form has one.
      const TreePlace& at = tree[static_cast<size_t>(v)];
      place.push_back(away(v, at.parent));
      for (const int32_t child : at.children) place.push_back(away(v, child));
      place.push_back(-1);
    }
    numbers[static_cast<size_t>(v)] =
        known.try_emplace(std::move(place), static_cast<int32_t>(known.size())).first->second;
  }
  return numbers;
}

bool accepts(const Problem& p, const RankMap& map) {
  return isUniform(p, map) && (p.collective == Collective::kBroadcast || p.collective == Collective::kReduce);
}

std::unique_ptr<Plan> make(const Problem& p, const RankMap& map, const PlanOptions& options) {
  PlanSpec spec;
  spec.problem = p;
  spec.map = &map;
  spec.algorithm = "rails-tree";
  auto cut = std::make_shared<const Cut>(makeCut(p, map, std::clamp(options.chunks, 1, 2048)));
  spec.chunks = static_cast<int32_t>(cut->groups) * cut->group;
  spec.grid = cut->cells;
  // Roles: of places in the trees, one for all ranks of a node; in the small form one for its rank that is in the tree,
  // and one for each other index. In the root's node each rank has its own.
  const int32_t nodes = cut->nodes, locals = cut->locals;
  const bool small = cut->small;
  const auto numbers = std::make_shared<const std::vector<int32_t>>(numbersByPlace(*cut));
  const int32_t others = *std::max_element(numbers->begin(), numbers->end()) + 1;
  spec.roles = others + locals;
  spec.roleOf = [&map, cut, numbers, nodes, locals, small, others](int32_t rank) {
    const Position at = map.position(rank);
    const int32_t v = (at.node + nodes - cut->rootNode) % nodes, i = (at.local + locals - cut->rootLocal) % locals;
    return v == 0 || (small && i != 0) ? others + i : (*numbers)[static_cast<size_t>(v)];
  };
  if (p.collective == Collective::kBroadcast)
    spec.write = [cut](ProgramBuilder& b) { Broadcast(b, *cut).write(); };
  else
    spec.write = [cut](ProgramBuilder& b) { Reduce(b, *cut).write(); };
  return makePlan(std::move(spec));
}

std::vector<int32_t> chunkChoices(const Problem& p, const RankMap&, const Fabric&) {
  std::vector<int32_t> choices{1};
  for (const int32_t chunks : {8, 32, 128, 512, 1024})
    if (p.count * p.elementBytes / chunks >= (chunks == 8 ? 2 << 10 : 8 << 10)) choices.push_back(chunks);
  return choices;
}

}  // namespace

const PlanAlgorithm kRailsTree{
    "rails-tree",
    "Broadcast and reduce: shares travel by all rails along two binary trees over the nodes, chunk by chunk, and are "
    "exchanged over each node's mesh. In one chunk: a flat tree, for small data.",
    accepts,
    make,
    chunkChoices,
    estimateTreePs};

}  // namespace hpu::collectives
