// SPDX-License-Identifier: Apache-2.0
// What the algorithms take on a fabric, in closed form: for choosing without making plans.
// The one thing to know: an estimate is the way of one (the smallest) chunk through all phases, and then the rest of
// what the busiest port or engine has to do. Nodes of a lower rate count as if all were like the slowest.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "collectives/algorithms/Split.h"
#include "collectives/scaleout/UnevenShares.h"

namespace hpu::collectives {
namespace {

class Costs {
 public:
  Costs(const RankMap& map, const Fabric& fabric)
      : fabric_(fabric), nodes(map.nodes()), locals(static_cast<int64_t>(map.ranksOf(0).size())) {
    for (int32_t n = 0; n < map.nodes(); n++) {
      const std::span<const int32_t> ranks = map.ranksOf(n);
      locals = std::max<int64_t>(locals, static_cast<int64_t>(ranks.size()));
      const int32_t node = map.place(ranks[0]).node;
      rate_ = std::min(rate_, fabric.rateOf(node));
      if (n > 0 && fabric.nodesPerLeaf <= 0 && fabric.exceptions.empty()) continue;
      std::vector<int64_t> ofRail(static_cast<size_t>(std::max(fabric.rails, 1)));
      for (const int32_t rank : ranks) {
        const int32_t rail = fabric.railOf(node, map.place(rank).device);
        if (rail >= 0) sharing_ = std::max(sharing_, ++ofRail[static_cast<size_t>(rail)]);
      }
      leaves_ += n == 0 || fabric.leafOf(node) != lastLeaf_ ? 1 : 0;
      lastLeaf_ = fabric.leafOf(node);
    }
    if (fabric.nodesPerLeaf > 0 && leaves_ > 1)
      crossing_ = std::max(1.0, fabric.oversubscription * (1 - 1.0 / static_cast<double>(leaves_)));
    railHop = fabric.railMessagePs + (leaves_ > 1 ? fabric.uplinkPs : 0);
    meshHop = fabric.mesh.messagePs;
    start = fabric.mesh.startPs;
  }

  int64_t mesh(int64_t bytes) const { return slowed(fabric_.mesh.linkPs(bytes), 1); }
  int64_t rail(int64_t bytes) const { return slowed(fabric_.railPs(bytes), static_cast<double>(sharing_) * crossing_); }
  int64_t reduce(int64_t bytes) const { return fabric_.mesh.reducePs(bytes); }

 private:
  const Fabric& fabric_;
  double rate_ = 1, crossing_ = 1;
  int64_t sharing_ = 1, leaves_ = 0;
  int32_t lastLeaf_ = -1;

  int64_t slowed(int64_t ps, double factor) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(ps) * factor / rate_));
  }

 public:
  int64_t nodes, locals;
  int64_t railHop = 0, meshHop = 0, start = 0;
};

int64_t ceilDivide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// What each resource does in all chunks, and the way of the first and the last chunk through all phases.
struct Load {
  int64_t mesh = 0, rail = 0, engine = 0;
  int64_t most() const { return std::max({mesh, rail, engine}); }
};

constexpr int64_t kPhases = 3;

int64_t allReduce(const Problem& p, const Costs& c, int32_t chunks) {
  const std::vector<int64_t> cut = cutByWeights(p.count, rampedWeights(usefulSlices(p.count, chunks)));
  Load load;
  int64_t alone = 0, ofFirst = 0, ways = 0;
  for (size_t i = 0; i + 1 < cut.size(); i++) {
    const int64_t share = ceilDivide(cut[i + 1] - cut[i], c.locals), piece = ceilDivide(share, c.nodes);
    const int64_t e = p.elementBytes, f = p.partialBytes;
    const int64_t mesh = c.locals > 1 ? c.mesh(share * e) : 0;
    const int64_t out = (c.nodes - 1) * c.rail(piece * f), in = (c.nodes - 1) * c.rail(piece * e);
    const int64_t engine = c.reduce(c.locals * share * e + share * f) + c.reduce(c.nodes * piece * f + piece * e);
    const int64_t way = 2 * mesh + out + in + engine + (c.locals > 1 ? 2 * c.meshHop : 0) + 2 * c.railHop;
    if (i == 0) {
      alone = way;
      ofFirst = std::max({2 * mesh, out + in, engine});
    }
    ways += way;
    load.mesh += 2 * mesh;
    load.rail += out + in;
    load.engine += engine;
  }
  // No more chunks than phases are on their way at a time: a pair's messages keep their order.
  return c.start + alone + std::max<int64_t>(0, std::max(load.most(), ways / kPhases) - ofFirst);
}

