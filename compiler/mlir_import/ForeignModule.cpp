// SPDX-License-Identifier: Apache-2.0
#include "compiler/mlir_import/ForeignModule.h"

#include <deque>

#include "base/Clip.h"
#include "base/Format.h"
#include "base/StatusMacros.h"
#include "compiler/dialect/sched/SchedOps.h"
#include "compiler/import/DeviceFlow.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/mlir_import/MlirNode.h"
#include "compiler/support/CreateOp.h"
#include "compiler/support/DiagnosticCapture.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/IR/Verifier.h"
#include "recipe/Recipe.h"

namespace hpu::importer {

using namespace mlir;
using base::strCat;
using shape::DimExpr;

void allowForeignDialects(MLIRContext& context) {
  DialectRegistry registry;
  registry.insert<tosa::TosaDialect, linalg::LinalgDialect, tensor::TensorDialect, arith::ArithDialect,
                  math::MathDialect>();
  context.appendDialectRegistry(registry);
}

bool isForeign(ModuleOp module) {
  return module
      ->walk([](Operation* op) {
        const StringRef dialect = op->getName().getDialectNamespace();
        return llvm::is_contained(ArrayRef<StringRef>{"tosa", "linalg", "tensor", "arith", "math"}, dialect)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

const ForeignRow* findForeignRow(StringRef op) {
  for (ArrayRef<ForeignRow> rows :
       {tosaElementwiseRows(), tosaTensorRows(), tosaWindowRows(), tosaShapeRows(), linalgWindowRows(), tensorRows()})
    for (const ForeignRow& row : rows)
      if (op == row.op) return &row;
  return nullptr;
}

namespace {

constexpr int kDeepestCall = 64;
constexpr int kMostOps = 1 << 20;  // Calls of calls would be without end.

class ForeignImporter {
 public:
  ForeignImporter(ModuleOp source, const std::string& path)
      : source_(source), path_(path), context_(*source.getContext()), builder_(&context_) {}
  /// For functions that become part of another module, where `builder` is; its ops are those of the node `origin`.
  ForeignImporter(ModuleOp source, const std::string& path, const OpBuilder& builder, const NodeDef& origin)
      : source_(source), path_(path), context_(*source.getContext()), builder_(builder), origin_(&origin) {}

  std::vector<Value> place(func::FuncOp function, const std::vector<ForeignValue>& arguments,
                           std::vector<Issue>& issues) {
    for (auto [argument, value] : llvm::zip(function.getArguments(), arguments)) values_[argument] = value;
    std::vector<ForeignValue> results;
    convertBlock(function.getBody().front(), results, 0);
    issues = std::move(issues_);
    std::vector<Value> values;
    for (const ForeignValue& result : results) values.push_back(result.tensor);
    return values;
  }

  StatusOr<OwningModule> run() {
    HPU_ASSIGN(func::FuncOp from, entry());
    OwningModule module = ModuleOp::create(source_.getLoc());
    builder_.setInsertionPointToEnd(module->getBody());
    HPU_ASSIGN(func::FuncOp main, addMain(from));
    std::vector<ForeignValue> results;
    for (auto [argument, value] : llvm::zip(from.getArguments(), main.getArguments()))
      values_[argument] = ForeignValue{.tensor = value};
    convertBlock(from.getBody().front(), results, 0);
    if (!issues_.empty()) return failure();
    SmallVector<Value> returned;
    for (ForeignValue& result : results) returned.push_back(result.tensor);
    func::ReturnOp::create(builder_, from.getLoc(), returned);
    main.setType(builder_.getFunctionType(main.getArgumentTypes(), ValueRange(returned).getTypes()));
    for (unsigned i = 0; i < from.getNumResults(); ++i)
      if (mlir::Attribute name = from.getResultAttr(i, "hpu.name")) main.setResultAttr(i, "hpu.name", name);
    removeDeadOps(main);
    ir::DiagnosticCapture capture(&context_);
    if (failed(verify(*module)))
      return capture.status(StatusCode::kInternal, strCat("'", path_, "': the importer made an invalid module"));
    return module;
  }

 private:
  StatusOr<func::FuncOp> entry() {
    func::FuncOp main, only;
    int count = 0;
    for (func::FuncOp function : source_.getOps<func::FuncOp>()) {
      if (function.getName() == "main") main = function;
      if (function.isPublic() && !function.isExternal()) only = function, ++count;
    }
    if (!main && count == 1) main = only;
    if (!main || main.isExternal() || !main.getBody().hasOneBlock())
      return invalidArgument(strCat("'", path_, "': needs a function @main with one block"));
    return main;
  }

  StatusOr<func::FuncOp> addMain(func::FuncOp from) {
    SmallVector<Type> types;
    SmallVector<mlir::Attribute> names;
    for (unsigned i = 0; i < from.getNumArguments(); ++i) {
      auto name = from.getArgAttrOfType<StringAttr>(i, "hpu.name");
      if (!name) name = builder_.getStringAttr("input" + Twine(i));
      auto dims = from.getArgAttrOfType<ArrayAttr>(i, "hpu.dims");
      auto type = dyn_cast<RankedTensorType>(from.getArgumentTypes()[i]);
      if (!type) return invalidArgument(strCat("'", path_, "': argument ", i, " of @main is no ranked tensor"));
      if (ir::elementType(type.getElementType()) == ElementType::kInvalid)
        return unimplemented(strCat("'", path_, "': argument ", i, " of @main has the type ", textOf(type)));
      ir::SymShape shape = ir::symShape(type);
      for (unsigned d = 0; d < shape.size(); ++d) {
        if (!shape[d].isFree() || shape[d].isNamed()) continue;
        auto given = dims && d < dims.size() ? dyn_cast<StringAttr>(dims[d]) : StringAttr();
        shape[d].symbol = given && !given.empty() ? given : builder_.getStringAttr(name.getValue() + "_dim" + Twine(d));
      }
      types.push_back(ir::tensorType(shape, type.getElementType()));
      names.push_back(name);
    }
    auto main = func::FuncOp::create(builder_, from.getLoc(), "main", builder_.getFunctionType(types, {}));
    builder_.setInsertionPointToStart(main.addEntryBlock());
    for (unsigned i = 0; i < names.size(); ++i) main.setArgAttr(i, "hpu.name", names[i]);
    return main;
  }

  static std::string textOf(Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  }

  void report(Operation& op, Issue::Kind kind, std::string reason) {
    issues_.push_back({kind, ir::locationText(op.getLoc()), op.getName().getStringRef().str(), {}, std::move(reason)});
  }

  void poison(Operation& op) {
    for (Value result : op.getResults()) values_[result].poisoned = true;
  }

  void convertBlock(Block& block, std::vector<ForeignValue>& results, int depth) {
    for (Operation& op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        for (Value operand : op.getOperands()) results.push_back(resultOf(op, operand));
        return;
      }
      if (llvm::any_of(op.getOperands(), [&](Value operand) { return values_.lookup(operand).poisoned; })) {
        // What is unsupported whatever it reads is said, too.
        if (!isKnown(op)) report(op, Issue::Kind::kUnsupported, unknownReason(op));
        poison(op);
        continue;
      }
      if (++converted_ > kMostOps) {
        if (converted_ == kMostOps + 1) report(op, Issue::Kind::kUnsupported, "a model of so many ops");
        poison(op);
        continue;
      }
      convert(op, depth);
    }
  }

  ForeignValue resultOf(Operation& op, Value operand) {
    ForeignValue value = values_.lookup(operand);
    if (value.poisoned || value.tensor) return value;
    NodeDef def = nodeOf(op);
    NodeContext node(builder_, def, 0, {}, {}, false);
    MlirNode foreign(op, node, values_);
    value.tensor = foreign.tensorOf(operand);
    if (node.failed()) report(op, node.issue()->kind, node.issue()->reason);
    return value;
  }

  bool isKnown(Operation& op) {
    const StringRef name = op.getName().getStringRef();
    return findForeignRow(name) || isScalarOp(op) || name == "tosa.const" || name == "arith.constant" ||
           isa<linalg::LinalgOp>(op) || isa<func::CallOp>(op) || isFlow(op) ||
           (name.starts_with("hpu.") && op.getNumRegions() == 0);
  }

  static bool isFlow(Operation& op) {
    const StringRef name = op.getName().getStringRef();
    return (name == "tosa.cond_if" || name == "tosa.while_loop") && op.getNumRegions() == 2 &&
           op.getRegion(0).hasOneBlock() && op.getRegion(1).hasOneBlock();
  }

  std::string unknownReason(Operation& op) {
    const StringRef name = op.getName().getStringRef();
    if (name == "tosa.custom")
      return strCat("the custom op '", textOf(op.getInherentAttr("operator_name")), "' is not known");
    return "this op is not supported";
  }

  static std::string textOf(std::optional<mlir::Attribute> attribute) {
    auto text = dyn_cast_or_null<StringAttr>(attribute.value_or(mlir::Attribute()));
    return text ? text.getValue().str() : std::string();
  }

  NodeDef nodeOf(Operation& op) {
    NodeDef def;
    def.name = ir::locationText(op.getLoc());
    def.op = op.getName().getStringRef().str();
    if (def.name.empty()) def.name = strCat(def.op, "_", count_);
    if (origin_) def.name = origin_->name, def.op = strCat(origin_->domain, ".", origin_->op);
    ++count_;
    def.outputs.assign(op.getNumResults(), "");
    for (unsigned i = 0; i < op.getNumResults(); ++i) def.outputs[i] = strCat(def.name, ".", i);
    return def;
  }

  void call(func::CallOp op, int depth) {
    auto callee = source_.lookupSymbol<func::FuncOp>(op.getCallee());
    std::vector<ForeignValue> results;
    if (converted_ > kMostOps) return poison(*op);
    if (!callee || callee.isExternal() || !callee.getBody().hasOneBlock() || depth == kDeepestCall) {
      report(*op, Issue::Kind::kUnsupported,
             strCat("a call of '", op.getCallee().str(), "', which has no body of one block, or calls itself"));
      return poison(*op);
    }
    for (auto [argument, operand] : llvm::zip(callee.getArguments(), op.getOperands()))
      values_[argument] = ForeignValue(values_.lookup(operand));
    convertBlock(callee.getBody().front(), results, depth + 1);
    for (auto [result, value] : llvm::zip(op.getResults(), results)) values_[result] = value;
  }

  /// The block with these arguments; nothing after an issue, or where something has no known size.
  std::optional<SmallVector<Value>> runBlock(Operation& op, Block& block, ArrayRef<Value> arguments, int depth) {
    if (depth >= kDeepestCall) {
      report(op, Issue::Kind::kUnsupported, "control flow of this depth");
      return std::nullopt;
    }
    const size_t before = issues_.size();
    for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
      values_[argument] = ForeignValue{.tensor = value};
    std::vector<ForeignValue> made;
    convertBlock(block, made, depth + 1);
    SmallVector<Value> results;
    for (const ForeignValue& each : made)
      if (each.tensor) results.push_back(each.tensor);
    if (issues_.size() != before || results.size() != made.size()) return std::nullopt;
    return results;
  }

  static bool isStatic(ValueRange values) {
    return llvm::all_of(values.getTypes(), [](Type type) { return cast<RankedTensorType>(type).hasStaticShape(); });
  }

  std::optional<SmallVector<Value>> operandsOf(Operation& op) {
    SmallVector<Value> operands;
    for (Value operand : op.getOperands()) operands.push_back(resultOf(op, operand).tensor);
    if (llvm::all_of(operands, [](Value value) { return value != nullptr; }) && isStatic(operands)) return operands;
    refuseFree(op);
    return std::nullopt;
  }
  void refuseFree(Operation& op) {
    report(op, Issue::Kind::kUnsupported, "loops and branches of the device on values without a known size");
  }

  /// A bool of one element, of rank 0; null after an issue.
  Value conditionOf(Operation& op, Value value) {
    const RankedTensorType type = NodeContext::typeOf(value);
    if (!type.getElementType().isInteger(1) || type.getNumElements() != 1) {
      report(op, Issue::Kind::kInvalid, strCat("a condition of type ", ir::typeToString(type)));
      return {};
    }
    if (type.getRank() == 0) return value;
    FailureOr<Operation*> made = ir::createOp(builder_, op.getLoc(), "reshape", {value},
                                              {builder_.getNamedAttr("shape", builder_.getDenseI64ArrayAttr({}))});
    return succeeded(made) ? (*made)->getResult(0) : Value();
  }

  /// tosa.cond_if and tosa.while_loop, which the device runs.
  void flow(Operation& op, int depth) {
    std::optional<SmallVector<Value>> made;
    if (std::optional<SmallVector<Value>> operands = operandsOf(op))
      made = op.getName().getStringRef() == "tosa.cond_if" ? branch(op, *operands, depth) : loop(op, *operands, depth);
    if (!made) return poison(op);
    for (auto [result, value] : llvm::zip(op.getResults(), *made)) values_[result] = ForeignValue{.tensor = value};
  }

  std::optional<SmallVector<Value>> branch(Operation& op, ArrayRef<Value> operands, int depth) {
    Value holds = conditionOf(op, operands.front());
    if (!holds) return std::nullopt;
    FlowBody then(builder_);
    std::optional<SmallVector<Value>> first = runBlock(op, op.getRegion(0).front(), operands.drop_front(), depth);
    if (!first) return std::nullopt;
    then.yield(*first);
    then.leave();
    FlowBody otherwise(builder_);
    std::optional<SmallVector<Value>> second = runBlock(op, op.getRegion(1).front(), operands.drop_front(), depth);
    if (!second) return std::nullopt;
    otherwise.yield(*second);
    otherwise.leave();
    if (ValueRange(*first).getTypes() != ValueRange(*second).getTypes() || !then.isStatic() || !otherwise.isStatic())
      return refuseFree(op), std::nullopt;
    return makeIf(builder_, op.getLoc(), holds, then, otherwise);
  }

  std::optional<SmallVector<Value>> loop(Operation& op, ArrayRef<Value> operands, int depth) {
    Block &condition = op.getRegion(0).front(), &body = op.getRegion(1).front();
    std::optional<SmallVector<Value>> first = runBlock(op, condition, operands, depth);
    if (!first || first->size() != 1) return std::nullopt;
    LoopSpec spec;
    spec.trips = static_cast<int64_t>(recipe::kMaxPartTrips);
    spec.condition = conditionOf(op, first->front());
    if (!spec.condition) return std::nullopt;
    spec.carried.assign(operands.begin(), operands.end());
    FlowBody inside(builder_);
    SmallVector<Value> arguments;
    for (Value operand : operands) arguments.push_back(inside.addArgument(operand.getType()));
    std::optional<SmallVector<Value>> next = runBlock(op, body, arguments, depth);
    if (!next) return std::nullopt;
    std::optional<SmallVector<Value>> last = runBlock(op, condition, *next, depth);
    if (!last || last->size() != 1) return std::nullopt;
    SmallVector<Value> yielded = {conditionOf(op, last->front())};
    if (!yielded.front()) return std::nullopt;
    yielded.append(*next);
    inside.yield(yielded);
    inside.leave();
    if (ValueRange(*next).getTypes() != ValueRange(operands).getTypes() || !inside.isStatic())
      return refuseFree(op), std::nullopt;
    return makeLoop(builder_, op.getLoc(), std::move(spec), inside);
  }

  void convert(Operation& op, int depth) {
    if (isFlow(op)) return flow(op, depth);
    if (auto called = dyn_cast<func::CallOp>(op)) return call(called, depth);
    if (!isKnown(op)) {
      report(op, Issue::Kind::kUnsupported, unknownReason(op));
      return poison(op);
    }
    nodes_.push_back(nodeOf(op));
    NodeContext node(builder_, nodes_.back(), 0, {}, std::vector<bool>(op.getNumResults(), true), false);
    MlirNode foreign(op, node, values_);
    ir::DiagnosticCapture capture(&context_);
    emit(op, foreign);
    if (!node.failed()) check(foreign);
    if (node.failed()) {
      report(op, node.issue()->kind, node.issue()->reason);
      return poison(op);
    }
    for (unsigned i = 0; i < op.getNumResults(); ++i) values_[op.getResult(i)] = foreign.results()[i];
  }

  void emit(Operation& op, MlirNode& node) {
    const StringRef name = op.getName().getStringRef();
    if (name == "tosa.const" || name == "arith.constant") return constant(op, node);
    if (const ForeignRow* row = findForeignRow(name)) return row->convert(node);
    if (isScalarOp(op)) return scalar(op, node);
    if (name.starts_with("hpu.")) return copy(op, node);
    if (!convertStructured(node)) node.unsupported("this op is not supported");
  }

  /// An op of ours between theirs.
  void copy(Operation& op, MlirNode& node) {
    SmallVector<Value> operands;
    for (size_t i = 0; i < node.numOperands(); ++i) operands.push_back(node.in(i));
    if (node.failed()) return;
    OperationState state(node.node().location(), op.getName());
    state.addOperands(operands);
    state.addAttributes(op.getAttrs());
    if (op.getName().getStringRef() == "hpu.constant") {
      state.addTypes(op.getResultTypes());
      return node.set(0, builder_.create(state)->getResult(0));
    }
    FailureOr<Operation*> made =
        ir::createCheckedOp(builder_, node.node().location(), op.getName().stripDialect(), operands, op.getAttrs());
    if (failed(made)) return node.invalid("an op that does not fit its operands");
    for (unsigned i = 0; i < op.getNumResults(); ++i) node.set(i, (*made)->getResult(i));
  }

  void constant(Operation& op, MlirNode& node) {
    mlir::Attribute value = node.attribute(op.getName().getStringRef() == "tosa.const" ? "values" : "value");
    const Type type = op.getResult(0).getType();
    if (auto integer = dyn_cast<IntegerAttr>(value); integer && type.isIndex())
      return node.setSizes(0, {DimExpr(integer.getInt())});
    ForeignValue made;
    if (auto number = dyn_cast<FloatAttr>(value)) {
      made.splat = number.getValueAsDouble();
      made.tensor = node.node().scalar(type, *made.splat);
    } else if (auto integer = dyn_cast<IntegerAttr>(value)) {
      if (ir::elementType(type) == ElementType::kInvalid)
        return node.unsupported(strCat("a constant of type ", textOf(type)));
      const APInt bits = integer.getValue();
      made.splat =
          static_cast<double>(type.isInteger(1) ? static_cast<int64_t>(bits.getZExtValue()) : bits.getSExtValue());
      // Not by the way of a double, which has no 64 bits.
      interp::Tensor wide = interp::Tensor::of<int64_t>(ElementType::kI64, {}, {static_cast<int64_t>(*made.splat)});
      if (bits.getBitWidth() == 64) {
        wide = interp::Tensor::of<int64_t>(ElementType::kI64, {}, {bits.getSExtValue()});
        made.tensor = node.node().constantTensor(wide);
      } else {
        made.tensor = node.node().scalar(type, *made.splat);
      }
    } else if (auto elements = dyn_cast<ElementsAttr>(value)) {
      StatusOr<interp::Tensor> tensor = interp::tensorOf(elements);
      if (!tensor.ok()) return node.unsupported(std::string(tensor.status().message()));
      if (auto dense = dyn_cast<DenseElementsAttr>(value); dense && dense.isSplat() && tensor->count() > 0)
        made.splat = tensor->number(0);
      made.tensor = node.node().constantTensor(*tensor);
    } else {
      return node.unsupported("this kind of constant");
    }
    node.set(0, std::move(made));
  }

  /// An op of arith or math on tensors, or on indices.
  void scalar(Operation& op, MlirNode& node) {
    if (op.getNumResults() == 1 && op.getResult(0).getType().isIndex() && op.getNumOperands() == 2) {
      std::optional<Sizes> a = node.sizes(op.getOperand(0)), b = node.sizes(op.getOperand(1));
      if (!a || !b || !(*a)[0] || !(*b)[0]) return node.unsupported("arithmetic of indices that are not known");
      const DimExpr &x = *(*a)[0], &y = *(*b)[0];
      const StringRef name = op.getName().stripDialect();
      Size size = name == "addi"                         ? x.plus(y)
                  : name == "subi"                       ? x.minus(y)
                  : name == "muli"                       ? x.times(y)
                  : name == "maxsi"                      ? DimExpr::max(x, y)
                  : name == "minsi"                      ? DimExpr::min(x, y)
                  : (name == "divsi" || name == "divui") ? x.floorDiv(y)
                  : (name == "remsi" || name == "remui") ? x.mod(y)
                                                         : std::nullopt;
      if (!size) return node.unsupported("this arithmetic of indices");
      return node.setSizes(0, {size});
    }
    SmallVector<Value> operands;
    for (size_t i = 0; i < node.numOperands(); ++i) operands.push_back(node.in(i));
    if (!node.failed()) node.set(0, convertScalarOp(node, op, operands));
  }

  /// What was made has the type that the file declares.
  void check(MlirNode& node) {
    for (unsigned i = 0; i < node.source().getNumResults(); ++i) {
      const ForeignValue& made = node.results()[i];
      if (!made.tensor) {
        if (!made.sizes && !made.undefined) node.unsupported("a result that could not be made");
        continue;
      }
      auto have = NodeContext::typeOf(made.tensor);
      const Type declared = node.source().getResult(i).getType();
      const bool isSame =
          have.getElementType() == getElementTypeOrSelf(declared) || getElementTypeOrSelf(declared).isIndex();
      auto ranked = dyn_cast<RankedTensorType>(declared);
      const bool fits = !ranked || succeeded(verifyCompatibleShape(have.getShape(), ranked.getShape()));
      if (!isSame || !fits)
        node.unsupported(strCat("a result declared as ", textOf(declared), " that would be ", ir::typeToString(have)));
    }
  }

  static void removeDeadOps(func::FuncOp main) {
    for (Operation& op : llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
      if (!op.hasTrait<OpTrait::IsTerminator>() && op.use_empty()) op.erase();
  }

  Status failure() const {
    constexpr size_t kMostIssues = 200;
    bool isUnsupported = false, isFree = false;
    std::string lines;
    for (size_t i = 0; i < issues_.size(); ++i) {
      const Issue& issue = issues_[i];
      isUnsupported |= issue.kind == Issue::Kind::kUnsupported;
      isFree |= issue.kind == Issue::Kind::kFreeDimension;
      const std::string text =
          base::clipped(strCat(issue.op, issue.node.empty() ? "" : " at " + issue.node, ": ", issue.reason));
      if (issues_.size() == 1)
        lines = text;
      else if (i < kMostIssues)
        lines += "\n  " + text;
      else if (i == kMostIssues)
        lines += strCat("\n  and ", issues_.size() - kMostIssues, " more");
    }
    return Status(isUnsupported ? StatusCode::kUnimplemented : StatusCode::kInvalidArgument,
                  issues_.size() == 1
                      ? strCat("'", path_, "': ", lines, isFree ? "; give the dimensions sizes in the file" : "")
                      : strCat("'", path_, "': ", issues_.size(), " problems:", lines));
  }

  ModuleOp source_;
  const std::string& path_;
  MLIRContext& context_;
  OpBuilder builder_;
  ForeignValues values_;
  std::deque<NodeDef> nodes_;
  std::vector<Issue> issues_;
  const NodeDef* origin_ = nullptr;
  int count_ = 0;  ///< Of the ops without a place.
  int converted_ = 0;
};

}  // namespace

StatusOr<OwningModule> convertForeignModule(ModuleOp source, const std::string& path) {
  return ForeignImporter(source, path).run();
}

std::vector<Value> placeForeignFunction(func::FuncOp function, const std::string& path, OpBuilder& builder,
                                        const NodeDef& origin, const std::vector<ForeignValue>& arguments,
                                        std::vector<Issue>& issues) {
  return ForeignImporter(function->getParentOfType<ModuleOp>(), path, builder, origin)
      .place(function, arguments, issues);
}

std::string foreignOpsDocument() {
  std::string text =
      "# MLIR in tosa and linalg\n\n"
      "Generated from the importer's tables (`compiler/mlir_import`). `hpu-compile model.mlir`, `hpu::importMlir` and "
      "Python's "
      "`openhpu.compile` take text\nand bytecode of MLIR 22 in these dialects, on tensors, beside the hpu dialect "
      "(`dialects/hpu.md`), and mixtures of all.\n\n"
      "The model is the function `main`, or the only public one; functions of one block that it calls become part of "
      "it. "
      "Arguments have the names of their\nattribute `hpu.name`, results too. Sizes that are `?` are free dimensions, "
      "named "
      "by the argument's attribute `hpu.dims`\n(`{hpu.dims = [\"batch\", \"\"]}`), else `input0_dim1`: `--dim "
      "batch=8`, or "
      "bounds, gives them sizes. Every op that is not supported is told by name and place,\nall at once.\n\n"
      "Any structured op of linalg converts by its maps, iterators and body: all named elementwise ops, products, "
      "`generic`, `map`, `reduce`, `broadcast`,\n`transpose`, `fill`. Maps are permutations of loops or leave some "
      "out; a "
      "reduction is a sum, product, maximum, minimum, or a logical and, or;\nsums of products go to the matrix engine. "
      "Ops of "
      "`arith` and `math` are taken on tensors and in bodies. Integers of 8 bits are multiplied exactly.\n\n"
      "`tosa.cond_if` and `tosa.while_loop` run on the device (`hpu.if`, `hpu.loop`), on values of known sizes.\n\n"
      "| op | limits |\n|---|---|\n";
  for (ArrayRef<ForeignRow> rows :
       {tosaElementwiseRows(), tosaTensorRows(), tosaWindowRows(), tosaShapeRows(), linalgWindowRows(), tensorRows()})
    for (const ForeignRow& row : rows) text += strCat("| ", row.op, " | ", row.limits, " |\n");
  text += "\n`tests/conformance/mlir/upstream_ops.py` compares functions of them with upstream's own lowering.\n";
  return text;
}

}  // namespace hpu::importer
