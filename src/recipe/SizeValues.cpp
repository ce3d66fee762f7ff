// SPDX-License-Identifier: Apache-2.0
#include "recipe/SizeValues.h"

#include <algorithm>

#include "base/Format.h"
#include "base/Math.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"

namespace hpu::recipe {

using base::strCat;

namespace {

using Kind = SizeExpr::Kind;

/// coefficient * symbol + offset, or a number (symbol kNone). Not valid: it is neither.
struct Linear {
  uint32_t symbol = kNone;
  int64_t coefficient = 0, offset = 0;
  bool valid = false;

  bool isNumber() const { return valid && symbol == kNone; }
};

Linear number(int64_t value) {
  return {kNone, 0, value, true};
}

Linear plus(const Linear& a, const Linear& b) {
  if (!a.valid || !b.valid || (a.symbol != kNone && b.symbol != kNone && a.symbol != b.symbol)) return {};
  Linear sum{a.symbol == kNone ? b.symbol : a.symbol, 0, 0, true};
  if (__builtin_add_overflow(a.coefficient, b.coefficient, &sum.coefficient) ||
      __builtin_add_overflow(a.offset, b.offset, &sum.offset))
    return {};
  if (sum.coefficient == 0) sum.symbol = kNone;
  return sum;
}

Linear times(const Linear& a, const Linear& b) {
  if (!a.valid || !b.valid || (a.symbol != kNone && b.symbol != kNone)) return {};
  const Linear &free = a.symbol != kNone ? a : b, &factor = a.symbol != kNone ? b : a;
  Linear product{free.symbol, 0, 0, true};
  if (__builtin_mul_overflow(free.coefficient, factor.offset, &product.coefficient) ||
      __builtin_mul_overflow(free.offset, factor.offset, &product.offset))
    return {};
  if (product.coefficient == 0) product.symbol = kNone;
  return product;
}

/// By expression, with the symbols that are known (not less than 0).
std::vector<Linear> linearForms(const Dynamic& dynamic, const Sizes& known) {
  std::vector<Linear> forms(dynamic.exprs.size());
  for (size_t i = 0; i < forms.size(); ++i) {
    const SizeExpr& expr = dynamic.exprs[i];
    auto arg = [&](size_t a) -> const Linear& { return forms[expr.args[a]]; };
    Linear& form = forms[i];
    switch (expr.kind) {
      case Kind::kConstant:
        form = number(expr.number);
        break;
      case Kind::kSymbol: {
        const auto symbol = static_cast<uint32_t>(expr.number);
        form = known[symbol] >= 0 ? number(known[symbol]) : Linear{symbol, 1, 0, true};
        break;
      }
      case Kind::kSum:
      case Kind::kProduct:
        form = arg(0);
        for (size_t a = 1; a < expr.args.size(); ++a)
          form = expr.kind == Kind::kSum ? plus(form, arg(a)) : times(form, arg(a));
        break;
      case Kind::kFloorDiv:
        if (arg(0).isNumber() && arg(1).isNumber() && arg(1).offset >= 1)
          form = number(base::floorDiv(arg(0).offset, arg(1).offset));
        break;
      case Kind::kMin:
      case Kind::kMax:
        form = arg(0).isNumber() ? arg(0) : Linear{};
        for (size_t a = 1; a < expr.args.size(); ++a) {
          if (!arg(a).isNumber()) form = {};
          if (!form.valid) break;
          form.offset =
              expr.kind == Kind::kMin ? std::min(form.offset, arg(a).offset) : std::max(form.offset, arg(a).offset);
        }
        break;
      case Kind::kSelectEqual:
      case Kind::kSelectLess:
        if (arg(0).isNumber() && arg(1).isNumber()) {
          const int64_t a = arg(0).offset, b = arg(1).offset;
          form = arg((expr.kind == Kind::kSelectEqual ? a == b : a < b) ? 2 : 3);
        }
        break;
    }
  }
  return forms;
}

std::string exprTextAt(const Dynamic& dynamic, uint32_t index, int depth, bool nested) {
  // Of an expression nested deeper nobody reads the text; it would also grow without bounds.
  constexpr int kDeepest = 4;
  const SizeExpr& expr = dynamic.exprs[index];
  if (expr.kind == Kind::kConstant) return std::to_string(expr.number);
  if (expr.kind == Kind::kSymbol) return dynamic.symbols[static_cast<size_t>(expr.number)].name;
  if (depth == kDeepest || expr.args.size() > 6) return "...";
  auto arg = [&](size_t a, bool inner = false) { return exprTextAt(dynamic, expr.args[a], depth + 1, inner); };
  auto joined = [&](std::string_view between, bool inner) {
    std::string text = arg(0, inner);
    for (size_t a = 1; a < expr.args.size(); ++a) text += std::string(between) + arg(a, inner);
    return text;
  };
  switch (expr.kind) {
    case Kind::kSum:
      return nested ? "(" + joined(" + ", false) + ")" : joined(" + ", false);
    case Kind::kProduct:
      return joined("*", true);
    case Kind::kFloorDiv:
      return "floor(" + joined(" / ", true) + ")";
    case Kind::kMin:
      return "min(" + joined(", ", false) + ")";
    case Kind::kMax:
      return "max(" + joined(", ", false) + ")";
    default:
      return strCat("(", arg(0), expr.kind == Kind::kSelectEqual ? " == " : " < ", arg(1), " ? ", arg(2), " : ", arg(3),
                    ")");
  }
}

/// The sizes of one launch on their way from shapes.
class SizeSolver {
 public:
  SizeSolver(const Program& program, const std::vector<Shape>& inputs) : program_(program), inputs_(inputs) {}

