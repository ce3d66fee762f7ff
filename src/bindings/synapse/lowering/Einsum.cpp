// SPDX-License-Identifier: Apache-2.0
// einsum of one or two operands: sums, diagonals and one matrix product. Letters are in framework order.
#include <algorithm>
#include <cctype>
#include <map>

#include "bindings/synapse/lowering/Products.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

namespace {

using Ints = std::vector<int64_t>;
/// A dim's name: a letter, or for a dim that "..." stands for a negative number that counts from the right.
using Labels = std::vector<int>;

struct Operand {
  Value value;
  Labels labels;
};

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// The labels of one side; "..." takes what `rank` leaves (for the result: `ellipsis` dims).
bool parseSide(NodeContext& c, std::string_view text, int64_t rank, int64_t ellipsis, Labels& labels) {
  size_t dots = text.find("...");
  int64_t letters = static_cast<int64_t>(text.size()) - (dots == std::string_view::npos ? 0 : 3);
  if (dots != std::string_view::npos && rank >= 0) ellipsis = rank - letters;
  if (dots == std::string_view::npos) ellipsis = 0;
  if (rank >= 0 && (ellipsis < 0 || letters + ellipsis != rank)) {
    c.fail(strCat("'", text, "' names ", letters, " dims of an operand of rank ", rank));
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      for (int64_t d = ellipsis; d > 0; --d) labels.push_back(static_cast<int>(-d));
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels.push_back(text[i]);
    } else {
      c.fail(strCat("'", std::string(1, text[i]), "' in the equation"));
      return false;
    }
  }
  return true;
}

/// Repeated labels of one operand become one dim: the diagonal, a strided slice of the flattened dims.
void takeDiagonals(NodeContext& c, Operand& x) {
  for (size_t i = 0; i < x.labels.size() && c.ok(); ++i) {
    auto again = std::find(x.labels.begin() + static_cast<int64_t>(i) + 1, x.labels.end(), x.labels[i]);
    if (again == x.labels.end()) continue;
    auto j = static_cast<size_t>(again - x.labels.begin());
    Shape shape = c.shape(x.value);
    int64_t n = shape[i];
    if (shape[j] != n) return (void)c.fail("a repeated letter names dims of different sizes");
    // The two dims last, then [.., n * n] and every (n + 1)th of it.
    Ints perm;
    Labels labels;
    Shape rest;
    for (size_t d = 0; d < shape.size(); ++d)
      if (d != i && d != j)
        perm.push_back(static_cast<int64_t>(d)), labels.push_back(x.labels[d]), rest.push_back(shape[d]);
    perm.push_back(static_cast<int64_t>(i));
    perm.push_back(static_cast<int64_t>(j));
    labels.push_back(x.labels[i]);
    rest.push_back(n * n);
    Value flat = c.reshape(c.transpose(x.value, perm), rest);
    x = {n > 1 ? c.sliceDim(flat, static_cast<int64_t>(rest.size()) - 1, 0, n, n + 1) : flat, labels};
    i = static_cast<size_t>(-1);  // From the start: other letters may repeat too.
  }
}

/// Sums over the labels that nothing else needs.
void sumOut(NodeContext& c, Operand& x, const Labels& needed) {
  Ints axes;
  Labels kept;
  for (size_t d = 0; d < x.labels.size(); ++d)
    if (has(needed, x.labels[d]))
      kept.push_back(x.labels[d]);
    else
      axes.push_back(static_cast<int64_t>(d));
  x = {c.reduceSum(x.value, axes, false), kept};
}

Value reorder(NodeContext& c, const Operand& x, const Labels& to) {
  Ints perm;
  for (int label : to) perm.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
  return c.transpose(x.value, perm);
}

