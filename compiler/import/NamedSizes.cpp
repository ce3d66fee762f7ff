// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/NamedSizes.h"

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/EqualSizes.h"
#include "compiler/import/ImportState.h"
#include "compiler/import/Specialize.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "shape/SymInt.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;
using shape::SymInt;

namespace {

/// On a module: names that guards say to be equal to shorter ones, with these.
constexpr llvm::StringLiteral kSameSizesAttr = "hpu.same_sizes";

/// Finds names again and sets them.
class Namer {
 public:
  Namer(ModuleOp module, DictionaryAttr samples, bool fromPhase)
      : module_(module), context_(module.getContext()), fromPhase_(fromPhase) {
    for (NamedAttribute each : samples) {
      const int64_t sample = cast<IntegerAttr>(each.getValue()).getInt();
      symbols_.emplace_back(DimExpr::symbol(each.getName().str()), sample);
      samples_[each.getName().str()] = sample;
      // The prime itself tells of a product which symbols are in it.
      primes_.push_back(ir::primeOf(sample));
    }
  }

  Status run() {
    auto main = module_.lookupSymbol<func::FuncOp>("main");
    if (!main) return okStatus();
    if (auto same = module_->getAttrOfType<ArrayAttr>(kSameSizesAttr))
      for (mlir::Attribute pair : same)
        same_[cast<StringAttr>(cast<ArrayAttr>(pair)[0])] = cast<StringAttr>(cast<ArrayAttr>(pair)[1]);
    for (BlockArgument argument : main.getArguments()) learn(argument.getType());
    HPU_RETURN_IF_ERROR(block(main.getBody().front()));
    Operation* end = main.getBody().front().getTerminator();
    main.setType(FunctionType::get(context_, main.getBody().getArgumentTypes(), end->getOperandTypes()));
    return okStatus();
  }

 private:
  void learn(Type type) {
    for (const SymDim& dim : ir::symShape(cast<RankedTensorType>(type)))
      if (dim.isNamed()) known_.emplace(dim.size, dim.symbol);
  }

  bool depends(int64_t size) const {
    return llvm::any_of(primes_, [&](int64_t prime) { return size != 0 && size % prime == 0; });
  }

  /// For a size that no expression says.
  Status unknownSize(Operation* op, mlir::Value value, int64_t size) const {
    std::vector<std::string> names;
    auto add = [&](const std::string& name) {
      if (!llvm::is_contained(names, name)) names.push_back(name);
    };
    for (auto [symbol, prime] : llvm::zip(symbols_, primes_))
      if (size != 0 && size % prime == 0) add(symbol.text());
    if (names.empty())
      for (mlir::Value operand : op->getOperands())
        for (const SymDim& dim : ir::symShape(ir::tensorOf(operand)))
          if (dim.isNamed() && dim.symbol != ir::kNoExpression) llvm::for_each(ir::exprOf(dim)->symbols(), add);
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
    const std::string advice = names.empty()       ? "give sizes"
                               : names.size() == 1 ? "give it a size: " + sizeOptions(names)
                                                   : "give one of them a size: " + sizeOptions(names);
    return unimplemented(strCat("how a size of ", ir::unitName(op), " (", ir::typeToString(ir::tensorOf(value)),
                                ") follows from ", names.empty() ? "sizes that are given late" : text,
                                " is not known; ", advice));
  }

  /// Of a number: one that a value has, or a product of symbols and a number.
  StringAttr nameOf(int64_t size) const {
    if (auto found = known_.find(size); found != known_.end()) return found->second;
    SymInt name = 1;
    int64_t rest = size;
    for (auto [symbol, prime] : llvm::zip(symbols_, primes_))
      while (rest != 0 && rest % prime == 0 && rest % symbol.value() == 0) {
        name *= symbol;
        rest /= symbol.value();
      }
    if (name.isConstant()) return {};
    name *= rest;
    return name.isUnknown() ? StringAttr() : StringAttr::get(context_, name.text());
  }

