// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/FreeSizes.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/graph/MemoryLayout.h"
#include "bindings/synapse/lowering/Lowering.h"
#include "bindings/synapse/lowering/SizeTies.h"
#include "hpu/size_examples.h"

namespace hpu::synapse {
namespace {

/// Of a size that no bound is given for.
constexpr int64_t kLargestFree = int64_t{1} << 31;
/// As many as a program has (recipe::kMaxSymbols).
constexpr size_t kMostFree = 8;
/// Sizes of the examples: primes that no number of a graph is likely to have, and SizeTies::multiple of them.
constexpr int64_t kPrimes[2][kMostFree] = {{101, 103, 107, 109, 113, 127, 131, 137},
                                           {139, 149, 151, 157, 163, 167, 173, 179}};
/// Bytes that each example has a copy of.
constexpr uint64_t kMostConstants = uint64_t{512} << 20;

/// Places of one size.
struct Free {
  std::vector<FreePlace> places;
  int64_t least = 0, largest = 0;
  std::string name;
};

class SizeFreer {
 public:
  SizeFreer(const GraphDescription& source, bool all) : source_(source), all_(all) {}

  StatusOr<FreeGraph> run() {
    HPU_RETURN_IF_ERROR(findPlaces());
    HPU_RETURN_IF_ERROR(placeSections());
    StatusOr<FreeGraph> result = tieAndFree(/*tied=*/false);
    // With sizes that are equal more often a graph has fewer of them, and fewer choices that depend on which is larger.
    if (!result.ok() && hasTwins())
      if (StatusOr<FreeGraph> fewer = tieAndFree(/*tied=*/true); fewer.ok()) return fewer;
    return result;
  }

 private:
  using Sizes = std::vector<int64_t>;  ///< By entry of free_.

  bool isProduced(size_t t) const { return produced_[t]; }

  /// Sizes without a least one are fixed.
  static int64_t leastOf(const TensorDescription& tensor, size_t d) {
    return static_cast<int64_t>(d < tensor.minSizes.size() ? tensor.minSizes[d] : tensor.maxSizes[d]);
  }

  static bool hasOrder(const TensorDescription& tensor) { return !tensor.permutation.empty() || hasStrides(tensor); }

  Status findPlaces() {
    produced_.assign(source_.tensors.size(), false);
    std::vector<bool> used(source_.tensors.size(), false);
    for (const NodeDescription& node : source_.nodes) {
      for (int32_t t : node.inputs)
        if (t != kNoTensor) used[static_cast<size_t>(t)] = true;
      for (int32_t t : node.outputs)
        if (t != kNoTensor) produced_[static_cast<size_t>(t)] = true;
    }
    uint64_t constants = 0;
    for (const TensorDescription& tensor : source_.tensors) constants += tensor.hostData ? tensor.hostData->size() : 0;
    if (constants > kMostConstants)
      return unimplemented(strCat("values of ", constants,
                                  " bytes would be copied for each of several sizes; those of a ",
                                  "const section are not compiled in"));
    for (size_t t = 0; t < source_.tensors.size(); ++t) {
      const TensorDescription& tensor = source_.tensors[t];
      if (isProduced(t) || !used[t] || tensor.type == kHostToDevice) continue;
      if (tensor.maxSizes.empty()) continue;
      const bool isShape = isShapeType(tensor.type);
      bool isFree = false;
      for (size_t d = 0; d < tensor.maxSizes.size(); ++d) {
        const int64_t least = leastOf(tensor, d), largest = static_cast<int64_t>(tensor.maxSizes[d]);
        if (all_ ? largest < 2 || isShape || tensor.hostData != nullptr : least == largest) continue;
        if (largest > kLargestFree || largest < 1) return unimplemented("a size is none that tensors have");
        isFree = true;
        places_.push_back({t, d, all_ ? 2 : least, largest});
      }
      if (!isFree) continue;
      if (tensor.hostData) return unimplemented(strCat("tensor '", tensor.name, "' has a value and free sizes"));
      if (hasOrder(tensor))
        return unimplemented(strCat("tensor '", tensor.name, "' has free sizes and a memory order of its own"));
    }
    for (size_t t = 0; t < source_.tensors.size(); ++t)
      if (isProduced(t) && changes(t) && hasOrder(source_.tensors[t]))
        return unimplemented(
            strCat("tensor '", source_.tensors[t].name, "' has free sizes and a memory order of its own"));
    if (places_.empty()) return unimplemented("no size of what it reads changes");
    return okStatus();
  }