  StatusOr<Sizes> solve() {
    HPU_RETURN_IF_ERROR(checkRanks());
    if (!program_.dynamic) {
      for (uint32_t i = 0; i < inputs_.size(); ++i)
        for (uint32_t d = 0; d < inputs_[i].size(); ++d) HPU_RETURN_IF_ERROR(checkFixed(i, d));
      return Sizes();
    }
    const Dynamic& dynamic = *program_.dynamic;
    sizes_.assign(dynamic.symbols.size(), -1);
    origins_.resize(dynamic.symbols.size());
    size_t list = program_.inputs.size() - 1;
    for (const InputValue& value : dynamic.values) {
      if (value.element == 0) ++list;
      HPU_RETURN_IF_ERROR(set(value.symbol, inputs_[list][value.element], {value.input, value.element, true}));
      if (sizes_[value.symbol] != inputs_[list][value.element])
        return differs(value.symbol, inputs_[list][value.element], {value.input, value.element, true});
    }
    for (const Patch& patch : dynamic.patches) {
      if (patch.field != Patch::Field::kInputSize) continue;
      free_.push_back(&patch);
      const SizeExpr& expr = dynamic.exprs[patch.expr];
      if (expr.kind == Kind::kSymbol)
        HPU_RETURN_IF_ERROR(set(static_cast<uint32_t>(expr.number), sizeAt(patch), {patch.index, patch.dim, false}));
    }
    HPU_RETURN_IF_ERROR(solveRest());
    SizeValues values(dynamic, sizes_);
    HPU_RETURN_IF_ERROR(checkDims(values));
    for (const Guard& guard : dynamic.guards) HPU_RETURN_IF_ERROR(checkGuard(guard, values));
    return std::move(sizes_);
  }

 private:
  int64_t sizeAt(const Patch& patch) const { return inputs_[patch.index][patch.dim]; }
  std::string inputText(uint32_t input) const { return strCat("input '", program_.inputs[input].name, "'"); }
  /// What says a size: a dimension of an input, or an element.
  struct Origin {
    uint32_t input = 0, index = 0;
    bool isValue = false;
  };
  std::string by(const Origin& origin) const {
    return strCat(inputText(origin.input), origin.isValue ? " (element " : " (dimension ", origin.index, ")");
  }

