// SPDX-License-Identifier: Apache-2.0
// Activations that exporters write as several primitive ops: gelu (erf and tanh form), silu,
// hard_swish. The one thing to know: products are matched as multisets of factors, so every order
// in which an exporter multiplies is the same pattern.
#include <cmath>

#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

constexpr int kMaxDepth = 6;

/// A product written with mul, div by a constant, and pow by a constant.
struct Product {
  double constant = 1;
  SmallVector<Value> factors;   ///< With repetition.
  SmallVector<Operation*> ops;  ///< The ops that multiply.
  int64_t count(Value v) const { return llvm::count(factors, v); }
};

/// Multiplies out `value` down to `leaves` (and whatever is not a multiplication).
void multiplyOut(Value value, ArrayRef<Value> leaves, Product& product, int depth = 0) {
  if (llvm::is_contained(leaves, value)) {
    product.factors.push_back(value);
    return;
  }
  if (std::optional<double> number = splatOf(value)) {
    product.constant *= *number;
    return;
  }
  if (depth < kMaxDepth) {
    if (auto mul = value.getDefiningOp<MulOp>()) {
      product.ops.push_back(mul);
      multiplyOut(mul.getLhs(), leaves, product, depth + 1);
      multiplyOut(mul.getRhs(), leaves, product, depth + 1);
      return;
    }
    if (auto div = value.getDefiningOp<DivOp>())
      if (std::optional<double> number = splatOf(div.getRhs())) {
        product.ops.push_back(div);
        multiplyOut(div.getLhs(), leaves, product, depth + 1);
        product.constant /= *number;
        return;
      }
    if (auto pow = value.getDefiningOp<PowOp>())
      if (std::optional<double> number = splatOf(pow.getRhs()); number == 2.0 || number == 3.0) {
        product.ops.push_back(pow);
        for (int i = 0; i < static_cast<int>(*number); ++i) multiplyOut(pow.getLhs(), leaves, product, depth + 1);
        return;
      }
  }
  product.factors.push_back(value);
}

bool near(double value, double expected) {
  return std::abs(value - expected) <= 2e-5 * std::abs(expected);
}

/// The other operand when one operand of the add is the constant `number`.
Value addedTo(AddOp add, double number) {
  if (isSplat(add.getRhs(), number)) return add.getLhs();
  if (isSplat(add.getLhs(), number)) return add.getRhs();
  return {};
}

/// The ops of the product and of everything between `from` and `x`, for the location.
Location locOf(PatternRewriter& rewriter, const Product& product, ArrayRef<Operation*> more) {
  SmallVector<Operation*> ops(more);
  llvm::append_range(ops, llvm::reverse(product.ops));
  return fusedLoc(rewriter, ops);
}

/// All values that occur as factors of `root` at any depth.
SmallVector<Value> candidates(Value root) {
  Product product;
  multiplyOut(root, {}, product);
  return product.factors;
}

/// root = 0.5 * x * other, given both.
std::optional<Product> halfTimes(Value root, Value x, Value other) {
  Product product;
  multiplyOut(root, {x, other}, product);
  bool matches = product.factors.size() == 2 && product.count(x) == 1 && product.count(other) == 1;
  if (!matches || !near(product.constant, 0.5)) return std::nullopt;
  return product;
}

/// The single source x of `value` = constant * x.
Value scaled(Value value, double constant) {
  if (auto mul = value.getDefiningOp<MulOp>()) {
    if (near(splatOf(mul.getRhs()).value_or(0), constant)) return mul.getLhs();
    if (near(splatOf(mul.getLhs()).value_or(0), constant)) return mul.getRhs();
  }
  if (auto div = value.getDefiningOp<DivOp>())
    if (std::optional<double> number = splatOf(div.getRhs()); number && near(1 / *number, constant))
      return div.getLhs();
  return {};
}

/// Is `add` x + 0.044715 x^3?
bool isCubicSum(AddOp add, Value x) {
  for (auto [linear, cubic] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
    if (linear != x) continue;
    Product product;
    multiplyOut(cubic, {x}, product);
    if (product.factors.size() == 3 && product.count(x) == 3 && near(product.constant, 0.044715)) return true;
  }
  return false;
}

