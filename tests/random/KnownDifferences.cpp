// SPDX-License-Identifier: Apache-2.0
#include "tests/random/KnownDifferences.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/random/Broadcast.h"
#include "tests/random/Elements.h"
#include "tests/random/Truth.h"

namespace hpu::randomtest {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The limits of an integer type, as doubles: [low, beyond).
std::pair<double, double> range(ElementType type) {
  switch (type) {
    case ElementType::kI8:
      return {-0x1p7, 0x1p7};
    case ElementType::kU8:
      return {0, 0x1p8};
    case ElementType::kI16:
      return {-0x1p15, 0x1p15};
    case ElementType::kU16:
      return {0, 0x1p16};
    case ElementType::kI32:
      return {-0x1p31, 0x1p31};
    case ElementType::kU32:
      return {0, 0x1p32};
    case ElementType::kI64:
      return {-0x1p63, 0x1p63};
    case ElementType::kU64:
      return {0, 0x1p64};
    default:
      return {-kInfinity, kInfinity};
  }
}

bool isInteger(ElementType type) {
  return !isFloat(type) && type != ElementType::kBool;
}

bool isCastToInteger(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  bool isCast = node.op == "Cast" || node.op == "CastLike";
  // Shrink moves integers by a float, and casts back.
  return isCast ? isFloat(operands[0]->type.element) : node.op == "Shrink" && isInteger(operands[0]->type.element);
}

bool isOutOfRange(const Node& node, const std::vector<const HostTensor*>& operands, const HostTensor& result,
                  int64_t index) {
  if (!isInteger(result.type.element)) return false;
  double x = std::trunc(operands[0]->number(index));
  auto [low, beyond] = range(result.type.element);
  if (node.op == "Shrink") {
    const auto asFloat = static_cast<double>(static_cast<float>(x));
    return x != 0 && !(asFloat - 1 >= low && asFloat + 1 < beyond);
  }
  return !(x >= low && x < beyond);
}

int64_t integer(const Node& node, const std::string& name, int64_t otherwise) {
  for (const auto& [own, value] : node.attributes)
    if (auto* number = std::get_if<int64_t>(&value); number && own == name) return *number;
  return otherwise;
}

Ints integers(const Node& node, const std::string& name) {
  for (const auto& [own, value] : node.attributes)
    if (auto* numbers = std::get_if<Ints>(&value); numbers && own == name) return *numbers;
  return {};
}

/// Of a reduction: those of its attribute, or of its second operand.
Ints axesOf(const Node& node, const std::vector<const HostTensor*>& operands) {
  Ints axes = integers(node, "axes");
  for (int64_t k = 0; operands.size() > 1 && k < operands[1]->count(); ++k)
    axes.push_back(static_cast<int64_t>(operands[1]->number(k)));
  return axes;
}

std::string text(const Node& node, const std::string& name) {
  for (const auto& [own, value] : node.attributes)
    if (auto* string = std::get_if<std::string>(&value); string && own == name) return *string;
  return {};
}

bool hasNan(const HostTensor& tensor) {
  if (!isFloat(tensor.type.element)) return false;
  for (int64_t k = 0; k < tensor.count(); ++k)
    if (std::isnan(tensor.number(k))) return true;
  return false;
}

bool picksALargest(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  bool picks = node.op == "ArgMax" || node.op == "ArgMin" || node.op == "TopK" || node.op == "Hardmax";
  return picks && hasNan(*operands[0]);
}

/// Whether the row along the axis that the element comes from has a NaN.
bool isOfRowWithNan(const Node& node, const std::vector<const HostTensor*>& operands, const HostTensor& result,
                    int64_t index) {
  const Shape& shape = operands[0]->type.shape;
  auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = integer(node, "axis", node.op == "TopK" ? -1 : 0), inner = 1;
  if (axis < 0) axis += rank;
  for (int64_t d = axis + 1; d < rank; ++d) inner *= shape[static_cast<size_t>(d)];
  if (node.op == "Hardmax") return true;  // What a row is depends on the opset.
  int64_t size = shape[static_cast<size_t>(axis)], outer = index / inner;
  for (int64_t k = 0; k < size; ++k)
    if (std::isnan(operands[0]->number((outer * size + k) * inner + index % inner))) return true;
  return result.count() == 0;
}

bool reducesIntegers(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op.rfind("Reduce", 0) == 0 && isInteger(operands[0]->type.element);
}

/// Whether a sum over everything leaves the integer type; what a row sums to is no larger.
bool mayOverflow(const Node& node, const std::vector<const HostTensor*>& operands, const HostTensor&, int64_t) {
  if (node.op == "ReduceMax" || node.op == "ReduceMin") return false;
  double sum = 0, product = 1;
  for (int64_t k = 0; k < operands[0]->count(); ++k) {
    double x = std::fabs(operands[0]->number(k));
    sum += node.op == "ReduceSumSquare" || node.op == "ReduceL2" ? x * x : x;
    product *= std::max(x, 1.0);
  }
  return (node.op == "ReduceProd" ? product : sum) >= range(operands[0]->type.element).second;
}

bool isLogOfIntegers(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "ReduceLogSum" && isInteger(operands[0]->type.element);
}

/// Only then a sum can be one.
bool hasNoPositive(const Node&, const std::vector<const HostTensor*>& operands, const HostTensor&, int64_t) {
  for (int64_t k = 0; k < operands[0]->count(); ++k)
    if (!(operands[0]->number(k) > 0)) return true;
  return false;
}

bool isFmodOf64Bits(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  const ElementType type = operands[0]->type.element;
  return node.op == "Mod" && integer(node, "fmod", 0) && (type == ElementType::kI64 || type == ElementType::kU64);
}

bool hasMoreBitsThanADouble(const Node&, const std::vector<const HostTensor*>& operands, const HostTensor& result,
                            int64_t index) {
  for (const HostTensor* operand : operands) {
    const Broadcast place(result.type.shape, operand->type.shape);
    if (std::fabs(operand->number(place(index))) > 0x1p53) return true;
  }
  return false;
}

bool isReductionOfNothing(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  if (!node.op.starts_with("Reduce") || operands[0]->count() != 0) return false;
  const Ints axes = axesOf(node, operands);
  return std::any_of(axes.begin(), axes.end(), [](int64_t axis) { return axis < 0; });
}

bool isLogSumExp(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "ReduceLogSumExp" && hasNan(*operands[0]);
}

/// Whether the element's row has a NaN beside an infinity.
bool isOfNanAndInfinity(const Node& node, const std::vector<const HostTensor*>& operands, const HostTensor&,
                        int64_t index) {
  const HostTensor& x = *operands[0];
  const Ints axes = axesOf(node, operands);
  const std::vector<size_t> into = reducedInto(x.type.shape, axes);
  for (int64_t k = 0; k < x.count(); ++k)
    if (into[static_cast<size_t>(k)] == static_cast<size_t>(index) && std::isinf(x.number(k))) return true;
  return false;
}

bool isHardSwishOfDoubles(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "HardSwish" && operands[0]->type.element == ElementType::kF64;
}

bool isAny(const Node&, const std::vector<const HostTensor*>&, const HostTensor&, int64_t) {
  return true;
}

bool isLogSoftmaxOfInfinity(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  if (node.op != "LogSoftmax" || operands[0]->type.element != ElementType::kF64) return false;
  for (int64_t k = 0; k < operands[0]->count(); ++k)
    if (operands[0]->number(k) == kInfinity) return true;
  return false;
}

bool isGridOfOnePlace(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  if (node.op != "AffineGrid" || !integer(node, "align_corners", 0)) return false;
  for (int64_t k = 2; k < operands[1]->count(); ++k)
    if (operands[1]->number(k) == 1) return true;
  return false;
}

bool isColumnsWithGaps(const Node& node, int64_t, const std::vector<const HostTensor*>&) {
  const Ints dilations = integers(node, "dilations");
  return node.op == "Col2Im" && dilations.size() != 2 &&
         std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; });
}

