// SPDX-License-Identifier: Apache-2.0
// Ops with windows: convolutions and pooling of tosa and of linalg's names, and tosa's resizing.
#include <cmath>

#include "base/Format.h"
#include "compiler/mlir_import/MlirNode.h"
#include "compose/AxisTerms.h"
#include "compose/Convolutions.h"

namespace hpu::importer {
namespace {

using base::strCat;
using mlir::ShapedType;

constexpr int64_t kToChannelsFirst[] = {0, 3, 1, 2}, kToChannelsLast[] = {0, 2, 3, 1};

/// An operand of integers less its zero point, in f32; floats stay as they are.
Value centred(MlirNode& n, size_t operand, size_t zeroPoint) {
  Value v = n.in(operand);
  if (!v || n.isFloat(v)) return v;
  if (n.elementOf(v).getIntOrFloatBitWidth() > 8)
    return n.unsupported("products of integers of more than 8 bits"), Value();
  Value wide = n.cast(v, n.f32());
  const double zero = n.numOperands() > zeroPoint ? n.number(zeroPoint) : 0;
  return zero == 0 ? wide : n.op("sub", {wide, n.scalarLike(wide, zero)});
}

/// Pads of tosa (top, bottom, left, right) as ours.
Ints padsOf(const Ints& pad) {
  return {pad[0], pad[2], pad[1], pad[3]};
}

Value conv(MlirNode& n, Value x, Value w, const Ints& strides, const Ints& dilations, const Ints& pads, int64_t groups,
           bool isExact) {
  if (!x || !w) return {};
  if (isExact)
    return n.exactConv2d(
        x, w, 255.0 * 255.0,
        {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"groups", groups}, {"exact", true}},
        groups != 1);
  return n.op("conv2d", {x, w}, {{"strides", strides}, {"dilations", dilations}, {"pads", pads}, {"groups", groups}});
}

/// The sum with a bias along the last dim, in the result's type.
void finish(MlirNode& n, Value y, size_t bias) {
  Value b = n.in(bias);
  if (!y || !b) return;
  n.set(0, n.op("add", {n.cast(y, n.resultElement()), n.cast(b, n.resultElement())}));
}

void conv2d(MlirNode& n) {
  const bool isExact = !n.isFloat(mlir::getElementTypeOrSelf(n.source().getOperand(0).getType()));
  Value x = n.transpose(centred(n, 0, 3), kToChannelsFirst), w = n.transpose(centred(n, 1, 4), kToChannelsFirst);
  Value y = conv(n, x, w, n.ints("stride"), n.ints("dilation"), padsOf(n.ints("pad")), 1, isExact);
  finish(n, n.transpose(y, kToChannelsLast), 2);
}

void depthwise(MlirNode& n) {
  const bool isExact = !n.isFloat(mlir::getElementTypeOrSelf(n.source().getOperand(0).getType()));
  Value x = n.transpose(centred(n, 0, 3), kToChannelsFirst), w = centred(n, 1, 4);
  if (!x || !w) return;
  if (!n.typeOf(w).hasStaticShape()) return n.node().needsSize("the weights of a depthwise convolution");
  // [KH, KW, C, M] to [C * M, 1, KH, KW].
  const auto sizes = n.typeOf(w).getShape();
  w = n.transpose(w, {2, 3, 0, 1});
  w = n.reshape(w, {{sizes[2] * sizes[3]}, {1}, {sizes[0]}, {sizes[1]}});
  Value y = conv(n, x, w, n.ints("stride"), n.ints("dilation"), padsOf(n.ints("pad")), sizes[2], isExact);
  finish(n, n.transpose(y, kToChannelsLast), 2);
}

void transposeConv2d(MlirNode& n) {
  const bool isExact = !n.isFloat(mlir::getElementTypeOrSelf(n.source().getOperand(0).getType()));
  // [OC, KH, KW, IC] to [IC, OC, KH, KW].
  Value x = n.transpose(centred(n, 0, 3), kToChannelsFirst), w = n.transpose(centred(n, 1, 4), {3, 0, 1, 2});
  if (!x || !w) return;
  if (isExact) {
    const auto sizes = n.typeOf(w).getShape();
    if (!n.typeOf(w).hasStaticShape() || sizes[0] * sizes[2] * sizes[3] > 258)
      return n.unsupported("a transposed convolution of integers whose sums are too large for f32");
  }
  const Ints pads = n.ints("out_pad");
  Value y = n.op("conv_transpose2d", {x, w},
                 {{"strides", n.ints("stride")},
                  {"dilations", Ints{1, 1}},
                  {"pads", Ints{0, 0, 0, 0}},
                  {"output_padding", Ints{0, 0}},
                  {"groups", 1}});
  // What is to be added around the result, or cut off.
  Ints low{0, 0, pads[0], pads[2]}, high{0, 0, pads[1], pads[3]};
  Ints more, after;
  bool cuts = false, adds = false;
  for (int d = 0; d < 4; ++d) {
    more.push_back(std::max<int64_t>(low[d], 0)), after.push_back(std::max<int64_t>(high[d], 0));
    adds |= more.back() > 0 || after.back() > 0;
    cuts |= low[d] < 0 || high[d] < 0;
  }
  if (adds) y = n.op("pad", y, {{"low", more}, {"high", after}, {"value", 0.0}});
  if (cuts && y) {
    for (int64_t d = 2; d < 4; ++d) {
      const int64_t size = n.typeOf(y).getDimSize(d);
      if (ShapedType::isDynamic(size)) return n.node().needsSize("the size of an image that is cut");
      y = n.node().sliceDim(y, d, std::max<int64_t>(-low[d], 0), size - std::max<int64_t>(-high[d], 0));
      if (!y) return;
    }
  }
  finish(n, n.transpose(y, kToChannelsLast), 2);
}

/// NDHWC with weights [OC, KD, KH, KW, IC].
Value convVolume(MlirNode& n, Value x, Value w, const Ints& strides, const Ints& dilations, const Ints& before,
                 const Ints& after) {
  return n.compose({x, w}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    hpu::Value weights = e.transpose(in[1], {1, 2, 3, 4, 0});
    compose::ConvWindow window;
    Shape y{e.dim(in[0], 0)};
    for (size_t d = 0; d < 3; ++d) {
      window.kernel[d] = e.dim(weights, static_cast<int64_t>(d));
      window.stride[d] = strides[d], window.dilation[d] = dilations[d];
      window.before[d] = before[d], window.after[d] = after[d];
      y.push_back((e.dim(in[0], static_cast<int64_t>(d) + 1) + before[d] + after[d] - window.span(d)) / strides[d] + 1);
    }
    y.push_back(e.dim(weights, 4));
    return compose::convolve(e, in[0], weights, window, y);
  });
}