  /// Of a size that is parted into several, what has no name gets that of its number, where the parts then have as many
  /// elements as the whole for all sizes.
  void nameParts(const SymShape& from, SymShape& to) const {
    auto elements = [](const SymShape& shape) {
      SymInt product = 1;
      for (const SymDim& dim : shape) product *= ir::numberOf(dim);
      return product;
    };
    const SymInt whole = elements(from);
    if (whole.isUnknown() || elements(to) == whole) return;
    SymShape named = to;
    for (SymDim& dim : named)
      if (auto found = known_.find(dim.size); !dim.isNamed() && found != known_.end()) dim.symbol = found->second;
    if (elements(named) == whole) to = std::move(named);
  }

  /// The sizes that an op states get names where they are not the operand's.
  void nameStated(Operation* op) {
    const bool isSlice = isa<ir::SliceOp>(op), isResize = isa<ir::ResizeOp>(op);
    if (!isSlice && !isResize && !isa<ir::ReshapeOp, ir::ExpandOp>(op)) return;
    auto sizes = op->getAttrOfType<DenseI64ArrayAttr>(isSlice || isResize ? "sizes" : "shape");
    const SymShape from = ir::symShape(ir::tensorOf(op->getOperand(0)));
    SymShape to;
    auto old = op->getAttrOfType<ArrayAttr>("symbols");
    for (auto [d, size] : llvm::enumerate(sizes.asArrayRef())) {
      auto name = old && d < old.size() ? dyn_cast<StringAttr>(old[d]) : StringAttr();
      // A pattern may have changed the size and left the name.
      const bool holds = name && !name.empty() && DimExpr::parse(name.getValue()).evaluate(samples_) == size;
      to.push_back({size, holds ? name : StringAttr()});
    }
    if (isa<ir::ReshapeOp>(op)) {
      to = ir::namedLike(from, to);
      if (fromPhase_ && !old) nameParts(from, to);
    }
    bool isAny = false;
    SmallVector<mlir::Attribute> names;
    for (auto [d, dim] : llvm::enumerate(to)) {
      // A slice's whole dimension is named by its operand.
      const bool isWhole = isSlice && dim.size == from[d].size;
      // Others follow from the operand's.
      if (isResize && cast<ir::ResizeOp>(op).getScales()[d] != 0) dim.symbol = {};
      const bool isStated = !isResize || cast<ir::ResizeOp>(op).getScales()[d] == 0;
      if (!dim.isNamed() && !isWhole && isStated && depends(dim.size))
        if (StringAttr name = nameOf(dim.size)) dim.symbol = name;
      isAny |= dim.isNamed();
      names.push_back(dim.isNamed() ? dim.symbol : StringAttr::get(context_, ""));
    }
    if (isAny)
      op->setAttr("symbols", ArrayAttr::get(context_, names));
    else
      op->removeAttr("symbols");
  }

  Status setType(Operation* op, mlir::Value value, RankedTensorType inferred) {
    const RankedTensorType now = ir::tensorOf(value);
    if (now.getShape() != inferred.getShape())
      return internalError(strCat(ir::unitName(op), " has the type ", ir::typeToString(now), ", and ",
                                  ir::typeToString(inferred), " follows from its operands"));
    // Where inference does not know a name, the one that is there stays.
    SymShape shape = ir::symShape(inferred);
    for (auto [dim, old] : llvm::zip(shape, ir::symShape(now)))
      if (!dim.isNamed() && old.isNamed()) dim = old;
    for (SymDim& dim : shape)
      if (StringAttr shorter = dim.isNamed() ? same_.lookup(dim.symbol) : StringAttr()) dim.symbol = shorter;
    value.setType(ir::withOrder(ir::tensorType(shape, now.getElementType()), ir::physicalOrder(now)));
    for (const SymDim& dim : shape)
      if (dim.isNamed() ? ir::exprOf(dim)->evaluate(samples_) != dim.size : depends(dim.size))
        return unknownSize(op, value, dim.size);
    learn(value.getType());
    return okStatus();
  }

