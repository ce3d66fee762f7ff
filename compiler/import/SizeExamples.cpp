// SPDX-License-Identifier: Apache-2.0
#include "hpu/size_examples.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/dialect/hpu/TensorOf.h"
#include "compiler/import/GraphImpl.h"
#include "compiler/import/SizeGuess.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/support/CreateOp.h"
#include "compiler/support/DiagnosticCapture.h"
#include "compiler/support/Units.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

namespace hpu {

using namespace mlir;
using base::strCat;
using importer::SizeGuess;
using ir::SymDim;
using ir::SymShape;
using shape::DimExpr;

namespace {

using Numbers = SizeGuess::Numbers;  // By graph.

class Freer {
 public:
  Freer(const std::vector<Graph*>& graphs, const SizeExamples& examples) : examples_(examples), guess_(examples.sizes) {
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
          shape[d] = ir::dimOf(context, DimExpr::parse(name));
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
    std::vector<interp::Tensor> values;
    bool isSame = true;
    for (Operation* op : ops) {
      HPU_ASSIGN(interp::Tensor value, interp::tensorOf(cast<ir::ConstantOp>(op).getValue()));
      values.push_back(std::move(value));
      const interp::Tensor &first = values.front(), &other = values.back();
      if (first.element() != other.element() || first.rank() != other.rank())
        return differs(strCat("the type of ", ir::unitName(op)));
      isSame = isSame && first.shape() == other.shape() &&
               std::equal(first.data(), first.data() + first.bytes(), other.data());
    }
    return isSame ? okStatus() : computed(ops, values);
  }

  /// What is known of the elements of a constant in all graphs: first + i * step along dimension `dim`.
  struct Line {
    Numbers firsts, steps;
    int64_t dim = -1;    ///< None: all elements are the same.
    int64_t whole = 1;   ///< Of floats: each is divided by this,
    double part = 0;     ///< or is this divided by the number.
    bool isSame = true;  ///< A number that no size changes: `part`, or `firsts`.
  };

  static std::optional<Line> lineOf(const std::vector<interp::Tensor>& values) {
    Line line;
    const bool isFloat = values.front().element() == ElementType::kF32;
    bool isUniform = true;
    for (const interp::Tensor& value : values)
      for (int64_t i = 1; i < value.count() && isUniform; ++i)
        isUniform = isFloat ? value.number(i) == value.number(0) : value.integer(i) == value.integer(0);
    for (const interp::Tensor& value : values)
      if (value.count() < 1) return std::nullopt;
    if (isFloat) {
      if (!isUniform) return std::nullopt;
      line.isSame =
          llvm::all_of(values, [&](const auto& value) { return value.number(0) == values.front().number(0); });
      if (line.isSame)
        line.part = values.front().number(0);
      else if (!whole(values, line.firsts, line.whole) && !fraction(values, line.firsts, line.part))
        return std::nullopt;
      line.steps.assign(values.size(), 0);
      return line;
    }
    for (const interp::Tensor& value : values) line.firsts.push_back(value.integer(0));
    line.isSame = llvm::all_equal(line.firsts);
    if (isUniform) {
      line.steps.assign(values.size(), 0);
      return line;
    }
    // All elements lie along one dim.
    line.isSame = false;
    for (const interp::Tensor& value : values) {
      for (int64_t d = 0; d < value.rank(); ++d) {
        if (value.shape()[static_cast<size_t>(d)] == 1) continue;
        if (line.dim >= 0 && line.dim != d) return std::nullopt;
        line.dim = d;
      }
      if (value.count() < 2) return std::nullopt;
      line.steps.push_back(value.integer(1) - value.integer(0));
      for (int64_t i = 1; i < value.count(); ++i)
        if (value.integer(i) != value.integer(0) + i * line.steps.back()) return std::nullopt;
    }
    return line;
  }

