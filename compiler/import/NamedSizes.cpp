// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/NamedSizes.h"

#include <set>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
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

/// Every symbol gets one of these, times the same power of two: images whose sizes are halved and doubled again only
/// fit together at multiples of one.
constexpr int64_t kPrimes[] = {101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179};
constexpr int64_t kMostPower = 64;
/// On a module: names that guards say to be equal to shorter ones, with these.
constexpr llvm::StringLiteral kSameSizesAttr = "hpu.same_sizes";
/// Where no bound is given: far beyond what memory holds, and products of a few still have 64 bits.
constexpr int64_t kLargestSize = int64_t{1} << 32;

void addNumbers(func::FuncOp main, std::set<int64_t>& numbers) {
  auto add = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (int64_t size : tensor.getShape())
        if (!ShapedType::isDynamic(size)) numbers.insert(size);
  };
  main.walk([&](Operation* op) {
    for (Type type : op->getResultTypes()) add(type);
  });
  for (BlockArgument argument : main.getArguments()) add(argument.getType());
}

/// The free dimensions of the inputs that no option gives a size.
std::set<std::string> openSymbols(func::FuncOp main, const ImportOptions& options) {
  std::set<std::string> symbols;
  for (BlockArgument argument : main.getArguments())
    for (const SymDim& dim : ir::symShape(ir::tensorOf(argument)))
      if (dim.isFree() && dim.isNamed())
        for (const std::string& name : DimExpr::parse(dim.symbol.getValue()).symbols())
          if (!options.dims.count(name)) symbols.insert(name);
  return symbols;
}