void conv3d(MlirNode& n) {
  Value x = n.in(0), w = n.in(1);
  if (!x || !w) return;
  if (!n.isFloat(x)) return n.unsupported("integers");
  const Ints pad = n.ints("pad");
  finish(n,
         convVolume(n, x, w, n.ints("stride"), n.ints("dilation"), {pad[0], pad[2], pad[4]}, {pad[1], pad[3], pad[5]}),
         2);
}

void maxPool(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  if (n.isFloat(x) && n.keyword("nan_mode") == "IGNORE")
    x = n.op("where", {n.op("is_nan", x), n.scalarLike(x, -INFINITY), x});
  const mlir::Type element = n.elementOf(x);
  Value y = n.op("max_pool2d", n.transpose(n.isFloat(x) ? x : n.cast(x, n.f32()), kToChannelsFirst),
                 {{"kernel", n.ints("kernel")},
                  {"strides", n.ints("stride")},
                  {"dilations", Ints{1, 1}},
                  {"pads", padsOf(n.ints("pad"))}});
  n.set(0, n.cast(n.transpose(y, kToChannelsLast), element));
}

void avgPool(MlirNode& n) {
  Value x = n.in(0);
  if (!x) return;
  if (!n.isFloat(x)) return n.unsupported("averages of integers");
  Value y = n.op("avg_pool2d", n.transpose(x, kToChannelsFirst),
                 {{"kernel", n.ints("kernel")},
                  {"strides", n.ints("stride")},
                  {"dilations", Ints{1, 1}},
                  {"pads", padsOf(n.ints("pad"))}});
  n.set(0, n.transpose(y, kToChannelsLast));
}

