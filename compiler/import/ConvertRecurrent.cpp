// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: their attributes and the order of their operands; the layers themselves are compose/Recurrent.
#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Recurrent.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Cell;
using compose::Emitter;
using Values = std::vector<hpu::Value>;

/// Of both directions. A step is some twenty operations, and a program has a limit of them.
constexpr int64_t kMostSteps = 384;

std::vector<std::string> textsOf(NodeContext& node, llvm::StringRef name) {
  const NodeAttribute* attribute = node.find(name);
  return attribute ? attribute->strings : std::vector<std::string>();
}

/// The activations of all directions, one behind the other; empty after a failure.
std::vector<compose::Activation> activationsOf(NodeContext& node, Cell cell, size_t directions) {
  std::vector<std::string> names = textsOf(node, "activations");
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) {
      if (cell != Cell::kRnn) names.emplace_back("Sigmoid");
      names.emplace_back("Tanh");
      if (cell == Cell::kLstm) names.emplace_back("Tanh");
    }
  const size_t each = cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 2 : 3;
  if (names.size() != each * directions)
    return node.invalid(strCat("it has ", names.size(), " activations, and needs ", each * directions)),
           std::vector<compose::Activation>();
  const std::vector<double> alphas = node.numbers("activation_alpha"), betas = node.numbers("activation_beta");
  size_t nextAlpha = 0, nextBeta = 0;
  std::vector<compose::Activation> activations;
  for (const std::string& name : names) {
    compose::Activation own;
    if (!compose::defaultNumbers(name, own))
      return node.invalid(strCat("unknown activation '", name, "'")), std::vector<compose::Activation>();
    const auto [alpha, beta] = compose::takesNumbers(name);
    if (alpha && nextAlpha < alphas.size()) own.alpha = alphas[nextAlpha++];
    if (beta && nextBeta < betas.size()) own.beta = betas[nextBeta++];
    activations.push_back(std::move(own));
  }
  return activations;
}

/// Inputs in the order of an LSTM; a null one is not given.
enum Operand : size_t { kX, kW, kR, kBias, kLengths, kH, kC, kPeephole, kOperands };

/// [directions, ...]: the part of one direction without that dimension.
hpu::Value ofDirection(Emitter& e, hpu::Value v, int64_t direction) {
  if (!v.handle) return v;
  Shape shape = e.shape(v);
  shape.erase(shape.begin());
  return e.reshape(e.sliceDim(v, 0, direction, 1), shape);
}

/// Sizes that operands must have; -1 is any. False after a failure.
bool checkShape(NodeContext& node, const char* what, Value value, llvm::ArrayRef<int64_t> wanted) {
  if (!value) return true;
  llvm::ArrayRef<int64_t> shape = NodeContext::typeOf(value).getShape();
  bool fits = shape.size() == wanted.size();
  for (size_t d = 0; fits && d < wanted.size(); ++d)
    fits = wanted[d] < 0 || shape[d] == wanted[d] || mlir::ShapedType::isDynamic(shape[d]);
  if (!fits) {
    std::string text;
    for (int64_t size : wanted)
      text += strCat(text.empty() ? "" : "x", size < 0 ? std::string("?") : std::to_string(size));
    node.invalid(strCat("its ", what, " has another shape than ", text));
  }
  return fits;
}

