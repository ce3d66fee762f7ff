// SPDX-License-Identifier: Apache-2.0
// Signals: windows, Fourier transforms, mel filters, sequences of many lengths.
#include <cmath>
#include <numbers>

#include "base/Format.h"
#include "compiler/import/Composed.h"
#include "compiler/import/OpTable.h"
#include "compose/Fourier.h"
#include "compose/Indexing.h"

namespace hpu::importer {
namespace {

using base::strCat;
using compose::Emitter;
using interp::Tensor;
using Values = std::vector<hpu::Value>;

/// The element type that an attribute with a TensorProto data type names; null and a failure for others than numbers.
mlir::Type elementNamed(NodeContext& node, llvm::StringRef attribute, int64_t otherwise) {
  const int64_t number = node.integer(attribute, otherwise);
  const ElementType type = elementOfOnnxType(static_cast<int32_t>(number));
  if (type == ElementType::kInvalid || type == ElementType::kBool)
    return node.invalid(strCat("'", attribute.str(), "' is ", number, ", which is no numeric type")), mlir::Type();
  return ir::mlirElementType(node.context(), type);
}

// ---- windows -------------------------------------------------------------------------------------

/// first - second cos(2 pi n / N) + third cos(4 pi n / N), N of a periodic window the size and else one less.
struct Cosines {
  double first, second, third;
};

void convertWindow(NodeContext& node, const Cosines& of) {
  mlir::Type element = elementNamed(node, "output_datatype", 1);
  const bool isPeriodic = node.integer("periodic", 1) != 0;
  if (!element) return;
  if (const std::optional<Ints> known = node.constantInts(0)) {
    if (known->size() != 1 || (*known)[0] < 0 || (*known)[0] > (int64_t{1} << 28))
      return node.invalid("its size must be one number from 0 to 2^28");
    const int64_t size = (*known)[0];
    const auto period = static_cast<double>(isPeriodic ? size : std::max<int64_t>(size - 1, 1));
    std::vector<float> values;
    for (int64_t n = 0; n < size; ++n) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(n) / period;
      values.push_back(static_cast<float>(of.first - of.second * std::cos(angle) + of.third * std::cos(2 * angle)));
    }
    return node.setOutput(
        0, node.cast(node.constantTensor(Tensor::of<float>(ElementType::kF32, {size}, values)), element));
  }
  const std::optional<ShapeElements> elements = node.elements(0);
  if (!elements || elements->values.size() != 1 || !elements->values[0])
    return node.unsupported("a size that is not known at import");
  const mlir::Type f32 = mlir::Float32Type::get(node.context());
  Value size = node.reshape(node.cast(node.input(0), f32), llvm::ArrayRef<int64_t>{});
  if (!size) return;
  Value period =
      isPeriodic ? size : node.op("max", {node.op("sub", {size, node.scalarLike(size, 1)}), node.scalarLike(size, 1)});
  Value n = node.cast(node.range(ir::SymDim{0}, node.symDim(elements->values[0]), 1, ElementType::kI32), f32);
  Value turns = node.op("mul", {node.op("div", {n, period}), node.scalarLike(size, 2 * std::numbers::pi)});
  auto cosine = [&](double times, double factor) {
    return node.op(
        "mul", {node.op("cos", node.op("mul", {turns, node.scalarLike(size, times)})), node.scalarLike(size, factor)});
  };
  Value sum = node.op("sub", {node.scalarLike(size, of.first), cosine(1, of.second)});
  if (of.third != 0) sum = node.op("add", {sum, cosine(2, of.third)});
  node.setOutput(0, node.cast(sum, element));
}

void convertHann(NodeContext& node) {
  convertWindow(node, {0.5, 0.5, 0});
}
void convertHamming(NodeContext& node) {
  convertWindow(node, {25.0 / 46, 21.0 / 46, 0});
}
void convertBlackman(NodeContext& node) {
  convertWindow(node, {0.42, 0.5, 0.08});
}

// ---- Fourier transforms --------------------------------------------------------------------------

/// A length that an optional input gives; `otherwise` where it is not there. Null and a failure: not known.
std::optional<int64_t> lengthOf(NodeContext& node, size_t input, int64_t otherwise, const char* what) {
  if (!node.has(input)) return otherwise;
  const std::optional<Ints> known = node.constantInts(input);
  if (!known || known->size() != 1)
    return node.unsupported(strCat("a ", what, " that is not known at import")), std::nullopt;
  if ((*known)[0] < 1 || (*known)[0] > compose::kLongestTransform)
    return node.invalid(
               strCat("its ", what, " is ", (*known)[0], ", and 1 to ", compose::kLongestTransform, " can be had")),
           std::nullopt;
  return (*known)[0];
}

void convertDft(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  const int64_t rank = node.rank(x), parts = rank > 0 ? node.typeOf(x).getDimSize(rank - 1) : 0;
  if (!node.isFloat(x)) return node.invalid("its input must be floats");
  if (rank < 2 || (parts != 1 && parts != 2))
    return node.invalid("its input's last dimension must be 1 (real) or 2 (real and imaginary part)");
  int64_t asked = node.integer("axis", node.opset() >= 20 ? -2 : 1);
  if (node.has(2)) {
    const std::optional<Ints> known = node.constantInts(2);
    if (!known || known->size() != 1) return node.unsupported("an axis that is not known at import");
    asked = (*known)[0];
  }
  const std::optional<int64_t> axis = node.axis(asked, rank);
  if (!axis) return;
  if (*axis == rank - 1) return node.invalid("its axis is that of the real and imaginary parts");
  const std::optional<int64_t> length = lengthOf(node, 1, 0, "dft_length");
  const bool isInverse = node.integer("inverse", 0), isOneSided = node.integer("onesided", 0);
  if (!length) return;
  if (isOneSided && (parts == 2 || isInverse)) return node.unsupported("one side of a transform of complex numbers");
  composed(node, {x}, [&](Emitter& e, const Values& in) -> Values {
    const ElementType type = e.element(in[0]);
    // The axis at the end, each part by itself.
    hpu::Value moved = e.toF32(in[0]);
    std::vector<int64_t> perm;
    for (int64_t d = 0; d + 1 < rank; ++d)
      if (d != *axis) perm.push_back(d);
    perm.push_back(*axis);
    std::vector<int64_t> back(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
    auto part = [&](int64_t k) {
      return e.transpose(compose::removeDim(e, e.sliceDim(moved, rank - 1, k, 1), rank - 1), perm);
    };
    compose::Complex z{part(0), parts == 2 ? part(1) : hpu::Value{}};
    const int64_t n = *length > 0 ? *length : e.dim(z.real, -1);
    const int64_t bins = isOneSided ? n / 2 + 1 : n;
    z = compose::fourier(e, compose::fitted(e, z, n), bins, isInverse);
    std::vector<hpu::Value> both = {compose::insertDim(e, e.transpose(z.real, back), rank - 1),
                                    compose::insertDim(e, e.transpose(z.imaginary, back), rank - 1)};
    return {e.cast(e.concat(both, rank - 1), type)};
  });
}

void convertStft(NodeContext& node) {
  Value signal = node.input(0);
  if (!signal) return;
  const int64_t rank = node.rank(signal);
  const int64_t parts = rank == 3 ? node.typeOf(signal).getDimSize(2) : 1;
  if (!node.isFloat(signal)) return node.invalid("its signal must be floats");
  if (rank < 2 || rank > 3 || (parts != 1 && parts != 2))
    return node.invalid("its signal must be [batch, length], with 1 or 2 parts behind (real, or real and imaginary)");
  const std::optional<int64_t> step = lengthOf(node, 1, 0, "frame_step");
  int64_t window = 0;
  if (node.has(2)) {
    if (node.inputType(2).getRank() != 1) return node.invalid("its window must have rank 1");
    window = node.inputType(2).getDimSize(0);
    if (mlir::ShapedType::isDynamic(window)) return node.needsSize("the size of its window");
  }
  const std::optional<int64_t> length = lengthOf(node, 3, window, "frame_length");
  if (!step || !length) return;
  if (*step == 0) return node.invalid("frame_step is missing");
  if (*length == 0) return node.invalid("it has neither a window nor a frame_length");
  if (window > 0 && window != *length)
    return node.invalid(strCat("its window has ", window, " elements, and a frame ", *length));
  const bool isOneSided = node.integer("onesided", 1) != 0;
  if (isOneSided && parts == 2) return node.unsupported("one side of a transform of complex numbers");
  std::vector<Value> inputs = {signal};
  if (window > 0) inputs.push_back(node.input(2));
  composed(node, inputs, [&](Emitter& e, const Values& in) -> Values {
    const ElementType type = e.element(in[0]);
    hpu::Value x = e.reshape(e.toF32(in[0]), {e.dim(in[0], 0), e.dim(in[0], 1), parts});
    hpu::Value frames = compose::shortTimeFourier(e, x, in.size() > 1 ? e.toF32(in[1]) : hpu::Value{}, *length, *step,
                                                  isOneSided ? *length / 2 + 1 : *length);
    return {e.cast(frames, type)};
  });
}

// ---- mel filters ---------------------------------------------------------------------------------

void convertMelWeights(NodeContext& node) {
  double given[5];
  for (size_t i = 0; i < 5; ++i) {
    const std::optional<double> number = node.constantNumber(i);
    if (!number) return node.unsupported(strCat("input ", i, ", which is not known at import"));
    given[i] = *number;
  }
  mlir::Type element = elementNamed(node, "output_datatype", 1);
  const auto bands = static_cast<int64_t>(given[0]), length = static_cast<int64_t>(given[1]);
  if (!element) return;
  if (bands < 1 || bands > 1 << 16 || length < 1 || length > compose::kLongestTransform || !(given[2] > 0) ||
      !(given[3] >= 0) || !(given[4] >= given[3]))
    return node.invalid("its bands, length, rate and edges are no filter bank");
  // As the operator's definition has it: edges that are evenly spaced in mel, as bins of the transform.
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(given[3]), step = (mel(given[4]) - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (low + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / given[2])));
  }
  const int64_t bins = length / 2 + 1;
  std::vector<float> weights(static_cast<size_t>(bins * bands), 0.0f);
  auto set = [&](int64_t bin, int64_t band, double weight) {
    if (bin >= 0 && bin < bins) weights[static_cast<size_t>(bin * bands + band)] = static_cast<float>(weight);
  };
  for (int64_t b = 0; b < bands; ++b) {
    const int64_t lower = edges[static_cast<size_t>(b)], centre = edges[static_cast<size_t>(b) + 1],
                  upper = edges[static_cast<size_t>(b) + 2];
    if (lower == centre) set(centre, b, 1);
    for (int64_t j = lower; j <= centre && lower < centre; ++j)
      set(j, b, static_cast<double>(j - lower) / static_cast<double>(centre - lower));
    for (int64_t j = centre; j < upper; ++j)
      set(j, b, static_cast<double>(upper - j) / static_cast<double>(upper - centre));
  }
  node.setOutput(0,
                 node.cast(node.constantTensor(Tensor::of<float>(ElementType::kF32, {bins, bands}, weights)), element));
}

