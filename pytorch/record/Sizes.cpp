// SPDX-License-Identifier: Apache-2.0
#include "pytorch/record/Sizes.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "hpu/size_examples.h"
#include "pytorch/record/Programs.h"
#include "pytorch/record/WordMap.h"

namespace hpu_torch {
namespace {

using Names = std::vector<std::vector<std::string>>;  // By input and dim; "" where the size is fixed.
using Shapes = std::vector<hpu::Shape>;

constexpr size_t kMostKinds = 4096, kMostFamilies = 6, kMostExamples = 4;
constexpr int64_t kLargestSize = int64_t{1} << 31, kRoom = 4, kLeastRoom = 64;

struct Example {
  std::vector<Node> nodes;
  std::vector<Storage> storages;
  Shapes shapes;  ///< Of the inputs.
};

/// What is the same but for sizes. Examples that are no more than that are no family.
struct Family {
  std::vector<Example> examples;
  Names names;  ///< Empty as long as there is one example.
  std::string text;
  std::vector<std::pair<int, hpu::Executable>> executables;  ///< By device index.
  std::optional<hpu::Recipe> recipe;
  bool isRefused = false;
};

/// Structures with the same ops, types and dataflow.
struct Kind {
  std::mutex mutex;
  std::vector<Family> families;
};

struct Kinds {
  std::mutex mutex;
  WordMap<Kind> map{kMostKinds};
};
Kinds& kinds() {
  static Kinds& instance = *new Kinds;
  return instance;
}

int64_t bitsOf(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// All of a call but sizes, and integers, which may be sizes.
void addKind(const Signature& signature, std::vector<int64_t>& words) {
  words.push_back(static_cast<int64_t>(std::hash<std::string>()(signature.name)));
  for (const Argument& a : signature.arguments) {
    words.push_back(static_cast<int64_t>(a.kind) * 64 + (a.isReal ? 1 : 0) + (a.number >= 0 ? 2 : 0));
    words.insert(words.end(), a.operands.begin(), a.operands.end());
    if (a.kind == Argument::Kind::kBool) words.push_back(a.integer);
    if (a.number < 0) words.push_back(bitsOf(a.real));
    for (double real : a.reals) words.push_back(bitsOf(real));
    words.push_back(static_cast<int64_t>(a.integers.size()));
    words.push_back(static_cast<int64_t>(std::hash<std::string>()(a.text)));
    words.push_back(static_cast<int64_t>(a.type));
  }
  auto addType = [&](const TensorMeta& meta) {
    words.push_back(static_cast<int64_t>(meta.type) * 64 + static_cast<int64_t>(meta.sizes.size()));
  };
  for (const TensorMeta& operand : signature.operands) addType(operand);
  for (const ResultMeta& result : signature.results) {
    words.push_back(result.isDefined ? result.operand : -2);
    addType(result.meta);
  }
}

std::shared_ptr<Kind> kindOf(const hpu::Device& device, const std::vector<Node>& nodes,
                             const std::vector<Storage>& storages) {
  std::vector<int64_t> words = {static_cast<int64_t>(device.info().target)};
  for (const Node& node : nodes) {
    addKind(*node.signature, words);
    words.push_back(node.scope);
    for (const Place& place : node.operands) words.push_back(place.storage);
    for (const Place& place : node.results) words.push_back(place.storage);
  }
  for (const Storage& storage : storages) words.push_back(storage.isAlive);
  std::lock_guard<std::mutex> lock(kinds().mutex);
  if (std::shared_ptr<Kind> found = kinds().map.find(wordsOf(words))) return found;
  return kinds().map.insert(wordsOf(words), std::make_shared<Kind>());
}

Shapes shapesOf(const hpu::Graph& graph) {
  Shapes shapes;
  for (const hpu::TensorInfo& input : graph.inputs()) shapes.push_back(input.type.shape);
  return shapes;
}

using Sizes = std::vector<int64_t>;  // One by example.

/// `sizes` as a constant times `of`; 0: they are not.
int64_t factorOf(const Sizes& sizes, const Sizes& of) {
  const int64_t factor = sizes[0] / of[0];
  for (size_t k = 0; k < sizes.size(); ++k)
    if (sizes[k] != factor * of[k]) return 0;
  return factor;
}

/// How `sizes` follow from those that have names as products; empty when they do not.
std::string productOf(const Sizes& sizes, const std::vector<std::pair<Sizes, std::string>>& named) {
  for (size_t i = 0; i < named.size(); ++i) {
    if (const int64_t factor = factorOf(sizes, named[i].first); factor > 1)
      return std::to_string(factor) + "*" + named[i].second;
    for (size_t j = i; j < named.size(); ++j) {
      Sizes both = named[i].first;
      for (size_t k = 0; k < both.size(); ++k) both[k] *= named[j].first[k];
      if (const int64_t factor = factorOf(sizes, both); factor > 0)
        return (factor > 1 ? std::to_string(factor) + "*" : "") + named[i].second + "*" + named[j].second;
    }
  }
  return {};
}

/// Names of the sizes that differ between the examples: equal ones have one name, and what is the product of smaller
/// ones is said to be. None when nothing differs, or where a size is 0 or 1 in some, which is no work, or broadcast.
std::optional<Names> namesOf(const std::vector<const Shapes*>& all) {
  std::map<Sizes, std::string> known;  // Small ones first.
  auto forEach = [&](const auto& function) {
    for (size_t i = 0; i < all[0]->size(); ++i) {
      const size_t rank = (*all[0])[i].size();
      for (size_t d = 0; d < rank; ++d) {
        Sizes sizes;
        for (const Shapes* shapes : all) {
          if (shapes->size() != all[0]->size() || (*shapes)[i].size() != rank) return false;
          sizes.push_back((*shapes)[i][d]);
        }
        if (std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size == sizes[0]; })) continue;
        if (*std::min_element(sizes.begin(), sizes.end()) < 2) return false;
        function(i, d, sizes);
      }
    }
    return true;
  };
  if (!forEach([&](size_t, size_t, const Sizes& sizes) { known[sizes]; }) || known.empty()) return std::nullopt;
  std::vector<std::pair<Sizes, std::string>> named;
  for (auto& [sizes, name] : known) {
    name = productOf(sizes, named);
    if (!name.empty()) continue;
    name = "d" + std::to_string(named.size());
    named.emplace_back(sizes, name);
  }
  Names names;
  for (const hpu::Shape& shape : *all[0]) names.emplace_back(shape.size());
  forEach([&](size_t i, size_t d, const Sizes& sizes) { names[i][d] = known[sizes]; });
  return names;
}

/// Whether it is a name, not a product of some.
bool isName(const std::string& text) {
  return !text.empty() && text.find('*') == std::string::npos;
}

/// The sizes that the names have. None where one name has two, or a fixed size another than in `example`.
std::optional<std::map<std::string, int64_t>> sizesOf(const Names& names, const Shapes& shapes, const Shapes& example) {
  std::map<std::string, int64_t> sizes;
  if (shapes.size() != names.size()) return std::nullopt;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].size() != names[i].size()) return std::nullopt;
    for (size_t d = 0; d < shapes[i].size(); ++d) {
      const int64_t size = shapes[i][d];
      if (names[i][d].empty() ? size != example[i][d] : size < 2) return std::nullopt;
      // Whether products are what they are said to be is for freeSizes to see.
      if (isName(names[i][d]) && sizes.emplace(names[i][d], size).first->second != size) return std::nullopt;
    }
  }
  return sizes;
}

