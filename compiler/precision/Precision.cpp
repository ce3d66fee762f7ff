// SPDX-License-Identifier: Apache-2.0
// The passes around the Converter, and the proof of what it leaves behind.
#include "compiler/precision/Precision.h"

#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/precision/Converter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::precision {
namespace {

Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

std::string reportHead(const PrecisionOptions& options) {
  std::string text = "precision " + std::string(precisionName(options.precision));
  if (isFp8(options.precision)) {
    Fp8Format format = fp8FormatOf(options.precision, *options.target);
    text +=
        base::strCat(": ", elementTypeName(format.element), " on ", options.target->name, ", largest ", format.largest,
                     ", ", format.scales.size(), " scales from ", format.scales.front(), " to ", format.scales.back(),
                     "; activations: ", options.ranges.empty() ? "scales computed at run time" : "calibrated scales");
  }
  for (size_t i = 0; i < options.keepF32.size(); ++i)
    text += (i ? " " : "\nkept in f32 as asked: ") + options.keepF32[i];
  return text + "\n";
}

struct PrecisionPass : PassWrapper<PrecisionPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrecisionPass)
  explicit PrecisionPass(PrecisionOptions options) : options_(std::move(options)) {}
  StringRef getArgument() const final { return "hpu-precision-pass"; }
  StringRef getDescription() const final { return "Makes the f32 tensors of a function narrow"; }
  void runOnOperation() override {
    if (options_.precision == Precision::kF32) {
      if (options_.summary) *options_.summary = "f32 as in the model";
      if (options_.report) *options_.report += "precision f32: every tensor as in the model\n";
      return markAllAnalysesPreserved();
    }
    Converter converter(getOperation(), options_);
    if (failed(converter.run())) return signalPassFailure();
    if (options_.summary) *options_.summary = converter.summary();
    if (options_.report) *options_.report += reportHead(options_) + converter.report() + converter.summary() + "\n";
  }
  PrecisionOptions options_;
};

struct VerifyPrecisionPass : PassWrapper<VerifyPrecisionPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyPrecisionPass)
  explicit VerifyPrecisionPass(PrecisionOptions options) : options_(std::move(options)), keep_(options_.keepF32) {}
  StringRef getArgument() const final { return "hpu-verify-precision-pass"; }
  StringRef getDescription() const final { return "Proves the post-condition of the phase precision"; }
  void runOnOperation() override {
    markAllAnalysesPreserved();
    bool failed = false;
    getOperation().walk([&](HpuOp op) {
      std::string text = op.getEngine() == EngineKind::Mme ? lackingType(op) : std::string();
      if (text.empty() && options_.precision != Precision::kF32) text = objection(op);
      if (text.empty()) return;
      op->emitOpError(text);
      failed = true;
    });
    if (failed) signalPassFailure();
  }
  std::string lackingType(HpuOp op) const {
    for (Value operand : op->getOperands()) {
      ElementType type = elementType(elementOf(operand));
      if (!options_.target || options_.target->hasMmeType(type)) continue;
      return "multiplies " + std::string(elementTypeName(type)) + ", which the MME of " +
             std::string(options_.target->name) + " does not have (it has " + options_.target->mmeTypeNames() +
             "); cast the operands in the model, or choose another " + base::optionName("target");
    }
    return {};
  }
  std::string objection(HpuOp op) {
    auto isF32 = [](Value v) { return elementOf(v).isF32(); };
    const bool mayBeF32 = keep_.contains(op.getOperation()) || op.getNarrowing() == Narrowing::Exact;
    if (op.getEngine() == EngineKind::Mme && !mayBeF32 && llvm::any_of(op->getOperands(), isF32))
      return "reads f32 on the MME although the precision is " + std::string(precisionName(options_.precision));
    auto castOp = dyn_cast<CastOp>(op.getOperation());
    if (!castOp || !isa<FloatType>(elementOf(castOp.getX())) || !isa<FloatType>(elementOf(castOp.getResult())))
      return {};
    return isConstantLike(castOp.getX()) ? "casts a constant at run time" : "";
  }
  PrecisionOptions options_;
  KeepList keep_;
};

