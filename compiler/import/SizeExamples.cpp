// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/SizeExamples.h"

#include <algorithm>
#include <optional>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

namespace {

/// A number by graph.
using Numbers = std::vector<int64_t>;

bool isConstant(const Numbers& numbers) {
  return llvm::all_equal(numbers);
}

/// Finds expressions for numbers.
class Guess {
 public:
  explicit Guess(const SizeExamples& examples) {
    for (const auto& [name, first] : examples.sizes.front()) {
      Numbers numbers;
      for (const auto& sizes : examples.sizes) numbers.push_back(sizes.at(name));
      symbols_.push_back({DimExpr::symbol(name), numbers});
      learn(symbols_.back().numbers, symbols_.back().expr);
    }
  }

  void learn(const Numbers& numbers, const DimExpr& expr) {
    if (known_.emplace(numbers, expr).second) order_.push_back({expr, numbers});
  }

  /// `near`: sizes of the op's operand, which come first. `mayDivide`: parts of sizes will do, as a guard asks launches
  /// for sizes of which there are such parts.
  std::optional<DimExpr> find(const Numbers& numbers, const std::vector<std::pair<DimExpr, Numbers>>& near,
                              bool mayDivide) const {
    if (isConstant(numbers)) return DimExpr(numbers.front());
    for (const auto& [expr, own] : near)
      if (own == numbers) return expr;
    if (auto found = known_.find(numbers); found != known_.end()) return found->second;
    // Products of the operand's dimensions that lie next to each other, as reshapes join them.
    for (size_t i = 0; i < near.size(); ++i) {
      std::optional<DimExpr> product = near[i].first;
      Numbers own = near[i].second;
      for (size_t j = i + 1; product && j < near.size(); ++j) {
        product = product->times(near[j].first);
        for (size_t k = 0; k < own.size(); ++k) own[k] *= near[j].second[k];
        if (product && own == numbers) return product;
      }
    }
    std::vector<Known> tried;
    for (const auto& [expr, own] : near)
      if (!isConstant(own)) tried.push_back({expr, own});
    tried.insert(tried.end(), symbols_.begin(), symbols_.end());
    for (size_t i = 0; i < order_.size() && i < kMostTried; ++i) tried.push_back(order_[i]);
    // What is left when all symbols that divide it are taken out.
    Numbers rest = numbers;
    DimExpr factor = 1;
    for (const Known& symbol : symbols_)
      while (divides(symbol.numbers, rest)) {
        for (size_t k = 0; k < rest.size(); ++k) rest[k] /= symbol.numbers[k];
        const std::optional<DimExpr> more = factor.times(symbol.expr);
        if (!more) return std::nullopt;
        factor = *more;
      }
    if (isConstant(rest)) return factor.times(rest.front());
    for (const Known& one : tried)
      if (const auto line = linear(rest, one, mayDivide)) return factor.times(*line);
    // A sum or a difference of two of them.
    for (const Known& one : symbols_)
      for (const int sign : {1, -1}) {
        Numbers left = numbers;
        for (size_t k = 0; k < left.size(); ++k) left[k] -= sign * one.numbers[k];
        const std::optional<DimExpr> own = one.expr.times(sign);
        for (const Known& other : symbols_)
          if (const auto line = linear(left, other, false); line && own) return line->plus(*own);
      }
    return std::nullopt;
  }

 private:
  struct Known {
    DimExpr expr;
    Numbers numbers;
  };
  static constexpr size_t kMostTried = 64;

  static bool divides(const Numbers& divisor, const Numbers& numbers) {
    bool isSized = false;
    for (size_t k = 0; k < numbers.size(); ++k) {
      if (divisor[k] == 0 || numbers[k] == 0 || numbers[k] % divisor[k] != 0) return false;
      isSized |= divisor[k] != 1;
    }
    return isSized;
  }

  /// a * expr + b, or (expr - b) / a. Examples do not tell how the latter is rounded where it leaves a remainder.
  static std::optional<DimExpr> linear(const Numbers& numbers, const Known& of, bool mayDivide) {
    size_t other = 1;
    while (other < numbers.size() && of.numbers[other] == of.numbers[0]) ++other;
    if (other == numbers.size()) return std::nullopt;
    const int64_t up = numbers[other] - numbers[0], along = of.numbers[other] - of.numbers[0];
    if (up == 0) return std::nullopt;
    auto fits = [&](int64_t a, const Numbers& to, const Numbers& from, int64_t& b) {
      b = to[0] - a * from[0];
      for (size_t k = 0; k < to.size(); ++k)
        if (to[k] != a * from[k] + b) return false;
      return true;
    };
    int64_t b = 0;
    if (up % along == 0 && fits(up / along, numbers, of.numbers, b)) {
      const std::optional<DimExpr> product = of.expr.times(up / along);
      return product ? product->plus(b) : std::nullopt;
    }
    if (mayDivide && along % up == 0 && along / up > 0 && fits(along / up, of.numbers, numbers, b)) {
      const std::optional<DimExpr> moved = of.expr.minus(b);
      return moved ? moved->floorDiv(along / up) : std::nullopt;
    }
    return std::nullopt;
  }