  Status block(Block& block) {
    for (Operation& op : block) {
      if (op.getNumRegions() == 1 && !op.getRegion(0).empty()) {
        HPU_RETURN_IF_ERROR(unit(&op));
        continue;
      }
      auto infer = dyn_cast<InferTypeOpInterface>(&op);
      if (!infer || op.getNumResults() == 0) {
        if (auto constant = dyn_cast<ir::ConstantOp>(&op))
          HPU_RETURN_IF_ERROR(setType(&op, constant.getResult(), ir::tensorOf(constant.getResult())));
        if (auto relayout = dyn_cast<ir::RelayoutOp>(&op))
          HPU_RETURN_IF_ERROR(setType(&op, relayout.getResult(), ir::tensorOf(relayout.getX())));
        continue;
      }
      nameStated(&op);
      SmallVector<Type> types;
      ir::DiagnosticCapture capture(context_);
      if (failed(infer.inferReturnTypes(context_, op.getLoc(), op.getOperands(), op.getAttrDictionary(),
                                        op.getPropertiesStorage(), op.getRegions(), types)))
        return capture.status(StatusCode::kInternal, "naming sizes");
      for (auto [result, type] : llvm::zip(op.getResults(), types))
        HPU_RETURN_IF_ERROR(setType(&op, result, cast<RankedTensorType>(type)));
    }
    return okStatus();
  }

  Status unit(Operation* op) {
    Block& body = op->getRegion(0).front();
    for (auto [argument, operand] : llvm::zip(body.getArguments(), op->getOperands()))
      argument.setType(operand.getType());
    HPU_RETURN_IF_ERROR(block(body));
    for (auto [result, yielded] : llvm::zip(op->getResults(), body.getTerminator()->getOperands()))
      HPU_RETURN_IF_ERROR(setType(op, result, ir::tensorOf(yielded)));
    return okStatus();
  }

  ModuleOp module_;
  MLIRContext* context_;
  const bool fromPhase_;
  shape::SymbolBindings samples_;
  std::vector<SymInt> symbols_;
  std::vector<int64_t> primes_;          ///< By symbol.
  std::map<int64_t, StringAttr> known_;  ///< Names by number.
  llvm::DenseMap<StringAttr, StringAttr> same_;
};

/// Collects what ops ask of their operands' sizes.
class GuardFinder {
 public:
  explicit GuardFinder(shape::SymbolBounds bounds) : bounds_(std::move(bounds)) {}
  Status block(Block& block) {
    for (Operation& op : block) HPU_RETURN_IF_ERROR(visit(&op));
    return okStatus();
  }
  std::vector<SizeGuard> guards;

