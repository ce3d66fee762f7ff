// SPDX-License-Identifier: Apache-2.0
// MlirNode: one op of an upstream dialect while it becomes ops of the hpu dialect; internal to the importer.
// The one thing to know: it works as NodeContext does (null values, one reason kept), and adds what MLIR has beside
// tensors: sizes as index values, shapes of tosa, tensors without contents, numbers that are known.
//
//   void convertIntdiv(MlirNode& n) { n.set(0, n.op("div", {n.in(0), n.in(1)})); }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/NodeContext.h"
#include "compose/Emitter.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace hpu::importer {

using Size = std::optional<shape::DimExpr>;  ///< Nothing: not known.
using Sizes = std::vector<Size>;

/// What stands for a value of the source module.
struct ForeignValue {
  Value tensor;                           ///< Of the hpu dialect; rank 0 for a scalar.
  std::optional<Sizes> sizes;             ///< Of an index (one) or a shape of tosa.
  std::optional<ir::SymShape> undefined;  ///< A tensor without contents, of this shape.
  std::optional<double> splat;            ///< All elements are this number.
  bool poisoned = false;                  ///< Comes from an op that could not be converted.
};
using ForeignValues = llvm::DenseMap<Value, ForeignValue>;

class MlirNode {
 public:
  MlirNode(mlir::Operation& op, NodeContext& node, ForeignValues& values)
      : source_(op), node_(node), values_(values), results_(op.getNumResults()) {}

  mlir::Operation& source() { return source_; }
  NodeContext& node() { return node_; }

  // ---- operands ----
  size_t numOperands() const { return source_.getNumOperands(); }
  Value in(size_t operand) { return tensorOf(source_.getOperand(operand)); }
  /// The value as a tensor; zeros where it has no contents. Null after a failure, which is then recorded.
  Value tensorOf(Value value);
  const ForeignValue* known(Value value) const;
  /// All elements of the value are this number.
  std::optional<double> splat(Value value) const;
  /// The value has no contents: whatever is in it may be replaced.
  bool isUndefined(Value value) const;
  /// A shape of tosa, or an index.
  std::optional<Sizes> sizes(Value value);
  /// The same where all are numbers; else a failure is recorded.
  std::optional<Ints> numbers(Value value);
  /// The elements of a constant of the source; null, and a failure, when it is none.
  std::optional<interp::Tensor> constant(Value value);
  /// A zero point or another single number, 0 where it is not given.
  double number(size_t operand, double otherwise = 0);

  // ---- attributes ----
  mlir::Attribute attribute(llvm::StringRef name) const;
  Ints ints(llvm::StringRef name, Ints otherwise = {}) const;
  int64_t integer(llvm::StringRef name, int64_t otherwise = 0) const;
  bool flag(llvm::StringRef name) const;
  /// The keyword of an enum of tosa: "BILINEAR".
  std::string keyword(llvm::StringRef name) const;

  // ---- types ----
  RankedTensorType resultType(size_t result = 0) const;
  mlir::Type resultElement(size_t result = 0) const;
  static RankedTensorType typeOf(Value v) { return NodeContext::typeOf(v); }
  static int64_t rank(Value v) { return NodeContext::rank(v); }
  static ir::SymShape shape(Value v) { return ir::symShape(typeOf(v)); }
  ir::SymDim dim(const Size& size) { return node_.symDim(size); }
  static bool isFloat(mlir::Type element) { return mlir::isa<mlir::FloatType>(element); }
  static bool isFloat(Value v) { return isFloat(typeOf(v).getElementType()); }
  static mlir::Type elementOf(Value v) { return typeOf(v).getElementType(); }
  /// The integer type of that width, for numbers without a sign.
  mlir::Type unsignedOf(mlir::Type element);
  mlir::Type f32() { return node_.builder().getF32Type(); }
  mlir::Type i32() { return node_.builder().getI32Type(); }
  mlir::Type i64() { return node_.builder().getI64Type(); }
  mlir::Type i1() { return node_.builder().getI1Type(); }

