// SPDX-License-Identifier: Apache-2.0
// The pass hpu-order-dims: ops that treat their leading dims alike (elementwise, norms of rows, products with a matrix)
// compute in the order of dims that needs the fewest transposes around them.
//
// Such ops form regions, and a region can be relabelled as a whole: the transposes on its border take the permutation
// in, and those that become identities go. Everything else on the border (arguments, reshapes, other ops) needs a new
// transpose, so a region moves only when more go than come. Each step leaves fewer transposes, so the pass ends.
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/normalize/Constants.h"
#include "compiler/normalize/Passes.h"
#include "compiler/normalize/SplitOp.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hpu::ir;

namespace hpu::normalize {
namespace {

using Perm = SmallVector<int64_t>;

ArrayRef<int64_t> shapeOf(Value value) {
  return tensorOf(value).getShape();
}

/// The permutation of applying `first`, then `second`.
Perm composed(ArrayRef<int64_t> first, ArrayRef<int64_t> second) {
  Perm out;
  for (int64_t dim : second) out.push_back(first[dim]);
  return out;
}
Perm inverse(ArrayRef<int64_t> perm) {
  Perm out(perm.size());
  for (auto [i, dim] : llvm::enumerate(perm)) out[dim] = static_cast<int64_t>(i);
  return out;
}
bool isIdentity(ArrayRef<int64_t> perm) {
  return llvm::equal(perm, llvm::seq<int64_t>(0, perm.size()));
}
bool keepsLast(ArrayRef<int64_t> perm) {
  return perm.back() == static_cast<int64_t>(perm.size()) - 1;
}
/// `perm` of coarse dims as one of the fine dims that they are made of.
Perm lifted(ArrayRef<int64_t> perm, const DimGroups& groups) {
  Perm out;
  for (int64_t dim : perm)
    for (int64_t i = 0; i < groups.runs[dim].count; ++i) out.push_back(groups.runs[dim].first + i);
  return out;
}
SmallVector<int64_t> permuted(ArrayRef<int64_t> values, ArrayRef<int64_t> perm) {
  return composed(values, perm);
}

/// Whether all dims but the last are 1 or missing: the same for every row.
bool sameForRows(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return shape.empty() || llvm::all_of(shape.drop_back(), [](int64_t size) { return size == 1; });
}

/// Whether an operand's dims are those of the result, so that it is permuted with it.
bool isEdge(OpOperand& operand) {
  Operation* op = operand.getOwner();
  return isPointwise(op) ? !sameForRows(operand.get()) : operand.getOperandNumber() == 0;
}

/// An op that can be computed with its leading dims in any order.
bool isFree(Operation* op) {
  if (!isa_and_present<HpuOp>(op) || op->getNumResults() != 1) return false;
  auto isStatic = [](Value value) { return tensorOf(value).hasStaticShape(); };
  if (!llvm::all_of(op->getOperands(), isStatic) || !isStatic(op->getResult(0))) return false;
  const int64_t rank = tensorOf(op->getResult(0)).getRank();
  if (rank < 3) return false;
  if (auto matmul = dyn_cast<MatMulOp>(op))
    return tensorOf(matmul.getRhs()).getRank() == 2 && tensorOf(matmul.getLhs()).getRank() == rank;
  if (auto softmax = dyn_cast<SoftmaxOp>(op)) return static_cast<int64_t>(softmax.getAxis()) == rank - 1;
  if (auto softmax = dyn_cast<LogSoftmaxOp>(op)) return static_cast<int64_t>(softmax.getAxis()) == rank - 1;
  if (auto norm = dyn_cast<LayerNormOp>(op))
    return static_cast<int64_t>(norm.getAxis()) == rank - 1 &&
           llvm::all_of(norm->getOperands().drop_front(), [](Value v) { return tensorOf(v).getRank() <= 1; });
  if (auto slice = dyn_cast<SliceOp>(op)) return slice.isView();
  return isPointwise(op) && llvm::all_of(op->getOperands(), [&](Value value) {
           return sameForRows(value) || tensorOf(value).getRank() == rank;
         });
}

struct Region {
  llvm::SetVector<Operation*> ops;  ///< In program order.
  int64_t rank = 0;