// ---- resizing ------------------------------------------------------------------------------------

int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// Along one dim: which elements each of the result is made of. Of integers the weights are integers, too.
compose::AxisTerms axisTerms(int64_t size, int64_t out, int64_t scale, int64_t step, int64_t offset, bool isNearest,
                             bool isInteger) {
  compose::AxisTerms terms;
  terms.size = size;
  terms.positions.resize(isNearest ? 1 : 2);
  if (!isNearest) terms.weights.resize(2);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t at = o * step + offset, whole = floorDiv(at, scale), rest = at - whole * scale;
    auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, size - 1); };
    if (isNearest) {
      terms.positions[0].push_back(inside(2 * rest >= scale ? whole + 1 : whole));
      continue;
    }
    const float unit = isInteger ? 1.0F : static_cast<float>(scale);
    terms.positions[0].push_back(inside(whole)), terms.positions[1].push_back(inside(whole + 1));
    terms.weights[0].push_back(static_cast<float>(scale - rest) / unit);
    terms.weights[1].push_back(static_cast<float>(rest) / unit);
  }
  return terms;
}

void resize(MlirNode& n) {
  Value x = n.in(0);
  std::optional<Ints> scale = n.numbers(n.source().getOperand(1)), offset = n.numbers(n.source().getOperand(2)),
                      border = n.numbers(n.source().getOperand(3));
  if (!x || !scale || !offset || !border) return;
  const bool isNearest = n.keyword("mode") != "BILINEAR", isInteger = !n.isFloat(x);
  if (isInteger && n.elementOf(x).getIntOrFloatBitWidth() > 8 && !isNearest)
    return n.unsupported("interpolation between integers of more than 8 bits");
  Value wide = isNearest ? x : n.cast(x, n.f32());
  Value y = n.compose({wide}, [&](compose::Emitter& e, const std::vector<hpu::Value>& in) {
    hpu::Value v = in[0];
    for (int64_t d = 0; d < 2; ++d) {
      // All of them are far from the ends of their range, whatever the file says.
      for (int64_t number : {(*scale)[2 * d], (*scale)[2 * d + 1], (*offset)[d], (*border)[d]})
        if (std::abs(number) > compose::kMostTerms) return e.fail("a scale, offset or border that is too large");
      const int64_t size = e.dim(v, d + 1), up = (*scale)[2 * d], down = (*scale)[2 * d + 1];
      if (up < 1 || down < 1) return e.fail("a scale below 1");
      const int64_t out = ((size - 1) * up - (*offset)[d] + (*border)[d]) / down + 1;
      if (out < 1 || out > compose::kMostTerms) return e.fail("a result that is too large");
      v = compose::gatherTerms(e, v, d + 1, axisTerms(size, out, up, down, (*offset)[d], isNearest, isInteger));
    }
    return v;
  });
  n.set(0, n.cast(y, n.resultElement()));
}

// ---- linalg's named ones -------------------------------------------------------------------------

/// What an op's name says of its operands: letters of n, c (channels), w/h/d (space), and f, m of the weights.
struct Names {
  std::string input, weights;
};

/// The place of each letter of `to` in `from`.
Ints order(llvm::StringRef from, llvm::StringRef to) {
  Ints perm;
  for (char c : to) perm.push_back(static_cast<int64_t>(from.find(c)));
  return perm;
}

/// The result plus what it is accumulated to.
void accumulate(MlirNode& n, Value y, llvm::StringRef mnemonic = "add", double neutral = 0) {
  const size_t last = n.numOperands() - 1;
  const std::optional<double> start = n.splat(n.source().getOperand(last));
  if (!y) return;
  y = n.cast(y, n.resultElement());
  if (start && *start == neutral) return n.set(0, y);
  n.set(0, n.op(mnemonic, {n.in(last), y}));
}

