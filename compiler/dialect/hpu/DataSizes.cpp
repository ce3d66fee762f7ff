// SPDX-License-Identifier: Apache-2.0
#include "compiler/dialect/hpu/DataSizes.h"

#include "mlir/IR/Builders.h"

namespace hpu::ir {

namespace {

/// A list of [output, dim, element].
constexpr llvm::StringLiteral kDataSizesAttr = "hpu.data_sizes";

}  // namespace

std::vector<DataSize> dataSizes(mlir::Operation* moduleOrProgram) {
  std::vector<DataSize> sizes;
  if (auto all = moduleOrProgram->getAttrOfType<mlir::ArrayAttr>(kDataSizesAttr))
    for (auto each : all.getAsRange<mlir::DenseI64ArrayAttr>())
      if (each.size() == 3)
        sizes.push_back(
            {static_cast<uint32_t>(each[0]), static_cast<uint32_t>(each[1]), static_cast<uint32_t>(each[2])});
  return sizes;
}

void setDataSizes(mlir::Operation* moduleOrProgram, const std::vector<DataSize>& sizes) {
  mlir::Builder b(moduleOrProgram->getContext());
  llvm::SmallVector<mlir::Attribute> all;
  for (const DataSize& size : sizes) all.push_back(b.getDenseI64ArrayAttr({size.output, size.dim, size.element}));
  if (all.empty())
    moduleOrProgram->removeAttr(kDataSizesAttr);
  else
    moduleOrProgram->setAttr(kDataSizesAttr, b.getArrayAttr(all));
}

}  // namespace hpu::ir
