// SPDX-License-Identifier: Apache-2.0
// ONNX ops that move elements: Transpose, Concat, Split, Slice, Pad, Gather, depth and space.
#include <set>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using base::strCat;
using ir::SymDim;
using ir::SymShape;
using mlir::ShapedType;
using shape::DimExpr;

void convertTranspose(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  Ints perm = node.integers("perm");
  if (perm.empty())
    for (int64_t d = node.rank(x); d-- > 0;) perm.push_back(d);
  if (static_cast<int64_t>(perm.size()) != node.rank(x))
    return node.invalid(strCat("perm has ", perm.size(), " entries for rank ", node.rank(x)));
  Value result = node.transpose(x, perm);
  if (result == x) return node.forward(0);
  node.setOutput(0, result);
}

void convertConcat(NodeContext& node) {
  llvm::SmallVector<Value> inputs;
  for (size_t i = 0; i < node.numInputs(); ++i) {
    // Empty pieces of rank 1 are a habit of exporters.
    inputs.push_back(node.input(i));
    if (!inputs.back()) return;
  }
  if (inputs.empty()) return node.invalid("needs an input");
  std::optional<int64_t> axis = node.axis(node.integer("axis", 1), node.rank(inputs[0]));
  if (!axis) return;
  if (inputs.size() == 1) return node.forward(0);
  node.setOutput(0, node.op("concat", inputs, {{"axis", *axis}}));
}

/// The parts of a dimension of no known size: `given` sizes, or as many equal ones. nullopt and a failure where no
/// expression says one.
std::optional<std::vector<DimExpr>> freeParts(NodeContext& node, const DimExpr& extent, int64_t count,
                                              const std::optional<std::vector<DimExpr>>& given) {
  std::vector<DimExpr> sizes;
  if (given) return given;
  const bool lastIsSmaller = node.hasAttribute("num_outputs");
  std::optional<DimExpr> size = lastIsSmaller ? extent.ceilDiv(count) : extent.dividedBy(count);
  if (!size) size = extent.floorDiv(count);
  shape::SymbolBounds any;
  for (const std::string& name : extent.symbols()) any[name] = shape::kAnySize;
  for (int64_t i = 0; i < count && size; ++i) {
    if (!lastIsSmaller) {
      sizes.push_back(*size);
      continue;
    }
    const auto before = size->times(i), left = before ? extent.minus(*before) : std::nullopt;
    const auto own = left ? DimExpr::min(*size, *left) : std::nullopt;
    const auto part = own ? DimExpr::max(*own, 0) : std::nullopt;
    if (!part) break;
    sizes.push_back(part->simplified(any));
  }
  if (static_cast<int64_t>(sizes.size()) == count) return sizes;
  return node.needsSize("the dimension that it splits"), std::nullopt;
}

/// Of a dimension whose size, or whose parts' sizes, are not known.
void splitFree(NodeContext& node, Value x, int64_t axis, const std::optional<std::vector<DimExpr>>& given) {
  const auto pieces = static_cast<int64_t>(node.numOutputs());
  SymShape whole = ir::symShape(node.typeOf(x));
  const std::optional<DimExpr> extent = ir::exprOf(whole[axis]);
  if (!extent) return node.needsSize(strCat("dimension ", axis, ", which it splits"));
  const auto sizes = freeParts(node, *extent, pieces, given);
  if (!sizes) return;
  if (static_cast<int64_t>(sizes->size()) != pieces)
    return node.invalid(strCat("has ", sizes->size(), " sizes for ", pieces, " outputs"));
  const bool areNumbers = llvm::all_of(*sizes, [](const DimExpr& size) { return size.isConstant(); });
  std::vector<DimExpr> starts = {DimExpr(0)};
  for (const DimExpr& size : *sizes) {
    if (size.isConstant() && *size.constant() < 0)
      return node.invalid(strCat("a part of ", *size.constant(), " elements"));
    const auto next = starts.back().plus(size);
    if (!next) return node.needsSize(strCat("dimension ", axis, ", which it splits"));
    starts.push_back(*next);
  }
  // The sum of its parts.
  if (areNumbers) return void(node.fixSize(x, axis, *starts.back().constant()));
  // That the parts are the whole is seen when it has a size. Of parts that follow from it, it is so.
  if (const bool isSure = !given && node.hasAttribute("num_outputs"); !isSure && !(starts.back() == *extent)) {
    SymShape parts = whole;
    parts[axis] = node.symDim(starts.back());
    if (!(x = node.reshape(x, parts))) return;
    whole = parts;
  }
  const size_t rank = whole.size();
  for (int64_t i = 0; i < pieces; ++i) {
    if (!node.wants(i)) continue;
    SymShape from(rank, SymDim{0}), size = whole;
    from[axis] = node.symDim(starts[i]);
    size[axis] = node.symDim((*sizes)[i]);
    node.setOutput(i, node.slice(x, from, size, Ints(rank, 1)));
  }
}

