// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/KernelsPass.h"

#include "base/CpuFeatures.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/kernels/KernelCompiler.h"
#include "compiler/support/DiagnosticCapture.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

/// Numbers and, where sizes are given late, the texts of those that depend on them.
SymbolicNumbers::Numbers numbersOf(ArrayRef<int64_t> values, ArrayAttr names) {
  SymbolicNumbers::Numbers numbers(values.begin(), values.end());
  for (size_t i = 0; names && i < names.size() && i < numbers.size(); ++i)
    numbers[i] = ir::numberOf({values[i], dyn_cast<StringAttr>(names[i])});
  return numbers;
}

llvm::SmallVector<OperandView, 4> viewsOf(ArrayAttr operands) {
  llvm::SmallVector<OperandView, 4> views;
  for (Attribute attribute : operands) {
    auto operand = cast<sched::OperandAttr>(attribute);
    auto names = [&](llvm::StringRef field) {
      return operand.getLate() ? operand.getLate().getAs<ArrayAttr>(field) : ArrayAttr();
    };
    OperandView view;
    view.type = ir::elementType(operand.getElement());
    view.sizes = numbersOf(operand.getSizes(), names("sizes"));
    view.strides = numbersOf(operand.getStrides(), names("strides"));
    views.push_back(view);
  }
  return views;
}

/// Fills in the integers among a kernel's operands that are constants, where its price depends on one.
void findNumbers(sched::KernelOp kernel, llvm::MutableArrayRef<OperandView> views) {
  if (kernel.getBody().front().getOps<ir::SelectBoxesOp>().empty()) return;
  auto program = kernel->getParentOfType<sched::ProgramOp>();
  for (auto [attribute, view] : llvm::zip(kernel.getInputs(), views)) {
    auto operand = cast<sched::OperandAttr>(attribute);
    if (!operand.getSizes().empty() || !isa<IntegerType>(operand.getElement())) continue;
    for (auto constant : program.getOps<sched::ConstantOp>()) {
      auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (value && value.isSplat() && value.getElementType() == operand.getElement() &&
          constant.getSection() == operand.getSection() && constant.getOffset() == operand.getOffset())
        view.number = value.getSplatValue<APInt>().getSExtValue();
    }
  }
}

/// What a body has for sizes that are given late.
SymbolicNumbers symbolsOf(Operation* op) {
  SymbolicNumbers symbols;
  auto module = op->getParentOfType<ModuleOp>();
  if (!module || !module->hasAttr(ir::kSamplesAttr)) return symbols;
  symbols.bounds = ir::sizeBounds(module);
  symbols.sizes = [](Value value) {
    const ir::SymInts sizes = ir::symSizes(cast<RankedTensorType>(value.getType()));
    return SymbolicNumbers::Numbers(sizes.begin(), sizes.end());
  };
  symbols.attribute = [](Operation* op, llvm::StringRef name) -> SymbolicNumbers::Numbers {
    auto values = op->getAttrOfType<DenseI64ArrayAttr>(name);
    auto names = name == "starts" ? op->getAttrOfType<ArrayAttr>("start_symbols") : ArrayAttr();
    if (!values || !names) return {};
    return numbersOf(values.asArrayRef(), names);
  };
  return symbols;
}

class KernelsPass : public PassWrapper<KernelsPass, OperationPass<ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelsPass)
  explicit KernelsPass(KernelsPassOptions options) : options_(std::move(options)) {}
  StringRef getArgument() const override { return "hpu-kernels"; }
  StringRef getDescription() const override { return "Compiles TPC kernels to native images"; }

  void runOnOperation() override {
    auto program = getOperation().lookupSymbol<sched::ProgramOp>("main");
    if (!program) {
      getOperation().emitError("the module has no sched.program @main");
      return signalPassFailure();
    }
    SmallVector<sched::KernelOp> kernels(program.getBody().getOps<sched::KernelOp>());
    if (kernels.empty()) return;
    std::vector<KernelRequest> requests;
    for (sched::KernelOp kernel : kernels) requests.push_back(requestOf(kernel));
    KernelOptions options;
    options.optLevel = options_.optLevel;
    if (options_.cpu == "native") options.variants = {nativeVariant()};
    StatusOr<KernelSet> set = compileKernels(requests, options);
    if (!set.ok()) {
      ir::withCode(set.status().code(), getOperation().emitError()) << set.status().message();
      return signalPassFailure();
    }
    annotate(kernels, *set);
    if (options_.symbolic)
      for (CompiledKernel& kernel : set->kernels) options_.symbolic->push_back(std::move(kernel.symbolic));
    OpBuilder builder(kernels.back());
    builder.setInsertionPointAfter(kernels.back());
    int64_t bytes = 0;
    for (const recipe::KernelImage& image : set->images) {
      addImage(builder, program, image);
      bytes += image.bytes;
    }
    if (options_.summary)
      *options_.summary = llvm::formatv("{0} kernels, {1} distinct, {2} images of {3} KB in all", kernels.size(),
                                        set->distinct, set->images.size(), bytes / 1024)
                              .str();
  }

 private:
  static recipe::CpuVariant nativeVariant() {
    const StatusOr<base::CpuLevel> usable = base::usableCpuLevel();  // A bad setting is the runtime's to report.
    const base::CpuLevel level = usable.ok() ? *usable : base::detectCpuLevel();
    return level >= base::CpuLevel::kV4 ? recipe::CpuVariant::kX86_64_v4 : recipe::CpuVariant::kX86_64_v3;
  }

  void annotate(ArrayRef<sched::KernelOp> kernels, const KernelSet& set) {
    Builder builder(&getContext());
    for (auto [op, compiled] : llvm::zip(kernels, set.kernels)) {
      sched::KernelOp kernel = op;
      const recipe::TpcCost& cost = compiled.cost;
      kernel->setAttr("cost", builder.getDenseF64ArrayAttr({cost.loads, cost.stores, cost.vectorOps, cost.scalarOps}));
      kernel->setAttr("rank", builder.getI64IntegerAttr(compiled.rank));
      kernel->setAttr("whole_dims", builder.getI64IntegerAttr(compiled.wholeDims));
      kernel->setAttr("scratch_bytes", builder.getI64IntegerAttr(compiled.scratchBytes));
    }
  }

  static void addImage(OpBuilder& builder, sched::ProgramOp program, const recipe::KernelImage& image) {
    auto type = RankedTensorType::get({static_cast<int64_t>(image.bytes)}, builder.getI8Type());
    AsmResourceBlob blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(
        ArrayRef<char>(reinterpret_cast<const char*>(image.data), image.bytes), /*align=*/64);
    auto value = DenseResourceElementsAttr::get(type, "code", std::move(blob));
    SmallVector<int64_t> entries(image.entries.begin(), image.entries.end());
    sched::CodeOp::create(builder, program.getLoc(), static_cast<int32_t>(image.cpu), entries, value);
  }

  KernelsPassOptions options_;
};

}  // namespace

KernelRequest requestOf(sched::KernelOp kernel) {
  KernelRequest request = {kernel.getSymName().str(), &kernel.getBody().front(), viewsOf(kernel.getInputs()),
                           viewsOf(kernel.getOutputs()), symbolsOf(kernel)};
  findNumbers(kernel, request.inputs);
  return request;
}

std::unique_ptr<Pass> createKernelsPass(KernelsPassOptions options) {
  return std::make_unique<KernelsPass>(std::move(options));
}

}  // namespace hpu::kernels
