// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/Specialize.h"

#include <set>
#include <string>
#include <vector>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/ResizeCoordinates.h"
#include "compiler/import/ImportState.h"
#include "compiler/import/ValueSizes.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/support/CreateOp.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "shape/DimExpr.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;
using shape::SymbolBindings;

namespace {

/// A dimension after the bindings are applied; with `samples` of all that is free in it, it gets a size and keeps its
/// name.
SymDim resolve(const SymDim& dim, const SymbolBindings& bindings, const ImportOptions& options) {
  if (!dim.isFree() || !dim.symbol) return dim;
  if (auto bound = bindings.find(dim.symbol.str()); bound != bindings.end()) return {bound->second};
  std::optional<DimExpr> size = DimExpr::parse(dim.symbol.getValue()).substitute(bindings);
  if (!size) return dim;
  const SymbolBindings& samples = options.samples;
  if (!samples.empty()) size = size->simplified(options.bounds);
  const std::optional<int64_t> sample = samples.empty() ? std::nullopt : size->evaluate(samples);
  return ir::dimOf(dim.symbol.getContext(), size, sample.value_or(ShapedType::kDynamic));
}

std::string list(const std::set<std::string>& names) {
  const std::vector<std::string> all(names.begin(), names.end());
  return all.empty() ? "none" : base::clipped(base::join(all));
}

class Specializer {
 public:
  Specializer(func::FuncOp main, const ImportOptions& options) : main_(main), options_(options) {}

  /// Only compares.
  Status check() { return bind(); }

  Status run() {
    HPU_RETURN_IF_ERROR(bind());
    for (BlockArgument argument : main_.getArguments()) {
      auto type = resolved(cast<RankedTensorType>(argument.getType()), argument.getArgNumber());
      if (!ir::fitsMemory(type))
        return invalidArgument(strCat("the input '", inputName(argument.getArgNumber()), "' would be ",
                                      ir::typeToString(type), ", which no memory holds"));
      argument.setType(type);
    }
    ir::DiagnosticCapture capture(main_.getContext());
    for (Operation& op : main_.getBody().front().without_terminator())
      if (failed(update(&op))) return capture.status(StatusCode::kInvalidArgument, "");
    const bool allKnown = llvm::all_of(main_.getArguments(), [](BlockArgument argument) {
      return cast<RankedTensorType>(argument.getType()).hasStaticShape();
    });
    for (Operation& op : main_.getBody().front().without_terminator())
      if (allKnown && failed(checkKnown(&op))) return capture.status(StatusCode::kInvalidArgument, "");
    Operation* terminator = main_.getBody().front().getTerminator();
    main_.setType(
        FunctionType::get(main_.getContext(), TypeRange(main_.getArguments()), terminator->getOperandTypes()));
    if (failed(verify(main_))) return capture.status(StatusCode::kInvalidArgument, "");
    return okStatus();
  }

 private:
  std::string inputName(unsigned index) {
    auto name = main_.getArgAttrOfType<StringAttr>(index, "hpu.name");
    return name ? name.str() : strCat("input", index);
  }

  const Shape* shapeOption(unsigned index) {
    auto found = options_.shapes.find(inputName(index));
    return found == options_.shapes.end() ? nullptr : &found->second;
  }

  Status bindOne(const std::string& name, int64_t size) {
    if (size < 0) return invalidArgument(strCat("the free dimension '", name, "' cannot have the size ", size));
    auto [slot, isNew] = bindings_.try_emplace(name, size);
    if (!isNew && slot->second != size)
      return invalidArgument(
          strCat("the free dimension '", name, "' is given the sizes ", slot->second, " and ", size));
    return okStatus();
  }

  /// Of "past + seq" with a size, and a size of seq, what past is; what is known of all of them must agree.
  Status solve() {
    for (bool again = true; std::exchange(again, false);) {
      for (const auto& [text, size] : SymbolBindings(bindings_)) {
        const DimExpr whole = DimExpr::parse(text);
        if (whole.asSymbol()) continue;
        SymbolBindings parts = bindings_;
        parts.erase(text);
        const std::optional<DimExpr> left = whole.substitute(parts);
        if (!left) continue;
        auto differs = [&](const std::string& how) {
          return invalidArgument(strCat("the free dimension '", text, "' is given the size ", size, ", and ", how));
        };
        if (const std::optional<int64_t> value = left->constant(); value && *value != size)
          return differs(strCat("follows from others to be ", *value));
        const std::vector<std::string> unknown = left->symbols();
        if (unknown.size() != 1) continue;
        // A sum with one part that is not known.
        const auto at = [&](int64_t value) { return left->evaluate({{unknown[0], value}}); };
        const auto zero = at(0), one = at(1), many = at(1000003);
        if (!zero || !one || !many) continue;
        using Wide = __int128;
        const Wide step = Wide{*one} - *zero, rest = Wide{size} - *zero;
        if (step == 0 || Wide{*many} - *zero != step * 1000003) continue;
        if (rest % step != 0 || rest / step < 0 || rest / step > INT64_MAX)
          return differs(strCat("there is no size of '", unknown[0], "' for that"));
        HPU_RETURN_IF_ERROR(bindOne(unknown[0], static_cast<int64_t>(rest / step)));
        again = true;
      }
    }
    return okStatus();
  }

