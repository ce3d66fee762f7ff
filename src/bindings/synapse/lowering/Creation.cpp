// SPDX-License-Identifier: Apache-2.0
// TPC nodes that make or rearrange elements: constants, ranges, repetition, padding, flips, bands.
// The one thing to know: per-dim parameters are in SynapseAI's order (entry 0 is the fastest dim), except repeat_pt's.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bindings/synapse/lowering/HostOperands.h"
#include "bindings/synapse/lowering/Lowering.h"
#include "compose/Indexing.h"
#include "habanalabs/perf_lib_layer_params.h"

namespace hpu::synapse {
namespace {

using Ints = std::vector<int64_t>;

double number(fint_t value, ElementType type) {
  return isFloat(type) ? static_cast<double>(value.f) : static_cast<double>(value.i);
}

/// The type that the node gives: its suffix, else as declared.
ElementType resultType(NodeContext& c) {
  ElementType type = c.dataType() != ElementType::kInvalid ? c.dataType() : c.outputType(0, ElementType::kInvalid);
  if (type == ElementType::kInvalid) c.fail("the element type is not known: give the GUID a suffix");
  return type;
}

void lowerConstant(NodeContext& c) {
  if (c.hasInput(0) && !c.isShapeTensor(0)) {  // A value of its own: it is copied.
    Value value = c.input(0);
    if (std::optional<Shape> declared = c.declaredShape(0);
        declared && c.ok() && numElements(*declared) == numElements(c.shape(value)))
      value = c.reshape(value, *declared);
    return c.output(0, value);
  }
  ElementType type = resultType(c);
  Shape shape = c.requiredShape(0, 0);
  if (!c.ok()) return;
  if (c.paramsAre<ns_ConstantKernel::Params_v2>()) {
    auto params = c.params<ns_ConstantKernel::Params_v2>();
    uint64_t bits =
        static_cast<uint64_t>(static_cast<uint32_t>(params.const_high)) << 32 | static_cast<uint32_t>(params.const_low);
    if (type != ElementType::kI64 && type != ElementType::kU64)
      return (void)c.fail(strCat("Params_v2 is for 64-bit integers, not ", elementTypeName(type)));
    return c.output(0, c.expand(c.constant({type, {}}, &bits, sizeof bits), shape));
  }
  auto params = c.params<ns_ConstantKernel::Params>();
  c.output(0, c.full({type, shape}, number(params.constant, type)));
}

void lowerFill(NodeContext& c) {
  Value x = c.input(0), value = c.input(1);
  if (!c.ok()) return;
  if (numElements(c.shape(value)) != 1) return (void)c.fail(strCat(c.inputName(1), " must have one element"));
  c.output(0, c.expand(c.reshape(c.cast(value, c.element(x)), {}), c.shape(x)));
}

void lowerRange(NodeContext& c) {
  ElementType type = resultType(c);
  double start = 0, limit = 0, delta = 0;
  if (const size_t host = hostInput(c); host < c.numInputs()) {
    std::vector<double> given = hostNumbers(c, host, 3);
    if (!c.ok()) return;
    start = given[0], limit = given[1], delta = given[2];
  } else {
    auto params = c.params<ns_RangeKernel::Params>();
    start = number(params.start, type), limit = number(params.limit, type), delta = number(params.delta, type);
  }
  if (!c.ok()) return;
  double exact = std::ceil((limit - start) / delta);
  if (delta == 0 || !(exact >= 0) || exact > 1e9)
    return (void)c.fail(strCat("a range from ", start, " to ", limit, " by ", delta));
  auto count = static_cast<int64_t>(exact);
  // Rounding of the bounds may cost or win one element: the declared size decides.
  if (std::optional<Shape> declared = c.declaredShape(0);
      declared && declared->size() == 1 && std::abs((*declared)[0] - count) <= 1)
    count = (*declared)[0];
  if (count == 0) return c.output(0, c.full({type, {0}}, 0));
  if (isFloat(type)) {
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      values[static_cast<size_t>(i)] = static_cast<float>(start + static_cast<double>(i) * delta);
    return c.output(
        0, c.cast(c.constant({ElementType::kF32, {count}}, values.data(), values.size() * sizeof(float)), type));
  }
  Ints values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] = static_cast<int64_t>(start) + i * static_cast<int64_t>(delta);
  c.output(0, c.cast(c.indices({count}, values), type));
}

void lowerEye(NodeContext& c) {
  auto params = c.params<ns_Eye::Params>();
  if (c.ok() && (params.rows < 1 || params.cols < 1))
    c.fail(strCat("an identity of ", params.rows, " rows and ", params.cols, " columns"));
  if (!c.ok()) return;
  Value hit = c.op("equal", {counter(c, params.rows, 0, 2), counter(c, params.cols, 1, 2)});
  c.output(0, c.cast(hit, resultType(c)));
}

// ---- bands and diagonals of matrices -------------------------------------------------------------

/// Column less row, [rows, columns].
Value offsets(NodeContext& c, int64_t rows, int64_t columns) {
  return c.sub(counter(c, columns, 1, 2), counter(c, rows, 0, 2));
}

void lowerBandPart(NodeContext& c) {
  ns_MatrixBandPartKernel::triParams params{};
  params = c.versionedParams<ns_MatrixBandPartKernel::triParams, ns_MatrixBandPartKernel::Params>(params,
                                                                                                  /*optional=*/false);
  Value x = c.input(0);
  if (c.ok() && c.rank(x) < 2) c.fail(strCat(c.inputName(0), " must be a matrix"));
  if (!c.ok()) return;
  int64_t first = params.numLower, last = params.numUpper;
  if (!params.excludeDiag) {
    first = params.numLower < 0 ? std::numeric_limits<int>::min() : -first;
    last = params.numUpper < 0 ? std::numeric_limits<int>::max() : last;
  }
  Value offset = offsets(c, c.dim(x, -2), c.dim(x, -1));
  Value inside = c.op("and", {c.op("greater_equal", {offset, c.scalarLike(offset, static_cast<double>(first))}),
                              c.op("less_equal", {offset, c.scalarLike(offset, static_cast<double>(last))})});
  c.output(0, c.where(inside, x, c.scalarLike(x, 0)));
}

void lowerMatrixDiagonal(NodeContext& c) {
  auto params = c.params<ns_MatrixDiag::Params>();
  Value diagonal = c.input(0);
  if (c.ok() && c.rank(diagonal) < 1) c.fail(strCat(c.inputName(0), " must have a dim"));
  if (!c.ok()) return;
  if (params.kMin != params.kMax) return (void)c.unsupported("more than one diagonal (kMin and kMax differ)");
  int64_t k = params.kMin, length = c.dim(diagonal, -1);
  int64_t side = length + std::abs(k);  // A square, unless sizes are given.
  int64_t rows = params.rows > 0 ? params.rows : side, columns = params.cols > 0 ? params.cols : side;
  if (std::optional<Shape> declared = c.declaredShape(0); declared && declared->size() >= 2) {
    if (params.rows <= 0) rows = (*declared)[declared->size() - 2];
    if (params.cols <= 0) columns = declared->back();
  }
  int64_t room = k >= 0 ? std::min(rows, columns - k) : std::min(rows + k, columns);
  if (room != length)
    return (void)c.fail(strCat("diagonal ", k, " of ", rows, " x ", columns, " has ", room, " elements, not ", length));
  // Element i is in row i (of upper diagonals) or in column i (of lower ones).
  int64_t rank = c.rank(diagonal);
  Ints low(static_cast<size_t>(rank), 0), high(low);
  high.back() = (k >= 0 ? rows : columns) - length;
  Value placed = insertDim(c, c.pad(diagonal, low, high), k >= 0 ? rank : rank - 1);
  Value offset = offsets(c, rows, columns);
  c.output(0, c.where(c.op("equal", {offset, c.scalarLike(offset, static_cast<double>(k))}), placed,
                      c.scalarLike(diagonal, params.pad)));
}

// ---- repetition ----------------------------------------------------------------------------------

/// Repeats the whole tensor times[d] along dim d; times may have more (slower) dims than x.
Value tile(NodeContext& c, Value x, const Ints& times) {
  Shape shape = c.shape(x), split, wide, joined;
  shape.insert(shape.begin(), times.size() - shape.size(), 1);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (times[d] < 1) return c.fail(strCat("repeats ", times[d], " times"));
    split.push_back(1);
    wide.push_back(times[d]);
    split.push_back(shape[d]);
    wide.push_back(shape[d]);
    joined.push_back(times[d] * shape[d]);
  }
  if (joined == c.shape(x)) return x;
  // Dims that are not repeated need no place of their own: ranks stay small.
  Shape shortSplit, shortWide;
  for (size_t i = 0; i < split.size(); ++i)
    if (wide[i] != 1 || i % 2) shortSplit.push_back(split[i]), shortWide.push_back(wide[i]);
  return c.reshape(c.expand(c.reshape(x, shortSplit), shortWide), joined);
}

