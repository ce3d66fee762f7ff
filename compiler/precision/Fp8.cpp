// SPDX-License-Identifier: Apache-2.0
#include "compiler/precision/Fp8.h"

#include <cmath>

#include "compiler/support/DiagnosticCapture.h"
#include "mlir/IR/Builders.h"
#include "numerics/SmallFloat.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::precision {

Fp8Format fp8FormatOf(Precision precision, const arch::TargetDesc& target) {
  Fp8Format format;
  if (precision == Precision::kFp8) {
    format.element = target.e4m3Type;
    format.scales = target.e4m3Scales;
  } else {
    format.element = ElementType::kF8E5M2;
    for (int k = -56; k <= 7; ++k) format.scales.push_back(std::ldexp(1.0, k));
  }
  format.largest = numerics::largestFinite(numerics::fp8Format(format.element));
  return format;
}

double chooseScale(const Fp8Format& format, double largestMagnitude) {
  if (!(largestMagnitude > 0)) return 1;
  for (double scale : format.scales)
    if (largestMagnitude <= scale * format.largest) return scale;
  return format.scales.back();
}

bool isConstantLike(Value value) {
  Operation* op = value ? value.getDefiningOp() : nullptr;
  if (!op) return false;
  if (isa<ConstantOp>(op)) return true;
  return isa<ReshapeOp, TransposeOp, SliceOp, ExpandOp>(op) && isConstantLike(op->getOperand(0));
}

Value rootOf(Value value) {
  for (;;) {
    auto op = value.getDefiningOp<HpuOp>();
    if (!op || !op.isView()) return value;
    value = op->getOperand(0);
  }
}

namespace {

/// Passes through what stands between scores and softmax: casts, scales, masks, views.
bool reachesSoftmax(Value value, int depth) {
  if (depth == 0) return false;
  return llvm::any_of(value.getUsers(), [&](Operation* user) {
    if (isa<SoftmaxOp, LogSoftmaxOp>(user)) return true;
    auto op = dyn_cast<HpuOp>(user);
    bool passes = op && (op.isView() || isa<CastOp, MulOp, DivOp, AddOp, SubOp, WhereOp, MaxOp, ClipOp>(user));
    return passes && user->getNumResults() == 1 && reachesSoftmax(user->getResult(0), depth - 1);
  });
}

}  // namespace

bool isAttentionProduct(Operation* op) {
  auto product = dyn_cast<MatMulOp>(op);
  if (!product || isConstantLike(product.getLhs()) || isConstantLike(product.getRhs())) return false;
  constexpr int kDepth = 8;  // scale, mask, clamp, a cast each, views.
  if (reachesSoftmax(product.getResult(), kDepth)) return true;
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Value root = rootOf(operand);
    while (auto castOp = root.getDefiningOp<CastOp>()) root = rootOf(castOp.getX());
    return root.getDefiningOp<SoftmaxOp>() != nullptr;
  });
}

std::vector<std::pair<Operation*, std::string>> namedProducts(Block& block) {
  std::vector<std::pair<Operation*, std::string>> products;
  std::map<std::string, int> seen;
  for (Operation& op : block) {
    auto hpuOp = dyn_cast<HpuOp>(&op);
    if (!hpuOp || hpuOp.getEngine() != EngineKind::Mme) continue;
    std::string name = locationText(op.getLoc());
    if (name.empty()) name = op.getName().stripDialect().str();
    int count = ++seen[name];
    products.emplace_back(&op, count == 1 ? name : name + "#" + std::to_string(count));
  }
  return products;
}

Value largestAtRunTime(OpBuilder& builder, Location loc, Value value) {
  const int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  Value largest = AbsOp::create(builder, loc, value);
  auto reduce = [&](ArrayRef<int64_t> axes) {
    largest = ReduceMaxOp::create(builder, loc, largest, builder.getDenseI64ArrayAttr(axes), builder.getBoolAttr(true));
  };
  if (rank > 0) reduce({rank - 1});
  if (rank > 1) reduce(llvm::to_vector(llvm::seq<int64_t>(0, rank - 1)));
  if (rank > 0) largest = ReshapeOp::create(builder, loc, largest, builder.getDenseI64ArrayAttr({}), ArrayAttr());
  Type f32 = builder.getF32Type();
  if (cast<RankedTensorType>(largest.getType()).getElementType() == f32) return largest;
  return CastOp::create(builder, loc, largest, f32);
}

std::string rangeName(const std::string& product, int index) {
  return product + ":" + std::to_string(index);
}

}  // namespace hpu::precision
