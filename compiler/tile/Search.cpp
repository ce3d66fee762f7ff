// SPDX-License-Identifier: Apache-2.0
#include "compiler/tile/Search.h"

#include <algorithm>
#include <map>

#include "base/StatusMacros.h"
#include "compiler/tile/ChainSearch.h"
#include "plan/Dependencies.h"

namespace hpu::tile {
namespace {

using perfmodel::Picoseconds;
using plan::SlicedCommand;

/// Powers of two and what lies halfway between them. Every two slices of neighbours are compared, so they are not many;
/// a product that does not fit into SRAM in so many goes through HBM.
constexpr int64_t kCounts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512};
/// So few slices may have another size than an equal share, one of so many.
constexpr int64_t kUnevenCounts = 4, kUnevenSizes = 4;
/// A slice shorter than this (of the unit's slower engine) is mostly launch.
constexpr Picoseconds kShortestSlice = 600 * 1000;
/// Units on each side that a choice is judged with.
constexpr size_t kNeighbours = 3;
constexpr int kSweeps = 2;
/// Numbers of slices that runs of units are tried with.
constexpr int64_t kRunCounts[] = {1, 2, 3, 4, 8, 16};

struct Candidate {
  int dim = -1;  ///< The one that is cut; -1: none.
  int64_t count = 1;
  std::vector<int64_t> tile;
};

struct Unit {
  const SearchUnit* source = nullptr;
  std::vector<Candidate> candidates;
  std::map<size_t, std::vector<SlicedCommand>> sliced;    ///< By candidate, once asked for.
  std::map<size_t, std::vector<plan::Packing>> packings;  ///< Likewise.
  Picoseconds whole = 0;                                  ///< Time of the slower engine, not cut.
  std::vector<size_t> producers, consumers;
  size_t chosen = 0;
};

/// The parts of a program that pricing reads, with one section for all HBM that is written. A training step has
/// hundreds of outputs, and what finds conflicts keeps tables by section, anew for every schedule that is priced.
recipe::Program inFewSections(const recipe::Program& program) {
  using recipe::SectionKind;
  recipe::Program few;
  few.target = program.target;
  few.kernels = program.kernels;
  few.ops = program.ops;
  auto forEachOperand = [&](auto visit) {
    for (recipe::Op& op : few.ops)
      for (uint32_t number = 0; recipe::Operand* operand = recipe::operandAt(op, number); ++number)
        if (operand->section < program.sections.size()) visit(*operand);
  };
  std::vector<uint64_t> bytes(program.sections.size(), 0);
  forEachOperand([&](const recipe::Operand& operand) {
    bytes[operand.section] = std::max(bytes[operand.section], operand.offset + recipe::operandSpanBytes(operand));
  });
  std::map<SectionKind, uint32_t> shared;
  std::vector<std::pair<uint32_t, uint64_t>> moved;  // By section: to which one, and by how many bytes.
  for (size_t s = 0; s < program.sections.size(); ++s) {
    recipe::Section section = program.sections[s];
    // Prices depend on the size of what is in SRAM.
    const bool isShared = section.kind != SectionKind::kSram;
    if (section.kind == SectionKind::kOutput || section.kind == SectionKind::kPersistent)
      section.kind = SectionKind::kWorkspace;
    const auto next = static_cast<uint32_t>(few.sections.size());
    const uint32_t to = isShared ? shared.try_emplace(section.kind, next).first->second : next;
    if (to == next) few.sections.push_back({section.kind, recipe::kNone, isShared ? 0 : section.bytes});
    moved.emplace_back(to, isShared ? few.sections[to].bytes : 0);
    if (isShared)
      few.sections[to].bytes += (bytes[s] + recipe::kAlignment - 1) / recipe::kAlignment * recipe::kAlignment;
  }
  forEachOperand([&](recipe::Operand& operand) {
    const auto [section, offset] = moved[operand.section];
    operand.section = section;
    operand.offset += offset;
  });
  return few;
}

class Search {
 public:
  Search(const plan::IssueContext& context, const std::vector<SearchUnit>& units, const std::vector<SearchLink>& links,
         const SearchOptions& options)
      : context_(context), options_(options), sources_(units), links_(links), units_(units.size()) {
    for (size_t u = 0; u < units.size(); ++u) units_[u].source = &units[u];
  }

