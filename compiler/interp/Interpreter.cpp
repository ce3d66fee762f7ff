// SPDX-License-Identifier: Apache-2.0
#include "compiler/interp/Interpreter.h"

#include "base/Format.h"
#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/ValueSizes.h"
#include "compiler/interp/ConstantData.h"
#include "compiler/interp/Elements.h"
#include "compiler/interp/Flow.h"
#include "compiler/interp/Kernels.h"
#include "compiler/support/DiagnosticCapture.h"

namespace hpu::interp {

using namespace mlir;

StatusOr<Tensor> makeTensor(ElementType element, const Shape& shape) {
  TensorType type{element, shape};
  if (Status size = checkSize(type); !size.ok()) return size;
  return Tensor::zeros(type);
}

std::vector<double> toDoubles(const Tensor& tensor) {
  std::vector<double> values(tensor.count());
  loadElements(tensor.element(), tensor.data(), 0, 1, tensor.count(), values.data());
  return values;
}

std::optional<Shape> broadcast(ArrayRef<Tensor> inputs) {
  Shape shape;
  for (const Tensor& input : inputs) {
    const Shape& other = input.shape();
    if (other.size() > shape.size()) shape.insert(shape.begin(), other.size() - shape.size(), 1);
    size_t lead = shape.size() - other.size();
    for (size_t d = 0; d < other.size(); ++d) {
      int64_t& size = shape[lead + d];
      if (size == other[d] || other[d] == 1) continue;
      if (size != 1) return std::nullopt;
      size = other[d];
    }
  }
  return shape;
}

namespace {

/// "2x3xf32" fits "?x3xf32".
bool fits(const TensorType& type, RankedTensorType declared) {
  if (ir::elementType(declared.getElementType()) != type.element ||
      declared.getRank() != static_cast<int64_t>(type.shape.size()))
    return false;
  for (auto [size, wanted] : llvm::zip(type.shape, declared.getShape()))
    if (!ShapedType::isDynamic(wanted) && size != wanted) return false;
  return true;
}

StatusOr<Tensor> evaluateTensorOp(Operation* op, ArrayRef<Tensor> inputs, const shape::SymbolBindings& bindings) {
  if (Evaluated result = evaluateElementwise(op, inputs)) return std::move(*result);
  if (Evaluated result = evaluateMovement(op, inputs, bindings)) return std::move(*result);
  if (Evaluated result = evaluateMme(op, inputs)) return std::move(*result);
  if (Evaluated result = evaluateReduction(op, inputs)) return std::move(*result);
  if (Evaluated result = evaluateWindow(op, inputs, bindings)) return std::move(*result);
  return unimplemented("the interpreter has no '" + op->getName().getStringRef().str() + "'");
}

/// Binds the names of free dims of `declared` to the sizes of `type`.
Status bind(RankedTensorType declared, const TensorType& type, shape::SymbolBindings& bindings) {
  for (auto [dim, size] : llvm::zip(ir::symShape(declared), type.shape)) {
    if (!dim.isFree() || !dim.symbol) continue;
    std::optional<std::string> name = shape::DimExpr::parse(dim.symbol.getValue()).asSymbol();
    if (!name) continue;
    auto [slot, isNew] = bindings.try_emplace(*name, size);
    if (!isNew && slot->second != size)
      return invalidArgument(
          base::strCat("the free dimension '", *name, "' is ", slot->second, " and ", size, " in the same call"));
  }
  return okStatus();
}

}  // namespace

FailureOr<SmallVector<Tensor>> evaluateOp(Operation* op, ArrayRef<Tensor> inputs, const shape::SymbolBindings& bindings,
                                          const Observer& observer) {
  SmallVector<Tensor> results;
  if (std::optional<FlowResults> yielded = evaluateFlow(op, inputs, bindings, observer)) {
    if (failed(*yielded)) return failure();
    results = std::move(**yielded);
  } else {
    StatusOr<Tensor> result = internalError("not evaluated");
    if (auto constant = dyn_cast<ir::ConstantOp>(op))
      result = tensorOf(constant.getValue());
    else
      result = evaluateTensorOp(op, inputs, bindings);
    if (!result.ok()) return op->emitError(result.status().message());
    results.push_back(std::move(*result));
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    auto declared = dyn_cast<RankedTensorType>(result.getType());
    if (!declared || !fits(results[i].type(), declared))
      return op->emitError() << "evaluates to " << results[i].type().toString() << ", but its result is declared as "
                             << result.getType();
    if (observer) observer(op, i, results[i]);
  }
  return results;
}

StatusOr<std::vector<Tensor>> evaluateFunction(func::FuncOp function, const std::vector<Tensor>& inputs,
                                               const Observer& observer) {
  ir::DiagnosticCapture capture(function.getContext());
  if (!function.getBody().hasOneBlock()) return invalidArgument("the function has no single block");
  Block& block = function.getBody().front();
  if (inputs.size() != block.getNumArguments())
    return invalidArgument(
        base::strCat("the function takes ", block.getNumArguments(), " inputs, got ", inputs.size()));
  shape::SymbolBindings bindings;
  auto module = function->getParentOfType<ModuleOp>();
  const std::vector<ir::ValueSize> values = module ? ir::valueSizes(module) : std::vector<ir::ValueSize>();
  for (auto [i, argument] : llvm::enumerate(block.getArguments())) {
    auto declared = dyn_cast<RankedTensorType>(argument.getType());
    if (!declared || !fits(inputs[i].type(), declared))
      return invalidArgument(base::strCat("input ", i, " is ", inputs[i].type().toString(), ", the function takes ",
                                          declared ? ir::typeToString(declared) : std::string("no tensor")));
    if (Status bound = bind(declared, inputs[i].type(), bindings); !bound.ok()) return bound;
    auto name = function.getArgAttrOfType<StringAttr>(static_cast<unsigned>(i), "hpu.name");
    for (const ir::ValueSize& size : values) {
      if (!name || name.getValue() != size.input || size.element >= inputs[i].count()) continue;
      const int64_t value = inputs[i].integer(size.element);
      // Expressions of sizes are simplified for these.
      if (value < 0)
        return invalidArgument(base::strCat("input '", size.input, "' says that '", size.symbol, "' is ", value,
                                            "; sizes that are values of inputs are at least 0"));
      bindings.try_emplace(size.symbol, value);
    }
  }
  FlowResults results = evaluateBlock(block, inputs, bindings, observer);
  if (failed(results)) return capture.status(StatusCode::kInvalidArgument, "");
  return std::vector<Tensor>(results->begin(), results->end());
}

int64_t foldingWork(Operation* op) {
  auto elements = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.hasStaticShape() ? static_cast<double>(type.getNumElements()) : 0.0;
  };
  double work = 0, deep = 0;
  for (Value operand : op->getOperands()) work += elements(operand);
  for (Value result : op->getResults()) work += elements(result);
  if (op->getNumResults() == 1 && op->getNumOperands() >= 2) {
    const double result = elements(op->getResult(0));
    auto x = cast<RankedTensorType>(op->getOperand(0).getType()),
         w = cast<RankedTensorType>(op->getOperand(1).getType());
    if (isa<ir::MatMulOp>(op) && x.getRank() > 0) deep = result * static_cast<double>(x.getShape().back());
    // All taps of one result, or of one element that is spread.
    if (isa<ir::Conv2dOp>(op)) deep = result * elements(op->getOperand(1)) / std::max<double>(w.getDimSize(0), 1);
    if (isa<ir::ConvTranspose2dOp>(op))
      deep = elements(op->getOperand(0)) * elements(op->getOperand(1)) / std::max<double>(w.getDimSize(0), 1);
  }
  if (auto kernel = op->getAttrOfType<DenseI64ArrayAttr>("kernel"))
    for (double taps = work; int64_t size : kernel.asArrayRef()) deep = taps *= static_cast<double>(size);
  return static_cast<int64_t>(std::min(work + deep / 8, 1e18));
}

LogicalResult evaluateRange(Block::iterator begin, Block::iterator end, DenseMap<Value, Tensor>& values,
                            const shape::SymbolBindings& bindings) {
  for (Operation& op : llvm::make_range(begin, end)) {
    SmallVector<Tensor> operands;
    for (Value operand : op.getOperands()) {
      auto found = values.find(operand);
      if (found == values.end()) return op.emitError("has an operand that is not constant");
      operands.push_back(found->second);
    }
    FailureOr<SmallVector<Tensor>> results = evaluateOp(&op, operands, bindings);
    if (failed(results)) return failure();
    for (auto [result, value] : llvm::zip(op.getResults(), *results)) values[result] = value;
  }
  return success();
}

}  // namespace hpu::interp
