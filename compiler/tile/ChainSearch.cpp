// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/ChainSearch.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/StatusMacros.h"

namespace hpu::tile {
namespace {

using perfmodel::Picoseconds;
using plan::SlicedCommand;
using recipe::Operand;

/// A slice shorter than this (of the slowest unit's slower engine) is mostly launch.
constexpr Picoseconds kShortestSlice = 600 * 1000;
/// Units on each side that a choice is judged with.
constexpr size_t kNeighbours = 3;
/// Tiles of a result that is cut: one is read while the next is written.
constexpr int64_t kSlots = 2;
constexpr int kSweeps = 2;
constexpr size_t kApart = SIZE_MAX;

/// Units one behind the other, each the only reader of the one before.
struct Chain {
  std::vector<size_t> links, units;
  std::vector<int> dims;                    ///< By unit.
  std::vector<std::vector<int64_t>> tiles;  ///< By unit.
  std::vector<int64_t> bytes;               ///< By link: of a tile.
  int64_t total = 0;                        ///< Bytes of all tiles.
  int64_t count = 1;
  int64_t slots() const { return count > 1 ? kSlots : 1; }
  std::vector<SlicedCommand> commands;
  std::vector<plan::Packing> packings;
};

class ChainSearch {
 public:
  ChainSearch(const plan::IssueContext& context, const std::vector<SearchUnit>& units,
              const std::vector<SearchLink>& links, const UnitsApart& apart, const SearchOptions& options)
      : units_(units),
        links_(links),
        apart_(apart),
        sramBytes_(options.sramBytes),
        options_(options),
        program_(context.program),
        context_{program_, context.reads, context.target, context.clock},
        chainOf_(units.size(), kApart) {
    // Results in SRAM keep their addresses, in a section of their own.
    sram_ = static_cast<uint32_t>(program_.sections.size());
    program_.sections.push_back({recipe::SectionKind::kSram, recipe::kNone, 0});
  }

  StatusOr<ChainPlan> run() {
    plan_.chains.resize(links_.size());
    plan_.tiles.resize(units_.size());
    HPU_ASSIGN(Picoseconds before, timeOf(0, units_.size()));
    // What was slower may not be any more, once its neighbours are chains.
    for (int sweep = 0; sweep < kSweeps && sramBytes_ > 0; ++sweep)
      for (size_t l = 0; l < links_.size(); ++l)
        if (plan_.chains[l].outcome == Chaining::Outcome::kSlower) HPU_RETURN_IF_ERROR(consider(l));
    HPU_ASSIGN(plan_.time, timeOf(0, units_.size()));
    // A neighbourhood does not see everything: chains that cost the program time are undone, the last ones first.
    for (size_t c = chains_.size(); c-- > 0 && plan_.time > before && inBudget(0);) {
      if (chainOf_[chains_[c].units[0]] != c) continue;
      for (size_t u : chains_[c].units) chainOf_[u] = kApart;
      HPU_ASSIGN(Picoseconds without, timeOf(0, units_.size()));
      bool better = without < plan_.time;
      for (size_t u : chains_[c].units) chainOf_[u] = better ? kApart : c;
      if (better) plan_.time = without;
      for (size_t l : chains_[c].links)
        if (better) plan_.chains[l].outcome = Chaining::Outcome::kSlower;
    }
    for (size_t u = 0; u < units_.size(); ++u) {
      if (chainOf_[u] == kApart) continue;
      const Chain& chain = chains_[chainOf_[u]];
      for (size_t i = 0; i < chain.units.size(); ++i)
        if (chain.units[i] == u) plan_.tiles[u] = chain.tiles[i];
      if (chain.units[0] == u)
        plan_.packings.insert(plan_.packings.end(), chain.packings.begin(), chain.packings.end());
    }
    return std::move(plan_);
  }

 private:
  const recipe::Op& opOf(size_t unit, size_t i) const { return program_.ops[units_[unit].ops[i]]; }
  recipe::Op& lastOp(size_t unit) { return program_.ops[units_[unit].ops.back()]; }
  static Operand& resultOf(recipe::Op& op) { return op.engine == Engine::kMme ? op.mme.c : op.tpc.outputs[0]; }

