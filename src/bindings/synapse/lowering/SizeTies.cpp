// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/SizeTies.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/lowering/GraphLowering.h"
#include "bindings/synapse/lowering/LoneNodes.h"
#include "bindings/synapse/lowering/NodeOrder.h"
#include "bindings/synapse/lowering/WaysToTie.h"

namespace hpu::synapse {
namespace {

/// Sizes that are halved or split in parts fit together only at multiples of these.
constexpr int64_t kTieMultiples[] = {1, 2, 4, 8, 16, 12, 64};
/// Ways to read the declared sizes of one node's results.
constexpr size_t kMostReadings = 64;
/// The first primes from 101 on: no number of a graph is likely to have one as a factor.
std::vector<int64_t> largePrimes(size_t count) {
  std::vector<int64_t> primes;
  for (int64_t n = 101; primes.size() < count; n += 2) {
    bool isPrime = true;
    for (int64_t d = 3; d * d <= n && isPrime; d += 2) isPrime = n % d != 0;
    if (isPrime) primes.push_back(n);
  }
  return primes;
}

class SizeTier {
 public:
  SizeTier(const GraphDescription& source, const std::vector<FreePlace>& places, const TieOptions& options)
      : source_(source), places_(places), options_(options), nodes_(source) {}

  StatusOr<SizeTies> run() {
    HPU_RETURN_IF_ERROR(prepare());
    const std::vector<int64_t> primes = largePrimes(places_.size());
    Status first;
    for (const int64_t multiple : kTieMultiples) {
      numbers_.clear();
      for (int64_t prime : primes) numbers_.push_back(prime * multiple);
      ties_.multiple = multiple;
      ties_.firsts.resize(places_.size());
      std::iota(ties_.firsts.begin(), ties_.firsts.end(), size_t{0});
      if (options_.tied)
        for (size_t i = 0; i < places_.size(); ++i)
          ties_.firsts[i] = firstOf([&](size_t j) { return places_[j].largest == places_[i].largest; });
      escalations_.assign(source_.nodes.size(), 0);
      Status status = solve();
      if (status.ok()) return ties_;
      if (first.ok()) first = status;
    }
    return unimplemented(first.message());
  }

