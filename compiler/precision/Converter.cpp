// SPDX-License-Identifier: Apache-2.0
#include "compiler/precision/Converter.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/precision/ConvertConstant.h"
#include "compiler/support/DiagnosticCapture.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

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

}  // namespace

Converter::Converter(func::FuncOp func, const PrecisionOptions& options)
    : func_(func), builder_(func.getContext()), options_(options), keep_(options.precision, options.keepF32) {
  narrowType_ =
      options.precision == Precision::kF16 ? FloatType(builder_.getF16Type()) : FloatType(builder_.getBF16Type());
  if (isFp8(options.precision)) fp8_ = fp8FormatOf(options.precision, *options.target);
}

LogicalResult Converter::run() {
  Block& block = func_.getBody().front();
  findLastOps(block);
  for (auto& [op, name] : namedProducts(block)) productNames_[op] = name;
  SmallVector<Operation*> ops;
  for (Operation& op : block.without_terminator()) ops.push_back(&op);
  for (Operation* op : ops)
    if (!isa<ConstantOp>(op) && failed(convert(op))) return failure();
  Operation* end = block.getTerminator();
  for (OpOperand& operand : end->getOpOperands())
    operand.set(
        as(operand.get(), cast<RankedTensorType>(func_.getResultTypes()[operand.getOperandNumber()]).getElementType()));
  // Also casts that only a view read whose codes are read now.
  // (Of the block itself: reversed, without_terminator() has iterators that an erased op takes along.)
  for (Operation& op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op)) op.erase();
  for (const std::string& name : keep_.unknown(func_.getContext()))
    return func_.emitError() << "'" << name
                             << "' of the keep-f32 list is neither an op of the hpu dialect nor a node "
                                "of the model; --report=fusion names the nodes";
  return success(!failed_);
}

std::string Converter::summary() const {
  std::string name(elementTypeName(elementType(narrowType_)));
  std::string text = std::to_string(narrow_) + " tensors " + name + ", " + std::to_string(wide_) + " f32";
  if (fp8_.element != ElementType::kInvalid)
    text += ", " + std::to_string(eight_) + " " + std::string(elementTypeName(fp8_.element));
  return text + "; " + base::formatBytes(constantBytes_) + " of constants";
}

void Converter::line(Operation* op, StringRef type, StringRef text) {
  if (!options_.report) return;
  std::string name = locationText(op->getLoc());
  report_ += llvm::formatv("{0,-11} {1,-16} {2}  {3}\n", type, op->getName().stripDialect(), name, text).str();
}