/// What hpu-opt takes after --hpu-precision=.
struct Arguments : PassPipelineOptions<Arguments> {
  Option<std::string> to{*this, "to", llvm::cl::desc("bf16, f16, fp8 or fp8_e5m2"), llvm::cl::init("bf16")};
  Option<std::string> target{*this, "target", llvm::cl::desc("gaudi1, gaudi2 or gaudi3"), llvm::cl::init("gaudi2")};
  ListOption<std::string> keep{*this, "keep", llvm::cl::desc("ops and nodes that keep f32")};
  ListOption<std::string> ranges{*this, "ranges", llvm::cl::desc("NAME:OPERAND=MAX of calibrated activations")};

  StatusOr<PrecisionOptions> options() const {
    PrecisionOptions options;
    HPU_ASSIGN(options.precision, parsePrecision(std::string(to)));
    HPU_ASSIGN(Target parsed, parseTarget(std::string(target)));
    options.target = &arch::targetDesc(parsed);
    options.keepF32.assign(keep.begin(), keep.end());
    for (const std::string& text : ranges) {
      size_t equals = text.rfind('=');
      double value = 0;
      if (equals == std::string::npos || StringRef(text).substr(equals + 1).getAsDouble(value))
        return invalidArgument("'" + text + "' is not NAME:OPERAND=MAX");
      options.ranges[text.substr(0, equals)] = value;
    }
    if (isFp8(options.precision) && !options.target->hasMmeType(ElementType::kF8E5M2))
      return invalidArgument(std::string(options.target->name) + " has no fp8");
    return options;
  }
};

/// Fails, so that wrong arguments are an error of the pass that they were given to.
struct WrongArgumentsPass : PassWrapper<WrongArgumentsPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WrongArgumentsPass)
  explicit WrongArgumentsPass(std::string text) : text_(std::move(text)) {}
  void runOnOperation() override {
    getOperation()->emitError(text_);
    signalPassFailure();
  }
  std::string text_;
};

/// For hpu-opt; the pipeline asks for the names itself, while every node is there.
struct CheckKeepListPass : PassWrapper<CheckKeepListPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckKeepListPass)
  explicit CheckKeepListPass(std::vector<std::string> names) : names_(std::move(names)) {}
  void runOnOperation() override {
    markAllAnalysesPreserved();
    Status known = checkKeepList(getOperation(), names_);
    if (known.ok()) return;
    emitError(getOperation()->getLoc(), known.message());
    signalPassFailure();
  }
  std::vector<std::string> names_;
};

void addOne(OpPassManager& pm, const Arguments& arguments, std::unique_ptr<Pass> (*create)(PrecisionOptions)) {
  StatusOr<PrecisionOptions> options = arguments.options();
  if (options.ok()) {
    pm.addPass(std::make_unique<CheckKeepListPass>(options->keepF32));
    pm.addNestedPass<func::FuncOp>(create(*options));
  } else {
    pm.addPass(std::make_unique<WrongArgumentsPass>(options.status().message()));
  }
}

}  // namespace

std::unique_ptr<Pass> createPrecisionPass(PrecisionOptions options) {
  return std::make_unique<PrecisionPass>(std::move(options));
}
std::unique_ptr<Pass> createVerifyPrecisionPass(PrecisionOptions options) {
  return std::make_unique<VerifyPrecisionPass>(std::move(options));
}

void addPrecisionPasses(OpPassManager& pm, const PrecisionOptions& options) {
  pm.addPass(createPrecisionPass(options));
  pm.addPass(createVerifyPrecisionPass(options));
}

void registerPrecisionPasses() {
  PassPipelineRegistration<Arguments>(
      "hpu-precision", "Makes the f32 tensors of functions narrow",
      [](OpPassManager& pm, const Arguments& arguments) { addOne(pm, arguments, createPrecisionPass); });
  PassPipelineRegistration<Arguments>(
      "hpu-verify-precision", "Proves the post-condition of the phase precision",
      [](OpPassManager& pm, const Arguments& arguments) { addOne(pm, arguments, createVerifyPrecisionPass); });
}

}  // namespace hpu::precision