  StatusOr<Tiling> run() {
    for (Unit& unit : units_) {
      if (isCancelled()) return cancelled("the search for tiles was cancelled");
      addCandidates(unit);
    }
    if (options_.slice) {
      findNeighbours();
      chooseDims();
      HPU_RETURN_IF_ERROR(chooseCounts());
      HPU_RETURN_IF_ERROR(refine());
      HPU_RETURN_IF_ERROR(polish());
    }
    Tiling tiling;
    if (units_.empty()) return tiling;
    for (const Unit& unit : units_)
      tiling.tiles.push_back(unit.candidates.empty() ? std::vector<int64_t>() : unit.candidates[unit.chosen].tile);
    if (options_.slice && options_.sramBytes > 0 && !links_.empty()) {
      HPU_ASSIGN(ChainPlan plan, chains());
      for (size_t u = 0; u < units_.size(); ++u)
        if (!plan.tiles[u].empty()) {
          tiling.tiles[u] = std::move(plan.tiles[u]);
          units_[u].packings.clear();
        }
      tiling.chains = std::move(plan.chains);
      tiling.packings = std::move(plan.packings);
      tiling.time = plan.time;
    } else {
      tiling.chains.resize(links_.size());
      HPU_ASSIGN(tiling.time, timeOf(0, units_.size()));
    }
    for (Unit& unit : units_)
      for (const plan::Packing& packing : unit.packings[unit.chosen]) tiling.packings.push_back(packing);
    return tiling;
  }

 private:
  const recipe::Op& opOf(const Unit& unit, size_t i) const { return context_.program.ops[unit.source->ops[i]]; }

  /// Dimensions along which all ops of the unit can be cut: not along the width of the MME (columns, channels), nor
  /// what a kernel needs whole, nor the elements that lie side by side. The slowest in memory first.
  std::vector<int> cuttable(const Unit& unit) const {
    const std::vector<int64_t>& space = opOf(unit, 0).space;
    std::vector<bool> allowed(space.size(), true);
    for (size_t i = 0; i < unit.source->ops.size(); ++i) {
      const recipe::Op& op = opOf(unit, i);
      if (op.engine == Engine::kDma) return {};
      if (op.engine == Engine::kMme) {
        bool gemm = op.mme.kind == recipe::MmeKind::kGemm;
        for (size_t d = 0; d < allowed.size(); ++d)
          allowed[d] = allowed[d] && (gemm ? d + 1 < allowed.size() : d == 0 || d == 2);
        continue;
      }
      const recipe::Operand& out = op.tpc.outputs[0];
      for (size_t d = 0; d < allowed.size(); ++d)
        if (context_.program.kernels[op.tpc.kernel].wholeDims >> d & 1 || (out.strides[d] == 1 && space[d] > 1))
          allowed[d] = false;
    }
    std::vector<int> dims;
    for (size_t d = 0; d < allowed.size(); ++d)
      if (allowed[d] && space[d] > 1) dims.push_back(static_cast<int>(d));
    const recipe::Op& last = opOf(unit, unit.source->ops.size() - 1);
    const recipe::Operand& out = last.engine == Engine::kMme ? last.mme.c : last.tpc.outputs[0];
    std::stable_sort(dims.begin(), dims.end(), [&](int a, int b) { return out.strides[a] > out.strides[b]; });
    return dims;
  }

  /// Sizes of a slice along a dimension, the largest first. Few slices need not be equal: five images and three fill
  /// the MME better than twice four where five make whole steps of it.
  static std::vector<int64_t> sizes(int64_t extent) {
    std::vector<int64_t> all;
    int64_t before = extent;
    for (int64_t count : kCounts) {
      if (count == 1 || count > extent) continue;
      const int64_t even = (extent + count - 1) / count;
      if (count <= kUnevenCounts)
        for (int64_t step = kUnevenSizes; step > 0; --step) {
          int64_t size = even + (before - even) * step / (kUnevenSizes + 1);
          if (size < before && size > even && (all.empty() || size < all.back())) all.push_back(size);
        }
      if (even < before) all.push_back(even);
      before = even;
    }
    return all;
  }