 private:
  Status visit(Operation* op) {
    if (auto concat = dyn_cast<ir::ConcatOp>(op)) {
      const SymShape first = shapeOf(concat.getInputs().front());
      for (mlir::Value input : concat.getInputs().drop_front())
        for (auto [d, dim] : llvm::enumerate(shapeOf(input)))
          if (d != concat.getAxis()) HPU_RETURN_IF_ERROR(same(op, first[d], dim));
      return okStatus();
    }
    if (auto matmul = dyn_cast<ir::MatMulOp>(op)) {
      const SymShape left = shapeOf(matmul.getLhs()), right = shapeOf(matmul.getRhs());
      HPU_RETURN_IF_ERROR(same(op, left.back(), right[right.size() - 2]));
      return broadcast(op, ArrayRef(left).drop_back(2), ArrayRef(right).drop_back(2));
    }
    if (auto slice = dyn_cast<ir::SliceOp>(op)) return inside(slice);
    if (auto reshape = dyn_cast<ir::ReshapeOp>(op)) {
      HPU_RETURN_IF_ERROR(copiesNothing(reshape));
      return sameElements(reshape);
    }
    if (auto expand = dyn_cast<ir::ExpandOp>(op)) {
      for (const SymDim& dim : shapeOf(expand.getResult()))
        HPU_RETURN_IF_ERROR(relate(op, false, 0, ir::numberOf(dim)));
      return broadcast(op, shapeOf(expand.getX()), shapeOf(expand.getResult()));
    }
    if (auto gather = dyn_cast<ir::GatherOp>(op))
      return indexed(op, gather.getX(), gather.getIndices(), static_cast<int64_t>(gather.getAxis()));
    if (auto gather = dyn_cast<ir::GatherElementsOp>(op))
      return indexed(op, gather.getX(), gather.getIndices(), static_cast<int64_t>(gather.getAxis()));
    if (auto arg = dyn_cast<ir::ArgMaxOp>(op))
      return needsElement(op, ir::numberOf(shapeOf(arg.getX())[static_cast<size_t>(arg.getAxis())]));
    if (auto scatter = dyn_cast<ir::ScatterNdOp>(op)) return scattered(scatter);
    if (auto scatter = dyn_cast<ir::ScatterElementsOp>(op)) return scattered(scatter);
    if (auto top = dyn_cast<ir::TopIndicesOp>(op)) {
      const size_t axis = top.getAxis();
      return relate(op, false, ir::numberOf(shapeOf(top.getResult())[axis]), ir::numberOf(shapeOf(top.getX())[axis]));
    }
    if (isa<ir::Conv2dOp, ir::ConvTranspose2dOp, ir::MaxPool2dOp, ir::AvgPool2dOp, ir::ResizeOp>(op)) {
      const SymShape result = shapeOf(op->getResult(0));
      for (const SymDim& dim : ArrayRef(result).drop_front(2))
        HPU_RETURN_IF_ERROR(relate(op, false, 1, ir::numberOf(dim)));
      return okStatus();
    }
    if (isa<ir::NativeOp>(op)) {
      for (const SymDim& dim : shapeOf(op->getResult(0))) HPU_RETURN_IF_ERROR(relate(op, false, 0, ir::numberOf(dim)));
      return okStatus();
    }
    auto hpuOp = dyn_cast<ir::HpuOp>(op);
    if (!hpuOp || !hpuOp.isElementwise() || op->getNumResults() != 1) return okStatus();
    const SymShape result = shapeOf(op->getResult(0));
    for (mlir::Value operand : op->getOperands())
      if (ir::tensorOf(operand).getRank() <= static_cast<int64_t>(result.size()) && !isa<ir::BatchNormOp>(op))
        HPU_RETURN_IF_ERROR(broadcast(op, shapeOf(operand), result));
    return okStatus();
  }

  const shape::SymbolBounds bounds_;

  static SymShape shapeOf(mlir::Value value) { return ir::symShape(ir::tensorOf(value)); }

  /// Whether it holds for all sizes.
  bool isSure(bool isEqual, const SymInt& left, const SymInt& right) {
    if (left == right || (left.isConstant() && right.isConstant())) return true;
    if (left.isUnknown() || right.isUnknown()) return false;
    const DimExpr a = *left.expr(), b = *right.expr();
    if (isEqual) return DimExpr::equal(a, b, bounds_) == true;
    const std::optional<DimExpr> gap = b.minus(a);
    return gap && gap->interval(bounds_).low >= 0;
  }

