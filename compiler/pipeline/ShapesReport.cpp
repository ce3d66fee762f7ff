// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline/ShapesReport.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/Clip.h"
#include "base/Format.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/support/Units.h"

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

}  // namespace

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