void convertSplit(NodeContext& node) {
  Value x = node.input(0);
  bool ok;
  std::optional<std::vector<DimExpr>> given = node.sizesOf("split", 1, ok);
  if (!x || !ok) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(x));
  if (!axis) return;
  int64_t extent = node.typeOf(x).getDimSize(*axis), pieces = static_cast<int64_t>(node.numOutputs());
  if (pieces < 1) return node.invalid("has no outputs");
  if (const int64_t count = node.integer("num_outputs", pieces); !given && count != pieces)
    return node.invalid(strCat("'num_outputs' is ", count, ", and the node has ", pieces, " outputs"));
  const bool anyFree = given && llvm::any_of(*given, [](const DimExpr& size) { return !size.isConstant(); });
  if (ShapedType::isDynamic(extent) || anyFree) return splitFree(node, x, *axis, given);
  Ints sizes;
  if (given) {
    for (const DimExpr& size : *given) sizes.push_back(*size.constant());
  } else {
    // Equal pieces; from opset 18 the last one may be smaller.
    int64_t size = (extent + pieces - 1) / pieces;
    if (extent % pieces && !node.hasAttribute("num_outputs"))
      return node.invalid(strCat("dimension ", *axis, " of ", extent, " does not split into ", pieces, " equal parts"));
    for (int64_t i = 0; i < pieces; ++i) sizes.push_back(std::max<int64_t>(0, std::min(size, extent - i * size)));
  }
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0) return node.invalid(strCat("a part of ", size, " elements"));
    if (size > extent - total)
      return node.invalid(strCat("its parts are longer than dimension ", *axis, ", which is ", extent));
    total += size;
  }
  if (static_cast<int64_t>(sizes.size()) < pieces || total != extent)
    return node.invalid(strCat("the sizes of its parts sum to ", total, ", dimension ", *axis, " is ", extent));
  int64_t begin = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    if (node.wants(i)) node.setOutput(i, node.sliceDim(x, *axis, begin, begin + sizes[i]));
    begin += sizes[i];
  }
}

/// Where a part of one dimension begins, and how many elements it has.
struct SliceRange {
  DimExpr start, size;
};

/// As NumPy's start:end:step of a dimension of `extent` elements; nullopt when no expression says it.
std::optional<SliceRange> symbolicRange(const DimExpr& extent, const DimExpr& start, const DimExpr& end, int64_t step) {
  constexpr int64_t kFar = INT32_MAX;  // Beyond any dimension.
  const DimExpr low = step > 0 ? 0 : -1;
  const std::optional<DimExpr> high = step > 0 ? extent : extent.minus(1);
  auto place = [&](const DimExpr& at) -> std::optional<DimExpr> {
    if (!high) return std::nullopt;
    if (const std::optional<int64_t> number = at.constant()) {
      if (const std::optional<int64_t> size = extent.constant())
        return DimExpr(std::clamp(*number < 0 ? *number + *size : *number, *low.constant(), *high->constant()));
      if (*number >= kFar) return high;
      if (*number <= -kFar) return low;
    }
    const std::optional<DimExpr> fromEnd = at.plus(extent);
    if (!fromEnd) return std::nullopt;
    const auto placed = DimExpr::select(DimExpr::Compare::kLess, at, 0, *fromEnd, at);
    const auto capped = placed ? DimExpr::min(*placed, *high) : std::nullopt;
    return capped ? DimExpr::max(*capped, low) : std::nullopt;
  };
  const std::optional<DimExpr> from = place(start), to = place(end);
  if (!from || !to) return std::nullopt;
  const std::optional<DimExpr> length = step > 0 ? to->minus(*from) : from->minus(*to);
  const auto count = length ? length->ceilDiv(step > 0 ? step : -step) : std::nullopt;
  const auto size = count ? DimExpr::max(*count, 0) : std::nullopt;
  if (!size) return std::nullopt;
  return SliceRange{*from, *size};
}