  /// As declaredSizes.
  StatusOr<Shapes> declared(const SizeTies& ties, const std::vector<int64_t>& sizes) {
    HPU_ASSIGN(order_, orderNodes(source_));
    ties_ = ties;
    nodes_.setTypes(&ties_.types);
    numbers_ = sizes;
    start();
    // Sizes that declared ones come from.
    std::vector<bool> isNeeded(source_.tensors.size(), false);
    for (auto n = order_.rbegin(); n != order_.rend(); ++n) {
      const NodeDescription& node = source_.nodes[*n];
      if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](int32_t t) {
            return t != kNoTensor && (isNeeded[static_cast<size_t>(t)] || ties.declared.count(static_cast<size_t>(t)));
          }))
        for (int32_t t : node.inputs)
          if (t != kNoTensor) isNeeded[static_cast<size_t>(t)] = true;
    }
    Shapes found(source_.tensors.size());
    for (size_t n : order_) {
      const Shapes inputs = inputsOf(n, sizes_);
      Shapes results = fixedResults(n);
      bool isAsked = false;
      const std::vector<int32_t>& outputs = source_.nodes[n].outputs;
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == kNoTensor) continue;
        const auto t = static_cast<size_t>(outputs[i]);
        if (auto at = ties.declared.find(t); at != ties.declared.end())
          found[t] = results[i] = sizesFrom(at->second, inputs);
        isAsked = isAsked || (isNeeded[t] && results[i].empty());
      }
      if (isAsked) {
        std::optional<Shapes> inferred = nodes_.infer(n, inputs, results);
        if (!inferred) return nodes_.why();
        results = std::move(*inferred);
      }
      for (size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i] != kNoTensor) sizes_[static_cast<size_t>(outputs[i])] = results[i];
    }
    return found;
  }

  /// For sizes that are given, by place; none are made equal.
  void readResults(const std::vector<int64_t>& sizes, Shapes& actual) {
    if (!prepare().ok()) return;
    const Shapes given = actual;
    given_ = &given;
    nodes_.setChanging(false);
    numbers_ = sizes;
    ties_.firsts.resize(places_.size());
    std::iota(ties_.firsts.begin(), ties_.firsts.end(), size_t{0});
    (void)pass();  // Up to the first node that refuses its sizes, which is then reported.
    for (const auto& [t, sources] : ties_.declared)
      if (actual[t].empty()) actual[t] = sizes_[t];
  }

 private:
  static constexpr size_t kDone = SIZE_MAX;

  size_t firstOf(const std::function<bool(size_t)>& isOne) const {
    size_t i = 0;
    while (!isOne(i)) ++i;
    return i;
  }

  Status prepare() {
    HPU_ASSIGN(order_, orderNodes(source_));
    HPU_ASSIGN(LoweredGraph most, lowerGraph(source_, {}, /*inferenceOnly=*/true));
    ties_.types = std::move(most.types);
    nodes_.setTypes(&ties_.types);
    for (auto& sizes : most.sizes) ties_.largest.push_back(sizes.value_or(Dims()));
    follows_.resize(source_.nodes.size());
    memo_.resize(source_.nodes.size());
    return okStatus();
  }

  bool isFixed(const TensorDescription& tensor, size_t d) const {
    if (options_.all) return tensor.maxSizes[d] < 2;
    return d >= tensor.minSizes.size() || tensor.minSizes[d] == tensor.maxSizes[d];
  }
  bool changes(int32_t t) const {
    if (t == kNoTensor) return false;
    const TensorDescription& tensor = source_.tensors[static_cast<size_t>(t)];
    return options_.all || (!tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes);
  }

  // ---- one node ----------------------------------------------------------------------------------

  Shapes inputsOf(size_t n, const Shapes& sizes) const {
    Shapes inputs;
    for (int32_t t : source_.nodes[n].inputs) inputs.push_back(t == kNoTensor ? Dims() : sizes[static_cast<size_t>(t)]);
    return inputs;
  }
  /// What a node's results have whatever is tried: sizes that do not change, and those that a launch gives.
  Shapes fixedResults(size_t n) const {
    Shapes results;
    for (int32_t t : source_.nodes[n].outputs) {
      const bool isGiven = t != kNoTensor && given_ && !(*given_)[static_cast<size_t>(t)].empty();
      results.push_back(t == kNoTensor ? Dims()
                        : isGiven      ? (*given_)[static_cast<size_t>(t)]
                        : changes(t)   ? Dims()
                                       : source_.tensors[static_cast<size_t>(t)].maxSizes);
    }
    return results;
  }

  /// Whether a node's results have sizes that follow from what it reads: those that they have in the graph of the
  /// largest sizes, others that have room in the declared ones, or none that fit.
  enum class Follows : uint8_t { kUnknown, kYes, kSmaller, kNo };

  Follows follows(size_t n) {
    Follows& known = follows_[n];
    if (known != Follows::kUnknown) return known;
    Shapes results;
    for (int32_t t : source_.nodes[n].outputs)
      results.push_back(t == kNoTensor || changes(t) ? Dims() : source_.tensors[static_cast<size_t>(t)].maxSizes);
    const std::optional<Shapes> found = nodes_.infer(n, inputsOf(n, ties_.largest), results);
    known = found ? Follows::kYes : Follows::kNo;
    for (size_t i = 0; found && i < found->size(); ++i) {
      const int32_t t = source_.nodes[n].outputs[i];
      if (t == kNoTensor || (*found)[i] == ties_.largest[static_cast<size_t>(t)]) continue;
      const Dims &own = (*found)[i], &declared = source_.tensors[static_cast<size_t>(t)].maxSizes;
      bool hasRoom = !options_.all && own.size() == declared.size();
      for (size_t d = 0; hasRoom && d < own.size(); ++d) hasRoom = own[d] <= declared[d];
      if (!hasRoom) return known = Follows::kNo;
      known = Follows::kSmaller;
    }
    return known;
  }

  /// Sizes of a node's results for these of its operands.
  std::optional<Shapes> tryNode(size_t n, const Shapes& inputs, std::map<size_t, std::vector<SizeSource>>& sources) {
    sources.clear();
    const Follows follow = follows(n);
    for (const bool inferred : {follow == Follows::kYes, follow != Follows::kYes}) {
      if (inferred && follow == Follows::kNo) continue;
      if (auto found = inferred ? nodes_.infer(n, inputs, fixedResults(n)) : readDeclared(n, inputs, sources))
        return found;
    }
    return std::nullopt;
  }

  // ---- declared sizes ----------------------------------------------------------------------------

  /// What a declared size may be, the `likeliest` ones first: what the node reads of the same bounds, in its order;
  /// products and parts of it; then sizes that it does not read.
  std::vector<SizeSource> candidates(size_t n, const TensorDescription& tensor, size_t d, const Shapes& inputs,
                                     size_t& likeliest) const {
    struct Candidate {
      SizeSource source;
      int rank;
    };
    std::vector<Candidate> all;
    const auto size = static_cast<int64_t>(tensor.maxSizes[d]);
    auto add = [&](SizeSource source, int64_t largest, bool isLeast, int rank) {
      if (largest < 2 || (options_.all && largest != size)) return;
      if (largest != size) {
        if (size % largest != 0 && largest % size != 0) return;
        source.factor = std::max<int64_t>(size / largest, 1);
        source.divisor = std::max<int64_t>(largest / size, 1);
        rank += 8;
      }
      all.push_back({source, rank + (isLeast ? 0 : 4)});
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (source_.nodes[n].inputs[i] == kNoTensor) continue;
      const auto t = static_cast<size_t>(source_.nodes[n].inputs[i]);
      const TensorDescription& operand = source_.tensors[t];
      for (size_t from = 0; from < ties_.largest[t].size(); ++from) {
        int64_t largest = 1;
        uint64_t least = 1;
        for (size_t to = from; to < ties_.largest[t].size() && largest <= size << 8; ++to) {
          largest *= static_cast<int64_t>(ties_.largest[t][to]);
          least *= to < operand.minSizes.size() ? operand.minSizes[to] : ties_.largest[t][to];
          const bool isLeast = options_.all || least == tensor.minSizes[d];
          add({.operand = i, .dim = from, .count = to - from + 1}, largest, isLeast, to > from);
        }
      }
    }
    for (size_t p = 0; p < places_.size(); ++p)
      add({.place = p}, places_[p].largest,
          options_.all || places_[p].least == static_cast<int64_t>(tensor.minSizes[d]), 2);
    if (options_.all) all.push_back({{.factor = size}, 3});
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.rank < b.rank; });
    // Those that come to one number are one.
    std::vector<SizeSource> found;
    Dims numbers;
    for (const Candidate& one : all) {
      const uint64_t number = sizesFrom({one.source}, inputs).front();
      if (number == 0 && one.source.divisor != 1) continue;
      if (std::find(numbers.begin(), numbers.end(), number) != numbers.end()) continue;
      numbers.push_back(number);
      found.push_back(one.source);
      if (one.rank == all.front().rank) likeliest = found.size();
    }
    return found;
  }

  /// Parts that leave a remainder are 0.
  Dims sizesFrom(const std::vector<SizeSource>& sources, const Shapes& inputs) const {
    Dims sizes;
    for (const SizeSource& source : sources) {
      auto size = static_cast<uint64_t>(source.factor);
      if (source.place != SizeSource::kNone) size *= static_cast<uint64_t>(numbers_[ties_.firsts[source.place]]);
      for (size_t d = 0; d < source.count; ++d) size *= inputs[source.operand][source.dim + d];
      const auto divisor = static_cast<uint64_t>(source.divisor);
      sizes.push_back(size % divisor == 0 ? size / divisor : 0);
    }
    return sizes;
  }

  std::optional<Shapes> readDeclared(size_t n, const Shapes& inputs,
                                     std::map<size_t, std::vector<SizeSource>>& sources) {
    struct Choice {
      size_t tensor, dim;
      std::vector<SizeSource> from;
    };
    std::vector<Choice> choices;
    std::map<size_t, std::vector<SizeSource>> own;
    Shapes results = fixedResults(n);
    const std::vector<int32_t>& outputs = source_.nodes[n].outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!changes(outputs[i]) || !results[i].empty()) continue;
      const auto t = static_cast<size_t>(outputs[i]);
      const TensorDescription& tensor = source_.tensors[t];
      std::map<uint64_t, size_t> seen;  // Sizes of one bound come in the order in which the node reads them.
      for (size_t d = 0; d < tensor.maxSizes.size(); ++d) {
        own[t].push_back({.factor = static_cast<int64_t>(tensor.maxSizes[d])});
        if (isFixed(tensor, d)) continue;
        size_t likeliest = 1;
        std::vector<SizeSource> from = candidates(n, tensor, d, inputs, likeliest);
        if (from.empty()) return std::nullopt;
        const size_t skip = seen[tensor.maxSizes[d]]++ % likeliest;
        std::rotate(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(skip),
                    from.begin() + static_cast<std::ptrdiff_t>(likeliest));
        choices.push_back({t, d, std::move(from)});
      }
    }
    if (own.empty()) return std::nullopt;
    std::vector<size_t> at(choices.size(), 0);
    for (size_t reading = 0; reading < kMostReadings; ++reading) {
      for (size_t c = 0; c < choices.size(); ++c) own[choices[c].tensor][choices[c].dim] = choices[c].from[at[c]];
      bool isWithin = true;
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == kNoTensor || !own.count(static_cast<size_t>(outputs[i]))) continue;
        const auto t = static_cast<size_t>(outputs[i]);
        results[i] = sizesFrom(own[t], inputs);
        for (size_t d = 0; given_ && d < results[i].size(); ++d)
          isWithin = isWithin && results[i][d] >= source_.tensors[t].minSizes[d] &&
                     results[i][d] <= source_.tensors[t].maxSizes[d];
      }
      if (isWithin)
        if (auto found = nodes_.infer(n, inputs, results)) {
          sources = own;
          return found;
        }
      size_t c = choices.size();
      while (c > 0 && ++at[c - 1] == choices[c - 1].from.size()) at[--c] = 0;
      if (c == 0) break;
    }
    return std::nullopt;
  }

  // ---- the graph ---------------------------------------------------------------------------------

  Status solve() {
    while (true) {
      const size_t refused = pass();
      if (refused == kDone) return okStatus();
      const Status why = nodes_.why();
      if (nodes_.isTired()) return unimplemented("the graph is too large to find out which of its sizes are equal");
      if (!tieFor(refused)) return why;
    }
  }

  /// Sizes of what no node produces.
  void start() {
    sizes_.clear();
    reached_.assign(source_.tensors.size(), {});
    for (const TensorDescription& tensor : source_.tensors) sizes_.push_back(tensor.maxSizes);
    if (given_)
      for (size_t t = 0; t < sizes_.size(); ++t)
        if (!(*given_)[t].empty()) sizes_[t] = (*given_)[t];
    for (size_t p = 0; p < places_.size(); ++p) {
      sizes_[places_[p].tensor][places_[p].dim] = static_cast<uint64_t>(numbers_[ties_.firsts[p]]);
      reached_[places_[p].tensor].push_back(p);
    }
  }

  /// The first node that refuses the sizes of its operands; kDone: none does.
  size_t pass() {
    ties_.declared.clear();
    start();
    for (size_t n : order_) {
      const NodeDescription& node = source_.nodes[n];
      const Shapes inputs = inputsOf(n, sizes_);
      Memo& memo = memo_[n];
      if (memo.inputs != inputs || !memo.isInferred) {
        std::map<size_t, std::vector<SizeSource>> sources;
        std::optional<Shapes> found = tryNode(n, inputs, sources);
        if (!found) return n;
        ties_.declared.insert(sources.begin(), sources.end());
        memo = {inputs, std::move(*found), sources.empty()};
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] == kNoTensor) continue;
        const auto t = static_cast<size_t>(node.outputs[i]);
        sizes_[t] = memo.results[i];
        for (int32_t input : node.inputs)
          if (input != kNoTensor)
            reached_[t].insert(reached_[t].end(), reached_[static_cast<size_t>(input)].begin(),
                               reached_[static_cast<size_t>(input)].end());
        std::sort(reached_[t].begin(), reached_[t].end());
        reached_[t].erase(std::unique(reached_[t].begin(), reached_[t].end()), reached_[t].end());
      }
    }
    return kDone;
  }

  // ---- ties --------------------------------------------------------------------------------------

  /// Makes places equal so that node n may take them; false: nothing is left to try.
  bool tieFor(size_t n) {
    const Shapes inputs = inputsOf(n, sizes_);
    const std::vector<size_t> present = presentIn(inputs);
    for (const std::vector<size_t>& firsts : waysToTie(places_, ties_.firsts, present, inputs, numbers_)) {
      std::map<size_t, std::vector<SizeSource>> sources;
      if (!tryNode(n, tiedSizes(inputs, firsts), sources)) continue;
      ties_.firsts = present.size() <= kMostTiedInAllWays ? firsts : loosened(n, inputs, present, firsts);
      return true;
    }
    // It reads sums or parts of sizes: these are made equal by what they come from.
    std::vector<size_t> reached;
    for (int32_t t : source_.nodes[n].inputs)
      if (t != kNoTensor)
        for (size_t p : reached_[static_cast<size_t>(t)]) reached.push_back(p);
    for (size_t& level = escalations_[n]; level < 2;) {
      const bool alongOneDim = level++ == 0;
      std::vector<size_t> firsts = ties_.firsts;
      for (size_t i : reached)
        for (size_t j : reached)
          if (places_[i].largest == places_[j].largest && (!alongOneDim || places_[i].dim == places_[j].dim))
            uniteFirsts(firsts, i, j);
      if (firsts == ties_.firsts) continue;
      ties_.firsts = std::move(firsts);
      return true;
    }
    return false;
  }

  /// First places whose number is a factor of some size.
  std::vector<size_t> presentIn(const Shapes& inputs) const {
    std::vector<size_t> present;
    for (size_t p = 0; p < places_.size(); ++p) {
      if (ties_.firsts[p] != p) continue;
      for (const Dims& dims : inputs)
        if (std::any_of(dims.begin(), dims.end(),
                        [&](uint64_t size) { return size != 0 && size % static_cast<uint64_t>(numbers_[p]) == 0; })) {
          present.push_back(p);
          break;
        }
    }
    return present;
  }

  Shapes tiedSizes(Shapes inputs, const std::vector<size_t>& firsts) const {
    for (Dims& dims : inputs)
      for (uint64_t& size : dims)
        for (size_t p = 0; p < places_.size(); ++p) {
          const auto from = static_cast<uint64_t>(numbers_[p]), to = static_cast<uint64_t>(numbers_[firsts[p]]);
          if (ties_.firsts[p] != p || firsts[p] == p || size == 0) continue;
          uint64_t factor = 1;
          for (; size % from == 0; size /= from) factor *= to;
          size *= factor;
        }
    return inputs;
  }

  /// Of many that were made equal, those that need not be are apart again.
  std::vector<size_t> loosened(size_t n, const Shapes& inputs, const std::vector<size_t>& present,
                               std::vector<size_t> firsts) {
    for (size_t p : present) {
      if (firsts[p] == ties_.firsts[p]) continue;
      std::vector<size_t> looser = firsts;
      for (size_t q = 0; q < looser.size(); ++q)
        if (ties_.firsts[q] == p) looser[q] = p;
      std::map<size_t, std::vector<SizeSource>> sources;
      if (tryNode(n, tiedSizes(inputs, looser), sources)) firsts = std::move(looser);
    }
    return firsts;
  }

  struct Memo {
    Shapes inputs, results;
    bool isInferred = false;
  };

  const GraphDescription& source_;
  const std::vector<FreePlace>& places_;
  const TieOptions options_;
  LoneNodes nodes_;
  std::vector<size_t> order_;
  const Shapes* given_ = nullptr;  ///< By tensor, where sizes are given.
  std::vector<int64_t> numbers_;   ///< By place.
  SizeTies ties_;
  Shapes sizes_;                              ///< By tensor, as far as the pass got.
  std::vector<std::vector<size_t>> reached_;  ///< By tensor, places that its sizes may come from.
  std::vector<size_t> escalations_;           ///< By node.
  std::vector<Follows> follows_;              ///< By node.
  std::vector<Memo> memo_;                    ///< By node.
};

}  // namespace