bool isPowerOfIntegers(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "Pow" && isInteger(operands[0]->type.element);
}

bool mayBeBeyond(const Node&, const std::vector<const HostTensor*>& operands, const HostTensor& result, int64_t index) {
  const HostTensor &base = *operands[0], &exponent = *operands.back();
  const Broadcast ofBase(result.type.shape, base.type.shape), ofExponent(result.type.shape, exponent.type.shape);
  const double power = std::fabs(std::pow(base.number(ofBase(index)), exponent.number(ofExponent(index))));
  return !(power < std::min(0x1p53, range(result.type.element).second));
}

bool isSignOfHalf(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "Sign" && operands[0]->type.element == ElementType::kF16;
}

bool isNan(const Node&, const std::vector<const HostTensor*>& operands, const HostTensor&, int64_t index) {
  return std::isnan(operands[0]->number(index));
}

bool quantizesNan(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "QuantizeLinear" && hasNan(*operands[0]);
}

bool isSumOfSquares(const Node& node, int64_t, const std::vector<const HostTensor*>&) {
  return node.op == "LpNormalization" && integer(node, "p", 2) == 2;
}

/// The square of a number below 2^-63 is no normal number.
bool hasNoSquare(const Node&, const std::vector<const HostTensor*>& operands, const HostTensor&, int64_t index) {
  double x = std::fabs(operands[0]->number(index));
  return x > 0 && x < 0x1p-62;
}