void lowerTile(NodeContext& c) {
  ns_TileKernel::ParamsV2 params{};
  std::fill(std::begin(params.repeat), std::end(params.repeat), 1);
  const size_t host = hostInput(c);
  const bool isGiven = host < c.numInputs();
  params = c.versionedParams<ns_TileKernel::ParamsV2, ns_TileKernel::Params>(params, /*optional=*/isGiven);
  Value x = c.input(0);
  if (!c.ok()) return;
  if (c.rank(x) > 5) return (void)c.fail(strCat("rank ", c.rank(x), "; tile takes up to 5 dims"));
  // The result may have more dims than x: those that it declares, else those that are repeated.
  int64_t rank = c.rank(x);
  if (isGiven) {
    std::vector<int64_t> repeats = hostSizes(c, host, static_cast<size_t>(rank));
    for (size_t i = 0; i < std::min(repeats.size(), std::size(params.repeat)); ++i)
      params.repeat[i] = static_cast<int>(std::min<int64_t>(repeats[i], INT32_MAX));
    if (!c.ok()) return;
  }
  if (c.isShapeTensor(1)) {
    rank = std::max(rank, static_cast<int64_t>(c.inputShape(1).size()));
  } else if (std::optional<Shape> declared = c.declaredShape(0)) {
    rank = std::max(rank, static_cast<int64_t>(declared->size()));
  } else {
    for (int64_t i = rank; i < 5; ++i)
      if (params.repeat[i] > 1) rank = i + 1;
  }
  Ints times(static_cast<size_t>(rank), 1);
  for (int64_t i = 0; i < std::min<int64_t>(rank, 5); ++i)  // What x has no dim for may be left 0.
    if (i < c.rank(x) || params.repeat[i] > 1) times[static_cast<size_t>(rank - 1 - i)] = params.repeat[i];
  c.output(0, tile(c, x, times));
}