  static std::string asked(Operation* op, bool isEqual, const SymInt& left, const SymInt& right) {
    return strCat(ir::unitName(op), " needs ", left.text(), isEqual ? " to be equal to " : " to be at most ",
                  right.text());
  }
  Status relate(Operation* op, bool isEqual, const SymInt& left, const SymInt& right, std::string text = {}) {
    if (isSure(isEqual, left, right)) return okStatus();
    if (left.isUnknown() || right.isUnknown())
      return unimplemented(strCat("what ", ir::unitName(op),
                                  " asks of its operands' sizes is too long an expression for sizes that are given "
                                  "late; give a size to one of its dimensions"));
    const DimExpr a = *left.expr(), b = *right.expr();
    for (const SizeGuard& guard : guards)
      if (guard.isEqual == isEqual && guard.left == a && guard.right == b) return okStatus();
    guards.push_back({isEqual, a, b, text.empty() ? asked(op, isEqual, left, right) : std::move(text)});
    return okStatus();
  }
  /// Dimensions that are the same before and behind the others, and never 0, play no part: what is left says more.
  Status sameElements(ir::ReshapeOp op) {
    const SymShape from = shapeOf(op.getX()), to = shapeOf(op.getResult());
    ArrayRef<SymDim> a = from, b = to;
    auto isSame = [&](const SymDim& x, const SymDim& y) {
      return ir::numberOf(x) == ir::numberOf(y) && isSure(false, 1, ir::numberOf(x));
    };
    while (!a.empty() && !b.empty() && isSame(a.front(), b.front())) a = a.drop_front(), b = b.drop_front();
    while (!a.empty() && !b.empty() && isSame(a.back(), b.back())) a = a.drop_back(), b = b.drop_back();
    if (a.size() == 1 && b.size() == 1) return same(op, a[0], b[0]);
    return relate(op, true, ir::symElements(ir::tensorOf(op.getX())), ir::symElements(ir::tensorOf(op.getResult())));
  }
  Status same(Operation* op, const SymDim& a, const SymDim& b) {
    return relate(op, true, ir::numberOf(a), ir::numberOf(b));
  }
  Status broadcast(Operation* op, ArrayRef<SymDim> a, ArrayRef<SymDim> b) {
    for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
      const SymDim &x = a[a.size() - i], &y = b[b.size() - i];
      if (!(x == SymDim{1}) && !(y == SymDim{1})) HPU_RETURN_IF_ERROR(same(op, x, y));
    }
    return okStatus();
  }
  /// Constant indices are inside of the dimension; any others need an element, where there are some.
  Status indexed(Operation* op, mlir::Value x, mlir::Value indices, int64_t axis) {
    const SymInt along = ir::numberOf(shapeOf(x)[static_cast<size_t>(axis)]);
    if (auto constant = indices.getDefiningOp<ir::ConstantOp>()) {
      HPU_ASSIGN(const interp::Tensor values, interp::tensorOf(constant.getValue()));
      int64_t most = 0;
      for (int64_t i = 0; i < values.count(); ++i) {
        const int64_t index = values.integer(i);
        most = std::max(most, index < 0 ? -1 - index : index);
      }
      return values.count() == 0 ? okStatus() : relate(op, false, most + 1, along);
    }
    return needsElement(op, along);
  }
  /// Every element of the result is taken from one of the dimension.
  Status needsElement(Operation* op, const SymInt& along) {
    const SymInt taken = ir::symElements(ir::tensorOf(op->getResult(0)));
    if (isSure(false, 1, along) || taken == SymInt(0)) return okStatus();
    return relate(op, false, isSure(false, 1, taken) ? SymInt(1) : SymInt::min(1, taken), along);
  }

