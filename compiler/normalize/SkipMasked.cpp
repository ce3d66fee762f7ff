// SPDX-License-Identifier: Apache-2.0
// Attentions whose mask is a constant are computed for blocks of queries, each over the keys that it may see: what a
// causal mask hides is half of the scores, their exponentials and their product with the values.
//
// The rule: a mask of -1e30 or less (-65504 in f16, its lowest number) absorbs any score. Such a score counts as
// absent; also where it is a NaN or an infinity, of which PyTorch makes NaNs. A row that is masked as a whole keeps all
// of its keys, as their absorbed scores are equal and it is the mean of the values. Where something else that is not a
// constant is added, it may mask the rest of a row: such attentions stay as they are.
#include <cmath>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "compiler/normalize/SplitOp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

constexpr double kAbsorbs = -1e30, kAbsorbsF16 = -65504;
/// Widths are whole vectors, and what the MME takes at a time.
constexpr int64_t kAlign = 128;
/// What another block costs beside its scores, in scores: starts of two products and a kernel, some 4 us where a score
/// takes 10 ps.
constexpr int64_t kBlockCost = 400'000;
constexpr int64_t kLeastRows = 128;

/// Keys [first, last) that the rows of a block may see.
struct Keys {
  int64_t first = 0, last = 0;
};

/// softmax(f(product)) x values, with f's ops in their order.
struct MaskedAttention {
  MatMulOp scores, result;
  SmallVector<Operation*> between;  ///< From the scores on: pointwise, the softmax, casts.
  SoftmaxOp softmax;
  int64_t rows = 0, keys = 0;
  std::vector<Keys> seen;  ///< Of each row.
};

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

bool isPlain(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.hasStaticShape() && llvm::none_of(symShape(type), [](const SymDim& dim) { return dim.isNamed(); });
}

/// Of each row of a mask (its last two dims; a mask of one row is that of all) the keys that it leaves in any matrix of
/// its batch. Empty when it absorbs nothing.
std::vector<Keys> keysLeftBy(const interp::Tensor& mask, bool isF16) {
  const Shape& shape = mask.shape();
  const int64_t width = shape.back(), height = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  const double limit = isF16 ? kAbsorbsF16 : kAbsorbs;
  std::vector<Keys> left(static_cast<size_t>(height), Keys{width, 0});
  bool any = false;
  for (int64_t start = 0; start < mask.count(); start += width) {
    int64_t first = 0, last = width;
    auto isHidden = [&](int64_t key) { return mask.number(start + key) <= limit; };
    while (first < last && isHidden(first)) ++first;
    while (last > first && isHidden(last - 1)) --last;
    if (first == last) first = 0, last = width;
    any |= first > 0 || last < width;
    Keys& own = left[static_cast<size_t>(start / width % height)];
    own = {std::min(own.first, first), std::max(own.last, last)};
  }
  return any ? left : std::vector<Keys>();
}

/// By the elements of a mask: what keysLeftBy says. Layers share one.
using KnownMasks = llvm::DenseMap<Attribute, std::vector<Keys>>;

