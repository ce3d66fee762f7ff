// SPDX-License-Identifier: Apache-2.0
// Matrix products and their gradients. SynapseAI's {columns, rows, batch...} is [batch..., rows, columns] here.
#include "bindings/synapse/lowering/Products.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

bool inOneType(NodeContext& c, Value& a, size_t ia, Value& b, size_t ib) {
  if (!c.ok()) return false;
  const ElementType one = c.element(a), other = c.element(b);
  if (one == other) return true;
  if (isFloat(one) != isFloat(other))
    return c.fail(strCat(c.inputName(ia), " is ", elementTypeName(one), ", ", c.inputName(ib), " is ",
                         elementTypeName(other))),
           false;
  const ElementType both = isFloat(one) ? ElementType::kF32 : elementSize(one) < elementSize(other) ? other : one;
  a = c.cast(a, both);
  b = c.cast(b, both);
  return c.ok();
}

namespace {

Value transposeLast(NodeContext& c, Value v) {
  int64_t rank = c.rank(v);
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
  if (rank >= 2) std::swap(perm[static_cast<size_t>(rank - 1)], perm[static_cast<size_t>(rank - 2)]);
  return c.transpose(v, perm);
}

/// Operand i, of a type and rank that can be multiplied.
Value factor(NodeContext& c, size_t i, bool transposed) {
  Value v = c.input(i);
  if (!v.handle) return v;
  if (c.rank(v) < 1) return c.fail(strCat(c.inputName(i), " has rank 0, must have 2 or more"));
  if (c.rank(v) == 1) v = c.reshape(v, {1, c.dim(v, 0)});  // Sizes that are missing at the end are 1.
  v = c.factor(i, v);
  return transposed ? transposeLast(c, v) : v;
}

/// a x b with the checks whose messages are in SynapseAI's terms.
Value product(NodeContext& c, Value a, size_t ia, Value b, size_t ib) {
  if (!a.handle || !b.handle) return {};
  if (!inOneType(c, a, ia, b, ib)) return {};
  if (c.dim(a, -1) != c.dim(b, -2))
    return c.fail(strCat("the common sizes differ: ", c.dim(a, -1), " of ", c.inputName(ia), " and ", c.dim(b, -2),
                         " of ", c.inputName(ib), " (after the transposes)"));
  return c.matmul(a, b);
}

/// Adds operand i when it is there: a tensor that broadcasts to the result, or as many elements as its rows have.
Value addBias(NodeContext& c, Value v, size_t i) {
  if (!v.handle || !c.hasInput(i)) return v;
  Value bias = c.cast(c.input(i), c.element(v));
  if (!bias.handle) return bias;
  const Shape shape = c.shape(bias), whole = c.shape(v);
  Shape kept = shape;
  while (kept.size() > whole.size() && kept.front() == 1) kept.erase(kept.begin());
  bool fits = kept.size() <= whole.size();
  for (size_t d = 1; fits && d <= kept.size(); ++d)
    fits = kept[kept.size() - d] == 1 || kept[kept.size() - d] == whole[whole.size() - d];
  if (fits) return c.add(v, c.reshape(bias, kept));
  if (numElements(shape) == whole.back()) return c.add(v, c.reshape(bias, {whole.back()}));
  return c.fail(strCat(c.inputName(i), " has sizes ", sizesText(shape), ", must have {", whole.back(),
                       "} or the result's, ", sizesText(whole)));
}

/// The result, which may be declared with more or fewer sizes of 1 at the end.
void outputProduct(NodeContext& c, Value v) {
  std::optional<Shape> declared = c.declaredShape(0);
  if (!v.handle || !declared) return c.output(0, v);
  Shape shape = c.shape(v);
  while (shape.size() > declared->size() && shape.front() == 1) shape.erase(shape.begin());
  while (shape.size() < declared->size() && (*declared)[declared->size() - shape.size() - 1] == 1)
    shape.insert(shape.begin(), 1);
  c.output(0, shape.size() == declared->size() ? c.reshape(v, shape) : v);
}

bool isMatrix(NodeContext& c, size_t i) {
  Shape shape = c.inputShape(i);
  for (size_t d = 0; d + 2 < shape.size(); ++d)
    if (shape[d] != 1) {
      c.fail(strCat(c.inputName(i), " has sizes ", sizesText(shape),
                    "; of more than two dims the others must be 1 (use batch_gemm)"));
      return false;
    }
  return true;
}

enum class Kind { kForward, kDedx, kDedw };

void lower(NodeContext& c, Kind kind, bool batched) {
  synGEMMParams defaults{kind == Kind::kDedw, kind == Kind::kDedx};
  auto params = c.paramsOr(defaults);
  if (!batched && (!isMatrix(c, 0) || !isMatrix(c, 1))) return;
  Value first = factor(c, 0, isSet(params.transpose_a)), second = factor(c, 1, isSet(params.transpose_b));
  // The gradient of B is (op(dC) x op(A)) transposed.
  Value v = kind == Kind::kDedw ? product(c, transposeLast(c, second), 1, transposeLast(c, first), 0)
                                : product(c, first, 0, second, 1);
  outputProduct(c, addBias(c, v, 2));
}

void lowerGemm(NodeContext& c) {
  lower(c, Kind::kForward, false);
}
void lowerGemmDedx(NodeContext& c) {
  lower(c, Kind::kDedx, false);
}
void lowerGemmDedw(NodeContext& c) {
  lower(c, Kind::kDedw, false);
}
void lowerBatchGemm(NodeContext& c) {
  lower(c, Kind::kForward, true);
}
void lowerBatchGemmDedx(NodeContext& c) {
  lower(c, Kind::kDedx, true);
}
void lowerBatchGemmDedw(NodeContext& c) {
  lower(c, Kind::kDedw, true);
}

void lowerMaskedBatchGemm(NodeContext& c) {
  auto params = c.paramsOr(synGEMMParams{false, false});
  Value a = factor(c, 0, isSet(params.transpose_a)), b = factor(c, 1, isSet(params.transpose_b));
  Value maskA = factor(c, 2, isSet(params.transpose_a)), maskB = factor(c, 3, isSet(params.transpose_b));
  if (!c.ok()) return;
  for (size_t i = 0; i < 4; ++i) {
    Shape shape = c.inputShape(i), other = c.inputShape(i == 3 ? 2 : 0);
    if (shape.size() != 4) return (void)c.fail(strCat(c.inputName(i), " has rank ", shape.size(), ", must have 4"));
    if (i >= 2 && shape[1] != 1)
      return (void)c.fail(strCat(c.inputName(i), " has size ", shape[1], " at index 2, must have 1"));
    if (shape[0] != other[0])
      return (void)c.fail(strCat(c.inputName(i), " has another batch (index 3) than ", c.inputName(0)));
  }
  outputProduct(c, c.add(product(c, a, 0, b, 1), product(c, maskA, 2, maskB, 3)));
}

constexpr GuidRow kRows[] = {
    {"gemm", "A, B, [bias]", "C", "synGEMMParams?", "", lowerGemm},
    {"gemm_dedx", "dC, B, [bias]", "dA", "synGEMMParams?", "", lowerGemmDedx},
    {"gemm_dedw", "dC, A, [bias]", "dB", "synGEMMParams?", "", lowerGemmDedw},
    {"batch_gemm", "A, B, [bias]", "C", "synGEMMParams?", "", lowerBatchGemm},
    {"batch_gemm_dedx", "dC, B, [bias]", "dA", "synGEMMParams?", "", lowerBatchGemmDedx},
    {"batch_gemm_dedw", "dC, A, [bias]", "dB", "synGEMMParams?", "", lowerBatchGemmDedw},
    {"masked_batch_gemm", "A, B, maskA, maskB", "C", "synGEMMParams?", "", lowerMaskedBatchGemm},
};

}  // namespace

std::span<const GuidRow> matrixGuids() {
  return kRows;
}

}  // namespace hpu::synapse
