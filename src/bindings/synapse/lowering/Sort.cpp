// SPDX-License-Identifier: Apache-2.0
// TPC sorts, top-k, scans, and non_zero on them. The one thing to know: sorts are stable, NaN counts as the largest
// number, and a rank is found by counting what comes before: n comparisons an element, in one kernel.
#include <cmath>

#include "bindings/synapse/lowering/Indexing.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

struct Sorted {
  Value values, indices;  ///< Indices are i32.
};

/// The first `count` elements along `dim`, largest first or smallest first.
Sorted firstSorted(NodeContext& c, Value x, int64_t dim, int64_t count, bool largest) {
  int64_t rank = c.rank(x), size = c.dim(x, dim);
  // mine: [.., size, 1, ..], other: [.., 1, size, ..]
  Value mine = insertDim(c, x, dim + 1), other = insertDim(c, x, dim);
  Value before = c.op(largest ? "greater" : "less", {other, mine}), same = c.op("equal", {other, mine});
  if (isFloat(c.element(x))) {
    Value mineNan = c.op("is_nan", {mine}), otherNan = c.op("is_nan", {other});
    Value onlyOther = c.op("and", {otherNan, c.op("not", {mineNan})}),
          onlyMine = c.op("and", {mineNan, c.op("not", {otherNan})});
    before = c.op("or", {before, largest ? onlyOther : onlyMine});
    same = c.op("or", {same, c.op("and", {mineNan, otherNan})});
  }
  Value earlier = c.op("less", {counter(c, size, dim + 1, rank + 1), counter(c, size, dim, rank + 1)});
  before = c.op("or", {before, c.op("and", {same, earlier})});
  Value place = c.reduceSum(c.cast(before, ElementType::kI32), {dim + 1}, false);  // Of each element.
  // Which element has place k: [.., count, size, ..].
  Value hit = c.op("equal", {insertDim(c, place, dim), counter(c, count, dim, rank + 1)});
  Value number = counter(c, size, dim + 1, rank + 1);
  Value indices = c.reduceSum(c.where(hit, number, c.scalarLike(number, 0)), {dim + 1}, false);
  return {c.op("gather_elements", {x, indices}, {{"axis", dim}}), indices};
}

/// The same one by one, for few of many: the first largest of those that are left, `count` times.
Sorted firstPicked(NodeContext& c, Value x, int64_t dim, int64_t count, bool largest) {
  bool isFloating = isFloat(c.element(x));
  Value key = isFloating ? c.toF32(x) : x;
  if (!largest) key = isFloating ? c.neg(key) : c.sub(c.scalarLike(key, -1), key);  // -1 - x cannot overflow.
  Value none = c.full({ElementType::kBool, c.shape(x)}, 0), nan = isFloating ? c.op("is_nan", {key}) : none;
  Value left = c.op("not", {none}), positions = counter(c, c.dim(x, dim), dim, c.rank(x));
  // Below every number: what is taken gets it, and where it is a number as well the flags decide.
  Value lowest = isFloating
                     ? c.scalarLike(key, -HUGE_VAL)
                     : c.scalarLike(key, -std::ldexp(1.0, static_cast<int>(elementSize(c.element(key))) * 8 - 1));
  if (c.element(key) == ElementType::kU8) lowest = c.scalarLike(key, 0);
  auto firstOf = [&](Value v) {
    return c.cast(c.op("arg_max", {v}, {{"axis", dim}, {"keepdims", int64_t{1}}}), ElementType::kI32);
  };
  auto any = [&](Value flags) { return c.toBool(c.reduceMax(c.cast(flags, ElementType::kI32), {dim}, true)); };
  auto firstFlag = [&](Value flags) { return firstOf(c.cast(flags, ElementType::kI32)); };
  std::vector<Value> picks;
  for (int64_t k = 0; k < count && c.ok(); ++k) {
    Value numbers = c.op("and", {left, c.op("not", {nan})}), strange = c.op("and", {left, nan});
    Value open = c.where(numbers, key, lowest), best = c.reduceMax(open, {dim}, true);
    Value pick = c.where(c.op("equal", {best, lowest}), firstFlag(numbers), firstOf(open));
    if (isFloating) {
      Value preferred = largest ? strange : numbers, other = firstFlag(strange);
      pick = largest ? c.where(any(preferred), other, pick) : c.where(any(preferred), pick, other);
    }
    picks.push_back(pick);
    left = c.op("and", {left, c.op("not", {c.op("equal", {positions, pick})})});
  }
  Value indices = c.concat(picks, dim);
  return {c.op("gather_elements", {x, indices}, {{"axis", dim}}), indices};
}

