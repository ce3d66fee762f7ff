// SPDX-License-Identifier: Apache-2.0
// NodeContext: what a node converter works with: its operands, attributes, and ways to emit ops.
// The one thing to know: nothing throws and nothing needs checking after each step: an op that cannot be
// made gives a null value, ops on null values give null values, and the first reason is what is reported.
//
//   void convertSoftsign(NodeContext& node) {  // x / (1 + |x|)
//     Value x = node.input(0);
//     node.setOutput(0, node.op("div", {x, node.op("add", {node.op("abs", x), node.scalarLike(x, 1)})}));
//   }
#pragma once

#include <initializer_list>
#include <utility>

#include "compiler/dialect/hpu/HpuDialect.h"
#include "compiler/import/ImportState.h"
#include "compiler/import/OnnxModel.h"
#include "mlir/IR/Builders.h"

namespace hpu::importer {

using mlir::RankedTensorType;
using mlir::Value;
using Ints = llvm::SmallVector<int64_t>;

/// The value of an op's attribute from a C++ value.
class AttributeValue {
 public:
  template <typename T>
    requires(std::is_same_v<T, bool>)
  AttributeValue(T value) : kind_(Kind::kBool), integer_(value) {}  // NOLINT: implicit by design
  template <typename T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  AttributeValue(T value) : kind_(Kind::kInt), integer_(value) {}        // NOLINT
  AttributeValue(double value) : kind_(Kind::kFloat), number_(value) {}  // NOLINT
  AttributeValue(llvm::ArrayRef<int64_t> value)
      : kind_(Kind::kInts), integers_(value.begin(), value.end()) {}           // NOLINT
  AttributeValue(const Ints& value) : kind_(Kind::kInts), integers_(value) {}  // NOLINT
  AttributeValue(llvm::ArrayRef<double> value)
      : kind_(Kind::kFloats), numbers_(value.begin(), value.end()) {}                                // NOLINT
  AttributeValue(mlir::Attribute value) : kind_(Kind::kAttribute), attribute_(value) {}              // NOLINT
  AttributeValue(mlir::Type value) : AttributeValue(mlir::Attribute(mlir::TypeAttr::get(value))) {}  // NOLINT
  mlir::Attribute build(mlir::Builder& builder) const;

 private:
  enum class Kind { kBool, kInt, kFloat, kInts, kFloats, kAttribute };
  Kind kind_;
  int64_t integer_ = 0;
  double number_ = 0;
  Ints integers_;
  llvm::SmallVector<double> numbers_;
  mlir::Attribute attribute_;
};
using AttributeList = std::initializer_list<std::pair<llvm::StringRef, AttributeValue>>;

/// One node while it is converted.
class NodeContext {
 public:
  NodeContext(mlir::OpBuilder& builder, const NodeDef& node, int64_t opset, std::vector<ImportedValue*> inputs,
              std::vector<bool> wanted, bool folding);

  // ---- the node ----
  const NodeDef& def() const { return node_; }
  int64_t opset() const { return opset_; }
  /// The hpu op that the table names for this ONNX op; empty when it names none.
  llvm::StringRef mnemonic() const { return mnemonic_; }
  size_t numInputs() const { return inputs_.size(); }
  size_t numOutputs() const { return node_.outputs.size(); }
  /// The input is given (optional ones may be omitted).
  bool has(size_t input) const { return input < inputs_.size() && inputs_[input]; }
  /// Somebody reads the output.
  bool wants(size_t output) const { return output < wanted_.size() && wanted_[output]; }
  bool hasAttribute(llvm::StringRef name) const { return find(name) != nullptr; }
  int64_t integer(llvm::StringRef name, int64_t otherwise);
  double number(llvm::StringRef name, double otherwise);
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  Ints integers(llvm::StringRef name, Ints otherwise = {});
  std::vector<double> numbers(llvm::StringRef name);
  const NodeAttribute* find(llvm::StringRef name) const;