  /// Examples may be larger than tensors are: those of a section must not meet that do not at their largest sizes.
  Status placeSections() {
    offsets_.clear();
    for (const TensorDescription& tensor : source_.tensors) offsets_.push_back(tensor.sectionOffset);
    for (uint32_t section = 0; section < source_.sections.size(); ++section) {
      std::vector<size_t> tensors;
      bool isFixed = true;
      for (size_t t = 0; t < source_.tensors.size(); ++t) {
        if (source_.tensors[t].section != section) continue;
        tensors.push_back(t);
        isFixed &= !changes(t);
      }
      if (isFixed) continue;
      for (size_t i = 0; i < tensors.size(); ++i) {
        offsets_[tensors[i]] = static_cast<uint64_t>(i) << 48;
        const TensorDescription& one = source_.tensors[tensors[i]];
        for (size_t j = 0; j < i; ++j) {
          const TensorDescription& other = source_.tensors[tensors[j]];
          const uint64_t ownEnd = one.sectionOffset + bytes(one), otherEnd = other.sectionOffset + bytes(other);
          if (one.sectionOffset >= otherEnd || other.sectionOffset >= ownEnd) continue;
          if (one.sectionOffset != other.sectionOffset || one.maxSizes != other.maxSizes ||
              one.minSizes != other.minSizes || one.dataType != other.dataType)
            return unimplemented(strCat("tensors '", other.name, "' and '", one.name, "' share a part of a section"));
          offsets_[tensors[i]] = offsets_[tensors[j]];
          break;
        }
      }
    }
    return okStatus();
  }

  bool changes(size_t t) const {
    const TensorDescription& tensor = source_.tensors[t];
    if (all_)
      return isProduced(t) ||
             std::any_of(places_.begin(), places_.end(), [&](const FreePlace& place) { return place.tensor == t; });
    return !tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes;
  }

  uint64_t bytes(const TensorDescription& tensor) const {
    if (hasStrides(tensor)) return std::min(extentOf(tensor, tensor.maxSizes), uint64_t{1} << 60);
    StatusOr<ElementType> type = elementTypeOf(tensor.dataType, source_.target);
    unsigned __int128 count = type.ok() ? static_cast<unsigned __int128>(std::max<int64_t>(elementSize(*type), 1)) : 1;
    for (uint64_t size : tensor.maxSizes) count = std::min<unsigned __int128>(count * size, uint64_t{1} << 60);
    return static_cast<uint64_t>(count);
  }

  /// The graph for these sizes.
  StatusOr<LoweredGraph> lower(const Sizes& sizes) const {
    GraphDescription graph = source_;
    std::vector<int64_t> byPlace;
    for (size_t entry : entries_) byPlace.push_back(sizes[entry]);
    HPU_ASSIGN(std::vector<std::vector<uint64_t>> declared, declaredSizes(source_, places_, ties_, byPlace, all_));
    for (size_t t = 0; t < graph.tensors.size(); ++t) {
      graph.tensors[t].sectionOffset = offsets_[t];
      if (isProduced(t) && changes(t)) graph.tensors[t].maxSizes = declared[t];
    }
    for (size_t p = 0; p < places_.size(); ++p)
      graph.tensors[places_[p].tensor].maxSizes[places_[p].dim] = static_cast<uint64_t>(byPlace[p]);
    for (size_t t = 0; t < graph.tensors.size(); ++t)
      if (!isProduced(t) || changes(t)) graph.tensors[t].minSizes = graph.tensors[t].maxSizes;
    ChangingSizes changing;
    if (!all_) changing.largest = ties_.largest;
    return lowerGraph(graph, {}, /*inferenceOnly=*/false, &changing);
  }

