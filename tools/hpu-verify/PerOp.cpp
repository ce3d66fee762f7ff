// SPDX-License-Identifier: Apache-2.0
#include "tools/hpu-verify/PerOp.h"

#include "base/ModelPath.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/DataSizes.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "hpu/reference.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "tools/common/Session.h"

using namespace mlir;

namespace hpu::tools {
namespace {

HostTensor toHost(const interp::Tensor& tensor, const std::string& name) {
  HostTensor host;
  host.type = tensor.type();
  host.bytes.assign(tensor.data(), tensor.data() + tensor.bytes());
  host.name = name;
  return host;
}

std::vector<interp::Tensor> toInterp(const std::vector<HostTensor>& tensors) {
  std::vector<interp::Tensor> out;
  for (const HostTensor& tensor : tensors) out.push_back(interp::Tensor::copyOf(tensor.type, tensor.bytes.data()));
  return out;
}

StatusOr<Graph> importModel(const std::string& model, const CompileOptions& options) {
  return base::isMlirPath(model) ? importMlir(model) : importOnnx(model, options);
}

/// Makes every result of a unit a result of the function; gives the units in program order.
SmallVector<mlir::Value> exposeUnits(func::FuncOp main) {
  Operation* end = main.getBody().front().getTerminator();
  SmallVector<mlir::Value> units, returned(end->getOperands());
  Builder builder(main.getContext());
  for (Operation& op : main.getBody().front().without_terminator()) {
    if (!ir::isUnit(&op)) continue;
    for (mlir::Value result : op.getResults()) {
      units.push_back(result);
      if (llvm::is_contained(returned, result)) continue;
      returned.push_back(result);
      NamedAttribute name =
          builder.getNamedAttr("hpu.name", builder.getStringAttr("unit_" + std::to_string(units.size() - 1)));
      (void)main.insertResult(main.getNumResults(), result.getType(), builder.getDictionaryAttr(name));
    }
  }
  end->setOperands(returned);
  return units;
}

/// The device's values in the module, and the interpreter's result of each unit on them.
class LocalReference {
 public:
  LocalReference(func::FuncOp main, const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& outputs) {
    for (auto [argument, input] : llvm::zip(main.getArguments(), inputs))
      values_[argument] = interp::Tensor::copyOf(input.type, input.bytes.data());
    Operation* end = main.getBody().front().getTerminator();
    for (auto [value, output] : llvm::zip(end->getOperands(), outputs))
      device_[value] = interp::Tensor::copyOf(output.type, output.bytes.data());
  }

  /// Evaluates `op` on what the device computed before it; afterwards the device's own results
  /// stand.
  FailureOr<SmallVector<interp::Tensor>> step(Operation* op) {
    SmallVector<interp::Tensor> inputs;
    for (mlir::Value operand : op->getOperands()) inputs.push_back(values_[operand]);
    FailureOr<SmallVector<interp::Tensor>> results = interp::evaluateOp(op, inputs);
    if (failed(results)) return failure();
    for (auto [value, tensor] : llvm::zip(op->getResults(), *results)) {
      auto device = ir::isUnit(op) ? device_.find(value) : device_.end();
      values_[value] = device == device_.end() ? tensor : device->second;
    }
    return results;
  }

 private:
  DenseMap<mlir::Value, interp::Tensor> values_, device_;
};

const char* engineOf(Operation* unit) {
  switch (cast<ir::HpuOp>(unit).getEngine()) {
    case ir::EngineKind::Mme:
      return "mme";
    case ir::EngineKind::Tpc:
      return "tpc";
    case ir::EngineKind::Dma:
      return "dma";
  }
  return "";
}

}  // namespace

StatusOr<std::vector<HostTensor>> interpretModel(const std::string& model, const CompileOptions& options,
                                                 const std::vector<HostTensor>& inputs) {
  HPU_ASSIGN(Graph graph, importModel(model, options));
  std::vector<ReferenceTensor> given;
  auto main = graph.impl().module->lookupSymbol<func::FuncOp>("main");
  for (size_t i = 0; i < inputs.size(); ++i) {
    // A state may be narrower in the recipe than in the model.
    const bool isF32 = i < main.getNumArguments() && getElementTypeOrSelf(main.getArgumentTypes()[i]).isF32();
    HostTensor input = isF32 ? widened(inputs[i]) : inputs[i];
    given.push_back({inputs[i].name, input.type, std::move(input.bytes)});
  }
  HPU_ASSIGN(std::vector<ReferenceTensor> outputs, interpret(graph, given));
  std::vector<HostTensor> host;
  for (ReferenceTensor& output : outputs) {
    HostTensor tensor;
    tensor.type = std::move(output.type);
    tensor.bytes = std::move(output.bytes);
    tensor.name = std::move(output.name);
    host.push_back(std::move(tensor));
  }
  return host;
}

StatusOr<std::vector<UnitResult>> verifyUnits(const std::string& model, const CompileOptions& options,
                                              const std::vector<HostTensor>& inputs, const Tolerance& tolerance) {
  HPU_ASSIGN(Graph graph, importModel(model, options));
  OwningOpRef<ModuleOp> module = graph.impl().module->clone();
  CompileOptions first = options;
  first.cacheDir.clear();
  first.stopAfter = "fuse";
  HPU_ASSIGN(CompileResult fused, pipeline::runPipeline(*module, first, graph.impl().context));
  exposeUnits(module->lookupSymbol<func::FuncOp>("main"));
  ir::setDataSizes(*module, {});  // Units are compared as they are; the results that say sizes are no longer the last.
  OwningOpRef<ModuleOp> reference = module->clone();
  auto main = reference->lookupSymbol<func::FuncOp>("main");

  CompileOptions rest = options;
  rest.cacheDir.clear();
  rest.startFrom = "layout";
  HPU_ASSIGN(CompileResult compiled, pipeline::runPipeline(*module, rest, graph.impl().context));
  HPU_ASSIGN(Session session, Session::open(compiled.recipe, {}));
  HPU_ASSIGN(std::vector<HostTensor> outputs, session.run(inputs));

  HPU_ASSIGN(std::vector<interp::Tensor> expected, interp::evaluateFunction(main, toInterp(inputs)));
  Operation* end = main.getBody().front().getTerminator();
  DenseMap<mlir::Value, size_t> index;
  for (auto [k, value] : llvm::enumerate(end->getOperands())) index.try_emplace(value, k);

  ir::DiagnosticCapture diagnostics(reference->getContext());
  LocalReference local(main, inputs, outputs);
  std::vector<UnitResult> units;
  for (Operation& op : main.getBody().front().without_terminator()) {
    FailureOr<SmallVector<interp::Tensor>> results = local.step(&op);
    if (failed(results)) return diagnostics.status(StatusCode::kInternal, "the interpreter");
    if (!ir::isUnit(&op)) continue;
    for (auto [result, tensor] : llvm::zip(op.getResults(), *results)) {
      size_t k = index.lookup(result);
      UnitResult unit;
      unit.name = ir::unitName(&op);
      unit.engine = engineOf(&op);
      unit.type = outputs[k].type;
      for (const ir::SourceName& source : ir::unitSources(&op)) unit.nodes.push_back(source.op + " " + source.node);
      unit.whole = compare(outputs[k], toHost(expected[k], {}), tolerance);
      unit.local = compare(outputs[k], toHost(tensor, {}), tolerance);
      units.push_back(std::move(unit));
    }
  }
  return units;
}

}  // namespace hpu::tools