/// The same as simple as it can be. A size that is the same unless there is nothing to take it from is that size:
/// models rely on it. That it is there is found when the sizes are given: slice verifies it. Of what data decides it
/// often is not.
std::optional<SliceRange> simpleRange(const DimExpr& extent, const DimExpr& start, const DimExpr& end, int64_t step) {
  const auto range = symbolicRange(extent, start, end, step);
  if (!range) return std::nullopt;
  std::set<std::string> names;
  for (const DimExpr& expr : {range->start, range->size})
    for (const std::string& name : expr.symbols()) names.insert(name);
  shape::SymbolBounds any, some;
  bool emptyAlike = true;  // Whichever of the dimensions is 0, the extent is.
  for (const std::string& name : names) {
    any[name] = {0, shape::Interval::kNoHigh};
    some[name] = {hasDataSize(DimExpr::symbol(name)) ? 0 : 1, shape::Interval::kNoHigh};
    const std::optional<DimExpr> without = extent.substitute({{name, 0}});
    emptyAlike &= without && without->constant() == 0;
  }
  if (const DimExpr size = range->size.simplified(some); emptyAlike && size.isConstant())
    return SliceRange{range->start.simplified(some), size};
  const DimExpr first = range->start.simplified(any);
  if (start.isConstant() && end.isConstant() && !extent.isConstant() && !hasDataSize(extent)) {
    const auto alone = symbolicRange(DimExpr::symbol("extent"), start, end, step);
    const DimExpr size = alone ? alone->size.simplified({{"extent", {1, shape::Interval::kNoHigh}}}) : DimExpr(0);
    if (alone && size.isConstant()) return SliceRange{first, size};
  }
  return SliceRange{first, range->size.simplified(any)};
}

/// False when it cannot be told.
bool sliceRange(NodeContext& node, int64_t dim, const SymDim& extent, const std::optional<DimExpr>& start,
                const std::optional<DimExpr>& end, int64_t step, SymDim& outStart, SymDim& outSize) {
  if (step == 0) return node.invalid("a step of zero"), false;
  constexpr int64_t kFarthest = int64_t{1} << 47;  // Beyond any dimension: takes one element, as larger ones do.
  step = std::clamp(step, -kFarthest, kFarthest);
  const std::optional<DimExpr> size = ir::exprOf(extent);
  if (!size && start && end && step == 1 && start->constant() == 0 && end->constant() >= INT32_MAX) {
    outStart = {0};
    outSize = extent;
    return true;
  }
  const auto range = size && start && end ? simpleRange(*size, *start, *end, step) : std::nullopt;
  if (!range) return node.needsSize(strCat("what it takes of dimension ", dim, " depends on a free dimension")), false;
  outSize = range->size == *size ? extent : ir::dimOf(node.context(), range->size);
  // Nothing is taken from anywhere.
  outStart = range->size.constant() == 0 ? SymDim{0} : ir::dimOf(node.context(), range->start);
  return true;
}

