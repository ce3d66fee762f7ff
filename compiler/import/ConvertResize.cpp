// SPDX-License-Identifier: Apache-2.0
// ONNX Resize and Upsample. The one thing to know: what hpu.resize does not do (cubic, antialiased, cropped, other
// dimensions than the last two) is a sum of a few elements along each dimension, at positions that are known here.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/ResizeCoordinates.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/AxisTerms.h"

namespace hpu::importer {
namespace {

using base::strCat;
using interp::Tensor;
using ir::SymDim;
using ir::SymShape;
using mlir::ShapedType;
using shape::DimExpr;

struct ResizeSpec {
  std::vector<double> scales;  ///< One a dimension.
  Shape sizes;                 ///< One a dimension; kDynamic where the input's stays.
  /// Dimensions that are resized to or from a size that is free, with the sizes they get; their scale is 1.
  std::vector<std::pair<int64_t, SymDim>> free;
};

/// All of `axes` by one scale: the largest with which none exceeds its size, or the smallest with which all reach it.
bool scaleAlike(NodeContext& node, const ShapeElements& sizes, const Ints& axes, bool notLarger, ResizeSpec& spec) {
  const Shape from = spec.sizes;
  float scale = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const std::optional<DimExpr>& size = sizes.values[i];
    std::optional<int64_t> wanted = size ? size->constant() : std::nullopt;
    if (!wanted || ShapedType::isDynamic(from[axes[i]]))
      return node.needsSize(strCat("dimension ", axes[i], ", which it resizes")), false;
    if (*wanted < 1) return node.invalid(strCat("resizes dimension ", axes[i], " to ", *wanted)), false;
    const float own = static_cast<float>(*wanted) / static_cast<float>(from[axes[i]]);
    scale = i == 0 ? own : notLarger ? std::min(scale, own) : std::max(scale, own);
  }
  for (int64_t d : axes) {
    const float size = std::round(scale * static_cast<float>(from[d]));
    if (!(size >= 1 && size <= 0x1p40f))
      return node.invalid(strCat("scales dimension ", d, " of ", from[d], " by ", scale,
                                 ", which gives no size that a tensor can have")),
             false;
    spec.scales[d] = scale;
    spec.sizes[d] = static_cast<int64_t>(size);
  }
  return true;
}

/// Scales and sizes of all dimensions from whichever of them the node gives.
std::optional<ResizeSpec> readResize(NodeContext& node, Value x, size_t scalesInput, size_t sizesInput) {
  int64_t rank = node.rank(x);
  llvm::ArrayRef<int64_t> shape = node.typeOf(x).getShape();
  ResizeSpec spec{std::vector<double>(rank, 1.0), Shape(shape.begin(), shape.end())};
  Ints axes;
  if (node.opset() >= 18) axes = node.integers("axes");
  if (axes.empty())
    for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
  std::optional<Ints> normal = node.axes(axes, rank);
  if (!normal) return std::nullopt;
  std::vector<double> scales;
  if (node.opset() < 9 && node.def().op == "Upsample") {
    scales = node.numbers("scales");
  } else if (const Tensor* given = node.constant(scalesInput); given && given->count()) {
    for (int64_t i = 0; i < given->count(); ++i) scales.push_back(given->number(i));
  }
  if (!scales.empty()) {
    if (scales.size() != normal->size()) return node.invalid("needs one scale for each dimension"), std::nullopt;
    for (size_t i = 0; i < scales.size(); ++i) {
      int64_t d = (*normal)[i];
      spec.scales[d] = scales[i];
      if (scales[i] == 1.0) continue;
      if (!(scales[i] > 0)) return node.invalid(strCat("scales dimension ", d, " by ", scales[i])), std::nullopt;
      if (ShapedType::isDynamic(shape[d])) continue;
      std::optional<int64_t> size = ir::scaledSize(shape[d], scales[i]);
      if (!size || *size < 1)
        return node.invalid(strCat("scales dimension ", d, " of ", shape[d], " by ", scales[i],
                                   ", which gives no size that a tensor can have")),
               std::nullopt;
      spec.sizes[d] = *size;
    }
    return spec;
  }
  std::optional<ShapeElements> sizes = node.elements(sizesInput);
  if (!sizes || sizes->values.size() != normal->size()) {
    if (node.isSymbolic(scalesInput)) return node.needsSize("its scales depend on a free dimension"), std::nullopt;
    return node.unsupported("scales or sizes that are not known at import"), std::nullopt;
  }
  std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "not_larger" || policy == "not_smaller") {
    if (!scaleAlike(node, *sizes, *normal, policy == "not_larger", spec)) return std::nullopt;
    return spec;
  }
  if (policy != "stretch") return node.invalid("keep_aspect_ratio_policy '" + policy + "'"), std::nullopt;
  auto own = NodeContext::dims(node.typeOf(x));
  for (size_t i = 0; i < normal->size(); ++i) {
    int64_t d = (*normal)[i];
    const std::optional<DimExpr>& size = sizes->values[i];
    if (size && own[d] && *size == *own[d]) continue;
    std::optional<int64_t> constant = size ? size->constant() : std::nullopt;
    // So many times what it is, whatever that is.
    const auto times = size && own[d] && ShapedType::isDynamic(shape[d]) ? size->dividedBy(*own[d]) : std::nullopt;
    if (const auto number = times ? times->constant() : std::nullopt; number && *number >= 1) {
      spec.scales[d] = static_cast<double>(*number);
      continue;
    }
    if (size && own[d] && (!constant || ShapedType::isDynamic(shape[d]))) {
      spec.free.emplace_back(d, node.symDim(size));
      continue;
    }
    if (!constant || ShapedType::isDynamic(shape[d]))
      return node.needsSize(strCat("dimension ", d, ", which it resizes")), std::nullopt;
    if (*constant < 1) return node.invalid(strCat("resizes dimension ", d, " to ", *constant)), std::nullopt;
    spec.sizes[d] = *constant;
    spec.scales[d] = static_cast<float>(*constant) / static_cast<float>(shape[d]);
  }
  return spec;
}