void lowerRepeatPt(NodeContext& c) {
  auto params = c.params<ns_RepeatPt::Params>();
  Value x = c.input(0);
  if (!c.ok()) return;
  if (params.size < c.rank(x) || params.size > 5)
    return (void)c.fail(strCat(params.size, " repeats for rank ", c.rank(x)));
  c.output(0, tile(c, x, Ints(params.repeat, params.repeat + params.size)));
}

void lowerRepeat(NodeContext& c) {
  Value x = c.input(0);
  if (c.hasInput(1)) {
    // How often each element is repeated: element j of the result comes from the one whose counts reach j first.
    auto params = c.params<ns_RepeatKernelGaudiTF::Params>();
    int64_t dim = c.axis(params.axis, c.rank(x));
    Shape result = c.requiredShape(0);
    Value counts = c.cast(c.input(1), ElementType::kI32);
    if (!c.ok()) return;
    if (numElements(c.shape(counts)) != c.dim(x, dim))
      return (void)c.fail("needs one count for each element along the axis");
    Value ends = scan(c, c.reshape(counts, {1, c.dim(x, dim)}), 1, "add", false, false, c.largestDim(0, dim));
    Value done = c.op("less_equal", {ends, counter(c, result[static_cast<size_t>(dim)], 0, 2)});
    return c.output(0, c.gather(x, c.reduceSum(c.cast(done, ElementType::kI32), {1}, false), dim));
  }
  ns_RepeatKernel::ParamsV2 params{};
  params = c.versionedParams<ns_RepeatKernel::ParamsV2, ns_RepeatKernel::Params>(params, /*optional=*/false);
  int64_t dim = c.axis(params.axis, c.rank(x));
  if (!c.ok()) return;
  if (params.repeats < 1) return (void)c.fail(strCat("repeats ", params.repeats, " times"));
  Shape shape = c.shape(x), wide = shape;
  wide.insert(wide.begin() + dim + 1, params.repeats);
  shape[static_cast<size_t>(dim)] *= params.repeats;
  c.output(0, c.reshape(c.expand(insertDim(c, x, dim + 1), wide), shape));
}