void convertSlice(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  auto list = [&](llvm::StringRef attribute, size_t input) -> std::optional<std::vector<std::optional<DimExpr>>> {
    std::vector<std::optional<DimExpr>> values;
    if (node.opset() < 10) {
      for (int64_t v : node.integers(attribute)) values.emplace_back(DimExpr(v));
      return values;
    }
    if (!node.has(input)) return values;
    if (std::optional<ShapeElements> elements = node.elements(input)) return elements->values;
    node.unsupported(strCat("'", attribute.str(), "' must be known at import"));
    return std::nullopt;
  };
  auto starts = list("starts", 1), ends = list("ends", 2), axes = list("axes", 3);
  auto steps = node.opset() < 10 ? std::vector<std::optional<DimExpr>>() : list("steps", 4);
  if (!starts || !ends || !axes || !steps) return;
  int64_t rank = node.rank(x);
  if (starts->size() != ends->size() || (!axes->empty() && axes->size() != starts->size()) ||
      (!steps->empty() && steps->size() != starts->size()) || static_cast<int64_t>(starts->size()) > rank)
    return node.invalid("starts, ends, axes and steps differ in length");
  Ints outSteps(rank, 1);
  const SymShape in = ir::symShape(node.typeOf(x));
  SymShape outStarts(static_cast<size_t>(rank), SymDim{0}), outSizes = in;
  for (size_t i = 0; i < starts->size(); ++i) {
    std::optional<int64_t> named = axes->empty() ? static_cast<int64_t>(i)
                                   : (*axes)[i]  ? (*axes)[i]->constant()
                                                 : std::nullopt;
    std::optional<int64_t> step;
    if (steps->empty())
      step = 1;
    else if ((*steps)[i])
      step = (*steps)[i]->constant();
    if (!named || !step) return node.needsSize("its axes or steps depend on a free dimension");
    std::optional<int64_t> dim = node.axis(*named, rank);
    if (!dim) return;
    outSteps[*dim] = *step;
    if (!sliceRange(node, *dim, in[*dim], (*starts)[i], (*ends)[i], *step, outStarts[*dim], outSizes[*dim])) return;
    if (outSizes[*dim].size == 0 || outSizes[*dim].size == 1) outSteps[*dim] = 1;  // There is no next one, however far.
  }
  const bool steps1 = llvm::all_of(outSteps, [](int64_t s) { return s == 1; });
  const bool starts0 = llvm::all_of(outStarts, [](const SymDim& s) { return s.size == 0; });
  const bool sizesSame = llvm::equal(
      outSizes, in, [](const SymDim& a, const SymDim& b) { return a.size == b.size && a.symbol == b.symbol; });
  if (steps1 && starts0 && sizesSame) return node.forward(0);
  node.setOutput(0, node.slice(x, outStarts, outSizes, outSteps));
}

// ---- Pad ---------------------------------------------------------------------------------------

/// One slice with a step of one dimension; whether it is inside is seen when that has a size.
Value sliceStep(NodeContext& node, Value x, int64_t dim, const DimExpr& start, const DimExpr& size, int64_t step) {
  if (!x) return {};
  SymShape sizes = ir::symShape(node.typeOf(x)), starts(sizes.size(), SymDim{0});
  Ints steps(sizes.size(), 1);
  starts[dim] = node.symDim(start);
  sizes[dim] = node.symDim(size);
  steps[dim] = step;
  return node.slice(x, starts, sizes, steps);
}

