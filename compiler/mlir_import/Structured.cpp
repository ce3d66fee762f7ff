// SPDX-License-Identifier: Apache-2.0
// Structured ops of linalg, named or generic, by what all of them are: maps from loops to operands, the kind of each
// loop, and a body.
// The one thing to know: an operand becomes a tensor with one dimension for each loop (size 1 where its map leaves the
// loop out), so the body is elementwise with broadcasting; loops that are summed over become a reduction behind it, or
// a product on the MME where the body multiplies two operands.
#include <cmath>

#include "base/Format.h"
#include "compiler/mlir_import/MlirNode.h"
#include "llvm/ADT/SmallBitVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace hpu::importer {
namespace {

using base::strCat;
using llvm::SmallBitVector;
using mlir::AffineMap;
using mlir::linalg::LinalgOp;
using shape::DimExpr;

/// How a body joins what it computes with what was there.
struct Combiner {
  const char* op;
  const char* elementwise;
  const char* reduction;
  double neutral;
};

constexpr Combiner kCombiners[] = {
    {"arith.addf", "add", "reduce_sum", 0},
    {"arith.addi", "add", "reduce_sum", 0},
    {"arith.subf", "sub", "reduce_sum", 0},
    {"arith.subi", "sub", "reduce_sum", 0},
    {"arith.mulf", "mul", "reduce_prod", 1},
    {"arith.muli", "mul", "reduce_prod", 1},
    {"arith.maximumf", "max", "reduce_max", -INFINITY},
    {"arith.maxnumf", "max", "reduce_max", -INFINITY},
    {"arith.minimumf", "min", "reduce_min", INFINITY},
    {"arith.minnumf", "min", "reduce_min", INFINITY},
    {"arith.maxsi", "max", "reduce_max", NAN},
    {"arith.minsi", "min", "reduce_min", NAN},
    {"arith.ori", "or", "reduce_max", 0},
    {"arith.andi", "and", "reduce_min", 1},
};

class Structured {
 public:
  Structured(MlirNode& n, LinalgOp op) : n_(n), op_(op), loops_(op.getNumLoops()) {}

  void run() {
    if (!readMaps() || !bindSizes()) return;
    mlir::Block& body = *op_.getBlock();
    auto yield = body.getTerminator();
    for (unsigned k = 0; k < op_.getNumDpsInits(); ++k) {
      Value result =
          op_.getNumReductionLoops() == 0 ? pointwise(yield->getOperand(k), k) : reduction(yield->getOperand(k), k);
      if (n_.failed() || !result) return;
      ForeignValue made{.tensor = result};
      if (mlir::isa<mlir::linalg::FillOp>(op_.getOperation())) made.splat = n_.splat(op_->getOperand(0));
      if (k < op_->getNumResults()) n_.set(k, std::move(made));
    }
  }