/// Picking costs a few passes over x for each pick, counting one comparison for each pair.
bool picksFew(int64_t count, int64_t size) {
  return size >= 512 && count * 16 <= size;
}

void outputSorted(NodeContext& c, const Sorted& sorted) {
  c.output(0, sorted.values);
  if (c.wantsOutput(1)) c.output(1, c.cast(sorted.indices, c.outputType(1, ElementType::kI32)));
}

void lowerTopK(NodeContext& c) {
  // synBeamParams and ns_TopkNode have the layout of ParamsV3.
  ns_TopkNodeV2::ParamsV5 params{};
  params = c.versionedParams<ns_TopkNodeV2::ParamsV5, ns_TopkNodeV2::ParamsV4, ns_TopkNodeV2::ParamsV3,
                             ns_TopkNodeV2::ParamsV2, ns_TopkNodeV2::Params>(params, /*optional=*/false);
  int64_t count = params.bsw;
  if (isSet(params.isVcData) && !c.paramsAre<ns_TopkNodeV2::ParamsV3>())
    return (void)c.unsupported("isVcData (a valid count)");
  if (c.hasInput(1)) return (void)c.unsupported("a valid count (input 1)");
  Value x = c.input(0);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (!c.ok()) return;
  if (std::optional<Shape> declared = c.declaredShape(0); c.isShapeTensor(3) && declared)
    count = (*declared)[static_cast<size_t>(dim)];
  if (count < 1 || count > c.dim(x, dim))
    return (void)c.fail(strCat("k is ", count, " of ", c.dim(x, dim), " elements"));
  auto first = picksFew(count, c.dim(x, dim)) ? firstPicked : firstSorted;
  outputSorted(c, first(c, x, dim, count, !isSet(params.bottomK)));
}

void lowerSort(NodeContext& c) {
  auto params = c.params<ns_Sort::Params>();
  Value x = c.input(0);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (c.ok()) outputSorted(c, firstSorted(c, x, dim, c.dim(x, dim), isSet(params.isDescending)));
}

/// dY goes back to where the sorted elements came from.
void lowerSortBwd(NodeContext& c) {
  auto params = c.params<ns_SortBwd::Params>();
  Value dY = c.toF32(c.input(0)), indices = c.cast(c.input(1), ElementType::kI32);
  int64_t dim = c.axis(params.axis, c.rank(dY));
  Shape shape = c.requiredShape(0);
  if (!c.ok()) return;
  int64_t rank = c.rank(dY), size = shape[static_cast<size_t>(dim)];
  Value hit = c.op("equal", {insertDim(c, indices, dim), counter(c, size, dim, rank + 1)});
  Value part = c.where(hit, insertDim(c, dY, dim), c.scalarLike(dY, 0));
  c.output(0, c.cast(c.reduceSum(part, {dim + 1}, false), c.inputType(0)));
}

void lowerScan(NodeContext& c) {
  auto params = c.params<ns_CumSumKernel::Params>();  // ns_CumProdKernel has the same fields.
  Value x = c.input(0);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (!c.ok()) return;
  ElementType type = c.element(x);
  if (isFloat(type)) x = c.toF32(x);
  c.output(0, c.cast(scan(c, x, dim, c.row().argument, params.exclusive != 0, params.reverse != 0), type));
}

/// The number of sorted elements below each value (or not above it).
void lowerSearchSorted(NodeContext& c) {
  auto params = c.paramsOr<ns_SearchSorted::Params>({0});
  Value sorted = c.input(0), values = c.input(1);
  if (!c.ok()) return;
  int64_t rank = c.rank(values);
  if (c.rank(sorted) != 1 && c.rank(sorted) != rank)
    return (void)c.fail("the sorted tensor must have rank 1 or that of the values");
  if (rank < 1) return (void)c.fail("the values must have a dim");
  Shape shape = c.shape(sorted);
  shape.insert(shape.end() - 1, 1);
  Value below = c.op(params.right ? "less_equal" : "less", {c.reshape(sorted, shape), insertDim(c, values, rank)});
  c.output(0, c.cast(c.reduceSum(c.cast(below, ElementType::kI32), {rank}, false), c.outputType(0, ElementType::kI32)));
}

