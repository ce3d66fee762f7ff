// SPDX-License-Identifier: Apache-2.0
#include "compiler/precision/Converter.h"

#include <cmath>

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/precision/ConvertConstant.h"
#include "compiler/support/DiagnosticCapture.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::precision {
namespace {

bool isF32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}
bool isTruth(Value value) {
  return tensorOf(value).getElementType().isInteger(1);
}
bool isFloat(Value value) {
  return isa<FloatType>(tensorOf(value).getElementType());
}
int64_t elementsOf(Value value) {
  return tensorOf(value).hasStaticShape() ? tensorOf(value).getNumElements() : 0;
}
bool isCastToInteger(Operation* op) {
  auto castOp = dyn_cast<CastOp>(op);
  auto to = castOp ? dyn_cast<IntegerType>(castOp.getTo()) : IntegerType();
  return to && to.getWidth() > 1;
}

bool isRounding(Operation* op) {
  return isa<FloorOp, CeilOp, RoundOp>(op);
}

/// Whether the elementwise op joins only whole numbers of `whole`, and constants.
bool isWholeOf(Operation* op, const llvm::SmallPtrSetImpl<Operation*>& whole) {
  bool any = false;
  for (Value operand : op->getOperands()) {
    if (!isF32(operand) || isConstantLike(operand)) continue;
    if (!whole.contains(operand.getDefiningOp())) return false;
    any = true;
  }
  return any;
}

/// Whether the op asks if a number is infinite or none (IsInf, IsNaN): where it is stored narrow, large finite numbers
/// have become infinite.
bool asksForInfinity(Operation* op) {
  if (isa<IsNanOp>(op)) return true;
  if (!isa<EqualOp>(op)) return false;
  for (Value operand : op->getOperands()) {
    if (!isF32(operand) || !isConstantLike(operand)) continue;
    auto constant = rootOf(operand).getDefiningOp<ConstantOp>();
    if (!constant || constant.getValue().getNumElements() != 1) continue;
    if (StatusOr<interp::Tensor> tensor = interp::tensorOf(constant.getValue());
        tensor.ok() && std::isinf(tensor->number(0)))
      return true;
  }
  return false;
}

}  // namespace

Converter::Converter(func::FuncOp func, const PrecisionOptions& options)
    : func_(func), builder_(func.getContext()), options_(options), keep_(options.keepF32) {
  narrowType_ =
      options.precision == Precision::kF16 ? FloatType(builder_.getF16Type()) : FloatType(builder_.getBF16Type());
  smallRange_ = narrowType_.isF16();
  if (isFp8(options.precision)) fp8_ = fp8FormatOf(options.precision, *options.target);
}

