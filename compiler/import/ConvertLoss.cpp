// SPDX-License-Identifier: Apache-2.0
// Losses of classifications: a label for each position, a score for each class in dimension 1.
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using ir::SymDim;

/// Its sizes.
llvm::SmallVector<SymDim> sizesOf(NodeContext& node, Value x) {
  llvm::SmallVector<SymDim> sizes;
  for (const auto& size : NodeContext::dims(node.typeOf(x))) sizes.push_back(node.symDim(size));
  return sizes;
}

/// Labels, without those that are to be ignored: these are class 0, and `ignored` says where.
struct Labels {
  Value classes;
  Value ignored;  ///< Null: none is.
};
Labels labelsOf(NodeContext& node, Value labels) {
  if (!node.hasAttribute("ignore_index")) return {labels, {}};
  const auto ignore = static_cast<double>(node.integer("ignore_index", 0));
  Value ignored = node.op("equal", {labels, node.scalarLike(labels, ignore)});
  return {node.op("where", {ignored, node.scalarLike(labels, 0), labels}), ignored};
}

/// Output 0: what the log-probabilities (of f32) of the labels of input 1 lose, each times its class's weight of
/// input 2.
void setLoss(NodeContext& node, Value logs, mlir::Type element) {
  Value given = node.input(1);
  if (!logs || !given) return;
  const int64_t rank = node.rank(given);
  if (node.rank(logs) != rank + 1)
    return node.invalid("its labels have rank " + std::to_string(rank) + ", and its scores " +
                        std::to_string(node.rank(logs)) + ": they have one dimension more, of classes");
  if (rank == 0) return node.invalid("its labels are a scalar; they have a dimension for the batch at least");
  const Labels labels = labelsOf(node, given);
  llvm::SmallVector<SymDim> sizes = sizesOf(node, given), column = sizes;
  if (!labels.classes) return;
  column.insert(column.begin() + 1, SymDim{1});
  Value picked = node.op("gather_elements", {logs, node.reshape(labels.classes, column)}, {{"axis", int64_t{1}}});
  Value losses = node.op("neg", node.reshape(picked, sizes)), weights;
  if (node.has(2)) {
    Value table = node.widened(node.input(2));
    weights = node.op("gather", {table, labels.classes}, {{"axis", int64_t{0}}});
    losses = node.op("mul", {losses, weights});
  }
  if (labels.ignored) {
    Value zero = node.scalarLike(losses, 0);
    losses = node.op("where", {labels.ignored, zero, losses});
    weights = node.op("where", {labels.ignored, zero, weights ? weights : node.scalarLike(losses, 1)});
    if (weights) weights = node.expand(weights, sizes);
  }
  Ints all;
  for (int64_t d = 0; d < rank; ++d) all.push_back(d);
  auto total = [&](llvm::StringRef mnemonic, Value x) {
    return node.op(mnemonic, x, {{"axes", all}, {"keepdims", false}});
  };
  const std::string reduction = node.text("reduction", "mean");
  Value result = losses;
  if (reduction == "sum")
    result = total("reduce_sum", losses);
  else if (reduction == "mean")
    result = weights ? node.op("div", {total("reduce_sum", losses), total("reduce_sum", weights)})
                     : total("reduce_mean", losses);
  else if (reduction != "none")
    return node.invalid("unknown reduction '" + reduction + "'");
  node.setOutput(0, node.cast(result, element));
}

void convertNegativeLogLikelihood(NodeContext& node) {
  Value logs = node.input(0);
  if (!logs) return;
  setLoss(node, node.widened(logs), node.elementOf(logs));
}

void convertSoftmaxCrossEntropy(NodeContext& node) {
  Value scores = node.input(0);
  if (!scores) return;
  if (node.rank(scores) < 2) return node.invalid("its scores need a dimension of classes behind that of the batch");
  Value logs = node.op("log_softmax", node.widened(scores), {{"axis", int64_t{1}}});
  if (!logs) return;
  setLoss(node, logs, node.elementOf(scores));
  if (node.wants(1)) node.setOutput(1, node.cast(logs, node.elementOf(scores)));
}

constexpr OpRow kRows[] = {
    {"NegativeLogLikelihoodLoss", 12, kNewestOpset, convertNegativeLogLikelihood},
    {"SoftmaxCrossEntropyLoss", 12, kNewestOpset, convertSoftmaxCrossEntropy},
};

}  // namespace

llvm::ArrayRef<OpRow> lossRows() {
  return kRows;
}

}  // namespace hpu::importer