  /// Calls visit with the position of an op in the reader and an operand of it that is (a view of) the link's result.
  template <typename Visit>
  void forEachRead(const SearchLink& link, Visit visit) {
    const Operand& result = resultOf(lastOp(link.producer));
    const uint64_t end = result.offset + recipe::operandSpanBytes(result);
    for (size_t i = 0; i < units_[link.reader].ops.size(); ++i) {
      recipe::Op& op = program_.ops[units_[link.reader].ops[i]];
      auto offer = [&](Operand& operand, size_t input) {
        if (operand.section == result.section && operand.offset >= result.offset && operand.offset < end)
          visit(i, op, operand, input);
      };
      if (op.engine == Engine::kMme) {
        offer(op.mme.a, 0);
        offer(op.mme.b, 1);
      } else {
        for (size_t input = 0; input < op.tpc.inputs.size(); ++input) offer(op.tpc.inputs[input], input);
      }
    }
  }

  /// Whether kernels of the reader read the result along the cut dim just at their own points, and along the others as
  /// well or whole: that is what ops of one bundle may do (the executor merges them block by block). A window may not.
  bool readsPointwise(const SearchLink& link, int cutDim) {
    bool pointwise = true;
    forEachRead(link, [&](size_t, const recipe::Op& op, const Operand& operand, size_t input) {
      if (op.engine != Engine::kTpc) return;
      const recipe::InputReads& reads = context_.reads[op.tpc.kernel];
      for (int d = 0; d < static_cast<int>(operand.sizes.size()); ++d) {
        const bool whole = d != cutDim && (program_.kernels[op.tpc.kernel].wholeDims >> d & 1);
        const auto at = static_cast<size_t>(d);
        const bool own =
            input < reads.size() && at < reads[input].size() && reads[input][at] == recipe::DimRead{d, 1, 0, 0};
        pointwise &= whole || own || operand.sizes[at] == 1;
      }
    });
    return pointwise;
  }

  /// The link's result moves to `section`; returns where it was.
  uint32_t move(const SearchLink& link, uint32_t section) {
    std::vector<Operand*> reads;
    forEachRead(link, [&](size_t, recipe::Op&, Operand& operand, size_t) { reads.push_back(&operand); });
    for (Operand* read : reads) read->section = section;
    return std::exchange(resultOf(lastOp(link.producer)).section, section);
  }

  /// The chain that the link makes of the chains of its units; no links when it cannot.
  Chain joined(size_t l) const {
    const SearchLink& link = links_[l];
    Chain chain;
    size_t ahead = chainOf_[link.producer], behind = chainOf_[link.reader];
    if (behind != kApart && chains_[behind].units.front() != link.reader) return {};
    if (ahead != kApart) chain.links = chains_[ahead].links;
    chain.links.push_back(l);
    if (behind != kApart)
      chain.links.insert(chain.links.end(), chains_[behind].links.begin(), chains_[behind].links.end());
    chain.units.push_back(links_[chain.links[0]].producer);
    for (size_t each : chain.links) chain.units.push_back(links_[each].reader);
    return chain;
  }

  /// Cuts the chain's first unit into slices of `size` along `dim` (-1: not at all), and the others as follows from it.
  /// False when one of them cannot follow.
  bool cut(Chain& chain, int dim, int64_t size) {
    chain.dims.assign(1, dim);
    chain.tiles.assign(1, opOf(chain.units[0], 0).space);
    chain.count = 1;
    if (dim < 0) {
      for (size_t i = 1; i < chain.units.size(); ++i) {
        chain.dims.push_back(-1);
        chain.tiles.push_back(opOf(chain.units[i], 0).space);
      }
      return true;
    }
    chain.count = (chain.tiles[0][dim] + size - 1) / size;
    chain.tiles[0][dim] = size;
    for (size_t l : chain.links) {
      const SearchLink& link = links_[l];
      auto found = std::find_if(link.cuts.begin(), link.cuts.end(),
                                [&](const SearchLink::Cut& c) { return c.producerDim == chain.dims.back(); });
      if (found == link.cuts.end()) return false;
      const int next = found->readerDim;
      const int64_t from = opOf(link.producer, 0).space[chain.dims.back()], to = opOf(link.reader, 0).space[next];
      const int64_t scaled = chain.tiles.back()[chain.dims.back()] * to;
      std::vector<int> allowed = apart_.cuttable(link.reader);
      if (scaled % from != 0 || std::find(allowed.begin(), allowed.end(), next) == allowed.end() ||
          !readsPointwise(link, next))
        return false;
      chain.tiles.push_back(opOf(link.reader, 0).space);
      chain.tiles.back()[next] = scaled / from;
      chain.dims.push_back(next);
    }
    return true;
  }