LogicalResult Converter::run() {
  Block& block = func_.getBody().front();
  findLastOps(block);
  findLeads(block);
  for (auto& [op, name] : namedProducts(block)) productNames_[op] = name;
  SmallVector<Operation*> ops;
  for (Operation& op : block.without_terminator()) ops.push_back(&op);
  // None is erased before the last cast is made, so no new cast is taken for one of these.
  const llvm::DenseSet<Operation*> ofModel(ops.begin(), ops.end());
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
  if (failed(checkRoundings(block, ofModel))) return failure();
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

/// TPC ops whose results only leave the function (through views): rounding them gains nothing. What is stored into a
/// state does not leave: all of the state would have to be f32, and be converted whenever it is read.
void Converter::findLastOps(Block& block) {
  llvm::SmallPtrSet<Operation*, 8> stays;
  for (const StateMemory& state : statesOf(func_)) {
    Operation* base = rootOf(block.getTerminator()->getOperand(state.result)).getDefiningOp();
    if (isa_and_nonnull<ScatterNdOp, ScatterElementsOp>(base)) stays.insert(base);
  }
  for (Operation& op : llvm::reverse(block.without_terminator())) {
    bool leaves = !op.use_empty() && llvm::all_of(op.getUsers(), [&](Operation* user) {
      return user == block.getTerminator() || last_.contains(user);
    });
    auto hpuOp = dyn_cast<HpuOp>(&op);
    if (!leaves || !hpuOp || hpuOp.getEngine() == EngineKind::Mme || stays.contains(&op)) continue;
    if (hpuOp.isView()) {
      last_.insert(&op);  // Looked through; it takes the type of its operand.
    } else if (hpuOp.getEngine() == EngineKind::Tpc) {
      computedWide_.insert(&op);
    }
  }
}

/// Ops whose results become scores of a softmax or integers, through elementwise ops, extremes and views alone. In f32
/// a mask of any finite size absorbs what it is added to, and a step of a quantisation is rounded once. Values are f32
/// inside a kernel, so this costs nothing where they are not stored.
/// A place between elements is split into a whole number, which becomes an index, and the rest, which becomes a weight
/// (GridSample, RoiAlign): both have to be of the same number, so whole numbers that have other readers lead there,
/// too, and what they are rounded from; and so does what is also compared, to see whether it is inside.
void Converter::findLeads(Block& block) {
  constexpr const char* kIntegers = "leads to integers";
  llvm::SmallPtrSet<Operation*, 8> whole;
  for (Operation& op : block.without_terminator())
    if (isRounding(&op) || (isa<AddOp, SubOp, MinOp, MaxOp, WhereOp>(op) && isWholeOf(&op, whole))) whole.insert(&op);
  auto endOf = [&](Operation* user) -> const char* {
    if (isa<SoftmaxOp, LogSoftmaxOp>(user)) return "leads to a softmax";
    if (isa<SelectBoxesOp>(user)) return "leads to a suppression";
    if (asksForInfinity(user)) return "leads to a question for infinities";
    return isCastToInteger(user) ? kIntegers : leads_.lookup(user);
  };
  auto leadsAsPlace = [&](Operation& op) {
    bool any = false, all = true;
    for (Operation* user : op.getUsers()) {
      const bool leads = endOf(user) == kIntegers;
      if (leads && (whole.contains(&op) || isRounding(user))) return true;
      any |= leads;
      all &= leads || (user->getNumResults() == 1 && isTruth(user->getResult(0)));
    }
    return any && all;
  };
  for (Operation& op : llvm::reverse(block.without_terminator())) {
    auto hpuOp = dyn_cast<HpuOp>(&op);
    // A truth that chooses among what leads there leads there: what it compares is to be as precise.
    if (!hpuOp || op.use_empty() || !(isF32(op.getResult(0)) || isTruth(op.getResult(0)))) continue;
    if (!hpuOp.isElementwise() && !hpuOp.isView() && !isa<ReduceMaxOp, ReduceMinOp>(op)) continue;
    // A parameter (a scale, a mask) of what leads there may have other readers: it is small.
    auto isParameterOf = [&](Operation* user) {
      return user->getNumResults() == 1 && elementsOf(user->getResult(0)) > elementsOf(op.getResult(0));
    };
    auto reader = llvm::find_if(op.getUsers(), [&](Operation* user) { return endOf(user) && isParameterOf(user); });
    if (reader != op.user_end())
      leads_[&op] = endOf(*reader);
    else if (llvm::all_of(op.getUsers(), endOf))
      leads_[&op] = endOf(*op.user_begin());
    else if (leadsAsPlace(op))
      leads_[&op] = kIntegers;
  }
}

/// Whether a constant of an elementwise op is lost in the narrow type: numbers beyond its range, or none within it.
Wide Converter::constantsBeyond(Operation* op) {
  Wide kind = Wide::kNo;
  if (!smallRange_ || !cast<HpuOp>(op).isElementwise()) return kind;
  const llvm::fltSemantics& format = narrowType_.getFloatSemantics();
  const double largest = APFloat::getLargest(format).convertToDouble();
  const double smallest = APFloat::getSmallestNormalized(format).convertToDouble();
  for (Value operand : op->getOperands()) {
    if (!isF32(operand) || !isConstantLike(operand)) continue;
    auto constant = rootOf(operand).getDefiningOp<ConstantOp>();
    std::optional<double> magnitude = constant ? largestMagnitude(constant.getValue()) : std::nullopt;
    if (!magnitude) continue;
    if (*magnitude > largest && isa<AddOp, SubOp, WhereOp>(op)) return Wide::kBeyond;
    if (*magnitude > largest || (*magnitude > 0 && *magnitude < smallest)) kind = Wide::kRange;
  }
  return kind;
}

Converter::Choice Converter::choose(Operation* op) {
  auto hpuOp = cast<HpuOp>(op);
  if (keep_.contains(op)) return {"kept as asked", Wide::kMeaning};
  if (asksForInfinity(op)) return {"asks for infinities", Wide::kMeaning};
  switch (hpuOp.getNarrowing()) {
    case Narrowing::Exact:
      return {"a product of integers", Wide::kMeaning};
    case Narrowing::Meaning:
      return {"loses its meaning in few bits", Wide::kMeaning};
    case Narrowing::Power:
      return {"a power", Wide::kRange};
    case Narrowing::Sum:
      return {"a sum of many", Wide::kRange};
    case Narrowing::Range:
      if (smallRange_) return {"may leave the range", Wide::kRange};
      break;
    case Narrowing::Any:
    case Narrowing::Bounded:
      break;
  }
  if (computedWide_.contains(op)) return {"last before an f32 output", Wide::kMeaning};
  if (hpuOp.getEngine() == EngineKind::Mme) return {};
  return chooseByOperands(op);
}

Converter::Choice Converter::chooseByOperands(Operation* op) {
  auto hpuOp = cast<HpuOp>(op);
  Wide kind = Wide::kNo;
  bool anyNarrow = false;
  for (Value operand : op->getOperands()) {
    if (!isFloat(operand) || isConstantLike(operand)) continue;
    kind = std::max(kind, kept_.lookup(operand));
    anyNarrow |= original_.contains(operand);
  }
  const char* leads = leads_.lookup(op);
  // Of narrow numbers, views and extremes are what they are in f32.
  if (leads && (hpuOp.isElementwise() || !anyNarrow)) return {leads, std::max(kind, Wide::kRange)};
  const bool endsHere = hpuOp.getNarrowing() == Narrowing::Bounded && kind >= Wide::kRange;
  const Wide constants = constantsBeyond(op);
  if (constants != Wide::kNo) return {"a constant beyond the range", endsHere ? Wide::kNo : std::max(kind, constants)};
  // An op on tensors that were kept (and on inputs) keeps on, until something narrow joins.
  if (kind != Wide::kNo && !anyNarrow) return {"all operands are f32", endsHere ? Wide::kNo : kind};
  if (kind >= Wide::kRange && hpuOp.isElementwise())
    return {"joins what is f32", kind == Wide::kBeyond && !endsHere ? kind : Wide::kNo};
  return {};
}

LogicalResult Converter::convert(Operation* op) {
  if (op->getNumResults() == 1 && isConstantLike(op->getResult(0))) return success();
  auto hpuOp = dyn_cast<HpuOp>(op);
  if (!hpuOp) return op->emitOpError("is not an op of the hpu dialect");
  if (auto castOp = dyn_cast<CastOp>(op)) return convertCast(castOp);
  if (auto bits = dyn_cast<BitcastOp>(op)) {
    // It reads and makes the bits of the type that the model says.
    if (original_.contains(bits.getX())) op->setOperand(0, as(bits.getX(), builder_.getF32Type()));
    if (isF32(bits.getResult())) kept_[bits.getResult()] = Wide::kMeaning;
    return success();
  }
  bool anyF32 = llvm::any_of(op->getOperands(), [&](Value v) { return isF32(v) || original_.contains(v); });
  if (!anyF32) {
    // Of other types; a result in f32 (a sum that the model wants so) is kept.
    for (Value result : op->getResults())
      if (isF32(result)) kept_[result] = Wide::kMeaning;
    return success();
  }
  bool product = hpuOp.getEngine() == EngineKind::Mme;
  const Choice choice = choose(op);
  const char* reason = choice.reason;
  if (reason && !hpuOp.isView()) line(op, "f32", reason);
  if (product && !reason && fp8_.element != ElementType::kInvalid && !isAttentionProduct(op)) return convertToFp8(op);
  if (product && !reason)
    line(op, elementTypeName(elementType(narrowType_)),
         fp8_.element != ElementType::kInvalid ? "a product of an attention" : "");
  if (reason && hpuOp.getNarrowing() == Narrowing::Sum && original_.contains(op->getOperand(0)) && !keep_.contains(op))
    op->setAttr("to", TypeAttr::get(builder_.getF32Type()));  // It reads what is there.
  else
    setOperands(op, reason ? Type(builder_.getF32Type()) : Type(narrowType_));
  for (Value result : op->getResults()) {
    if (!isF32(result)) continue;
    if (reason && choice.result == Wide::kNo) {
      storeNarrow(op, result);
    } else if (reason) {
      kept_[result] = choice.result;
      ++wide_;
    } else {
      result.setType(tensorOf(result).clone(narrowType_));
      original_.insert(result);
      ++narrow_;
    }
  }
  return success();
}

void Converter::setOperands(Operation* op, Type element) {
  // One for each op that computes with it: kernels widen as they load, and an f32 copy would be stored for several.
  const bool widens = element.isF32() && cast<HpuOp>(op).isElementwise();
  llvm::SmallDenseMap<Value, Value> own;
  for (OpOperand& operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!isF32(value) && !original_.contains(value)) continue;
    if (!widens || !original_.contains(value)) {
      operand.set(as(value, element));
      continue;
    }
    Value& wide = own[value];
    if (!wide) wide = widenedFor(op, value);
    operand.set(wide);
  }
}

