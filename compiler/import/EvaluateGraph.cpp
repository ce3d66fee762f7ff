// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/EvaluateGraph.h"

#include "base/StatusMacros.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/support/Units.h"

namespace hpu::interp {

StatusOr<std::vector<Tensor>> evaluateGraph(const Graph& graph, const std::vector<Tensor>& inputs,
                                            const GraphObserver& observer) {
  std::lock_guard lock(graph.impl().mutex);
  Observer show;
  if (observer)
    show = [&](mlir::Operation* op, unsigned, const Tensor& value) {
      if (op->hasTrait<mlir::OpTrait::ConstantLike>()) return;
      NodeResult result;
      for (const ir::SourceName& name : ir::sourceNames(op->getLoc())) {
        if (!result.node.empty()) break;
        result.node = name.node;
        result.source = name.op;
      }
      result.op = op->getName().stripDialect().str();
      observer(result, value);
    };
  HPU_ASSIGN(std::vector<Tensor> outputs, evaluateFunction(graph.impl().main(), inputs, show));
  return importer::withTrueSizes(*graph.impl().module, std::move(outputs));
}

}  // namespace hpu::interp