/// Pads one dimension with elements of x itself: "reflect", "edge" or "wrap"; or with `value`, a scalar, where how much
/// follows from sizes.
Value padDim(NodeContext& node, Value x, int64_t dim, const DimExpr& low, const DimExpr& high, llvm::StringRef mode,
             Value value) {
  const DimExpr none = 0;
  if (!x || (low == none && high == none)) return x;
  const std::optional<DimExpr> size = ir::exprOf(ir::symShape(node.typeOf(x))[dim]);
  const auto beforeLast = size ? size->minus(2) : std::nullopt, last = size ? size->minus(1) : std::nullopt,
             fromEnd = size ? size->minus(low) : std::nullopt;
  if (!beforeLast || !last || !fromEnd)
    return node.needsSize(strCat("dimension ", dim, ", which it pads by '", mode.str(), "'")), Value();
  if (const std::optional<int64_t> number = size->constant(); number && mode != "constant") {
    const int64_t most = mode == "reflect" ? *number - 1 : mode == "wrap" ? *number : INT64_MAX;
    for (const DimExpr& pad : {low, high})
      if (const int64_t own = pad.constant().value_or(0); own > most || *number == 0)
        return node.invalid(
                   strCat("pads dimension ", dim, " of ", *number, " by ", own, " with mode '", mode.str(), "'")),
               Value();
  }
  auto repeated = [&](Value part, const DimExpr& times) {
    SymShape shape = ir::symShape(node.typeOf(x));
    shape[dim] = node.symDim(times);
    return node.expand(part, shape);
  };
  auto piece = [&](const DimExpr& pad, bool isLow) -> Value {
    if (mode == "constant") return repeated(value, pad);
    if (mode == "edge") return repeated(sliceStep(node, x, dim, isLow ? none : *last, 1, 1), pad);
    if (mode == "reflect") return sliceStep(node, x, dim, isLow ? pad : *beforeLast, pad, -1);
    return sliceStep(node, x, dim, isLow ? *fromEnd : none, pad, 1);
  };
  llvm::SmallVector<Value> pieces;
  if (!(low == none)) pieces.push_back(piece(low, true));
  pieces.push_back(x);
  if (!(high == none)) pieces.push_back(piece(high, false));
  if (llvm::any_of(pieces, [](Value each) { return !each; })) return {};
  return node.op("concat", pieces, {{"axis", dim}});
}

/// Negative pads, which cut, of one dimension.
Value cutDim(NodeContext& node, Value x, int64_t dim, int64_t begin, int64_t end) {
  if (!x || (begin == 0 && end == 0)) return x;
  const int64_t size = node.typeOf(x).getDimSize(dim);
  if (!ShapedType::isDynamic(size)) {
    if (begin + end > size)
      return node.invalid(strCat("cuts ", begin + end, " of dimension ", dim, ", which is ", size)), Value();
    return node.sliceDim(x, dim, begin, size - end);
  }
  const std::optional<DimExpr> whole = ir::exprOf(ir::symShape(node.typeOf(x))[dim]);
  const auto left = whole ? whole->minus(begin + end) : std::nullopt;
  if (!left) return node.needsSize(strCat("dimension ", dim, ", which it cuts")), Value();
  return sliceStep(node, x, dim, begin, *left, 1);
}

void convertCenterCropPad(NodeContext& node) {
  Value x = node.input(0);
  const std::optional<Ints> shape = node.constantInts(1);
  if (!x) return;
  if (!shape) return node.unsupported("a shape that is not known at import");
  const int64_t rank = NodeContext::rank(x);
  Ints all;
  for (int64_t d = 0; d < rank; ++d) all.push_back(d);
  const std::optional<Ints> axes = node.axes(node.integers("axes", all), rank);
  if (!axes) return;
  if (axes->size() != shape->size() || llvm::any_of(*shape, [](int64_t size) { return size < 0; }))
    return node.invalid(
        strCat("its shape has ", shape->size(), " sizes for ", axes->size(), " axes, or a negative one"));
  const SymShape own = ir::symShape(NodeContext::typeOf(x));
  Ints low(rank, 0), high(rank, 0);
  for (auto [axis, wanted] : llvm::zip(*axes, *shape)) {
    const SymDim& dim = own[static_cast<size_t>(axis)];
    if (dim.isFree() || dim.isNamed()) return node.needsSize(strCat("dimension ", axis));
    if (dim.size > wanted) {
      const int64_t begin = (dim.size - wanted) / 2;
      x = node.sliceDim(x, axis, begin, begin + wanted);
    } else {
      low[axis] = (wanted - dim.size) / 2;
      high[axis] = wanted - dim.size - low[axis];
    }
  }
  const bool pads =
      llvm::any_of(low, [](int64_t n) { return n > 0; }) || llvm::any_of(high, [](int64_t n) { return n > 0; });
  node.setOutput(0, pads ? node.op("pad", x, {{"low", low}, {"high", high}, {"value", 0.0}}) : x);
}