void convertRecurrent(NodeContext& node, Cell cell) {
  const std::string direction = node.text("direction", "forward");
  const bool isBoth = direction == "bidirectional";
  if (!isBoth && direction != "forward" && direction != "reverse")
    return node.invalid("unknown direction '" + direction + "'");
  const int64_t directions = isBoth ? 2 : 1;
  const bool isBatchFirst = node.opset() >= 14 && node.integer("layout", 0) != 0;
  compose::Recurrence how;
  how.cell = cell;
  how.clip = node.number("clip", 0);
  how.couplesGates = cell == Cell::kLstm && node.integer("input_forget", 0) != 0;
  how.resetsBehindProduct = cell == Cell::kGru && node.integer("linear_before_reset", 0) != 0;
  const std::vector<compose::Activation> activations = activationsOf(node, cell, static_cast<size_t>(directions));
  if (node.failed()) return;

  std::vector<Value> operands(kOperands);
  for (size_t i = 0; i < (cell == Cell::kLstm ? kOperands : kC); ++i) {
    if (node.has(i)) operands[i] = node.input(i);
    if (node.failed()) return;
  }
  if (!operands[kX] || !operands[kW] || !operands[kR]) return node.invalid("lacks X, W or R");
  if (!node.isFloat(operands[kX])) return node.invalid("needs floats");
  for (size_t i : {kX, kW, kR})
    if (NodeContext::rank(operands[i]) != 3) return node.invalid("X, W and R must be of rank 3");
  for (size_t i : {kW, kR, kBias, kH, kC, kPeephole}) {
    if (!operands[i]) continue;
    if (NodeContext::typeOf(operands[i]).getElementType() != NodeContext::typeOf(operands[kX]).getElementType())
      return node.invalid("its operands are of different types");
  }
  const int64_t each = cell == Cell::kRnn ? 1 : cell == Cell::kGru ? 3 : 4;
  auto fix = [&](size_t operand, int64_t dim, int64_t size) {
    const Value value = operands[operand];
    return !value || node.rank(value) <= dim || node.fixSize(value, dim, size);
  };
  if (const int64_t said = node.integer("hidden_size", 0); said > 0 && said < (1 << 20))
    if (!fix(kW, 0, directions) || !fix(kW, 1, each * said) || !fix(kR, 0, directions) || !fix(kR, 1, each * said) ||
        !fix(kR, 2, said) || !fix(kBias, 0, directions) || !fix(kBias, 1, 2 * each * said) ||
        !fix(kPeephole, 0, directions) || !fix(kPeephole, 1, 3 * said))
      return;
  for (size_t i : {kW, kR, kBias, kPeephole})
    if (operands[i] && !NodeContext::typeOf(operands[i]).hasStaticShape() &&
        (i != kW || NodeContext::typeOf(operands[i]).isDynamicDim(1)))
      return node.needsSize("weights of a free dimension");
  auto same = [&](size_t one, int64_t dimOfOne, size_t other, int64_t dim) {
    return !operands[other] || node.rank(operands[other]) <= dim ||
           node.sameSize(operands[one], dimOfOne, operands[other], dim);
  };
  const int64_t ofBatch = isBatchFirst ? 0 : 1;
  if (!same(kX, 2, kW, 2) || !same(kX, ofBatch, kLengths, 0) || !same(kX, ofBatch, kH, ofBatch) ||
      !same(kX, ofBatch, kC, ofBatch) || !same(kR, 2, kH, 2) || !same(kR, 2, kC, 2) ||
      !fix(kH, 1 - ofBatch, directions) || !fix(kC, 1 - ofBatch, directions))
    return;
  llvm::ArrayRef<int64_t> x = NodeContext::typeOf(operands[kX]).getShape();
  const int64_t steps = x[isBatchFirst ? 1 : 0], batch = x[isBatchFirst ? 0 : 1], inputs = x[2];
  if (mlir::ShapedType::isDynamic(steps))
    return node.needsSize("its steps are a free dimension, and it is unrolled when it is imported");
  if (steps < 1 || steps * directions > kMostSteps)
    return node.unsupported(strCat(steps, " steps in ", directions, " direction(s): 1 to ", kMostSteps,
                                   " of all directions are possible, as they are unrolled"));
  const int64_t hidden = NodeContext::typeOf(operands[kR]).getShape()[2];
  if (const int64_t said = node.integer("hidden_size", hidden); said != hidden)
    return node.invalid(strCat("hidden_size is ", said, ", and R has ", hidden, " columns"));
  const int64_t gates = hidden * each;
  auto ifKnown = [](int64_t size) { return mlir::ShapedType::isDynamic(size) ? -1 : size; };
  const int64_t known = ifKnown(batch);
  auto state = [&](const char* what, Value value) {
    if (isBatchFirst) return checkShape(node, what, value, {known, directions, hidden});
    return checkShape(node, what, value, {directions, known, hidden});
  };
  if (!checkShape(node, "W", operands[kW], {directions, gates, ifKnown(inputs)}) ||
      !checkShape(node, "R", operands[kR], {directions, gates, hidden}) ||
      !checkShape(node, "B", operands[kBias], {directions, 2 * gates}) ||
      !checkShape(node, "sequence_lens", operands[kLengths], {known}) || !state("initial_h", operands[kH]) ||
      !state("initial_c", operands[kC]) || !checkShape(node, "P", operands[kPeephole], {directions, 3 * hidden}))
    return;

  composed(node, operands, [&](Emitter& e, const Values& in) -> Values {
    auto batchSecond = [&](hpu::Value v) { return isBatchFirst && v.handle ? e.transpose(v, {1, 0, 2}) : v; };
    hpu::Value xs = batchSecond(in[kX]), hs = batchSecond(in[kH]), cs = batchSecond(in[kC]);
    Values ys, lastH, lastC;
    for (int64_t d = 0; d < directions; ++d) {
      compose::Recurrence own = how;
      own.isReverse = direction == "reverse" || d == 1;
      const size_t each = activations.size() / static_cast<size_t>(directions);
      auto first = activations.begin() + static_cast<std::ptrdiff_t>(each) * d;
      own.activations.assign(first, first + static_cast<std::ptrdiff_t>(each));
      const compose::RecurrentResult one = compose::recurrent(
          e,
          {xs, ofDirection(e, in[kW], d), ofDirection(e, in[kR], d), ofDirection(e, in[kBias], d), in[kLengths],
           ofDirection(e, hs, d), ofDirection(e, cs, d), ofDirection(e, in[kPeephole], d)},
          own);
      auto with = [&](hpu::Value v, int64_t dim) {  // A dimension of the direction.
        if (!v.handle) return hpu::Value{};
        Shape shape = e.shape(v);
        shape.insert(shape.begin() + dim, 1);
        return e.reshape(v, shape);
      };
      ys.push_back(with(one.y, 1));
      lastH.push_back(with(one.h, 0));
      if (one.c.handle) lastC.push_back(with(one.c, 0));
    }
    hpu::Value y = e.concat(ys, 1);
    if (isBatchFirst) y = e.transpose(y, {2, 0, 1, 3});
    Values results = {y, batchSecond(e.concat(lastH, 0))};
    if (cell == Cell::kLstm) results.push_back(batchSecond(e.concat(lastC, 0)));
    results.resize(node.numOutputs());
    return results;
  });
}

constexpr const char* kLimits = "at most 384 steps of all directions, a number that is known at import";
constexpr OpRow kRows[] = {
    {"RNN", 7, kNewestOpset, [](NodeContext& node) { convertRecurrent(node, Cell::kRnn); }, "", kLimits},
    {"GRU", 7, kNewestOpset, [](NodeContext& node) { convertRecurrent(node, Cell::kGru); }, "", kLimits},
    {"LSTM", 7, kNewestOpset, [](NodeContext& node) { convertRecurrent(node, Cell::kLstm); }, "", kLimits},
};

}  // namespace

llvm::ArrayRef<OpRow> recurrentRows() {
  return kRows;
}

}  // namespace hpu::importer
