// SPDX-License-Identifier: Apache-2.0
// Rewrites a function op by op: each op says which element type it wants its f32 operands in, and a
// value is cast once for each type that is asked of it.
#include "compiler/precision/Precision.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/precision/ConvertConstant.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::precision {
namespace {

RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
bool isF32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}
bool isFloat(Value value) {
  return isa<FloatType>(tensorOf(value).getElementType());
}

/// A constant, or views of one: it exists in both types at no cost at run time.
bool isConstantLike(Value value) {
  Operation* op = value.getDefiningOp();
  if (!op) return false;
  if (isa<ConstantOp>(op)) return true;
  return isa<ReshapeOp, TransposeOp, SliceOp, ExpandOp>(op) && isConstantLike(op->getOperand(0));
}

class Converter {
 public:
  Converter(func::FuncOp func, const PrecisionOptions& options)
      : func_(func),
        builder_(func.getContext()),
        options_(options),
        bf16_(BFloat16Type::get(func.getContext())) {}

  LogicalResult run() {
    Block& block = func_.getBody().front();
    findLastOps(block);
    SmallVector<Operation*> ops;
    for (Operation& op : block.without_terminator()) ops.push_back(&op);
    for (Operation* op : ops)
      if (!isa<ConstantOp>(op) && failed(convert(op))) return failure();
    Operation* end = block.getTerminator();
    for (OpOperand& operand : end->getOpOperands())
      operand.set(as(operand.get(),
                     cast<RankedTensorType>(func_.getResultTypes()[operand.getOperandNumber()])
                         .getElementType()));
    for (Operation* op : llvm::reverse(ops))
      if (op->use_empty()) op->erase();
    return success(!failed_);
  }

  std::string summary() const {
    return std::to_string(narrow_) + " tensors bf16, " + std::to_string(wide_) + " f32; " +
           base::formatBytes(constantBytes_) + " of constants";
  }

 private:
  /// TPC ops whose results only leave the function (through views): rounding them gains nothing.
  void findLastOps(Block& block) {
    for (Operation& op : llvm::reverse(block.without_terminator())) {
      bool leaves = !op.use_empty() && llvm::all_of(op.getUsers(), [&](Operation* user) {
        return user == block.getTerminator() || last_.contains(user);
      });
      auto hpuOp = dyn_cast<HpuOp>(&op);
      if (!leaves || !hpuOp || hpuOp.getEngine() == EngineKind::Mme) continue;
      if (hpuOp.isView()) {
        last_.insert(&op);  // Looked through; it takes the type of its operand.
      } else if (hpuOp.getEngine() == EngineKind::Tpc) {
        computedWide_.insert(&op);
      }
    }
  }

  bool keepsF32(Operation* op) const {
    if (llvm::is_contained(options_.keepF32, op->getName().stripDialect().str())) return true;
    if (computedWide_.contains(op)) return true;
    if (cast<HpuOp>(op).getEngine() == EngineKind::Mme) return false;
    // An op on tensors that were kept keeps on, until something in bf16 joins.
    bool any = false;
    for (Value operand : op->getOperands()) {
      if (!isFloat(operand) || isConstantLike(operand)) continue;
      if (!kept_.contains(operand)) return false;
      any = true;
    }
    return any;
  }

  LogicalResult convert(Operation* op) {
    if (isConstantLike(op->getNumResults() == 1 ? op->getResult(0) : Value())) return success();
    auto hpuOp = dyn_cast<HpuOp>(op);
    if (!hpuOp) return op->emitOpError("is not an op of the hpu dialect");
    if (auto castOp = dyn_cast<CastOp>(op)) return convertCast(castOp);
    bool anyF32 =
        llvm::any_of(op->getOperands(), [&](Value v) { return isF32(v) || original_.contains(v); });
    if (!anyF32) {
      // Of other types; a result in f32 (none of today's ops) would be kept.
      for (Value result : op->getResults())
        if (isF32(result)) kept_.insert(result);
      return success();
    }
    bool wide = keepsF32(op);
    Type element = wide ? Type(builder_.getF32Type()) : Type(bf16_);
    for (OpOperand& operand : op->getOpOperands())
      if (isF32(operand.get()) || original_.contains(operand.get()))
        operand.set(as(operand.get(), element));
    for (Value result : op->getResults()) {
      if (!isF32(result)) continue;
      if (wide) {
        kept_.insert(result);
        ++wide_;
      } else {
        result.setType(tensorOf(result).clone(bf16_));
        original_.insert(result);
        ++narrow_;
      }
    }
    return success();
  }

  /// A cast to f32 from integers starts a kept value; one from a narrowed tensor reads what is
  /// there.
  LogicalResult convertCast(CastOp op) {
    Type to = op.getTo();
    if (to.isF32() && (isF32(op.getX()) || original_.contains(op.getX()))) {
      op.getResult().replaceAllUsesWith(op.getX());
      return success();
    }
    if (to.isF32()) kept_.insert(op.getResult());
    return success();
  }