void namedConv(MlirNode& n) {
  // linalg.[depthwise_]conv_2d_nhwc_hwcf[_q]
  llvm::StringRef name = n.source().getName().stripDialect();
  if (name.ends_with("_q")) return n.unsupported("zero points");
  const bool isDepthwise = name.consume_front("depthwise_");
  llvm::SmallVector<llvm::StringRef> parts;
  name.split(parts, '_');
  if (parts.size() < 4) return n.unsupported("a convolution without a batch");
  llvm::StringRef in = parts[2], filter = parts[3];
  Value x = n.in(0), w = n.in(1);
  if (!x || !w) return;
  const bool isExact = !n.isFloat(x);
  if (isExact && n.elementOf(x).getIntOrFloatBitWidth() > 8)
    return n.unsupported("products of integers of more than 8 bits");
  const mlir::Type wide = isExact ? n.f32() : n.resultElement();
  x = n.cast(x, wide), w = n.cast(w, wide);
  Ints strides = n.ints("strides", Ints(in.size() - 2, 1)), dilations = n.ints("dilations", Ints(in.size() - 2, 1));
  if (in.size() == 5) {
    if (isExact || isDepthwise) return n.unsupported("three dimensions of integers, or depthwise");
    x = n.transpose(x, order(in, "ndhwc")), w = n.transpose(w, order(filter, "fdhwc"));
    Value y = convVolume(n, x, w, strides, dilations, {0, 0, 0}, {0, 0, 0});
    return accumulate(n, n.transpose(y, order("ndhwc", in)));
  }
  const bool isFlat = in.size() == 3;
  const llvm::StringRef first = isFlat ? "ncw" : "nchw";
  x = n.transpose(x, order(in, first));
  if (!x || !w) return;
  const bool multiplies = isDepthwise && filter.contains('m');
  const bool hasLeadingChannels = isDepthwise && in[1] == 'c';
  llvm::StringRef to =
      isDepthwise ? (multiplies ? (isFlat ? "cmw" : "cmhw") : (isFlat ? "cw" : "chw")) : (isFlat ? "fcw" : "fchw");
  std::string letters = filter.str();
  if (letters.size() != to.size() || letters.find_first_not_of("fchwm") != std::string::npos)
    return n.unsupported("this order of dimensions");
  w = n.transpose(w, order(letters, to));
  if (!w) return;
  ir::SymShape image = n.shape(x), filters = n.shape(w);
  int64_t groups = 1, multiplier = 1;
  if (isDepthwise) {
    if (!n.typeOf(w).hasStaticShape()) return n.node().needsSize("the weights of a depthwise convolution");
    groups = filters[0].size;
    if (multiplies) multiplier = filters[1].size, filters.erase(filters.begin() + 1);
    filters[0].size *= multiplier;
    filters.insert(filters.begin() + 1, ir::SymDim{1});
  }
  if (isFlat) {
    image.insert(image.begin() + 2, ir::SymDim{1}), filters.insert(filters.begin() + 2, ir::SymDim{1});
    strides.insert(strides.begin(), 1), dilations.insert(dilations.begin(), 1);
  }
  Value y = conv(n, n.reshape(x, image), n.reshape(w, filters), strides, dilations, {0, 0, 0, 0}, groups, isExact);
  if (!y) return;
  ir::SymShape shape = n.shape(y);
  if (isFlat) shape.erase(shape.begin() + 2);
  std::string have = first.str(), want = in.str();
  if (multiplies) {
    // The result has a dim of its own for the multiples.
    shape[1] = ir::SymDim{groups};
    shape.insert(shape.begin() + 2, ir::SymDim{multiplier});
    have.insert(2, "m");
    want = hasLeadingChannels ? have : want + "m";
  }
  accumulate(n, n.transpose(n.reshape(y, shape), order(have, want)));
}

