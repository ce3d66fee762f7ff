// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/States.h"

#include <algorithm>
#include <vector>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "compiler/dialect/hpu/DataSizes.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/States.h"
#include "compiler/dialect/hpu/TensorOf.h"

using namespace mlir;

namespace hpu::pipeline {
namespace {

using base::strCat;

/// Beyond any device's memory: the bound of a size that nobody has given one, and a state's elements.
constexpr int64_t kMostSize = int64_t{1} << 31, kMostElements = int64_t{1} << 40;

std::vector<std::string> namesOf(func::FuncOp function, bool isOutput) {
  std::vector<std::string> names;
  const unsigned count = isOutput ? function.getNumResults() : function.getNumArguments();
  for (unsigned i = 0; i < count; ++i) {
    auto name = isOutput ? function.getResultAttrOfType<StringAttr>(i, "hpu.name")
                         : function.getArgAttrOfType<StringAttr>(i, "hpu.name");
    names.push_back(name ? name.str() : strCat(isOutput ? "output" : "input", i));
  }
  return names;
}

/// What stands for the '*' of `pattern` in `name`; nullopt: it is another name.
std::optional<std::string> starOf(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == name ? std::optional(std::string()) : std::nullopt;
  const size_t behind = pattern.size() - star - 1;
  if (name.size() < star + behind || name.compare(0, star, pattern, 0, star) != 0 ||
      name.compare(name.size() - behind, behind, pattern, star + 1, behind) != 0)
    return std::nullopt;
  return name.substr(star, name.size() - star - behind);
}

class StateBinder {
 public:
  explicit StateBinder(func::FuncOp function)
      : function_(function),
        inputs_(namesOf(function, false)),
        outputs_(namesOf(function, true)),
        bounds_(ir::sizeBounds(function)) {}

  Status bind(const std::string& output, const std::string& input) {
    const auto stars = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
    what_ = strCat("'", base::clipped(output), "=", base::clipped(input), "' of ", base::optionName("states"));
    if (stars(output) > 1 || stars(output) != stars(input))
      return invalidArgument(what_ + " has a '*' in one name, or several; both names have one, or none");
    bool isAny = false;
    for (unsigned o = 0; o < outputs_.size(); ++o) {
      const std::optional<std::string> star = starOf(output, outputs_[o]);
      if (!star) continue;
      isAny = true;
      std::string name = input;
      if (const size_t at = name.find('*'); at != std::string::npos) name.replace(at, 1, *star);
      const auto found = std::find(inputs_.begin(), inputs_.end(), name);
      if (found == inputs_.end())
        return invalidArgument(strCat(what_, ": there is no input '", base::clipped(name), "' for the output '",
                                      base::clipped(outputs_[o]), "'", base::didYouMean(name, inputs_)));
      HPU_RETURN_IF_ERROR(bindPair(o, static_cast<unsigned>(found - inputs_.begin())));
    }
    if (isAny) return okStatus();
    return invalidArgument(
        strCat(what_, ": there is no output '", base::clipped(output), "'", base::didYouMean(output, outputs_)));
  }

 private:
  Status bindPair(unsigned output, unsigned input) {
    const std::string pair =
        strCat("output '", base::clipped(outputs_[output]), "' and input '", base::clipped(inputs_[input]), "'");
    if (function_.getResultAttr(output, ir::kStateAttr) || function_.getArgAttr(input, ir::kStateAttr))
      return invalidArgument(strCat(what_, ": ", pair, ": one of them is in another state already"));
    for (const ir::DataSize& size : ir::dataSizes(function_->getParentOfType<ModuleOp>()))
      if (size.output == output)
        return unimplemented(strCat(what_, ": the size of dimension ", size.dim, " of the output '",
                                    base::clipped(outputs_[output]),
                                    "' depends on data (what the model selects), and that of a state has to be known "
                                    "at launch; leave it an output of its own, or let the model store into a state of "
                                    "a fixed size"));
    auto before = cast<RankedTensorType>(function_.getArgumentTypes()[input]);
    auto after = cast<RankedTensorType>(function_.getResultTypes()[output]);
    if (before.getElementType() != after.getElementType() || before.getRank() != after.getRank())
      return invalidArgument(strCat(what_, ": ", pair, " are ", ir::typeToString(after), " and ",
                                    ir::typeToString(before), ", which cannot be one tensor"));
    SmallVector<int64_t> capacity;
    int64_t elements = 1;
    for (const auto& [a, b] : llvm::zip(ir::symShape(before), ir::symShape(after))) {
      const int64_t size = std::max<int64_t>({largest(a), largest(b), 1});
      if (size > std::min(kMostSize, kMostElements / elements))
        return invalidArgument(strCat(what_, ": ", pair, " have no bound for the size ", sizeText(a),
                                      sizeText(a) == sizeText(b) ? "" : ", or " + sizeText(b), "; give bounds to ",
                                      boundOptions(a, b)));
      elements *= size;
      capacity.push_back(size);
    }
    ir::addState(function_, input, output, capacity);
    return okStatus();
  }