/// Of the last two dimensions, of two to four; `nearest` of each.
void resize(NodeContext& node, Value x, const ResizeSpec& spec, ir::ResizeMode mode, ir::CoordMode coordinates,
            const std::array<ir::NearestMode, 2>& nearest) {
  int64_t rank = node.rank(x);
  // As an image: rank 3 is [N, C, L] or [C, H, W], which differ in nothing here.
  SymShape image = ir::symShape(node.typeOf(x));
  image.insert(image.begin(), 4 - rank, SymDim{1});
  Ints sizes = {spec.sizes[rank - 2], spec.sizes[rank - 1]};
  double scales[2] = {spec.scales[rank - 2], spec.scales[rank - 1]};
  std::array<mlir::StringAttr, 2> names;
  for (const auto& [d, size] : spec.free) {  // The quotient of both.
    if (size.isFree() && !size.isNamed()) return node.needsSize(strCat("dimension ", d, ", which it resizes"));
    const auto along = static_cast<size_t>(d + 2 - rank);
    scales[along] = 0;
    sizes[along] = size.size;
    names[along] = size.symbol;
  }
  auto* context = node.context();
  auto resized = [&](Value from, const Ints& to, llvm::ArrayRef<double> by, ir::NearestMode rounding) {
    llvm::SmallVector<mlir::Attribute> named;
    for (size_t i = 0; i < names.size(); ++i)
      named.push_back(by[i] == 0 && names[i] ? names[i] : node.builder().getStringAttr(""));
    const bool isNamed = (by[0] == 0 && names[0]) || (by[1] == 0 && names[1]);
    return node.op("resize", from,
                   {{"sizes", to},
                    {"scales", by},
                    {"mode", ir::ResizeModeAttr::get(context, mode)},
                    {"coordinates", ir::CoordModeAttr::get(context, coordinates)},
                    {"nearest", ir::NearestModeAttr::get(context, rounding)},
                    {"symbols", isNamed ? node.builder().getArrayAttr(named) : mlir::Attribute()}});
  };
  Value result = node.reshape(x, image);
  int64_t rows = node.typeOf(x).getDimSize(rank - 2);
  if (nearest[0] == nearest[1]) {
    result = resized(result, sizes, scales, nearest[0]);
  } else {  // Rounded otherwise, so one after the other.
    result = resized(result, {rows, sizes[1]}, {1.0, scales[1]}, nearest[1]);
    result = resized(result, sizes, {scales[0], 1.0}, nearest[0]);
  }
  if (!result) return;
  SymShape out = ir::symShape(node.typeOf(result));
  out.erase(out.begin(), out.begin() + (4 - rank));
  node.setOutput(0, node.reshape(result, out));
}

// ---- by terms --------------------------------------------------------------------------------------

/// What hpu.resize does not know of.
struct TermSpec {
  std::string mode, coordinates;
  ir::NearestMode nearest = ir::NearestMode::round_prefer_floor;
  double cubicA = -0.75, extrapolation = 0;
  bool excludesOutside = false, isAntialiased = false;
  std::vector<double> roi;  ///< Of tf_crop_and_resize: a start and, behind all of these, an end of each dimension.
};

/// Along one dimension. In f32, as ir::ResizeDim.
struct TermDim {
  int64_t in = 1, out = 1;
  float scale = 1, start = 0, end = 1;
};

