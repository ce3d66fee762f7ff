// SPDX-License-Identifier: Apache-2.0
// The pass hpu-merge-siblings: rewrites what is legal and pays.
#include "compiler/normalize/MergeSiblings.h"

#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "compiler/support/DiagnosticCapture.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// Copies the weights [K, N] of a product into columns [offset, offset + N) of `merged` [K, total].
LogicalResult copyColumns(Value weights, float* merged, int64_t offset, int64_t total) {
  auto transpose = weights.getDefiningOp<TransposeOp>();
  std::optional<std::vector<float>> values = floatsOf(transpose ? transpose.getX() : weights);
  if (!values) return failure();
  const int64_t k = tensorOf(weights).getDimSize(0), n = tensorOf(weights).getDimSize(1);
  for (int64_t row = 0; row < k; ++row)
    for (int64_t column = 0; column < n; ++column)
      merged[row * total + offset + column] = (*values)[transpose ? column * k + row : row * n + column];
  return success();
}

Value biasConstant(Sibling& sibling) {
  AddOp add = sibling.bias;
  return add.getLhs() == sibling.product.getResult() ? add.getRhs() : add.getLhs();
}

struct MergeSiblingsPass : PassWrapper<MergeSiblingsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MergeSiblingsPass)
  explicit MergeSiblingsPass(MergeOptions options) : options_(options) {}
  StringRef getArgument() const final { return "hpu-merge-siblings"; }
  StringRef getDescription() const final { return "Makes products of the same activations one product"; }

  void runOnOperation() override {
    const arch::TargetDesc& target = options_.target ? *options_.target : arch::targetDesc(Target::kGaudi2);
    llvm::SetVector<Value> activations;
    getOperation().walk([&](MatMulOp product) { activations.insert(product.getLhs()); });
    // The last group first: what is erased then is no other group's activations.
    for (Value value : llvm::reverse(activations)) {
      Siblings siblings = findSiblings(value);
      if (siblings.size() < 2) continue;
      const int64_t saved = savedByMerging(siblings, target, options_.type);
      report(siblings, saved);
      if (saved > 0 && failed(merge(siblings))) return signalPassFailure();
    }
  }

 private:
  void report(Siblings& siblings, int64_t saved) {
    if (!options_.report) return;
    std::string names;
    for (Sibling& sibling : siblings) names += (names.empty() ? "" : " + ") + locationText(sibling.product.getLoc());
    *options_.report = llvm::formatv("{0} {1}: products of the same activations; one product {2} {3:F2} us\n",
                                     saved > 0 ? "merged  " : "apart   ", names, saved > 0 ? "saves" : "costs",
                                     static_cast<double>(std::abs(saved)) / 1e6)
                           .str() +
                       *options_.report;
  }

  LogicalResult merge(Siblings& siblings) {
    MatMulOp first = siblings.front().product;
    const int64_t k = tensorOf(first.getRhs()).getDimSize(0), rank = tensorOf(first.getResult()).getRank();
    int64_t total = 0;
    bool anyBias = false;
    SmallVector<Operation*> products, adds;
    for (Sibling& sibling : siblings) {
      total += tensorOf(sibling.product.getRhs()).getDimSize(1);
      products.push_back(sibling.product);
      if (!sibling.bias) continue;
      adds.push_back(sibling.bias);
      anyBias = true;
    }
    interp::Tensor weights = interp::Tensor::zeros({ElementType::kF32, {k, total}});
    std::vector<float> bias(static_cast<size_t>(total), 0.0f);
    int64_t offset = 0;
    for (Sibling& sibling : siblings) {
      const int64_t n = tensorOf(sibling.product.getRhs()).getDimSize(1);
      if (failed(copyColumns(sibling.product.getRhs(), reinterpret_cast<float*>(weights.writable()), offset, total)))
        return withCode(StatusCode::kInvalidArgument, sibling.product.emitError())
               << "the weights' data is missing or of another size than their type says";
      if (sibling.bias) {
        std::optional<std::vector<float>> values = perChannel(biasConstant(sibling), rank, rank - 1, n);
        std::copy(values->begin(), values->end(), bias.begin() + offset);
      }
      offset += n;
    }
    OpBuilder builder(first);
    Location loc = fusedLoc(builder, products);
    Value constant = makeConstant(builder, loc, weights, "merged");
    Value merged = MatMulOp::create(builder, loc, first.getLhs(), constant);
    if (anyBias)
      merged = AddOp::create(builder, fusedLoc(builder, adds), merged, makeFloats(builder, loc, {total}, bias));
    replaceBySlices(builder, siblings, merged);
    return success();
  }

  void replaceBySlices(OpBuilder& builder, Siblings& siblings, Value merged) {
    SmallVector<int64_t> starts(tensorOf(merged).getRank(), 0), sizes(tensorOf(merged).getShape());
    SmallVector<int64_t> steps(starts.size(), 1);
    for (Sibling& sibling : siblings) {
      sizes.back() = tensorOf(sibling.product).getShape().back();
      Value slice =
          SliceOp::create(builder, sibling.product.getLoc(), merged, starts, sizes, steps, ArrayAttr(), ArrayAttr());
      sibling.result().replaceAllUsesWith(slice);
      starts.back() += sizes.back();
    }
    // Only now: the builder stands before the first of them.
    for (Sibling& sibling : siblings) {
      if (sibling.bias) sibling.bias.erase();
      sibling.product.erase();
    }
  }

  MergeOptions options_;
};

}  // namespace

std::unique_ptr<Pass> createMergeSiblingsPass(MergeOptions options) {
  return std::make_unique<MergeSiblingsPass>(options);
}

}  // namespace hpu::normalize