  Status checkRanks() const {
    const std::vector<uint32_t> values = valueInputs(program_);
    if (inputs_.size() == program_.inputs.size() && !values.empty())
      return invalidArgument(strCat("the values of ", inputText(values[0]),
                                    " say sizes, and the launch does not give them (LaunchArguments::inputValues)"));
    if (inputs_.size() != program_.inputs.size() + values.size())
      return invalidArgument(
          strCat("the launch has ", inputs_.size(), " inputs, the recipe needs ", program_.inputs.size()));
    for (size_t v = 0; v < values.size(); ++v) {
      const auto given = static_cast<int64_t>(inputs_[program_.inputs.size() + v].size());
      if (const int64_t needed = numElements(program_.inputs[values[v]].type.shape); given != needed)
        return invalidArgument(
            strCat("the launch gives ", given, " values of ", inputText(values[v]), ", which has ", needed));
    }
    for (uint32_t i = 0; i < program_.inputs.size(); ++i) {
      const Shape& needed = program_.inputs[i].type.shape;
      if (inputs_[i].size() != needed.size())
        return invalidArgument(strCat(inputText(i), " has the shape ", shapeToString(inputs_[i]), " of rank ",
                                      inputs_[i].size(), ", the recipe needs rank ", needed.size()));
      for (size_t d = 0; d < inputs_[i].size(); ++d)
        if (inputs_[i][d] < 0)
          return invalidArgument(strCat(inputText(i), " has the negative size ", inputs_[i][d], " in dimension ", d));
    }
    return okStatus();
  }

  Status checkFixed(uint32_t input, uint32_t dim) const {
    const int64_t size = inputs_[input][dim], needed = program_.inputs[input].type.shape[dim];
    if (size == needed) return okStatus();
    return invalidArgument(
        strCat(inputText(input), " has size ", size, " in dimension ", dim, ", the recipe needs ", needed));
  }

  /// The first input that says a size counts; the others are checked against it.
  Status set(uint32_t symbol, int64_t size, const Origin& origin) {
    if (sizes_[symbol] >= 0) return okStatus();
    const Symbol& info = program_.dynamic->symbols[symbol];
    if (size < info.min || size > info.max)
      return invalidArgument(strCat(
          "dimension '", info.name, "' is ", size, " by ", by(origin), ", outside of its bounds ", info.min, " to ",
          info.max, size < 0 && origin.isValue ? "; a launch gives values of 0 or more, places from the start" : ""));
    sizes_[symbol] = size;
    origins_[symbol] = origin;
    return okStatus();
  }
  Status differs(size_t symbol, int64_t size, const Origin& origin) const {
    return invalidArgument(strCat("dimension '", program_.dynamic->symbols[symbol].name, "' is ", sizes_[symbol],
                                  " by ", by(origins_[symbol]), ", and ", size, " by ", by(origin)));
  }

  bool allKnown() const { return std::find(sizes_.begin(), sizes_.end(), -1) == sizes_.end(); }

  Status solveRest() {
    const Dynamic& dynamic = *program_.dynamic;
    for (bool found = true; found && !allKnown();) {
      found = false;
      const std::vector<Linear> forms = linearForms(dynamic, sizes_);
      for (const Patch* patch : free_) {
        const Linear& form = forms[patch->expr];
        if (!form.valid || form.symbol == kNone || sizes_[form.symbol] >= 0) continue;
        const int64_t size = sizeAt(*patch);
        int64_t rest = 0;
        // A coefficient of -1 would overflow on the least number.
        const bool whole = !__builtin_sub_overflow(size, form.offset, &rest) &&
                           (form.coefficient == 1 || (rest > INT64_MIN && rest % form.coefficient == 0));
        if (!whole)
          return invalidArgument(strCat(inputText(patch->index), " has size ", size, " in dimension ", patch->dim,
                                        ", which is ", exprText(dynamic, patch->expr), " for no size of '",
                                        dynamic.symbols[form.symbol].name, "'", knownText()));
        HPU_RETURN_IF_ERROR(set(form.symbol, rest / form.coefficient, {patch->index, patch->dim, false}));
        found = true;
      }
    }
    for (size_t s = 0; s < sizes_.size(); ++s)
      if (sizes_[s] < 0)
        return invalidArgument(
            strCat("no input says the size of dimension '", dynamic.symbols[s].name, "'", knownText()));
    return okStatus();
  }