bool isPool(const Node& node) {
  return node.op == "MaxPool" || node.op == "AveragePool";
}

bool isPoolWithSameAndDilations(const Node& node, int64_t, const std::vector<const HostTensor*>&) {
  if (!isPool(node)) return false;
  Ints dilations = integers(node, "dilations");
  return text(node, "auto_pad").rfind("SAME", 0) == 0 &&
         std::any_of(dilations.begin(), dilations.end(), [](int64_t d) { return d != 1; });
}

bool isSameTransposeWithGaps(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  if (node.op != "ConvTranspose" || text(node, "auto_pad").rfind("SAME", 0) != 0) return false;
  Ints strides = integers(node, "strides"), dilations = integers(node, "dilations");
  for (size_t d = 0; d < strides.size(); ++d) {
    int64_t kernel = operands[1]->type.shape[d + 2], dilation = d < dilations.size() ? dilations[d] : 1;
    if ((kernel - 1) * dilation + 1 < strides[d]) return true;
  }
  return false;
}

/// Calls visit(input size, extent of the window, stride) for each spatial dimension; gives whether any was true.
template <typename Visit>
bool anyWindow(const Node& node, const std::vector<const HostTensor*>& operands, Visit visit) {
  const Shape& x = operands[0]->type.shape;
  Ints strides = integers(node, "strides"), dilations = integers(node, "dilations"),
       kernel = integers(node, "kernel_shape");
  if (kernel.empty() && operands.size() > 1)
    kernel.assign(operands[1]->type.shape.begin() + 2, operands[1]->type.shape.end());
  for (size_t d = 0; d + 2 < x.size() && d < kernel.size(); ++d) {
    int64_t dilation = d < dilations.size() ? dilations[d] : 1;
    if (visit(x[d + 2], (kernel[d] - 1) * dilation + 1, d < strides.size() ? strides[d] : 1)) return true;
  }
  return false;
}

bool isSameWithGaps(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  if ((!isPool(node) && node.op != "Conv") || text(node, "auto_pad").rfind("SAME", 0) != 0) return false;
  return anyWindow(node, operands, [](int64_t in, int64_t extent, int64_t stride) {
    return ((in + stride - 1) / stride - 1) * stride + extent - in < -1;
  });
}

bool isValidBeyondTheInput(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return isPool(node) && text(node, "auto_pad") == "VALID" &&
         anyWindow(node, operands, [](int64_t in, int64_t extent, int64_t) { return extent > in; });
}

bool measuresARange(const Node& node, int64_t, const std::vector<const HostTensor*>&) {
  return node.op == "DynamicQuantizeLinear";
}

