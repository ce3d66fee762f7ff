// SPDX-License-Identifier: Apache-2.0
// A kernel's body as plain data, read once from the IR.
// The one thing to know: after importing, nothing of the caller's MLIRContext is touched any more,
// so kernels compile in parallel, each in a context of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hpu/status.h"
#include "hpu/types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Support/TypeID.h"
#include "shape/Interval.h"
#include "shape/SymInt.h"

namespace mlir {
class Block;
class Operation;
class Value;
}  // namespace mlir

namespace hpu::kernels {

/// What a kernel's body has for numbers that depend on sizes that are given at launch.
struct SymbolicNumbers {
  using Numbers = llvm::SmallVector<shape::SymInt, 6>;
  /// The sizes of a value, one a dim. Null, or an empty result: those of its type.
  std::function<Numbers(mlir::Value)> sizes;
  /// The numbers of an array attribute of an op ("starts" of a slice or range, "low" and "high" of a pad). Null, or an
  /// empty result: those of the attribute.
  std::function<Numbers(mlir::Operation*, llvm::StringRef)> attribute;
  shape::SymbolBounds bounds;  ///< Of the free dimensions.
};

/// An attribute: numbers (booleans and enums as integers, a type as its ElementType), or the text of a native op.
struct Attr {
  llvm::SmallVector<int64_t, 4> ints;
  SymbolicNumbers::Numbers symbolic;  ///< Instead of `ints`, unless it is empty.
  llvm::SmallVector<double, 2> floats;
  std::string text;
};

/// What ops are told apart by: the op's class in the hpu dialect, or the tag of an inner op.
template <typename Op>
mlir::TypeID kind() {
  return mlir::TypeID::get<Op>();
}

struct Node {
  enum class Kind : uint8_t { Input, Splat, Op };
  Kind kind = Kind::Op;
  mlir::TypeID op;   ///< Kind::Op: which one, as kind() says it.
  std::string name;  ///< "hpu.relu", for messages and keys.
  llvm::SmallVector<int, 4> operands;
  ElementType type = ElementType::kInvalid;
  llvm::SmallVector<shape::SymInt, 6> shape;  ///< mlir::ShapedType::kDynamic for a free size.
  int input = -1;                             ///< Kind::Input: which one.
  double splat = 0;                           ///< Kind::Splat ...
  int64_t splatInt = 0;                       ///< ... or this, for integers.
  std::vector<std::pair<std::string, Attr>> attrs;

  template <typename Op>
  bool is() const {
    return kind == Kind::Op && op == kernels::kind<Op>();
  }
  const Attr* attr(llvm::StringRef name) const;
  /// The only integer (or float) of an attribute; `otherwise` when it is absent.
  int64_t intAttr(llvm::StringRef name, int64_t otherwise = 0) const;
  double floatAttr(llvm::StringRef name, double otherwise = 0) const;
  llvm::ArrayRef<int64_t> intsAttr(llvm::StringRef name) const;
  llvm::ArrayRef<double> floatsAttr(llvm::StringRef name) const;
  /// Empty when it is absent.
  llvm::StringRef textAttr(llvm::StringRef name) const;
  /// Of an attribute that may depend on sizes that are given at launch.
  SymbolicNumbers::Numbers numbersAttr(llvm::StringRef name) const;
};

/// Nodes in an order in which operands come first.
struct KernelGraph {
  std::vector<Node> nodes;
  int numInputs = 0;
  llvm::SmallVector<int, 2> results;  ///< Nodes stored to the outputs.
};

/// The ops of a block that ends in hpu.yield; inputs are its arguments.
StatusOr<KernelGraph> importBlock(mlir::Block& block, const SymbolicNumbers& symbols = {});
/// The ops alone, as one kernel: values from outside become inputs, values used outside results.
StatusOr<KernelGraph> importOps(llvm::ArrayRef<mlir::Operation*> ops);

/// Equal for graphs that compute the same.
std::string graphKey(const KernelGraph& graph);
/// Adds a number to a key: those that are the same for all sizes add the same.
void appendKey(std::string& key, const shape::SymInt& number);

}  // namespace hpu::kernels
