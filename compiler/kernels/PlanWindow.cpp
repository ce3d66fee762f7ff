// SPDX-License-Identifier: Apache-2.0
// Window ops: pooling and depthwise convolution are reductions over the window's taps, whose loops
// are bounded so that they never leave the operand (no masks, no padded copy).
#include "compiler/kernels/PlanBuilder.h"

namespace hpu::kernels {
namespace {

struct Window {
  int64_t kernel = 1, stride = 1, dilation = 1, padBegin = 0, padEnd = 0, in = 1, out = 1;
};

/// Taps of one output position that lie in [low, high) of the operand's (padded) coordinates.
std::pair<int64_t, int64_t> taps(const Window& w, int64_t position, int64_t low, int64_t high) {
  int64_t first = w.kernel, last = 0;
  for (int64_t k = 0; k < w.kernel; ++k) {
    int64_t at = position * w.stride + k * w.dilation - w.padBegin;
    if (at < low || at >= high) continue;
    first = std::min(first, k);
    last = std::max(last, k + 1);
  }
  return {std::min(first, last), last};
}

Window windowOf(const Node& node, const Node& x, llvm::ArrayRef<int64_t> kernel, int i) {
  llvm::ArrayRef<int64_t> pads = node.intsAttr("pads");
  return {kernel[i],
          node.intsAttr("strides")[i],
          node.intsAttr("dilations")[i],
          pads[i],
          pads[2 + i],
          x.shape[2 + i],
          node.shape[2 + i]};
}

/// The reduction dim over the taps along spatial dim i, and where they read the operand.
int tapDim(PlanBuilder& b, const Node& node, const Window& w, const Affine& position, int i, Affine& operand) {
  int anchor = b.pureDim(position);
  b.setTaps(i, anchor);
  std::string key = "taps" + std::to_string(i) + "of" + std::to_string(reinterpret_cast<uintptr_t>(&node));
  int dim = b.reductionDim(key, w.kernel);
  Table low, high;
  bool bounded = false;
  for (int64_t p = 0; p < w.out; ++p) {
    auto [first, last] = taps(w, p, 0, w.in);
    low.ints.push_back(first);
    high.ints.push_back(last);
    bounded |= first != 0 || last != w.kernel;
  }
  if (bounded) {
    int lowTable = b.table(low), highTable = b.table(high);
    IterDim& iter = b.dim(dim);
    iter.anchor = anchor;
    iter.lowTable = lowTable;
    iter.highTable = highTable;
  }
  operand.constant = -w.padBegin;
  for (int d = 0; d < kMaxIterDims; ++d) operand.coef[d] = position.coef[d] * w.stride;
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
  bool isMax = node.op == "max_pool2d";
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
  ElementType type = isFloat ? ElementType::kF32 : node.type;
  int reduced = b.reduce(isMax ? ReduceKind::Max : ReduceKind::Sum, value, mask, type);
  if (isMax) return reduced;

  // The divisor: taps inside the input, or inside the padded input.
  bool includePad = node.intAttr("count_include_pad") != 0;
  int count = -1;
  double constantCount = 1;
  for (int i = 0; i < 2; ++i) {
    const Window& w = windows[i];
    Table counts;
    counts.type = ElementType::kF32;
    bool uniform = true;
    for (int64_t p = 0; p < w.out; ++p) {
      auto [first, last] = includePad ? taps(w, p, -w.padBegin, w.in + w.padEnd) : taps(w, p, 0, w.in);
      counts.floats.push_back(static_cast<float>(std::max<int64_t>(last - first, 1)));
      uniform &= counts.floats.back() == counts.floats.front();
    }
    if (uniform) {
      constantCount *= counts.floats.front();
      continue;
    }
    int loaded = b.loadTable(b.table(counts), b.pureDim(map[2 + i]));
    count = count < 0 ? loaded : b.lane("mul", {count, loaded}, ElementType::kF32);
  }
  // Divided, as means are (PlanRow): the average of equal numbers is that number.
  if (count < 0 && constantCount == 1) return reduced;
  int constant = b.constant(constantCount, ElementType::kF32);
  int divisor = count < 0 ? constant : constantCount == 1 ? count : b.lane("mul", {count, constant}, ElementType::kF32);
  return b.lane("div", {reduced, divisor}, ElementType::kF32);
}

int lowerDepthwise(PlanBuilder& b, const Node& node, const IndexMap& map) {
  const Node& x = b.node(node.operands[0]);
  const Node& w = b.node(node.operands[1]);
  int64_t groups = node.intAttr("groups", 1);
  if (groups != x.shape[1] || w.shape[0] != x.shape[1] || w.shape[1] != 1)
    return b.fail(node, "only depthwise convolutions (groups = channels) run on the TPC");
  if (!isFloatType(node.type)) return b.fail(node, "not defined for " + std::string(elementTypeName(node.type)));
  if (!ready(b, node, map)) return b.constant(0, node.type);
  IndexMap operandMap(map), weightMap(4);
  weightMap[0] = map[1];
  llvm::ArrayRef<int64_t> kernel = llvm::ArrayRef<int64_t>(w.shape).drop_front(2);
  uint32_t mask = 0;
  for (int i = 0; i < 2; ++i) {
    operandMap[2 + i] = Affine();
    int dim = tapDim(b, node, windowOf(node, x, kernel, i), map[2 + i], i, operandMap[2 + i]);
    weightMap[2 + i].coef[dim] = 1;
    mask |= 1u << dim;
  }
  int product =
      b.lane("mul", {b.lower(node.operands[0], operandMap), b.lower(node.operands[1], weightMap)}, ElementType::kF32);
  return b.reduce(ReduceKind::Sum, product, mask, ElementType::kF32);
}

}  // namespace

llvm::ArrayRef<OpLowering> windowLowerings() {
  static const OpLowering table[] = {{"max_pool2d", lowerPool}, {"avg_pool2d", lowerPool}, {"conv2d", lowerDepthwise}};
  return table;
}

}  // namespace hpu::kernels
