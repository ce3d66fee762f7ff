// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/OpTable.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hpu::importer {

namespace {
/// "com.microsoft:Gelu"
std::string nameOf(llvm::StringRef op, llvm::StringRef domain) {
  return (domain + ":" + op).str();
}
}  // namespace

std::vector<const OpRow*> allRows() {
  std::vector<const OpRow*> rows;
  for (auto family : {elementwiseRows, activationRows, shapeRows,         movementRows,     matrixRows,
                      convolutionRows, reductionRows,  normalizationRows, quantizationRows, integerProductRows,
                      indexingRows,    lossRows,       resizeRows,        samplingRows,     signalRows,
                      volumeRows,      attentionRows,  detectionRows,     randomRows,       recurrentRows,
                      controlFlowRows, sequenceRows,   trainingRows,      microsoftRows,    microsoftFusedRows})
    for (const OpRow& row : family()) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [](const OpRow* a, const OpRow* b) {
    return std::pair(llvm::StringRef(a->domain), llvm::StringRef(a->op)) <
           std::pair(llvm::StringRef(b->domain), llvm::StringRef(b->op));
  });
  return rows;
}

const OpRow* findRow(llvm::StringRef op, llvm::StringRef domain) {
  static const llvm::StringMap<const OpRow*>& byName = []() -> auto& {
    auto& map = *new llvm::StringMap<const OpRow*>;
    for (const OpRow* row : allRows()) map[nameOf(row->op, row->domain)] = row;
    return map;
  }();
  return byName.lookup(nameOf(op, domain));
}

}  // namespace hpu::importer
