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
    value.setType(ir::withOrder(ir::tensorType(shape, now.getElementType()), ir::physicalOrder(now)));
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
};

}  // namespace

Status representModule(ModuleOp module, const ImportOptions& options) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main) return invalidArgument("the module has no function @main");
  const std::set<std::string> symbols = openSymbols(main, options);
  if (symbols.empty()) return specializeModule(module, options);
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
    ImportOptions represented = options;
    size_t next = 0;
    for (const std::string& name : symbols) represented.samples[name] = primes[next++] * power;
    OwningOpRef<ModuleOp> trial = module.clone();
    Status status = specializeModule(*trial, represented);
    if (status.ok()) {
      HPU_RETURN_IF_ERROR(specializeModule(module, represented));
      Builder builder(module.getContext());
      SmallVector<NamedAttribute> samples;
      for (const auto& [name, sample] : represented.samples)
        samples.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(sample)));
      module->setAttr(ir::kSamplesAttr, builder.getDictionaryAttr(samples));
      return nameSizes(module);
    }
    if (first.ok()) first = status;
  }
  return first;
}

Status nameSizes(ModuleOp module) {
  auto samples = module->getAttrOfType<DictionaryAttr>(ir::kSamplesAttr);
  return samples ? Namer(module, samples).run() : okStatus();
}

}  // namespace hpu::importer
