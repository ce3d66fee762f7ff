// SPDX-License-Identifier: Apache-2.0
// Window ops: pooling and depthwise convolution are reductions over the window's taps, whose loops
// are bounded so that they never leave the operand (no masks, no padded copy).
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/Windows.h"
#include "compiler/kernels/PlanBuilder.h"

namespace hpu::kernels {
using namespace ir;
namespace {

struct Window : ir::WindowDim {  ///< `in` at the representatives.
  int64_t out = 1;               ///< Likewise.
  SymInt inSize, outSize;
  /// Whether the number of windows or elements is known at launch only.
  bool isLate() const { return !inSize.isConstant() || !outSize.isConstant(); }
  /// The taps of a window that lie in [low, high).
  TapBounds boundsWithin(const SymInt& low, const SymInt& high) const {
    return {kernel, stride, dilation, padBegin, low, high};
  }
};

Window windowOf(const Node& node, const Node& x, llvm::ArrayRef<int64_t> kernel, int i) {
  llvm::ArrayRef<int64_t> pads = node.intsAttr("pads");
  const SymInt &in = x.shape[2 + i], &out = node.shape[2 + i];
  return {{in.value(), kernel[i], node.intsAttr("strides")[i], node.intsAttr("dilations")[i], pads[i], pads[2 + i],
           node.intAttr("ceil_mode") != 0},
          out.value(),
          in,
          out};
}

/// Whether each window holds all its taps within the operand, or its padding too: the first and the last one tell.
/// Where sizes are given late, windows that end within the padding do.
bool allWhole(const Window& w, bool withPadding) {
  if (w.isLate()) return !w.ceilMode && (withPadding || (w.padBegin == 0 && w.padEnd == 0));
  const int64_t low = withPadding ? -w.padBegin : 0, high = withPadding ? w.in + w.padEnd : w.in;
  const std::pair<int64_t, int64_t> whole{0, w.kernel};
  return w.taps(0, low, high) == whole && w.taps(w.out - 1, low, high) == whole;
}

/// Tables have an entry for each window along the dimension.
bool tablesFit(PlanBuilder& b, const Node& node, const Window& w) {
  if (w.out <= kMostTableEntries) return true;
  b.fail(node, "it has " + std::to_string(w.out) + " windows that reach into padding along one dimension, at most " +
                   std::to_string(kMostTableEntries) + " are supported");
  return false;
}

/// The reduction dim over the taps along spatial dim i, and where they read the operand.
int tapDim(PlanBuilder& b, const Node& node, const Window& w, const Affine& position, int i, Affine& operand) {
  int anchor = b.pureDim(position);
  b.setTaps(i, anchor);
  std::string key = "taps" + std::to_string(i) + "of" + std::to_string(reinterpret_cast<uintptr_t>(&node));
  int dim = b.reductionDim(key, w.kernel);
  if (!allWhole(w, false) && w.isLate()) {
    IterDim& iter = b.dim(dim);
    iter.anchor = anchor;
    iter.taps = w.boundsWithin(0, w.inSize);
  } else if (!allWhole(w, false) && tablesFit(b, node, w)) {
    Table low, high;
    for (int64_t p = 0; p < w.out; ++p) {
      auto [first, last] = w.tapsInside(p);
      low.ints.push_back(first);
      high.ints.push_back(last);
    }
    int lowTable = b.table(low), highTable = b.table(high);
    IterDim& iter = b.dim(dim);
    iter.anchor = anchor;
    iter.lowTable = lowTable;
    iter.highTable = highTable;
  }
  operand.constant = -w.padBegin;
  for (int d = 0; d < kMaxIterDims; ++d)
    if (!isZero(position.coef[d])) operand.coef[d] = position.coef[d] * w.stride;
  operand.coef[dim] += w.dilation;
  return dim;
}

bool ready(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  if (x.kind != Node::Kind::Input) {
    b.fail(node, "its input must be an operand of the kernel, since each element is read several times");
    return false;
  }
  for (int i = 2; i < 4; ++i)
    if (node.shape[i] != 1 && b.pureDim(map[i]) < 0) {
      b.fail(node, "its windows are not along dimensions of the kernel's index space");
      return false;
    }
  return true;
}

int lowerPool(PlanBuilder& b, const Node& node, const IndexMap& map) {
  if (!ready(b, node, map)) return b.constant(0, node.type);
  const Node& x = b.node(node.operands[0]);
  bool isMax = node.is<MaxPool2dOp>();
  bool isFloat = isFloatType(node.type);
  if (node.type == ElementType::kBool || (!isMax && !isFloat))
    return b.fail(node, "not defined for " + std::string(elementTypeName(node.type)));
  IndexMap operandMap(map);
  uint32_t mask = 0;
  Window windows[2];
  for (int i = 0; i < 2; ++i) {
    windows[i] = windowOf(node, x, node.intsAttr("kernel"), i);
    operandMap[2 + i] = Affine();
    mask |= 1u << tapDim(b, node, windows[i], map[2 + i], i, operandMap[2 + i]);
  }
  int value = b.lower(node.operands[0], operandMap);
  ElementType type = isFloat ? computedAs(node.type) : node.type;
  int reduced = b.reduce(isMax ? ReduceKind::Max : ReduceKind::Sum, value, mask, type);
  if (isMax) return reduced;

  // The divisor: taps inside the input, or inside the padded input.
  bool includePad = node.intAttr("count_include_pad") != 0;
  int count = -1;
  double constantCount = 1;
  for (int i = 0; i < 2; ++i) {
    const Window& w = windows[i];
    const int64_t low = includePad ? -w.padBegin : 0, high = includePad ? w.in + w.padEnd : w.in;
    if (allWhole(w, includePad)) {
      constantCount *= static_cast<double>(w.kernel);
      continue;
    }
    auto multiply = [&](int factor) {
      if (type == ElementType::kF64) factor = b.lane(kind<CastOp>(), {factor}, type);
      count = count < 0 ? factor : b.lane(kind<MulOp>(), {count, factor}, type);
    };
    if (w.isLate()) {
      const TapBounds taps =
          includePad ? w.boundsWithin(-w.padBegin, w.inSize + w.padEnd) : w.boundsWithin(0, w.inSize);
      multiply(b.tapCount(taps, b.pureDim(map[2 + i])));
      continue;
    }
    if (!tablesFit(b, node, w)) return b.constant(0, node.type);
    Table counts;
    counts.type = ElementType::kF32;
    bool uniform = true;
    for (int64_t p = 0; p < w.out; ++p) {
      auto [first, last] = w.taps(p, low, high);
      counts.floats.push_back(static_cast<float>(std::max<int64_t>(last - first, 1)));
      uniform &= counts.floats.back() == counts.floats.front();
    }
    if (uniform) {
      constantCount *= counts.floats.front();
      continue;
    }
    multiply(b.loadTable(b.table(counts), b.pureDim(map[2 + i])));
  }
  // Divided, as means are (PlanRow): the average of equal numbers is that number.
  if (count < 0 && constantCount == 1) return reduced;
  int constant = b.constant(constantCount, type);
  int divisor = count < 0 ? constant : constantCount == 1 ? count : b.lane(kind<MulOp>(), {count, constant}, type);
  return b.lane(kind<DivOp>(), {reduced, divisor}, type);
}

/// Depthwise convolutions of all floats, and all convolutions of types that the MME does not have.
int lowerConvolution(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  const Node& w = b.node(node.operands[1]);
  const SymInt groups = node.intAttr("groups", 1);
  const bool isDepthwise = groups == x.shape[1] && w.shape[0] == x.shape[1] && w.shape[1] == 1;
  const bool isOfMme = isFloatType(node.type) && node.type != ElementType::kF64;
  if (!isDepthwise && isOfMme) return b.fail(node, "only depthwise convolutions (groups = channels) run on the TPC");
  if (node.type == ElementType::kBool) return b.fail(node, "not defined for bool");
  if (!ready(b, node, map)) return b.constant(0, node.type);
  IndexMap operandMap(map), weightMap(4);
  weightMap[0] = map[1];
  for (size_t d = 1; d < 4; ++d)
    if (!w.shape[d].isConstant()) return b.fail(node, "the size of its weights is known at launch only");
  uint32_t mask = 0;
  if (!isDepthwise) {
    const SymInt &depth = w.shape[1], &outputs = w.shape[0];
    operandMap[1] = Affine();
    if (groups != 1 && outputs == groups) {
      operandMap[1].coef = map[1].coef;
      for (SymInt& coef : operandMap[1].coef) coef *= depth;
    } else if (groups != 1) {
      // The group of a channel of the result.
      if (!outputs.isConstant()) return b.fail(node, "the size of its weights is known at launch only");
      const int each = b.constant(static_cast<double>(outputs.value() / groups.value()), ElementType::kI64);
      const int group = b.lane(kind<DivOp>(), {b.index(map[1]), each}, ElementType::kI64);
      operandMap[1].terms.push_back({group, depth});
    }
    const int dim = b.reductionDim("channels of" + std::to_string(reinterpret_cast<uintptr_t>(&node)), depth);
    if (depth != 1) {
      operandMap[1].coef[dim] = 1;
      weightMap[1].coef[dim] = 1;
    }
    mask |= 1u << dim;
  }
  const int64_t kernel[] = {w.shape[2].value(), w.shape[3].value()};
  for (int i = 0; i < 2; ++i) {
    operandMap[2 + i] = Affine();
    int dim = tapDim(b, node, windowOf(node, x, kernel, i), map[2 + i], i, operandMap[2 + i]);
    weightMap[2 + i].coef[dim] = 1;
    mask |= 1u << dim;
  }
  const ElementType type = computedAs(node.type);
  int product =
      b.lane(kind<MulOp>(), {b.lower(node.operands[0], operandMap), b.lower(node.operands[1], weightMap)}, type);
  return b.reduce(ReduceKind::Sum, product, mask, type);
}

}  // namespace

llvm::ArrayRef<OpLowering> windowLowerings() {
  static const OpLowering table[] = {
      {kind<MaxPool2dOp>(), lowerPool}, {kind<AvgPool2dOp>(), lowerPool}, {kind<Conv2dOp>(), lowerConvolution}};
  return table;
}

}  // namespace hpu::kernels
