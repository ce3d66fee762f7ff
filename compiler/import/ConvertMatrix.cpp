// SPDX-License-Identifier: Apache-2.0
// ONNX matrix products: MatMul, Gemm, and the Einsums that are one.
#include <set>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using base::strCat;
using ir::DimExpr;
using ir::SymDim;
using ir::SymShape;

/// The MME multiplies floats only.
bool checkFloats(NodeContext& node, Value lhs, Value rhs) {
  for (Value v : {lhs, rhs}) {
    if (!v) return false;
    if (node.isFloat(v)) continue;
    node.unsupported("integer operands (the MME multiplies floats)");
    return false;
  }
  return true;
}

void convertMatMul(NodeContext& node) {
  Value lhs = node.input(0), rhs = node.input(1);
  if (!checkFloats(node, lhs, rhs)) return;
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
  if (!checkFloats(node, a, b)) return;
  if (node.rank(a) != 2 || node.rank(b) != 2) return node.invalid("needs rank-2 operands");
  double alpha = node.number("alpha", 1.0), beta = node.number("beta", 1.0);
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

/// Letters only; nullopt for ellipses and repeated letters in one operand.
std::optional<Equation> parseEquation(std::string text) {
  std::erase(text, ' ');
  size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  Equation equation;
  equation.inputs.emplace_back();
  std::map<char, int> uses;
  for (char c : left) {
    if (c == ',') {
      equation.inputs.emplace_back();
    } else if (std::isalpha(static_cast<unsigned char>(c)) && equation.inputs.back().find(c) == std::string::npos) {
      equation.inputs.back() += c;
      ++uses[c];
    } else {
      return std::nullopt;
    }
  }
  if (arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
  } else {
    for (auto [letter, count] : uses)
      if (count == 1) equation.output += letter;
  }
  std::set<char> seen;
  for (char c : equation.output)
    if (!uses.count(c) || !seen.insert(c).second) return std::nullopt;
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

Value contract(NodeContext& node, Value lhs, std::string a, Value rhs, std::string b, const std::string& output) {
  lhs = sumOut(node, lhs, a, b + output);
  rhs = sumOut(node, rhs, b, a + output);
  if (!checkFloats(node, lhs, rhs)) return {};
  std::string batch, rows, columns, inner;
  std::map<char, SymDim> sizes;
  for (auto [letters, value] : {std::pair(a, lhs), std::pair(b, rhs)}) {
    SymShape shape = ir::symShape(node.typeOf(value));
    if (shape.size() != letters.size()) return node.invalid("the equation does not fit the operands' ranks"), Value();
    for (size_t i = 0; i < letters.size(); ++i)
      if (!sizes.count(letters[i]) || sizes[letters[i]].isFree()) sizes[letters[i]] = shape[i];
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
  SymShape head, left, right, whole;
  for (char c : batch) head.push_back(sizes[c]);
  left = right = whole = head;
  left.append({group(rows), group(inner)});
  right.append({group(inner), group(columns)});
  for (char c : rows + columns) whole.push_back(sizes[c]);
  lhs = node.reshape(reorder(node, lhs, a, batch + rows + inner), left);
  rhs = node.reshape(reorder(node, rhs, b, batch + inner + columns), right);
  Value product = node.reshape(node.op("matmul", {lhs, rhs}), whole);
  return reorder(node, product, batch + rows + columns, output);
}

void convertEinsum(NodeContext& node) {
  std::string text = node.text("equation", "");
  std::optional<Equation> equation = parseEquation(text);
  if (!equation) return node.unsupported("the equation '" + text + "' (ellipses and diagonals)");
  if (equation->inputs.size() != node.numInputs() || node.numInputs() > 2)
    return node.unsupported("the equation '" + text + "' (one or two operands)");
  Value x = node.input(0);
  if (!x) return;
  std::string letters = equation->inputs[0];
  if (node.rank(x) != static_cast<int64_t>(letters.size()))
    return node.invalid("the equation does not fit the operand's rank");
  if (node.numInputs() == 2)
    return node.setOutput(0, contract(node, x, letters, node.input(1), equation->inputs[1], equation->output));
  x = sumOut(node, x, letters, equation->output);
  Value result = reorder(node, x, letters, equation->output);
  if (result == node.input(0)) return node.forward(0);
  node.setOutput(0, result);
}

constexpr OpRow kRows[] = {
    {"MatMul", 1, kNewestOpset, convertMatMul, "", "floats"},
    {"Gemm", 6, kNewestOpset, convertGemm, "", "floats"},
    {"Einsum", 12, kNewestOpset, convertEinsum, "", "one or two operands, no ellipsis, no diagonal"},
};

}  // namespace

llvm::ArrayRef<OpRow> matrixRows() {
  return kRows;
}

}  // namespace hpu::importer