void convertPad(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  int64_t rank = node.rank(x);
  std::string mode = node.text("mode", "constant");
  double value = node.number("value", 0.0);
  std::optional<std::vector<DimExpr>> pads;
  bool ok = true;
  if (node.opset() < 2) {
    pads.emplace();
    for (int64_t pad : node.integers("paddings")) pads->emplace_back(pad);
  } else {
    pads = node.sizesOf("pads", 1, ok);
  }
  if (!ok) return;
  if (!pads) return node.invalid("the pads are missing");
  Value given;  // A value that only the data says, or that no double holds.
  if (node.opset() >= 11 && node.has(2) && mode == "constant") {
    const std::optional<double> number = node.constantNumber(2);
    if (number && (node.isFloat(x) || std::abs(*number) < 0x1p53)) {
      value = *number;
    } else {
      given = node.input(2);
      if (!given) return;
      if (node.typeOf(given).getShape() != llvm::ArrayRef<int64_t>{} && node.typeOf(given).getNumElements() != 1)
        return node.invalid("its padding value is not one element");
      given = node.reshape(given, Ints());
    }
  }
  Ints axes;
  for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
  if (node.opset() >= 18 && node.has(3)) {
    std::optional<Ints> own = node.constantInts(3);
    if (!own) return node.unsupported("axes that are not constant");
    own = node.axes(*own, rank);
    if (!own) return;
    axes = *own;
  }
  if (pads->size() != 2 * axes.size())
    return node.invalid(strCat("has ", pads->size(), " pads for ", axes.size(), " dimensions"));
  std::vector<DimExpr> low(rank, DimExpr(0)), high(rank, DimExpr(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    low[axes[i]] = (*pads)[i];
    high[axes[i]] = (*pads)[axes.size() + i];
  }
  bool areNumbers = true;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t begin = 0, end = 0;
    for (auto [pad, cut] : {std::pair(&low[d], &begin), {&high[d], &end}}) {
      areNumbers &= pad->isConstant();
      if (pad->constant().value_or(0) >= 0) continue;
      *cut = -*pad->constant();
      *pad = DimExpr(0);
    }
    x = cutDim(node, x, d, begin, end);
    if (!x) return;
  }
  if (mode == "constant" && areNumbers && !given) {
    Ints before, behind;
    for (int64_t d = 0; d < rank; ++d) {
      before.push_back(*low[d].constant());
      behind.push_back(*high[d].constant());
    }
    bool nothing = llvm::all_of(before, [](int64_t v) { return v == 0; }) &&
                   llvm::all_of(behind, [](int64_t v) { return v == 0; });
    return node.setOutput(0, nothing ? x : node.op("pad", x, {{"low", before}, {"high", behind}, {"value", value}}));
  }
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return node.unsupported("mode '" + mode + "'");
  Value filled = given ? given : mode == "constant" ? node.scalarLike(x, value) : Value();
  for (int64_t d = 0; d < rank; ++d) x = padDim(node, x, d, low[d], high[d], mode, filled);
  node.setOutput(0, x);
}

// ---- Gather, depth and space -------------------------------------------------------------------

void convertGather(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(x));
  if (!axis) return;
  RankedTensorType indexType = node.inputType(1);
  if (!node.checkIndices(1, x, *axis)) return;
  std::optional<Ints> index = node.constantInts(1);
  int64_t extent = node.typeOf(x).getDimSize(*axis);
  if (index && indexType && index->size() == 1 && ((*index)[0] >= 0 || !ShapedType::isDynamic(extent))) {
    // One constant index is a slice, which moves nothing.
    int64_t at = (*index)[0] < 0 ? (*index)[0] + extent : (*index)[0];
    SymShape shape = ir::symShape(node.typeOf(x));
    shape.erase(shape.begin() + *axis);
    shape.insert(shape.begin() + *axis, indexType.getRank(), SymDim{1});
    return node.setOutput(0, node.reshape(node.sliceDim(x, *axis, at, at + 1), shape));
  }
  if (const std::optional<ShapeElements> free = node.isSymbolic(1) ? node.elements(1) : std::nullopt;
      free && free->values.size() == 1 && free->values[0]) {
    // So is one that follows from sizes; a negative one counts from the end.
    const DimExpr& at = *free->values[0];
    const std::optional<DimExpr> whole = ir::exprOf(ir::symShape(node.typeOf(x))[*axis]),
                                 wrapped = whole ? whole->plus(at) : std::nullopt;
    const auto start = wrapped ? DimExpr::select(DimExpr::Compare::kLess, at, 0, *wrapped, at) : std::nullopt;
    if (start) {
      SymShape shape = ir::symShape(node.typeOf(x));
      shape.erase(shape.begin() + *axis);
      shape.insert(shape.begin() + *axis, free->isScalar ? 0 : 1, SymDim{1});
      return node.setOutput(0, node.reshape(sliceStep(node, x, *axis, start->simplified(), 1, 1), shape));
    }
  }
  Value indices = node.input(1);
  node.setOutput(0, node.op("gather", {x, indices}, {{"axis", *axis}}));
}

