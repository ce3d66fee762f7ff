// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/hpu/ValueSizes.h"

#include "mlir/IR/Builders.h"

namespace hpu::ir {

namespace {

/// On a module: a dictionary of input, element and symbol for each.
constexpr llvm::StringLiteral kValueSizesAttr = "hpu.value_sizes";

}  // namespace

std::vector<ValueSize> valueSizes(mlir::ModuleOp module) {
  std::vector<ValueSize> sizes;
  if (auto all = module->getAttrOfType<mlir::ArrayAttr>(kValueSizesAttr))
    for (auto each : all.getAsRange<mlir::DictionaryAttr>()) {
      auto input = each.getAs<mlir::StringAttr>("input"), symbol = each.getAs<mlir::StringAttr>("symbol");
      auto element = each.getAs<mlir::IntegerAttr>("element");
      if (input && symbol && element)
        sizes.push_back({input.str(), static_cast<uint32_t>(element.getInt()), symbol.str()});
    }
  return sizes;
}

void setValueSizes(mlir::ModuleOp module, const std::vector<ValueSize>& sizes) {
  mlir::Builder b(module.getContext());
  llvm::SmallVector<mlir::Attribute> all;
  for (const ValueSize& size : sizes)
    all.push_back(b.getDictionaryAttr({b.getNamedAttr("input", b.getStringAttr(size.input)),
                                       b.getNamedAttr("element", b.getI64IntegerAttr(size.element)),
                                       b.getNamedAttr("symbol", b.getStringAttr(size.symbol))}));
  if (all.empty())
    module->removeAttr(kValueSizesAttr);
  else
    module->setAttr(kValueSizesAttr, b.getArrayAttr(all));
}

}  // namespace hpu::ir