/// The f32 of a narrow value for `op` alone; the value that it was rounded from if there is one.
Value Converter::widenedFor(Operation* op, Value value) {
  if (Value other = other_.lookup(value); other && isF32(other)) return other;
  builder_.setInsertionPoint(op);
  ++wide_;
  return CastOp::create(builder_, op->getLoc(), value, builder_.getF32Type());
}

/// The f32 result is rounded by the kernel that computes it, and read narrow.
void Converter::storeNarrow(Operation* op, Value result) {
  SmallVector<OpOperand*> uses;
  for (OpOperand& use : result.getUses()) uses.push_back(&use);
  builder_.setInsertionPointAfter(op);
  Value narrowed = CastOp::create(builder_, op->getLoc(), result, narrowType_);
  for (OpOperand* use : uses) use->set(narrowed);
  original_.insert(narrowed);
  other_[narrowed] = result;
  other_[result] = narrowed;
  ++narrow_;
}

/// A cast to f32 from integers starts a kept value; one from a narrowed tensor reads what is there.
LogicalResult Converter::convertCast(CastOp op) {
  Type to = op.getTo();
  if (to.isF32() && (isF32(op.getX()) || original_.contains(op.getX()))) {
    op.getResult().replaceAllUsesWith(op.getX());
    return success();
  }
  if (to.isF32()) {
    kept_[op.getResult()] = Wide::kMeaning;
    // The model has rounded it to the narrow type already.
    if (tensorOf(op.getX()).getElementType() == narrowType_) other_[op.getResult()] = op.getX();
  }
  return success();
}

/// Two casts that give back the f32 are a mistake of this phase, unless the lower one is in the model: it rounds there.
LogicalResult Converter::checkRoundings(Block& block, const llvm::DenseSet<Operation*>& ofModel) {
  for (CastOp castOp : block.getOps<CastOp>()) {
    auto below = castOp.getX().getDefiningOp<CastOp>();
    if (!below || ofModel.contains(below) || !castOp.getTo().isF32()) continue;
    if (below.getTo() == narrowType_ && isF32(below.getX())) return castOp.emitOpError("undoes the cast below it");
  }
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
  return withCode(StatusCode::kInvalidArgument, op->emitError())
         << "the constant's data is missing or of another size than its type says";
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
