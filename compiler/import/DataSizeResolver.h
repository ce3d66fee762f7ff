// SPDX-License-Identifier: Apache-2.0
// The walk of resolveDataSizes (DataSizes.h) over a function. The one thing to know: every value has a *true* shape,
// whose sizes may have data sizes in them, and that of its type, in which each is replaced by its bound. The elements
// that there are come first along each dimension: an op that looks beyond its own position gets a mask or indices.
#pragma once

#include <map>
#include <string>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/dialect/hpu/HpuTypes.h"
#include "compiler/import/DataSizes.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace hpu::importer {

class DataSizeResolver {
 public:
  explicit DataSizeResolver(mlir::func::FuncOp main) : main_(main), builder_(main.getContext()) {}
  /// All of the function's ops, in order.
  Status run();

 private:
  using Dims = llvm::ArrayRef<int64_t>;

  // ---- sizes (DataSizes.cpp) ----
  /// Of the same elements there is one data size: ops that compute the same are one.
  void joinCounts();
  /// With one name for each data size.
  shape::DimExpr known(const shape::DimExpr& size) const { return size.renamed(same_).value_or(size); }
  ir::SymShape shapeOf(Value value) const;
  static bool isData(const ir::SymDim& dim);
  bool hasData(Value value) const { return truth_.count(value) != 0; }
  /// Equal for all data.
  static bool agree(const ir::SymDim& a, const ir::SymDim& b);
  ir::SymDim boundDim(const ir::SymDim& dim) const;
  /// What the device computes of it: i64, rank 0.
  Value number(NodeContext& node, const shape::DimExpr& size);
  Value numberOfPart(NodeContext& node, const shape::DimExpr::Part& part);
  Value numberOfSymbol(NodeContext& node, const std::string& name);

  // ---- bounds (DataSizeBounds.cpp) ----
  /// The largest that the data can ask for; nullopt when that is not known.
  std::optional<shape::DimExpr> bound(const shape::DimExpr& size) const;
  /// With as many choices between operands of greatest and least values.
  std::optional<shape::DimExpr> boundOf(const shape::DimExpr& size, int cases) const;
  std::optional<shape::DimExpr> boundOfCases(const shape::DimExpr& size, int cases) const;
  /// Of a sum of terms that grow with the data; `leavesOut`: of what is taken away, nothing is.
  std::optional<shape::DimExpr> boundOfGrowing(const shape::DimExpr& size, bool leavesOut, int cases) const;
  std::optional<shape::DimExpr> boundOfPart(const shape::DimExpr::Part& part, int cases) const;
  /// Without the operands of greatest and least values that bounds exclude: of min(count, batch) the count, which is
  /// at most the batch.
  shape::DimExpr settled(const shape::DimExpr& size) const;
  /// Says that the size, whose expression may not tell, is at most `most`, which has no data size in it.
  void limit(const shape::DimExpr& size, const shape::DimExpr& most);

  // ---- elements that there are (DataSizes.cpp) ----
  /// 0, 1 ... along one of `rank` dimensions, for those that x has there.
  Value positions(NodeContext& node, Value x, int64_t dim, int64_t rank);
  /// A mask of x's rank: whether there is an element, as far as these dimensions tell.
  Value present(NodeContext& node, Value x, Dims dims);
  /// x with another value where there is no element.
  Value filled(NodeContext& node, Value x, Dims dims, Value value);
  /// Those of the dimensions whose size depends on data.
  llvm::SmallVector<int64_t> dataDims(Value value, Dims dims) const;
  llvm::SmallVector<int64_t> dataDims(Value value) const;

  // ---- ops (DataSizeOps.cpp, those that move elements DataSizeMovement.cpp) ----
  /// A constant: i64, rank 0.
  static Value scalarOf(NodeContext& node, int64_t value);
  static std::string textOf(const ir::SymDim& dim);
  Status visit(mlir::Operation* op);
  /// What is known of its results' sizes by bounds, and by what a slice is of.
  void settle(mlir::Operation* op);
  void rewrite(NodeContext& node, mlir::Operation* op);
  void elementwise(NodeContext& node, mlir::Operation* op);
  void reduction(NodeContext& node, mlir::Operation* op);
  void mean(NodeContext& node, ir::ReduceMeanOp op);
  void order(NodeContext& node, mlir::Operation* op, int64_t axis);
  void product(NodeContext& node, ir::MatMulOp op);
  void gather(NodeContext& node, mlir::Operation* op, int64_t axis);
  void scatterNd(NodeContext& node, ir::ScatterNdOp op);
  void scatterElements(NodeContext& node, ir::ScatterElementsOp op);
  void range(NodeContext& node, ir::RangeOp op);
  void slice(NodeContext& node, ir::SliceOp op);
  void reshape(NodeContext& node, ir::ReshapeOp op);
  void concat(NodeContext& node, ir::ConcatOp op);
  void pad(NodeContext& node, ir::PadOp op);
  /// Of ops that mix elements along all but these: no size there may depend on data.
  void fixedBut(NodeContext& node, mlir::Operation* op, Dims free);
  /// Indices into x: those from the end count from its true end, and those that are no elements are `otherwise`.
  Value indices(NodeContext& node, Value indices, Value x, int64_t dim, Value otherwise);
  Value taken(NodeContext& node, Value x, int64_t axis, Value at);
  /// Operand `index` becomes another value.
  static void replaceOperand(mlir::Operation* op, unsigned index, Value value);
  /// All results follow from the operands again, with sizes that attributes state at their bounds.
  void infer(NodeContext& node, mlir::Operation* op);
  void stateSizes(mlir::Operation* op);
  /// Uses of the op's result read `value`, whose true shape is the result's.
  void replace(NodeContext& node, mlir::Operation* op, Value value);
  void learn(mlir::Operation* op);
  Status addOutputs();

  mlir::func::FuncOp main_;
  mlir::OpBuilder builder_;
  llvm::DenseMap<Value, ir::SymShape> truth_;     ///< Of values with a size that depends on data.
  std::map<std::string, Value> counts_;           ///< By data size.
  std::map<std::string, shape::DimExpr> bounds_;  ///< By data size.
  std::map<std::string, shape::DimExpr> limits_;  ///< By text, of sizes whose expressions do not say it.
  std::map<std::string, std::string> same_;       ///< Other names of data sizes.
  std::map<std::string, Value> numbers_;          ///< By text; each is before whatever reads it.
};

/// On the op that computes a count: the name of the data size, and the bound of it.
inline constexpr llvm::StringLiteral kDataSizeAttr = "hpu.data_size";

}  // namespace hpu::importer