void convertDepthSpace(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  if (node.rank(x) != 4) return node.invalid("needs a rank-4 input");
  int64_t block = node.integer("blocksize", 0);
  if (block < 1 || block > (1 << 20)) return node.invalid(strCat("a block size of ", block));
  SymShape in = ir::symShape(node.typeOf(x));
  auto sizes = NodeContext::dims(node.typeOf(x));
  for (int d = 1; d < 4; ++d)
    if (!sizes[d]) return node.needsSize(strCat("dimension ", d));
  DimExpr b(block), c = *sizes[1], h = *sizes[2], w = *sizes[3];
  auto dim = [&](const std::optional<DimExpr>& size) { return node.symDim(size); };
  auto refuse = [&] {
    node.invalid(strCat(ir::typeToString(node.typeOf(x)), " does not divide into blocks of ", block));
  };
  // Of a free one, the reshape asks for a size that does.
  auto parts = [](const DimExpr& size, const DimExpr& by) {
    const std::optional<DimExpr> exact = size.dividedBy(by);
    return exact || size.isConstant() ? exact : size.floorDiv(by);
  };
  if (node.def().op == "SpaceToDepth") {
    std::optional<DimExpr> rows = parts(h, b), columns = parts(w, b);
    if (!rows || !columns) return refuse();
    Value split = node.reshape(x, llvm::ArrayRef<SymDim>{in[0], in[1], dim(rows), {block}, dim(columns), {block}});
    Value turned = node.transpose(split, {0, 3, 5, 1, 2, 4});
    return node.setOutput(0, node.reshape(turned, llvm::ArrayRef<SymDim>{in[0], dim(c.times(DimExpr(block * block))),
                                                                         dim(rows), dim(columns)}));
  }
  std::optional<DimExpr> depth = parts(c, block * block);
  if (!depth) return refuse();
  bool columnRow = node.text("mode", "DCR") == "CRD";
  SymShape split = columnRow ? SymShape{in[0], dim(depth), {block}, {block}, in[2], in[3]}
                             : SymShape{in[0], {block}, {block}, dim(depth), in[2], in[3]};
  Ints perm = columnRow ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2};
  Value turned = node.transpose(node.reshape(x, split), perm);
  node.setOutput(0, node.reshape(turned, llvm::ArrayRef<SymDim>{in[0], dim(depth), dim(h.times(b)), dim(w.times(b))}));
}

constexpr OpRow kRows[] = {
    {"Transpose", 1, kNewestOpset, convertTranspose},
    {"Concat", 1, kNewestOpset, convertConcat},
    {"Split", 2, kNewestOpset, convertSplit, "", "sizes that are constant or follow from shapes"},
    {"Slice", 1, kNewestOpset, convertSlice, "", "limits that follow from shapes"},
    {"CenterCropPad", 18, kNewestOpset, convertCenterCropPad, "", "a constant shape"},
    {"Pad", 1, kNewestOpset, convertPad, "", "pads that are constant or follow from shapes"},
    {"Gather", 1, kNewestOpset, convertGather},
    {"DepthToSpace", 1, kNewestOpset, convertDepthSpace},
    {"SpaceToDepth", 1, kNewestOpset, convertDepthSpace},
};

}  // namespace

llvm::ArrayRef<OpRow> movementRows() {
  return kRows;
}

}  // namespace hpu::importer