/// Finds names again and sets them.
class Namer {
 public:
  Namer(ModuleOp module, DictionaryAttr samples) : module_(module), context_(module.getContext()) {
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
    main.setType(FunctionType::get(context_, main.getArgumentTypes(), end->getOperandTypes()));
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

  /// The sizes that an op states get names where they are not the operand's.
  void nameStated(Operation* op) {
    const bool isSlice = isa<ir::SliceOp>(op);
    if (!isSlice && !isa<ir::ReshapeOp, ir::ExpandOp>(op)) return;
    auto sizes = op->getAttrOfType<DenseI64ArrayAttr>(isSlice ? "sizes" : "shape");
    const SymShape from = ir::symShape(ir::tensorOf(op->getOperand(0)));
    SymShape to;
    auto old = op->getAttrOfType<ArrayAttr>("symbols");
    for (auto [d, size] : llvm::enumerate(sizes.asArrayRef())) {
      auto name = old && d < old.size() ? dyn_cast<StringAttr>(old[d]) : StringAttr();
      // A pattern may have changed the size and left the name.
      const bool holds = name && !name.empty() && DimExpr::parse(name.getValue()).evaluate(samples_) == size;
      to.push_back({size, holds ? name : StringAttr()});
    }
    if (isa<ir::ReshapeOp>(op)) to = ir::namedLike(from, to);
    bool isAny = false;
    SmallVector<mlir::Attribute> names;
    for (auto [d, dim] : llvm::enumerate(to)) {
      // A slice's whole dimension is named by its operand.
      const bool isWhole = isSlice && dim.size == from[d].size;
      if (!dim.isNamed() && !isWhole && depends(dim.size))
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
      if (dim.isNamed() && dim.size == 0)
        return unimplemented(strCat("the size ", dim.symbol.str(), " of ", ir::unitName(op),
                                    " is 0 for large sizes and not for others, which is not done for sizes that are "
                                    "given late; give sizes"));
    for (const SymDim& dim : shape)
      if (dim.isNamed() ? ir::exprOf(dim)->evaluate(samples_) != dim.size : depends(dim.size))
        return internalError(strCat("the size ", dim.size, " of ", ir::unitName(op), " (", ir::typeToString(inferred),
                                    ") depends on a dimension that is given late, and it is not known how"));
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
    if (auto reshape = dyn_cast<ir::ReshapeOp>(op))
      return relate(op, true, ir::symElements(ir::tensorOf(reshape.getX())),
                    ir::symElements(ir::tensorOf(reshape.getResult())));
    if (auto expand = dyn_cast<ir::ExpandOp>(op))
      return broadcast(op, shapeOf(expand.getX()), shapeOf(expand.getResult()));
    if (auto gather = dyn_cast<ir::GatherOp>(op))
      return indexed(op, gather.getX(), gather.getIndices(), static_cast<int64_t>(gather.getAxis()));
    if (auto gather = dyn_cast<ir::GatherElementsOp>(op))
      return indexed(op, gather.getX(), gather.getIndices(), static_cast<int64_t>(gather.getAxis()));
    if (auto scatter = dyn_cast<ir::ScatterNdOp>(op)) return scattered(scatter);
    if (auto scatter = dyn_cast<ir::ScatterElementsOp>(op)) return scattered(scatter);
    if (auto top = dyn_cast<ir::TopIndicesOp>(op)) {
      const size_t axis = top.getAxis();
      return relate(op, false, ir::numberOf(shapeOf(top.getResult())[axis]), ir::numberOf(shapeOf(top.getX())[axis]));
    }
    if (isa<ir::Conv2dOp, ir::ConvTranspose2dOp, ir::MaxPool2dOp, ir::AvgPool2dOp, ir::ResizeOp>(op)) {
      for (const SymDim& dim : ArrayRef(shapeOf(op->getResult(0))).drop_front(2))
        HPU_RETURN_IF_ERROR(relate(op, false, 1, ir::numberOf(dim)));
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

  Status relate(Operation* op, bool isEqual, const SymInt& left, const SymInt& right) {
    if (left == right || (left.isConstant() && right.isConstant())) return okStatus();
    if (left.isUnknown() || right.isUnknown())
      return internalError(strCat("what ", ir::unitName(op), " asks of its operands' sizes has no expression"));
    const DimExpr a = *left.expr(), b = *right.expr();
    const std::optional<DimExpr> gap = b.minus(a);
    const shape::Interval range = gap ? gap->interval(bounds_) : shape::Interval();
    if (isEqual ? DimExpr::equal(a, b, bounds_) == true : range.low >= 0) return okStatus();
    for (const SizeGuard& guard : guards)
      if (guard.isEqual == isEqual && guard.left == a && guard.right == b) return okStatus();
    guards.push_back(
        {isEqual, a, b,
         strCat(ir::unitName(op), " needs ", a.text(), isEqual ? " to be equal to " : " to be at most ", b.text())});
    return okStatus();
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
  /// Constant indices are inside of the dimension; any others need an element.
  Status indexed(Operation* op, mlir::Value x, mlir::Value indices, int64_t axis) {
    int64_t most = 0;
    if (auto constant = indices.getDefiningOp<ir::ConstantOp>()) {
      HPU_ASSIGN(const interp::Tensor values, interp::tensorOf(constant.getValue()));
      for (int64_t i = 0; i < values.count(); ++i) {
        const int64_t index = values.integer(i);
        most = std::max(most, index < 0 ? -1 - index : index);
      }
    }
    return relate(op, false, most + 1, ir::numberOf(shapeOf(x)[static_cast<size_t>(axis)]));
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
      const int64_t step = slice.getSteps()[d];
      HPU_RETURN_IF_ERROR(relate(slice, false, 0, start));
      // From the last element backwards it ends at the first one or behind it.
      if (step > 0)
        HPU_RETURN_IF_ERROR(relate(slice, false, start + (size - 1) * step + 1, whole));
      else
        HPU_RETURN_IF_ERROR(relate(slice, false, start + 1, whole));
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
  int64_t at(StringAttr name, int64_t otherwise) {
    if (!name || name.empty()) return otherwise;
    const std::optional<int64_t> value = DimExpr::parse(name.getValue()).evaluate(samples_);
    // What is empty now would be left out, and be missing at other sizes.
    if (value == 0 && status_.ok())
      status_ = unimplemented(strCat("the size ", name.str(),
                                     " is 0 at some sizes that the model is compiled for, which is "
                                     "not done; give sizes or other bounds"));
    if ((!value || *value < 0) && status_.ok())
      status_ = invalidArgument(strCat("the size ", name.str(), " would be ",
                                       value ? strCat(*value) : std::string("beyond 64 bits"), " within the bounds"));
    return value.value_or(otherwise);
  }
  void retype(mlir::Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !ir::hasNamedSizes(type)) return;
    if (value.getDefiningOp<ir::ConstantOp>() && status_.ok())
      status_ = unimplemented(strCat("a constant of the sizes ", ir::typeToString(type),
                                     " follows from sizes that are given late, which is not done; give sizes"));
    SymShape shape = ir::symShape(type);
    for (SymDim& dim : shape) dim.size = at(dim.symbol, dim.size);
    value.setType(ir::withOrder(ir::tensorType(shape, type.getElementType()), ir::physicalOrder(type)));
  }
  void restate(Operation* op) {
    const bool isSlice = isa<ir::SliceOp>(op), isRange = isa<ir::RangeOp>(op);
    if (auto top = dyn_cast<ir::TopIndicesOp>(op))
      top.setSizes({ir::tensorOf(top.getResult()).getDimSize(static_cast<int64_t>(top.getAxis()))});
    if (!isSlice && !isRange && !isa<ir::ReshapeOp, ir::ExpandOp>(op)) return;
    Builder builder(op->getContext());
    op->setAttr(isSlice || isRange ? "sizes" : "shape",
                builder.getDenseI64ArrayAttr(ir::tensorOf(op->getResult(0)).getShape()));
    auto names = op->getAttrOfType<ArrayAttr>("start_symbols");
    if (!names) return;
    SmallVector<int64_t> starts(op->getAttrOfType<DenseI64ArrayAttr>("starts").asArrayRef());
    for (auto [start, name] : llvm::zip(starts, names)) start = at(dyn_cast<StringAttr>(name), start);
    op->setAttr("starts", builder.getDenseI64ArrayAttr(starts));
  }

  const shape::SymbolBindings& samples_;
  Status status_;
};

DictionaryAttr samplesAttr(MLIRContext* context, const std::map<std::string, int64_t>& samples) {
  Builder builder(context);
  SmallVector<NamedAttribute> all;
  for (const auto& [name, sample] : samples)
    all.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(sample)));
  return builder.getDictionaryAttr(all);
}

}  // namespace

bool holds(const SizeGuard& guard, const shape::SymbolBindings& sizes) {
  const std::optional<int64_t> left = guard.left.evaluate(sizes), right = guard.right.evaluate(sizes);
  return left && right && (guard.isEqual ? *left == *right : *left <= *right);
}

Status representModule(ModuleOp module, const ImportOptions& options, const std::map<std::string, DimBounds>& bounds) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return invalidArgument("the module has no function @main");
  ImportOptions given = options;
  for (const auto& [name, own] : bounds)
    if (own.min == own.max) given.dims.emplace(name, own.min);
  const std::set<std::string> symbols = openSymbols(main, given);
  if (symbols.empty()) return specializeModule(module, given);
  std::set<int64_t> numbers;
  addNumbers(main, numbers);
  std::vector<int64_t> primes;
  for (int64_t prime : kPrimes)
    if (llvm::none_of(numbers, [&](int64_t number) { return number != 0 && number % prime == 0; }))
      primes.push_back(prime);
  if (symbols.size() > primes.size())
    return invalidArgument(
        strCat("at most ", primes.size(), " dimensions can be given late, and ", symbols.size(),
               " are free: ", base::clipped(base::join(std::vector<std::string>(symbols.begin(), symbols.end())))));
  Status first;
  for (int64_t power = 1; power <= kMostPower; power *= 2) {
    ImportOptions represented = given;
    size_t next = 0;
    for (const std::string& name : symbols) {
      represented.samples[name] = primes[next++] * power;
      const auto found = bounds.find(name);
      represented.bounds[name] = found == bounds.end()
                                     ? shape::Interval{1, kLargestSize}
                                     : shape::Interval{found->second.min, std::min(found->second.max, kLargestSize)};
    }
    OwningOpRef<ModuleOp> trial = module.clone();
    Status status = specializeModule(*trial, represented);
    if (status.ok()) {
      HPU_RETURN_IF_ERROR(specializeModule(module, represented));
      module->setAttr(ir::kSamplesAttr, samplesAttr(module.getContext(), represented.samples));
      Builder builder(module.getContext());
      SmallVector<NamedAttribute> pairs;
      for (const auto& [name, own] : represented.bounds)
        pairs.push_back(builder.getNamedAttr(name, builder.getDenseI64ArrayAttr({own.low, own.high})));
      module->setAttr(ir::kBoundsAttr, builder.getDictionaryAttr(pairs));
      return nameSizes(module);
    }
    if (first.ok()) first = status;
  }
  return first;
}

StatusOr<std::vector<SizeGuard>> sizeGuards(ModuleOp module) {
  GuardFinder finder(ir::sizeBounds(module));
  if (auto main = module.lookupSymbol<func::FuncOp>("main")) HPU_RETURN_IF_ERROR(finder.block(main.getBody().front()));
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
  for (const auto& [name, other] : same) pairs.push_back(builder.getStrArrayAttr({name, shortest(other)}));
  module->setAttr(kSameSizesAttr, builder.getArrayAttr(pairs));
  return nameSizes(module);
}

namespace {

/// Makes one of the guard's symbols smaller so that it holds: the largest such size near its own, or a power of two of
/// parts of it. False when there is none.
bool shrink(const SizeGuard& guard, const shape::SymbolBounds& bounds, shape::SymbolBindings& sizes) {
  constexpr int64_t kNear = 128;
  std::vector<std::string> symbols = guard.left.symbols();
  for (const std::string& symbol : guard.right.symbols()) symbols.push_back(symbol);
  for (const std::string& symbol : symbols) {
    const int64_t now = sizes.at(symbol), least = bounds.at(symbol).low;
    shape::SymbolBindings tried = sizes;
    auto fits = [&](int64_t size) {
      if (size < least) return false;
      tried[symbol] = size;
      return holds(guard, tried);
    };
    for (int64_t size = now - 1; size >= std::max(least, now - kNear); --size)
      if (fits(size)) return sizes[symbol] = size, true;
    for (int64_t size = now / 2; size > 0; size /= 2)
      if (fits(size)) return sizes[symbol] = size, true;
  }
  return false;
}

}  // namespace

StatusOr<std::map<std::string, int64_t>> sampleSizes(ModuleOp module, const std::vector<SizeGuard>& guards) {
  constexpr int64_t kLargest = 4096, kUnbounded = 1024;
  constexpr int kMostSteps = 256;
  const shape::SymbolBounds bounds = ir::sizeBounds(module);
  shape::SymbolBindings samples;
  for (const auto& [name, own] : bounds)
    samples[name] = own.high <= kLargest ? own.high : std::max(own.low, kUnbounded);
  for (int step = 0;; ++step) {
    const auto broken = llvm::find_if_not(guards, [&](const SizeGuard& guard) { return holds(guard, samples); });
    if (broken == guards.end()) return samples;
    if (step < kMostSteps && shrink(*broken, bounds, samples)) continue;
    std::vector<std::string> sizes;
    for (const auto& [name, size] : samples) sizes.push_back(strCat(name, " = ", size));
    return invalidArgument(strCat(broken->text, ", which does not hold for ", base::join(sizes),
                                  " and smaller sizes; give other bounds of these dimensions"));
  }
}

std::vector<std::map<std::string, int64_t>> smallerSamples(ModuleOp module, const std::vector<SizeGuard>& guards,
                                                           const std::map<std::string, int64_t>& samples) {
  constexpr int64_t kPart = 4;
  constexpr size_t kMostSamples = 3;
  constexpr int kMostSteps = 64;
  const shape::SymbolBounds bounds = ir::sizeBounds(module);
  std::vector<std::map<std::string, int64_t>> found;
  auto add = [&](shape::SymbolBindings sizes) {
    for (int step = 0; step < kMostSteps; ++step) {
      const auto broken = llvm::find_if_not(guards, [&](const SizeGuard& guard) { return holds(guard, sizes); });
      if (broken == guards.end()) {
        if (sizes != samples && !llvm::is_contained(found, sizes) && found.size() < kMostSamples)
          found.push_back(sizes);
        return;
      }
      if (!shrink(*broken, bounds, sizes)) return;
    }
  };
  auto part = [&](const std::string& name) {
    return std::max(bounds.at(name).low, (samples.at(name) + kPart - 1) / kPart);
  };
  shape::SymbolBindings all = samples;
  for (auto& [name, size] : all) size = part(name);
  add(all);
  for (const auto& [name, size] : samples) {
    shape::SymbolBindings one = samples;
    one[name] = part(name);
    add(one);
  }
  auto product = [](const shape::SymbolBindings& sizes) {
    double all = 1;
    for (const auto& [name, size] : sizes) all *= static_cast<double>(std::max<int64_t>(size, 1));
    return all;
  };
  llvm::stable_sort(found, [&](const auto& a, const auto& b) { return product(a) < product(b); });
  return found;
}

Status rebindModule(ModuleOp module, const std::map<std::string, int64_t>& samples) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return invalidArgument("the module has no function @main");
  HPU_RETURN_IF_ERROR(Rebinder(samples).run(main));
  module->setAttr(ir::kSamplesAttr, samplesAttr(module.getContext(), samples));
  return okStatus();
}

Status nameSizes(ModuleOp module) {
  auto samples = module->getAttrOfType<DictionaryAttr>(ir::kSamplesAttr);
  return samples ? Namer(module, samples).run() : okStatus();
}

}  // namespace hpu::importer