  // ---- operands ----
  /// The operand as a value of the module; null after a failure, which is then recorded. Sizes become numbers that the
  /// device computes with.
  Value input(size_t index);
  /// The first `count` operands; null where one is omitted, or after a failure.
  std::vector<Value> operands(size_t count);
  /// Of a value that is no operand: an element of a sequence.
  Value materialize(ImportedValue& value);
  /// The elements, if known at import.
  const interp::Tensor* constant(size_t index) const;
  std::optional<Ints> constantInts(size_t index) const;
  /// The single element of a constant as a number.
  std::optional<double> constantNumber(size_t index) const;
  /// The elements of a shape computation (constant integers included), rank 0 or 1.
  std::optional<ShapeElements> elements(size_t index) const;
  /// The same, of floats, too: quotients of sizes.
  std::optional<ShapeElements> quotients(size_t index) const;
  /// Whether elements() has names of free dimensions or unknown elements in it.
  bool isSymbolic(size_t index) const { return has(index) && inputs_[index]->elements.has_value(); }
  /// Of 4-bit integers, which are i8 or u8 here.
  bool isFourBits(size_t index) const { return has(index) && inputs_[index]->isFourBits; }
  /// The type without making the operand part of the module; null if the input has none.
  RankedTensorType inputType(size_t index) const;
  /// Constant integers of an attribute (older opsets) or of an input (newer ones). nullopt: not given.
  /// When they are given but not constant the failure is recorded and `ok` becomes false.
  std::optional<Ints> attributeOrInput(llvm::StringRef attribute, size_t input, bool& ok);
  /// The same, of integers that may follow from free dimensions; none of them is unknown.
  std::optional<std::vector<shape::DimExpr>> sizesOf(llvm::StringRef attribute, size_t input, bool& ok);

  // ---- types ----
  static RankedTensorType typeOf(Value value) { return mlir::cast<RankedTensorType>(value.getType()); }
  static int64_t rank(Value value) { return typeOf(value).getRank(); }
  mlir::Type elementOf(Value value) { return typeOf(value).getElementType(); }
  bool isFloat(Value value) { return mlir::isa<mlir::FloatType>(elementOf(value)); }
  /// Sizes as expressions; an anonymous free one is nullopt.
  static std::vector<std::optional<shape::DimExpr>> dims(RankedTensorType type);
  /// A dimension of an op from an expression; null means an anonymous free one.
  ir::SymDim symDim(const std::optional<shape::DimExpr>& size);
  /// The product of all sizes; nullopt when one is anonymous.
  static std::optional<shape::DimExpr> product(llvm::ArrayRef<std::optional<shape::DimExpr>> sizes);
  /// The most that a size can be, by the bounds that the options give to free dimensions.
  int64_t most(const shape::DimExpr& size) const { return size.interval(bounds_).high; }
  /// `axis` made non-negative; a failure is recorded when it is outside of [-rank, rank).
  std::optional<int64_t> axis(int64_t axis, int64_t rank);
  std::optional<Ints> axes(llvm::ArrayRef<int64_t> axes, int64_t rank);
  /// `index` made non-negative; a failure is recorded when it is outside of [-size, size) of dimension `dim`.
  std::optional<int64_t> index(int64_t index, int64_t dim, int64_t size);
  /// For a size without which the node means nothing, the 4 of a box: a free dimension of `x` has it from now on, and
  /// the import begins anew. True when the dimension is a number, whichever it is; else false and a failure.
  bool fixSize(Value x, int64_t dim, int64_t size);
  /// For sizes without whose equality the node means nothing: a free dimension of `b` is that of `a` from now on, or
  /// has its number, and the import begins anew. False and a failure then; else true, also where they are two numbers.
  bool sameSize(Value a, int64_t dimOfA, Value b, int64_t dimOfB);
  /// The rank that the file declares for an output of the model or a value between nodes; nullopt when it says none.
  std::optional<int64_t> declaredRank(size_t output) const {
    return output < declaredRanks_.size() ? declaredRanks_[output] : std::nullopt;
  }
  /// False, and a failure, when the elements of `input` are known and one is outside of dimension `dim` of `x`. Of a
  /// free dimension nothing is known until it has a size.
  bool checkIndices(size_t input, Value x, int64_t dim);