  /// A size of 0 in a shape that a model computes means the size that is there: the shape is another one then, unless
  /// that is 0, too.
  Status copiesNothing(ir::ReshapeOp op) {
    auto copied = op->getAttrOfType<DenseI64ArrayAttr>(kZeroCopiesAttr);
    const SymShape from = shapeOf(op.getX()), to = shapeOf(op.getResult());
    for (int64_t i : copied ? copied.asArrayRef() : ArrayRef<int64_t>()) {
      const auto d = static_cast<size_t>(i);
      if (d >= to.size() || isSure(false, 1, ir::numberOf(to[d])) || (d < from.size() && from[d] == to[d])) continue;
      const std::optional<DimExpr> size = ir::exprOf(to[d]), other = d < from.size() ? ir::exprOf(from[d]) : DimExpr(1);
      const auto zero = size && other ? DimExpr::select(DimExpr::Compare::kLess, *size, 1, *other, 0) : std::nullopt;
      HPU_RETURN_IF_ERROR(relate(op, true, zero ? SymInt(*zero, 0) : SymInt::unknown(0), 0,
                                 strCat(ir::unitName(op), " copies dimension ", d, " where ", to[d].symbol.str(),
                                        " is 0, which is another shape")));
    }
    return okStatus();
  }

  /// The number where `size` is not 0, and 0 where it is: nothing is taken from anywhere.
  static SymInt ifAny(const SymInt& size, const SymInt& number) {
    const std::optional<DimExpr> a = size.expr(), b = number.expr();
    const auto chosen = a && b ? DimExpr::select(DimExpr::Compare::kLess, *a, 1, 0, *b) : std::nullopt;
    return chosen ? SymInt(*chosen, number.value()) : SymInt::unknown(number.value());
  }
  /// Updates fit their indices and the dims that indices do not name. Indices themselves may be any.
  Status scattered(ir::ScatterNdOp op) {
    const SymShape data = shapeOf(op.getData()), indices = shapeOf(op.getIndices()), updates = shapeOf(op.getUpdates());
    const size_t outer = indices.size() - 1, depth = static_cast<size_t>(indices.back().size);
    for (size_t d = 0; d < updates.size(); ++d)
      HPU_RETURN_IF_ERROR(same(op, updates[d], d < outer ? indices[d] : data[d - outer + depth]));
    return okStatus();
  }
  Status scattered(ir::ScatterElementsOp op) {
    const SymShape data = shapeOf(op.getData()), indices = shapeOf(op.getIndices()), updates = shapeOf(op.getUpdates());
    const size_t axis = op.getAxis();
    for (size_t d = 0; d < data.size(); ++d) {
      const bool isOne = d == axis ? op.getAdvance() : indices[d] == SymDim{1};
      if (!isOne) HPU_RETURN_IF_ERROR(same(op, indices[d], updates[d]));
      if (d != axis) HPU_RETURN_IF_ERROR(relate(op, false, ir::numberOf(updates[d]), ir::numberOf(data[d])));
    }
    return okStatus();
  }
  Status inside(ir::SliceOp slice) {
    const SymShape from = shapeOf(slice.getX()), to = shapeOf(slice.getResult());
    for (size_t d = 0; d < from.size(); ++d) {
      SymInt start = slice.getStarts()[d];
      if (std::optional<ArrayAttr> names = slice.getStartSymbols())
        start = ir::numberOf({slice.getStarts()[d], dyn_cast<StringAttr>((*names)[d])});
      const SymInt size = ir::numberOf(to[d]), whole = ir::numberOf(from[d]);
      if (slice->hasAttr(kIsWholeAttr)) HPU_RETURN_IF_ERROR(relate(slice, true, whole, size));
      HPU_RETURN_IF_ERROR(relate(slice, false, 0, size));
      if (size == SymInt(0)) continue;
      const int64_t step = slice.getSteps()[d];
      const SymInt end = step > 0 ? start + (size - 1) * step + 1 : start + 1;
      const bool isAny = isSure(false, 1, size);
      if (!isSure(false, 0, start))
        HPU_RETURN_IF_ERROR(relate(slice, false, 0, isAny ? start : ifAny(size, start), asked(slice, false, 0, start)));
      if (!isSure(false, end, whole))
        HPU_RETURN_IF_ERROR(
            relate(slice, false, isAny ? end : ifAny(size, end), whole, asked(slice, false, end, whole)));
      // Backwards, as many as a Slice says end at the first one or behind it; as many as a Pad reflects may not.
      const SymInt last = start + (size - 1) * step;
      if (step < 0 && (size.isConstant() || !last.isUnknown()) && !isSure(false, 0, last))
        HPU_RETURN_IF_ERROR(relate(slice, false, 0, isAny ? last : ifAny(size, last), asked(slice, false, 0, last)));
    }
    return okStatus();
  }
};

