// SPDX-License-Identifier: Apache-2.0
// What detectors make of boxes, and of small matrices; counts of n-grams.
#include <algorithm>
#include <map>

#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Detection.h"
#include "compose/Determinant.h"
#include "compose/Indexing.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Emitter;
using Values = std::vector<hpu::Value>;

void convertRoiAlign(NodeContext& node) {
  compose::RoiAlignment how;
  how.height = node.integer("output_height", 1);
  how.width = node.integer("output_width", 1);
  how.samples = node.integer("sampling_ratio", 0);
  how.scale = node.number("spatial_scale", 1);
  const std::string mode = node.text("mode", "avg");
  if (mode != "avg" && mode != "max") return node.invalid("unknown mode '" + mode + "'");
  how.isMax = mode == "max";
  const std::string pixels =
      node.opset() < 16 ? "output_half_pixel" : node.text("coordinate_transformation_mode", "half_pixel");
  if (pixels != "half_pixel" && pixels != "output_half_pixel")
    return node.invalid("unknown coordinate_transformation_mode '" + pixels + "'");
  how.isHalfPixel = pixels == "half_pixel";
  if (how.samples == 0)
    return node.unsupported("as many samples as each box is large (sampling_ratio 0): export with sampling_ratio=2");
  Value x = node.input(0), boxes = node.input(1), batch = node.input(2);
  if (!x || !boxes || !batch) return;
  if (!node.isFloat(x) || !node.isFloat(boxes)) return node.invalid("images and boxes must be of floats");
  if (node.rank(boxes) == 2 && !node.fixSize(boxes, 1, 4)) return;
  if (node.rank(boxes) == 2 && node.rank(batch) == 1 && !node.sameSize(boxes, 0, batch, 0)) return;
  const hpu::ElementType type = ir::elementType(node.elementOf(x));
  composed(node, {x, boxes, batch}, [&](Emitter& e, const Values& in) -> Values {
    return {e.cast(compose::roiAlign(e, in[0], in[1], in[2], how), type)};
  });
}

void convertMaxRoiPool(NodeContext& node) {
  const Ints shape = node.integers("pooled_shape");
  const double scale = node.number("spatial_scale", 1);
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] > 4096 || shape[1] > 4096)
    return node.invalid("pooled_shape must be two positive sizes");
  Value x = node.input(0), boxes = node.input(1);
  if (!x || !boxes) return;
  if (!node.isFloat(x) || !node.isFloat(boxes)) return node.invalid("images and boxes must be of floats");
  if (node.rank(boxes) == 2 && !node.fixSize(boxes, 1, 5)) return;
  const hpu::ElementType type = ir::elementType(node.elementOf(x));
  composed(node, {x, boxes}, [&](Emitter& e, const Values& in) -> Values {
    return {e.cast(compose::roiMaxPool(e, in[0], in[1], shape[0], shape[1], scale), type)};
  });
}

void convertDet(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  if (!node.isFloat(x)) return node.invalid("needs floats");
  if (const int64_t rank = node.rank(x); rank >= 2 && !node.sameSize(x, rank - 2, x, rank - 1)) return;
  composed(node, {x}, [](Emitter& e, const Values& in) -> Values { return {compose::determinant(e, in[0])}; });
}

/// Grams of one length in the pool, and the columns of the result that count them.
struct Grams {
  int64_t length = 1;
  std::vector<int64_t> items;    ///< length for each gram.
  std::vector<int64_t> columns;  ///< One for each gram.
  size_t first = 0;              ///< The place of the first gram among those of all lengths.
};