  /// A constant that depends on sizes as a range that does: counters, and numbers that are sizes or parts of one.
  Status computed(const std::vector<Operation*>& ops, const std::vector<interp::Tensor>& values) {
    Operation* op = ops.front();
    const Status failure = differs(strCat("the value of ", ir::unitName(op)));
    const ElementType element = values.front().element();
    const bool isFloat = element == ElementType::kF32;
    if (!isFloat && element != ElementType::kI32 && element != ElementType::kI64 && element != ElementType::kU32)
      return failure;
    std::optional<Line> line = lineOf(values);
    if (!line) return failure;
    std::vector<DimExpr> shape;
    for (int64_t d = 0; d < values.front().rank(); ++d) {
      Numbers sizes;
      for (const interp::Tensor& value : values) sizes.push_back(value.shape()[static_cast<size_t>(d)]);
      const std::optional<DimExpr> size = guess_.find(sizes, {}, false);
      if (!size) return failure;
      shape.push_back(*size);
    }

    OpBuilder b(op);
    auto dimOf = [&](const DimExpr& expr) { return expr.constant().value_or(ShapedType::kDynamic); };
    auto nameOf = [&](const DimExpr& expr) { return b.getStringAttr(expr.isConstant() ? std::string() : expr.text()); };
    auto attribute = [&](const char* name, mlir::Attribute value) { return b.getNamedAttr(name, value); };
    ir::DiagnosticCapture capture(op->getContext());
    auto make = [&](llvm::StringRef mnemonic, ValueRange operands, ArrayRef<NamedAttribute> attributes) -> mlir::Value {
      for (mlir::Value operand : operands)
        if (!operand) return {};
      FailureOr<Operation*> made = ir::createOp(b, op->getLoc(), mnemonic, operands, attributes);
      if (failed(made)) return {};
      for (Operation* each : ops) numbers_[*made] = numbers_[each];
      return (*made)->getResult(0);
    };
    const bool isCast = isFloat || element == ElementType::kU32;
    const Type type = ir::mlirElementType(op->getContext(), isCast ? ElementType::kI64 : element);
    auto range = [&](const DimExpr& start, const DimExpr& size, int64_t step) {
      return make("range", {},
                  {attribute("starts", b.getDenseI64ArrayAttr({dimOf(start)})),
                   attribute("sizes", b.getDenseI64ArrayAttr({dimOf(size)})),
                   attribute("steps", b.getDenseI64ArrayAttr({step})), attribute("element", TypeAttr::get(type)),
                   attribute("start_symbols", b.getArrayAttr({nameOf(start)})),
                   attribute("symbols", b.getArrayAttr({nameOf(size)}))});
    };
    auto sized = [&](llvm::StringRef mnemonic, mlir::Value value, ArrayRef<DimExpr> sizes) {
      SmallVector<int64_t> numbers;
      SmallVector<mlir::Attribute> names;
      for (const DimExpr& size : sizes) numbers.push_back(dimOf(size)), names.push_back(nameOf(size));
      return make(mnemonic, {value},
                  {attribute("shape", b.getDenseI64ArrayAttr(numbers)), attribute("symbols", b.getArrayAttr(names))});
    };
    const DimExpr count = line->dim >= 0 ? shape[static_cast<size_t>(line->dim)] : DimExpr(1);
    mlir::Value value;
    if (line->isSame && isFloat) {
      value = constantOf(b, ops, line->part);
    } else {
      const std::optional<DimExpr> step = guess_.find(line->steps, {}, false);
      std::optional<DimExpr> first = guess_.find(line->firsts, {}, false);
      // Half of an even number is whole, and the number follows from sizes where the half does not.
      for (; !first && isFloat && line->part == 0 && line->whole < 4; first = guess_.find(line->firsts, {}, false)) {
        line->whole *= 2;
        for (int64_t& number : line->firsts) number *= 2;
      }
      if (!first || !step) return failure;
      const std::optional<int64_t> number = step->constant();
      if (number)
        value = range(*first, count, *number == 0 ? 1 : *number);
      else
        value = make("add", {make("mul", {range(0, count, 1), range(*step, 1, 1)}, {}), range(*first, 1, 1)}, {});
      if (isCast) {
        const TypeAttr own = TypeAttr::get(ir::mlirElementType(op->getContext(), element));
        value = make("cast", {value}, {attribute("to", own)});
      }
      if (isFloat && line->part != 0) value = make("div", {constantOf(b, ops, line->part), value}, {});
      if (isFloat && line->whole != 1)
        value = make("mul", {value, constantOf(b, ops, 1.0 / static_cast<double>(line->whole))}, {});
    }
    // One dimension so far.
    std::vector<DimExpr> along(shape.size(), DimExpr(1));
    if (line->dim >= 0) along[static_cast<size_t>(line->dim)] = count;
    if (value && shape.size() != 1) value = sized("reshape", value, along);
    if (value && along != shape) value = sized("expand", value, shape);
    if (!value) return failure;
    sizes_[value] = ir::tensorOf(op->getResult(0));
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    std::vector<mlir::Value> results = {value};
    for (size_t k = 1; k < ops.size(); ++k) results.push_back(ops[k]->getResult(0));
    return setType("a constant", results, ir::symShape(ir::tensorOf(value)));
  }