/// The graph of the family's examples, of free sizes under `names`, which `last` is an example of, too.
hpu::StatusOr<hpu::Graph> freed(const Family& family, const Names& names, hpu::Graph& last, const Shapes& lastShapes) {
  std::vector<hpu::Graph> graphs;
  hpu::SizeExamples examples;
  examples.inputs = names;
  const Shapes& first = family.examples[0].shapes;
  for (const Example& example : family.examples) {
    hpu::StatusOr<Translated> made = translate(example.nodes, example.storages);
    if (!made.ok()) return made.status();
    graphs.push_back(std::move(made->graph));
    const auto sizes = sizesOf(names, example.shapes, first);
    if (!sizes) return hpu::unimplemented("sizes are not those of their names");
    examples.sizes.push_back(*sizes);
  }
  const auto sizes = sizesOf(names, lastShapes, first);
  if (!sizes) return hpu::unimplemented("sizes that were equal differ");
  examples.sizes.push_back(*sizes);
  std::vector<hpu::Graph*> all;
  for (hpu::Graph& graph : graphs) all.push_back(&graph);
  all.push_back(&last);
  const hpu::Status status = hpu::freeSizes(all, examples);
  if (!status.ok()) return status;
  return std::move(graphs[0]);
}

/// Bounds of the names: some room above the sizes that were seen. A program for all sizes is chosen for sizes around
/// 1000 in each dimension, and its compilation plans for such, which takes long.
hpu::CompileOptions optionsOf(const Names& names, const std::vector<const Shapes*>& all) {
  std::map<std::string, int64_t> largest;
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t d = 0; d < names[i].size(); ++d)
      for (const Shapes* shapes : all)
        if (isName(names[i][d])) largest[names[i][d]] = std::max(largest[names[i][d]], (*shapes)[i][d]);
  hpu::CompileOptions options;
  for (const auto& [name, size] : largest) {
    int64_t most = kLeastRoom;
    while (most < kRoom * size && most < kLargestSize) most *= 2;
    options.dimBounds[name] = {2, most};
  }
  return options;
}