  void addCandidates(Unit& unit) {
    const std::vector<int64_t>& space = opOf(unit, 0).space;
    const recipe::Op& first = opOf(unit, 0);
    int64_t bytes = 0;
    if (unit.source->tileBytes > 0) {
      bytes = elementSize(first.mme.c.type);
      for (int64_t size : space) bytes *= size;
    }
    Picoseconds engines[kNumEngines] = {};
    std::vector<SlicedCommand> commands = plan::sliceUnit(context_, issueUnit(unit, Candidate{-1, 1, space}));
    if (options_.slice) plan::packCommands(context_, commands);
    for (const SlicedCommand& command : commands) engines[command.queue] += command.cost.alone;
    unit.whole = *std::max_element(engines, engines + kNumEngines);
    auto fits = [&](const Candidate& c) {
      return bytes == 0 || (c.dim < 0 ? bytes : bytes / space[c.dim] * c.tile[c.dim]) <= unit.source->tileBytes;
    };
    Candidate whole{-1, 1, space};
    if (fits(whole)) unit.candidates.push_back(whole);
    for (int dim : cuttable(unit)) {
      bool any = false;
      for (int64_t size : sizes(space[dim])) {
        Candidate c{dim, (space[dim] + size - 1) / size, space};
        c.tile[dim] = size;
        if (!fits(c)) continue;
        // Beyond what SRAM needs, slices must be worth their launch.
        if ((any || !unit.candidates.empty()) && (!options_.slice || unit.whole / c.count < kShortestSlice)) break;
        any = true;
        unit.candidates.push_back(std::move(c));
      }
      if (!options_.slice && !unit.candidates.empty()) break;
      // The tiles of a ring lie best one behind the other: along the slowest dimension that makes them small enough.
      if (bytes > 0 && any) break;
    }
  }

  plan::IssueUnit issueUnit(const Unit& unit, const Candidate& candidate) const {
    return {unit.source->ops, candidate.tile, candidate.count > 1 ? 0 : recipe::kNone,
            unit.source->tileBytes > 0 && candidate.count > 2 ? 2 : 0};
  }

  const std::vector<SlicedCommand>& commandsOf(Unit& unit, size_t candidate) {
    auto [it, inserted] = unit.sliced.try_emplace(candidate);
    if (inserted) {
      Candidate whole{-1, 1, opOf(unit, 0).space};
      it->second =
          plan::sliceUnit(context_, issueUnit(unit, unit.candidates.empty() ? whole : unit.candidates[candidate]));
      if (options_.slice) unit.packings[candidate] = plan::packCommands(context_, it->second);
    }
    return it->second;
  }

  /// Which units read what others write.
  void findNeighbours() {
    plan::ConflictFinder conflicts;
    std::vector<size_t> unitOf;
    for (size_t u = 0; u < units_.size(); ++u) {
      Candidate whole{-1, 1, opOf(units_[u], 0).space};
      for (const SlicedCommand& command : plan::sliceUnit(context_, issueUnit(units_[u], whole))) {
        for (uint32_t other : conflicts.add(static_cast<uint32_t>(unitOf.size()), command.accesses)) {
          size_t producer = unitOf[other];
          if (producer == u || (!units_[u].producers.empty() && units_[u].producers.back() == producer)) continue;
          units_[u].producers.push_back(producer);
          units_[producer].consumers.push_back(u);
        }
        unitOf.push_back(u);
      }
    }
  }

  /// Whether slices of the consumer can follow those of the producer: none needs slices beyond the next one.
  bool follow(size_t producer, int producerDim, size_t consumer, int consumerDim) {
    auto key = std::make_tuple(producer, producerDim, consumer, consumerDim);
    auto [it, inserted] = follows_.try_emplace(key, false);
    if (!inserted) return it->second;
    auto extent = [&](size_t unit, int dim) { return opOf(units_[unit], 0).space[dim]; };
    int64_t count = std::min<int64_t>({4, extent(producer, producerDim), extent(consumer, consumerDim)});
    auto accesses = [&](size_t index, int dim) {
      const Unit& unit = units_[index];
      Candidate c{dim, count, opOf(unit, 0).space};
      c.tile[dim] = (c.tile[dim] + count - 1) / count;
      std::vector<std::vector<recipe::Access>> bySlice(count);
      for (const SlicedCommand& command : plan::sliceUnit(context_, issueUnit(unit, c)))
        for (const recipe::Access& access : command.accesses) bySlice[command.command.slice].push_back(access);
      return bySlice;
    };
    auto from = accesses(producer, producerDim), to = accesses(consumer, consumerDim);
    const int64_t reach = count > 2 ? 2 : 1;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = i + reach; j < count; ++j)
        for (const recipe::Access& read : to[i])
          for (const recipe::Access& written : from[j])
            if (written.write && !read.write && !disjoint(read.box, written.box)) return false;
    return it->second = true;
  }