  // ---- emitting ----
  Value op(llvm::StringRef mnemonic, mlir::ValueRange operands, AttributeList attributes = {}) {
    for (Value operand : operands)
      if (!operand) return {};
    return node_.op(mnemonic, operands, attributes);
  }
  Value scalarLike(Value like, double value) { return node_.scalarLike(like, value); }
  Value cast(Value v, mlir::Type element) { return v ? node_.cast(v, element) : v; }
  Value bitcast(Value v, mlir::Type element);
  Value notOf(Value v) { return op("not", v); }
  Value reshape(Value v, llvm::ArrayRef<ir::SymDim> shape) { return v ? node_.reshape(v, shape) : v; }
  Value transpose(Value v, llvm::ArrayRef<int64_t> perm) { return v ? node_.transpose(v, perm) : v; }
  Value expand(Value v, llvm::ArrayRef<ir::SymDim> shape) { return v ? node_.expand(v, shape) : v; }
  Value slice(Value v, llvm::ArrayRef<ir::SymDim> starts, llvm::ArrayRef<ir::SymDim> sizes,
              llvm::ArrayRef<int64_t> steps) {
    return v ? node_.slice(v, starts, sizes, steps) : v;
  }
  /// v limited to [low, high].
  Value clip(Value v, double low, double high) { return op("clip", v, {{"min", low}, {"max", high}}); }
  /// A formula of src/compose; null after a failure.
  std::vector<Value> compose(
      const std::vector<Value>& inputs, size_t outputs,
      const std::function<std::vector<hpu::Value>(compose::Emitter&, const std::vector<hpu::Value>&)>& formula);
  Value compose(const std::vector<Value>& inputs,
                const std::function<hpu::Value(compose::Emitter&, const std::vector<hpu::Value>&)>& formula);

  // ---- products of integers: the MME multiplies floats ----
  /// a x b of integers that stand in f32, as i32; no product of two elements is beyond `most`. Cut along the summed
  /// dimension so that every sum is exact.
  Value exactMatmul(Value a, Value b, double most);
  /// The same of a convolution (x NCHW, w OIHW).
  Value exactConv2d(Value x, Value w, double most, AttributeList attributes, bool isGrouped);

  // ---- results ----
  void set(size_t result, Value value) { results_[result].tensor = value; }
  void set(size_t result, ForeignValue value) { results_[result] = std::move(value); }
  void setSizes(size_t result, Sizes sizes) { results_[result].sizes = std::move(sizes); }
  std::vector<ForeignValue>& results() { return results_; }

  // ---- failures ----
  void unsupported(std::string reason) { node_.unsupported(std::move(reason)); }
  void invalid(std::string reason) { node_.invalid(std::move(reason)); }
  bool failed() const { return node_.failed(); }

 private:
  mlir::Operation& source_;
  NodeContext& node_;
  ForeignValues& values_;
  std::vector<ForeignValue> results_;
};

/// One op of an upstream dialect: its name, who converts it, and what is not supported, for the docs.
struct ForeignRow {
  const char* op;
  void (*convert)(MlirNode&);
  const char* mnemonic = "";  ///< For converters that serve several ops.
  const char* limits = "";
};

llvm::ArrayRef<ForeignRow> tosaElementwiseRows();
llvm::ArrayRef<ForeignRow> tosaTensorRows();
llvm::ArrayRef<ForeignRow> tosaWindowRows();
llvm::ArrayRef<ForeignRow> tosaShapeRows();
llvm::ArrayRef<ForeignRow> linalgWindowRows();
llvm::ArrayRef<ForeignRow> tensorRows();

/// The row of an op; null when there is none.
const ForeignRow* findForeignRow(llvm::StringRef op);

/// Ops of arith and math on tensors, and on the scalars of a linalg op's body that stand for tensors. False when the
/// op is not one of them.
bool isScalarOp(mlir::Operation& op);
Value convertScalarOp(MlirNode& node, mlir::Operation& op, llvm::ArrayRef<Value> operands);

/// The ops of a function of one block, where `builder` is, for the node `origin`; its results. They are not to be used
/// when there are issues.
std::vector<Value> placeForeignFunction(mlir::func::FuncOp function, const std::string& path, mlir::OpBuilder& builder,
                                        const NodeDef& origin, const std::vector<ForeignValue>& arguments,
                                        std::vector<Issue>& issues);

/// Any structured op of linalg, by its maps, iterators and body. False when it is not one.
bool convertStructured(MlirNode& node);

}  // namespace hpu::importer
