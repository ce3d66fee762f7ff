// SPDX-License-Identifier: Apache-2.0
#include "tests/random/Interp.h"

#include <fstream>

#include "base/StatusMacros.h"
#include "compiler/import/DataSizes.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/Importer.h"
#include "compiler/interp/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tests/random/Elements.h"

namespace hpu::randomtest {
namespace {

class InterpretedNode final : public NodeRunner {
 public:
  InterpretedNode(std::shared_ptr<mlir::MLIRContext> context, importer::OwningModule module, std::vector<bool> keep)
      : context_(std::move(context)), module_(std::move(module)), keep_(std::move(keep)) {}

  StatusOr<std::vector<HostTensor>> run(const std::vector<const HostTensor*>& operands) override {
    std::vector<interp::Tensor> given;
    for (size_t i = 0; i < operands.size(); ++i)
      if (keep_[i]) given.push_back(interp::Tensor::borrow(operands[i]->type, operands[i]->bytes.data()));
    HPU_ASSIGN(std::vector<interp::Tensor> outputs,
               interp::evaluateFunction(module_->lookupSymbol<mlir::func::FuncOp>("main"), given));
    HPU_ASSIGN(outputs, importer::withTrueSizes(*module_, std::move(outputs)));
    std::vector<HostTensor> results;
    for (const interp::Tensor& output : outputs) {
      HostTensor result;
      result.type = output.type();
      result.bytes.assign(output.data(), output.data() + output.bytes());
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  std::shared_ptr<mlir::MLIRContext> context_;
  importer::OwningModule module_;
  std::vector<bool> keep_;  ///< Of the operands: those that are inputs, each once.
};

class InterpreterReference final : public Reference {
 public:
  explicit InterpreterReference(const std::string& scratch) : path_(scratch + "/node.onnx") {}

  StatusOr<std::unique_ptr<NodeRunner>> open(const Node& node, int64_t opset,
                                             const std::vector<const HostTensor*>& operands,
                                             const std::vector<bool>& constants) override {
    // Floats as inputs where the importer lets them be: runs with other numbers than the model's follow.
    std::vector<bool> needed = constants;
    for (size_t i = 0, next = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].empty() && isFloat(operands[next++]->type.element)) needed[i] = false;
    if (needed != constants)
      if (auto runner = openWith(node, opset, operands, needed); runner.ok()) return runner;
    return openWith(node, opset, operands, constants);
  }

 private:
  StatusOr<std::unique_ptr<NodeRunner>> openWith(const Node& node, int64_t opset,
                                                 const std::vector<const HostTensor*>& operands,
                                                 const std::vector<bool>& constants) {
    std::vector<const HostTensor*> placed(node.inputs.size());
    std::vector<bool> keep;
    for (size_t i = 0, next = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty()) continue;
      placed[i] = operands[next++];
      bool again = std::find(node.inputs.begin(), node.inputs.begin() + static_cast<int64_t>(i), node.inputs[i]) !=
                   node.inputs.begin() + static_cast<int64_t>(i);
      keep.push_back(!again && !constants[i]);
    }
    std::ofstream(path_, std::ios::binary) << serializeNode(node, opset, placed, constants);
    auto context = importer::makeContext();
    HPU_ASSIGN(importer::OwningModule module, importer::importOnnxModule(*context, path_, {}));
    return StatusOr<std::unique_ptr<NodeRunner>>(
        std::make_unique<InterpretedNode>(std::move(context), std::move(module), std::move(keep)));
  }

  std::string path_;
};

}  // namespace

std::unique_ptr<Reference> interpreterReference(const std::string& scratch) {
  return std::make_unique<InterpreterReference>(scratch);
}

}  // namespace hpu::randomtest