StatusOr<SizeTies> tieSizes(const GraphDescription& graph, const std::vector<FreePlace>& places,
                            const TieOptions& options) {
  return SizeTier(graph, places, options).run();
}

StatusOr<std::vector<std::vector<uint64_t>>> declaredSizes(const GraphDescription& graph,
                                                           const std::vector<FreePlace>& places, const SizeTies& ties,
                                                           const std::vector<int64_t>& sizes, bool all) {
  if (ties.declared.empty()) return std::vector<std::vector<uint64_t>>(graph.tensors.size());
  return SizeTier(graph, places, {.all = all, .tied = false}).declared(ties, sizes);
}

void addResultSizes(const GraphDescription& graph, std::vector<std::vector<uint64_t>>& actual) {
  if (!orderNodes(graph).ok()) return;  // It says what is wrong with the graph where that is reported.
  std::vector<bool> produced(graph.tensors.size(), false);
  for (const NodeDescription& node : graph.nodes)
    for (int32_t t : node.outputs)
      if (t != kNoTensor) produced[static_cast<size_t>(t)] = true;
  actual.resize(graph.tensors.size());
  std::vector<FreePlace> places;
  std::vector<int64_t> sizes;
  for (size_t t = 0; t < graph.tensors.size(); ++t) {
    const TensorDescription& tensor = graph.tensors[t];
    if (produced[t] || tensor.minSizes.size() != tensor.maxSizes.size() ||
        (!actual[t].empty() && actual[t].size() != tensor.maxSizes.size()))
      continue;
    for (size_t d = 0; d < tensor.maxSizes.size(); ++d) {
      if (tensor.minSizes[d] == tensor.maxSizes[d]) continue;
      places.push_back({t, d, static_cast<int64_t>(tensor.minSizes[d]), static_cast<int64_t>(tensor.maxSizes[d])});
      sizes.push_back(static_cast<int64_t>(actual[t].empty() ? tensor.maxSizes[d] : actual[t][d]));
    }
  }
  SizeTier(graph, places, {}).readResults(sizes, actual);
}

}  // namespace hpu::synapse