float coordinateOf(const TermSpec& spec, const TermDim& d, int64_t position) {
  const auto x = static_cast<float>(position);
  if (spec.coordinates == "tf_half_pixel_for_nn") return (x + 0.5f) / d.scale;
  if (spec.coordinates == "tf_crop_and_resize") {
    const auto last = static_cast<float>(d.in - 1);
    if (d.out == 1) return 0.5f * (d.start + d.end) * last;
    return d.start * last + x * (d.end - d.start) * last / static_cast<float>(d.out - 1);
  }
  const ir::ResizeDim dim{*ir::symbolizeCoordMode(spec.coordinates), d.in, d.out, static_cast<double>(d.scale)};
  return dim.coordinate(position);
}

double cubicWeight(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// The elements that one of the result is made of, with what each counts.
std::vector<std::pair<int64_t, double>> tapsAt(const TermSpec& spec, const TermDim& d, float coordinate) {
  if (spec.mode == "nearest") return {{ir::nearestElement(spec.nearest, coordinate, d.in), 1.0}};
  const bool isCubic = spec.mode == "cubic";
  // An antialiased kernel is as much wider as the result is smaller.
  const double scale = spec.isAntialiased ? std::min<double>(d.scale, 1) : 1, reach = (isCubic ? 2 : 1) / scale;
  const double at = static_cast<double>(coordinate), low = std::floor(at);
  const auto first = static_cast<int64_t>(std::floor(-reach) + 1);
  std::vector<std::pair<int64_t, double>> taps;
  double total = 0;
  for (int64_t k = first; k <= 1 - first; ++k) {
    const double distance = scale * (low + static_cast<double>(k) - at);
    double weight = isCubic ? cubicWeight(distance, spec.cubicA) : std::max(0.0, 1 - std::abs(distance));
    int64_t position = static_cast<int64_t>(low) + k;
    if (position < 0 || position >= d.in) {
      if (spec.excludesOutside) weight = 0;
      position = std::clamp<int64_t>(position, 0, d.in - 1);
    }
    taps.emplace_back(position, weight);
    total += weight;
  }
  if (spec.excludesOutside || spec.isAntialiased)
    for (auto& tap : taps) tap.second = total == 0 ? 0 : tap.second / total;
  return taps;
}

/// With `outside` the elements of the result that lie outside of the operand.
compose::AxisTerms termsOf(const TermSpec& spec, const TermDim& d, std::vector<uint8_t>& outside) {
  compose::AxisTerms terms{d.in, {}, {}};
  outside.assign(static_cast<size_t>(d.out), 0);
  for (int64_t o = 0; o < d.out; ++o) {
    const float coordinate = coordinateOf(spec, d, o);
    if (spec.coordinates == "tf_crop_and_resize" && (coordinate < 0 || coordinate > static_cast<float>(d.in - 1)))
      outside[static_cast<size_t>(o)] = 1;
    const auto taps = tapsAt(spec, d, coordinate);
    while (terms.positions.size() < taps.size()) {
      terms.positions.emplace_back(static_cast<size_t>(d.out), 0);
      terms.weights.emplace_back(static_cast<size_t>(d.out), 0.0f);
    }
    for (size_t t = 0; t < taps.size(); ++t) {
      terms.positions[t][static_cast<size_t>(o)] = taps[t].first;
      terms.weights[t][static_cast<size_t>(o)] = static_cast<float>(taps[t].second);
    }
  }
  if (spec.mode == "nearest") terms.weights.clear();
  return terms;
}

void resizeByTerms(NodeContext& node, Value x, const ResizeSpec& sizes, const TermSpec& spec) {
  if (!sizes.free.empty()) return node.needsSize("a dimension that it resizes");
  std::vector<std::pair<int64_t, TermDim>> dims;
  const auto rank = static_cast<size_t>(node.rank(x));
  const bool crops = spec.coordinates == "tf_crop_and_resize";
  for (size_t d = 0; d < rank; ++d) {
    TermDim dim{node.typeOf(x).getDimSize(static_cast<unsigned>(d)), sizes.sizes[d],
                static_cast<float>(sizes.scales[d])};
    if (crops && !spec.roi.empty()) {
      dim.start = static_cast<float>(spec.roi[d]);
      dim.end = static_cast<float>(spec.roi[rank + d]);
    }
    if (dim.scale == 1 && dim.in == dim.out && !(crops && (dim.start != 0 || dim.end != 1))) continue;
    if (ShapedType::isDynamic(dim.in) || ShapedType::isDynamic(dim.out))
      return node.needsSize(strCat("dimension ", d, ", which it resizes"));
    if (dim.out > compose::kMostTerms)
      return node.unsupported(strCat("resizing to more than ", compose::kMostTerms, " elements along a dimension"));
    dims.emplace_back(static_cast<int64_t>(d), dim);
  }
  composed(node, {x}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) -> std::vector<hpu::Value> {
    const ElementType type = e.element(in[0]);
    hpu::Value result = spec.mode == "nearest" ? in[0] : e.toF32(in[0]), isOutside;
    for (const auto& [d, dim] : dims) {
      std::vector<uint8_t> outside;
      result = compose::gatherTerms(e, result, d, termsOf(spec, dim, outside));
      if (!std::count(outside.begin(), outside.end(), 1)) continue;
      Shape along(rank, 1);
      along[static_cast<size_t>(d)] = dim.out;
      hpu::Value here = e.constant({ElementType::kBool, along}, outside.data(), outside.size());
      isOutside = isOutside.handle ? e.op("or", {isOutside, here}) : here;
    }
    if (isOutside.handle) result = e.where(isOutside, e.scalarLike(result, spec.extrapolation), result);
    // Between integers: towards zero, as a cast has it.
    return {e.cast(result, type)};
  });
}