// ---- padding -------------------------------------------------------------------------------------

struct Padding {
  Ints low, high;
  PadMode_t mode = PAD_MODE_CONSTANT;
  double value = 0;
};

Padding paddingOf(NodeContext& c, const Shape& inner, ElementType type) {
  ns_PadKernelEx::Params params{};
  if (c.paramsAre<ns_PadKernelEx::ParamsWithAlign>()) {
    auto aligned = c.params<ns_PadKernelEx::ParamsWithAlign>();
    for (unsigned alignment : aligned.output_size_alignment)
      if (alignment > 1) c.unsupported("output_size_alignment");
    params = aligned;
  } else {
    params = c.versionedParams<ns_PadKernelEx::Params, ns_PadKernel::Params>(params,
                                                                             /*optional=*/hostInput(c) < c.numInputs());
  }
  Padding p;
  auto rank = static_cast<int64_t>(inner.size());
  if (const size_t host = hostInput(c); host < c.numInputs() && rank <= 5) {
    // In the order of the parameters' pads.
    std::vector<int64_t> pads = hostSizes(c, host, 2 * static_cast<size_t>(rank));
    for (size_t i = 0; i < std::min(pads.size(), std::size(params.pads)); ++i)
      params.pads[i] = static_cast<unsigned>(std::min<int64_t>(pads[i], UINT32_MAX));
  }
  if (rank > 5) c.fail(strCat("rank ", rank, "; pad takes up to 5 dims"));
  p.mode = params.mode;
  p.value = number(params.value, type);
  p.low.assign(inner.size(), 0);
  p.high.assign(inner.size(), 0);
  for (int64_t i = 0; i < rank && c.ok(); ++i) {
    auto d = static_cast<size_t>(rank - 1 - i);
    p.low[d] = params.pads[i];
    p.high[d] = params.pads[i + rank];
    if (p.low[d] > INT32_MAX || p.high[d] > INT32_MAX) c.fail("pads must not be negative");
    int64_t most = p.mode == PAD_MODE_REFLECT ? inner[d] - 1 : p.mode == PAD_MODE_SYMMETRIC ? inner[d] : INT32_MAX;
    if (p.low[d] > most || p.high[d] > most)
      c.fail(strCat("pads ", p.low[d], " and ", p.high[d], " mirror more than the ", inner[d], " elements there are"));
  }
  if (p.mode < PAD_MODE_CONSTANT || p.mode > PAD_MODE_SYMMETRIC)
    c.fail(strCat("unknown pad mode ", static_cast<int>(p.mode)));
  return p;
}

/// The element of the operand that element i of the padded dim is.
int64_t source(int64_t i, int64_t low, int64_t size, PadMode_t mode) {
  int64_t at = i - low;
  switch (mode) {
    case PAD_MODE_REFLECT:
      return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
    case PAD_MODE_SYMMETRIC:
      return at < 0 ? -at - 1 : at >= size ? 2 * size - 1 - at : at;
    default:
      return std::clamp<int64_t>(at, 0, size - 1);
  }
}

