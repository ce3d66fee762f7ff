// SPDX-License-Identifier: Apache-2.0
// ONNX matrix products: MatMul, Gemm, and the Einsums that are one.
#include <cmath>
#include <map>
#include <utility>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using base::strCat;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

/// Numbers of one type.
bool checkNumbers(NodeContext& node, Value lhs, Value rhs) {
  for (Value v : {lhs, rhs}) {
    if (!v) return false;
    if (!node.elementOf(v).isInteger(1)) continue;
    node.invalid("its operands are bools, which have no products");
    return false;
  }
  return true;
}

void convertMatMul(NodeContext& node) {
  Value lhs = node.input(0), rhs = node.input(1);
  if (!checkNumbers(node, lhs, rhs)) return;
  int64_t lhsRank = node.rank(lhs), rhsRank = node.rank(rhs);
  if (lhsRank == 0 || rhsRank == 0) return node.invalid("an operand of rank 0");
  if (lhsRank == 1) lhs = node.reshape(lhs, llvm::ArrayRef<SymDim>{{1}, ir::symShape(node.typeOf(lhs))[0]});
  if (rhsRank == 1) rhs = node.reshape(rhs, llvm::ArrayRef<SymDim>{ir::symShape(node.typeOf(rhs))[0], {1}});
  Value result = node.op("matmul", {lhs, rhs});
  if (!result || (lhsRank > 1 && rhsRank > 1)) return node.setOutput(0, result);
  SymShape shape = ir::symShape(node.typeOf(result));
  if (rhsRank == 1) shape.pop_back();
  if (lhsRank == 1) shape.erase(shape.end() - (rhsRank == 1 ? 1 : 2));
  node.setOutput(0, node.reshape(result, shape));
}

void convertGemm(NodeContext& node) {
  Value a = node.input(0), b = node.input(1);
  if (!checkNumbers(node, a, b)) return;
  if (node.rank(a) != 2 || node.rank(b) != 2) return node.invalid("needs rank-2 operands");
  double alpha = node.number("alpha", 1.0), beta = node.number("beta", 1.0);
  for (double factor : {alpha, beta})
    if (!node.isFloat(a) && factor != std::floor(factor))
      return node.unsupported(strCat("integer operands times ", factor));
  if (node.integer("transA", 0)) a = node.transpose(a, {1, 0});
  if (node.integer("transB", 0)) b = node.transpose(b, {1, 0});
  Value result = node.op("matmul", {a, b});
  if (alpha != 1.0) result = node.op("mul", {result, node.scalarLike(result, alpha)});
  if (node.has(2) && beta != 0.0) {
    Value c = node.input(2);
    if (beta != 1.0) c = node.op("mul", {c, node.scalarLike(c, beta)});
    result = node.op("add", {result, c});
  }
  node.setOutput(0, result);
}

// ---- Einsum ------------------------------------------------------------------------------------

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

/// Stand for the dims of an ellipsis, the last one first; no equation can write them.
constexpr char kFirstEllipsisDim = '0';
constexpr int64_t kMostEllipsisDims = 9;

/// The labels of one operand or of the output. `ellipsis` stands in place of "..."; nullopt for anything but letters
/// and one ellipsis, and for a letter that comes twice where that means nothing.
std::optional<std::string> parseLabels(std::string_view text, const std::string& ellipsis, bool mayRepeat) {
  std::string labels;
  bool hasEllipsis = false;
  while (!text.empty()) {
    if (text.starts_with("...")) {
      if (std::exchange(hasEllipsis, true)) return std::nullopt;
      labels += ellipsis;
      text.remove_prefix(3);
      continue;
    }
    const char c = text.front();
    if (!std::isalpha(static_cast<unsigned char>(c))) return std::nullopt;
    if (!mayRepeat && labels.find(c) != std::string::npos) return std::nullopt;
    labels += c;
    text.remove_prefix(1);
  }
  return labels;
}

