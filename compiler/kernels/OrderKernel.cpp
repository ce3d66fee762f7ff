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

/// Of a point of the result. Rows are dealt out to the TPCs as wholes: the model deals by `stores`, so each row has
/// one, and what else it stores counts as loads, which hold the other slot for as long.
recipe::TpcCost costOf(const OrderCycles& row, double rows, double points) {
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

}  // namespace

std::optional<PlannedKernel> planOrderKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                             llvm::ArrayRef<OperandView> outputs) {
  if (graph.nodes.size() != 2 || inputs.size() != 1 || outputs.size() != 1) return std::nullopt;
  const Node& node = graph.nodes[graph.results[0]];
  if (!node.is<TopIndicesOp>() || graph.nodes[node.operands[0]].kind != Node::Kind::Input) return std::nullopt;
  const OperandView &x = inputs[0], &out = outputs[0];
  const std::optional<order::Kind> kind = kindOf(x.type);
  const auto axis = static_cast<size_t>(node.intAttr("axis"));
  const size_t rank = x.sizes.size();
  if (!kind || rank > static_cast<size_t>(order::kMostRank) || out.sizes.size() != rank || axis >= rank)
    return std::nullopt;
  if (out.type != ElementType::kI64 || x.strides.size() != rank || out.strides.size() != rank) return std::nullopt;
  const SymInt &size = x.sizes[axis], &count = out.sizes[axis];
  if (count == 1) return std::nullopt;

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
                  count};
  for (const OperandView* view : {&x, &out})
    native->dims.insert(native->dims.end(), view->strides.begin(), view->strides.end());
  double rows = 1;
  for (size_t d = 0; d < rank; ++d)
    if (d != axis) rows *= static_cast<double>(out.sizes[d].value());

  OrderedElements elements;
  elements.bytes = bytes;
  const bool isFloat = isFloatType(x.type), isRising = node.intAttr("largest", 1) == 0;
  // SortKey; narrow elements are widened first. Keys that rise are those that fall, turned round.
  elements.keyOps = (isFloat ? 4 : 0) + (bytes < 4 ? 1 : 0) + (isRising ? 1 : 0);
  const OrderCycles row = tpcOrderCycles(planTpcOrder(size.value(), count.value(), elements));
  native->cost = costOf(row, rows, rows * static_cast<double>(count.value()));
  // However few are picked: each element is compared once, and selects its key and position.
  native->leastVectorOps = rows * static_cast<double>(size.value()) / 64 * (isFloat ? 7 : 3) * (bytes == 8 ? 2 : 1);

  PlannedKernel kernel;
  kernel.rank = static_cast<uint32_t>(rank);
  kernel.wholeDims = 1u << axis;
  kernel.numInputs = kernel.numOutputs = 1;
  std::vector<SymDimRead>& reads = kernel.reads.emplace_back();
  for (size_t d = 0; d < rank; ++d) {
    SymDimRead read;
    if (d != axis) read.dim = static_cast<int>(d), read.scale = 1;
    reads.push_back(read);
  }
  bool isLate = false;
  for (const SymInt& number : native->dims) {
    if (number.isUnknown()) return std::nullopt;
    isLate |= !number.isConstant();
  }
  for (const SymInt& number : native->space) isLate |= !number.isConstant();
  if (isLate) kernel.dims = native->dims;
  kernel.native = std::move(native);
  return kernel;
}

}  // namespace hpu::kernels