/// All of them when the range has no least number, else those that are infinite.
bool hasNoRange(const Node&, const std::vector<const HostTensor*>& operands, const HostTensor& result, int64_t index) {
  const HostTensor& x = *operands[0];
  for (int64_t k = 0; k < x.count(); ++k)
    if (std::isnan(x.number(k)) || x.number(k) == -kInfinity) return true;
  return result.count() == x.count() && std::isinf(x.number(index));
}

bool isScatterOfExtremes(const Node& node, int64_t, const std::vector<const HostTensor*>&) {
  const std::string mode = text(node, "reduction");
  return (node.op == "ScatterElements" || node.op == "ScatterND") && (mode == "min" || mode == "max");
}
/// Of the data, or of any update.
bool meetsNan(const Node&, const std::vector<const HostTensor*>& operands, const HostTensor&, int64_t index) {
  if (std::isnan(operands[0]->number(index))) return true;
  for (int64_t k = 0; k < operands[2]->count(); ++k)
    if (std::isnan(operands[2]->number(k))) return true;
  return false;
}

bool isFloatProduct(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "ReduceProd" && isFloat(operands[0]->type.element);
}

/// Whether some of a row's factors have a product that is no normal number.
bool mayLeaveTheRange(const Node& node, const std::vector<const HostTensor*>& operands, const HostTensor& result,
                      int64_t index) {
  const HostTensor& x = *operands[0];
  if (result.count() == x.count()) return false;
  const Ints axes = axesOf(node, operands);
  const std::vector<size_t> into = reducedInto(x.type.shape, axes);
  double large = 1, small = 1;
  for (int64_t k = 0; k < x.count(); ++k) {
    if (into[static_cast<size_t>(k)] != static_cast<size_t>(index)) continue;
    const double size = std::fabs(x.number(k));
    if (size > 1) large *= size;
    if (size > 0 && size < 1) small *= size;
  }
  return large > 3e38 || small < 1.2e-38;
}

bool isMaxPool(const Node& node, int64_t, const std::vector<const HostTensor*>& operands) {
  return node.op == "MaxPool" && hasNan(*operands[0]);
}

bool isPlace(const Node&, const std::vector<const HostTensor*>&, const HostTensor& result, int64_t) {
  return isInteger(result.type.element);
}

/// For differences that are settled in Evaluate.cpp.
bool never(const Node&, int64_t, const std::vector<const HostTensor*>&) {
  return false;
}
bool neverOpen(const Node&, const std::vector<const HostTensor*>&, const HostTensor&, int64_t) {
  return false;
}

HostTensor floats(const Shape& shape, const std::vector<float>& values) {
  HostTensor tensor;
  tensor.type = {ElementType::kF32, shape};
  tensor.bytes.resize(values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) setNumber(tensor, static_cast<int64_t>(i), static_cast<double>(values[i]));
  return tensor;
}

Model single(Node node, std::vector<HostTensor> operands, int64_t opset = 17) {
  Model model;
  model.opset = opset;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string name = "in" + std::to_string(i);
    node.inputs.push_back(name);
    model.inputs.push_back(name);
    model.values[name].tensor = std::move(operands[i]);
  }
  node.outputs = {"out"};
  model.outputs = {"out"};
  model.nodes.push_back(std::move(node));
  return model;
}

}  // namespace