/// x when `value` = sqrt(2/pi) * (x + 0.044715 x^3), or sqrt(2/pi) * x * (1 + 0.044715 x^2).
Value geluTanhArgument(Value value) {
  const double kFactor = std::sqrt(2 / M_PI);
  if (Value sum = scaled(value, kFactor))
    if (auto add = sum.getDefiningOp<AddOp>())
      for (Value x : {add.getLhs(), add.getRhs()})
        if (isCubicSum(add, x)) return x;
  Product product;
  multiplyOut(value, {}, product);
  if (product.factors.size() != 2 || !near(product.constant, kFactor)) return {};
  for (int i = 0; i < 2; ++i) {
    Value x = product.factors[i];
    auto add = product.factors[1 - i].getDefiningOp<AddOp>();
    Value square = add ? addedTo(add, 1) : Value();
    if (!square) continue;
    Product inner;
    multiplyOut(square, {x}, inner);
    if (inner.factors.size() == 2 && inner.count(x) == 2 && near(inner.constant, 0.044715)) return x;
  }
  return {};
}

/// 0.5 * x * (1 + erf(x / sqrt(2))), 0.5 * x * (1 + tanh(...)).
template <typename Root>
struct RecogniseGelu : OpRewritePattern<Root> {
  using OpRewritePattern<Root>::OpRewritePattern;
  LogicalResult matchAndRewrite(Root op, PatternRewriter& rewriter) const override {
    for (Value factor : candidates(op.getResult())) {
      auto add = factor.template getDefiningOp<AddOp>();
      Value inner = add ? addedTo(add, 1) : Value();
      Operation* function = inner ? inner.getDefiningOp() : nullptr;
      if (!function || !isa<ErfOp, TanhOp>(function)) continue;
      bool tanh = isa<TanhOp>(function);
      Value argument = function->getOperand(0);
      Value x = tanh ? geluTanhArgument(argument) : scaled(argument, std::sqrt(0.5));
      if (!x || x.getType() != op.getType()) continue;
      std::optional<Product> product = halfTimes(op.getResult(), x, factor);
      if (!product) continue;
      Location loc = locOf(rewriter, *product, {argument.getDefiningOp(), function, add});
      rewriter.replaceOp(op, GeluOp::create(rewriter, loc, x, tanh).getResult());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "not a gelu");
  }
};

/// x * sigmoid(x).
struct RecogniseSilu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter& rewriter) const override {
    for (auto [x, other] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto sigmoid = other.getDefiningOp<SigmoidOp>();
      if (!sigmoid || sigmoid.getX() != x) continue;
      Location loc = fusedLoc(rewriter, {sigmoid, op});
      rewriter.replaceOp(op, SiluOp::create(rewriter, loc, x).getResult());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "not a silu");
  }
};

/// x * clip(x + 3, 0, 6) / 6 and x * hard_sigmoid(x; 1/6, 1/2).
template <typename Root>
struct RecogniseHardSwish : OpRewritePattern<Root> {
  using OpRewritePattern<Root>::OpRewritePattern;
  LogicalResult matchAndRewrite(Root op, PatternRewriter& rewriter) const override {
    for (Value factor : candidates(op.getResult())) {
      Value x;
      double constant = 1;
      Operation* inner = nullptr;
      if (auto hard = factor.template getDefiningOp<HardSigmoidOp>()) {
        if (near(hard.getAlpha().convertToDouble(), 1.0 / 6) && near(hard.getBeta().convertToDouble(), 0.5))
          x = hard.getX();
      } else if (auto clip = factor.template getDefiningOp<ClipOp>()) {
        auto add = clip.getX().template getDefiningOp<AddOp>();
        if (add && clip.getMin().convertToDouble() == 0 && near(clip.getMax().convertToDouble(), 6))
          x = addedTo(add, 3);
        constant = 1.0 / 6;
        inner = add;
      }
      if (!x || x.getType() != op.getType()) continue;
      Product product;
      multiplyOut(op.getResult(), {x, factor}, product);
      if (product.factors.size() != 2 || product.count(x) != 1 || product.count(factor) != 1 ||
          !near(product.constant, constant))
        continue;
      SmallVector<Operation*> between;
      if (inner) between.push_back(inner);
      between.push_back(factor.getDefiningOp());
      Location loc = locOf(rewriter, product, between);
      rewriter.replaceOp(op, HardSwishOp::create(rewriter, loc, x).getResult());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "not a hard_swish");
  }
};

}  // namespace

void populateActivationPatterns(RewritePatternSet& patterns) {
  patterns.add<RecogniseGelu<MulOp>, RecogniseGelu<DivOp>, RecogniseSilu, RecogniseHardSwish<MulOp>,
               RecogniseHardSwish<DivOp>>(patterns.getContext());
}

}  // namespace hpu::normalize