  /// Cuts neighbours alike, as far as each unit's ops and the order of the data allow.
  void chooseDims() {
    dims_.assign(units_.size(), -1);
    std::vector<std::vector<int>> choices;
    for (const Unit& unit : units_) {
      std::vector<int>& dims = choices.emplace_back();
      for (const Candidate& c : unit.candidates)
        if (c.dim >= 0 && (dims.empty() || dims.back() != c.dim)) dims.push_back(c.dim);
    }
    auto settle = [&](size_t u, bool all) {
      double best = -1;
      for (int dim : choices[u]) {
        double score = 0;
        auto weight = [&](size_t other) { return static_cast<double>(std::min(units_[u].whole, units_[other].whole)); };
        for (size_t producer : units_[u].producers)
          if (dims_[producer] >= 0 && follow(producer, dims_[producer], u, dim)) score += weight(producer);
        if (all)
          for (size_t consumer : units_[u].consumers)
            if (dims_[consumer] >= 0 && follow(u, dim, consumer, dims_[consumer])) score += weight(consumer);
        if (score > best) {
          best = score;
          dims_[u] = dim;
        }
      }
    };
    for (size_t u = 0; u < units_.size(); ++u) settle(u, false);
    for (size_t u = units_.size(); u-- > 0;) settle(u, true);
    for (size_t u = 0; u < units_.size(); ++u) settle(u, true);
  }

  /// All units in about as many slices: the best of a few numbers.
  Status chooseCounts() {
    std::vector<size_t> best;
    Picoseconds bestTime = 0;
    for (int64_t count : kRunCounts) {
      for (size_t u = 0; u < units_.size(); ++u) chooseNearest(u, count);
      HPU_ASSIGN(Picoseconds time, timeOf(0, units_.size()));
      if (!best.empty() && time >= bestTime) continue;
      bestTime = time;
      best = choices();
    }
    restore(best);
    return okStatus();
  }

