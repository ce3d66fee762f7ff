// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ShapesReport.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/Clip.h"
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/support/Units.h"
#include "plan/Instantiate.h"
#include "recipe/Dynamic.h"
#include "recipe/SizeValues.h"

using namespace mlir;

namespace hpu::pipeline {
namespace {

using base::strCat;

constexpr size_t kMostNamed = 20;

std::string sizeText(const ir::SymDim& dim) {
  if (dim.isNamed()) return dim.symbol.str();
  return dim.isFree() ? "?" : strCat(dim.size);
}

/// "f32[batch, 2*seq, 64]".
std::string typeText(RankedTensorType type) {
  std::vector<std::string> sizes;
  for (const ir::SymDim& dim : ir::symShape(type)) sizes.push_back(sizeText(dim));
  return strCat(elementTypeName(ir::elementType(type.getElementType())), "[", base::join(sizes), "]");
}

std::string nameOf(StringAttr name, const char* otherwise, unsigned index) {
  return name ? name.str() : strCat(otherwise, index);
}

/// "4x1", of the parts of a unit "4x1, 4x2".
std::string slicesText(const std::vector<std::vector<uint32_t>>& parts) {
  std::vector<std::string> texts;
  for (const std::vector<uint32_t>& slices : parts) {
    std::string text;
    for (uint32_t along : slices) text += strCat(text.empty() ? "" : "x", along);
    texts.push_back(text.empty() ? "1" : text);
  }
  return base::join(texts);
}

std::string boxText(const std::vector<recipe::Symbol>& symbols, const recipe::TileChoice& choice) {
  std::vector<std::string> texts;
  for (size_t s = 0; s < symbols.size(); ++s)
    if (choice.min[s] != symbols[s].min || choice.max[s] != symbols[s].max)
      texts.push_back(strCat(symbols[s].name, " ", choice.min[s], " to ", choice.max[s]));
  return texts.empty() ? "other sizes" : base::join(texts);
}

/// The largest sizes of the buckets that hold the bounds.
std::string bucketsText(const recipe::Symbol& symbol) {
  constexpr size_t kFirst = 12, kLast = 4;
  std::vector<std::string> ends;
  for (int64_t size = symbol.min; size <= symbol.max;) {
    const int64_t end = std::min(plan::bucketEnd(size), symbol.max);
    ends.push_back(strCat(end));
    size = end + 1;
  }
  const size_t count = ends.size();
  if (count > kFirst + kLast + 1) {
    ends.erase(ends.begin() + kFirst, ends.end() - kLast);
    ends.insert(ends.begin() + kFirst, "...");
  }
  return strCat(base::join(ends), count == 1 ? " (1 bucket)" : strCat(" (", count, " buckets)"));
}

}  // namespace

std::string lateSizesReport(const recipe::Program& program) {
  const recipe::Dynamic& dynamic = *program.dynamic;
  std::string text;
  for (const recipe::Symbol& symbol : dynamic.symbols)
    text += strCat("given late: ", symbol.name, ", ", symbol.min, " to ", symbol.max, ", chosen for ", symbol.sample,
                   "; plans are shared up to ", bucketsText(symbol), "\n");
  for (const recipe::Guard& guard : dynamic.guards)
    text += strCat("guard: ", base::clipped(recipe::exprText(dynamic, guard.left)),
                   guard.relation == recipe::Guard::Relation::kEqual ? " = " : " <= ",
                   base::clipped(recipe::exprText(dynamic, guard.right)), ", ", base::clipped(guard.text), "\n");
  const recipe::TileChoice& last = dynamic.choices.back();
  for (size_t c = 0; c < dynamic.choices.size(); ++c) {
    const recipe::TileChoice& choice = dynamic.choices[c];
    size_t sliced = 0;
    std::vector<std::string> others;
    for (size_t u = 0; u < dynamic.units.size(); ++u) {
      const std::string own = slicesText(choice.slices[u]), usual = slicesText(last.slices[u]);
      sliced += own.find_first_not_of("1x, ") != std::string::npos;
      if (own != usual)
        others.push_back(strCat("  unit ", base::clipped(program.ops[dynamic.units[u].parts[0].ops[0]].name), ": ", own,
                                " slices, else ", usual, "\n"));
    }
    text += strCat("tiles for ", boxText(dynamic.symbols, choice), ": ", sliced, " of ", dynamic.units.size(),
                   " units are sliced");
    text += &choice == &last ? "\n" : strCat(", ", others.size(), " otherwise than for other sizes\n");
    for (size_t i = 0; i < std::min(others.size(), kMostNamed); ++i) text += others[i];
    if (others.size() > kMostNamed) text += strCat("  unit: ", others.size() - kMostNamed, " more\n");
  }
  return text;
}

std::string shapesReport(func::FuncOp function) {
  std::map<std::string, std::vector<std::string>> places;  // By free dimension.
  std::string types;
  for (BlockArgument argument : function.getArguments()) {
    const unsigned index = argument.getArgNumber();
    const auto type = cast<RankedTensorType>(argument.getType());
    const std::string name = nameOf(function.getArgAttrOfType<StringAttr>(index, "hpu.name"), "input", index);
    types += strCat("input ", base::clipped(name), ": ", typeText(type), "\n");
    for (auto [d, dim] : llvm::enumerate(ir::symShape(type)))
      if (const auto size = ir::exprOf(dim))
        for (const std::string& symbol : size->symbols()) places[symbol].push_back(strCat(name, "[", d, "]"));
  }
  for (auto [index, each] : llvm::enumerate(function.getResultTypes()))
    types += strCat("output ",
                    base::clipped(nameOf(function.getResultAttrOfType<StringAttr>(index, "hpu.name"), "output", index)),
                    ": ", typeText(cast<RankedTensorType>(each)), "\n");
  std::string text;
  for (const auto& [symbol, where] : places)
    text += strCat("free dimension ", symbol, ": ", base::clipped(base::join(where)), "\n");
  size_t values = 0, free = 0;
  std::vector<std::string> unnamed;
  for (Operation& op : function.getBody().front().without_terminator()) {
    for (Type each : op.getResultTypes()) {
      const auto type = cast<RankedTensorType>(each);
      const ir::SymShape shape = ir::symShape(type);
      ++values;
      free += llvm::any_of(shape, [](const ir::SymDim& dim) { return dim.isFree() || dim.isNamed(); });
      if (llvm::any_of(shape, [](const ir::SymDim& dim) { return !ir::exprOf(dim); }))
        unnamed.push_back(
            strCat("no expression for a size of ", base::clipped(ir::unitName(&op)), ": ", typeText(type), "\n"));
    }
  }
  text += types + strCat(free, " of ", values, " values have sizes that follow from free dimensions\n");
  for (size_t i = 0; i < std::min(unnamed.size(), kMostNamed); ++i) text += unnamed[i];
  if (unnamed.size() > kMostNamed) text += strCat("and ", unnamed.size() - kMostNamed, " more\n");
  return text;
}

}  // namespace hpu::pipeline