/// Replaces representatives in types and attributes.
class Rebinder {
 public:
  explicit Rebinder(const shape::SymbolBindings& samples) : samples_(samples) {}

  Status run(func::FuncOp main) {
    main.walk([&](Operation* op) {
      for (Region& region : op->getRegions())
        for (Block& block : region)
          for (BlockArgument argument : block.getArguments()) retype(argument);
      for (OpResult result : op->getResults()) retype(result);
      restate(op);
    });
    Operation* end = main.getBody().front().getTerminator();
    main.setType(FunctionType::get(main.getContext(), main.getBody().getArgumentTypes(), end->getOperandTypes()));
    return status_;
  }

 private:
  int64_t start(StringAttr name, int64_t otherwise) {
    if (!name || name.empty()) return otherwise;
    const std::optional<int64_t> value = DimExpr::parse(name.getValue()).evaluate(samples_);
    if (!value && status_.ok())
      status_ = invalidArgument(strCat("the number ", name.str(), " would be beyond 64 bits within the bounds"));
    return value.value_or(otherwise);
  }
  int64_t at(StringAttr name, int64_t otherwise) {
    if (!name || name.empty()) return otherwise;
    const std::optional<int64_t> value = DimExpr::parse(name.getValue()).evaluate(samples_);
    // What is empty now would be left out, and be missing at other sizes.
    if (value == 0 && status_.ok())
      status_ =
          unimplemented(strCat("no sizes within the bounds were found at which all parts of the model have "
                               "elements: the size ",
                               name.str(), " is one that has none; give other bounds, or a size"));
    if ((!value || *value < 0) && status_.ok())
      status_ = invalidArgument(strCat("the size ", name.str(), " would be ",
                                       value ? strCat(*value) : std::string("beyond 64 bits"), " within the bounds"));
    return value.value_or(otherwise);
  }
  void retype(mlir::Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !ir::hasNamedSizes(type)) return;
    auto constant = value.getDefiningOp<ir::ConstantOp>();
    if (constant && type.getNumElements() != 0 && status_.ok())
      status_ = unimplemented(strCat("a constant of the sizes ", ir::typeToString(type), " (",
                                     ir::unitName(constant.getOperation()),
                                     ") follows from sizes that are given late; give them sizes"));
    SymShape shape = ir::symShape(type);
    for (SymDim& dim : shape) dim.size = at(dim.symbol, dim.size);
    value.setType(ir::withOrder(ir::tensorType(shape, type.getElementType()), ir::physicalOrder(type)));
    // One without elements has these sizes, too.
    if (constant && type.getNumElements() == 0)
      constant.setValueAttr(DenseElementsAttr::get(cast<ShapedType>(value.getType()), ArrayRef<mlir::Attribute>()));
  }
  void restate(Operation* op) {
    const bool isSlice = isa<ir::SliceOp>(op), isRange = isa<ir::RangeOp>(op);
    if (auto top = dyn_cast<ir::TopIndicesOp>(op))
      top.setSizes({ir::tensorOf(top.getResult()).getDimSize(static_cast<int64_t>(top.getAxis()))});
    if (auto resize = dyn_cast<ir::ResizeOp>(op)) {
      SmallVector<int64_t> sizes(resize.getSizes());
      for (size_t d = 0; d < sizes.size(); ++d)
        if (resize.getScales()[d] == 0) sizes[d] = ir::tensorOf(resize.getResult()).getDimSize(2 + d);
      resize.setSizes(sizes);
    }
    if (!isSlice && !isRange && !isa<ir::ReshapeOp, ir::ExpandOp>(op)) return;
    Builder builder(op->getContext());
    op->setAttr(isSlice || isRange ? "sizes" : "shape",
                builder.getDenseI64ArrayAttr(ir::tensorOf(op->getResult(0)).getShape()));
    auto names = op->getAttrOfType<ArrayAttr>("start_symbols");
    if (!names) return;
    SmallVector<int64_t> starts(op->getAttrOfType<DenseI64ArrayAttr>("starts").asArrayRef());
    for (auto [first, name] : llvm::zip(starts, names)) first = start(dyn_cast<StringAttr>(name), first);
    op->setAttr("starts", builder.getDenseI64ArrayAttr(starts));
  }

  const shape::SymbolBindings& samples_;
  Status status_;
};

}  // namespace