/// A label for each dim of each operand, those of an ellipsis included; nullopt and a failure for what is not
/// supported. `ranks` are those of the operands.
std::optional<Equation> parseEquation(NodeContext& node, std::string text, llvm::ArrayRef<int64_t> ranks) {
  const std::string shown = "the equation '" + text.substr(0, 200) + "'";
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::vector<std::string_view> terms;
  for (std::string_view rest = std::string_view(text).substr(0, arrow);;) {
    const size_t comma = rest.find(',');
    terms.push_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (terms.size() != ranks.size())
    return node.invalid(strCat(shown, " has ", terms.size(), " operands, the node ", ranks.size())), std::nullopt;
  Equation equation;
  std::map<char, int> uses;
  std::string widest;  // The dims of the longest ellipsis: shorter ones broadcast to it from the right.
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool hasEllipsis = terms[i].find("...") != std::string_view::npos;
    const int64_t dims = ranks[i] - static_cast<int64_t>(terms[i].size()) + 3;
    if (hasEllipsis ? dims < 0 : ranks[i] != static_cast<int64_t>(terms[i].size()))
      return node.invalid(strCat(shown, " does not fit operand ", i, " of rank ", ranks[i])), std::nullopt;
    if (hasEllipsis && dims > kMostEllipsisDims)
      return node.unsupported(strCat(shown, ": an ellipsis for ", dims, " dimensions")), std::nullopt;
    std::string ellipsis;
    for (int64_t d = hasEllipsis ? dims : 0; d-- > 0;) ellipsis += static_cast<char>(kFirstEllipsisDim + d);
    if (ellipsis.size() > widest.size()) widest = ellipsis;
    std::optional<std::string> labels = parseLabels(terms[i], ellipsis, /*mayRepeat=*/true);
    if (!labels) return node.unsupported(shown + " (letters and one ellipsis)"), std::nullopt;
    for (char c : *labels) ++uses[c];
    equation.inputs.push_back(std::move(*labels));
  }
  if (arrow != std::string::npos) {
    std::optional<std::string> labels =
        parseLabels(std::string_view(text).substr(arrow + 2), widest, /*mayRepeat=*/false);
    if (!labels) return node.invalid(shown + ": the output names a dimension twice"), std::nullopt;
    equation.output = *labels;
  } else {
    equation.output = widest;
    for (auto [letter, count] : uses)
      if (count == 1 && std::isalpha(static_cast<unsigned char>(letter))) equation.output += letter;
  }
  for (char c : equation.output)
    if (!uses.count(c)) return node.invalid(shown + ": the output names a dimension of no operand"), std::nullopt;
  for (char c : widest)
    if (equation.output.find(c) == std::string::npos)
      return node.invalid(shown + ": the output lacks the ellipsis"), std::nullopt;
  return equation;
}

/// Permutes the dims of x, which are named by `from`, into the order `to`.
Value reorder(NodeContext& node, Value x, const std::string& from, const std::string& to) {
  if (!x) return {};
  Ints perm;
  for (char c : to) perm.push_back(from.find(c));
  return node.transpose(x, perm);
}

/// Sums over the letters that neither the other operand nor the output has; edits `letters`.
Value sumOut(NodeContext& node, Value x, std::string& letters, const std::string& needed) {
  Ints axes;
  std::string kept;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (needed.find(letters[i]) == std::string::npos)
      axes.push_back(i);
    else
      kept += letters[i];
  }
  letters = kept;
  return axes.empty() ? x : node.op("reduce_sum", x, {{"axes", axes}, {"keepdims", false}});
}

/// `x`, whose dims are named by `labels`, with the dims `summed` expanded to the sizes that both operands have
/// together: a product sums over as many elements of one as of the other.
Value expandSummed(NodeContext& node, Value x, const std::string& labels, const std::string& summed,
                   const std::map<char, SymDim>& sizes) {
  SymShape shape = ir::symShape(node.typeOf(x));
  for (size_t i = 0; i < labels.size(); ++i)
    if (summed.find(labels[i]) != std::string::npos) shape[i] = sizes.at(labels[i]);
  return node.expand(x, shape);
}

Value contract(NodeContext& node, Value lhs, std::string a, Value rhs, std::string b, const std::string& output) {
  lhs = sumOut(node, lhs, a, b + output);
  rhs = sumOut(node, rhs, b, a + output);
  if (!checkNumbers(node, lhs, rhs)) return {};
  std::string batch, rows, columns, inner;
  // Of free ones with one letter each has elements for those of the other.
  for (size_t i = 0; i < a.size(); ++i)
    if (const size_t j = b.find(a[i]); j != std::string::npos &&
                                       node.typeOf(lhs).isDynamicDim(static_cast<unsigned>(i)) &&
                                       node.typeOf(rhs).isDynamicDim(static_cast<unsigned>(j)))
      if (!node.sameSize(lhs, static_cast<int64_t>(i), rhs, static_cast<int64_t>(j))) return {};
  std::map<char, SymDim> sizes;  // Of both together: a size of 1 broadcasts.
  for (auto [letters, value] : {std::pair(a, lhs), std::pair(b, rhs)}) {
    SymShape shape = ir::symShape(node.typeOf(value));
    for (size_t i = 0; i < letters.size(); ++i) {
      auto [known, isNew] = sizes.try_emplace(letters[i], shape[i]);
      std::optional<SymShape> joined = ir::broadcastShapes(known->second, shape[i]);
      if (!joined)
        return node.invalid(
                   strCat("the operands' sizes ", known->second.size, " and ", shape[i].size, " have the same label")),
               Value();
      if (!isNew) known->second = joined->front();
    }
  }
  for (char c : a) {
    bool inB = b.find(c) != std::string::npos, inOutput = output.find(c) != std::string::npos;
    (inB ? (inOutput ? batch : inner) : rows) += c;
  }
  for (char c : b)
    if (a.find(c) == std::string::npos) columns += c;
  auto group = [&](const std::string& letters) -> SymDim {
    if (letters.size() == 1) return sizes[letters[0]];
    std::vector<std::optional<DimExpr>> dims;
    for (char c : letters) {
      SymDim d = sizes[c];
      if (d.isFree() && !d.symbol) return {mlir::ShapedType::kDynamic};
      dims.emplace_back(d.isFree() ? DimExpr::parse(d.symbol.getValue()) : DimExpr(d.size));
    }
    return node.symDim(NodeContext::product(dims));
  };
  lhs = expandSummed(node, lhs, a, inner, sizes);
  rhs = expandSummed(node, rhs, b, inner, sizes);
  if (!lhs || !rhs) return {};
  SymShape left, right, whole;
  for (char c : batch) {
    left.push_back(ir::symShape(node.typeOf(lhs))[a.find(c)]);
    right.push_back(ir::symShape(node.typeOf(rhs))[b.find(c)]);
    whole.push_back(sizes[c]);
  }
  left.append({group(rows), group(inner)});
  right.append({group(inner), group(columns)});
  for (char c : rows + columns) whole.push_back(sizes[c]);
  lhs = node.reshape(reorder(node, lhs, a, batch + rows + inner), left);
  rhs = node.reshape(reorder(node, rhs, b, batch + inner + columns), right);
  Value product = node.reshape(node.op("matmul", {lhs, rhs}), whole);
  return reorder(node, product, batch + rows + columns, output);
}

