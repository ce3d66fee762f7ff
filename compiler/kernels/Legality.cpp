// SPDX-License-Identifier: Apache-2.0
// Which ops can be one kernel: those that the planner can plan, with operands that lie densely.
#include "compiler/kernels/ElementwiseOps.h"
#include "compiler/kernels/KernelCompiler.h"
#include "mlir/IR/BuiltinTypes.h"

namespace hpu::kernels {
namespace {

/// Stands for a free size: no size of a real model, and not 1.
constexpr int64_t kAnySize = 1999;

OperandView denseView(Node& node) {
  OperandView view;
  view.type = node.type;
  for (SymInt& size : node.shape)
    if (mlir::ShapedType::isDynamic(size.value())) size = kAnySize;
  view.sizes.assign(node.shape.begin(), node.shape.end());
  view.strides.assign(view.sizes.size(), 1);
  for (size_t d = view.sizes.size(); d-- > 1;) view.strides[d - 1] = view.strides[d] * view.sizes[d];
  return view;
}

}  // namespace

bool canFormKernel(llvm::ArrayRef<mlir::Operation*> ops, std::string* why) {
  auto refuse = [&](const Status& status) {
    if (why) *why = status.message();
    return false;
  };
  StatusOr<KernelGraph> graph = importOps(ops);
  if (!graph.ok()) return refuse(graph.status());
  // Code for a kernel takes time that grows faster than the kernel: functions of many instructions are counted.
  constexpr int kMostFunctions = 8;
  int functions = 0;
  for (const Node& node : graph->nodes)
    if (const ElementwiseOp* op = findElementwise(node.op); op && op->heavy) ++functions;
  if (functions > kMostFunctions && ops.size() > 1)
    return refuse(unimplemented("a TPC kernel of more than " + std::to_string(kMostFunctions) + " functions"));
  llvm::SmallVector<OperandView, 4> inputs(graph->numInputs), outputs;
  for (Node& node : graph->nodes) {
    OperandView view = denseView(node);
    if (node.kind == Node::Kind::Input) inputs[node.input] = view;
  }
  for (int result : graph->results) outputs.push_back(denseView(graph->nodes[result]));
  StatusOr<PlannedKernel> planned = planKernel(*graph, inputs, outputs);
  return planned.ok() || refuse(planned.status());
}

}  // namespace hpu::kernels