  /// An f32 number of one dim, which stands where `ops` do.
  mlir::Value constantOf(OpBuilder& b, const std::vector<Operation*>& ops, double value) {
    const auto type = RankedTensorType::get({1}, b.getF32Type());
    OperationState state(ops.front()->getLoc(), "hpu.constant");
    state.addAttribute("value", DenseElementsAttr::get(type, static_cast<float>(value)));
    state.addTypes(type);
    Operation* made = b.create(state);
    for (Operation* each : ops) numbers_[made] = numbers_[each];
    return made->getResult(0);
  }

  /// Numbers without a fraction that floats hold exactly, or with halves or quarters: what they are times `parts`.
  static bool whole(const std::vector<interp::Tensor>& values, Numbers& numbers, int64_t& parts) {
    for (parts = 1; parts <= 4; parts *= 2) {
      numbers.clear();
      for (const interp::Tensor& value : values) {
        const double number = value.number(0) * static_cast<double>(parts);
        if (std::abs(number) > 1 << 24 || number != std::round(number)) break;
        numbers.push_back(static_cast<int64_t>(number));
      }
      if (numbers.size() == values.size()) return true;
    }
    parts = 1;
    return false;
  }

  /// Numbers that are all `part` divided by a whole one, as a mean's factor is.
  static bool fraction(const std::vector<interp::Tensor>& values, Numbers& divisors, double& part) {
    for (const double tried : {1.0, -1.0, 2.0, -2.0, 0.5, -0.5}) {
      divisors.clear();
      for (const interp::Tensor& value : values) {
        const double number = value.number(0), divisor = number == 0 ? 0 : std::round(tried / number);
        if (divisor < 1 || divisor > 1e9 || static_cast<float>(tried / divisor) != static_cast<float>(number)) break;
        divisors.push_back(static_cast<int64_t>(divisor));
      }
      if (divisors.size() != values.size() || llvm::all_equal(divisors)) continue;
      part = tried;
      return true;
    }
    return false;
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
  std::vector<SizeGuess::Known> nearSizes(const std::vector<Operation*>& ops) const {
    std::vector<SizeGuess::Known> near;
    const SymShape shape = ir::symShape(ir::tensorOf(ops.front()->getOperand(0)));
    for (auto [d, dim] : llvm::enumerate(shape)) {
      Numbers numbers;
      for (Operation* op : ops) numbers.push_back(sizes(op->getOperand(0)).getDimSize(static_cast<int64_t>(d)));
      if (const std::optional<DimExpr> expr = ir::exprOf(dim)) near.emplace_back(*expr, numbers);
    }
    return near;
  }

  const SizeExamples& examples_;
  SizeGuess guess_;
  std::vector<func::FuncOp> mains_;
  llvm::DenseMap<Operation*, int64_t> numbers_;
  llvm::DenseMap<mlir::Value, RankedTensorType> sizes_;  ///< Of the first graph, what it was built with.
  int64_t next_ = 0;
};

}  // namespace

Status freeSizes(const std::vector<Graph*>& graphs, const SizeExamples& examples, size_t /*examplesBytes*/) {
  if (graphs.size() < 2 || graphs.size() != examples.sizes.size())
    return invalidArgument("sizes are freed by two or more examples, each with its sizes");
  std::vector<std::vector<TensorInfo>> inputs;
  for (Graph* graph : graphs) {
    if (!graph) return invalidArgument("an example is null");
    inputs.push_back(graph->inputs());
    if (inputs.back().size() != examples.inputs.size())
      return invalidArgument(strCat("an example has ", inputs.back().size(), " inputs, and dimensions of ",
                                    examples.inputs.size(), " are named"));
  }
  for (size_t k = 0; k < graphs.size(); ++k)
    for (size_t i = 0; i < inputs[k].size(); ++i) {
      const Shape& shape = inputs[k][i].type.shape;
      const std::vector<std::string>& names = examples.inputs[i];
      if (shape.size() != names.size())
        return invalidArgument(strCat("input ", i, " of example ", k, " has ", shape.size(), " dimensions, and ",
                                      names.size(), " are named"));
      for (size_t d = 0; d < shape.size(); ++d) {
        const int64_t said = names[d].empty() ? inputs[0][i].type.shape[d]
                                              : DimExpr::parse(names[d]).evaluate(examples.sizes[k]).value_or(-1);
        if (shape[d] != said)
          return invalidArgument(strCat("size ", d, " of input ", i, " of example ", k, " is ", shape[d],
                                        ", which is not what '", names[d], "' is said to be"));
      }
    }
  return Freer(graphs, examples).run();
}

}  // namespace hpu