  static int64_t bytesOf(const Operand& operand, const std::vector<int64_t>& tile) {
    int64_t bytes = elementSize(operand.type);
    for (int64_t size : tile) bytes *= size;
    return (bytes + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
  }

  /// Whether all tiles of the chain are in SRAM together, with those of its neighbours; sets their bytes.
  bool fits(Chain& chain, int64_t besideBytes) {
    chain.total = 0;
    chain.bytes.clear();
    bool fit = true;
    for (size_t i = 0; i < chain.units.size(); ++i) {
      const SearchUnit& unit = units_[chain.units[i]];
      if (unit.tileBytes > 0) {
        const int64_t bytes = bytesOf(opOf(chain.units[i], 0).mme.c, chain.tiles[i]);
        fit &= bytes <= unit.tileBytes;
        chain.total += bytes * chain.slots();
      }
      if (i == chain.links.size()) break;
      chain.bytes.push_back(bytesOf(resultOf(lastOp(chain.units[i])), chain.tiles[i]));
      chain.total += chain.bytes.back() * chain.slots();
    }
    // With the neighbours' tiles: the rest of the SRAM is what all products stage their operands in.
    return fit && chain.total + besideBytes <= mostChainBytes(sramBytes_);
  }

  /// Tiles of the neighbour, ahead or behind, that has more. The chain is the last one.
  int64_t besideBytes(const Chain& chain) const {
    const size_t own = chains_.size() - 1;
    auto bytes = [&](size_t u) {
      return chainOf_[u] == own ? 0 : chainOf_[u] == kApart ? apart_.tileBytes(u) : chains_[chainOf_[u]].total;
    };
    int64_t ahead = 0, behind = 0;
    for (size_t u = chain.units.back(); u-- > 0 && ahead == 0;) ahead = bytes(u);
    for (size_t u = chain.units.back() + 1; u < units_.size() && behind == 0; ++u) behind = bytes(u);
    return std::max(ahead, behind);
  }

  void slice(Chain& chain) {
    auto part = [&](size_t i) {
      const SearchUnit& unit = units_[chain.units[i]];
      plan::IssueUnit issue{unit.ops, chain.tiles[i], chain.count > 1 ? 0 : recipe::kNone,
                            unit.tileBytes > 0 && chain.count > kSlots ? kSlots : 0};
      if (i == chain.links.size()) return issue;
      issue.kept = chain.count > kSlots ? kSlots : 0;
      forEachRead(links_[chain.links[i]], [&](size_t op, const recipe::Op&, const Operand&, size_t) {
        issue.reader = std::max(issue.reader, static_cast<uint32_t>(op));
      });
      return issue;
    };
    // The draft has half of the SRAM for tiles.
    program_.sections[sram_].bytes = static_cast<uint64_t>(std::max<int64_t>(chain.total - sramBytes_ / 2, 0));
    plan::IssueUnit whole = part(0);
    for (size_t i = 1; i < chain.units.size(); ++i) whole.chained.push_back(part(i));
    chain.commands = plan::sliceUnit(context_, whole);
    chain.packings = plan::packCommands(context_, chain.commands);
  }

  Status consider(size_t l) {
    const SearchLink& link = links_[l];
    Chaining& result = plan_.chains[l];
    if (!inBudget(2)) return okStatus();
    result = {};
    Chain chain = joined(l);
    if (chain.links.empty()) {
      result.outcome = Chaining::Outcome::kTaken;
      return okStatus();
    }
    if (chain.units.size() > kLongestChain) {
      result.outcome = Chaining::Outcome::kTooLong;
      return okStatus();
    }
    auto [first, last] = std::minmax_element(chain.units.begin(), chain.units.end());
    const size_t from = *first - std::min(*first, kNeighbours), to = std::min(units_.size(), *last + kNeighbours + 1);
    HPU_ASSIGN(result.apart, timeOf(from, to));
    Picoseconds longest = 0;
    for (size_t u : chain.units) longest = std::max(longest, apart_.time(u));

    std::vector<std::pair<int, int64_t>> choices = {{-1, 0}};
    const size_t head = chain.units[0];
    for (int dim : apart_.cuttable(head))
      for (int64_t size : apart_.sizes(opOf(head, 0).space[dim])) choices.emplace_back(dim, size);
    const uint32_t before = move(link, sram_);
    std::vector<size_t> chainsBefore;
    for (size_t u : chain.units) chainsBefore.push_back(chainOf_[u]);
    chains_.emplace_back();
    for (size_t u : chain.units) chainOf_[u] = chains_.size() - 1;
    const size_t position = std::find(chain.links.begin(), chain.links.end(), l) - chain.links.begin();
    const int64_t beside = besideBytes(chain);
    bool follows = false, any = false;
    Chain best;
    for (auto [dim, size] : choices) {
      if (!inBudget(1)) break;
      if (!cut(chain, dim, size)) continue;
      follows |= dim >= 0;
      const bool fit = fits(chain, beside);
      if (!any && (result.bytes == 0 || chain.bytes[position] < result.bytes)) result.bytes = chain.bytes[position];
      if (!fit || (any && longest / chain.count < kShortestSlice)) continue;
      any = true;
      slice(chain);
      chains_.back() = chain;
      HPU_ASSIGN(Picoseconds time, timeOf(from, to));
      if (!best.links.empty() && time >= result.chained) continue;
      result.chained = time;
      best = std::move(chains_.back());
    }
    if (any && result.chained <= result.apart) {
      chains_.back() = std::move(best);
      settle(chains_.back());
      return okStatus();
    }
    chains_.pop_back();
    for (size_t i = 0; i < chain.units.size(); ++i) chainOf_[chain.units[i]] = chainsBefore[i];
    move(link, before);
    result.outcome = any       ? Chaining::Outcome::kSlower
                     : follows ? Chaining::Outcome::kTooLarge
                               : Chaining::Outcome::kNoCut;
    return okStatus();
  }

  void settle(const Chain& chain) {
    for (size_t i = 0; i < chain.links.size(); ++i) {
      Chaining& link = plan_.chains[chain.links[i]];
      link.outcome = Chaining::Outcome::kChained;
      link.dim = std::max(chain.dims[i], 0);
      link.slots = chain.slots();
      link.bytes = chain.bytes[i];
    }
  }

  bool inBudget(int64_t windows) const {
    return priced_ + windows <= options_.windows && pricedCommands_ < options_.windowCommands;
  }

  /// A chain stands where its last unit does: whatever its units read is there by then.
  StatusOr<Picoseconds> timeOf(size_t from, size_t to) {
    if (options_.isCancelled && options_.isCancelled()) return cancelled("the search for chains was cancelled");
    std::vector<const std::vector<SlicedCommand>*> commands;
    for (size_t u = from; u < to; ++u) {
      if (chainOf_[u] == kApart)
        commands.push_back(&apart_.commands(u));
      else if (chains_[chainOf_[u]].units.back() == u)
        commands.push_back(&chains_[chainOf_[u]].commands);
    }
    ++priced_;
    for (const std::vector<SlicedCommand>* unit : commands) pricedCommands_ += static_cast<int64_t>(unit->size());
    HPU_ASSIGN(plan::Issued issued, plan::issueCommands(context_, commands, true));
    return issued.time;
  }

  const std::vector<SearchUnit>& units_;
  const std::vector<SearchLink>& links_;
  const UnitsApart& apart_;
  const int64_t sramBytes_;
  const SearchOptions& options_;
  recipe::Program program_;  ///< With results of chains in SRAM.
  plan::IssueContext context_;
  uint32_t sram_ = 0;
  std::deque<Chain> chains_;     ///< Those that a longer one took up too.
  std::vector<size_t> chainOf_;  ///< By unit: index of its chain.
  ChainPlan plan_;
  int64_t priced_ = 0, pricedCommands_ = 0;
};

}  // namespace

StatusOr<ChainPlan> searchChains(const plan::IssueContext& context, const std::vector<SearchUnit>& units,
                                 const std::vector<SearchLink>& links, const UnitsApart& apart,
                                 const SearchOptions& options) {
  return ChainSearch(context, units, links, apart, options).run();
}

}  // namespace hpu::tile