  std::vector<Known> symbols_;
  std::map<Numbers, DimExpr> known_;
  std::vector<Known> order_;  ///< As they were learnt.
};

class Freer {
 public:
  Freer(const std::vector<Graph*>& graphs, const SizeExamples& examples) : examples_(examples), guess_(examples) {
    for (Graph* graph : graphs) mains_.push_back(GraphAccess::impl(*graph).main());
  }

  Status run() {
    func::FuncOp main = mains_.front();
    MLIRContext* context = main.getContext();
    for (func::FuncOp each : mains_)
      if (each.getNumArguments() != main.getNumArguments()) return differs("the number of inputs");
    for (BlockArgument argument : main.getArguments()) {
      const unsigned i = argument.getArgNumber();
      SymShape shape = ir::symShape(ir::tensorOf(argument));
      for (size_t d = 0; d < shape.size(); ++d)
        if (const std::string& name = examples_.inputs[i][d]; !name.empty())
          shape[d] = ir::dimOf(context, DimExpr::symbol(name));
      std::vector<mlir::Value> others;
      for (func::FuncOp each : mains_) others.push_back(each.getArgument(i));
      HPU_RETURN_IF_ERROR(setType(strCat("input ", i), others, shape));
    }
    std::vector<Block::iterator> at;
    for (func::FuncOp each : mains_) at.push_back(each.getBody().front().begin());
    while (true) {
      std::vector<Operation*> ops;
      for (size_t k = 0; k < mains_.size(); ++k) {
        if (at[k] == mains_[k].getBody().front().end()) return differs("the number of ops");
        ops.push_back(&*at[k]++);
      }
      HPU_RETURN_IF_ERROR(sameOp(ops));
      if (ops.front()->hasTrait<OpTrait::IsTerminator>()) break;
      HPU_RETURN_IF_ERROR(visit(ops));
    }
    Operation* end = main.getBody().front().getTerminator();
    main.setType(FunctionType::get(context, main.getBody().getArgumentTypes(), end->getOperandTypes()));
    return okStatus();
  }

 private:
  static Status differs(const std::string& what) {
    return unimplemented(strCat(what, " depends on sizes that are given late"));
  }

  /// One op with the same operands in all graphs.
  Status sameOp(const std::vector<Operation*>& ops) {
    Operation* first = ops.front();
    for (size_t k = 1; k < ops.size(); ++k) {
      if (ops[k]->getName().getStringRef() != first->getName().getStringRef() ||
          ops[k]->getNumOperands() != first->getNumOperands() || ops[k]->getNumResults() != first->getNumResults() ||
          first->getNumRegions() != 0)
        return differs(strCat("which op follows ", ir::unitName(first)));
      for (auto [own, other] : llvm::zip(first->getOperands(), ops[k]->getOperands()))
        if (number(own) != number(other)) return differs(strCat("what ", ir::unitName(first), " reads"));
    }
    return okStatus();
  }

  /// Of a value, the same in all graphs.
  int64_t number(mlir::Value value) const {
    if (auto argument = dyn_cast<BlockArgument>(value)) return -1 - argument.getArgNumber();
    auto found = numbers_.find(value.getDefiningOp());
    return found == numbers_.end() ? INT64_MAX : found->second;
  }

  Status visit(const std::vector<Operation*>& ops) {
    for (Operation* op : ops) numbers_[op] = next_;
    ++next_;
    Operation* op = ops.front();
    if (isa<ir::ConstantOp>(op)) return constant(ops);
    // What setAttr replaces below is compared first.
    for (NamedAttribute each : op->getAttrs()) HPU_RETURN_IF_ERROR(attribute(ops, each.getName(), each.getValue()));
    auto infer = dyn_cast<InferTypeOpInterface>(op);
    if (!infer) return differs(strCat("the type of ", ir::unitName(op)));
    SmallVector<Type> types;
    ir::DiagnosticCapture capture(op->getContext());
    if (failed(infer.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(), op->getAttrDictionary(),
                                      op->getPropertiesStorage(), op->getRegions(), types)))
      return unimplemented(capture.status(StatusCode::kUnimplemented, "").message());
    for (auto [i, type] : llvm::enumerate(types)) {
      std::vector<mlir::Value> values;
      for (Operation* each : ops) values.push_back(each->getResult(static_cast<unsigned>(i)));
      HPU_RETURN_IF_ERROR(setType(ir::unitName(op), values, ir::symShape(cast<RankedTensorType>(type))));
    }
    return okStatus();
  }

