// SPDX-License-Identifier: Apache-2.0
// Prints the vector-level IR of the clusters of a function: `hpu-opt --hpu-kernel-ir`.
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/kernels/KernelsPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

/// The view of a value that lies densely in its type's physical order.
OperandView denseView(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  OperandView view;
  view.type = ir::elementType(type.getElementType());
  view.sizes.assign(type.getShape().begin(), type.getShape().end());
  llvm::SmallVector<int64_t> strides = ir::denseStrides(type);
  view.strides.assign(strides.begin(), strides.end());
  return view;
}

class KernelIrPass : public PassWrapper<KernelIrPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelIrPass)
  KernelIrPass() = default;
  KernelIrPass(const KernelIrPass& other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "hpu-kernel-ir"; }
  StringRef getDescription() const override {
    return "Prints the vector-level IR of each hpu.cluster, with operands that lie densely";
  }

  void runOnOperation() override {
    bool failed = false;
    getOperation().walk([&](ir::ClusterOp cluster) {
      KernelRequest request;
      request.name = cluster->getParentOfType<func::FuncOp>().getSymName().str();
      request.body = &cluster.getBody().front();
      for (Value operand : cluster.getOperands()) request.inputs.push_back(denseView(operand));
      for (Value result : cluster.getResults()) request.outputs.push_back(denseView(result));
      bool wide = cpu == "x86-64-v4";
      StatusOr<std::string> text =
          kernelIr(request, wide ? recipe::CpuVariant::kX86_64_v4 : recipe::CpuVariant::kX86_64_v3);
      if (!text.ok()) {
        cluster.emitError(text.status().message());
        failed = true;
        return;
      }
      llvm::outs() << "// kernel " << request.name << " for " << cpu << "\n" << *text;
    });
    if (failed) signalPassFailure();
  }

  Option<std::string> cpu{*this, "cpu", llvm::cl::desc("x86-64-v3 or x86-64-v4"), llvm::cl::init("x86-64-v4")};
};

}  // namespace

std::unique_ptr<Pass> createKernelIrPass() {
  return std::make_unique<KernelIrPass>();
}

}  // namespace hpu::kernels