void lowerPad(NodeContext& c) {
  Value x = c.input(0);
  Shape shape = c.shape(x);
  if (!c.ok()) return;
  Padding p = paddingOf(c, shape, c.element(x));
  if (!c.ok()) return;
  if (p.mode == PAD_MODE_CONSTANT) return c.output(0, c.pad(x, p.low, p.high, p.value));
  for (size_t d = 0; d < shape.size(); ++d) {
    if (p.low[d] == 0 && p.high[d] == 0) continue;
    Ints from(static_cast<size_t>(p.low[d] + shape[d] + p.high[d]));
    for (size_t i = 0; i < from.size(); ++i) from[i] = source(static_cast<int64_t>(i), p.low[d], shape[d], p.mode);
    x = c.gather(x, c.indices({static_cast<int64_t>(from.size())}, from), static_cast<int64_t>(d));
  }
  c.output(0, x);
}

Value flip(NodeContext& c, Value x, int64_t dim) {
  int64_t size = c.dim(x, dim);
  return size < 2 ? x : c.sliceDim(x, dim, size - 1, size, -1);
}

/// Elements of the padding give their gradient to those that they copied.
void lowerPadBwd(NodeContext& c) {
  Value dY = c.input(0);
  if (!c.ok()) return;
  ElementType type = c.element(dY);
  Shape outer = c.shape(dY), shape = outer;
  if (std::optional<Shape> declared = c.isShapeTensor(1) ? c.inputShape(1) : c.declaredShape(0)) {
    shape = *declared;
  } else {
    Padding p = paddingOf(c, Shape(outer.size(), INT32_MAX), type);  // Sizes follow from the pads.
    for (size_t d = 0; d < outer.size(); ++d) shape[d] = outer[d] - p.low[d] - p.high[d];
  }
  if (shape.size() != outer.size()) return (void)c.fail(strCat("dY has rank ", outer.size(), ", dX ", shape.size()));
  Padding p = paddingOf(c, shape, type);
  for (size_t d = 0; d < outer.size() && c.ok(); ++d) {
    auto dim = static_cast<int64_t>(d);
    int64_t low = p.low[d], size = shape[d], high = p.high[d];
    if (low + size + high != outer[d] || size < 1)
      return (void)c.fail(strCat("dY has ", outer[d], " elements where ", low, " + ", size, " + ", high, " are"));
    if (low == 0 && high == 0) continue;
    Value sum = c.sliceDim(dY, dim, low, size);
    // `part` at element `at` of the operand.
    auto accumulate = [&](Value part, int64_t at) {
      Ints before(outer.size(), 0), after(outer.size(), 0);
      before[d] = at;
      after[d] = size - at - c.dim(part, dim);
      sum = c.add(sum, c.pad(part, before, after));
    };
    if (p.mode != PAD_MODE_CONSTANT && low > 0) {
      Value left = c.sliceDim(dY, dim, 0, low);
      if (p.mode == PAD_MODE_EDGE)
        accumulate(c.reduceSum(left, {dim}, true), 0);
      else
        accumulate(flip(c, left, dim), p.mode == PAD_MODE_REFLECT ? 1 : 0);
    }
    if (p.mode != PAD_MODE_CONSTANT && high > 0) {
      Value right = c.sliceDim(dY, dim, low + size, high);
      if (p.mode == PAD_MODE_EDGE)
        accumulate(c.reduceSum(right, {dim}, true), size - 1);
      else
        accumulate(flip(c, right, dim), size - high - (p.mode == PAD_MODE_REFLECT ? 1 : 0));
    }
    dY = sum;
  }
  c.output(0, dY);
}

// ---- flips and rotations -------------------------------------------------------------------------

void lowerFlip(NodeContext& c) {
  Value x = c.input(0);
  int64_t rank = c.rank(x);
  Ints dims;
  if (c.paramsAre<ns_FlipKernel::ParamsV2>()) {
    auto params = c.params<ns_FlipKernel::ParamsV2>();
    if (params.num_dims > 5) return (void)c.fail(strCat("num_dims ", params.num_dims));
    for (unsigned i = 0; i < params.num_dims; ++i) dims.push_back(c.axis(params.dims[i], rank));
  } else {
    dims.push_back(c.axis(c.params<ns_FlipKernel::Params>().axis, rank));
  }
  for (int64_t d : dims)
    if (c.ok()) x = flip(c, x, d);
  c.output(0, x);
}