int64_t blocks(const Problem& p, const Costs& c, int32_t chunks) {
  const std::vector<int64_t> cut = cutByWeights(p.count, taperedWeights(usefulSlices(p.count, chunks)));
  const int64_t e = p.elementBytes, f = p.partialBytes, others = c.nodes - 1;
  const auto number = static_cast<int64_t>(cut.size()) - 1;
  Load load;
  for (size_t i = 0; i + 1 < cut.size(); i++) {
    const int64_t size = cut[i + 1] - cut[i];
    load.mesh += c.locals > 1 ? c.nodes * c.mesh(size * e) : 0;
    if (p.collective == Collective::kReduceScatter) {
      load.rail += others * c.rail(size * f);
      load.engine += others * (c.reduce(c.locals * size * e + size * f) + c.reduce(3 * size * f)) +
                     c.reduce((c.locals + 1) * size * e + size * f);
    } else if (p.collective == Collective::kAllGather) {
      load.rail += others * c.rail(size * e);
    } else {
      load.rail += others * (c.rail(size * e) + (number == 1 && c.locals > 2 ? c.rail((c.locals - 1) * size * e)
                                                                             : (c.locals - 1) * c.rail(size * e)));
    }
  }
  const int64_t first = cut[1] * e, last = (cut[cut.size() - 1] - cut[cut.size() - 2]) * e;
  const int64_t hops = c.start + (c.locals > 1 ? c.meshHop : 0) + c.railHop;
  switch (p.collective) {
    case Collective::kReduceScatter: {
      const int64_t before = c.mesh(first) + c.reduce((c.locals + 1) * first);
      const int64_t after = c.reduce(3 * last) + c.reduce((c.locals + 2) * last);
      return hops + std::max({load.rail + before + after, load.mesh + after - c.railHop, load.engine + c.mesh(first)});
    }
    case Collective::kAllGather:
      return hops + std::max(load.rail + c.mesh(last), load.mesh - c.railHop);
    default:
      // A rank's own block can go while the first ones of the others come.
      return hops +
             std::max(load.rail + (c.locals > 1 ? std::max<int64_t>(0, c.mesh(first) - c.rail(first)) : 0), load.mesh);
  }
}

// --- Nodes of different sizes ---

/// Of a rank of one node, over the whole operation.
struct UnevenLoad {
  double rail = 0, mesh = 0, reduced = 0;  // Bytes: of the busier direction, of a link, of the engine.
  double messages = 0, reductions = 0;     // A chunk: on its rail, and of its engine.
};

UnevenLoad unevenLoad(const Problem& p, const RankMap& map, int32_t node, const std::vector<int32_t>& weights,
                      double atoms) {
  const double e = p.elementBytes, f = isReducing(p.collective) ? p.partialBytes : p.elementBytes;
  const double n = static_cast<double>(p.count), nodes = map.nodes(), ranks = map.ranks();
  const auto locals = static_cast<double>(map.ranksOf(node).size());
  const double own = std::ceil(atoms / locals);
  const bool isRoot = map.position(p.root).node == node;
  switch (p.collective) {
    case Collective::kAllReduce: {
      double all = 0;
      for (const int32_t weight : weights) all += weight;
      const double w = weights[static_cast<size_t>(node)] / all, share = n / locals;
      return {std::max(share * ((1 - w) * f + (nodes - 1) * w * e), share * ((nodes - 1) * w * f + (1 - w) * e)),
              locals > 1 ? 2 * share * e : 0, share * ((locals + 1) * e + 2 * f + nodes * w * f), 2 * (nodes - 1) * own,
              1 + own};
    }
    case Collective::kReduceScatter:
    case Collective::kAllGather: {
      const double rail = n * f * std::max(nodes - 1, (ranks - locals) / locals);
      const double messages = std::max((nodes - 1) * own, ranks / locals + nodes);
      const double mesh = locals > 1 ? n * e * ranks / locals : 0;
      if (p.collective == Collective::kAllGather) return {rail, mesh, 0, messages, 0};
      return {rail, mesh, n * ranks / locals * (locals * e + 2 * f) + 3 * nodes * n * f, messages, 2 * messages};
    }
    case Collective::kAllToAll:
      return {n * e * (ranks - locals), locals > 1 ? n * e : 0, 0, ranks - locals, 0};
    default: {
      const double mesh = locals <= 1 ? 0 : n * e / (isRoot ? locals - 1 : locals);
      const double passed = isRoot ? 0 : (nodes - 2) * locals / (ranks - 1),
                   rail = n / locals * f * std::max(1.0, passed);
      if (p.collective == Collective::kBroadcast) return {rail, mesh, 0, (nodes - 1) * own, 0};
      return {rail, mesh, n / locals * ((locals + 1) * e + 4 * f), (nodes - 1) * own, 1 + own};
    }
  }
}

