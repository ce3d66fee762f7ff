// SPDX-License-Identifier: Apache-2.0
// Tensors without elements: the step of a cache that holds nothing yet, a product over no columns.
// The one thing to know: such a tensor is a constant, whatever makes it. So what it takes part in is a constant, too,
// or does not need it, and no engine ever meets one.
#include <cstring>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorBytes.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Interpreter.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

/// What is larger, and has one number in all places, becomes a scalar that is expanded.
constexpr int64_t kLargeBytes = 64 << 10;
/// What the interpreter may make on the way.
constexpr int64_t kMostBytes = int64_t{1} << 30;

bool isEmpty(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == 0;
}

Value emptyConstant(OpBuilder& builder, Location loc, Type type) {
  return ConstantOp::create(builder, loc, type, DenseElementsAttr::get(cast<ShapedType>(type), ArrayRef<Attribute>()));
}

/// Uses of an empty value become uses of a constant.
void replaceIfEmpty(OpBuilder& builder, Location loc, Value value) {
  if (isEmpty(value) && !value.use_empty()) value.replaceAllUsesWith(emptyConstant(builder, loc, value.getType()));
}

/// Whether all elements have the bytes of the first one.
bool isOneNumber(const interp::Tensor& tensor, int64_t elementBytes) {
  const uint8_t* bytes = tensor.data();
  for (int64_t i = 1; i < tensor.count(); ++i)
    if (std::memcmp(bytes, bytes + i * elementBytes, elementBytes) != 0) return false;
  return true;
}

/// The op's result, where its operands are all constants by now; null where it cannot be computed.
Value evaluated(OpBuilder& builder, Operation* op) {
  if (tensorBytes(op->getResult(0).getType()) > kMostBytes) return {};
  SmallVector<interp::Tensor> inputs;
  for (Value operand : op->getOperands()) {
    ConstantOp constant = constantOf(operand);
    StatusOr<interp::Tensor> tensor = constant ? interp::tensorOf(constant.getValue()) : unavailable("not a constant");
    if (!tensor.ok()) return {};
    inputs.push_back(std::move(*tensor));
  }
  // What has no result (an index into nothing) stays, and is refused with its node's name.
  ScopedDiagnosticHandler quiet(op->getContext(), [](Diagnostic&) { return success(); });
  FailureOr<SmallVector<interp::Tensor>> results = interp::evaluateOp(op, inputs);
  if (failed(results)) return {};
  const interp::Tensor& result = results->front();
  RankedTensorType type = tensorOf(op->getResult(0));
  const bool isOne = isOneNumber(result, elementBytes(type)), isLate = dependsOnSamples(op, type);
  // No constant has sizes that are given late.
  if (isLate && !isOne) return {};
  if (!isLate && (tensorBytes(type) <= kLargeBytes || !isOne))
    return makeConstant(builder, op->getLoc(), result, "empty");
  interp::Tensor one = interp::Tensor::zeros({elementType(type.getElementType()), {}});
  std::memcpy(one.writable(), result.data(), elementBytes(type));
  Value scalar = makeConstant(builder, op->getLoc(), one, "empty");
  return ExpandOp::create(builder, op->getLoc(), type, scalar, type.getShape(), sizeNames(type));
}

struct FoldEmptyPass : PassWrapper<FoldEmptyPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldEmptyPass)
  StringRef getArgument() const final { return "hpu-fold-empty"; }
  StringRef getDescription() const final { return "Folds tensors without elements and what follows from them"; }

  void runOnOperation() override {
    Block& body = getOperation().getBody().front();
    OpBuilder builder(&body, body.begin());
    for (BlockArgument argument : body.getArguments()) replaceIfEmpty(builder, argument.getLoc(), argument);
    for (Operation& op : llvm::make_early_inc_range(body.without_terminator())) {
      if (isa<ConstantOp>(op) || op.getNumResults() != 1) continue;
      builder.setInsertionPointAfter(&op);
      Value result = op.getResult(0);
      if (isEmpty(result)) {
        replaceIfEmpty(builder, op.getLoc(), result);
      } else if (llvm::any_of(op.getOperands(), isEmpty)) {
        Value other = isa<ConcatOp>(op) ? withoutEmpty(builder, cast<ConcatOp>(op)) : evaluated(builder, &op);
        if (other) result.replaceAllUsesWith(other);
      }
      if (isOpTriviallyDead(&op)) op.erase();
    }
  }

  static Value withoutEmpty(OpBuilder& builder, ConcatOp concat) {
    SmallVector<Value> parts;
    for (Value input : concat.getInputs())
      if (!isEmpty(input)) parts.push_back(input);
    if (parts.size() == 1) return parts[0];
    return ConcatOp::create(builder, concat.getLoc(), concat.getType(), parts, concat.getAxis());
  }
};

}  // namespace

std::unique_ptr<Pass> createFoldEmptyPass() {
  return std::make_unique<FoldEmptyPass>();
}

}  // namespace hpu::normalize