/// TPC ops whose results only leave the function (through views): rounding them gains nothing.
void Converter::findLastOps(Block& block) {
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

const char* Converter::reasonToKeep(Operation* op) {
  if (const char* listed = keep_.reason(op)) return listed;
  if (computedWide_.contains(op)) return "last before an f32 output";
  if (cast<HpuOp>(op).getEngine() == EngineKind::Mme) return nullptr;
  // An op on tensors that were kept keeps on, until something narrow joins.
  bool any = false;
  for (Value operand : op->getOperands()) {
    if (!isFloat(operand) || isConstantLike(operand)) continue;
    if (!kept_.contains(operand)) return nullptr;
    any = true;
  }
  return any ? "all operands are f32" : nullptr;
}

LogicalResult Converter::convert(Operation* op) {
  if (op->getNumResults() == 1 && isConstantLike(op->getResult(0))) return success();
  auto hpuOp = dyn_cast<HpuOp>(op);
  if (!hpuOp) return op->emitOpError("is not an op of the hpu dialect");
  if (auto castOp = dyn_cast<CastOp>(op)) return convertCast(castOp);
  if (auto bits = dyn_cast<BitcastOp>(op)) {
    // It reads and makes the bits of the type that the model says.
    if (original_.contains(bits.getX())) op->setOperand(0, as(bits.getX(), builder_.getF32Type()));
    if (isF32(bits.getResult())) kept_.insert(bits.getResult());
    return success();
  }
  bool anyF32 = llvm::any_of(op->getOperands(), [&](Value v) { return isF32(v) || original_.contains(v); });
  if (!anyF32) {
    // Of other types; a result in f32 (none of today's ops) would be kept.
    for (Value result : op->getResults())
      if (isF32(result)) kept_.insert(result);
    return success();
  }
  bool product = hpuOp.getEngine() == EngineKind::Mme;
  const char* reason = reasonToKeep(op);
  if (reason && !hpuOp.isView()) line(op, "f32", reason);
  if (product && !reason && fp8_.element != ElementType::kInvalid && !isAttentionProduct(op)) return convertToFp8(op);
  if (product && !reason)
    line(op, elementTypeName(elementType(narrowType_)),
         fp8_.element != ElementType::kInvalid ? "a product of an attention" : "");
  Type element = reason ? Type(builder_.getF32Type()) : Type(narrowType_);
  for (OpOperand& operand : op->getOpOperands())
    if (isF32(operand.get()) || original_.contains(operand.get())) operand.set(as(operand.get(), element));
  for (Value result : op->getResults()) {
    if (!isF32(result)) continue;
    if (reason) {
      kept_.insert(result);
      ++wide_;
    } else {
      result.setType(tensorOf(result).clone(narrowType_));
      original_.insert(result);
      ++narrow_;
    }
  }
  return success();
}

/// A cast to f32 from integers starts a kept value; one from a narrowed tensor reads what is there.
LogicalResult Converter::convertCast(CastOp op) {
  Type to = op.getTo();
  if (to.isF32() && (isF32(op.getX()) || original_.contains(op.getX()))) {
    op.getResult().replaceAllUsesWith(op.getX());
    return success();
  }
  if (to.isF32()) kept_.insert(op.getResult());
  return success();
}

/// `value` with f32 or narrow elements; casts are made once, behind the definition.
Value Converter::as(Value value, Type element) {
  if (tensorOf(value).getElementType() == element || !isFloat(value)) return value;
  if (!isF32(value) && !original_.contains(value)) return value;  // f16, f64: the model's own choice.
  if (Value other = other_.lookup(value)) return other;
  if (isConstantLike(value)) return narrowedConstant(value);
  builder_.setInsertionPointAfterValue(value);
  Location loc = value.getLoc();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    builder_.setInsertionPointToStart(argument.getOwner());
    loc = argumentLoc(argument);
  }
  Value made = CastOp::create(builder_, loc, value, element);
  (element == narrowType_ ? narrow_ : wide_) += 1;
  // The other version of a cast value is the value itself.
  other_[value] = made;
  other_[made] = value;
  if (element == narrowType_) original_.insert(made);
  return made;
}

/// Arguments carry no node; the cast takes the place of the first op that reads it.
Location Converter::argumentLoc(BlockArgument argument) {
  if (!isa<UnknownLoc>(argument.getLoc())) return argument.getLoc();
  Operation* first = nullptr;
  for (Operation* user : argument.getUsers())
    if (!first || user->isBeforeInBlock(first)) first = user;
  return first ? first->getLoc() : argument.getLoc();
}

LogicalResult Converter::missingData(Operation* op) {
  failed_ = true;
  return op->emitError("the constant's data is missing or of another size than its type says");
}

/// The narrow version of a constant or of views of one.
Value Converter::narrowedConstant(Value value) {
  if (Value other = other_.lookup(value)) return other;
  Operation* op = value.getDefiningOp();
  builder_.setInsertionPointAfter(op);
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    ElementsAttr narrowed = narrowConstant(constant.getValue(), narrowType_);
    auto type = tensorOf(value).clone(narrowType_);
    if (!narrowed) {
      (void)missingData(op);
      return value;
    }
    constantBytes_ += type.getNumElements() * 2;
    return other_[value] = ConstantOp::create(builder_, op->getLoc(), type, narrowed);
  }
  Value source = narrowedConstant(op->getOperand(0));
  IRMapping mapping;
  mapping.map(op->getOperand(0), source);
  builder_.setInsertionPointAfter(op);
  Operation* view = builder_.clone(*op, mapping);
  view->getResult(0).setType(tensorOf(value).clone(narrowType_));
  return other_[value] = view->getResult(0);
}

}  // namespace hpu::precision