void convertTfIdf(NodeContext& node) {
  if (node.hasAttribute("pool_strings")) return node.unsupported("strings");
  const int64_t least = node.integer("min_gram_length", 1), most = node.integer("max_gram_length", 1);
  const int64_t skips = node.integer("max_skip_count", 0);
  const Ints counts = node.integers("ngram_counts"), columns = node.integers("ngram_indexes"),
             pool = node.integers("pool_int64s");
  const std::string mode = node.text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return node.invalid("unknown mode '" + mode + "'");
  if (least < 1 || most < least || skips < 0 || counts.empty() || most > static_cast<int64_t>(counts.size()))
    return node.invalid("its lengths, skips and ngram_counts do not fit together");
  int64_t width = 0;
  for (int64_t column : columns) {
    if (column < 0 || column >= kMaxGenerated) return node.invalid(strCat("the index ", column, " of an n-gram"));
    width = std::max(width, column + 1);
  }
  std::vector<Grams> lengths;
  size_t gram = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    const int64_t end = k + 1 < counts.size() ? counts[k + 1] : static_cast<int64_t>(pool.size());
    Grams own{static_cast<int64_t>(k) + 1, {}, {}, gram};
    if (counts[k] < 0 || end < counts[k] || end > static_cast<int64_t>(pool.size()) ||
        (end - counts[k]) % own.length != 0)
      return node.invalid("its ngram_counts do not fit the pool");
    own.items.assign(pool.begin() + counts[k], pool.begin() + end);
    for (int64_t i = 0; i < (end - counts[k]) / own.length; ++i, ++gram) {
      if (gram >= columns.size()) return node.invalid("it has fewer ngram_indexes than n-grams");
      own.columns.push_back(columns[gram]);
    }
    if (own.length >= least && own.length <= most && !own.columns.empty()) lengths.push_back(std::move(own));
  }
  // As ngram_indexes, one for each n-gram in the order of the pool.
  const std::vector<double> weights = node.numbers("weights");
  const bool isWeighted = mode != "TF" && !weights.empty();
  if (!weights.empty() && weights.size() != columns.size())
    return node.invalid(strCat("it has ", weights.size(), " weights for ", columns.size(), " ngram_indexes"));
  std::vector<float> columnWeights(static_cast<size_t>(width), 0.0f);
  if (isWeighted && mode == "IDF") {
    std::map<int64_t, double> own;
    for (const Grams& grams : lengths)
      for (size_t g = 0; g < grams.columns.size(); ++g) {
        const double weight = weights[grams.first + g];
        if (own.emplace(grams.columns[g], weight).first->second != weight)
          return node.unsupported(strCat("IDF with n-grams of different weights in column ", grams.columns[g]));
        columnWeights[static_cast<size_t>(grams.columns[g])] = static_cast<float>(weight);
      }
  }
  Value x = node.input(0);
  if (!x) return;
  if (node.rank(x) < 1 || node.rank(x) > 2) return node.invalid("needs one or two dimensions");
  if (!node.elementOf(x).isInteger(32) && !node.elementOf(x).isInteger(64))
    return node.unsupported("elements that are no i32 or i64");
  composed(node, {x}, [&](Emitter& e, const Values& in) -> Values {
    const bool isRow = e.rank(in[0]) == 1;
    hpu::Value rows = isRow ? compose::insertDim(e, in[0], 0) : in[0];
    const int64_t count = e.dim(rows, 0), size = e.dim(rows, 1);
    // Counts of all grams side by side, behind a column of zeros for results without a gram.
    std::vector<hpu::Value> parts = {e.full({ElementType::kF32, {count, 1}}, 0)};
    // By column of the result the places of its grams; a column of several is their sum.
    std::vector<std::vector<int64_t>> sources(static_cast<size_t>(width));
    int64_t next = 1;
    std::vector<float> gramWeights = {0.0f};  // As the parts.
    // Windows that reach beyond the end find an item there that no gram has.
    int64_t longest = 0, filler = 0;
    for (const Grams& grams : lengths) longest = std::max(longest, (grams.length - 1) * (skips + 1));
    while (std::find(pool.begin(), pool.end(), filler) != pool.end()) ++filler;
    rows = e.pad(e.cast(rows, ElementType::kI64), {0, 0}, {0, longest}, static_cast<double>(filler));
    for (const Grams& grams : lengths) {
      const auto each = static_cast<int64_t>(grams.columns.size());
      hpu::Value found;
      for (int64_t step = 1; step <= (grams.length == 1 ? 1 : skips + 1); ++step) {
        hpu::Value same;
        for (int64_t k = 0; k < grams.length; ++k) {
          std::vector<int64_t> wanted;
          for (int64_t g = 0; g < each; ++g) wanted.push_back(grams.items[static_cast<size_t>(g * grams.length + k)]);
          hpu::Value items = e.constant({ElementType::kI64, {1, 1, each}}, wanted.data(), wanted.size() * 8);
          hpu::Value own = compose::insertDim(e, e.sliceDim(rows, 1, k * step, size), 2);
          hpu::Value equal = e.op("equal", {own, items});
          same = same.handle ? e.op("and", {same, equal}) : equal;
        }
        hpu::Value sum = e.reduceSum(e.toF32(same), {1}, false);
        found = found.handle ? e.add(found, sum) : sum;
      }
      parts.push_back(found.handle ? found : e.full({ElementType::kF32, {count, each}}, 0));
      for (size_t g = 0; g < grams.columns.size(); ++g) {
        sources[static_cast<size_t>(grams.columns[g])].push_back(next++);
        gramWeights.push_back(isWeighted ? static_cast<float>(weights[grams.first + g]) : 1.0f);
      }
    }
    hpu::Value all = e.concat(parts, 1), result;
    auto weighted = [&](hpu::Value counts, const std::vector<float>& by) {
      const auto many = static_cast<int64_t>(by.size());
      return e.mul(counts, e.constant({ElementType::kF32, {1, many}}, by.data(), by.size() * sizeof(float)));
    };
    if (isWeighted && mode == "TFIDF") all = weighted(all, gramWeights);
    size_t layers = 1;
    for (const std::vector<int64_t>& places : sources) layers = std::max(layers, places.size());
    for (size_t k = 0; k < layers; ++k) {
      std::vector<int64_t> source;
      for (const std::vector<int64_t>& places : sources) source.push_back(k < places.size() ? places[k] : 0);
      hpu::Value part = e.gather(all, e.indices({width}, source), 1);
      result = result.handle ? e.add(result, part) : part;
    }
    if (mode == "IDF") result = e.toF32(e.op("greater", {result, e.scalarLike(result, 0)}));
    if (isWeighted && mode == "IDF") result = weighted(result, columnWeights);
    return {isRow ? compose::removeDim(e, result, 0) : result};
  });
}

constexpr OpRow kRows[] = {
    {"RoiAlign", 10, kNewestOpset, convertRoiAlign, "", "a sampling_ratio of 1 to 8"},
    {"MaxRoiPool", 1, kNewestOpset, convertMaxRoiPool},
    {"Det", 11, kNewestOpset, convertDet, "", "at most 64 rows"},
    {"TfIdfVectorizer", 9, kNewestOpset, convertTfIdf, "", "no strings"},
};

}  // namespace

llvm::ArrayRef<OpRow> detectionRows() {
  return kRows;
}

}  // namespace hpu::importer