  /// With all inputs' sizes known, all others are, too.
  LogicalResult checkKnown(Operation* op) {
    std::set<std::string> names;
    bool isKnown = true;
    auto look = [&](ArrayAttr symbols) {
      for (mlir::Attribute each : symbols ? symbols.getValue() : ArrayRef<mlir::Attribute>())
        if (auto name = dyn_cast<StringAttr>(each); name && !name.empty())
          for (const std::string& part : DimExpr::parse(name.getValue()).symbols()) names.insert(part);
    };
    for (Type each : op->getResultTypes())
      if (auto type = dyn_cast<RankedTensorType>(each); type && !type.hasStaticShape()) {
        isKnown = false;
        for (const SymDim& dim : ir::symShape(type))
          if (const auto size = ir::exprOf(dim))
            for (const std::string& part : size->symbols()) names.insert(part);
      }
    if (auto starts = op->getAttrOfType<DenseI64ArrayAttr>("starts"))
      isKnown &= llvm::none_of(starts.asArrayRef(), ShapedType::isDynamic);
    if (isKnown) return success();
    look(op->getAttrOfType<ArrayAttr>("start_symbols"));
    look(op->getAttrOfType<ArrayAttr>("symbols"));
    const std::vector<std::string> all(names.begin(), names.end());
    return op->emitError(all.empty() ? std::string("its size does not follow from those of the inputs")
                                     : "its size follows from dimensions that have none: " + sizeOptions(all));
  }

  Status bind() {
    std::set<std::string> inputs, symbols;
    for (BlockArgument argument : main_.getArguments()) {
      unsigned index = argument.getArgNumber();
      auto type = cast<RankedTensorType>(argument.getType());
      inputs.insert(inputName(index));
      const Shape* shape = shapeOption(index);
      auto differs = [&](const std::string& how) {
        return invalidArgument(strCat("the input '", inputName(index), "' is ", ir::typeToString(type), ", not ",
                                      shapeToString(*shape), ": ", how));
      };
      if (shape && static_cast<int64_t>(shape->size()) != type.getRank())
        return differs(strCat("it has ", type.getRank(), " dimensions, and ", shape->size(), " sizes were given"));
      for (auto [d, dim] : llvm::enumerate(ir::symShape(type))) {
        if (dim.isFree() && dim.symbol) {
          symbols.insert(dim.symbol.str());
          for (const std::string& part : DimExpr::parse(dim.symbol.getValue()).symbols()) symbols.insert(part);
        }
        if (!shape || (*shape)[d] == kDynamic) continue;
        const int64_t given = (*shape)[d];
        if (!dim.isFree() && dim.size != given)
          return differs(strCat("its dimension ", d, " has the size ", dim.size, ", and ", given, " was given"));
        if (dim.isFree() && given < 0)
          return differs(strCat("its free dimension ", d, " cannot have the size ", given));
        if (dim.isFree() && dim.symbol) HPU_RETURN_IF_ERROR(bindOne(dim.symbol.str(), given));
      }
    }
    const auto module = main_->getParentOfType<ModuleOp>();
    const std::vector<ValueSize> values = valueSizes(module);
    const std::map<std::string, int64_t> fixed = fixedSizes(module);
    const std::map<std::string, std::string> joined = joinedSizes(module);
    for (const auto& [name, size] : options_.dims) {
      for (const ValueSize& value : values)
        if (value.symbol == name)
          return invalidArgument(
              strCat("'", name, "', for which ", size, " was given, is a value of the input '", value.input,
                     "', which a module keeps; give it while the model is imported, or ", "bounds of it"));
      if (auto other = joined.find(name); other != joined.end() && symbols.count(other->second)) {
        HPU_RETURN_IF_ERROR(bindOne(other->second, size));
        continue;
      }
      if (auto own = fixed.find(name); own != fixed.end() && !symbols.count(name)) {
        if (own->second != size)
          return invalidArgument(strCat("the dimension '", name, "' is given the size ", size,
                                        ", and nodes of the model ask for ", own->second));
        continue;
      }
      if (!symbols.count(name))
        return invalidArgument(strCat("no input has a free dimension '", name, "', for which the size ", size,
                                      " was given (there are: ", list(symbols), ")"));
      HPU_RETURN_IF_ERROR(bindOne(name, size));
    }
    HPU_RETURN_IF_ERROR(solve());
    for (const auto& [name, shape] : options_.shapes)
      if (!inputs.count(name))
        return invalidArgument(strCat("there is no input '", name, "', for which the sizes ", shapeToString(shape),
                                      " were given (there are: ", list(inputs), ")"));
    return okStatus();
  }

