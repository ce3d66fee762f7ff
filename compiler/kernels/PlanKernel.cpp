// SPDX-License-Identifier: Apache-2.0
// A kernel's plans: one for each piece of a concat or pad, with the numbers that are known at launch. What only moves
// f64 is planned as a kernel of i64.
#include <cmath>
#include <optional>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/BoxesKernel.h"
#include "compiler/kernels/OrderKernel.h"
#include "compiler/kernels/PlanBuilder.h"
#include "hpu/types.h"
#include "llvm/ADT/DenseSet.h"

namespace hpu::kernels {
using namespace ir;
namespace {

/// The numbers of a plan that are known at launch, each once.
void collectNumbers(const KernelPlan& plan, std::vector<SymInt>& numbers) {
  auto add = [&](const SymInt& number) {
    if (!number.isConstant() && !llvm::is_contained(numbers, number)) numbers.push_back(number);
  };
  auto addAddress = [&](const Affine& address) {
    for (const SymInt& coef : address.coef) add(coef);
    add(address.constant);
    for (const Term& term : address.terms) add(term.factor);
  };
  auto addTaps = [&](const std::optional<TapBounds>& taps) {
    if (!taps) return;
    add(taps->low);
    add(taps->high);
  };
  for (const IterDim& dim : plan.dims) {
    add(dim.size);
    addTaps(dim.taps);
  }
  for (const auto* box : {&plan.boxLow, &plan.boxHigh})
    for (const SymInt& end : *box) add(end);
  add(plan.windowLow);
  add(plan.windowHigh);
  for (size_t p = 0; p < plan.prims.size(); ++p) {
    const Prim& prim = plan.prims[p];
    if (!plan.reachable[p]) continue;
    addAddress(prim.address);
    addTaps(prim.taps);
    if (prim.kind == Prim::Kind::Size) add(prim.size);
  }
  for (const Store& store : plan.stores) addAddress(store.address);
}

/// A kernel that only moves f64 does not care what the bits mean: the same kernel over i64, which
/// TPCs have. Nothing when the f64 of the graph are computed with, or there are none.
std::optional<KernelGraph> movedAsBits(const KernelGraph& graph) {
  static const auto& kMovements = *new llvm::DenseSet<mlir::TypeID>{
      kind<TransposeOp>(), kind<RelayoutOp>(),  kind<ReshapeOp>(),        kind<SliceOp>(),
      kind<ExpandOp>(),    kind<ConcatOp>(),    kind<GatherOp>(),         kind<GatherElementsOp>(),
      kind<BitcastOp>(),   kind<ScatterNdOp>(), kind<ScatterElementsOp>()};
  auto isF64 = [&](int node) { return graph.nodes[node].type == ElementType::kF64; };
  KernelGraph bits = graph;
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    bool touches = isF64(static_cast<int>(i)) || llvm::any_of(node.operands, isF64);
    if (!touches) continue;
    const bool isPlusZero = node.kind == Node::Kind::Splat && node.splat == 0 && !std::signbit(node.splat);
    const bool isMoved =
        kMovements.contains(node.op) &&
        (node.op == kind<BitcastOp>() || node.intAttr("mode") == static_cast<int64_t>(ScatterMode::replace));
    if (node.kind == Node::Kind::Op ? !isMoved : node.kind == Node::Kind::Splat && !isPlusZero) return std::nullopt;
    if (node.type == ElementType::kF64) bits.nodes[i].type = ElementType::kI64;
    any = true;
  }
  if (!any) return std::nullopt;
  return bits;
}

llvm::SmallVector<OperandView, 4> viewsAsBits(llvm::ArrayRef<OperandView> views) {
  llvm::SmallVector<OperandView, 4> bits(views.begin(), views.end());
  for (OperandView& view : bits)
    if (view.type == ElementType::kF64) view.type = ElementType::kI64;
  return bits;
}

}  // namespace

StatusOr<PlannedKernel> planKernel(const KernelGraph& graph, llvm::ArrayRef<OperandView> inputs,
                                   llvm::ArrayRef<OperandView> outputs, const shape::SymbolBounds& bounds) {
  if (std::optional<StatusOr<PlannedKernel>> native = planNative(graph, inputs, outputs)) return *std::move(native);
  if (std::optional<StatusOr<PlannedKernel>> boxes = planBoxesKernel(graph, inputs, outputs)) return *std::move(boxes);
  if (std::optional<PlannedKernel> ordered = planOrderKernel(graph, inputs, outputs)) return *std::move(ordered);
  if (std::optional<KernelGraph> bits = movedAsBits(graph))
    return planKernel(*bits, viewsAsBits(inputs), viewsAsBits(outputs), bounds);
  // A pad of all dimensions that an operand can have: its middle and two edges each. The parts of a
  // longer concatenation are copied one by one (compiler/schedule).
  constexpr int kMaxNodes = 96, kMaxRank = 8, kMaxPieces = 1 + 2 * kMaxRank;
  if (graph.nodes.size() > kMaxNodes)
    return unimplemented("a TPC kernel of more than " + std::to_string(kMaxNodes) + " operands and ops");
  for (const OperandView& view : outputs)
    if (!isKernelType(view.type))
      return unimplemented("element type " + std::string(elementTypeName(view.type)) +
                           " is not supported by TPC kernels; compile the model with another precision");
  PlannedKernel result;
  result.numInputs = static_cast<int>(inputs.size());
  result.numOutputs = static_cast<int>(outputs.size());
  for (int piece = 0, pieces = 1; piece < pieces; ++piece) {
    PlanBuilder builder(graph, inputs, outputs, piece);
    StatusOr<KernelPlan> plan = builder.build();
    if (!plan.ok()) return plan.status();
    pieces = builder.pieces();
    if (pieces > kMaxPieces)
      return unimplemented("a concat or pad of more than " + std::to_string(kMaxPieces) + " pieces");
    std::optional<KernelPlan> ofHost;
    if (plan->isResized) ofHost = *plan;
    if (Status status = finishPlan(*plan, bounds); !status.ok()) return status;
    if (const int dim = ofHost ? hostVectorDim(*plan) : -1; dim >= 0) {
      if (Status status = finishPlan(*ofHost, bounds, dim); !status.ok()) return status;
      plan->host = std::make_shared<const KernelPlan>(*std::move(ofHost));
    }
    result.rank = static_cast<uint32_t>(plan->rank);
    for (int d = 0; d < plan->rank; ++d)
      if (plan->dims[d].row) result.wholeDims |= 1u << d;
    result.reads.resize(inputs.size());
    for (size_t i = 0; i < plan->reads.size(); ++i)
      if (!plan->reads[i].empty()) uniteReads(result.reads[i], plan->reads[i]);
    bool empty = false;
    for (int d = 0; d < plan->rank; ++d) {
      // What may have elements for some sizes has its loops.
      const std::optional<int64_t> extent = (plan->boxHigh[d] - plan->boxLow[d]).constant();
      empty |= extent && *extent <= 0;
    }
    if (!empty) result.pieces.push_back(std::move(*plan));
  }
  for (const KernelPlan& plan : result.pieces) {
    collectNumbers(plan, result.dims);
    if (plan.host) collectNumbers(*plan.host, result.dims);
  }
  for (const SymInt& number : result.dims)
    if (number.isUnknown())
      return unimplemented("a TPC kernel needs a number that no expression of the free dimensions gives");
  return result;
}

}  // namespace hpu::kernels