std::optional<MaskedAttention> matchAttention(SoftmaxOp softmax, KnownMasks& known) {
  MaskedAttention found;
  found.softmax = softmax;
  Value x = softmax.getX();
  const auto rank = static_cast<int64_t>(shapeOf(x).size());
  if (rank < 2 || !isPlain(x) || softmax.getAxis() != static_cast<uint64_t>(rank - 1)) return std::nullopt;
  found.rows = shapeOf(x)[rank - 2], found.keys = shapeOf(x)[rank - 1];
  if (found.rows < 2 * kLeastRows) return std::nullopt;
  found.seen.assign(static_cast<size_t>(found.rows), {0, found.keys});
  found.between = {softmax};
  bool isMasked = false;
  while (!(found.scores = x.getDefiningOp<MatMulOp>())) {
    Operation* op = x.getDefiningOp();
    if (!op || !isPointwise(op) || !x.hasOneUse() || op->getNumResults() != 1) return std::nullopt;
    Value next;
    for (Value operand : op->getOperands()) {
      if (!isPlain(operand)) return std::nullopt;
      if (constantOf(operand)) continue;
      if (next || shapeOf(operand) != shapeOf(x)) return std::nullopt;
      next = operand;
    }
    if (!next) return std::nullopt;
    for (Value operand : op->getOperands()) {
      const auto type = tensorOf(operand);
      if (operand == next || !isa<AddOp>(op) || type.getRank() == 0 || type.getShape().back() != found.keys) continue;
      const ElementsAttr value = constantOf(operand).getValue();
      auto [at, isNew] = known.try_emplace(value);
      if (isNew) {
        StatusOr<interp::Tensor> mask = interp::tensorOf(value);
        if (!mask.ok()) return std::nullopt;
        at->second = keysLeftBy(*mask, type.getElementType().isF16());
      }
      const std::vector<Keys>& left = at->second;
      if (left.empty()) continue;
      if (isMasked) return std::nullopt;  // Together two masks may leave less than either.
      isMasked = true;
      for (size_t row = 0; row < found.seen.size(); ++row) found.seen[row] = left[left.size() == 1 ? 0 : row];
    }
    found.between.insert(found.between.begin(), op);
    x = next;
  }
  if (!isMasked || !found.scores->hasOneUse() || !isPlain(found.scores.getLhs()) || !isPlain(found.scores.getRhs()))
    return std::nullopt;
  // Rows of the scores are rows of the left operand.
  if (shapeOf(found.scores.getLhs()).size() < 2 || shapeOf(found.scores.getRhs()).size() < 2) return std::nullopt;
  Value weights = softmax.getResult();
  while (weights.hasOneUse() && isa<CastOp>(*weights.user_begin())) {
    found.between.push_back(*weights.user_begin());
    weights = found.between.back()->getResult(0);
  }
  if (!weights.hasOneUse()) return std::nullopt;
  found.result = dyn_cast<MatMulOp>(*weights.user_begin());
  if (!found.result || found.result.getLhs() != weights || found.result.getRhs() == weights) return std::nullopt;
  Value values = found.result.getRhs();
  if (!isPlain(values) || !isPlain(found.result.getResult()) || shapeOf(values).size() < 2) return std::nullopt;
  return found;
}

Keys keysOf(const MaskedAttention& attention, int64_t begin, int64_t end) {
  Keys all = {attention.keys, 0};
  for (int64_t row = begin; row < end; ++row) {
    const Keys& own = attention.seen[static_cast<size_t>(row)];
    all = {std::min(all.first, own.first), std::max(all.last, own.last)};
  }
  all.first = all.first / kAlign * kAlign;
  all.last = std::min((all.last + kAlign - 1) / kAlign * kAlign, attention.keys);
  return all;
}

/// The rows of a block that cost least; 0 when the whole does.
int64_t bestRows(const MaskedAttention& attention) {
  SoftmaxOp softmax = attention.softmax;
  const int64_t batch = tensorOf(softmax.getX()).getNumElements() / (attention.rows * attention.keys);
  auto cost = [&](int64_t rows) {
    int64_t sum = 0;
    for (int64_t begin = 0; begin < attention.rows; begin += rows) {
      const int64_t end = std::min(begin + rows, attention.rows);
      const Keys keys = keysOf(attention, begin, end);
      sum += batch * (end - begin) * (keys.last - keys.first) + kBlockCost;
    }
    return sum;
  };
  int64_t best = 0, least = cost(attention.rows);
  for (int64_t rows = kLeastRows; rows < attention.rows; rows *= 2)
    if (const int64_t own = cost(rows); own < least) best = rows, least = own;
  return best;
}