DictionaryAttr samplesAttr(MLIRContext* context, const std::map<std::string, int64_t>& samples) {
  Builder builder(context);
  SmallVector<NamedAttribute> all;
  for (const auto& [name, sample] : samples)
    all.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(sample)));
  return builder.getDictionaryAttr(all);
}

bool holds(const SizeGuard& guard, const shape::SymbolBindings& sizes) {
  const std::optional<int64_t> left = guard.left.evaluate(sizes), right = guard.right.evaluate(sizes);
  return left && right && (guard.isEqual ? *left == *right : *left <= *right);
}

StatusOr<std::vector<SizeGuard>> sizeGuards(ModuleOp module) {
  GuardFinder finder(ir::sizeBounds(module));
  if (auto main = module.lookupSymbol<func::FuncOp>("main")) HPU_RETURN_IF_ERROR(finder.block(main.getBody().front()));
  for (const auto& [a, b] : equalSizes(module)) {
    const DimExpr left = DimExpr::symbol(a), right = DimExpr::symbol(b);
    // Most have been found at the node that asks for it, which says more.
    if (llvm::none_of(finder.guards, [&](const SizeGuard& guard) {
          return guard.isEqual &&
                 ((guard.left == left && guard.right == right) || (guard.left == right && guard.right == left));
        }))
      finder.guards.push_back({true, left, right, strCat("the model joins tensors of the sizes ", a, " and ", b)});
  }
  return std::move(finder.guards);
}

Status unifySizes(ModuleOp module, const std::vector<SizeGuard>& guards) {
  std::map<std::string, std::string> same;
  auto shortest = [&](std::string name) {
    for (auto found = same.find(name); found != same.end(); found = same.find(name)) name = found->second;
    return name;
  };
  for (const SizeGuard& guard : guards) {
    if (!guard.isEqual || guard.left.isConstant() || guard.right.isConstant()) continue;
    std::string a = shortest(guard.left.text()), b = shortest(guard.right.text());
    if (a.size() < b.size() || (a.size() == b.size() && a < b)) std::swap(a, b);
    if (a != b) same[a] = b;
  }
  if (same.empty()) return okStatus();
  Builder builder(module.getContext());
  SmallVector<mlir::Attribute> pairs;
  for (auto& [name, other] : same) {
    other = shortest(other);
    pairs.push_back(builder.getStrArrayAttr({name, other}));
  }
  renameInputs(module, same);
  module->setAttr(kSameSizesAttr, builder.getArrayAttr(pairs));
  return nameSizes(module);
}

Status rebindModule(ModuleOp module, const std::map<std::string, int64_t>& samples) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return invalidArgument("the module has no function @main");
  HPU_RETURN_IF_ERROR(Rebinder(samples).run(main));
  module->setAttr(ir::kSamplesAttr, samplesAttr(module.getContext(), samples));
  return okStatus();
}

Status nameSizes(ModuleOp module, bool fromPhase) {
  auto samples = module->getAttrOfType<DictionaryAttr>(ir::kSamplesAttr);
  return samples ? Namer(module, samples, fromPhase).run() : okStatus();
}

}  // namespace hpu::importer