int64_t log2Up(int64_t n) {
  int64_t levels = 0;
  while ((int64_t{1} << levels) < n) levels++;
  return levels;
}

}  // namespace

int64_t estimateRailsPs(const Problem& p, const RankMap& map, const Fabric& fabric, int32_t chunks) {
  const Costs c(map, fabric);
  return p.collective == Collective::kAllReduce ? allReduce(p, c, chunks) : blocks(p, c, chunks);
}

int64_t estimateOneShotPs(const Problem& p, const RankMap& map, const Fabric& fabric, int32_t) {
  const Costs c(map, fabric);
  const int64_t e = p.elementBytes, f = p.partialBytes, n = p.count;
  int64_t ps = c.start + c.railHop + (c.locals > 1 ? c.meshHop : 0);
  switch (p.collective) {
    case Collective::kAllReduce:
      return ps + (c.locals > 1 ? c.mesh(n * e) : 0) + c.reduce(c.locals * n * e + n * f) +
             (c.nodes - 1) * c.rail(n * f) + c.reduce(c.nodes * n * f + n * e);
    case Collective::kReduceScatter:
      return ps + (c.nodes - 1) * c.rail(c.locals * n * e) + c.reduce(c.locals * n * (c.nodes * e + f)) +
             (c.locals > 1 ? c.mesh(n * f) + c.reduce(c.locals * n * f + n * e) : 0);
    default: {
      int64_t known = 1;
      for (ps -= c.railHop; known < c.nodes; known *= 32)
        ps += c.railHop + std::min<int64_t>(31, c.nodes - 1) * c.rail(0);
      return ps;
    }
  }
}

int64_t estimateTreePs(const Problem& p, const RankMap& map, const Fabric& fabric, int32_t chunks) {
  const Costs c(map, fabric);
  const bool reduces = p.collective == Collective::kReduce;
  const int64_t e = p.elementBytes, f = reduces ? p.partialBytes : e, n = p.count;
  if (chunks <= 1) {
    // A node with children has its message before those without: the last of a level of parents waits for as many as
    // they are, the last of the nodes for those of its parent.
    const int64_t message = c.rail(n * f), hop = c.railHop + (reduces ? c.reduce(4 * n * f) : 0);
    int64_t above = c.start, ps = c.start;
    for (int64_t reached = 1, level = 1; reached < c.nodes;) {
      level = std::min(32 * level, c.nodes - reached);
      reached += level;
      ps = std::max(ps, above + std::min<int64_t>(32, level) * message + hop);
      const int64_t below = std::min(32 * level, c.nodes - reached);
      above += std::min<int64_t>(32, ceilDivide(below, 32)) * message + hop;
    }
    return ps + (c.locals > 1 ? c.mesh(n * e) + c.meshHop : 0) + (reduces ? c.reduce((c.locals + 1) * n * e) : 0);
  }
  const int64_t share = ceilDivide(n, c.locals), piece = ceilDivide(share, chunks);
  const int64_t peers = std::max<int64_t>(1, c.locals - 1);
  Load load;
  load.mesh = c.locals > 1 ? chunks * (c.mesh(piece * e) + c.mesh(piece * e / 4) / peers * 4) : 0;
  load.rail = chunks * c.rail(piece * f);
  if (reduces) load.engine = chunks * c.reduce(c.locals * piece * e + 2 * piece * f);
  // The first chunk goes down (up) the tree; of the last ones only a small part is left.
  const int64_t depth = log2Up(c.nodes);
  const int64_t hop = c.railHop + c.rail(piece * f) + (reduces ? c.reduce(c.locals * piece * e / 2) : 0);
  const int64_t group = c.locals > 1 ? c.mesh(2 * piece * e) + c.meshHop : 0;
  return c.start + load.most() + depth * hop + 2 * group;
}

