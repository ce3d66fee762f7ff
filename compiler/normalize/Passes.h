// SPDX-License-Identifier: Apache-2.0
// The phase normalize: function passes that bring imported hpu ops into the few forms that the
// later phases know. The one thing to know: each pass keeps the values exact in f32 (folding into
// weights rounds once), and the last one, hpu-verify-normalized, proves the post-condition.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hpu/types.h"

namespace mlir {
class OpPassManager;
class Pass;
class RewritePatternSet;
}  // namespace mlir

namespace hpu::arch {
struct TargetDesc;
}

namespace hpu::normalize {

struct MergeOptions {
  const arch::TargetDesc* target = nullptr;  ///< Null: Gaudi 2.
  ElementType type = ElementType::kF32;      ///< What products will be computed in.
  std::string* report = nullptr;             ///< A line a group of siblings, if wanted.
};

struct NormalizeOptions {
  /// Constants above this are folded only when the result is smaller than the operands.
  int64_t maxFoldedBytes = 64 << 20;
  /// Merge products of the same activations; nullopt: leave them apart.
  std::optional<MergeOptions> merge;
  /// What the phase precision will store f32 tensors in: no fold may make numbers that leave its range.
  ElementType stored = ElementType::kF32;
  bool skipMasked = true;  ///< What a constant mask hides is not computed.
  bool moveViews = true;   ///< Reshapes and transposes go where they cost least.
  /// "212 -> 140 ops: 20 batch_norm folded, 4 gelu, 9 layer_norm", if wanted; must outlive the
  /// passes.
  std::string* summary = nullptr;
};

/// hpu-fold-empty: tensors without elements, and what is computed from them.
std::unique_ptr<mlir::Pass> createFoldEmptyPass();
/// hpu-simplify: constants through the reference interpreter, views of views, neutral operands.
std::unique_ptr<mlir::Pass> createSimplifyPass(int64_t maxFoldedBytes = 64 << 20);
/// hpu-recognise-composites: gelu, silu, hard_swish, layer_norm, softmax, rsqrt from primitive ops.
std::unique_ptr<mlir::Pass> createRecogniseCompositesPass();
/// hpu-fold-batch-norm: batch norms and per-channel scales and offsets into weights and one bias.
std::unique_ptr<mlir::Pass> createFoldBatchNormPass(ElementType stored = ElementType::kF32);
/// hpu-canonicalise-attention: scores, one scale, an additive mask, softmax.
std::unique_ptr<mlir::Pass> createCanonicaliseAttentionPass(ElementType stored = ElementType::kF32);
/// hpu-merge-siblings: Q, K and V, gate and up as one product where the performance model says so.
std::unique_ptr<mlir::Pass> createMergeSiblingsPass(MergeOptions options = {});
/// hpu-move-reshapes: merges of dims sink and splits rise, away from where they cost a copy or keep ops apart.
std::unique_ptr<mlir::Pass> createMoveReshapesPass();
/// hpu-order-dims: regions of ops on rows compute in the order of dims that needs the fewest transposes.
std::unique_ptr<mlir::Pass> createOrderDimsPass();
/// hpu-skip-masked: attentions with a constant mask in blocks of queries, over the keys that it leaves.
std::unique_ptr<mlir::Pass> createSkipMaskedPass();
/// hpu-merge-common: equal ops become one, dead ones go.
std::unique_ptr<mlir::Pass> createMergeCommonPass();
/// Post-condition: no batch norm, no identity or stacked view, every op has a source location.
std::unique_ptr<mlir::Pass> createVerifyNormalizedPass();

/// All of them in order; `pm` must be anchored on func.func.
void addNormalizePasses(mlir::OpPassManager& pm, const NormalizeOptions& options = {});
/// For hpu-opt: the passes above and the pipeline hpu-normalize.
void registerNormalizePasses();

// ---- Pattern sets, one a file
// -------------------------------------------------------------------------

/// `modelBytes`: what the function's constants have; the results of folding together are in proportion to it.
void populateFoldConstantPatterns(mlir::RewritePatternSet& patterns, int64_t maxFoldedBytes, int64_t modelBytes);
void populateSimplifyViewPatterns(mlir::RewritePatternSet& patterns);
void populateMoveReshapePatterns(mlir::RewritePatternSet& patterns);
void populateSimplifyArithmeticPatterns(mlir::RewritePatternSet& patterns);
void populateDropWrapPatterns(mlir::RewritePatternSet& patterns);
void populateActivationPatterns(mlir::RewritePatternSet& patterns);
void populateNormPatterns(mlir::RewritePatternSet& patterns);
void populateAttentionPatterns(mlir::RewritePatternSet& patterns, ElementType stored);
void populateBatchNormPatterns(mlir::RewritePatternSet& patterns);
void populateScaleIntoWeightsPatterns(mlir::RewritePatternSet& patterns, ElementType stored);

}  // namespace hpu::normalize