  RankedTensorType resolved(RankedTensorType type, unsigned index) {
    SymShape shape = ir::symShape(type);
    const Shape* given = shapeOption(index);
    for (auto [d, dim] : llvm::enumerate(shape)) {
      dim = resolve(dim, bindings_, options_);
      if (dim.isFree() && given && (*given)[d] != kDynamic) dim = {(*given)[d]};  // An anonymous one.
    }
    return ir::tensorType(shape, type.getElementType());
  }

  /// Where a slice begins that has elements at all sizes stays: that it begins inside is a guard. One that may have
  /// none begins inside even then.
  DimExpr withinTensor(const DimExpr& start, Operation* op, size_t dim) {
    if (!isa<ir::SliceOp>(op) || start.interval(options_.bounds).low >= 0) return start;
    auto symbols = op->getAttrOfType<ArrayAttr>("symbols");
    auto name = symbols && dim < symbols.size() ? dyn_cast<StringAttr>(symbols[dim]) : StringAttr();
    const auto size = name && !name.empty() ? DimExpr::parse(name.getValue()).substitute(bindings_) : std::nullopt;
    if (!size || size->simplified(options_.bounds).interval(options_.bounds).low >= 1) return start;
    // Backwards, one that begins before the first element stays where that does not follow from its size: a reflection
    // that is too long.
    const bool isBackward = cast<ir::SliceOp>(op).getSteps()[dim] < 0;
    const std::optional<DimExpr> gap = isBackward ? start.minus(*size) : std::nullopt;
    const bool follows = !isBackward || (gap && gap->interval(options_.bounds).low >= -1);
    const auto inside = follows ? DimExpr::max(start, 0) : DimExpr::select(DimExpr::Compare::kLess, *size, 1, 0, start);
    return inside ? inside->simplified(options_.bounds) : start;
  }

  /// Where a slice begins, which may follow from free dimensions.
  void updateStarts(Operation* op) {
    auto symbols = op->getAttrOfType<ArrayAttr>("start_symbols");
    auto starts = op->getAttrOfType<DenseI64ArrayAttr>("starts");
    if (!symbols || !starts || symbols.size() != static_cast<size_t>(starts.size())) return;
    Builder builder(op->getContext());
    SmallVector<int64_t> out(starts.asArrayRef());
    SmallVector<mlir::Attribute> names;
    bool anyNamed = false;
    for (size_t d = 0; d < out.size(); ++d) {
      auto name = dyn_cast<StringAttr>(symbols[d]);
      auto start = name && !name.empty() ? DimExpr::parse(name.getValue()).substitute(bindings_) : std::nullopt;
      if (start && !options_.samples.empty()) start = withinTensor(start->simplified(options_.bounds), op, d);
      const bool isNamed = start && !start->isConstant();
      // One that lies before the first element stays: the slice's verifier names it.
      if (const auto number = start ? start->evaluate(options_.samples) : std::nullopt) out[d] = *number;
      names.push_back(builder.getStringAttr(isNamed ? start->text() : ""));
      anyNamed |= isNamed;
    }
    op->setAttr("starts", builder.getDenseI64ArrayAttr(out));
    if (anyNamed)
      op->setAttr("start_symbols", builder.getArrayAttr(names));
    else
      op->removeAttr("start_symbols");
  }

