// SPDX-License-Identifier: Apache-2.0
// hpu::interpret: the reference interpreter behind the public API.
#include "hpu/reference.h"

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/interp/Interpreter.h"

namespace hpu {

StatusOr<std::vector<ReferenceTensor>> interpret(const Graph& graph, const std::vector<ReferenceTensor>& inputs) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(graph));
  std::vector<interp::Tensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ReferenceTensor& input = inputs[i];
    if (static_cast<int64_t>(input.bytes.size()) != input.type.bytes())
      return invalidArgument(base::strCat("input ", i, " is ", input.type.toString(), " of ", input.type.bytes(),
                                          " bytes, but ", input.bytes.size(), " bytes were given"));
    tensors.push_back(interp::Tensor::borrow(input.type, input.bytes.data()));
  }
  std::vector<TensorInfo> infos = graph.outputs();
  std::vector<interp::Tensor> outputs;
  {
    std::lock_guard<std::mutex> lock(graph.impl().mutex);
    if (!graph.impl().main())
      return invalidArgument(
          "the graph is a program, which has no ops to interpret; give the model that it is made of");
    HPU_ASSIGN(outputs, interp::evaluateFunction(graph.impl().main(), tensors));
    HPU_ASSIGN(outputs, importer::withTrueSizes(*graph.impl().module, std::move(outputs)));
  }
  std::vector<ReferenceTensor> results;
  for (size_t k = 0; k < outputs.size(); ++k)
    results.push_back({infos[k].name, outputs[k].type(), {outputs[k].data(), outputs[k].data() + outputs[k].bytes()}});
  return results;
}

}  // namespace hpu