/// Coordinates of the elements that are not zero, in the framework's order, one row each; then the sizes that this
/// result would have had: {rank, count, 1, 1, 1}. Rows behind the count are zeros.
void lowerNonZero(NodeContext& c) {
  if (c.row().argument == "v2") {
    auto params = c.paramsOr<ns_NonzeroV2::Params>({});
    bool isPlain = params.max_chunks == 0;
    for (unsigned pad : params.pads) isPlain &= pad == 0;
    if (!isPlain) return (void)c.unsupported("pads or max_chunks");
  }
  Value x = c.condition(0);
  Shape shape = c.shape(x);
  if (!c.ok()) return;
  int64_t total = numElements(shape), rank = static_cast<int64_t>(shape.size());
  if (total < 1 || rank < 1) return (void)c.fail(strCat(c.inputName(0), " has no elements"));
  if (total >= INT32_MAX) return (void)c.unsupported("more than 2^31 elements");
  int64_t rows = total;
  if (std::optional<Shape> declared = c.declaredShape(0)) {
    if (declared->size() != 2 || (*declared)[1] != rank || (*declared)[0] < total)
      return (void)c.fail(strCat(c.outputName(0), " has sizes ", sizesText(*declared), ", must have {", rank, ", ",
                                 total, "} or more rows"));
    rows = (*declared)[0];
  }
  // Of each element, how many up to it are not zero; row r is the first element where that exceeds r.
  Value upTo = scan(c, c.cast(c.reshape(x, {total}), ElementType::kI32), 0, "add", false, false);
  Value count = c.sliceDim(upTo, 0, total - 1, 1), row = counter(c, rows, 0, 1);
  Value found =
      c.full({ElementType::kI32, {rows}}, 0);  // Elements known not to exceed r: a binary search of all rows at once.
  int64_t step = 1;
  while (step * 2 <= total) step *= 2;
  for (Value one = c.scalar(1, ElementType::kI32); step > 0 && c.ok(); step /= 2) {
    Value next = c.add(found, c.scalarLike(found, static_cast<double>(step)));
    Value probe = c.gather(upTo, c.min(c.sub(next, one), c.scalarLike(found, static_cast<double>(total - 1))), 0);
    Value isBefore = c.op("and", {c.op("less_equal", {probe, row}),
                                  c.op("less_equal", {next, c.scalarLike(found, static_cast<double>(total))})});
    found = c.where(isBefore, next, found);
  }
  Value isThere = c.op("less", {row, count}), zero = c.scalar(0, ElementType::kI32);
  std::vector<Value> columns;
  int64_t stride = total;
  for (int64_t size : shape) {
    stride /= size;
    Value at = stride == 1 ? found : c.div(found, c.scalarLike(found, static_cast<double>(stride)));
    if (columns.size()) at = c.op("mod", {at, c.scalarLike(found, static_cast<double>(size))});
    columns.push_back(c.reshape(c.where(isThere, at, zero), {rows, 1}));
  }
  c.outputAs(0, c.concat(columns, 1), ElementType::kI32);
  Value ones = c.full({ElementType::kI32, {3}}, 1);
  c.outputAs(1, c.concat({c.indices({1}, {rank}), count, ones}, 0), ElementType::kU32);
}

constexpr std::string_view kNumbers = "f32 bf16 f16 i32 i16 i8 u8", kFloats = "f32 bf16 f16";
constexpr std::string_view kAny = "f32 bf16 f16 i32 u32 i16 u16 i8 u8 i64";
constexpr std::string_view kTopK = "synBeamParams, or ns_TopkNodeV2::Params .. ParamsV5";

// clang-format off
constexpr GuidRow kRows[] = {
    {"topk", "x, [valid count], [unused], [k]", "values, [indices]", kTopK, "", lowerTopK},
    {"sort_fwd", "x", "values, [indices]", "ns_Sort::Params", kNumbers, lowerSort},
    {"sort_bwd", "dY, indices", "dX", "ns_SortBwd::Params", kFloats, lowerSortBwd},
    {"cumsum_fwd", "x", "y", "ns_CumSumKernel::Params", "f32 bf16 f16 i32 i64", lowerScan, "add"},
    {"cumprod_fwd", "x", "y", "ns_CumProdKernel::Params", "f32 bf16 f16 i32 i64", lowerScan, "mul"},
    {"search_sorted_fwd", "sorted, values", "y", "ns_SearchSorted::Params?", kNumbers, lowerSearchSorted},
    {"non_zero_fwd", "x, [shape]", "coordinates, sizes", "none", kAny, lowerNonZero},
    {"non_zero_v2_fwd", "x, [shape]", "coordinates, sizes", "ns_NonzeroV2::Params?", kAny, lowerNonZero, "v2"},
};
// clang-format on

}  // namespace

std::span<const GuidRow> sortGuids() {
  return kRows;
}

}  // namespace hpu::synapse
