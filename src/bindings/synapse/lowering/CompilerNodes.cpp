// SPDX-License-Identifier: Apache-2.0
// Nodes that SynapseAI's compiler makes for itself, and that programs use too: copies between dense and strided
// memory, reductions of several tensors into one place, nodes that only order others.
#include <algorithm>

#include "bindings/synapse/lowering/Lowering.h"
#include "habanalabs/synapse_common_types.h"

namespace hpu::synapse {
namespace {

/// Bytes between neighbours of each dim, fastest first: as declared, else dense.
std::vector<uint64_t> stridesOf(const TensorDescription& tensor, const std::vector<uint64_t>& sizes, ElementType type) {
  std::vector<uint64_t> strides;
  auto dense = static_cast<uint64_t>(elementSize(type));
  for (size_t d = 0; d < sizes.size(); ++d) {
    const uint64_t given = d < tensor.strides.size() ? tensor.strides[d] : 0;
    strides.push_back(given ? given : dense);
    dense = strides.back() * std::max<uint64_t>(sizes[d], 1);
  }
  return strides;
}

/// A copy between strides: serialize_dma closes gaps, deserialize_dma opens them.
void lowerSerialize(NodeContext& c) {
  const bool opens = c.row().argument == "opens";
  Value x = c.input(0);
  if (!c.ok()) return;
  const Shape shape = c.shape(x);
  if (std::optional<Shape> declared = c.declaredShape(0); declared && *declared == shape) {
    const std::vector<uint64_t> sizes = sizesOf(shape);
    const auto from = stridesOf(*c.inputTensor(0), sizes, c.element(x));
    const auto to = stridesOf(*c.outputTensor(0), sizes, c.outputType(0, c.element(x)));
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] > 1 && (opens ? to[d] < from[d] : to[d] > from[d]))
        return (void)c.fail(strCat("dim ", d, " of ", c.outputName(0), " has a stride of ", to[d], " bytes, ",
                                   opens ? "less" : "more", " than the ", from[d], " of ", c.inputName(0)));
  }
  c.output(0, x);
}

/// What several writers leave in one place that takes them up in order.
void lowerReduction(NodeContext& c) {
  enum : unsigned { kAdd, kSub, kMin, kMax, kSet, kMaxZero, kUnorderedSet };
  const auto kind = c.paramsOr<unsigned>(kAdd);
  if (kind > kUnorderedSet) return (void)c.fail(strCat("there is no reduction ", kind));
  Value result;
  Shape first = c.inputShape(0);
  ElementType type = c.inputType(0);
  for (size_t i = 0; i < c.numInputs() && c.ok(); ++i) {
    if (i + 1 == c.numInputs() && i > 0 && c.isShapeTensor(i)) break;
    if (c.inputShape(i) != first)
      return (void)c.fail(strCat(c.inputName(i), " has sizes ", sizesText(c.inputShape(i)), ", ", c.inputName(0), " ",
                                 sizesText(first)));
    Value v = c.input(i);
    const bool isSum = kind == kAdd || kind == kSub;
    if (isSum && isFloat(type)) v = c.toF32(v);  // Rounded once, at the end.
    if (!result.handle) {
      result = kind == kMaxZero ? c.max(v, c.scalarLike(v, 0)) : v;
      continue;
    }
    switch (kind) {
      case kAdd:
        result = c.add(result, v);
        break;
      case kSub:
        result = c.sub(result, v);
        break;
      case kMin:
        result = c.min(result, v);
        break;
      case kMax:
      case kMaxZero:
        result = c.max(result, v);
        break;
      default:
        result = v;
    }
  }
  c.outputAs(0, result, type);
}

/// The graph's lowering leaves them out (kNothing); what they order is in NodeOrder.
void lowerNothing(NodeContext& c) {
  if (c.row().argument == "wait" && c.hasParams()) c.paramsOr(synWaitParams(0));
}

// clang-format off
constexpr GuidRow kRows[] = {
    {"serialize_dma", "X, [shape]", "Y", "none", "", lowerSerialize, "closes", kOneType | kMoves},
    {"deserialize_dma", "X, [shape]", "Y", "none", "", lowerSerialize, "opens", kOneType | kMoves},
    {"reduction", "in...", "Y", "unsigned: 0 add, 1 sub, 2 min, 3 max, 4 set, 5 max with 0, 6 unordered set?", "", lowerReduction, {}, kOneType},
    {"wait", "[operands...]", "[results...]", "synWaitParams?", "", lowerNothing, "wait", kNothing},
    {"nop", "[operands...]", "[results...]", "any?", "", lowerNothing, {}, kNothing},
    {"merge_shapes", "shapes...", "shape", "?", "", nullptr, "the layout of its parameters is not documented; declare the shape tensor's sizes"},
    {"dynamic_reshape", "X, operands...", "Y", "?", "", nullptr, "its operands and parameters are not documented; use reshape with a shape tensor"},
    {"image_rotate", "X, operands...", "Y", "synRotateParams", "", nullptr, "which rounding its fixed-point coordinates have is not documented; use resize_fwd and gather_nd_onnx_fwd"},
    {"non_max_suppression", "operands...", "results...", "synNMSParams", "", nullptr, "the order of its operands and results is not documented"},
};
// clang-format on

}  // namespace

std::span<const GuidRow> compilerNodeGuids() {
  return kRows;
}

}  // namespace hpu::synapse