  int64_t largest(const ir::SymDim& dim) const {
    if (!dim.isNamed()) return dim.size;
    const std::optional<shape::DimExpr> size = ir::exprOf(dim);
    return size ? size->interval(bounds_).high : INT64_MAX;
  }
  static std::string sizeText(const ir::SymDim& dim) {
    return dim.isNamed() ? dim.symbol.str() : std::to_string(dim.size);
  }
  std::string boundOptions(const ir::SymDim& a, const ir::SymDim& b) const {
    std::vector<std::string> names;
    for (const ir::SymDim& dim : {a, b})
      if (const std::optional<shape::DimExpr> size = dim.isNamed() ? ir::exprOf(dim) : std::nullopt)
        for (const std::string& name : size->symbols())
          if (!llvm::is_contained(names, name)) names.push_back(name);
    return strCat("'", base::clipped(base::join(names, "' and '")), "' (", base::optionName("dims"), ")");
  }

  func::FuncOp function_;
  std::vector<std::string> inputs_, outputs_;
  shape::SymbolBounds bounds_;
  std::string what_;
};

// ---- What is in memory as narrow as it is computed ---------------------------------------------------

bool isView(Operation* op) {
  auto own = dyn_cast<ir::HpuOp>(op);
  return own && own.isView();
}

/// `value` becomes what its views start from.
SmallVector<Operation*> viewsBelow(Value& value) {
  SmallVector<Operation*> views;
  for (Operation* view = value.getDefiningOp(); view && isView(view); view = value.getDefiningOp()) {
    views.push_back(view);
    value = view->getOperand(0);
  }
  return views;
}

RankedTensorType withElement(Value value, Type element) {
  RankedTensorType type = ir::tensorOf(value);
  return RankedTensorType::get(type.getShape(), element, type.getEncoding());
}

/// Somebody reads the value as `narrow`, perhaps through views.
bool isReadAs(Value value, Type narrow) {
  return llvm::any_of(value.getUsers(), [&](Operation* user) {
    if (isView(user)) return isReadAs(user->getResult(0), narrow);
    return isa<ir::CastOp>(user) && ir::tensorOf(user->getResult(0)).getElementType() == narrow;
  });
}

/// What `view` makes of its operand, of `value`, which has another type of element.
Value viewOf(OpBuilder& builder, Operation* view, Value value) {
  Operation* copy = builder.clone(*view);
  copy->setOperand(0, value);
  copy->getResult(0).setType(withElement(copy->getResult(0), ir::tensorOf(value).getElementType()));
  return copy->getResult(0);
}

/// Readers of `value` read `narrow` instead: as it is when they convert it to that anyway.
void narrowReads(OpBuilder& builder, Value value, Value narrow) {
  const Type element = ir::tensorOf(narrow).getElementType();
  SmallVector<OpOperand*> others;
  for (OpOperand& use : llvm::make_early_inc_range(value.getUses())) {
    Operation* user = use.getOwner();
    if (isa<ir::CastOp>(user) && ir::tensorOf(user->getResult(0)).getElementType() == element) {
      user->getResult(0).replaceAllUsesWith(narrow);
      user->erase();
    } else if (isView(user)) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(user);
      narrowReads(builder, user->getResult(0), viewOf(builder, user, narrow));
      user->erase();
    } else {
      others.push_back(&use);
    }
  }
  if (others.empty()) return;
  builder.setInsertionPointAfterValue(narrow);
  const Type f32 = builder.getF32Type();
  const Value wide = ir::CastOp::create(builder, others.front()->getOwner()->getLoc(), narrow, f32);
  for (OpOperand* use : others) use->set(wide);
}

}  // namespace

Status bindStates(func::FuncOp function, const std::map<std::string, std::string>& states) {
  StateBinder binder(function);
  for (const auto& [output, input] : states) HPU_RETURN_IF_ERROR(binder.bind(output, input));
  return okStatus();
}

void narrowStates(func::FuncOp function) {
  Operation* end = function.getBody().front().getTerminator();
  SmallVector<Type> inputs(function.getArgumentTypes()), outputs(function.getResultTypes());
  for (const ir::StateMemory& state : ir::statesOf(function)) {
    BlockArgument argument = function.getArgument(state.argument);
    Value computed = end->getOperand(state.result);
    const SmallVector<Operation*> views = viewsBelow(computed);
    auto back = computed.getDefiningOp<ir::CastOp>();
    if (!back) continue;
    const Type narrow = ir::tensorOf(back.getX()).getElementType();
    // Casts between other types are the model's own, and mean something.
    if (!ir::tensorOf(argument).getElementType().isF32() || !isa<BFloat16Type, Float16Type>(narrow)) continue;
    if (!isReadAs(argument, narrow)) continue;
    OpBuilder builder(end);
    Value after = back.getX();
    for (Operation* view : llvm::reverse(views)) after = viewOf(builder, view, after);
    end->setOperand(state.result, after);
    for (Operation* view : views)
      if (view->use_empty()) view->erase();
    if (back->use_empty()) back->erase();
    outputs[state.result] = after.getType();
    inputs[state.argument] = withElement(argument, narrow);
    argument.setType(inputs[state.argument]);
    narrowReads(builder, argument, argument);
  }
  function.setType(FunctionType::get(function.getContext(), inputs, outputs));
}

}  // namespace hpu::pipeline