  /// Sizes in attributes: those of reshape, expand, slice, range, resize and top_indices name free dimensions; whole
  /// ones of slice follow the operand.
  void updateAttributes(Operation* op) {
    const bool isSlice = isa<ir::SliceOp>(op), isReshape = isa<ir::ReshapeOp>(op), isExpand = isa<ir::ExpandOp>(op),
               isRange = isa<ir::RangeOp>(op), isTop = isa<ir::TopIndicesOp>(op);
    // One that scales its operand: updateResize.
    const bool isResize = isa<ir::ResizeOp>(op) && op->hasAttr("symbols");
    llvm::StringRef sizesName = isSlice || isRange || isTop || isResize ? "sizes" : "shape";
    auto sizes = op->getAttrOfType<DenseI64ArrayAttr>(sizesName);
    if (!sizes || (!isSlice && !isReshape && !isExpand && !isRange && !isTop && !isResize)) return;
    if (isSlice || isRange) updateStarts(op);
    const auto x = isRange ? RankedTensorType() : cast<RankedTensorType>(op->getOperand(0).getType());
    auto symbols = op->getAttrOfType<ArrayAttr>("symbols");
    Builder builder(op->getContext());
    SmallVector<int64_t> out(sizes.asArrayRef());
    SmallVector<mlir::Attribute> names;
    bool anyNamed = false;
    int64_t known = 1, anonymous = -1, anonymousCount = 0;
    bool fits = true;
    for (size_t d = 0; d < out.size(); ++d) {
      SymDim dim{out[d]};
      if (symbols && d < symbols.size())
        if (auto name = dyn_cast<StringAttr>(symbols[d]); name && !name.empty()) dim.symbol = name;
      if (isSlice && dim.isFree() && !dim.isNamed() && !x.isDynamicDim(d)) {
        int64_t start = op->getAttrOfType<DenseI64ArrayAttr>("starts")[d],
                step = op->getAttrOfType<DenseI64ArrayAttr>("steps")[d];
        const ir::SymDim whole = ir::symShape(x)[d];
        const int64_t size =
            step > 0 ? std::max<int64_t>(0, (x.getDimSize(d) - start + step - 1) / step) : start / -step + 1;
        dim = {size};
        if (whole.isNamed() && step > 0) {
          const std::optional<DimExpr> left = ir::exprOf(whole)->minus(start);
          dim = ir::dimOf(op->getContext(), left ? left->ceilDiv(step) : std::nullopt, size);
        }
      }
      dim = resolve(dim, bindings_, options_);
      out[d] = dim.size;
      StringAttr name = dim.isNamed() ? dim.symbol : builder.getStringAttr("");
      anyNamed |= !name.empty();
      names.push_back(name);
      if (dim.isFree())
        anonymous = d, ++anonymousCount;
      else
        fits &= !__builtin_mul_overflow(known, std::max<int64_t>(dim.size, 1), &known);
    }
    // One size that has no name follows from the number of elements.
    if (isReshape && fits && anonymousCount == 1 && x.hasStaticShape() && x.getNumElements() % known == 0) {
      out[anonymous] = x.getNumElements() / known;
      anyNamed = false;
    }
    if (isExpand)
      for (size_t d = 0; d < out.size(); ++d) {
        int64_t own = static_cast<int64_t>(d) - (static_cast<int64_t>(out.size()) - x.getRank());
        if (ShapedType::isDynamic(out[d]) && names[d] == builder.getStringAttr("") && own >= 0)
          out[d] = x.getDimSize(own);
      }
    op->setAttr(sizesName, builder.getDenseI64ArrayAttr(out));
    // As the importer has it: without a next element no step leads to one, and nothing is taken from anywhere.
    if (auto steps = op->getAttrOfType<DenseI64ArrayAttr>("steps"); isSlice && steps) {
      SmallVector<int64_t> step(steps.asArrayRef()), start(op->getAttrOfType<DenseI64ArrayAttr>("starts").asArrayRef());
      for (size_t d = 0; d < out.size() && d < step.size() && d < start.size(); ++d) {
        if (out[d] == 0 || out[d] == 1) step[d] = 1;
        if (out[d] == 0) start[d] = 0;
      }
      op->setAttr("steps", builder.getDenseI64ArrayAttr(step));
      op->setAttr("starts", builder.getDenseI64ArrayAttr(start));
    }
    if (isRange && out.size() == 1 && out[0] > kMaxGenerated && !anyNamed)
      tooLong_ = strCat("more than ", kMaxGenerated, " elements");
    if (symbols) {
      if (anyNamed)
        op->setAttr("symbols", builder.getArrayAttr(names));
      else
        op->removeAttr("symbols");
    }
  }

