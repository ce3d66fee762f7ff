// SPDX-License-Identifier: Apache-2.0
// The passes of the phase normalize around their pattern sets, and their order.
#include "compiler/normalize/Passes.h"

#include <map>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/normalize/Constants.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// Runs patterns to the fixed point; not reaching it is an error of ours, not a quiet end.
LogicalResult applyAll(func::FuncOp func, RewritePatternSet&& patterns) {
  GreedyRewriteConfig config;
  // MLIR's own folding would hoist constants and drop their locations.
  config.enableFolding(false).enableConstantCSE(false).setMaxIterations(64);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  if (succeeded(applyPatternsGreedily(func, std::move(patterns), config))) return success();
  return func.emitError("the patterns of normalize do not reach a fixed point");
}

struct SimplifyPass : PassWrapper<SimplifyPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SimplifyPass)
  explicit SimplifyPass(int64_t maxFoldedBytes) : maxFoldedBytes_(maxFoldedBytes) {}
  StringRef getArgument() const final { return "hpu-simplify"; }
  StringRef getDescription() const final { return "Folds constants, views of views and neutral operands"; }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    int64_t modelBytes = 0;
    for (auto constant : getOperation().getOps<ConstantOp>())
      if (auto type = cast<RankedTensorType>(constant.getType()); type.hasStaticShape())
        modelBytes += tensorBytes(type);
    populateFoldConstantPatterns(patterns, maxFoldedBytes_, modelBytes);
    populateSimplifyViewPatterns(patterns);
    populateSimplifyArithmeticPatterns(patterns);
    populateDropWrapPatterns(patterns);
    if (failed(applyAll(getOperation(), std::move(patterns)))) signalPassFailure();
  }
  int64_t maxFoldedBytes_;
};

struct RecogniseCompositesPass : PassWrapper<RecogniseCompositesPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RecogniseCompositesPass)
  StringRef getArgument() const final { return "hpu-recognise-composites"; }
  StringRef getDescription() const final { return "Finds gelu, silu, layer_norm, softmax in primitive ops"; }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateActivationPatterns(patterns);
    populateNormPatterns(patterns);
    if (failed(applyAll(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

struct FoldBatchNormPass : PassWrapper<FoldBatchNormPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldBatchNormPass)
  explicit FoldBatchNormPass(ElementType stored) : stored_(stored) {}
  StringRef getArgument() const final { return "hpu-fold-batch-norm"; }
  StringRef getDescription() const final { return "Folds batch norms and channel scales into weights and a bias"; }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateBatchNormPatterns(patterns);
    populateScaleIntoWeightsPatterns(patterns, stored_);
    if (failed(applyAll(getOperation(), std::move(patterns)))) signalPassFailure();
  }
  ElementType stored_;
};

struct CanonicaliseAttentionPass : PassWrapper<CanonicaliseAttentionPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CanonicaliseAttentionPass)
  explicit CanonicaliseAttentionPass(ElementType stored) : stored_(stored) {}
  StringRef getArgument() const final { return "hpu-canonicalise-attention"; }
  StringRef getDescription() const final { return "Brings scales and masks of attentions into one form"; }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateAttentionPatterns(patterns, stored_);
    if (failed(applyAll(getOperation(), std::move(patterns)))) signalPassFailure();
  }
  ElementType stored_;
};

struct MoveReshapesPass : PassWrapper<MoveReshapesPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MoveReshapesPass)
  StringRef getArgument() const final { return "hpu-move-reshapes"; }
  StringRef getDescription() const final { return "Sinks merges of dims and raises splits"; }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMoveReshapePatterns(patterns);
    populateSimplifyViewPatterns(patterns);
    if (failed(applyAll(getOperation(), std::move(patterns)))) signalPassFailure();
  }
};

struct MergeCommonPass : PassWrapper<MergeCommonPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MergeCommonPass)
  StringRef getArgument() const final { return "hpu-merge-common"; }
  StringRef getDescription() const final { return "Merges equal ops and erases dead ones"; }
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(getOperation().getBody().front())))
      if (isOpTriviallyDead(&op)) rewriter.eraseOp(&op);
  }
};

/// Op counts before and after, for the phase's summary line.
struct Counts {
  int64_t ops = 0;
  std::map<std::string, int64_t> byName;
  explicit Counts(func::FuncOp func) {
    func.walk([&](HpuOp op) {
      ++ops;
      ++byName[op->getName().stripDialect().str()];
    });
  }
};

using SharedCounts = std::shared_ptr<std::optional<Counts>>;

struct CountPass : PassWrapper<CountPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CountPass)
  explicit CountPass(SharedCounts counts) : counts_(std::move(counts)) {}
  StringRef getArgument() const final { return "hpu-count-before-normalize"; }
  void runOnOperation() override { *counts_ = Counts(getOperation()); }
  SharedCounts counts_;
};

