// SPDX-License-Identifier: Apache-2.0
// Helpers on tensor types: physical order, names of free dimensions, element types.
// The one thing to know: two types that differ only in their layout attribute are compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hpu/types.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "shape/DimExpr.h"
#include "shape/SymInt.h"

namespace hpu::ir {

/// A dimension in shape inference: a size, a free one with or without a name, or one that is given late and is worked
/// with at a *representative*: it has a size and a name.
struct SymDim {
  int64_t size = 0;              ///< mlir::ShapedType::kDynamic when free.
  mlir::StringAttr symbol = {};  ///< Null or empty: anonymous.
  bool isFree() const { return mlir::ShapedType::isDynamic(size); }
  bool isNamed() const { return symbol && !symbol.empty(); }
  bool operator==(const SymDim& other) const {
    if (isFree() != other.isFree()) return false;
    if (isNamed() || other.isNamed()) return symbol == other.symbol;
    return !isFree() && size == other.size;
  }
};
using SymShape = llvm::SmallVector<SymDim>;

/// The size as an expression; nullopt for an anonymous free dimension.
std::optional<shape::DimExpr> exprOf(const SymDim& dim);
/// A dimension of that size: known when the expression is a number, and anonymous when there is none. `value` is that
/// of the expression at the representatives; where the dimension is not free and has no expression, its name is
/// kNoExpression.
SymDim dimOf(mlir::MLIRContext* context, const std::optional<shape::DimExpr>& size,
             int64_t value = mlir::ShapedType::kDynamic);
inline constexpr llvm::StringLiteral kNoExpression = "?";

/// Sizes with the names that `symbols` (an array of strings, empty ones for none) gives to some.
SymShape namedShape(mlir::ArrayRef<int64_t> sizes, std::optional<mlir::ArrayAttr> symbols);

/// More dimensions than any op makes of a tensor that a recipe can hold (recipe::kMaxRank), views in between included.
inline constexpr int64_t kMostDims = 64;

bool compatibleTypes(mlir::TypeRange a, mlir::TypeRange b);

/// Whether sizes are given late and are representatives now.
bool hasNamedSizes(mlir::Type type);

/// On a module of sizes that are given late: a dictionary of the free dimensions with their representatives, each a
/// prime times a power of two (compiler/import/NamedSizes.h).
inline constexpr llvm::StringLiteral kSamplesAttr = "hpu.samples";
/// Beside it, their bounds: pairs of the least and the largest size.
inline constexpr llvm::StringLiteral kBoundsAttr = "hpu.bounds";
/// Of the module that an op is in.
shape::SymbolBounds sizeBounds(mlir::Operation* op);
/// The prime of a representative.
int64_t primeOf(int64_t sample);
/// Whether sizes of a type in the op's module depend on representatives, with names or not.
bool dependsOnSamples(mlir::Operation* op, mlir::RankedTensorType type);
/// The names of sizes that are given late, as attribute `symbols` of ops has them; null when there are none.
mlir::ArrayAttr sizeNames(mlir::RankedTensorType type);

/// Sizes with the names of those that are free or given late, taken from the type's layout.
SymShape symShape(mlir::RankedTensorType type);
/// A row-major tensor type; names of dims go into its layout.
mlir::RankedTensorType tensorType(llvm::ArrayRef<SymDim> shape, mlir::Type element);

/// The order of the dims from slowest to fastest; {0, 1, ...} for row-major.
llvm::SmallVector<int64_t> physicalOrder(mlir::RankedTensorType type);
bool isRowMajor(mlir::RankedTensorType type);
/// The same type with another physical order (names of free dims are kept).
mlir::RankedTensorType withOrder(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> order);
/// Element strides of a dense tensor in its physical order; the shape must be static.
llvm::SmallVector<int64_t> denseStrides(mlir::RankedTensorType type);

/// The size with its expression; unknown when it depends on representatives and has none. It must not be free.
shape::SymInt numberOf(const SymDim& dim);
/// Sizes, strides and the number of elements, with their expressions; the shape must be static.
using SymInts = llvm::SmallVector<shape::SymInt>;
SymInts symSizes(mlir::RankedTensorType type);
SymInts symDenseStrides(mlir::RankedTensorType type);
shape::SymInt symElements(mlir::RankedTensorType type);

/// The names of a reshape's dimensions that are given late, as the operand's tell: of each group of dimensions with as
/// many elements, sizes are products of the operand's. What they do not tell stays without a name.
SymShape namedLike(llvm::ArrayRef<SymDim> from, SymShape to);

/// NumPy broadcasting of two shapes; nullopt when they do not broadcast. Of two free dimensions with different names
/// the result is a choice: the second where the first is 1. Of two that are given late either name is right, as they
/// have to be equal.
std::optional<SymShape> broadcastShapes(llvm::ArrayRef<SymDim> a, llvm::ArrayRef<SymDim> b);

/// Between MLIR's element types and ours; kInvalid / null for what we do not have.
ElementType elementType(mlir::Type type);
mlir::Type mlirElementType(mlir::MLIRContext* context, ElementType type);
/// "1x3x224x224xf32"
std::string typeToString(mlir::RankedTensorType type);

}  // namespace hpu::ir
