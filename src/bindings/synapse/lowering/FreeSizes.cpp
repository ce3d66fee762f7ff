// SPDX-License-Identifier: Apache-2.0
#include "bindings/synapse/lowering/FreeSizes.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "bindings/synapse/lowering/Lowering.h"
#include "compiler/import/SizeExamples.h"

namespace hpu::synapse {
namespace {

/// Of a size that no bound is given for.
constexpr int64_t kLargestFree = int64_t{1} << 31;
/// As many as a program has (recipe::kMaxSymbols).
constexpr size_t kMostFree = 8;
/// Sizes of the examples: primes that no number of a graph is likely to have, and multiples of them, as sizes that are
/// halved or split in parts only fit together at these.
constexpr int64_t kPrimes[2][kMostFree] = {{101, 103, 107, 109, 113, 127, 131, 137},
                                           {139, 149, 151, 157, 163, 167, 173, 179}};
constexpr int64_t kMultiples[] = {1, 2, 4, 8, 16, 12, 64};
/// Which sizes have to be equal is found by lowering the graph; of one with more nodes all that may be are.
constexpr size_t kMostTrialNodes = 4096;

/// Bytes that each example has a copy of.
constexpr uint64_t kMostConstants = uint64_t{512} << 20;

/// A dimension of a tensor that no node produces.
struct Place {
  size_t tensor = 0, dim = 0;
};
/// Places of one size.
struct Free {
  std::vector<Place> places;
  int64_t least = 0, largest = 0;
  std::string name;
};

class SizeFreer {
 public:
  SizeFreer(const GraphDescription& source, bool all) : source_(source), all_(all) {}

  StatusOr<FreeGraph> run() {
    HPU_RETURN_IF_ERROR(findPlaces());
    HPU_RETURN_IF_ERROR(placeSections());
    if (Status status = chooseMode(); !status.ok()) {
      if (!all_ || !pin()) return status;
      HPU_RETURN_IF_ERROR(chooseMode());
    }
    splitAll();
    if (free_.size() > kMostFree)
      return unimplemented(strCat("it has ", free_.size(), " sizes that change, and at most ", kMostFree, " may"));
    name();
    return free();
  }

 private:
  using Sizes = std::vector<int64_t>;  ///< By entry of free_.

  bool isProduced(size_t t) const { return produced_[t]; }

  /// Sizes without a least one are fixed.
  static int64_t leastOf(const TensorDescription& tensor, size_t d) {
    return static_cast<int64_t>(d < tensor.minSizes.size() ? tensor.minSizes[d] : tensor.maxSizes[d]);
  }

  static bool hasOrder(const TensorDescription& tensor) {
    return !tensor.permutation.empty() ||
           std::any_of(tensor.strides.begin(), tensor.strides.end(), [](uint64_t stride) { return stride != 0; });
  }

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
    std::map<int64_t, Free> bySize;
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
        Free& one = bySize[largest];
        one.places.push_back({t, d});
        one.largest = largest;
        one.least = std::max(one.least, all_ ? 2 : least);
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
    for (auto& [size, one] : bySize) free_.push_back(std::move(one));
    if (free_.empty()) return unimplemented("no size of what it reads changes");
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
      return isProduced(t) || std::any_of(free_.begin(), free_.end(), [&](const Free& one) {
               return std::any_of(one.places.begin(), one.places.end(),
                                  [&](const Place& place) { return place.tensor == t; });
             });
    return !tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes;
  }

  uint64_t bytes(const TensorDescription& tensor) const {
    StatusOr<ElementType> type = elementTypeOf(tensor.dataType, source_.target);
    unsigned __int128 count = type.ok() ? static_cast<unsigned __int128>(std::max<int64_t>(elementSize(*type), 1)) : 1;
    for (uint64_t size : tensor.maxSizes) count = std::min<unsigned __int128>(count * size, uint64_t{1} << 60);
    return static_cast<uint64_t>(count);
  }

  /// The graph for these sizes. `declares`: results have the sizes that theirs say, else those that follow.
  StatusOr<LoweredGraph> lower(const Sizes& sizes, bool declares) const {
    GraphDescription graph = source_;
    for (size_t t = 0; t < graph.tensors.size(); ++t) {
      TensorDescription& tensor = graph.tensors[t];
      tensor.sectionOffset = offsets_[t];
      if (!isProduced(t) || !changes(t)) continue;
      std::optional<std::vector<uint64_t>> scaled;
      if (declares) scaled = scaledTo(tensor, sizes);
      tensor.maxSizes = tensor.minSizes = scaled.value_or(std::vector<uint64_t>());
    }
    for (size_t i = 0; i < free_.size(); ++i)
      for (const Place& place : free_[i].places)
        graph.tensors[place.tensor].maxSizes[place.dim] = static_cast<uint64_t>(sizes[i]);
    for (size_t t = 0; t < graph.tensors.size(); ++t)
      if (!isProduced(t)) graph.tensors[t].minSizes = graph.tensors[t].maxSizes;
    return lowerGraph(graph, {}, /*inferenceOnly=*/false);
  }

