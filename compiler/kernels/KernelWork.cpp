// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/KernelWork.h"

#include <cmath>

#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/KernelGraph.h"
#include "compiler/kernels/LoopEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

/// The first of the largest: compare, and select value and position.
constexpr double kArgMaxOps = 3;

OperandView denseView(const Node& node) {
  OperandView view;
  view.type = node.type;
  view.sizes.assign(node.shape.begin(), node.shape.end());
  view.strides.assign(view.sizes.size(), 1);
  for (size_t d = view.sizes.size(); d-- > 1;) view.strides[d - 1] = view.strides[d] * view.sizes[d];
  return view;
}

double elements(const KernelPlan& plan, uint32_t dims) {
  double count = 1;
  for (size_t d = 0; d < plan.dims.size(); ++d)
    if (dims >> d & 1) count *= extent(plan, static_cast<int>(d));
  return count;
}

}  // namespace

struct WorkCounter::State {
  State() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                        vector::VectorDialect>();
  }
  MLIRContext context;
};

WorkCounter::WorkCounter() : state_(std::make_unique<State>()) {}
WorkCounter::~WorkCounter() = default;

double WorkCounter::laneCost(const Prim& prim, llvm::ArrayRef<Prim> prims) {
  // It may be, if it varies with less than the result: the lanes may lie along the rest.
  auto isUniform = [&](int operand) { return prims[operand].deps != prim.deps; };
  std::string key;
  auto number = [&](auto value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  number(prim.op);
  number(prim.in);
  number(prim.type);
  for (int operand : prim.operands) {
    number(prims[operand].type);
    number(prims[operand].kind == Prim::Kind::Constant ? prims[operand].number : std::nan(""));
    number(isUniform(operand));
  }
  for (double p : prim.params) number(p);
  auto [it, inserted] = laneCosts_.emplace(std::move(key), 0);
  if (!inserted) return it->second;

  MLIRContext* context = &state_->context;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  OpBuilder b(module->getBodyRegion());
  SmallVector<Type> arguments;
  for (int operand : prim.operands)
    arguments.push_back(VectorType::get({kTpcLanes}, computeType(context, prims[operand].type)));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), arguments);
  auto function = LLVM::LLVMFuncOp::create(b, b.getUnknownLoc(), "lane", type);
  Block* entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  VectorMath math(b, b.getUnknownLoc(), entry);
  auto done = LLVM::ReturnOp::create(b, b.getUnknownLoc(), ValueRange());
  b.setInsertionPoint(done);
  // With a number that is the same in all lanes some ops cost less.
  SmallVector<Value> values(entry->getArguments());
  for (auto [value, operand] : llvm::zip(values, prim.operands)) {
    if (prims[operand].kind == Prim::Kind::Constant && isFloatType(prims[operand].type))
      value = math.constant(value.getType(), prims[operand].number);
    else if (isUniform(operand))
      value = math.broadcast(vector::ExtractOp::create(b, b.getUnknownLoc(), value, 0), kTpcLanes);
  }
  prim.op->emit(math, values, {prim.in, prim.type, prim.params});
  return it->second = kernelCost(*module, 1).vectorOps;
}

double WorkCounter::vectorOps(const PlannedKernel& kernel) {
  if (kernel.native) {
    if (kernel.native->leastVectorOps) return *kernel.native->leastVectorOps;
    double points = 1;
    for (const SymInt& size : kernel.native->space) points *= static_cast<double>(size.value());
    return kernel.native->cost.vectorOps * points;
  }
  double total = 0;
  for (const KernelPlan& plan : kernel.pieces) {
    std::vector<int> uses(plan.prims.size(), 0);
    for (size_t p = 0; p < plan.prims.size(); ++p)
      if (plan.reachable[p])
        for (int operand : plan.prims[p].operands) ++uses[operand];
    // A product that is only summed costs nothing beside the sum.
    std::vector<bool> free(plan.prims.size(), false);
    for (size_t p = 0; p < plan.prims.size(); ++p) {
      const Prim& prim = plan.prims[p];
      if (!plan.reachable[p]) continue;
      if (prim.kind == Prim::Kind::Pick)  // However few are picked.
        total += elements(plan, plan.prims[prim.operands[0]].deps) / kTpcLanes * kArgMaxOps;
      if (prim.kind != Prim::Kind::Reduce) continue;
      int operand = prim.operands[0];
      const Prim& source = plan.prims[operand];
      free[operand] = prim.reduce == ReduceKind::Sum && uses[operand] == 1 && source.kind == Prim::Kind::Lane &&
                      source.op->is<ir::MulOp>();
      total += elements(plan, source.deps | prim.reduceDims) / kTpcLanes *
               (prim.reduce == ReduceKind::ArgMax ? kArgMaxOps
                : reducesNarrow(plan, prim)       ? kNarrowReduction
                                                  : 1);
    }
    for (size_t p = 0; p < plan.prims.size(); ++p) {
      const Prim& prim = plan.prims[p];
      if (!plan.reachable[p] || prim.kind != Prim::Kind::Lane || free[p]) continue;
      total += elements(plan, prim.deps) / kTpcLanes * laneCost(prim, plan.prims);
    }
  }
  return total;
}

StatusOr<double> WorkCounter::vectorOps(Operation* op) {
  HPU_ASSIGN(KernelGraph graph, importOps({op}));
  SmallVector<OperandView, 4> inputs(graph.numInputs), outputs;
  for (const Node& node : graph.nodes)
    if (node.kind == Node::Kind::Input) inputs[node.input] = denseView(node);
  for (int result : graph.results) outputs.push_back(denseView(graph.nodes[result]));
  HPU_ASSIGN(PlannedKernel planned, planKernel(graph, inputs, outputs));
  return vectorOps(planned);
}

}  // namespace hpu::kernels
