// SPDX-License-Identifier: Apache-2.0
// What the importer knows of a value, and what can be wrong with a node; internal.
// The one thing to know: a value is a tensor of the module, or constant elements, or the elements of a
// shape computation that may name free dimensions; it becomes an op of the module only when it must.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/interp/Tensor.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "shape/DimExpr.h"

namespace hpu::importer {

inline constexpr int64_t kMaxGenerated = 1 << 20;  ///< Elements of a constant that the importer writes out.

/// On a reshape: its sizes, by index, that would copy the operand's size if they were 0.
inline constexpr llvm::StringLiteral kZeroCopiesAttr = "hpu.zero_copies";

/// On a slice that has the elements of its operand in other numbers of them: each launch is asked whether they are as
/// many.
inline constexpr llvm::StringLiteral kIsWholeAttr = "hpu.is_whole";

/// On a module: sizes of free dimensions that its model fixed (fixedSizes).
inline constexpr llvm::StringLiteral kFixedSizesAttr = "hpu.fixed_sizes";

/// On a module: names of free dimensions that have others (joinedSizes).
inline constexpr llvm::StringLiteral kJoinedSizesAttr = "hpu.joined_sizes";

/// A tensor of rank 0 or 1 whose elements are sizes; an element without a value is not known.
struct ShapeElements {
  ElementType element = ElementType::kI64;
  bool isScalar = false;
  std::vector<std::optional<shape::DimExpr>> values;
  /// Of floats: each element is its value divided by this, a positive number. Of others it is 1.
  int64_t divisor = 1;
};

/// The free dimension, and its size, at which an expression of one is this number: hidden = 256 of 4*hidden = 1024.
std::optional<std::pair<std::string, int64_t>> solvedFor(const shape::DimExpr& expr, int64_t number);

struct ImportedValue {
  mlir::Value value;  ///< Null until the value is needed in the module.
  std::optional<interp::Tensor> constant;
  std::optional<ShapeElements> elements;  ///< Only when `constant` is not known.
  std::string name;                       ///< In the model; names the constant op.
  /// Of a sequence: its elements; it has none of the above.
  std::shared_ptr<const std::vector<ImportedValue>> sequence;
  bool isFourBits = false;  ///< 4-bit integers in the model: a byte for each here.
  bool isAbsent = false;    ///< An optional without an element. One with an element is the element.
  bool poisoned = false;    ///< Comes from a node that could not be imported.
  bool computed = false;    ///< Of a poisoned one: it is surely not known before the model runs.
  /// Has the type that the file declares for the result of a node that could not be imported, or depends on such a
  /// value. The module is not used; nodes behind it are still looked at.
  bool standsIn = false;
};

struct IssueValue {
  std::string name, type;
};

/// A node that could not be imported, or another fault of the graph.
struct Issue {
  enum class Kind { kUnsupported, kInvalid, kFreeDimension };
  Kind kind = Kind::kInvalid;
  std::string node, op;  ///< Empty for faults of the whole graph.
  std::string details;   ///< "opset 13, f32".
  std::string reason;
  std::vector<std::string> names = {};  ///< Of a free dimension: those that the node's inputs depend on.
  /// Of what is unsupported, for UnsupportedNode: of a fault of the whole graph `part` and `partName` say which part it
  /// is ("input", "x").
  std::string part = {}, partName = {}, domain = {};
  int64_t opset = 0;
  std::vector<IssueValue> inputs = {}, outputs = {};
  std::string help = {};
};

}  // namespace hpu::importer