/// Part [begin, end) of dim `fromEnd` (1: the last one) of a value; a dim of one is that of all parts.
Value part(OpBuilder& builder, Location loc, Value value, int64_t fromEnd, int64_t begin, int64_t end) {
  ArrayRef<int64_t> shape = shapeOf(value);
  const auto rank = static_cast<int64_t>(shape.size());
  if (fromEnd > rank || shape[rank - fromEnd] == 1 || end - begin == shape[rank - fromEnd]) return value;
  SmallVector<int64_t> starts(rank, 0), sizes(shape), steps(rank, 1);
  starts[rank - fromEnd] = begin, sizes[rank - fromEnd] = end - begin;
  return SliceOp::create(builder, loc, value, starts, sizes, steps, ArrayAttr(), ArrayAttr());
}

Value makeBlock(OpBuilder& builder, const MaskedAttention& attention, int64_t begin, int64_t end) {
  const Keys keys = keysOf(attention, begin, end);
  auto block = [&](Value value, Location loc) {
    return part(builder, loc, part(builder, loc, value, 2, begin, end), 1, keys.first, keys.last);
  };
  MatMulOp scores = attention.scores, result = attention.result;
  auto retyped = [&](Value like, int64_t rows, int64_t columns) {
    SmallVector<int64_t> shape(shapeOf(like));
    shape[shape.size() - 2] = rows, shape.back() = columns;
    return RankedTensorType::get(shape, tensorOf(like).getElementType());
  };
  auto make = [&](Operation* op, ArrayRef<Value> operands, RankedTensorType type) {
    OperationState state(op->getLoc(), op->getName());
    state.addAttributes(op->getAttrs());
    state.addOperands(operands);
    state.addTypes(type);
    return builder.create(state)->getResult(0);
  };
  const int64_t rows = end - begin, width = keys.last - keys.first;
  Value queries = part(builder, scores.getLoc(), scores.getLhs(), 2, begin, end);
  Value seen = part(builder, scores.getLoc(), scores.getRhs(), 1, keys.first, keys.last);
  Value before = scores.getResult();
  Value now = make(scores, {queries, seen}, retyped(before, rows, width));
  for (Operation* op : attention.between) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) operands.push_back(operand == before ? now : block(operand, op->getLoc()));
    before = op->getResult(0);
    now = make(op, operands, retyped(before, rows, width));
  }
  Value values = part(builder, result.getLoc(), result.getRhs(), 2, keys.first, keys.last);
  return make(result, {now, values}, retyped(result.getResult(), rows, shapeOf(result.getResult()).back()));
}

void split(const MaskedAttention& attention, int64_t rows) {
  MatMulOp result = attention.result;
  OpBuilder builder(result);
  SmallVector<Value> blocks;
  for (int64_t begin = 0; begin < attention.rows; begin += rows)
    blocks.push_back(makeBlock(builder, attention, begin, std::min(begin + rows, attention.rows)));
  const auto type = tensorOf(result.getResult());
  Value whole = ConcatOp::create(builder, result.getLoc(), type, blocks, type.getRank() - 2);
  result.getResult().replaceAllUsesWith(whole);
  result.erase();
  for (Operation* op : llvm::reverse(attention.between)) op->erase();
  attention.scores->erase();
}

struct SkipMaskedPass : PassWrapper<SkipMaskedPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SkipMaskedPass)
  StringRef getArgument() const final { return "hpu-skip-masked"; }
  StringRef getDescription() const final { return "Attentions in blocks of queries, over the keys that a mask leaves"; }
  void runOnOperation() override {
    SmallVector<SoftmaxOp> all;
    getOperation().walk([&](SoftmaxOp op) { all.push_back(op); });
    KnownMasks known;
    for (SoftmaxOp op : all)
      if (auto attention = matchAttention(op, known))
        if (const int64_t rows = bestRows(*attention); rows > 0) split(*attention, rows);
  }
};

}  // namespace

std::unique_ptr<Pass> createSkipMaskedPass() {
  return std::make_unique<SkipMaskedPass>();
}

}  // namespace hpu::normalize
