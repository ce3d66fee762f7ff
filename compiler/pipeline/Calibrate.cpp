// SPDX-License-Identifier: Apache-2.0
// calibrationGraph: the normalised model with the largest magnitude of every activation that a matrix
// product reads as its outputs. The one thing to know: it runs the passes that a compilation runs ahead of
// the phase precision, so that the products and their names are the same.
#include "base/ModelPath.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/DataSizes.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/pipeline/CompileParts.h"
#include "compiler/pipeline/Pipeline.h"
#include "compiler/precision/Fp8.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/KnownOptions.h"
#include "hpu/calibration.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu {
namespace {

/// Replaces the outputs of `main` by the ranges of its products.
void watchProducts(func::FuncOp main) {
  Block& block = main.getBody().front();
  Operation* end = block.getTerminator();
  OpBuilder builder(end);
  DenseMap<mlir::Value, mlir::Value> watched;
  SmallVector<mlir::Value> results;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (auto& [product, name] : precision::namedProducts(block)) {
    if (cast<HpuOp>(product).getNarrowing() == Narrowing::Exact) continue;  // Never in 8 bits.
    for (int i = 0; i < 2; ++i) {
      mlir::Value operand = product->getOperand(i);
      if (precision::isConstantLike(operand)) continue;
      mlir::Value& range = watched[operand];
      if (!range) range = precision::largestAtRunTime(builder, product->getLoc(), operand);
      results.push_back(range);
      types.push_back(range.getType());
      attributes.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr("hpu.name", builder.getStringAttr(precision::rangeName(name, i)))));
    }
  }
  end->setOperands(results);
  setDataSizes(main->getParentOfType<ModuleOp>(), {});
  main.setType(FunctionType::get(main.getContext(), main.getArgumentTypes(), types));
  main.setAllResultAttrs(attributes);
  for (Operation& op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op)) op.erase();
}

/// Ranges are measured with data, which has sizes.
Status refuseBounds(const CompileOptions& options) {
  if (options.dimBounds.empty()) return okStatus();
  return unimplemented("a calibration runs the model at the sizes of its data: give sizes of dimensions, not bounds");
}

}  // namespace

StatusOr<Graph> calibrationGraph(const Graph& graph, const CompileOptions& given, size_t givenBytes) {
  HPU_RETURN_IF_ERROR(GraphAccess::check(graph));
  HPU_ASSIGN(const base::Grown<CompileOptions> known, support::asKnown(given, givenBytes));
  const CompileOptions& options = *known;
  HPU_RETURN_IF_ERROR(pipeline::checkOptions(options));
  HPU_RETURN_IF_ERROR(refuseBounds(options));
  Graph::Impl& impl = GraphAccess::impl(graph);
  std::lock_guard lock(impl.mutex);
  importer::OwningModule module(impl.module.get().clone());
  HPU_RETURN_IF_ERROR(pipeline::makeStatic(module.get(), options));
  if (!module.get().lookupSymbol<func::FuncOp>("main"))
    return invalidArgument("nothing to calibrate: the graph is a program, of which a compilation is over");
  PassManager manager(impl.context.get());
  pipeline::addNormalize(manager, options, nullptr, nullptr);
  {
    ir::DiagnosticCapture diagnostics(impl.context.get());
    if (failed(manager.run(module.get()))) return diagnostics.status(StatusCode::kInternal, "calibration");
  }
  auto main = module.get().lookupSymbol<func::FuncOp>("main");
  const bool isFlow = pipeline::hasFlow(module.get());
  watchProducts(main);
  if (main.getNumResults() == 0 && isFlow)
    return invalidArgument(
        "nothing to calibrate: the model's products are in loops and branches of the device, which find their ranges "
        "when they run; compile it without a calibration");
  if (main.getNumResults() == 0)
    return invalidArgument("nothing to calibrate: the model has no matrix product of activations");
  return GraphAccess::make(impl.context, std::move(module));
}

StatusOr<CompileResult> compileCalibration(const std::string& path, const CompileOptions& given, size_t givenBytes,
                                           std::vector<UnsupportedNode>* unsupported) {
  HPU_ASSIGN(const base::Grown<CompileOptions> known, support::asKnown(given, givenBytes));
  HPU_RETURN_IF_ERROR(refuseBounds(*known));
  CompileOptions narrow = *known;
  // Each belongs to the compilation that the ranges are for.
  narrow.stopAfter.clear();
  narrow.startFrom.clear();
  narrow.dumpDir.clear();
  narrow.reports.clear();
  narrow.cacheDir.clear();
  narrow.explain.clear();
  narrow.specialize.clear();
  narrow.states.clear();
  narrow.onPhase = nullptr;
  CompileOptions wide = narrow;
  wide.precision = Precision::kF32;
  wide.keepF32.clear();
  wide.ranges.clear();
  const bool isMlir = base::isMlirPath(path);
  HPU_ASSIGN(const Graph graph, isMlir ? importMlir(path) : importOnnx(path, wide, unsupported));
  if (!isMlir) {  // The graph has its sizes.
    narrow.shapes.clear();
    narrow.dims.clear();
  }
  HPU_ASSIGN(const Graph watched, calibrationGraph(graph, narrow));
  wide.shapes.clear();
  wide.dims.clear();
  return compile(watched, wide);
}

}  // namespace hpu