hpu::StatusOr<hpu::Executable> loaded(const hpu::Device& device, Family& family) {
  const int index = device.info().index;
  for (const auto& [own, executable] : family.executables)
    if (own == index) return executable;
  hpu::StatusOr<hpu::Executable> executable = hpu::Executable::load(device, *family.recipe);
  if (executable.ok()) family.executables.emplace_back(index, *executable);
  return executable;
}

/// Whether the family's program is what `translated` is, at its sizes.
hpu::Status fit(const hpu::Device& device, Family& family, Translated& translated, const Shapes& shapes,
                SizedExecutable& shared) {
  hpu::StatusOr<hpu::Graph> again = freed(family, family.names, translated.graph, shapes);
  if (!again.ok()) return again.status();
  if (again->toString() != family.text) return hpu::unimplemented("sizes follow from others in another way");
  hpu::StatusOr<hpu::Executable> executable = loaded(device, family);
  if (!executable.ok()) return executable.status();
  hpu::StatusOr<std::vector<hpu::TensorInfo>> outputs = executable->outputs(shapes);
  if (!outputs.ok()) return outputs.status();
  shared = {*executable, shapes};
  return hpu::okStatus();
}

/// Makes `translated` an example of the family, with a program that fits them all.
hpu::Status widen(const hpu::Device& device, Family& family, const std::vector<Node>& nodes,
                  const std::vector<Storage>& storages, Translated& translated, const Shapes& shapes,
                  SizedExecutable& shared) {
  if (family.examples.size() >= kMostExamples) return hpu::unimplemented("it has changed in too many ways");
  std::vector<const Shapes*> all;
  for (const Example& example : family.examples) all.push_back(&example.shapes);
  all.push_back(&shapes);
  const std::optional<Names> names = namesOf(all);
  if (!names) return hpu::unimplemented("a size is 0 or 1, or none differs");
  hpu::StatusOr<hpu::Graph> graph = freed(family, *names, translated.graph, shapes);
  if (!graph.ok()) return graph.status();
  Family wider;
  wider.examples = family.examples;
  wider.examples.push_back({nodes, storages, shapes});
  wider.names = *names;
  wider.text = graph->toString();
  family.isRefused = true;  // What fails from here on would fail, and take its time, for other sizes, too.
  hpu::StatusOr<hpu::Recipe> recipe = compileFor(device, *graph, optionsOf(*names, all), nodes, "");
  if (!recipe.ok()) return recipe.status();
  wider.recipe = *recipe;
  hpu::StatusOr<hpu::Executable> executable = loaded(device, wider);
  if (!executable.ok()) return executable.status();
  for (const Shapes* each : all)
    if (const auto outputs = executable->outputs(*each); !outputs.ok()) return outputs.status();
  shared = {*executable, shapes};
  family = std::move(wider);
  return hpu::okStatus();
}

}  // namespace

bool shareSizes(const hpu::Device& device, const std::vector<Node>& nodes, const std::vector<Storage>& storages,
                Translated& translated, SizedExecutable& shared, std::string& why) {
  const Shapes shapes = shapesOf(translated.graph);
  const std::shared_ptr<Kind> kind = kindOf(device, nodes, storages);
  std::lock_guard<std::mutex> lock(kind->mutex);
  for (Family& family : kind->families)
    if (family.recipe && fit(device, family, translated, shapes, shared).ok()) return true;
  for (Family& family : kind->families) {
    if (family.isRefused) continue;
    const hpu::Status status = widen(device, family, nodes, storages, translated, shapes, shared);
    if (status.ok()) return true;
    why = status.message();
  }
  if (kind->families.size() >= kMostFamilies) kind->families.erase(kind->families.begin());
  Family alone;
  alone.examples.push_back({nodes, storages, shapes});
  kind->families.push_back(std::move(alone));
  return false;
}

}  // namespace hpu_torch