  /// A result's sizes as multiples of the one free size whose largest value divides them; nullopt: of several.
  std::optional<std::vector<uint64_t>> scaledTo(const TensorDescription& tensor, const Sizes& sizes) const {
    std::vector<uint64_t> scaled = tensor.maxSizes;
    for (size_t d = 0; d < scaled.size(); ++d) {
      const auto size = static_cast<int64_t>(scaled[d]);
      if (all_ ? size < 2 : leastOf(tensor, d) == size) continue;
      size_t found = free_.size();
      for (size_t i = 0; i < free_.size(); ++i) {
        if (free_[i].largest == size) {
          found = i;
          break;
        }
        if (all_ || free_[i].largest < 2 || size % free_[i].largest != 0) continue;
        if (found != free_.size() && sizes[found] != sizes[i]) return std::nullopt;
        found = i;
      }
      if (found == free_.size()) {
        if (all_) continue;
        return std::nullopt;
      }
      scaled[d] = static_cast<uint64_t>(size / free_[found].largest * sizes[found]);
    }
    return scaled;
  }

  Sizes primes(int row, int64_t multiple) const {
    Sizes sizes;
    for (size_t i = 0; i < free_.size(); ++i) sizes.push_back(kPrimes[row][i % kMostFree] * multiple);
    return sizes;
  }
  Sizes largest() const {
    Sizes sizes;
    for (const Free& one : free_) sizes.push_back(one.largest);
    return sizes;
  }

  /// How results get their sizes, and by what primes are multiplied, so that the graph fits together.
  Status chooseMode() {
    Status first;
    for (const bool declares : {false, true}) {
      StatusOr<LoweredGraph> most = lower(largest(), declares);
      if (most.ok() && !fitsDeclared(*most)) most = unimplemented("results would have other sizes than declared");
      if (!most.ok()) {
        if (first.ok()) first = most.status();
        continue;
      }
      for (const int64_t multiple : kMultiples) {
        StatusOr<LoweredGraph> one = lower(primes(0, multiple), declares);
        if (one.ok()) {
          declares_ = declares;
          multiple_ = multiple;
          return okStatus();
        }
        if (first.ok()) first = one.status();
      }
    }
    return unimplemented(first.message());
  }

  /// Of sizes that are free though nobody has said so some may not change: the length of index tuples, groups of
  /// channels. Those with which the graph does not fit together when they alone change stay as they are.
  bool pin() {
    std::vector<Free> kept;
    for (size_t i = 0; i < free_.size(); ++i) {
      bool works = false;
      for (const int64_t multiple : kMultiples)
        for (const bool declares : {false, true}) {
          Sizes sizes = largest();
          sizes[i] = kPrimes[0][0] * multiple;
          works = works || lower(sizes, declares).ok();
        }
      if (works) kept.push_back(free_[i]);
    }
    const bool isFewer = !kept.empty() && kept.size() < free_.size();
    if (isFewer) free_ = std::move(kept);
    return isFewer;
  }

  bool fitsDeclared(const LoweredGraph& most) const {
    for (size_t t = 0; t < source_.tensors.size(); ++t) {
      const std::vector<uint64_t>& declared = source_.tensors[t].maxSizes;
      if (!isProduced(t) || declared.empty() || !most.sizes[t]) continue;
      const std::vector<uint64_t>& got = *most.sizes[t];
      if (got.size() != declared.size()) return false;
      for (size_t d = 0; d < got.size(); ++d)
        if (all_ ? got[d] != declared[d] : got[d] > declared[d]) return false;
    }
    return true;
  }