  /// Its shape must be what the graphs have.
  Status setType(const std::string& where, const std::vector<mlir::Value>& values, const SymShape& shape) {
    for (auto [d, dim] : llvm::enumerate(shape)) {
      Numbers numbers;
      for (mlir::Value value : values) {
        const RankedTensorType type = sizes(value);
        if (type.getRank() != static_cast<int64_t>(shape.size())) return differs(strCat("the rank of ", where));
        numbers.push_back(type.getDimSize(static_cast<int64_t>(d)));
      }
      const std::optional<DimExpr> expr = ir::exprOf(dim);
      for (size_t k = 0; k < numbers.size(); ++k)
        if (!expr || expr->evaluate(examples_.sizes[k]) != numbers[k])
          return differs(strCat("how size ", d, " of ", where, " follows"));
      if (!expr->isConstant()) guess_.learn(numbers, *expr);
    }
    mlir::Value value = values.front();
    const RankedTensorType old = ir::tensorOf(value);
    sizes_.try_emplace(value, old);
    value.setType(ir::withOrder(ir::tensorType(shape, old.getElementType()), ir::physicalOrder(old)));
    return okStatus();
  }

  /// The type with the graph's own sizes.
  RankedTensorType sizes(mlir::Value value) const {
    auto found = sizes_.find(value);
    return found == sizes_.end() ? ir::tensorOf(value) : found->second;
  }

  Status constant(const std::vector<Operation*>& ops) {
    auto first = cast<ir::ConstantOp>(ops.front());
    HPU_ASSIGN(const interp::Tensor value, interp::tensorOf(first.getValue()));
    for (size_t k = 1; k < ops.size(); ++k) {
      HPU_ASSIGN(const interp::Tensor other, interp::tensorOf(cast<ir::ConstantOp>(ops[k]).getValue()));
      if (value.element() != other.element() || value.shape() != other.shape() ||
          !std::equal(value.data(), value.data() + value.bytes(), other.data()))
        return differs(strCat("the value of ", ir::unitName(ops.front())));
    }
    return okStatus();
  }

  static std::string text(mlir::Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    attribute.print(stream);
    return text;
  }

  Status attribute(const std::vector<Operation*>& ops, StringAttr name, mlir::Attribute value) {
    Operation* op = ops.front();
    const std::string where = strCat("the attribute ", name.str(), " of ", ir::unitName(op));
    auto own = dyn_cast<DenseI64ArrayAttr>(value);
    std::vector<DenseI64ArrayAttr> arrays;
    for (Operation* each : ops) {
      mlir::Attribute other = each->getAttr(name.getValue());
      if (!other) return differs(where);
      if (!own) {
        if (text(other) != text(value)) return differs(where);
        continue;
      }
      arrays.push_back(dyn_cast<DenseI64ArrayAttr>(other));
      if (!arrays.back() || arrays.back().size() != own.size()) return differs(where);
    }
    if (!own || llvm::all_of(arrays, [&](DenseI64ArrayAttr other) { return other.asArrayRef() == own.asArrayRef(); }))
      return okStatus();
    const bool isStart = isa<ir::SliceOp>(op) && name == "starts";
    const bool isSize = (isa<ir::SliceOp, ir::TopIndicesOp>(op) && name == "sizes") ||
                        (isa<ir::ReshapeOp, ir::ExpandOp>(op) && name == "shape");
    if (!isStart && !isSize) return differs(where);
    Builder b(op->getContext());
    SmallVector<int64_t> numbers(own.asArrayRef());
    SmallVector<mlir::Attribute> names(numbers.size(), b.getStringAttr(""));
    const auto near = nearSizes(ops);
    for (size_t i = 0; i < numbers.size(); ++i) {
      Numbers given;
      for (DenseI64ArrayAttr each : arrays) given.push_back(each[static_cast<int64_t>(i)]);
      const std::optional<DimExpr> expr = guess_.find(given, near, isa<ir::ReshapeOp>(op));
      if (!expr) return differs(where);
      if (expr->isConstant()) continue;
      numbers[i] = ShapedType::kDynamic;
      names[i] = b.getStringAttr(expr->text());
    }
    op->setAttr(name, b.getDenseI64ArrayAttr(numbers));
    op->setAttr(isStart ? "start_symbols" : "symbols", b.getArrayAttr(names));
    return okStatus();
  }

  /// Of operand 0.
  std::vector<std::pair<DimExpr, Numbers>> nearSizes(const std::vector<Operation*>& ops) const {
    std::vector<std::pair<DimExpr, Numbers>> near;
    const SymShape shape = ir::symShape(ir::tensorOf(ops.front()->getOperand(0)));
    for (auto [d, dim] : llvm::enumerate(shape)) {
      Numbers numbers;
      for (Operation* op : ops) numbers.push_back(sizes(op->getOperand(0)).getDimSize(static_cast<int64_t>(d)));
      if (const std::optional<DimExpr> expr = ir::exprOf(dim)) near.emplace_back(*expr, numbers);
    }
    return near;
  }

  const SizeExamples& examples_;
  Guess guess_;
  std::vector<func::FuncOp> mains_;
  llvm::DenseMap<Operation*, int64_t> numbers_;
  llvm::DenseMap<mlir::Value, RankedTensorType> sizes_;  ///< Of the first graph, what it was built with.
  int64_t next_ = 0;
};

}  // namespace

Status freeSizes(const std::vector<Graph*>& graphs, const SizeExamples& examples) {
  if (graphs.size() < 2 || graphs.size() != examples.sizes.size())
    return invalidArgument("sizes are freed by two or more examples, each with its sizes");
  return Freer(graphs, examples).run();
}

}  // namespace hpu::importer