  Status checkDims(const SizeValues& values) const {
    const Dynamic& dynamic = *program_.dynamic;
    std::vector<std::vector<bool>> isFree(program_.inputs.size());
    for (size_t i = 0; i < isFree.size(); ++i) isFree[i].resize(inputs_[i].size());
    for (const Patch* patch : free_) {
      isFree[patch->index][patch->dim] = true;
      const int64_t size = sizeAt(*patch);
      HPU_ASSIGN(int64_t needed, values.at(patch->expr));
      if (size == needed) continue;
      const SizeExpr& expr = dynamic.exprs[patch->expr];
      if (expr.kind == Kind::kSymbol) {
        return differs(static_cast<size_t>(expr.number), size, {patch->index, patch->dim, false});
      }
      return invalidArgument(strCat(inputText(patch->index), " has size ", size, " in dimension ", patch->dim,
                                    ", the recipe needs ", exprText(dynamic, patch->expr), " = ", needed, knownText()));
    }
    for (uint32_t i = 0; i < isFree.size(); ++i)
      for (uint32_t d = 0; d < inputs_[i].size(); ++d)
        if (!isFree[i][d]) HPU_RETURN_IF_ERROR(checkFixed(i, d));
    return okStatus();
  }

  Status checkGuard(const Guard& guard, const SizeValues& values) const {
    HPU_ASSIGN(int64_t left, values.at(guard.left));
    HPU_ASSIGN(int64_t right, values.at(guard.right));
    const bool equal = guard.relation == Guard::Relation::kEqual;
    if (equal ? left == right : left <= right) return okStatus();
    const Dynamic& dynamic = *program_.dynamic;
    return invalidArgument(strCat(guard.text, ": ", exprText(dynamic, guard.left), " is ", left, ", which is not ",
                                  equal ? "" : "at most ", exprText(dynamic, guard.right), " = ", right, knownText()));
  }

  /// " (past = 100 by input 'k' (dimension 1))"; empty when nothing is known.
  std::string knownText() const {
    std::string text;
    for (size_t s = 0; s < sizes_.size(); ++s)
      if (sizes_[s] >= 0)
        text += strCat(text.empty() ? " (" : ", ", program_.dynamic->symbols[s].name, " = ", sizes_[s], " by ",
                       by(origins_[s]));
    return text.empty() ? text : text + ")";
  }