  /// `value` with f32 or bf16 elements; casts are made once, behind the definition.
  Value as(Value value, Type element) {
    if (tensorOf(value).getElementType() == element || !isFloat(value)) return value;
    if (!isF32(value) && !original_.contains(value))
      return value;  // f16, f64: the model's own choice.
    Value& other = other_[value];
    if (other) return other;
    if (isConstantLike(value)) return other = narrowConstant(value);
    builder_.setInsertionPointAfterValue(value);
    Location loc = value.getLoc();
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      builder_.setInsertionPointToStart(argument.getOwner());
      loc = argumentLoc(argument);
    }
    other = CastOp::create(builder_, loc, value, element);
    (element == bf16_ ? narrow_ : wide_) += 1;
    // The other version of a cast value is the value itself.
    other_[other] = value;
    if (element == bf16_) original_.insert(other);
    return other;
  }

  /// Arguments carry no node; the cast takes the place of the first op that reads it.
  Location argumentLoc(BlockArgument argument) {
    if (!isa<UnknownLoc>(argument.getLoc())) return argument.getLoc();
    Operation* first = nullptr;
    for (Operation* user : argument.getUsers())
      if (!first || user->isBeforeInBlock(first)) first = user;
    return first ? first->getLoc() : argument.getLoc();
  }

  /// The bf16 version of a constant or of views of one.
  Value narrowConstant(Value value) {
    Value& other = other_[value];
    if (other) return other;
    Operation* op = value.getDefiningOp();
    builder_.setInsertionPointAfter(op);
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      ElementsAttr narrowed = narrowToBf16(constant.getValue());
      auto type = tensorOf(value).clone(bf16_);
      if (!narrowed) {
        op->emitError("the constant's data is missing or of another size than its type says");
        failed_ = true;
        return value;
      }
      constantBytes_ += type.getNumElements() * 2;
      return other_[value] = ConstantOp::create(builder_, op->getLoc(), type, narrowed);
    }
    Value source = narrowConstant(op->getOperand(0));
    IRMapping mapping;
    mapping.map(op->getOperand(0), source);
    builder_.setInsertionPointAfter(op);
    Operation* view = builder_.clone(*op, mapping);
    view->getResult(0).setType(tensorOf(value).clone(bf16_));
    return other_[value] = view->getResult(0);
  }

  func::FuncOp func_;
  OpBuilder builder_;
  const PrecisionOptions& options_;
  BFloat16Type bf16_;
  DenseSet<Operation*> last_, computedWide_;
  DenseSet<Value> kept_;          ///< f32 on purpose.
  DenseSet<Value> original_;      ///< bf16 now, f32 in the model.
  DenseMap<Value, Value> other_;  ///< The same value with the other element type.
  int64_t narrow_ = 0, wide_ = 0, constantBytes_ = 0;
  bool failed_ = false;
};

struct PrecisionPass : PassWrapper<PrecisionPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrecisionPass)
  explicit PrecisionPass(PrecisionOptions options) : options_(std::move(options)) {}
  StringRef getArgument() const final { return "hpu-precision"; }
  StringRef getDescription() const final { return "Makes the f32 tensors of a function bf16"; }
  void runOnOperation() override {
    if (options_.precision == Precision::kF32) {
      if (options_.summary) *options_.summary = "f32 as in the model";
      return markAllAnalysesPreserved();
    }
    Converter converter(getOperation(), options_);
    if (failed(converter.run())) return signalPassFailure();
    if (options_.summary) *options_.summary = converter.summary();
  }
  PrecisionOptions options_;
};

struct VerifyPrecisionPass : PassWrapper<VerifyPrecisionPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyPrecisionPass)
  explicit VerifyPrecisionPass(PrecisionOptions options) : options_(std::move(options)) {}
  StringRef getArgument() const final { return "hpu-verify-precision"; }
  StringRef getDescription() const final {
    return "Proves the post-condition of the phase precision";
  }
  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (options_.precision == Precision::kF32) return;
    bool failed = false;
    getOperation().walk([&](HpuOp op) {
      std::string text = objection(op);
      if (text.empty()) return;
      op->emitOpError(text);
      failed = true;
    });
    if (failed) signalPassFailure();
  }
  std::string objection(HpuOp op) const {
    bool listed = llvm::is_contained(options_.keepF32, op->getName().stripDialect().str());
    if (op.getEngine() == EngineKind::Mme && !listed && llvm::any_of(op->getOperands(), isF32))
      return "reads f32 on the MME although the precision is bf16";
    auto castOp = dyn_cast<CastOp>(op.getOperation());
    if (!castOp || !isFloat(castOp.getX()) || !isFloat(castOp.getResult())) return {};
    if (isConstantLike(castOp.getX())) return "casts a constant at run time";
    auto below = castOp.getX().getDefiningOp<CastOp>();
    if (below && tensorOf(below.getX()).getElementType() == castOp.getTo() &&
        !isF32(below.getResult()))
      return "undoes the cast below it";
    return {};
  }
  PrecisionOptions options_;
};

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
  PrecisionOptions options;
  options.precision = Precision::kBF16;
  registerPass([options] { return createPrecisionPass(options); });
  registerPass([options] { return createVerifyPrecisionPass(options); });
}

}  // namespace hpu::precision