/// Moves elements by shifts[i] along dims[i]; what leaves comes in at the other end. Unused entries have shift 0.
void lowerRoll(NodeContext& c) {
  auto params = c.params<ns_RollKernel::Params>();
  Value x = c.input(0);
  for (int i = 0; i < 8 && c.ok(); ++i) {
    if (params.shifts[i] == 0) continue;
    int64_t dim = c.axis(params.dims[i], c.rank(x));
    if (!c.ok()) return;
    int64_t size = c.dim(x, dim);
    if (size == 0) continue;
    if (c.sizesChange()) {
      // Where each element comes from, in terms of the size.
      Value at = c.sub(counter(c, size, 0, 1), static_cast<double>(params.shifts[i]));
      x = c.gather(x, c.op("mod", {at, c.scalarLike(at, static_cast<double>(size))}), dim);
      continue;
    }
    int64_t shift = ((params.shifts[i] % size) + size) % size;
    if (shift) x = c.concat({c.sliceDim(x, dim, size - shift, shift), c.sliceDim(x, dim, 0, size - shift)}, dim);
  }
  c.output(0, x);
}

void lowerMemcpy(NodeContext& c) {
  c.paramsOr<ns_Memcpy::Params>({MEMCPY_DEFAULT});
  c.output(0, c.input(0));
}

constexpr std::string_view kAny = "f32 bf16 f16 i32 u32 i16 u16 i8 u8 i64", kFloats = "f32 bf16 f16";
constexpr std::string_view kPad = "ns_PadKernelEx::Params or ParamsWithAlign, or ns_PadKernel::Params";
constexpr std::string_view kBand = "ns_MatrixBandPartKernel::Params or triParams";

// clang-format off
constexpr GuidRow kRows[] = {
    {"constant", "[shape or value], [shape]", "y", "ns_ConstantKernel::Params or Params_v2; none with a value", "", lowerConstant},
    {"fill_fwd", "x, value", "y", "none", kAny, lowerFill},
    {"range", "[shape or host bounds], [host bounds]", "y", "ns_RangeKernel::Params", "f32 bf16 f16 i32 i16 i8 u8", lowerRange},
    {"eye", "", "y", "ns_Eye::Params", kAny, lowerEye},
    {"matrix_band_part_fwd", "x", "y", kBand, kAny, lowerBandPart},
    {"matrix_diagonal_fwd", "diagonal", "y", "ns_MatrixDiag::Params", kAny, lowerMatrixDiagonal},
    {"tile_fwd", "x, [shape or host repeats], [host repeats]", "y", "ns_TileKernel::Params or ParamsV2", kAny, lowerTile, {}, kMoves},
    {"repeat_pt_fwd", "x, [shape]", "y", "ns_RepeatPt::Params", kAny, lowerRepeatPt},
    {"repeat_fwd", "x, [counts]", "y", "ns_RepeatKernel::Params or ParamsV2, or ns_RepeatKernelGaudiTF::Params", kAny, lowerRepeat},
    {"pad_fwd", "x, [shape or host pads], [host pads]", "y", kPad, kAny, lowerPad},
    {"pad_bwd", "dY, [shape]", "dX", kPad, kFloats, lowerPadBwd},
    {"flip_fwd", "x", "y", "ns_FlipKernel::Params or ParamsV2", kAny, lowerFlip, {}, kMoves},
    {"roll", "x", "y", "ns_RollKernel::Params", kAny, lowerRoll},
    {"memcpy_nd", "x", "y", "ns_Memcpy::Params?", "", lowerMemcpy},
};
// clang-format on

}  // namespace

std::span<const GuidRow> creationGuids() {
  return kRows;
}

}  // namespace hpu::synapse
