// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/OrderKernel.h"

#include <algorithm>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/HostObjects.h"
#include "compiler/kernels/OrderCode.h"
#include "compiler/kernels/TpcOrder.h"

namespace hpu::kernels {
namespace {

using namespace ir;

std::optional<order::Kind> kindOf(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return order::Kind::kFloat32;
    case ElementType::kF16:
      return order::Kind::kFloat16;
    case ElementType::kBF16:
      return order::Kind::kBfloat;
    case ElementType::kF64:
      return order::Kind::kFloat64;
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU32:
    case ElementType::kU64:
      return order::Kind::kUnsigned;
    case ElementType::kI8:
    case ElementType::kI16:
    case ElementType::kI32:
    case ElementType::kI64:
      return order::Kind::kSigned;
    default:
      return std::nullopt;
  }
}

/// The results of a graph that is one top_indices of an operand, and perhaps the elements that it names.
struct Results {
  const Node* top = nullptr;
  int indices = -1, values = -1;  ///< Which of the kernel's results they are.
};
std::optional<Results> resultsOf(const KernelGraph& graph) {
  Results results;
  for (const Node& node : graph.nodes)
    if (node.is<TopIndicesOp>()) results.top = &node;
  if (!results.top || graph.numInputs != 1) return std::nullopt;
  const int x = results.top->operands[0];
  if (graph.nodes[x].kind != Node::Kind::Input) return std::nullopt;
  for (size_t k = 0; k < graph.results.size(); ++k) {
    const Node& node = graph.nodes[graph.results[k]];
    const bool isTop = &node == results.top;
    const bool isValue = node.is<GatherElementsOp>() && node.operands[0] == x &&
                         &graph.nodes[node.operands[1]] == results.top &&
                         node.intAttr("axis") == results.top->intAttr("axis");
    int& place = isTop ? results.indices : results.values;
    if ((!isTop && !isValue) || place >= 0) return std::nullopt;
    place = static_cast<int>(k);
  }
  const size_t ops = results.values >= 0 ? 2 : 1;
  if (graph.nodes.size() != 1 + ops) return std::nullopt;
  return results;
}

}  // namespace

// Rows are dealt out to the TPCs as wholes: the model deals by `stores`, so each row has one, and what else it stores
// counts as loads, which hold the other slot for as long.
recipe::TpcCost costOfRows(const OrderCycles& row, double rows, double points) {
  // As many rows as two a TPC (of Gaudi 2) hide each other's waits; fewer have their phases one after the other.
  constexpr double kRowsThatHide = 48;
  const double each = rows / std::max(points, 1.0);
  recipe::TpcCost cost;
  cost.vectorOps = each * (rows < kRowsThatHide ? row.vectorOps + row.scalarOps : row.vectorOps);
  cost.scalarOps = each * (row.scalarOps + row.loads + row.stores);
  cost.loads = each * std::max(row.loads, row.stores);
  cost.stores = each;
  return cost;
}

Status takeNumbers(PlannedKernel& kernel, std::shared_ptr<NativeKernel> native) {
  bool isLate = false;
  for (const SymInt& number : native->dims) {
    if (number.isUnknown())
      return unimplemented("a kernel needs a size that no expression of the free dimensions gives");
    isLate |= !number.isConstant();
  }
  for (const SymInt& number : native->space) isLate |= !number.isConstant();
  if (isLate) kernel.dims = native->dims;
  kernel.native = std::move(native);
  return okStatus();
}

std::optional<PlannedKernel> planOrderKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                             llvm::ArrayRef<OperandView> outputs) {
  const std::optional<Results> results = resultsOf(graph);
  if (!results || inputs.size() != 1 || outputs.size() != graph.results.size()) return std::nullopt;
  const Node& node = *results->top;
  const OperandView &x = inputs[0], &out = outputs[0];
  const std::optional<order::Kind> kind = kindOf(x.type);
  const auto axis = static_cast<size_t>(node.intAttr("axis"));
  const size_t rank = x.sizes.size();
  if (!kind || rank > static_cast<size_t>(order::kMostRank) || axis >= rank || x.strides.size() != rank)
    return std::nullopt;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const bool isIndices = static_cast<int>(k) == results->indices;
    if (outputs[k].sizes.size() != rank || outputs[k].strides.size() != rank || outputs[k].sizes != out.sizes ||
        outputs[k].type != (isIndices ? ElementType::kI64 : x.type))
      return std::nullopt;
  }
  const SymInt &size = x.sizes[axis], &count = out.sizes[axis];
  if (count == 1 && results->values < 0) return std::nullopt;
  if (results->indices < 0 && (!size.isConstant() || size.value() > order::kMostWithoutIndices)) return std::nullopt;

  auto native = std::make_shared<NativeKernel>();
  const int64_t bytes = elementSize(x.type);
  const HostObject object = orderObject(bytes);
  native->object = object.v3.str();
  native->objectV4 = object.v4.str();
  native->entry = "hpu_top_indices";
  native->scratchBytes = order::kScratchBytes;
  native->space = out.sizes;
  native->dims = {SymInt(static_cast<int64_t>(rank)),
                  SymInt(static_cast<int64_t>(axis)),
                  SymInt(static_cast<int64_t>(*kind)),
                  SymInt(node.intAttr("largest", 1)),
                  size,
                  count,
                  SymInt(results->indices < 0 ? -1 : 1 + results->indices),
                  SymInt(results->values < 0 ? -1 : 1 + results->values)};
  auto addStrides = [&](const OperandView* view) {
    for (size_t d = 0; d < rank; ++d) native->dims.push_back(view ? view->strides[d] : SymInt(0));
  };
  addStrides(&x);
  for (int result : {results->indices, results->values})
    addStrides(result < 0 ? nullptr : &outputs[static_cast<size_t>(result)]);
  double rows = 1;
  for (size_t d = 0; d < rank; ++d)
    if (d != axis) rows *= static_cast<double>(out.sizes[d].value());

  OrderedElements elements;
  elements.bytes = bytes;
  const bool isFloat = isFloatType(x.type), isRising = node.intAttr("largest", 1) == 0;
  // SortKey; narrow elements are widened first. Keys that rise are those that fall, turned round.
  elements.keyOps = (isFloat ? 4 : 0) + (bytes < 4 ? 1 : 0) + (isRising ? 1 : 0);
  OrderCycles row = tpcOrderCycles(planTpcOrder(size.value(), count.value(), elements));
  if (results->values >= 0) row += pickedCycles(count.value(), elements);
  native->cost = costOfRows(row, rows, rows * static_cast<double>(count.value()));
  // However few are picked: each element is compared once, and selects its key and position.
  native->leastVectorOps = rows * static_cast<double>(size.value()) / 64 * (isFloat ? 7 : 3) * (bytes == 8 ? 2 : 1);

  PlannedKernel kernel;
  kernel.rank = static_cast<uint32_t>(rank);
  kernel.wholeDims = 1u << axis;
  kernel.numInputs = 1;
  kernel.numOutputs = static_cast<int>(outputs.size());
  std::vector<SymDimRead>& reads = kernel.reads.emplace_back();
  for (size_t d = 0; d < rank; ++d) {
    SymDimRead read;
    if (d != axis) read.dim = static_cast<int>(d), read.scale = 1;
    reads.push_back(read);
  }
  if (!takeNumbers(kernel, std::move(native)).ok()) return std::nullopt;
  return kernel;
}

}  // namespace hpu::kernels