  /// A transpose on the border, and how a permutation of the region's dims changes it.
  struct Border {
    TransposeOp transpose;
    std::optional<DimGroups> groups;  ///< Of a merge behind it (in) or a split ahead of it (out).
    bool in = false;
    bool shared = false;  ///< Something else reads it, too: it stays, whatever it becomes here.
  };
  SmallVector<Border> borders;
  int64_t others = 0;  ///< Values on the border that a permutation needs a new transpose for.

  Perm changed(const Border& border, ArrayRef<int64_t> perm) const {
    Perm own = border.groups ? lifted(perm, *border.groups) : Perm(perm);
    TransposeOp transpose = border.transpose;
    return border.in ? composed(transpose.getPerm(), own) : composed(inverse(own), transpose.getPerm());
  }
  /// Transposes that come less those that go.
  int64_t cost(ArrayRef<int64_t> perm) const {
    int64_t total = others;
    for (const Border& border : borders) total += border.shared - isIdentity(changed(border, perm));
    return total;
  }
};

/// The transpose below a merge of dims that only the region reads.
std::optional<DimGroups> mergeOfTranspose(ReshapeOp op) {
  auto transpose = op.getX().getDefiningOp<TransposeOp>();
  if (!transpose || !transpose->hasOneUse() || !tensorOf(op.getX()).hasStaticShape()) return std::nullopt;
  return splitOf(shapeOf(op), shapeOf(op.getX()));
}
/// A split of dims that is read by transposes only.
std::optional<DimGroups> splitForTransposes(ReshapeOp op) {
  if (op->use_empty() || !llvm::all_of(op->getUsers(), llvm::IsaPred<TransposeOp>)) return std::nullopt;
  if (!tensorOf(op).hasStaticShape()) return std::nullopt;
  return splitOf(shapeOf(op.getX()), shapeOf(op));
}

Region regionOf(Operation* seed) {
  Region region;
  region.rank = tensorOf(seed->getResult(0)).getRank();
  llvm::SetVector<Operation*> found;
  found.insert(seed);
  for (size_t i = 0; i < found.size(); ++i) {
    Operation* op = found[i];
    for (OpOperand& operand : op->getOpOperands())
      if (isEdge(operand) && isFree(operand.get().getDefiningOp())) found.insert(operand.get().getDefiningOp());
    for (OpOperand& use : op->getResult(0).getUses())
      if (isFree(use.getOwner()) && isEdge(use)) found.insert(use.getOwner());
  }
  SmallVector<Operation*> ordered = found.takeVector();
  llvm::sort(ordered, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  region.ops.insert(ordered.begin(), ordered.end());
  return region;
}

bool readInside(const Region& region, OpOperand& use) {
  return region.ops.contains(use.getOwner()) && isEdge(use);
}
bool readOnlyInside(const Region& region, Value value) {
  return llvm::all_of(value.getUses(), [&](OpOperand& use) { return readInside(region, use); });
}

/// Fills in what stands on the border; false when a transpose leads from the region into itself.
bool findBorders(Region& region) {
  llvm::SetVector<Value> sources;
  auto within = [&](Value value) { return value.getDefiningOp() && region.ops.contains(value.getDefiningOp()); };
  for (Operation* op : region.ops)
    for (OpOperand& operand : op->getOpOperands())
      if (isEdge(operand) && !within(operand.get())) sources.insert(operand.get());
  for (Value source : sources) {
    auto reshape = source.getDefiningOp<ReshapeOp>();
    std::optional<DimGroups> groups =
        reshape && readOnlyInside(region, source) ? mergeOfTranspose(reshape) : std::nullopt;
    auto transpose = (groups ? reshape.getX() : source).getDefiningOp<TransposeOp>();
    if (!transpose) {
      region.others += !constantOf(source);
      continue;
    }
    if (constantOf(transpose.getX())) continue;  // In any order at no cost, as other constants are.
    if (within(transpose.getX())) return false;
    region.borders.push_back({transpose, groups, true, !groups && !readOnlyInside(region, source)});
  }
  for (Operation* op : region.ops) {
    bool other = false;
    for (OpOperand& use : op->getResult(0).getUses()) {
      if (readInside(region, use)) continue;
      if (auto transpose = dyn_cast<TransposeOp>(use.getOwner())) {
        region.borders.push_back({transpose, std::nullopt, false, false});
        continue;
      }
      auto reshape = dyn_cast<ReshapeOp>(use.getOwner());
      std::optional<DimGroups> groups = reshape ? splitForTransposes(reshape) : std::nullopt;
      other |= !groups;
      if (!groups) continue;
      for (Operation* user : reshape->getUsers())
        region.borders.push_back({cast<TransposeOp>(user), groups, false, false});
    }
    region.others += other;
  }
  return true;
}

/// The permutation of the region's dims that saves most transposes; empty when none saves any.
Perm bestOrder(const Region& region) {
  Perm best;
  int64_t least = 0;
  for (const Region::Border& border : region.borders) {
    TransposeOp transpose = border.transpose;
    if (border.groups || !keepsLast(transpose.getPerm())) continue;
    Perm perm = border.in ? inverse(transpose.getPerm()) : Perm(transpose.getPerm());
    if (int64_t cost = region.cost(perm); cost < least) {
      least = cost;
      best = perm;
    }
  }
  return best;
}

class Relabelling {
 public:
  Relabelling(const Region& region, Perm perm) : region_(region), perm_(std::move(perm)), back_(inverse(perm_)) {}

  void run(OpBuilder& builder) {
    for (Operation* op : region_.ops) {
      builder.setInsertionPoint(op);
      inside_.map(op->getResult(0), rebuild(builder, op));
    }
    for (Operation* op : region_.ops) replaceOutside(builder, op->getResult(0));
    for (Operation* op : llvm::reverse(region_.ops)) op->erase();
  }

 private:
  Value rebuild(OpBuilder& builder, Operation* op) {
    OperationState state(op->getLoc(), op->getName());
    state.addAttributes(op->getAttrs());
    for (OpOperand& operand : op->getOpOperands())
      state.addOperands(isEdge(operand) ? entering(builder, op, operand.get()) : operand.get());
    if (auto slice = dyn_cast<SliceOp>(op)) {
      auto permute = [&](StringAttr name, ArrayRef<int64_t> values) {
        state.attributes.set(name, builder.getDenseI64ArrayAttr(permuted(values, perm_)));
      };
      permute(slice.getStartsAttrName(), slice.getStarts());
      permute(slice.getSizesAttrName(), slice.getSizes());
      permute(slice.getStepsAttrName(), slice.getSteps());
      for (StringAttr name : {slice.getSymbolsAttrName(), slice.getStartSymbolsAttrName()})
        if (auto symbols = op->getAttrOfType<ArrayAttr>(name)) {
          SmallVector<Attribute> moved;
          for (int64_t from : perm_) moved.push_back(symbols[from]);
          state.attributes.set(name, builder.getArrayAttr(moved));
        }
    }
    RankedTensorType type = tensorOf(op->getResult(0));
    state.addTypes(RankedTensorType::get(permuted(type.getShape(), perm_), type.getElementType()));
    return builder.create(state)->getResult(0);
  }

  /// The permuted value of an operand; transposes take the permutation in.
  Value entering(OpBuilder& builder, Operation* op, Value value) {
    if (Value mapped = inside_.lookupOrNull(value)) return mapped;
    Value result;
    auto reshape = value.getDefiningOp<ReshapeOp>();
    if (std::optional<DimGroups> groups = reshape ? mergeOfTranspose(reshape) : std::nullopt) {
      auto transpose = reshape.getX().getDefiningOp<TransposeOp>();
      Perm perm = composed(transpose.getPerm(), lifted(perm_, *groups));
      Value moved = TransposeOp::create(builder, transpose.getLoc(), transpose.getX(), perm);
      result = ReshapeOp::create(builder, reshape.getLoc(), moved, permuted(shapeOf(value), perm_), ArrayAttr());
    } else if (auto transpose = value.getDefiningOp<TransposeOp>()) {
      Perm perm = composed(transpose.getPerm(), perm_);
      result = transpose.getX();
      if (!isIdentity(perm)) result = TransposeOp::create(builder, transpose.getLoc(), result, perm);
    } else {
      result = TransposeOp::create(builder, op->getLoc(), value, perm_);
    }
    inside_.map(value, result);
    return result;
  }

  /// What reads a result outside of the region gets it in its old order.
  void replaceOutside(OpBuilder& builder, Value old) {
    Value now = inside_.lookup(old), restored;
    builder.setInsertionPointAfterValue(now);
    for (OpOperand& use : llvm::make_early_inc_range(old.getUses())) {
      if (readInside(region_, use)) continue;
      auto reshape = dyn_cast<ReshapeOp>(use.getOwner());
      if (std::optional<DimGroups> groups = reshape ? splitForTransposes(reshape) : std::nullopt) {
        Perm perm = lifted(perm_, *groups);
        Value split = ReshapeOp::create(builder, reshape.getLoc(), now, permuted(groups->shape, perm), ArrayAttr());
        Value same = TransposeOp::create(builder, reshape.getLoc(), split, inverse(perm));
        reshape.getResult().replaceAllUsesWith(same);
        reshape.erase();
        continue;
      }
      if (!restored) restored = TransposeOp::create(builder, old.getLoc(), now, back_);
      use.set(restored);
    }
  }

  const Region& region_;
  Perm perm_, back_;
  IRMapping inside_;
};

struct OrderDimsPass : PassWrapper<OrderDimsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OrderDimsPass)
  StringRef getArgument() const final { return "hpu-order-dims"; }
  StringRef getDescription() const final { return "Orders the leading dims of regions for the fewest transposes"; }
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    while (step(builder)) simplify();
  }