  Sizes primes(int row) const {
    Sizes sizes;
    for (size_t i = 0; i < free_.size(); ++i) sizes.push_back(kPrimes[row][i % kMostFree] * ties_.multiple);
    return sizes;
  }
  Sizes largest() const {
    Sizes sizes;
    for (const Free& one : free_) sizes.push_back(one.largest);
    return sizes;
  }

  /// Which sizes there are, and the graph for all of them. `tied`: those of equal bounds are one.
  StatusOr<FreeGraph> tieAndFree(bool tied) {
    StatusOr<SizeTies> ties = tieSizes(source_, places_, {.all = all_, .tied = tied});
    if (!ties.ok() && all_ && pin()) ties = tieSizes(source_, places_, {.all = all_, .tied = tied});
    if (!ties.ok()) return ties.status();
    ties_ = std::move(*ties);
    free_.clear();
    entries_.clear();
    for (size_t p = 0; p < places_.size(); ++p) {
      const FreePlace& place = places_[p];
      const bool isFirst = ties_.firsts[p] == p;
      entries_.push_back(isFirst ? free_.size() : entries_[ties_.firsts[p]]);
      if (isFirst) free_.emplace_back().largest = place.largest;
      Free& one = free_[entries_.back()];
      one.places.push_back(place);
      one.least = std::max(one.least, place.least);  // That all of them may have.
    }
    if (free_.size() > kMostFree)
      return unimplemented(strCat("it has ", free_.size(), " sizes that change, and at most ", kMostFree, " may"));
    name();
    return free();
  }

  /// Whether sizes are apart that may be one.
  bool hasTwins() const {
    std::set<int64_t> largest;
    return std::any_of(free_.begin(), free_.end(),
                       [&](const Free& one) { return !largest.insert(one.largest).second; });
  }

  /// Of sizes that are free though nobody has said so some may not change: the length of index tuples, groups of
  /// channels. Those with which the graph does not fit together when they, or all that are as large, alone change stay
  /// as they are.
  bool pin() {
    auto works = [&](const std::vector<FreePlace>& places) {
      return tieSizes(source_, places, {.all = all_, .tied = false}).ok();
    };
    std::map<int64_t, std::vector<FreePlace>> bySize;
    for (const FreePlace& place : places_) bySize[place.largest].push_back(place);
    std::vector<FreePlace> kept;
    for (const auto& [size, places] : bySize) {
      if (works(places)) {
        kept.insert(kept.end(), places.begin(), places.end());
      } else if (places.size() > 1) {
        std::copy_if(places.begin(), places.end(), std::back_inserter(kept),
                     [&](const FreePlace& place) { return works({place}); });
      }
    }
    const bool isFewer = !kept.empty() && kept.size() < places_.size();
    if (isFewer) places_ = std::move(kept);
    return isFewer;
  }

  void name() {
    std::set<std::string> taken;
    for (Free& one : free_) {
      const FreePlace& place = one.places.front();
      std::string name;
      for (char c : source_.tensors[place.tensor].name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
      if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) || all_)
        name = strCat("tensor", place.tensor);  // Names do not count where all sizes are free.
      name += strCat("_d", place.dim);
      while (!taken.insert(name).second) name += "_";
      one.name = name;
    }
  }