void convertResize(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  const bool upsample = node.def().op == "Upsample", old = upsample || node.opset() < 11;
  TermSpec terms;
  terms.mode = node.text("mode", "nearest");
  if (terms.mode == "bilinear") terms.mode = "linear";
  if (terms.mode != "nearest" && terms.mode != "linear" && terms.mode != "cubic")
    return node.invalid("unknown mode '" + terms.mode + "'");
  terms.coordinates = old ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel");
  const std::optional<ir::CoordMode> coordinates = ir::symbolizeCoordMode(terms.coordinates);
  const bool crops = terms.coordinates == "tf_crop_and_resize";
  if (!coordinates && !crops && terms.coordinates != "tf_half_pixel_for_nn")
    return node.unsupported("coordinate_transformation_mode '" + terms.coordinates + "'");
  const std::string nearestName = old ? "floor" : node.text("nearest_mode", "round_prefer_floor");
  const std::optional<ir::NearestMode> nearest = ir::symbolizeNearestMode(nearestName);
  if (!nearest) return node.invalid("nearest_mode '" + nearestName + "'");
  terms.nearest = *nearest;
  terms.cubicA = node.number("cubic_coeff_a", -0.75);
  terms.extrapolation = node.number("extrapolation_value", 0);
  terms.excludesOutside = node.integer("exclude_outside", 0) != 0 && terms.mode == "cubic";
  terms.isAntialiased = node.integer("antialias", 0) != 0 && terms.mode != "nearest";
  const std::optional<ResizeSpec> spec = readResize(node, x, old ? 1 : 2, 3);
  if (!spec) return;
  const auto rank = static_cast<size_t>(node.rank(x));
  if (crops) {
    const Tensor* roi = node.constant(1);
    if (!roi) return node.unsupported("a roi that is not known at import");
    Ints axes = node.opset() >= 18 ? node.integers("axes") : Ints();
    if (axes.empty())
      for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
    const std::optional<Ints> normal = node.axes(axes, node.rank(x));
    if (!normal) return;
    const auto count = static_cast<int64_t>(normal->size());
    if (roi->count() != 2 * count)
      return node.invalid(strCat("its roi has ", roi->count(), " numbers, needs ", 2 * count));
    terms.roi.assign(2 * rank, 0);
    for (size_t d = 0; d < rank; ++d) terms.roi[rank + d] = 1;
    for (int64_t i = 0; i < count; ++i) {
      terms.roi[static_cast<size_t>((*normal)[i])] = roi->number(i);
      terms.roi[rank + static_cast<size_t>((*normal)[i])] = roi->number(count + i);
    }
  }
  bool isPlain = coordinates && terms.mode != "cubic" && !terms.isAntialiased && rank >= 2 && rank <= 4;
  for (size_t d = 0; d + 2 < rank; ++d) isPlain = isPlain && spec->scales[d] == 1.0;
  for (const auto& [d, size] : spec->free) isPlain = isPlain && static_cast<size_t>(d) + 2 >= rank;
  if (!isPlain) return resizeByTerms(node, x, *spec, terms);
  std::array<ir::NearestMode, 2> rounding = {*nearest, *nearest};
  // Opset 10 leaves it open; its own example, and runtimes, take the next element where elements are left out.
  for (size_t i = 0; i < 2 && old; ++i)
    if (spec->scales[rank - 2 + i] < 1) rounding[i] = ir::NearestMode::ceil;
  resize(node, x, *spec, terms.mode == "nearest" ? ir::ResizeMode::nearest : ir::ResizeMode::linear, *coordinates,
         rounding);
}

constexpr OpRow kRows[] = {
    {"Resize", 10, kNewestOpset, convertResize, "",
     "to at most 4,194,304 elements along a dimension; cubic, antialiased, cropped and other dimensions than the last "
     "two: "
     "of sizes that are known, to at most 65,536"},
    {"Upsample", 7, 9, convertResize, "", "as Resize"},
};

}  // namespace

llvm::ArrayRef<OpRow> resizeRows() {
  return kRows;
}

}  // namespace hpu::importer