Operand contract(NodeContext& c, Operand a, Operand b, const Labels& output) {
  std::map<int, int64_t> sizes;
  for (Operand* x : {&a, &b}) {
    Shape shape = c.shape(x->value);
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = sizes.emplace(x->labels[d], shape[d]).first->second;
      if (size != shape[d] && size != 1 && shape[d] != 1)
        return c.fail("a letter names dims of different sizes"), Operand{};
      size = std::max(size, shape[d]);
    }
  }
  for (Operand* x : {&a, &b}) {  // Sizes of 1 repeat.
    Shape full;
    for (int label : x->labels) full.push_back(sizes[label]);
    x->value = c.expand(x->value, full);
  }
  Labels joinedA = b.labels, joinedB = a.labels;
  joinedA.insert(joinedA.end(), output.begin(), output.end());
  joinedB.insert(joinedB.end(), output.begin(), output.end());
  sumOut(c, a, joinedA);
  sumOut(c, b, joinedB);
  Labels batch, rows, columns, inner;
  for (int label : a.labels) (!has(b.labels, label) ? rows : has(output, label) ? batch : inner).push_back(label);
  for (int label : b.labels)
    if (!has(a.labels, label)) columns.push_back(label);
  auto join = [](std::initializer_list<const Labels*> lists) {
    Labels all;
    for (const Labels* list : lists) all.insert(all.end(), list->begin(), list->end());
    return all;
  };
  auto count = [&](const Labels& labels) {
    int64_t product = 1;
    for (int label : labels) product *= sizes[label];
    return product;
  };
  Value lhs = c.reshape(reorder(c, a, join({&batch, &rows, &inner})), {count(batch), count(rows), count(inner)});
  Value rhs = c.reshape(reorder(c, b, join({&batch, &inner, &columns})), {count(batch), count(inner), count(columns)});
  Operand result{c.matmul(lhs, rhs), join({&batch, &rows, &columns})};
  Shape shape;
  for (int label : result.labels) shape.push_back(sizes[label]);
  result.value = c.reshape(result.value, shape);
  return result;
}

void lowerEinsum(NodeContext& c) {
  auto params = c.params<synEinsumParams>();
  if (!c.ok()) return;
  std::string text(params.equation, strnlen(params.equation, sizeof params.equation));
  std::erase(text, ' ');
  size_t arrow = text.find("->");
  if (arrow == std::string::npos || text.find("->", arrow + 2) != std::string::npos)
    return (void)c.fail(strCat("the equation '", text, "' must have exactly one \"->\""));
  std::string_view all = text, left = all.substr(0, arrow), right = all.substr(arrow + 2);
  size_t comma = left.find(',');
  size_t operands = comma == std::string_view::npos ? 1 : 2;
  if (operands != (c.hasInput(1) ? 2u : 1u))
    return (void)c.fail(
        strCat("the equation '", text, "' has ", operands, " operands, the node ", c.hasInput(1) ? 2 : 1));

  std::vector<Operand> inputs;
  int64_t ellipsis = 0;
  for (size_t i = 0; i < operands; ++i) {
    Operand x{c.input(i), {}};
    if (!c.ok()) return;
    x.value = operands == 2 ? c.factor(i, x.value) : c.cast(x.value, c.productType(c.element(x.value)));
    if (!c.ok()) return;
    std::string_view side = i == 0 ? left.substr(0, comma) : left.substr(comma + 1);
    if (!parseSide(c, side, c.rank(x.value), 0, x.labels)) return;
    ellipsis =
        std::max<int64_t>(ellipsis, std::count_if(x.labels.begin(), x.labels.end(), [](int l) { return l < 0; }));
    takeDiagonals(c, x);
    inputs.push_back(std::move(x));
  }
  Labels output;
  if (!c.ok() || !parseSide(c, right, -1, ellipsis, output)) return;
  for (size_t i = 0; i < output.size(); ++i) {
    bool known = has(inputs[0].labels, output[i]) || (operands == 2 && has(inputs[1].labels, output[i]));
    if (!known || std::count(output.begin(), output.end(), output[i]) > 1)
      return (void)c.fail(strCat("the result of '", text, "' must name dims of the operands, each once"));
  }
  if (operands == 2 && !inOneType(c, inputs[0].value, 0, inputs[1].value, 1)) return;
  Operand result = inputs[0];
  if (operands == 2)
    result = contract(c, inputs[0], inputs[1], output);
  else
    sumOut(c, result, output);
  if (!c.ok()) return;
  Value v = reorder(c, result, output);
  c.output(0, output.empty() ? c.reshape(v, {1}) : v);
}

constexpr GuidRow kRows[] = {
    {"einsum", "in0, [in1]", "Y", "synEinsumParams", "", lowerEinsum},
};

}  // namespace

std::span<const GuidRow> einsumGuids() {
  return kRows;
}

}  // namespace hpu::synapse