void namedPool(MlirNode& n) {
  // linalg.pooling_nhwc_max[_unsigned]
  llvm::StringRef name = n.source().getName().stripDialect();
  llvm::SmallVector<llvm::StringRef> parts;
  name.split(parts, '_');
  llvm::StringRef in = parts[1], kind = parts[2];
  Value x = n.in(0);
  if (!x) return;
  if (parts.size() > 3 || in.size() == 5 || (!n.isFloat(x) && kind == "sum"))
    return n.unsupported("pooling of three dimensions, without a sign, or sums of integers");
  const mlir::Type element = n.elementOf(x);
  auto window = mlir::cast<RankedTensorType>(n.source().getOperand(1).getType());
  if (!window.hasStaticShape()) return n.node().needsSize("a window");
  const bool isFlat = in.size() == 3;
  const llvm::StringRef first = isFlat ? "ncw" : "nchw";
  Ints kernel(window.getShape()), strides = n.ints("strides", Ints(kernel.size(), 1)),
                                  dilations = n.ints("dilations", Ints(kernel.size(), 1));
  x = n.transpose(n.isFloat(x) ? x : n.cast(x, n.f32()), order(in, first));
  if (!x) return;
  ir::SymShape image = n.shape(x);
  if (isFlat) {
    image.insert(image.begin() + 2, ir::SymDim{1});
    for (Ints* list : {&kernel, &strides, &dilations}) list->insert(list->begin(), 1);
  }
  x = n.reshape(x, image);
  if (kind == "min") x = n.op("neg", x);
  Value y = n.op(kind == "sum" ? "avg_pool2d" : "max_pool2d", x,
                 {{"kernel", kernel}, {"strides", strides}, {"dilations", dilations}, {"pads", Ints{0, 0, 0, 0}}});
  if (kind == "min") y = n.op("neg", y);
  if (!y) return;
  if (kind == "sum") y = n.op("mul", {y, n.scalarLike(y, static_cast<double>(kernel[0] * kernel[1]))});
  if (!y) return;
  ir::SymShape shape = n.shape(y);
  if (isFlat) shape.erase(shape.begin() + 2);
  y = n.cast(n.transpose(n.reshape(y, shape), order(first, in)), element);
  if (kind == "sum") return accumulate(n, y);
  accumulate(n, y, kind, kind == "max" ? -INFINITY : INFINITY);
}

void softmax(MlirNode& n) {
  n.set(0, n.op("softmax", n.in(0), {{"axis", n.integer("dimension")}}));
}

constexpr ForeignRow kTosaRows[] = {
    {"tosa.avg_pool2d", avgPool, "", "floats"},
    {"tosa.conv2d", conv2d, "", "floats and i8"},
    {"tosa.conv3d", conv3d, "", "floats"},
    {"tosa.depthwise_conv2d", depthwise, "", "floats and i8"},
    {"tosa.max_pool2d", maxPool},
    {"tosa.resize", resize, "", "BILINEAR: floats and i8"},
    {"tosa.transpose_conv2d", transposeConv2d, "", "floats and i8"},
};

constexpr ForeignRow kLinalgRows[] = {
    {"linalg.conv_1d_ncw_fcw", namedConv},
    {"linalg.conv_1d_nwc_wcf", namedConv},
    {"linalg.conv_2d_nchw_fchw", namedConv},
    {"linalg.conv_2d_nhwc_fhwc", namedConv},
    {"linalg.conv_2d_nhwc_hwcf", namedConv},
    {"linalg.conv_3d_ndhwc_dhwcf", namedConv, "", "floats"},
    {"linalg.depthwise_conv_1d_ncw_cw", namedConv},
    {"linalg.depthwise_conv_1d_nwc_wc", namedConv},
    {"linalg.depthwise_conv_1d_nwc_wcm", namedConv},
    {"linalg.depthwise_conv_2d_nchw_chw", namedConv},
    {"linalg.depthwise_conv_2d_nhwc_hwc", namedConv},
    {"linalg.depthwise_conv_2d_nhwc_hwcm", namedConv},
    {"linalg.pooling_nchw_max", namedPool},
    {"linalg.pooling_nchw_sum", namedPool, "", "floats"},
    {"linalg.pooling_ncw_max", namedPool},
    {"linalg.pooling_ncw_sum", namedPool, "", "floats"},
    {"linalg.pooling_nhwc_max", namedPool},
    {"linalg.pooling_nhwc_min", namedPool},
    {"linalg.pooling_nhwc_sum", namedPool, "", "floats"},
    {"linalg.pooling_nwc_max", namedPool},
    {"linalg.pooling_nwc_min", namedPool},
    {"linalg.pooling_nwc_sum", namedPool, "", "floats"},
    {"linalg.softmax", softmax},
};

}  // namespace

llvm::ArrayRef<ForeignRow> tosaWindowRows() {
  return kTosaRows;
}

llvm::ArrayRef<ForeignRow> linalgWindowRows() {
  return kLinalgRows;
}

}  // namespace hpu::importer