// ---- sequences -----------------------------------------------------------------------------------

/// The first sequence_lens[b] steps of each sequence the other way round; the rest stays.
void convertReverseSequence(NodeContext& node) {
  Value x = node.input(0), lengths = node.input(1);
  if (!x || !lengths) return;
  const int64_t rank = node.rank(x);
  const std::optional<int64_t> time = node.axis(node.integer("time_axis", 0), rank),
                               batch = node.axis(node.integer("batch_axis", 1), rank);
  if (!time || !batch) return;
  if (*time == *batch || *time > 1 || *batch > 1) return node.invalid("its axes must be 0 and 1, in any order");
  if (node.rank(lengths) == 1 && !node.sameSize(x, *batch, lengths, 0)) return;
  composed(node, {x, lengths}, [&](Emitter& e, const Values& in) -> Values {
    const Shape shape = e.shape(in[0]);
    if (e.shape(in[1]) != Shape{shape[static_cast<size_t>(*batch)]})
      return {e.fail("it needs one length for each sequence")};
    Shape column(2, 1);
    column[static_cast<size_t>(*batch)] = shape[static_cast<size_t>(*batch)];
    hpu::Value length = e.reshape(e.cast(in[1], ElementType::kI32), column);
    hpu::Value step = e.cast(compose::counter(e, shape[static_cast<size_t>(*time)], *time, 2), ElementType::kI32);
    hpu::Value from = e.where(e.op("less", {step, length}), e.sub(e.sub(length, step), 1), step);
    Shape wide(shape.size(), 1);
    wide[0] = shape[0];
    wide[1] = shape[1];
    return {e.op("gather_elements", {in[0], e.expand(e.reshape(from, wide), shape)}, {{"axis", *time}})};
  });
}

constexpr OpRow kRows[] = {
    {"HannWindow", 17, kNewestOpset, convertHann},
    {"HammingWindow", 17, kNewestOpset, convertHamming},
    {"BlackmanWindow", 17, kNewestOpset, convertBlackman},
    {"DFT", 17, kNewestOpset, convertDft, "", "a constant length and axis; one side of real numbers only"},
    {"STFT", 17, kNewestOpset, convertStft, "", "a constant step and length; one side of real numbers only"},
    {"MelWeightMatrix", 17, kNewestOpset, convertMelWeights, "", "constant operands"},
    {"ReverseSequence", 10, kNewestOpset, convertReverseSequence},
};

}  // namespace

llvm::ArrayRef<OpRow> signalRows() {
  return kRows;
}

}  // namespace hpu::importer