const std::vector<KnownDifference>& knownDifferences() {
  static const std::vector<KnownDifference> list = {
      {"cast-out-of-range",
       "ONNX, Cast: a float beyond the integer type gives an undefined result. What ONNX Runtime gives depends on the "
       "types and on its compiler",
       isCastToInteger, isOutOfRange,
       [] { return single({"Cast", {}, {}, {{"to", int64_t{12}}}}, {floats({4}, {3e9f, -3e9f, NAN, INFINITY})}); }},
      {"arg-of-nan",
       "ONNX, ArgMax, ArgMin, TopK, Hardmax: where a NaN stands in the order is not said. Ours is the first NaN, as "
       "NumPy's and as ONNX Runtime's along the last axis; along another one that takes no notice of them",
       picksALargest, isOfRowWithNan,
       [] { return single({"ArgMax", {}, {}, {{"keepdims", int64_t{0}}}}, {floats({2, 2}, {1, 2, NAN, 1})}); }},
      {"integer-overflow-of-a-reduction",
       "ONNX does not say what an integer sum beyond its type is. Ours wraps around; ONNX Runtime's sums of squares "
       "end "
       "at the largest number",
       reducesIntegers, mayOverflow,
       [] {
         HostTensor large = floats({2}, {});
         large.type.element = ElementType::kI32;
         large.bytes.resize(8);
         for (int64_t k = 0; k < 2; ++k) setNumber(large, k, 70000);
         return single({"ReduceSumSquare", {}, {}, {}}, {large});
       }},
      {"log-of-no-positive-integer",
       "ONNX, Cast: what a NaN or an infinity is as an integer is not said, and so neither is the logarithm of a sum "
       "that is not positive. Ours are 0 and the least number, as a Cast's",
       isLogOfIntegers, hasNoPositive,
       [] {
         HostTensor negative = floats({2}, {});
         negative.type.element = ElementType::kI32;
         negative.bytes.resize(8);
         for (int64_t k = 0; k < 2; ++k) setNumber(negative, k, -3);
         return single({"ReduceLogSum", {}, {}, {}}, {negative});
       }},
      {"fmod-of-64-bits",
       "Mod with fmod=1 of 64-bit integers: ours is exact; ONNX Runtime computes it in double, which has 53 bits",
       isFmodOf64Bits, hasMoreBitsThanADouble,
       [] {
         HostTensor large = floats({1}, {}), two = large;
         for (HostTensor* tensor : {&large, &two}) {
           tensor->type.element = ElementType::kU64;
           tensor->bytes.resize(8);
         }
         setNumber(large, 0, 0x1p64);  // Clamped to 2^64 - 1.
         setNumber(two, 0, 2);
         return single({"Mod", {}, {}, {{"fmod", int64_t{1}}}}, {large, two});
       }},
      {"power-beyond-the-type",
       "ONNX does not say what an integer power beyond its type is. Ours wraps around, as products do; ONNX Runtime "
       "computes it in double, which has 53 bits, and casts back",
       isPowerOfIntegers, mayBeBeyond,
       [] {
         HostTensor base = floats({1}, {}), exponent = base;
         for (HostTensor* tensor : {&base, &exponent}) {
           tensor->type.element = ElementType::kI64;
           tensor->bytes.resize(8);
         }
         setNumber(base, 0, 3);
         setNumber(exponent, 0, 99);
         return single({"Pow", {}, {}, {}}, {base, exponent});
       }},
      {"sign-of-nan-in-f16",
       "ONNX, Sign: a NaN is neither positive, negative nor 0. Ours gives NaN, as NumPy and as ONNX Runtime in f32; in "
       "f16 that "
       "gives 0",
       isSignOfHalf, isNan,
       [] {
         HostTensor half = floats({1}, {});
         half.type.element = ElementType::kF16;
         half.bytes = {0, 0x7e};
         return single({"Sign", {}, {}, {}}, {half});
       }},
      {"quantized-nan",
       "ONNX, QuantizeLinear: what a NaN becomes is not said. Ours becomes 0; ONNX Runtime's the least number",
       quantizesNan, isNan,
       [] {
         HostTensor zero = floats({}, {});
         zero.type.element = ElementType::kI8;
         zero.bytes = {0};
         return single({"QuantizeLinear", {}, {}, {}}, {floats({1}, {NAN}), floats({}, {1}), zero});
       }},
      {"range-of-nan",
       "ONNX, DynamicQuantizeLinear: what the range of numbers with a NaN or an infinity among them is, is not said. "
       "Ours has a NaN's scale; ONNX Runtime's depends on where it stands",
       measuresARange, hasNoRange,
       [] {
         Model model = single({"DynamicQuantizeLinear", {}, {}, {}}, {floats({3}, {1, NAN, 2})});
         model.nodes[0].outputs = {"out", "scale", "start"};
         model.outputs = {"out", "scale", "start"};
         return model;
       }},
      {"squares-that-vanish",
       "LpNormalization with p = 2 of numbers whose squares are 0 or nearly: the norm is that of the squares, in ONNX "
       "Runtime "
       "and in ours, and how much is left of it is chance",
       isSumOfSquares, hasNoSquare,
       [] { return single({"LpNormalization", {}, {}, {}}, {floats({1, 2}, {1e-25f, 1e-25f})}); }},
      {"largest-of-nan",
       "ONNX, ReduceMax, ReduceMin, MaxPool, GlobalMaxPool: what a NaN among others gives is not said. Ours is NaN, as "
       "NumPy's, and expected (Evaluator::settleNans); ONNX Runtime's depends on the axes",
       never, neverOpen,
       [] {
         return single({"ReduceMax", {}, {}, {{"axes", Ints{1, 3}}, {"keepdims", int64_t{0}}}},
                       {floats({1, 2, 1, 2}, {1, NAN, 2, 3})});
       }},
      {"place-of-nan",
       "MaxPool with Indices: of windows with a NaN ours is the NaN's place, as its value is the maximum; ONNX Runtime "
       "takes no notice of NaNs",
       isMaxPool, isPlace,
       [] {
         Model model = single({"MaxPool", {}, {}, {{"kernel_shape", Ints{2}}}}, {floats({1, 1, 2}, {1, NAN})});
         model.nodes[0].outputs = {"out", "places"};
         model.outputs = {"out", "places"};
         return model;
       }},
      {"product-beyond-the-range",
       "ReduceProd of floats: the product of some of the factors is beyond the range, or a denormal, where that of all "
       "need not be; which ones are multiplied first is open, and TPCs have no denormals",
       isFloatProduct, mayLeaveTheRange,
       [] {
         std::vector<float> factors(128, 1.0f);
         for (size_t i = 0; i < 128; i += 8) factors[i] = i % 16 == 0 ? 1e6f : 1e-6f;
         return single({"ReduceProd", {}, {}, {{"axes", Ints{0}}, {"keepdims", int64_t{0}}}}, {floats({128}, factors)});
       }},
      {"scatter-of-nan",
       "ScatterElements, ScatterND with min or max: what a NaN among others gives is not said. Ours is NaN; ONNX "
       "Runtime's is "
       "the number",
       isScatterOfExtremes, meetsNan,
       [] {
         Model model = single({"ScatterElements", {}, {}, {{"reduction", std::string("min")}}},
                              {floats({1}, {NAN}), floats({1}, {0}), floats({1}, {1})}, 18);
         model.values["in1"].tensor = HostTensor();
         model.values["in1"].tensor.type = {ElementType::kI64, {1}};
         model.values["in1"].tensor.bytes.resize(sizeof(int64_t));
         return model;
       }},
      {"overflow-on-the-way",
       "Several ops that are recognised as one are computed without the numbers between them, so an infinity that one "
       "of "
       "them would have given need not come (Evaluator::settleOverflows)",
       never, neverOpen,
       [] {
         Model model = single({"Erf", {}, {}, {}}, {floats({1}, {3e38f})});
         model.nodes[0].outputs = {"erf"};
         for (auto [name, value] : {std::pair{"one", 1.0f}, {"half", 0.5f}}) {
           model.constants.push_back(name);
           model.values[name].tensor = floats({}, {value});
         }
         model.constants.push_back("root");
         model.values["root"].tensor = floats({}, {1.41421356f});
         model.nodes.insert(model.nodes.begin(), {"Div", {"in0", "root"}, {"scaled"}, {}});
         model.nodes[1].inputs = {"scaled"};
         model.nodes.push_back({"Add", {"erf", "one"}, {"sum"}, {}});
         model.nodes.push_back({"Mul", {"in0", "sum"}, {"twice"}, {}});
         model.nodes.push_back({"Mul", {"twice", "half"}, {"out"}, {}});
         return model;
       }},
      {"resize-of-weight-0",
       "ONNX, Resize, linear: whether an element that lies beside the place, with the weight 0 (or what rounding "
       "leaves "
       "of it), is read. Ours is not, so that an infinity or a NaN stays where it is; ONNX Runtime multiplies it by 0 "
       "(Evaluator::settleResizes)",
       never, neverOpen,
       [] {
         Model model = single({"Resize", {}, {}, {{"mode", std::string("linear")}}},
                              {floats({1, 1, 2, 1}, {1, INFINITY}), floats({0}, {}), floats({4}, {1, 1, 2, 1})});
         model.inputs = {"in0"};
         model.constants = {"in1", "in2"};
         return model;
       }},
      {"same-with-gaps",
       "ONNX, Conv, MaxPool, AveragePool: with auto_pad=SAME_* and windows so narrow that the padding would be less "
       "than "
       "-1. Ours is 0, as in ONNX's shape inference; ONNX Runtime refuses some (MaxPool), begins later in others",
       isSameWithGaps, nullptr,
       [] {
         return single({"Conv", {}, {}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{4}}}},
                       {floats({1, 1, 8}, {1, 2, 3, 4, 5, 6, 7, 8}), floats({1, 1, 1}, {1})});
       }},
      {"valid-beyond-the-input",
       "ONNX, MaxPool, AveragePool: with auto_pad=VALID the output is ceil((input - window + 1) / stride), which is 0 "
       "where the window is larger. Ours refuses that; ONNX Runtime rounds towards 0 and has one element",
       isValidBeyondTheInput, nullptr,
       [] {
         return single(
             {"MaxPool", {}, {}, {{"auto_pad", std::string("VALID")}, {"kernel_shape", Ints{4}}, {"strides", Ints{2}}}},
             {floats({1, 1, 3}, {1, 2, 3})});
       }},
      {"sum-that-slides",
       "LRN: ours sums the squares of each window. ONNX Runtime adds and subtracts those at its ends, so that what a "
       "large "
       "number leaves behind by rounding stays in all windows after it (Truth.cpp has the sums)",
       never, neverOpen,
       [] {
         return single({"LRN", {}, {}, {{"size", int64_t{3}}, {"alpha", 3.0f}, {"beta", 1.0f}}},
                       {floats({1, 5, 1, 1}, {1e6f, 1, 1, 1, 1})});
       }},
      {"fp8-scale-of-nan",
       "fp8 without calibration: a tensor's largest magnitude becomes its scale, so one with a NaN or an infinity has "
       "none, "
       "and all products with it are NaN, where other types have NaN in some rows (Evaluator::addSums)",
       never, neverOpen,
       [] {
         HostTensor left = floats({32, 32}, std::vector<float>(1024, 1)), right = left;
         setNumber(left, 0, NAN);
         return single({"MatMul", {}, {}, {}}, {left, right});
       },
       Precision::kFp8},
      {"reduction-of-nothing",
       "Reductions of tensors without elements along axes that are counted from the end: ours has the shape that ONNX "
       "says; ONNX Runtime's result has the operand's",
       isReductionOfNothing, nullptr,
       [] { return single({"ReduceProd", {}, {}, {{"axes", Ints{-1, -2}}}}, {floats({1, 31, 0}, {})}, 11); }},
      {"log-sum-exp-of-nan",
       "ReduceLogSumExp of an infinity and a NaN behind it: ours is NaN, as NumPy's and PyTorch's; ONNX Runtime's "
       "largest "
       "element is the infinity, which it gives back",
       isLogSumExp, isOfNanAndInfinity,
       [] { return single({"ReduceLogSumExp", {}, {}, {}}, {floats({3}, {INFINITY, NAN, 1})}, 17); }},
      {"a-sixth-of-doubles",
       "ONNX, HardSwish: a sixth of the operand. Of f64 ours is a sixth; ONNX Runtime's factor is an attribute, of f32",
       isHardSwishOfDoubles, isAny,
       [] {
         HostTensor one = floats({1}, {});
         one.type.element = ElementType::kF64;
         one.bytes.resize(8);
         setNumber(one, 0, 1);
         return single({"HardSwish", {}, {}, {}}, {one});
       }},
      {"log-softmax-of-infinity",
       "ONNX, LogSoftmax: of a row with an infinity ours is NaN, as PyTorch's and NumPy's; ONNX Runtime's is -infinity "
       "of f64 "
       "where the element is not that one",
       isLogSoftmaxOfInfinity, isAny,
       [] {
         HostTensor row = floats({1, 2}, {});
         row.type.element = ElementType::kF64;
         row.bytes.resize(16);
         setNumber(row, 0, 1);
         setNumber(row, 1, kInfinity);
         return single({"LogSoftmax", {}, {}, {}}, {row}, 11);
       }},
      {"grid-of-one-place",
       "ONNX, AffineGrid: with align_corners=1 the places of a dim of size 1 are divided by 0. Ours is the middle, as "
       "PyTorch's; ONNX Runtime's is an end",
       isGridOfOnePlace, nullptr,
       [] {
         Model model = single({"AffineGrid", {}, {}, {{"align_corners", int64_t{1}}}},
                              {floats({1, 2, 3}, {1, 0, 0, 0, 1, 0}), floats({4}, {})}, 20);
         HostTensor& sizes = model.values["in1"].tensor;
         sizes.type.element = ElementType::kI64;
         sizes.bytes.resize(32);
         for (int64_t k = 0; k < 4; ++k) setNumber(sizes, k, k == 3 ? 2 : 1);
         model.inputs = {"in0"};
         model.constants = {"in1"};
         return model;
       }},
      {"columns-with-gaps",
       "Col2Im with dilations in one or three dims: ours adds what ONNX's formula says (tests/python/microsoft_ops.py "
       "has "
       "two dims); ONNX Runtime adds some of it elsewhere",
       isColumnsWithGaps, nullptr,
       [] {
         Model model = single({"Col2Im", {}, {}, {{"dilations", Ints{2}}}},
                              {floats({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), floats({1}, {}), floats({1}, {})}, 18);
         for (auto [name, size] : {std::pair{"in1", 6.0}, {"in2", 2.0}}) {
           HostTensor& tensor = model.values[name].tensor;
           tensor.type.element = ElementType::kI64;
           tensor.bytes.assign(8, 0);
           setNumber(tensor, 0, size);
         }
         model.inputs = {"in0"};
         model.constants = {"in1", "in2"};
         return model;
       }},
      {"pool-same-with-dilations",
       "ONNX, MaxPool: with auto_pad=SAME_* the output is ceil(input / stride). ONNX Runtime leaves the dilation out "
       "of "
       "the padding, so its output is smaller",
       isPoolWithSameAndDilations, nullptr,
       [] {
         return single({"MaxPool",
                        {},
                        {},
                        {{"auto_pad", std::string("SAME_LOWER")}, {"dilations", Ints{3}}, {"kernel_shape", Ints{2}}}},
                       {floats({1, 1, 5}, {1, 2, 3, 4, 5})});
       }},
      {"transposed-same-with-gaps",
       "ONNX, ConvTranspose: with auto_pad=SAME_* the output is input * stride. ONNX Runtime makes no negative "
       "padding, so "
       "with windows narrower than the stride its output is smaller",
       isSameTransposeWithGaps, nullptr,
       [] {
         return single({"ConvTranspose", {}, {}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}}},
                       {floats({1, 1, 1}, {1}), floats({1, 1, 1}, {2})});
       }},
  };
  return list;
}

const char* differsAsAWhole(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands) {
  for (const KnownDifference& known : knownDifferences())
    if (!known.isOpen && known.concerns(node, opset, operands)) return known.name;
  return nullptr;
}

std::vector<std::string> leaveOpen(const Node& node, int64_t opset, const std::vector<const HostTensor*>& operands,
                                   Evaluated& result) {
  std::vector<std::string> met;
  for (const KnownDifference& known : knownDifferences()) {
    if (!known.isOpen || !known.concerns(node, opset, operands)) continue;
    bool any = false;
    for (size_t out = 0; out < result.tensors.size(); ++out)
      for (int64_t k = 0; k < result.tensors[out].count(); ++k) {
        if (!known.isOpen(node, operands, result.tensors[out], k)) continue;
        result.errors[out].resize(static_cast<size_t>(result.tensors[out].count()));
        result.errors[out][k] = kInfinity;
        any = true;
      }
    if (any) met.push_back(known.name);
  }
  return met;
}

}  // namespace hpu::randomtest