  /// Changes units one by one where it makes their neighbourhood faster.
  Status refine() {
    std::vector<size_t> best = choices();
    HPU_ASSIGN(Picoseconds bestTime, timeOf(0, units_.size()));
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      bool changed = false;
      for (size_t u = 0; u < units_.size(); ++u) {
        Unit& unit = units_[u];
        if (unit.candidates.size() < 2) continue;
        size_t from = u - std::min(u, kNeighbours), to = std::min(units_.size(), u + kNeighbours + 1);
        size_t chosen = unit.chosen;
        HPU_ASSIGN(Picoseconds least, timeOf(from, to));
        for (size_t c = 0; c < unit.candidates.size(); ++c) {
          if (c == chosen || !inBudget()) continue;
          const Candidate &now = unit.candidates[chosen], &other = unit.candidates[c];
          // Another dim only with about the same number of slices.
          bool near = other.count <= 4 * now.count && now.count <= 4 * other.count;
          bool sameDim = other.dim == now.dim || other.dim < 0 || now.dim < 0 || other.dim == dims_[u];
          if (!near || (!sameDim && other.count != now.count)) continue;
          unit.chosen = c;
          HPU_ASSIGN(Picoseconds time, timeOf(from, to));
          if (time < least) {
            least = time;
            chosen = c;
            changed = true;
          }
        }
        unit.chosen = chosen;
      }
      HPU_ASSIGN(Picoseconds time, timeOf(0, units_.size()));
      if (time < bestTime) {
        bestTime = time;
        best = choices();
      }
      if (!changed || !inBudget()) break;
    }
    restore(best);
    return okStatus();
  }

  /// Judged by the whole schedule, which a neighbourhood only stands for: runs of units in about as many slices each,
  /// and single units. As long as something helps and the budget lasts.
  Status polish() {
    HPU_ASSIGN(Picoseconds bestTime, timeOf(0, units_.size()));
    std::vector<size_t> best = choices();
    auto keepIfBetter = [&]() -> StatusOr<bool> {
      HPU_ASSIGN(Picoseconds time, timeOf(0, units_.size()));
      const bool better = time < bestTime;
      if (better) {
        bestTime = time;
        best = choices();
      } else {
        restore(best);
      }
      return better;
    };
    auto affordable = [&] { return pricedCommands_ < options_.polishCommands; };
    for (bool changed = true; changed && affordable();) {
      changed = false;
      for (size_t length = units_.size(); length > 1 && affordable(); length = (length + 1) / 2) {
        for (size_t from = 0; from < units_.size() && affordable(); from += std::max<size_t>(length / 2, 1)) {
          const size_t to = std::min(from + length, units_.size());
          for (int64_t count : kRunCounts) {
            for (size_t u = from; u < to; ++u) chooseNearest(u, count);
            // Only this run is looked at: programs have many thousands of units, most of them with nothing to choose.
            bool changes = false;
            for (size_t u = from; u < to; ++u) changes |= units_[u].chosen != best[u];
            if (!changes || !affordable()) {
              for (size_t u = from; u < to; ++u) units_[u].chosen = best[u];
              continue;
            }
            HPU_ASSIGN(bool better, keepIfBetter());
            changed = changed || better;
          }
        }
      }
      for (size_t u = 0; u < units_.size(); ++u)
        for (size_t c = 0; c < units_[u].candidates.size() && affordable(); ++c) {
          if (c == units_[u].chosen) continue;
          units_[u].chosen = c;
          HPU_ASSIGN(bool better, keepIfBetter());
          changed = changed || better;
        }
    }
    restore(best);
    return okStatus();
  }

  /// The candidate along the unit's first choice of dim, or not cut, with about so many slices.
  void chooseNearest(size_t u, int64_t count) {
    Unit& unit = units_[u];
    int64_t nearest = -1;
    for (size_t c = 0; c < unit.candidates.size(); ++c) {
      const Candidate& candidate = unit.candidates[c];
      if (candidate.dim >= 0 && candidate.dim != dims_[u]) continue;
      int64_t distance = std::abs(candidate.count - count);
      if (nearest >= 0 && distance >= nearest) continue;
      nearest = distance;
      unit.chosen = c;
    }
  }

  /// Which units take turns, starting from the slices that were chosen.
  StatusOr<ChainPlan> chains() {
    UnitsApart apart;
    apart.commands = [&](size_t u) -> const std::vector<SlicedCommand>& {
      return commandsOf(units_[u], units_[u].chosen);
    };
    apart.cuttable = [&](size_t u) { return cuttable(units_[u]); };
    apart.sizes = [](int64_t extent) { return sizes(extent); };
    apart.time = [&](size_t u) { return units_[u].whole; };
    apart.tileBytes = [&](size_t u) {
      const Unit& unit = units_[u];
      if (unit.source->tileBytes == 0 || unit.candidates.empty()) return int64_t{0};
      const Candidate& chosen = unit.candidates[unit.chosen];
      int64_t bytes = elementSize(opOf(unit, 0).mme.c.type) * (chosen.count > 1 ? 2 : 1);
      for (int64_t size : chosen.tile) bytes *= size;
      return bytes;
    };
    return searchChains(context_, sources_, links_, apart, options_);
  }

  bool inBudget() const { return priced_ < options_.windows && pricedCommands_ < options_.windowCommands; }

  bool isCancelled() const { return options_.isCancelled && options_.isCancelled(); }

  /// What was priced before counts as if it were priced again: the budget bounds what is looked at.
  StatusOr<Picoseconds> timeOf(size_t from, size_t to) {
    if (isCancelled()) return cancelled("the search for tiles was cancelled");
    std::vector<const std::vector<SlicedCommand>*> commands;
    std::vector<size_t> asked = {from};
    for (size_t u = from; u < to; ++u) {
      commands.push_back(&commandsOf(units_[u], units_[u].chosen));
      pricedCommands_ += static_cast<int64_t>(commands.back()->size());
      asked.push_back(units_[u].chosen);
    }
    ++priced_;
    if (const auto known = times_.find(asked); known != times_.end()) return known->second;
    HPU_ASSIGN(plan::Issued issued, plan::issueCommands(context_, commands, options_.slice));
    return times_[std::move(asked)] = issued.time;
  }

  std::vector<size_t> choices() const {
    std::vector<size_t> chosen;
    for (const Unit& unit : units_) chosen.push_back(unit.chosen);
    return chosen;
  }
  void restore(const std::vector<size_t>& chosen) {
    for (size_t u = 0; u < units_.size(); ++u) units_[u].chosen = chosen[u];
  }

  const plan::IssueContext& context_;
  const SearchOptions& options_;
  const std::vector<SearchUnit>& sources_;
  const std::vector<SearchLink>& links_;
  std::vector<Unit> units_;
  std::vector<int> dims_;  ///< By unit: along which it is cut at first.
  std::map<std::tuple<size_t, int, size_t, int>, bool> follows_;
  std::map<std::vector<size_t>, Picoseconds>
      times_;  ///< By the first unit, and what is chosen for it and those behind.
  int64_t priced_ = 0, pricedCommands_ = 0;
};

}  // namespace

StatusOr<Tiling> searchTiles(const plan::IssueContext& context, const std::vector<SearchUnit>& units,
                             const std::vector<SearchLink>& links, const SearchOptions& options) {
  const recipe::Program program = inFewSections(context.program);
  const plan::IssueContext few{program, context.reads, context.target, context.clock};
  return Search(few, units, links, options).run();
}

}  // namespace hpu::tile