  // ---- emitting ----
  /// Attributes that are null are left out.
  Value op(llvm::StringRef mnemonic, mlir::ValueRange operands, AttributeList attributes = {});
  Value constantTensor(const interp::Tensor& tensor, llvm::StringRef suffix = "constant");
  /// A rank-0 constant of the element type of `like`.
  Value scalarLike(Value like, double value);
  Value scalar(mlir::Type element, double value);
  /// Reshapes to sizes that may be free; does nothing when the shape is the same.
  Value reshape(Value x, llvm::ArrayRef<ir::SymDim> shape);
  Value reshape(Value x, llvm::ArrayRef<int64_t> shape);
  Value expand(Value x, llvm::ArrayRef<ir::SymDim> shape);
  /// start, start + step, ... of integers.
  Value range(const ir::SymDim& start, const ir::SymDim& size, int64_t step, ElementType element);
  Value transpose(Value x, llvm::ArrayRef<int64_t> perm);
  Value slice(Value x, llvm::ArrayRef<ir::SymDim> starts, llvm::ArrayRef<ir::SymDim> sizes,
              llvm::ArrayRef<int64_t> steps);
  /// [begin, end) of one dimension.
  Value sliceDim(Value x, int64_t dim, int64_t begin, int64_t end);
  Value cast(Value x, mlir::Type element);
  /// `x` in f32 if its floats are narrower: what the statistics of a normalisation are made of.
  Value widened(Value x);

  // ---- results ----
  void setOutput(size_t index, Value value);
  void setOutput(size_t index, const interp::Tensor& constant);
  void setOutput(size_t index, ShapeElements elements);
  /// An output that is set has the numbers of 4-bit integers.
  void setFourBits(size_t index) { outputs_[index].isFourBits = true; }
  /// What was set.
  const std::vector<ImportedValue>& outputs() const { return outputs_; }
  /// The output is the input itself.
  void forward(size_t input, size_t output = 0);

  // ---- failures ----
  void unsupported(std::string reason) { fail(Issue::Kind::kUnsupported, std::move(reason)); }
  void invalid(std::string reason) { fail(Issue::Kind::kInvalid, std::move(reason)); }
  /// A free dimension stands in the way: adds how to fix its size.
  void needsSize(std::string reason) { fail(Issue::Kind::kFreeDimension, std::move(reason)); }
  bool failed() const { return issue_.has_value(); }
  /// The first failure.
  const std::optional<Issue>& issue() const { return issue_; }

  mlir::OpBuilder& builder() { return builder_; }
  mlir::MLIRContext* context() { return builder_.getContext(); }
  mlir::Location location() const { return location_; }

 private:
  friend class OnnxImporter;
  /// The elements as a tensor of the module; null when one is not known.
  Value dataOf(const ShapeElements& elements);
  void fail(Issue::Kind kind, std::string reason);
  /// Entries beyond +-2^40 are nobody's sizes: refused before they overflow arithmetic.
  void checkRange(llvm::StringRef name, llvm::ArrayRef<int64_t> values);

  mlir::OpBuilder& builder_;
  const NodeDef& node_;
  int64_t opset_;
  std::vector<ImportedValue*> inputs_;  ///< Null: omitted.
  std::vector<bool> wanted_;
  std::vector<ImportedValue> outputs_;
  llvm::StringRef mnemonic_;
  shape::SymbolBounds bounds_;
  std::vector<std::optional<int64_t>> declaredRanks_;  ///< By output.
  shape::SymbolBindings fixed_;                        ///< What fixSize() has asked for,
  std::map<std::string, std::string> joined_;          ///< and sameSize(): by name the other one.
  std::optional<Issue> issue_;
  mlir::Location location_;
  bool folding_;
  int64_t generatedBytes_ = 0;  ///< Of constants that the node's conversion has made.
  /// When folding, operands are arguments of a scratch block with these elements.
  llvm::DenseMap<Value, interp::Tensor> folded_;
  llvm::DenseMap<const ImportedValue*, Value> foldedArguments_;
};

}  // namespace hpu::importer
