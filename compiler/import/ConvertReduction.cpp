// SPDX-License-Identifier: Apache-2.0
// ONNX reductions, softmax and arg-max.
#include <limits>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/OpTable.h"

namespace hpu::importer {
namespace {

using base::strCat;
using interp::Tensor;
using ir::SymDim;
using ir::SymShape;
using mlir::ShapedType;

/// The axes to reduce; `isNoop` when the node asks for none on purpose.
std::optional<Ints> reduceAxes(NodeContext& node, Value x, bool& isNoop) {
  bool ok;
  isNoop = false;
  std::optional<Ints> axes = node.attributeOrInput("axes", 1, ok);
  if (!ok) return std::nullopt;
  if (!axes || axes->empty()) {
    isNoop = node.integer("noop_with_empty_axes", 0) != 0;
    axes.emplace();
    if (!isNoop)
      for (int64_t d = 0; d < node.rank(x); ++d) axes->push_back(d);
  }
  return node.axes(*axes, node.rank(x));
}

Value reduce(NodeContext& node, llvm::StringRef mnemonic, Value x, const Ints& axes, bool keepdims) {
  if (axes.empty()) return x;
  return node.op(mnemonic, x, {{"axes", axes}, {"keepdims", keepdims}});
}

void convertReduce(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  bool isNoop, keepdims = node.integer("keepdims", 1);
  std::optional<Ints> axes = reduceAxes(node, x, isNoop);
  if (!axes) return;
  if (node.elementOf(x).isInteger(1)) return node.unsupported("bool elements");
  llvm::StringRef op = node.def().op;
  if (!node.isFloat(x) && op == "ReduceLogSumExp") return node.unsupported("integer elements");
  // Of powers, and between a sum and what is made of it, nothing is stored narrow.
  Value result, wide = node.widened(x);
  // Sums of integers are exact; what is made of them is truncated.
  auto real = [&](Value sum) { return node.isFloat(x) ? sum : node.cast(sum, node.builder().getF64Type()); };
  if (op == "ReduceL1") {
    result = reduce(node, "reduce_sum", node.op("abs", x), *axes, keepdims);
  } else if (op == "ReduceL2") {
    result = node.op("sqrt", real(reduce(node, "reduce_sum", node.op("mul", {wide, wide}), *axes, keepdims)));
  } else if (op == "ReduceSumSquare") {
    result = reduce(node, "reduce_sum", node.op("mul", {wide, wide}), *axes, keepdims);
  } else if (op == "ReduceLogSum") {
    result = node.op("log", real(reduce(node, "reduce_sum", wide, *axes, keepdims)));
  } else if (op == "ReduceLogSumExp") {
    // Around the maximum, so that exp does not overflow; around 0 where the maximum is not finite.
    auto shift = [&](bool keeps) -> Value {
      Value max = reduce(node, "reduce_max", wide, *axes, keeps);
      if (!max || !node.isFloat(max)) return max;
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      Value finite = node.op("less", {node.op("abs", max), node.scalarLike(max, kInfinity)});
      return node.op("where", {finite, max, node.scalarLike(max, 0)});
    };
    Value sum = reduce(node, "reduce_sum", node.op("exp", node.op("sub", {wide, shift(true)})), *axes, keepdims);
    result = node.op("add", {node.op("log", sum), shift(keepdims)});
  } else {
    result = reduce(node, node.mnemonic(), x, *axes, keepdims);
  }
  if (result == x) return node.forward(0);
  node.setOutput(0, node.cast(result, node.elementOf(x)));
}

// ---- softmax -----------------------------------------------------------------------------------

/// Applies `fn(value, axis)` along the node's axis: before opset 13 the dims from the axis on are one.
template <typename Fn>
void alongAxis(NodeContext& node, Fn fn) {
  Value x = node.input(0);
  if (!x) return;
  if (!node.isFloat(x)) return node.invalid("needs float elements");
  int64_t rank = node.rank(x);
  std::optional<int64_t> axis = node.axis(node.integer("axis", node.opset() < 13 ? 1 : -1), rank);
  if (!axis) return;
  if (node.opset() >= 13 || *axis == rank - 1) return node.setOutput(0, fn(x, *axis));
  SymShape shape = ir::symShape(node.typeOf(x));
  auto sizes = NodeContext::dims(node.typeOf(x));
  auto tail = NodeContext::product(llvm::ArrayRef(sizes).drop_front(*axis));
  if (!tail) return node.needsSize("the dimensions that it flattens");
  SymShape flat(shape.begin(), shape.begin() + *axis);
  flat.push_back(node.symDim(tail));
  node.setOutput(0, node.reshape(fn(node.reshape(x, flat), *axis), shape));
}

void convertSoftmax(NodeContext& node) {
  alongAxis(node, [&](Value x, int64_t axis) { return node.op(node.mnemonic(), x, {{"axis", axis}}); });
}

void convertHardmax(NodeContext& node) {
  alongAxis(node, [&](Value x, int64_t axis) -> Value {
    if (!x) return {};
    // One operand counts along the axis, so that sizes may be free.
    ir::SymShape counted(static_cast<size_t>(node.rank(x)), ir::SymDim{1});
    const ir::SymDim size = ir::symShape(node.typeOf(x))[static_cast<size_t>(axis)];
    counted[static_cast<size_t>(axis)] = size;
    Value positions = node.reshape(node.range(ir::SymDim{0}, size, 1, ElementType::kI64), counted);
    Value hit = node.op("equal", {positions, node.op("arg_max", x, {{"axis", axis}, {"keepdims", true}})});
    return node.cast(hit, node.elementOf(x));
  });
}

// ---- arg-max -----------------------------------------------------------------------------------

void convertArg(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", 0), node.rank(x));
  if (!axis) return;
  bool keepdims = node.integer("keepdims", 1), last = node.integer("select_last_index", 0);
  // Of integers -1 - x or the largest number less x, which turn every order around; -x has no place for the least.
  if (node.def().op == "ArgMin") x = node.op(node.isFloat(x) ? "neg" : "bit_not", x);
  if (!x) return;
  ir::SymDim end;  // The last position.
  if (last) {
    // The last of equal ones is the first of the reversed dimension.
    const ir::SymShape shape = ir::symShape(node.typeOf(x));
    const std::optional<shape::DimExpr> size = ir::exprOf(shape[static_cast<size_t>(*axis)]);
    const auto before = size ? size->plus(-1) : std::nullopt;
    if (!before) return node.needsSize(strCat("dimension ", *axis));
    end = node.symDim(before);
    ir::SymShape starts(shape.size(), ir::SymDim{0});
    starts[static_cast<size_t>(*axis)] = end;
    Ints steps(shape.size(), 1);
    steps[*axis] = -1;
    x = node.slice(x, starts, shape, steps);
  }
  Value index = node.op("arg_max", x, {{"axis", *axis}, {"keepdims", keepdims}});
  if (last)
    index = node.op(
        "sub", {node.reshape(node.range(end, ir::SymDim{1}, 1, ElementType::kI64), llvm::ArrayRef<int64_t>{}), index});
  node.setOutput(0, index);
}

void convertTopK(NodeContext& node) {
  Value x = node.input(0);
  if (!x) return;
  std::optional<int64_t> axis = node.axis(node.integer("axis", -1), node.rank(x));
  if (!axis) return;
  std::optional<shape::DimExpr> count;
  if (node.opset() < 10) {
    count = shape::DimExpr(node.integer("k", 0));
  } else if (std::optional<ShapeElements> k = node.elements(1); k && k->values.size() == 1) {
    count = k->values[0];
    if (!count) return node.needsSize("k depends on a free dimension");
  } else {
    return node.unsupported("a k that is not known at import");
  }
  const bool largest = node.integer("largest", 1) != 0;
  const std::optional<int64_t> number = count->constant();
  if (number == 1 && largest) {
    if (node.wants(0)) node.setOutput(0, node.op("reduce_max", x, {{"axes", Ints{*axis}}, {"keepdims", true}}));
    if (node.wants(1)) node.setOutput(1, node.op("arg_max", x, {{"axis", *axis}, {"keepdims", true}}));
    return;
  }
  const int64_t size = node.typeOf(x).getDimSize(*axis);
  if (number && (*number < 0 || (!mlir::ShapedType::isDynamic(size) && *number > size)))
    return node.invalid(base::strCat("k is ", *number, " of ", size, " elements"));
  // Whether they have to be sorted or not, they are.
  const ir::SymDim dim = node.symDim(count);
  Ints sizes = {dim.size};
  mlir::ArrayAttr symbols = dim.symbol ? node.builder().getArrayAttr({dim.symbol}) : mlir::ArrayAttr();
  Value indices =
      node.op("top_indices", x,
              {{"axis", *axis}, {"sizes", sizes}, {"largest", largest}, {"symbols", mlir::Attribute(symbols)}});
  if (node.wants(1)) node.setOutput(1, indices);
  if (node.wants(0)) node.setOutput(0, node.op("gather_elements", {x, indices}, {{"axis", *axis}}));
}

constexpr OpRow kRows[] = {
    {"ReduceSum", 1, kNewestOpset, convertReduce, "reduce_sum", "constant axes, no bool"},
    {"ReduceMean", 1, kNewestOpset, convertReduce, "reduce_mean",
     "constant axes, no bool; sums of 64-bit integers wrap"},
    {"ReduceMax", 1, kNewestOpset, convertReduce, "reduce_max", "constant axes, no bool"},
    {"ReduceMin", 1, kNewestOpset, convertReduce, "reduce_min", "constant axes, no bool"},
    {"ReduceProd", 1, kNewestOpset, convertReduce, "reduce_prod", "constant axes, no bool"},
    {"ReduceL1", 1, kNewestOpset, convertReduce, "", "constant axes, no bool"},
    {"ReduceL2", 1, kNewestOpset, convertReduce, "", "constant axes, no bool"},
    {"ReduceSumSquare", 1, kNewestOpset, convertReduce, "", "constant axes, no bool"},
    {"ReduceLogSum", 1, kNewestOpset, convertReduce, "", "constant axes, no bool"},
    {"ReduceLogSumExp", 1, kNewestOpset, convertReduce, "", "constant axes, floats"},
    {"Softmax", 1, kNewestOpset, convertSoftmax, "softmax"},
    {"LogSoftmax", 1, kNewestOpset, convertSoftmax, "log_softmax"},
    {"Hardmax", 1, kNewestOpset, convertHardmax},
    {"ArgMax", 1, kNewestOpset, convertArg},
    {"ArgMin", 1, kNewestOpset, convertArg},
    {"TopK", 1, kNewestOpset, convertTopK, "top_indices", "a k that is constant, follows from sizes, or is an input"},
};

}  // namespace

llvm::ArrayRef<OpRow> reductionRows() {
  return kRows;
}

}  // namespace hpu::importer
