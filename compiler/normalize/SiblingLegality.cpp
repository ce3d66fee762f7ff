// SPDX-License-Identifier: Apache-2.0
// Which products can be merged: the same activations, constant f32 weights of rank 2, static shapes.
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/MergeSiblings.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// The merged weights are a copy of their parts: more than this is not copied.
constexpr int64_t kMaxMergedBytes = int64_t{512} << 20;

/// A constant, or a transpose of one.
bool isWeights(Value value) {
  if (auto transpose = value.getDefiningOp<TransposeOp>()) value = transpose.getX();
  RankedTensorType type = tensorOf(value);
  return constantOf(value) && type.getRank() == 2 && type.getElementType().isF32();
}

AddOp biasOf(MatMulOp product) {
  if (!product->hasOneUse()) return {};
  auto add = dyn_cast<AddOp>(*product->user_begin());
  if (!add || add.getType() != product.getType()) return {};
  Value other = add.getLhs() == product.getResult() ? add.getRhs() : add.getLhs();
  int64_t rank = tensorOf(product).getRank();
  return perChannel(other, rank, rank - 1, tensorOf(product).getDimSize(rank - 1)) ? add : AddOp();
}

}  // namespace

Siblings findSiblings(Value activations) {
  Siblings siblings;
  int64_t bytes = 0;
  SmallVector<Operation*> users(activations.getUsers());
  llvm::sort(users, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  users.erase(llvm::unique(users), users.end());
  for (Operation* user : users) {
    auto product = dyn_cast<MatMulOp>(user);
    if (!product || product.getExact() || product.getLhs() != activations || !isWeights(product.getRhs())) continue;
    if (!tensorOf(product).hasStaticShape() || !tensorOf(activations).getElementType().isF32()) continue;
    bytes += tensorOf(product.getRhs()).getNumElements() * 4;
    siblings.push_back({product, biasOf(product)});
  }
  if (bytes > kMaxMergedBytes) siblings.clear();
  return siblings;
}

}  // namespace hpu::normalize
