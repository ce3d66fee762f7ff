// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OpTable.h"

#include <algorithm>

namespace hpu::importer {

std::vector<const OpRow*> allRows() {
  std::vector<const OpRow*> rows;
  for (auto family : {elementwiseRows, activationRows, shapeRows, movementRows, matrixRows, convolutionRows,
                      reductionRows, normalizationRows, quantizationRows, integerProductRows, indexingRows,
                      lossRows, resizeRows, samplingRows, signalRows, volumeRows})
    for (const OpRow& row : family()) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(),
            [](const OpRow* a, const OpRow* b) { return llvm::StringRef(a->op) < llvm::StringRef(b->op); });
  return rows;
}

const OpRow* findRow(llvm::StringRef op) {
  static const llvm::StringMap<const OpRow*>& byName = []() -> auto& {
    auto& map = *new llvm::StringMap<const OpRow*>;
    for (const OpRow* row : allRows()) map[row->op] = row;
    return map;
  }();
  return byName.lookup(op);
}

}  // namespace hpu::importer