  const Program& program_;
  const std::vector<Shape>& inputs_;
  Sizes sizes_;                     ///< -1: not known yet.
  std::vector<Origin> origins_;     ///< By symbol: what said it.
  std::vector<const Patch*> free_;  ///< The dimensions that are not fixed.
};

}  // namespace

Sizes sampleSizes(const Dynamic& dynamic) {
  Sizes sizes;
  for (const Symbol& symbol : dynamic.symbols) sizes.push_back(symbol.sample);
  return sizes;
}

std::string sizesText(const Dynamic& dynamic, const Sizes& sizes) {
  std::string text;
  for (size_t s = 0; s < sizes.size() && s < dynamic.symbols.size(); ++s)
    text += strCat(s ? ", " : "", dynamic.symbols[s].name, " = ", sizes[s]);
  return text;
}

std::string exprText(const Dynamic& dynamic, uint32_t expr) {
  return exprTextAt(dynamic, expr, 0, false);
}

SizeValues::SizeValues(const Dynamic& dynamic, const Sizes& sizes)
    : dynamic_(dynamic),
      sizes_(sizes),
      numbers_{std::vector<int64_t>(dynamic.exprs.size()), std::vector<uint8_t>(dynamic.exprs.size())} {
  for (size_t i = 0; i < numbers_.values.size(); ++i)
    numbers_.valid[i] = evaluate(dynamic.exprs[i], numbers_.values[i]);
}

bool SizeValues::evaluate(const SizeExpr& expr, int64_t& value) const {
  const std::vector<uint32_t>& args = expr.args;
  auto valid = [&](size_t a) { return numbers_.valid[args[a]] != 0; };
  auto arg = [&](size_t a) { return numbers_.values[args[a]]; };
  switch (expr.kind) {
    case Kind::kConstant:
      value = expr.number;
      return true;
    case Kind::kSymbol:
      value = sizes_[static_cast<size_t>(expr.number)];
      return true;
    case Kind::kSelectEqual:
    case Kind::kSelectLess: {
      if (!valid(0) || !valid(1)) return false;
      const size_t chosen = (expr.kind == Kind::kSelectEqual ? arg(0) == arg(1) : arg(0) < arg(1)) ? 2 : 3;
      value = arg(chosen);
      return valid(chosen);
    }
    default:
      break;
  }
  if (!valid(0)) return false;
  value = arg(0);
  for (size_t a = 1; a < args.size(); ++a) {
    if (!valid(a)) return false;
    const int64_t next = arg(a);
    switch (expr.kind) {
      case Kind::kSum:
        if (__builtin_add_overflow(value, next, &value)) return false;
        break;
      case Kind::kProduct:
        if (__builtin_mul_overflow(value, next, &value)) return false;
        break;
      case Kind::kFloorDiv:
        if (next < 1) return false;
        value = base::floorDiv(value, next);
        break;
      case Kind::kMin:
        value = std::min(value, next);
        break;
      default:
        value = std::max(value, next);
    }
  }
  return true;
}

StatusOr<int64_t> SizeValues::at(uint32_t expr) const {
  if (numbers_.valid[expr]) return numbers_.values[expr];
  return outOfRange(strCat("the size ", exprText(dynamic_, expr), " has no value for ", sizesText(dynamic_, sizes_),
                           ": it is beyond 64 bits, or divides by less than 1"));
}

Status checkBounds(const Dynamic& dynamic, const Sizes& sizes) {
  if (sizes.size() != dynamic.symbols.size())
    return invalidArgument(strCat(sizes.size(), " sizes are given for ", dynamic.symbols.size(), " free dimensions"));
  for (size_t s = 0; s < sizes.size(); ++s) {
    const Symbol& symbol = dynamic.symbols[s];
    if (sizes[s] >= symbol.min && sizes[s] <= symbol.max) continue;
    return invalidArgument(strCat("dimension '", symbol.name, "' is ", sizes[s], ", outside of its bounds ", symbol.min,
                                  " to ", symbol.max));
  }
  return okStatus();
}

Status checkDimName(const Program& program, const std::string& name) {
  std::vector<std::string> names;
  if (program.dynamic)
    for (const Symbol& symbol : program.dynamic->symbols) names.push_back(symbol.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return okStatus();
  return invalidArgument(strCat("recipe '", program.name, "' has no free dimension '", name, "'",
                                names.empty() ? ": all its sizes are fixed" : "; it has " + base::join(names),
                                base::didYouMean(name, names)));
}

std::vector<uint32_t> valueInputs(const Program& program) {
  std::vector<uint32_t> inputs;
  if (program.dynamic)
    for (const InputValue& value : program.dynamic->values)
      if (value.element == 0) inputs.push_back(value.input);
  return inputs;
}

StatusOr<std::vector<Shape>> launchNumbers(const Program& program, const std::vector<Shape>& inputs,
                                           const std::vector<std::vector<int64_t>>& values) {
  std::vector<Shape> numbers = inputs;
  if (values.empty()) return numbers;
  if (values.size() != program.inputs.size())
    return invalidArgument(strCat("the launch has values of ", values.size(), " inputs, the recipe has ",
                                  program.inputs.size(), " (those whose values say no size are empty)"));
  for (uint32_t input : valueInputs(program)) numbers.emplace_back(values[input].begin(), values[input].end());
  return numbers;
}

StatusOr<Sizes> solveSizes(const Program& program, const std::vector<Shape>& inputs) {
  return SizeSolver(program, inputs).solve();
}

}  // namespace hpu::recipe
