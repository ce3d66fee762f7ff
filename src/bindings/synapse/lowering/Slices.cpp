// SPDX-License-Identifier: Apache-2.0
// Slices of a tensor, their gradients, and writing a piece into a slice.
#include <algorithm>

#include "bindings/synapse/lowering/HostOperands.h"
#include "compose/Regions.h"
#include "habanalabs/synapse_api_types.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {

using compose::Region;

namespace {

using Ints = std::vector<int64_t>;

struct SliceEntry {
  uint64_t axis = 0, start = 0, end = 0, step = 1;
};

template <typename P>
std::vector<SliceEntry> entriesOf(const P& params, size_t most, size_t rank) {
  std::vector<SliceEntry> entries;
  for (size_t i = 0; i < std::min(most, rank); ++i)
    entries.push_back({params.axes[i], params.starts[i], params.ends[i], params.steps[i]});
  return entries;
}

/// Starts and steps that the host gave, fastest first as the sizes are.
bool hostEntries(NodeContext& c, size_t input, const Shape& whole, const Shape& piece,
                 std::vector<SliceEntry>& entries) {
  auto host = hostStruct<synDynamicSliceDmaH2dTensor>(c, input);
  if (!c.ok()) return false;
  size_t rank = whole.size();
  if (host.dims != rank || rank > std::size(host.starts) || piece.size() != rank)
    return c.fail(strCat(c.inputName(input), " is for rank ", host.dims, ", the operand has ", rank)), false;
  for (size_t i = 0; i < rank; ++i) {
    auto size = static_cast<uint64_t>(piece[rank - 1 - i]);
    entries.push_back(
        {i, host.starts[i], size ? host.starts[i] + (size - 1) * host.steps[i] + 1 : host.starts[i], host.steps[i]});
  }
  return true;
}

/// Gives a slice the sizes of `piece`.
bool fitSizes(NodeContext& c, const Shape& whole, const Shape& piece, Region& region) {
  if (piece.size() != whole.size())
    return c.fail(strCat("a slice of rank ", whole.size(), " is to have sizes ", sizesText(piece))), false;
  for (size_t d = 0; d < whole.size(); ++d) {
    int64_t last = 0;
    const bool isInside = piece[d] == 0 || (!__builtin_mul_overflow(piece[d] - 1, region.steps[d], &last) &&
                                            !__builtin_add_overflow(last, region.starts[d], &last) && last < whole[d]);
    if (!isInside)
      return c.fail(strCat("a slice of ", piece[d], " elements from ", region.starts[d], " on by ", region.steps[d],
                           " ends outside of the ", whole[d], " elements of axis ", whole.size() - 1 - d)),
             false;
    region.sizes[d] = piece[d];
  }
  return true;
}

/// Where nothing is taken, nothing is said of the place.
void settle(Region& region) {
  for (size_t d = 0; d < region.sizes.size(); ++d) {
    if (region.sizes[d] == 0) region.starts[d] = 0;
    if (region.sizes[d] < 2) region.steps[d] = 1;
  }
}

/// Whether a launch gives the tensor's sizes.
bool isFree(const TensorDescription& tensor) {
  return !tensor.minSizes.empty() && tensor.minSizes != tensor.maxSizes;
}

/// The slice of `whole` that the node's parameters (or its host tensor, for a piece of sizes `piece`) name. `isSized`:
/// the piece's sizes are those of the slice, and the parameters' ends only bounds.
bool readRegion(NodeContext& c, const Shape& whole, const Shape& piece, bool isSized, Region& region) {
  auto rank = static_cast<int64_t>(whole.size());
  std::vector<SliceEntry> entries;
  const size_t host = hostInput(c);
  if (host < c.numInputs()) {
    if (!hostEntries(c, host, whole, piece, entries)) return false;
  } else if (c.paramsAre<synSliceParams>()) {
    if (rank > MAX_DIMENSIONS_NUM)
      return c.fail(strCat("synSliceParams is for ", MAX_DIMENSIONS_NUM, " dims, the operand has ", rank)), false;
    entries = entriesOf(c.params<synSliceParams>(), MAX_DIMENSIONS_NUM, whole.size());
  } else if (c.paramsAre<synSliceParamsNDims>()) {
    entries = entriesOf(c.params<synSliceParamsNDims>(), HABANA_DIM_MAX, whole.size());
  } else {
    entries = entriesOf(c.params<synSliceParamsV2>(), HABANA_DIM_MAX, whole.size());
  }
  if (!c.ok()) return false;
  region = {Ints(whole.size(), 0), whole, Ints(whole.size(), 1)};
  for (const SliceEntry& entry : entries) {
    // An entry that was left zero means nothing, unless the whole result is empty along index 0.
    bool isBlank = entry.axis == 0 && entry.start == 0 && entry.end == 0;
    if (isBlank && !(piece.size() == whole.size() && rank > 0 && piece.back() == 0)) continue;
    if (entry.axis >= static_cast<uint64_t>(rank))
      return c.fail(strCat("axis ", entry.axis, " is outside of rank ", rank)), false;
    if (entry.step == 0 && !isBlank) return c.fail(strCat("the step of axis ", entry.axis, " is 0")), false;
    auto d = static_cast<size_t>(rank - 1 - static_cast<int64_t>(entry.axis));
    auto size = static_cast<uint64_t>(whole[d]);
    uint64_t end = std::min(entry.end, size), step = std::max<uint64_t>(entry.step, 1);
    if (entry.start > size && size > 0 && !(isSized && piece.size() == whole.size() && piece[d] == 0))
      return c.fail(strCat("the start ", entry.start, " of axis ", entry.axis, " is outside of its size ", size)),
             false;
    uint64_t count = end > entry.start ? (end - entry.start - 1) / step + 1 : 0;
    region.starts[d] = static_cast<int64_t>(std::min<uint64_t>(entry.start, size));
    region.sizes[d] = static_cast<int64_t>(count);
    region.steps[d] = static_cast<int64_t>(std::min<uint64_t>(step, INT64_MAX));
  }
  if (isSized && !fitSizes(c, whole, piece, region)) return false;
  settle(region);
  return true;
}

Shape declaredOrEmpty(NodeContext& c) {
  return c.declaredShape(0).value_or(Shape());
}

void lowerSlice(NodeContext& c) {
  const bool isSized = c.isShapeTensor(1);
  Shape piece = isSized ? c.inputShape(1) : declaredOrEmpty(c);
  Region region;
  if (readRegion(c, c.inputShape(0), piece, isSized, region)) c.output(0, sliceRegion(c, c.input(0), region));
}

void lowerSliceAxis(NodeContext& c) {
  synSliceAxisParamsV2 params = {};
  if (c.paramsAre<synSliceAxisParams>()) {
    auto narrow = c.params<synSliceAxisParams>();
    params.axis = narrow.axis;
    params.begin = narrow.begin;
    params.end = narrow.end;
  } else {
    params = c.params<synSliceAxisParamsV2>();
  }
  Shape shape = c.inputShape(0);
  int64_t d = c.axis(params.axis, static_cast<int64_t>(shape.size()));
  if (!c.ok()) return;
  auto size = static_cast<uint64_t>(shape[static_cast<size_t>(d)]);
  if (c.isShapeTensor(1)) {
    const Shape piece = c.inputShape(1);
    Region region{Ints(shape.size(), 0), shape, Ints(shape.size(), 1)};
    region.starts[static_cast<size_t>(d)] = static_cast<int64_t>(std::min(params.begin, size));
    if (!fitSizes(c, shape, piece, region)) return;
    settle(region);
    return c.output(0, sliceRegion(c, c.input(0), region));
  }
  if (size == 0) params.begin = params.end = 0;
  if (params.begin > params.end || params.begin > size)
    return (void)c.fail(strCat("begin ", params.begin, " and end ", params.end, " do not fit the size ", size,
                               " of axis ", params.axis));
  auto begin = static_cast<int64_t>(params.begin), count = static_cast<int64_t>(std::min(params.end, size)) - begin;
  c.output(0, c.sliceDim(c.input(0), d, count ? begin : 0, count));
}

bool pieceFits(NodeContext& c, size_t input, const Region& region) {
  Shape piece = c.inputShape(input);
  if (piece == region.sizes) return true;
  c.fail(strCat(c.inputName(input), " has sizes ", sizesText(piece), ", the slice ", sizesText(region.sizes)));
  return false;
}

void lowerStridedSliceGrad(NodeContext& c) {
  Shape whole = c.requiredShape(0, 1);
  Region region;
  // Beside the whole's actual sizes, the piece has its own.
  const bool isSized = c.isShapeTensor(1) && isFree(*c.inputTensor(0));
  if (!c.ok() || !readRegion(c, whole, c.inputShape(0), isSized, region) || !pieceFits(c, 0, region)) return;
  c.output(0, placeRegion(c, c.input(0), region, whole));
}

void lowerSliceInsert(NodeContext& c) {
  Region region;
  if (!c.hasInput(1)) return (void)c.fail(strCat(c.inputName(1), " is missing"));
  const bool isSized = isFree(*c.inputTensor(1));
  if (!readRegion(c, c.inputShape(0), c.inputShape(1), isSized, region) || !pieceFits(c, 1, region)) return;
  c.output(0, insertRegion(c, c.input(0), c.input(1), region));
}

constexpr GuidRow kRows[] = {
    {"slice_axis",
     "X, [shape]",
     "Y",
     "synSliceAxisParams or synSliceAxisParamsV2",
     "",
     lowerSliceAxis,
     {},
     kOneType | kMoves},
    {"slice",
     "X, [shape], [host starts and steps]",
     "Y",
     "synSliceParams, synSliceParamsNDims or synSliceParamsV2",
     "",
     lowerSlice,
     {},
     kOneType | kMoves},
    {"strided_slice_grad",
     "dY, [shape], [host starts and steps]",
     "dX",
     "synSliceParams, synSliceParamsNDims or synSliceParamsV2",
     "",
     lowerStridedSliceGrad,
     {},
     kOneType | kMoves},
    {"slice_insert",
     "original, piece, [host starts and steps]",
     "Y",
     "synSliceParams, synSliceParamsNDims or synSliceParamsV2",
     "",
     lowerSliceInsert,
     {},
     kOneType | kMoves},
};

}  // namespace

std::span<const GuidRow> sliceGuids() {
  return kRows;
}

}  // namespace hpu::synapse