struct SummarisePass : PassWrapper<SummarisePass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SummarisePass)
  SummarisePass(SharedCounts before, std::string* summary) : before_(std::move(before)), summary_(summary) {}
  StringRef getArgument() const final { return "hpu-summarise-normalize"; }
  void runOnOperation() override {
    Counts after(getOperation());
    std::string text = std::to_string((*before_)->ops) + " -> " + std::to_string(after.ops) + " ops";
    std::string separator = ": ";
    auto add = [&](const char* name, int64_t count, const char* verb) {
      if (count <= 0) return;
      text += separator + std::to_string(count) + " " + name + verb;
      separator = ", ";
    };
    auto before = [&](const char* name) { return (*before_)->byName[name]; };
    add("batch_norm", before("batch_norm") - after.byName["batch_norm"], " folded");
    for (const char* name : {"gelu", "silu", "hard_swish", "layer_norm", "softmax", "log_softmax"})
      add(name, after.byName[name] - before(name), " recognised");
    *summary_ = text;
  }
  SharedCounts before_;
  std::string* summary_;
};

}  // namespace

std::unique_ptr<Pass> createSimplifyPass(int64_t maxFoldedBytes) {
  return std::make_unique<SimplifyPass>(maxFoldedBytes);
}
std::unique_ptr<Pass> createRecogniseCompositesPass() {
  return std::make_unique<RecogniseCompositesPass>();
}
std::unique_ptr<Pass> createFoldBatchNormPass(ElementType stored) {
  return std::make_unique<FoldBatchNormPass>(stored);
}
std::unique_ptr<Pass> createCanonicaliseAttentionPass(ElementType stored) {
  return std::make_unique<CanonicaliseAttentionPass>(stored);
}
std::unique_ptr<Pass> createMoveReshapesPass() {
  return std::make_unique<MoveReshapesPass>();
}
std::unique_ptr<Pass> createMergeCommonPass() {
  return std::make_unique<MergeCommonPass>();
}

void addNormalizePasses(OpPassManager& pm, const NormalizeOptions& options) {
  auto counts = std::make_shared<std::optional<Counts>>();
  if (options.summary) pm.addPass(std::make_unique<CountPass>(counts));
  pm.addPass(createFoldEmptyPass());
  pm.addPass(createMergeCommonPass());
  // Composites come first: pow and division are still as the exporter wrote them.
  pm.addPass(createRecogniseCompositesPass());
  pm.addPass(createSimplifyPass(options.maxFoldedBytes));
  pm.addPass(createRecogniseCompositesPass());
  pm.addPass(createFoldBatchNormPass(options.stored));
  // Behind what folds scales into weights, ahead of what folds the masks that it makes.
  pm.addPass(createCanonicaliseAttentionPass(options.stored));
  pm.addPass(createSimplifyPass(options.maxFoldedBytes));
  pm.addPass(createMergeCommonPass());
  if (options.merge) {
    pm.addPass(createMergeSiblingsPass(*options.merge));
    // A slice of all columns, views of views; the parts of merged weights.
    pm.addPass(createSimplifyPass(options.maxFoldedBytes));
    pm.addPass(createMergeCommonPass());
  }
  if (options.moveViews) {
    // Last: siblings are recognised by their activations, which rising splits would tell apart.
    pm.addPass(createMoveReshapesPass());
    pm.addPass(createOrderDimsPass());
    pm.addPass(createMoveReshapesPass());  // Where a transpose went, reshapes may meet.
    pm.addPass(createMergeCommonPass());
  }
  if (options.skipMasked) {
    pm.addPass(createSkipMaskedPass());
    // Slices of views, and parts of masks that are the same.
    pm.addPass(createSimplifyPass(options.maxFoldedBytes));
    pm.addPass(createMergeCommonPass());
  }
  pm.addPass(createVerifyNormalizedPass());
  if (options.summary) pm.addPass(std::make_unique<SummarisePass>(counts, options.summary));
}

void registerNormalizePasses() {
  registerPass([] { return createFoldEmptyPass(); });
  registerPass([] { return createSimplifyPass(); });
  registerPass([] { return createRecogniseCompositesPass(); });
  registerPass([] { return createFoldBatchNormPass(); });
  registerPass([] { return createCanonicaliseAttentionPass(); });
  registerPass([] { return createMergeSiblingsPass(); });
  registerPass([] { return createMoveReshapesPass(); });
  registerPass([] { return createOrderDimsPass(); });
  registerPass([] { return createSkipMaskedPass(); });
  registerPass([] { return createMergeCommonPass(); });
  registerPass([] { return createVerifyNormalizedPass(); });
  PassPipelineRegistration<> pipeline("hpu-normalize", "The phase normalize",
                                      [](OpPassManager& pm) { addNormalizePasses(pm); });
}

}  // namespace hpu::normalize