  /// Constant indices into a dimension that has a size only now.
  LogicalResult checkIndices(Operation* op) {
    if (!isa<ir::GatherOp, ir::GatherElementsOp>(op)) return success();
    auto constant = op->getOperand(1).getDefiningOp<ir::ConstantOp>();
    const int64_t axis = op->getAttrOfType<IntegerAttr>("axis").getInt();
    auto x = cast<RankedTensorType>(op->getOperand(0).getType());
    if (!constant || axis < 0 || axis >= x.getRank() || x.isDynamicDim(axis)) return success();
    if (ir::symShape(x)[axis].isNamed()) return success();  // Each launch asks it.
    StatusOr<interp::Tensor> indices = interp::tensorOf(constant.getValue());
    const int64_t size = x.getDimSize(axis);
    for (int64_t i = 0; indices.ok() && i < indices->count(); ++i)
      if (const int64_t index = indices->integer(i); index < -size || index >= size)
        return op->emitError(
            strCat("index ", index, " is outside of dimension ", axis, ", which has ", size, " elements"));
    return success();
  }

  /// Sizes that follow from the operand's.
  LogicalResult updateResize(ir::ResizeOp op) {
    auto x = cast<RankedTensorType>(op.getX().getType());
    SmallVector<int64_t> sizes(op.getSizes());
    for (int i = 0; i < 2; ++i) {
      // What is given late follows from the operand's expression.
      if (op.getScales()[i] == 0 || !ShapedType::isDynamic(sizes[i]) || x.isDynamicDim(2 + i) ||
          ir::symShape(x)[2 + i].isNamed())
        continue;
      const std::optional<int64_t> size = ir::scaledSize(x.getDimSize(2 + i), op.getScales()[i]);
      if (!size || *size < 1)
        return op.emitError(strCat("scales dimension ", 2 + i, " of ", x.getDimSize(2 + i), " by ", op.getScales()[i],
                                   ", which gives no size that a tensor can have"));
      sizes[i] = *size;
    }
    op.setSizes(sizes);
    return success();
  }

  LogicalResult update(Operation* op) {
    updateAttributes(op);
    if (auto slice = dyn_cast<ir::SliceOp>(op); slice && op->hasAttr(kIsWholeAttr)) {
      const auto x = cast<RankedTensorType>(slice.getX().getType());
      if (x.hasStaticShape() && !ir::hasNamedSizes(x) && x.getShape() != slice.getSizes())
        return op->emitError(strCat("cannot be reshaped: it is of ", slice.getSizes()[0],
                                    " elements, and its operand of ", x.getDimSize(0)));
    }
    if (!tooLong_.empty()) return op->emitError(tooLong_);
    if (auto resize = dyn_cast<ir::ResizeOp>(op); resize && failed(updateResize(resize))) return failure();
    auto infer = dyn_cast<InferTypeOpInterface>(op);
    if (!infer) {
      for (mlir::Value result : op->getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType()); !type || !type.hasStaticShape())
          return op->emitError("cannot be given sizes after fusion");
      return success();
    }
    SmallVector<Type> types;
    if (failed(checkIndices(op))) return failure();
    if (failed(infer.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(), op->getAttrDictionary(),
                                      op->getPropertiesStorage(), op->getRegions(), types)))
      return failure();
    for (auto [result, type] : llvm::zip(op->getResults(), types)) {
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && !ir::fitsMemory(tensor))
        return op->emitError("its result would be ")
               << ir::typeToString(tensor) << ", which "
               << (ir::hasNamedSizes(tensor)
                       ? "is no shape at sizes within the bounds that were tried; give other bounds"
                       : "no memory holds");
      result.setType(type);
    }
    return success();
  }

  func::FuncOp main_;
  const ImportOptions& options_;
  SymbolBindings bindings_;
  std::string tooLong_;  ///< What is wrong with a range.
};

}  // namespace

Status specializeModule(ModuleOp module, const ImportOptions& options) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return invalidArgument("the module has no function @main");
  HPU_RETURN_IF_ERROR(Specializer(main, options).run());
  // Which sizes would copy others if they were 0 is asked of sizes that launches give.
  if (options.samples.empty())
    main.walk([](ir::ReshapeOp op) {
      if (cast<RankedTensorType>(op.getResult().getType()).hasStaticShape()) op->removeAttr(kZeroCopiesAttr);
    });
  return okStatus();
}

Status checkSizes(ModuleOp module, const ImportOptions& options) {
  if (options.shapes.empty() && options.dims.empty()) return okStatus();
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return invalidArgument(
        "sizes of inputs are given (shapes, dims) to a program, whose sizes are all fixed; leave them out");
  return Specializer(main, options).check();
}

}  // namespace hpu::importer
