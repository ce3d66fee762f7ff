// SPDX-License-Identifier: Apache-2.0
#include "tools/common/FreeSizes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "base/Suggest.h"
#include "recipe/Dynamic.h"
#include "recipe/Recipe.h"
#include "recipe/SizeValues.h"
#include "tools/common/Cli.h"
#include "tools/common/HostTensor.h"

namespace hpu::tools {
namespace {

using base::strCat;

bool parseSize(std::string_view text, int64_t& size) {
  const StatusOr<int64_t> parsed = base::parseInt(text);
  if (parsed.ok()) size = *parsed;
  return parsed.ok() && size >= 0;
}

Status checkDim(const Recipe& recipe, const std::string& name, const std::string& option) {
  return recipe::checkDimName(*recipe.program(), name).withContext(option);
}

/// Sizes of the dimensions that an input's shape has as they are.
void takeSizes(const recipe::Dynamic& dynamic, uint32_t input, const Shape& shape,
               std::map<std::string, int64_t>& dims) {
  for (const recipe::Patch& patch : dynamic.patches) {
    if (patch.field != recipe::Patch::Field::kInputSize || patch.index != input || patch.dim >= shape.size()) continue;
    const recipe::SizeExpr& expr = dynamic.exprs[patch.expr];
    if (expr.kind == recipe::SizeExpr::Kind::kSymbol)
      dims.emplace(dynamic.symbols[static_cast<size_t>(expr.number)].name, shape[patch.dim]);
  }
}

}  // namespace

StatusOr<FreeSizes> parseFreeSizes(const std::vector<std::string>& dims, const std::vector<std::string>& shapes) {
  FreeSizes sizes;
  for (const std::string& text : dims) {
    HPU_ASSIGN(auto pair, splitAssignment(text, "--dim"));
    if (pair.second.find(':') != std::string::npos) continue;
    int64_t size = 0;
    if (!parseSize(pair.second, size)) return invalidArgument(strCat("--dim: '", text, "' is not NAME=SIZE"));
    auto [known, added] = sizes.dims.emplace(pair.first, size);
    if (!added && known->second != size)
      return invalidArgument(strCat("--dim: '", pair.first, "' is ", known->second, " and ", size));
  }
  for (const std::string& text : shapes) {
    HPU_ASSIGN(auto pair, splitAssignment(text, "--shape"));
    auto shape = parseShape(pair.second);
    if (!shape.ok()) return shape.status().withContext("--shape " + text);
    sizes.shapes[pair.first] = std::move(*shape);
  }
  return sizes;
}

StatusOr<std::vector<Shape>> inputShapesFor(const Recipe& recipe, const FreeSizes& sizes) {
  HPU_ASSIGN(LaunchSizes launch, launchSizesFor(recipe, sizes));
  return std::move(launch.shapes);
}

StatusOr<LaunchSizes> launchSizesFor(const Recipe& recipe, const FreeSizes& sizes) {
  const recipe::Program& program = *recipe.program();
  const std::vector<FreeDim> free = recipe.dims();
  for (const auto& [name, size] : sizes.dims) HPU_RETURN_IF_ERROR(checkDim(recipe, name, "--dim"));
  std::map<std::string, int64_t> dims = sizes.dims;
  std::vector<Shape> given;
  std::vector<std::string> names;
  for (const TensorInfo& input : recipe.inputs()) {
    names.push_back(input.name);
    auto shape = sizes.shapes.find(input.name);
    if (shape == sizes.shapes.end()) continue;
    given.push_back(shape->second);
    if (shape->second.size() == input.type.shape.size() && recipe.program()->dynamic)
      takeSizes(*recipe.program()->dynamic, static_cast<uint32_t>(names.size() - 1), shape->second, dims);
  }
  for (const auto& [name, shape] : sizes.shapes)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return invalidArgument(strCat("--shape: the recipe has no input '", name, "'; it has ", base::join(names),
                                    base::didYouMean(name, names)));
  LaunchSizes launch;
  launch.values.resize(names.size());
  bool allValues = true;
  if (program.dynamic)
    for (const recipe::InputValue& value : program.dynamic->values) {
      auto elements = sizes.values.find(names[value.input]);
      const std::string& symbol = program.dynamic->symbols[value.symbol].name;
      const bool isGiven = elements != sizes.values.end() && value.element < elements->second.size();
      if (isGiven) dims.emplace(symbol, elements->second[value.element]);
      auto said = dims.find(symbol);
      allValues &= said != dims.end();
      if (said != dims.end())
        launch.values[value.input].push_back(isGiven ? elements->second[value.element] : said->second);
    }
  // What must hold between sizes, and what was said of them twice.
  auto checked = [&](const std::vector<Shape>& shapes) -> Status {
    HPU_ASSIGN(const std::vector<Shape> numbers, recipe::launchNumbers(program, shapes, launch.values));
    HPU_ASSIGN(recipe::Sizes solved, recipe::solveSizes(program, numbers));
    for (size_t d = 0; d < free.size(); ++d) {
      auto said = sizes.dims.find(free[d].name);
      if (said != sizes.dims.end() && said->second != solved[d])
        return invalidArgument(
            strCat("dimension '", free[d].name, "' is ", said->second, " by --dim, and ", solved[d], " by the inputs"));
    }
    return okStatus();
  };
  if (given.size() == names.size() && allValues) {  // These say more: "past + seq" where seq is known.
    HPU_RETURN_IF_ERROR(checked(given));
    launch.shapes = std::move(given);
    return launch;
  }
  for (const FreeDim& dim : free)
    if (!dims.contains(dim.name))
      return invalidArgument(strCat("dimension '", dim.name, "' has no size; give --dim ", dim.name, "=SIZE between ",
                                    dim.bounds.min, " and ", dim.bounds.max, ", or an input's --shape or file"));
  HPU_ASSIGN(launch.shapes, recipe.inputShapes(dims));
  const std::vector<Shape>& shapes = launch.shapes;
  for (size_t i = 0; i < names.size(); ++i) {
    auto shape = sizes.shapes.find(names[i]);
    if (shape != sizes.shapes.end() && shape->second != shapes[i])
      return invalidArgument(strCat("input '", names[i], "' is ", recipe.inputText(i), " = ", shapeToString(shapes[i]),
                                    ", but ", shapeToString(shape->second), " was given"));
  }
  HPU_RETURN_IF_ERROR(checked(shapes));
  return launch;
}

StatusOr<ShapeSweep> parseShapeSweep(const std::string& text, const Recipe& recipe) {
  HPU_ASSIGN(auto pair, splitAssignment(text, "--shape-sweep"));
  ShapeSweep sweep;
  sweep.dim = pair.first;
  HPU_RETURN_IF_ERROR(checkDim(recipe, sweep.dim, "--shape-sweep"));
  const std::string& range = pair.second;
  const size_t colon = range.find(':'), second = colon == std::string::npos ? colon : range.find(':', colon + 1);
  bool right =
      colon != std::string::npos && parseSize(range.substr(0, colon), sweep.first) &&
      parseSize(range.substr(colon + 1, second == std::string::npos ? second : second - colon - 1), sweep.last);
  if (second != std::string::npos) right = right && parseSize(range.substr(second + 1), sweep.step);
  if (!right || sweep.step < 1 || sweep.last < sweep.first)
    return invalidArgument(strCat("--shape-sweep: '", text, "' is not NAME=FIRST:LAST or NAME=FIRST:LAST:STEP"));
  for (const FreeDim& dim : recipe.dims())
    if (dim.name == sweep.dim && (sweep.first < dim.bounds.min || sweep.last > dim.bounds.max))
      return invalidArgument(strCat("--shape-sweep: dimension '", dim.name, "' goes from ", dim.bounds.min, " to ",
                                    dim.bounds.max, ", not from ", sweep.first, " to ", sweep.last));
  return sweep;
}

}  // namespace hpu::tools