 private:
  /// Which loop each dim of the operand is; -1: the constant 0.
  bool readMaps() {
    for (AffineMap map : op_.getIndexingMapsArray()) {
      Ints dims;
      SmallBitVector used(loops_);
      for (mlir::AffineExpr expr : map.getResults()) {
        auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expr);
        auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expr);
        if (constant && constant.getValue() == 0) {
          dims.push_back(-1);
          continue;
        }
        if (!loop || used.test(loop.getPosition())) {
          std::string text;
          llvm::raw_string_ostream(text) << map;
          n_.unsupported(strCat("the map ", text, ", which is no permutation of loops"));
          return false;
        }
        used.set(loop.getPosition());
        dims.push_back(loop.getPosition());
      }
      maps_.push_back(std::move(dims));
    }
    return true;
  }

  bool bindSizes() {
    sizes_.assign(loops_, ir::SymDim{-1});
    for (unsigned i = 0; i < op_->getNumOperands(); ++i) {
      if (maps_[i].empty()) continue;
      ir::SymShape shape;
      const Value source = op_->getOperand(i);
      const ForeignValue* known = n_.known(source);
      if (known && known->undefined) {
        shape = *known->undefined;
      } else if (Value v = n_.in(i)) {
        shape = n_.shape(v);
      } else {
        return false;
      }
      if (shape.size() != maps_[i].size()) return n_.invalid("a map that does not fit its operand"), false;
      for (size_t d = 0; d < shape.size(); ++d)
        if (maps_[i][d] >= 0 && (sizes_[maps_[i][d]].size == -1 || sizes_[maps_[i][d]].isFree()))
          sizes_[maps_[i][d]] = shape[d];
    }
    for (const ir::SymDim& size : sizes_)
      if (size.size == -1) return n_.unsupported("a loop that no operand runs along"), false;
    return true;
  }

  /// Operand `i` with one dimension for each loop.
  Value operand(unsigned i) {
    Value v = n_.in(i);
    if (!v) return {};
    if (maps_[i].empty() && n_.rank(v) == 0) return v;
    // Its dims in the order of the loops; those of the constant 0 (of size 1, or cut to it) go first.
    Ints perm;
    for (size_t d = 0; d < maps_[i].size(); ++d) {
      if (maps_[i][d] >= 0) continue;
      perm.push_back(static_cast<int64_t>(d));
      if (n_.typeOf(v).getDimSize(static_cast<unsigned>(d)) != 1)
        v = n_.node().sliceDim(v, static_cast<int64_t>(d), 0, 1);
    }
    for (int64_t loop = 0; loop < static_cast<int64_t>(loops_); ++loop)
      for (size_t d = 0; d < maps_[i].size(); ++d)
        if (maps_[i][d] == loop) perm.push_back(static_cast<int64_t>(d));
    v = n_.transpose(v, perm);
    if (!v) return {};
    ir::SymShape shape(loops_, ir::SymDim{1});
    const ir::SymShape own = n_.shape(v);
    const size_t fixed = perm.size() - llvm::count_if(maps_[i], [](int64_t loop) { return loop >= 0; });
    size_t next = fixed;
    for (size_t loop = 0; loop < loops_; ++loop)
      if (llvm::is_contained(maps_[i], static_cast<int64_t>(loop))) shape[loop] = own[next++];
    return n_.reshape(v, shape);
  }

  SmallBitVector loopsOf(Value scalar) {
    if (auto found = used_.find(scalar); found != used_.end()) return found->second;
    SmallBitVector used = findLoops(scalar);
    return used_[scalar] = used;
  }

  SmallBitVector findLoops(Value scalar) {
    SmallBitVector used(loops_);
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(scalar)) {
      if (argument.getOwner() == op_.getBlock())
        for (int64_t loop : maps_[argument.getArgNumber()])
          if (loop >= 0) used.set(loop);
      return used;
    }
    mlir::Operation* def = scalar.getDefiningOp();
    if (!def || def->getBlock() != op_.getBlock()) return used;
    if (auto index = mlir::dyn_cast<mlir::linalg::IndexOp>(def)) {
      used.set(index.getDim());
      return used;
    }
    for (Value operand : def->getOperands()) used |= loopsOf(operand);
    return used;
  }

  /// In the body, whose ops are in order.
  bool depends(Value scalar, Value on) {
    llvm::DenseSet<Value> reached{on};
    for (mlir::Operation& op : *op_.getBlock())
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return reached.contains(operand); }))
        for (Value result : op.getResults()) reached.insert(result);
    return reached.contains(scalar);
  }

  /// A scalar of the body as a tensor over the loops.
  Value evaluate(Value scalar) {
    if (n_.failed()) return {};
    if (auto found = made_.find(scalar); found != made_.end()) return found->second;
    Value value;
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(scalar);
    mlir::Operation* def = scalar.getDefiningOp();
    if (argument && argument.getOwner() == op_.getBlock()) {
      value = operand(argument.getArgNumber());
    } else if (!def || def->getBlock() != op_.getBlock()) {
      value = n_.tensorOf(scalar);
    } else if (auto index = mlir::dyn_cast<mlir::linalg::IndexOp>(def)) {
      ir::SymShape shape(loops_, ir::SymDim{1});
      shape[index.getDim()] = sizes_[index.getDim()];
      value = n_.reshape(n_.node().range({0}, sizes_[index.getDim()], 1, ElementType::kI64), shape);
    } else if (mlir::Attribute number; def->getName().getStringRef() == "arith.constant") {
      number = def->getAttr("value");
      mlir::Type type = scalar.getType();
      if (auto f = mlir::dyn_cast<mlir::FloatAttr>(number)) value = n_.node().scalar(type, f.getValueAsDouble());
      if (auto i = mlir::dyn_cast<mlir::IntegerAttr>(number))
        value =
            n_.node().scalar(type.isIndex() ? n_.i64() : type,
                             static_cast<double>(type.isInteger(1) ? static_cast<int64_t>(i.getValue().getZExtValue())
                                                                   : i.getValue().getSExtValue()));
    } else {
      std::vector<Value> operands;
      for (Value operand : def->getOperands()) operands.push_back(evaluate(operand));
      value = convertScalarOp(n_, *def, operands);
    }
    return made_[scalar] = value;
  }

  /// The tensor over loops (of which `left` remain) in the order of the result's dims.
  Value placed(Value v, unsigned output) {
    const Ints& map = maps_[op_.getNumDpsInputs() + output];
    ir::SymShape inner;
    Ints order;
    for (size_t loop = 0; loop < loops_; ++loop)
      if (llvm::is_contained(map, static_cast<int64_t>(loop)))
        order.push_back(static_cast<int64_t>(loop)), inner.push_back(sizes_[loop]);
    v = n_.expand(v, inner);
    Ints perm;
    ir::SymShape shape;
    for (int64_t loop : map) {
      shape.push_back(loop < 0 ? ir::SymDim{1} : sizes_[loop]);
      if (loop >= 0) perm.push_back(llvm::find(order, loop) - order.begin());
    }
    return n_.reshape(n_.transpose(v, perm), shape);
  }

  Value pointwise(Value yielded, unsigned output) {
    const Ints& map = maps_[op_.getNumDpsInputs() + output];
    if (llvm::count_if(map, [](int64_t loop) { return loop >= 0; }) != static_cast<int64_t>(loops_))
      return n_.unsupported("a result that leaves out loops it does not reduce"), Value();
    return placed(evaluate(yielded), output);
  }

  Value reduction(Value yielded, unsigned output) {
    mlir::Block& body = *op_.getBlock();
    const unsigned place = op_.getNumDpsInputs() + output;
    mlir::Operation* join = yielded.getDefiningOp();
    const Combiner* combiner = nullptr;
    if (join && join->getBlock() == &body && place < body.getNumArguments())
      for (const Combiner& one : kCombiners)
        if (join->getName().getStringRef() == one.op) combiner = &one;
    Value before = place < body.getNumArguments() ? Value(body.getArgument(place)) : Value();
    if (!combiner || join->getNumOperands() != 2)
      return n_.unsupported("a reduction by something else than a sum, difference, product, maximum, minimum, and, or"),
             Value();
    Value added = join->getOperand(0) == before ? join->getOperand(1) : join->getOperand(0);
    if ((join->getOperand(0) != before && join->getOperand(1) != before) || depends(added, before))
      return n_.unsupported("a reduction whose body reads what was there more than once"), Value();
    const bool isDifference = llvm::StringRef(combiner->elementwise) == "sub";
    if (isDifference && join->getOperand(0) != before)
      return n_.unsupported("a reduction that subtracts what was there, which depends on the order"), Value();
    const bool isLogical = getElementTypeOrSelf(added.getType()).isInteger(1);
    if ((llvm::StringRef(combiner->elementwise) == "or" || llvm::StringRef(combiner->elementwise) == "and") &&
        !isLogical)
      return n_.unsupported("a reduction by bitwise 'and', 'or'"), Value();
    if (isLogical && llvm::StringRef(combiner->op) != "arith.ori" && llvm::StringRef(combiner->op) != "arith.andi")
      return n_.unsupported(strCat("a reduction by '", combiner->op, "' of i1; 'arith.ori' and 'arith.andi' can")),
             Value();

    Value total = llvm::StringRef(combiner->reduction) == "reduce_sum" ? product(added, output) : Value();
    if (n_.failed()) return {};
    if (!total) total = reduced(evaluate(added), *combiner, output, isLogical);
    if (!total) return {};
    // What was there already, unless it changes nothing.
    const Value init = op_->getOperand(place);
    std::optional<double> start = n_.splat(init);
    if (start && *start == combiner->neutral && !isDifference) return total;
    return n_.op(combiner->elementwise, {n_.in(place), total});
  }

  bool isReduced(size_t loop) { return op_.getIteratorTypesArray()[loop] == mlir::utils::IteratorType::reduction; }

  Value reduced(Value v, const Combiner& combiner, unsigned output, bool isLogical) {
    if (!v) return {};
    if (n_.rank(v) == 0) v = n_.reshape(v, ir::SymShape(loops_, ir::SymDim{1}));
    ir::SymShape wide = n_.shape(v);
    Ints axes;
    for (size_t loop = 0; loop < loops_; ++loop)
      if (isReduced(loop)) axes.push_back(static_cast<int64_t>(loop)), wide[loop] = sizes_[loop];
    v = n_.expand(v, wide);
    if (isLogical) v = n_.cast(v, n_.i32());
    v = n_.op(combiner.reduction, v, {{"axes", axes}, {"keepdims", false}});
    if (isLogical) v = n_.cast(v, n_.i1());
    return placed(v, output);
  }

  /// The largest that a number of the body can be, by the types that it was widened from.
  double magnitude(Value scalar) {
    mlir::Operation* def = scalar.getDefiningOp();
    const llvm::StringRef name = def ? def->getName().getStringRef() : "";
    if (name == "arith.extsi") return std::ldexp(1.0, def->getOperand(0).getType().getIntOrFloatBitWidth() - 1);
    if (name == "arith.extui") return std::ldexp(1.0, def->getOperand(0).getType().getIntOrFloatBitWidth());
    if (name == "arith.subi" || name == "arith.addi")
      return magnitude(def->getOperand(0)) + magnitude(def->getOperand(1));
    if (!scalar.getType().isInteger()) return INFINITY;
    // A zero point is a scalar operand.
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(scalar); argument && argument.getOwner() == op_.getBlock())
      if (std::optional<double> number = n_.splat(op_->getOperand(argument.getArgNumber()))) return std::abs(*number);
    return std::ldexp(1.0, scalar.getType().getIntOrFloatBitWidth() - 1);
  }

  /// sum(a * b) as a product on the MME; null, without a failure, when it is none.
  Value product(Value added, unsigned output) {
    mlir::Operation* times = added.getDefiningOp();
    if (!times || times->getBlock() != op_.getBlock()) return {};
    const llvm::StringRef name = times->getName().getStringRef();
    const bool isFloat = name == "arith.mulf";
    if (!isFloat && name != "arith.muli") return {};
    Value sides[2] = {times->getOperand(0), times->getOperand(1)};
    SmallBitVector used[2] = {loopsOf(sides[0]), loopsOf(sides[1])};
    Ints batch, rows, columns, summed, own[2];
    for (size_t loop = 0; loop < loops_; ++loop) {
      const bool a = used[0].test(loop), b = used[1].test(loop), sums = isReduced(loop);
      const auto l = static_cast<int64_t>(loop);
      if (a && b) {
        (sums ? summed : batch).push_back(l);
      } else if (a || b) {
        if (sums)
          own[a ? 0 : 1].push_back(l);
        else
          (a ? rows : columns).push_back(l);
      } else {
        return {};
      }
    }
    if (summed.empty()) return {};
    const double most = isFloat ? 0 : magnitude(sides[0]) * magnitude(sides[1]);
    if (!isFloat && (!(most <= 16777216.0) || !own[0].empty() || !own[1].empty())) return {};
    Value v[2] = {evaluate(sides[0]), evaluate(sides[1])};
    if (!v[0] || !v[1]) return {};
    for (int s = 0; s < 2; ++s) {
      if (n_.rank(v[s]) == 0) return {};
      // A loop of an operand may still be one of size 1.
      ir::SymShape wide = n_.shape(v[s]);
      for (size_t loop = 0; loop < loops_; ++loop)
        if (used[s].test(loop)) wide[loop] = sizes_[loop];
      v[s] = n_.expand(v[s], wide);
      if (!own[s].empty()) v[s] = n_.op("reduce_sum", v[s], {{"axes", own[s]}});
      if (!isFloat) v[s] = n_.cast(v[s], n_.f32());
    }
    v[0] = grouped(v[0], batch, rows, summed);
    v[1] = grouped(v[1], batch, summed, columns);
    if (!v[0] || !v[1]) return {};
    Value y = isFloat ? n_.op("matmul", {v[0], v[1]}) : n_.cast(n_.exactMatmul(v[0], v[1], most), added.getType());
    if (!y) return {};
    // [batch..., rows..., columns...] to the order of the loops.
    ir::SymShape shape;
    Ints order;
    for (const Ints* group : {&batch, &rows, &columns})
      for (int64_t loop : *group) order.push_back(loop), shape.push_back(sizes_[loop]);
    y = n_.reshape(y, shape);
    Ints perm(order.size());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    llvm::sort(perm, [&](int64_t a, int64_t b) { return order[a] < order[b]; });
    return placed(n_.transpose(y, perm), output);
  }

  /// [batch..., product of a, product of b].
  Value grouped(Value v, const Ints& batch, const Ints& a, const Ints& b) {
    Ints perm;
    ir::SymShape shape;
    for (int64_t loop : batch) perm.push_back(loop), shape.push_back(sizes_[loop]);
    for (const Ints* group : {&a, &b}) {
      std::vector<Size> sizes;
      for (int64_t loop : *group) perm.push_back(loop), sizes.push_back(ir::exprOf(sizes_[loop]));
      shape.push_back(group->size() == 1 ? sizes_[(*group)[0]] : n_.dim(NodeContext::product(sizes)));
    }
    for (size_t loop = 0; loop < loops_; ++loop)
      if (!llvm::is_contained(perm, static_cast<int64_t>(loop))) perm.push_back(static_cast<int64_t>(loop));
    return n_.reshape(n_.transpose(v, perm), shape);
  }

  MlirNode& n_;
  LinalgOp op_;
  size_t loops_;
  std::vector<Ints> maps_;
  ir::SymShape sizes_;
  llvm::DenseMap<Value, Value> made_;
  llvm::DenseMap<Value, SmallBitVector> used_;
};

}  // namespace

bool convertStructured(MlirNode& node) {
  auto op = mlir::dyn_cast<LinalgOp>(&node.source());
  if (!op) return false;
  Structured(node, op).run();
  return true;
}

}  // namespace hpu::importer
