// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/States.h"

#include <algorithm>
#include <vector>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/OptionNames.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
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
    auto back = end->getOperand(state.result).getDefiningOp<ir::CastOp>();
    if (!back || argument.use_empty()) continue;
    auto narrow = ir::tensorOf(back.getX());
    // Casts between other types are the model's own, and mean something.
    if (!ir::tensorOf(argument).getElementType().isF32() || !isa<BFloat16Type, Float16Type>(narrow.getElementType()))
      continue;
    const bool isRead = llvm::all_of(argument.getUsers(), [&](Operation* user) {
      auto to = dyn_cast<ir::CastOp>(user);
      return to && ir::tensorOf(to.getResult()).getElementType() == narrow.getElementType();
    });
    if (!isRead) continue;
    const Type type = (*argument.getUsers().begin())->getResult(0).getType();
    for (Operation* user : llvm::make_early_inc_range(argument.getUsers())) {
      user->getResult(0).replaceAllUsesWith(argument);
      user->erase();
    }
    argument.setType(type);
    end->setOperand(state.result, back.getX());
    if (back->use_empty()) back->erase();
    inputs[state.argument] = type;
    outputs[state.result] = narrow;
  }
  function.setType(FunctionType::get(function.getContext(), inputs, outputs));
}

}  // namespace hpu::pipeline