/// Of dims with one letter the elements at equal positions, which leaves one of them; edits `letters`.
Value diagonal(NodeContext& node, Value x, std::string& letters) {
  for (size_t i = 0; i < letters.size() && x; ++i)
    for (size_t j = letters.find(letters[i], i + 1); j != std::string::npos && x; j = letters.find(letters[i], i + 1)) {
      const SymShape shape = ir::symShape(node.typeOf(x));
      if (!node.sameSize(x, static_cast<int64_t>(i), x, static_cast<int64_t>(j))) return {};
      if (!(shape[i] == shape[j]))
        return node.invalid(strCat("dimensions ", i, " and ", j, " have one letter and other sizes")), Value();
      auto positions = [&](size_t dim) {
        SymShape along(shape.size(), SymDim{1});
        along[dim] = shape[dim];
        return node.reshape(node.range(SymDim{0}, shape[dim], 1, ElementType::kI64), along);
      };
      Value kept = node.op("where", {node.op("equal", {positions(i), positions(j)}), x, node.scalarLike(x, 0)});
      x = node.op("reduce_sum", kept, {{"axes", Ints{static_cast<int64_t>(j)}}, {"keepdims", false}});
      letters.erase(j, 1);
    }
  return x;
}

void convertEinsum(NodeContext& node) {
  if (node.numInputs() < 1) return node.invalid("it has no operand");
  llvm::SmallVector<Value> operands;
  llvm::SmallVector<int64_t> ranks;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    operands.push_back(node.input(i));
    if (!operands.back()) return;
    ranks.push_back(node.rank(operands.back()));
  }
  std::optional<Equation> equation = parseEquation(node, node.text("equation", ""), ranks);
  if (!equation) return;
  std::vector<std::string>& inputs = equation->inputs;
  const Value first = operands[0];
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = diagonal(node, operands[i], inputs[i]);
  if (node.failed()) return;
  std::string letters = inputs[0];
  Value x = operands[0];
  // From the left: what is still needed of two is an operand of the next product.
  for (size_t i = 1; i < operands.size() && x; ++i) {
    std::string needed = equation->output, left;
    for (size_t k = i + 1; k < operands.size(); ++k) needed += inputs[k];
    for (char c : letters + inputs[i])
      if (needed.find(c) != std::string::npos && left.find(c) == std::string::npos) left += c;
    if (i + 1 == operands.size()) left = equation->output;
    x = contract(node, x, letters, operands[i], inputs[i], left);
    letters = left;
  }
  if (operands.size() > 1) return node.setOutput(0, x);
  x = sumOut(node, x, letters, equation->output);
  Value result = reorder(node, x, letters, equation->output);
  if (result == first) return node.forward(0);
  node.setOutput(0, result);
}

constexpr OpRow kRows[] = {
    {"MatMul", 1, kNewestOpset, convertMatMul, "", "floats on the MME; f64 and integers, which wrap around, on TPCs"},
    {"Gemm", 6, kNewestOpset, convertGemm, "", "as MatMul; alpha and beta of integers are whole numbers"},
    {"Einsum", 12, kNewestOpset, convertEinsum, "", ""},
};

}  // namespace

llvm::ArrayRef<OpRow> matrixRows() {
  return kRows;
}

}  // namespace hpu::importer