  /// Places that may have another size than the others of their entry become an entry of their own.
  void splitAll() {
    for (size_t i = 0; i < free_.size(); ++i) {
      const size_t count = free_[i].places.size();
      if (count < 2 || count * count * source_.nodes.size() > kMostTrialNodes) continue;
      std::vector<Place> tied = free_[i].places, loose;
      for (size_t j = 1; j < tied.size();) {
        std::vector<Place> fewer = tied, more = loose;
        more.push_back(fewer[j]);
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(j));
        if (works(i, fewer, more)) {
          tied = fewer;
          loose = more;
        } else {
          ++j;
        }
      }
      if (loose.empty()) continue;
      Free rest = free_[i];
      rest.places = loose;
      free_[i].places = tied;
      bound(free_[i]);
      bound(rest);
      free_.insert(free_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(rest));
    }
  }
  /// The least size that all places may have.
  void bound(Free& one) const {
    one.least = 0;
    for (const Place& place : one.places)
      one.least = std::max(one.least, all_ ? 2 : leastOf(source_.tensors[place.tensor], place.dim));
  }
  bool works(size_t i, const std::vector<Place>& tied, const std::vector<Place>& loose) {
    std::vector<Free> kept = free_;
    Free rest = free_[i];
    rest.places = loose;
    free_[i].places = tied;
    free_.insert(free_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(rest));
    Sizes sizes = primes(0, multiple_);
    // The others keep sizes of their own, and these two get ones that nobody has.
    sizes[i] = 193 * multiple_;
    sizes[i + 1] = 197 * multiple_;
    const bool isFine = lower(sizes, declares_).ok();
    free_ = std::move(kept);
    return isFine;
  }

  void name() {
    std::set<std::string> taken;
    for (Free& one : free_) {
      const Place& place = one.places.front();
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
    importer::SizeExamples examples;
    std::vector<LoweredGraph> graphs;
    auto add = [&](const Sizes& sizes, bool isNeeded) -> Status {
      auto& named = examples.sizes.emplace_back();
      for (size_t i = 0; i < free_.size(); ++i) named[free_[i].name] = sizes[i];
      StatusOr<LoweredGraph> lowered = lower(sizes, declares_);
      if (lowered.ok()) {
        graphs.push_back(std::move(*lowered));
        return okStatus();
      }
      examples.sizes.pop_back();
      return isNeeded ? unimplemented(lowered.status().message()) : okStatus();
    };
    HPU_RETURN_IF_ERROR(add(primes(0, multiple_), true));
    HPU_RETURN_IF_ERROR(add(primes(1, multiple_), true));
    // What is chosen by a size is seen where sizes are small, and where they are as large as they get. A graph may not
    // fit together at some of these; a launch is told so by the program's guards.
    Sizes small, large, even;
    for (size_t i = 0; i < free_.size(); ++i) {
      const auto step = static_cast<int64_t>(i);
      even.push_back((kPrimes[0][i % kMostFree] + 1) * multiple_);
      small.push_back(std::clamp((2 + step) * multiple_, std::max<int64_t>(free_[i].least, 1), free_[i].largest));
      large.push_back(all_ ? 2048 * multiple_ + step
                           : std::max(free_[i].largest - step * multiple_, std::max<int64_t>(free_[i].least, 2)));
    }
    HPU_RETURN_IF_ERROR(add(small, false));
    HPU_RETURN_IF_ERROR(add(large, false));
    HPU_RETURN_IF_ERROR(add(even, false));  // Primes are odd.
    HPU_ASSIGN(LoweredGraph most, lower(largest(), declares_));

    result.dims.resize(source_.tensors.size());
    for (const Free& one : free_) {
      const bool isSaid = std::any_of(one.places.begin(), one.places.end(), [&](const Place& place) {
        return std::find(most.inputs.begin(), most.inputs.end(), static_cast<int32_t>(place.tensor)) !=
               most.inputs.end();
      });
      if (!isSaid)
        return unimplemented(strCat("size ", one.places.front().dim, " of tensor '",
                                    source_.tensors[one.places.front().tensor].name, "' is that of no input"));
      result.bounds[one.name] = {one.least, all_ ? kLargestFree : one.largest};
      for (const Place& place : one.places) {
        auto& dims = result.dims[place.tensor];
        dims.resize(source_.tensors[place.tensor].maxSizes.size());
        dims[place.dim] = one.name;
      }
    }
    for (const LoweredGraph& graph : graphs)
      if (graph.inputs != graphs[0].inputs || graph.outputs != graphs[0].outputs)
        return unimplemented("which tensors are inputs and results depends on sizes");
    for (int32_t input : graphs[0].inputs) {
      std::vector<std::string> names = result.dims[static_cast<size_t>(input)];
      names.resize(source_.tensors[static_cast<size_t>(input)].maxSizes.size());
      std::reverse(names.begin(), names.end());
      examples.inputs.push_back(std::move(names));
    }
    std::vector<Graph*> built;
    for (const LoweredGraph& graph : graphs) built.push_back(graph.graph.get());
    HPU_RETURN_IF_ERROR(importer::freeSizes(built, examples));
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
    StatusOr<LoweredGraph> least = lower(sizes, declares_);
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
  bool declares_ = false;
  int64_t multiple_ = 1;
};

}  // namespace

StatusOr<FreeGraph> lowerFree(const GraphDescription& graph, bool all) {
  return SizeFreer(graph, all).run();
}

}  // namespace hpu::synapse
