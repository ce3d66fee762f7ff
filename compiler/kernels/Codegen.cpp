// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/Codegen.h"

#include <mutex>

#include "compiler/kernels/KernelCost.h"
#include "compiler/kernels/NativeKernel.h"
#include "compiler/kernels/Staging.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace hpu::kernels {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

DialectRegistry dialects() {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect,
                  vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  return registry;
}

/// LLVM's tuning for v4 takes gathers apart, lane by lane, for the sake of CPUs whose microcode
/// makes them slow; on others that is several times slower.
const char* tuningOf(const VariantTraits& traits) {
  return llvm::StringRef(traits.cpu) == "x86-64-v4" ? "+fast-gather,-prefer-no-gather" : "";
}

Status initialiseTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  return okStatus();
}

}  // namespace

// Measured on a Sapphire Rapids CPU: on v3, 64 lanes (8 registers a value) spill and are slower
// than 32 for gelu and long polynomials; 16 lose 10-20% to latency. On v4, 64 win 10-20% over 32.
VariantTraits traitsOf(recipe::CpuVariant variant) {
  if (variant == recipe::CpuVariant::kX86_64_v4) return {"x86-64-v4", 64, true, 4};
  return {"x86-64-v3", 32, false, 2};
}

struct Codegen::State {
  State() : context(dialects(), MLIRContext::Threading::DISABLED), converter(&context) {
    context.loadAllAvailableDialects();
    RewritePatternSet loops(&context);
    populateSCFToControlFlowConversionPatterns(loops);
    structured = FrozenRewritePatternSet(std::move(loops));
    RewritePatternSet patterns(&context);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns);
    populateVectorToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    toLlvm = FrozenRewritePatternSet(std::move(patterns));
  }

  /// The vector-level IR in place to the LLVM dialect.
  LogicalResult lower(ModuleOp module) {
    ConversionTarget noLoops(context);
    noLoops.addIllegalDialect<scf::SCFDialect>();
    noLoops.markUnknownOpDynamicallyLegal([](Operation*) { return true; });
    if (failed(applyPartialConversion(module, noLoops, structured))) return failure();
    LLVMConversionTarget target(context);
    target.addLegalOp<ModuleOp>();
    return applyFullConversion(module, target, toLlvm);
  }

  llvm::TargetMachine* machine(const VariantTraits& traits, int optLevel, std::string& error) {
    std::unique_ptr<llvm::TargetMachine>& slot = machines[{traits.cpu, optLevel}];
    if (slot) return slot.get();
    llvm::Triple triple(kTriple);
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (!target) return nullptr;
    llvm::TargetOptions options;
    options.FunctionSections = false;
    auto level = static_cast<llvm::CodeGenOptLevel>(std::clamp(optLevel, 0, 3));
    slot.reset(target->createTargetMachine(triple, traits.cpu, tuningOf(traits), options, llvm::Reloc::PIC_,
                                           llvm::CodeModel::Small, level));
    return slot.get();
  }

  MLIRContext context;
  LLVMTypeConverter converter;
  FrozenRewritePatternSet structured, toLlvm;
  std::map<std::pair<std::string, int>, std::unique_ptr<llvm::TargetMachine>> machines;
};

Codegen::Codegen() : state_(std::make_unique<State>()) {}
Codegen::~Codegen() = default;

recipe::TpcCost Codegen::cost(const PlannedKernel& kernel, double points, std::vector<CostTerm>* terms) {
  ++uses_;
  if (kernel.native) return nativeCost(*kernel.native, !kernel.dims.empty() ? terms : nullptr);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&state_->context));
  VariantTraits traits = traitsOf(recipe::CpuVariant::kX86_64_v4);
  traits.forCost = true;
  traits.windowOutputs = kTpcWindowOutputs;
  std::vector<SymInt> trips;
  emitKernel(*module, kEntryName, kernel, traits, &trips);
  const bool isSymbolic = terms && !kernel.dims.empty();
  if (isSymbolic) *terms = kernelCostTerms(*module, trips);
  recipe::TpcCost cost = kernelCost(*module, points), staging = stagingCost(kernel, isSymbolic ? terms : nullptr);
  double each = 1.0 / std::max(points, 1.0);
  cost.loads += staging.loads * each;
  cost.stores += staging.stores * each;
  cost.vectorOps += staging.vectorOps * each;
  return cost;
}

StatusOr<KernelObject> Codegen::compile(const PlannedKernel& kernel, const VariantTraits& traits, int optLevel) {
  if (Status status = initialiseTarget(); !status.ok()) return status;
  ++uses_;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&state_->context));
  KernelObject result;
  if (kernel.native) {
    emitNative(*module, kEntryName, kernel);
    const bool hasOwn = traits.cpu == traitsOf(recipe::CpuVariant::kX86_64_v4).cpu && !kernel.native->objectV4.empty();
    result.native = hasOwn ? kernel.native->objectV4 : kernel.native->object;
    result.nativeEntry = kernel.native->entry;
  } else {
    emitKernel(*module, kEntryName, kernel, traits);
  }
  if (failed(state_->lower(*module))) return internalError("lowering a TPC kernel to LLVM failed");

  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> ir = translateModuleToLLVMIR(*module, llvmContext);
  if (!ir) return internalError("translating a TPC kernel to LLVM IR failed");
  std::string error;
  llvm::TargetMachine* machine = state_->machine(traits, optLevel, error);
  if (!machine) return internalError("no code generator for " + std::string(traits.cpu) + ": " + error);
  ir->setTargetTriple(llvm::Triple(kTriple));
  ir->setDataLayout(machine->createDataLayout());
  for (llvm::Function& function : *ir) {
    if (function.isDeclaration()) continue;
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("no-jump-tables", "true");  // Their tables would hold addresses.
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("target-cpu", traits.cpu);
    function.addFnAttr("target-features", tuningOf(traits));
  }
  llvm::raw_svector_ostream stream(result.elf);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                   /*DisableVerify=*/true))
    return internalError("the code generator cannot write object files");
  passes.run(*ir);
  return result;
}

std::string Codegen::vectorIr(const PlannedKernel& kernel, const VariantTraits& traits) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&state_->context));
  if (kernel.native)
    emitNative(*module, kEntryName, kernel);
  else
    emitKernel(*module, kEntryName, kernel, traits);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
  return text;
}

}  // namespace hpu::kernels