  StatusOr<FreeGraph> free() {
    FreeGraph result;
    SizeExamples examples;
    std::vector<LoweredGraph> graphs;
    auto add = [&](const Sizes& sizes, bool isNeeded) -> Status {
      auto& named = examples.sizes.emplace_back();
      for (size_t i = 0; i < free_.size(); ++i) named[free_[i].name] = sizes[i];
      StatusOr<LoweredGraph> lowered = lower(sizes);
      if (lowered.ok()) {
        graphs.push_back(std::move(*lowered));
        return okStatus();
      }
      examples.sizes.pop_back();
      return isNeeded ? unimplemented(lowered.status().message()) : okStatus();
    };
    HPU_RETURN_IF_ERROR(add(primes(0), true));
    HPU_RETURN_IF_ERROR(add(primes(1), true));
    // What is chosen by a size is seen where sizes are small, and where they are as large as they get. A graph may not
    // fit together at some of these; a launch is told so by the program's guards.
    Sizes small, large, even;
    for (size_t i = 0; i < free_.size(); ++i) {
      const auto step = static_cast<int64_t>(i);
      even.push_back((kPrimes[0][i % kMostFree] + 1) * ties_.multiple);
      small.push_back(std::clamp((2 + step) * ties_.multiple, std::max<int64_t>(free_[i].least, 1), free_[i].largest));
      large.push_back(all_ ? 2048 * ties_.multiple + step
                           : std::max(free_[i].largest - step * ties_.multiple, std::max<int64_t>(free_[i].least, 2)));
    }
    HPU_RETURN_IF_ERROR(add(small, false));
    HPU_RETURN_IF_ERROR(add(large, false));
    HPU_RETURN_IF_ERROR(add(even, false));  // Primes are odd.
    HPU_ASSIGN(LoweredGraph most, lower(largest()));

    result.dims.resize(source_.tensors.size());
    for (const Free& one : free_) {
      const bool isSaid = std::any_of(one.places.begin(), one.places.end(), [&](const FreePlace& place) {
        return std::find(most.inputs.begin(), most.inputs.end(), static_cast<int32_t>(place.tensor)) !=
               most.inputs.end();
      });
      if (!isSaid)
        return unimplemented(strCat("size ", one.places.front().dim, " of tensor '",
                                    source_.tensors[one.places.front().tensor].name, "' is that of no input"));
      result.bounds[one.name] = {one.least, all_ ? kLargestFree : one.largest};
      for (const FreePlace& place : one.places) {
        auto& dims = result.dims[place.tensor];
        dims.resize(source_.tensors[place.tensor].maxSizes.size());
        dims[place.dim] = one.name;
      }
    }
    for (const LoweredGraph& graph : graphs)
      if (graph.inputs != graphs[0].inputs || graph.outputs != graphs[0].outputs)
        return unimplemented("which tensors are inputs and results depends on sizes");
    for (size_t i = 0; i < graphs[0].inputs.size(); ++i) {
      std::vector<std::string> names = result.dims[static_cast<size_t>(graphs[0].inputs[i])];
      names.resize(graphs[0].inputRanks[i]);  // Of a fixed size where a tensor's memory is of another rank.
      std::reverse(names.begin(), names.end());
      examples.inputs.push_back(std::move(names));
    }
    std::vector<Graph*> built;
    for (const LoweredGraph& graph : graphs) built.push_back(graph.graph.get());
    HPU_RETURN_IF_ERROR(freeSizes(built, examples));
    result.lowered = std::move(graphs[0]);
    result.lowered.sizes = std::move(most.sizes);
    if (!all_) result.lowered.log += belowDeclared();
    return result;
  }

  /// What there is to say of results that are smaller than declared when all that is free is as small as it may be.
  /// (None is larger than declared, or the graph would not compile.)
  std::string belowDeclared() const {
    Sizes sizes;
    for (const Free& one : free_) sizes.push_back(one.least);
    StatusOr<LoweredGraph> least = lower(sizes);
    std::string lines;
    for (size_t t = 0; least.ok() && t < source_.tensors.size(); ++t) {
      const TensorDescription& tensor = source_.tensors[t];
      if (!isProduced(t) || !least->sizes[t] || least->sizes[t]->size() != tensor.minSizes.size()) continue;
      for (size_t d = 0; d < tensor.minSizes.size(); ++d)
        if (const uint64_t size = (*least->sizes[t])[d]; size < tensor.minSizes[d])
          lines += strCat("note: tensor '", tensor.name, "': size ", d, " can be ", size,
                          ", less than its declared minimum ", tensor.minSizes[d], "\n");
    }
    return lines;
  }

  const GraphDescription& source_;
  const bool all_;
  std::vector<bool> produced_;
  std::vector<uint64_t> offsets_;
  std::vector<Free> free_;
  std::vector<FreePlace> places_;
  std::vector<size_t> entries_;  ///< By place, into free_.
  SizeTies ties_;
};

}  // namespace

StatusOr<FreeGraph> lowerFree(const GraphDescription& graph, bool all) {
  return SizeFreer(graph, all).run();
}

}  // namespace hpu::synapse