int64_t estimatePairwisePs(const Problem& p, const RankMap& map, const Fabric& fabric, int32_t) {
  const Costs c(map, fabric);
  const int64_t ranks = map.ranks(), e = p.elementBytes, n = p.count;
  // By rank shifts some ranks talk to their node while others' rails are used twice: as if all went by the rails.
  const int64_t others = map.nodes() > 1 ? ranks - 1 : 0;
  const int64_t hop = map.nodes() > 1 ? c.railHop : c.meshHop;
  const auto round = [&](int64_t bytes) { return hop + std::max(others * c.rail(bytes), c.mesh(bytes)); };
  const int64_t share = ceilDivide(n, ranks) * e;
  switch (p.collective) {
    case Collective::kAllReduce:
      return c.start + 2 * round(share) + c.reduce((ranks + 1) * share);
    case Collective::kReduceScatter:
      return c.start + round(n * e) + c.reduce((ranks + 1) * n * e);
    case Collective::kBroadcast:
      // The root gives each rank of other nodes that rank's share and its own, one behind the other; the last one that
      // has its share gives it to all.
      return c.start + 2 * hop +
             std::max(3 * std::max<int64_t>(0, others + 1 - c.locals) * c.rail(share), 2 * c.mesh(share));
    case Collective::kReduce:
      return c.start + 2 * round(share) + c.reduce((ranks + 1) * share);
    case Collective::kBarrier:
      return c.start + round(0);
    case Collective::kPointToPoint: {
      const bool here = map.position(p.root).node == map.position(p.destination).node;
      return c.start + (here ? c.meshHop + c.mesh(n * e) : c.railHop + c.rail(n * e));
    }
    default:
      return c.start + round(n * e);
  }
}

int64_t estimateUnevenPs(const Problem& p, const RankMap& map, const Fabric& fabric, int32_t chunks) {
  const Costs c(map, fabric);
  chunks = usefulSlices(p.count, chunks);
  if (p.collective == Collective::kAllToAll) chunks = 1;
  const bool blocks = p.collective == Collective::kReduceScatter || p.collective == Collective::kAllGather ||
                      p.collective == Collective::kAllToAll;
  const std::vector<int32_t> weights = allReduceWeights(map);
  const double atoms = (blocks ? sharesOfBlocks(map) : sharesOfNodes(map)).atoms();
  // Of the first chunk, in which every phase is alone.
  const std::vector<int32_t> parts = blocks ? taperedWeights(chunks) : rampedWeights(chunks);
  const double first =
      static_cast<double>(blocks ? parts.back() : parts.front()) / std::accumulate(parts.begin(), parts.end(), 0.0);
  int64_t most = 0, alone = 0;
  for (int32_t n = 0; n < map.nodes(); n++) {
    if (n > 0 && map.ranksOf(n).size() == map.ranksOf(n - 1).size() && map.nodes() > 64) continue;
    const UnevenLoad load = unevenLoad(p, map, n, weights, atoms);
    const auto bytes = [](double value) { return static_cast<int64_t>(value); };
    const int64_t rail = c.rail(bytes(load.rail)) + bytes(chunks * load.messages) * c.rail(0);
    const int64_t mesh = load.mesh > 0 ? c.mesh(bytes(load.mesh)) : 0;
    const int64_t engine =
        load.reduced > 0 ? c.reduce(bytes(load.reduced)) + bytes(chunks * load.reductions) * c.reduce(0) : 0;
    const int64_t ways = (rail + mesh + engine) / kPhases;
    most = std::max({most, rail, mesh, engine, p.collective == Collective::kAllReduce ? ways : 0});
    alone = std::max(alone, bytes(first * static_cast<double>(blocks ? mesh / map.nodes() + engine / map.nodes()
                                                                     : rail + mesh + engine)));
  }
  const int64_t hops = p.collective == Collective::kAllReduce || !blocks ? 2 : 1;
  return c.start + hops * (c.railHop + c.meshHop) + alone +
         static_cast<int64_t>((1 - (blocks ? 0 : first)) * static_cast<double>(most));
}

int64_t estimateHclPs(const Problem& p, const RankMap& map, const Fabric& fabric, int32_t) {
  // Phases behind each other for one slice, and then the busiest of them for the others.
  const Costs c(map, fabric);
  return estimateRailsPs(p, map, fabric, 1) + (c.nodes - 1) * c.railHop;
}

}  // namespace hpu::collectives