 private:
  bool step(OpBuilder& builder) {
    llvm::SmallPtrSet<Operation*, 32> seen;
    for (Operation& op : getOperation().getBody().front()) {
      if (seen.contains(&op) || !isFree(&op)) continue;
      Region region = regionOf(&op);
      seen.insert(region.ops.begin(), region.ops.end());
      if (!findBorders(region)) continue;
      Perm perm = bestOrder(region);
      if (perm.empty()) continue;
      Relabelling(region, perm).run(builder);
      return true;
    }
    return false;
  }

  /// Transposes of transposes become one, identities and dead ones go.
  void simplify() {
    Block& block = getOperation().getBody().front();
    OpBuilder builder(&getContext());
    for (Operation& op : llvm::make_early_inc_range(block)) {
      auto transpose = dyn_cast<TransposeOp>(op);
      if (!transpose) continue;
      if (auto below = transpose.getX().getDefiningOp<TransposeOp>()) {
        builder.setInsertionPoint(transpose);
        Value merged = TransposeOp::create(builder, fusedLoc(builder, {below, transpose}), below.getX(),
                                           composed(below.getPerm(), transpose.getPerm()));
        transpose.getResult().replaceAllUsesWith(merged);
        transpose.erase();
        transpose = merged.getDefiningOp<TransposeOp>();
      }
      if (isIdentity(transpose.getPerm())) {
        transpose.getResult().replaceAllUsesWith(transpose.getX());
        transpose.erase();
      }
    }
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op)) op.erase();
  }
};

}  // namespace

std::unique_ptr<Pass> createOrderDimsPass() {
  return std::make_unique<OrderDimsPass>();
}

}  // namespace hpu::normalize
