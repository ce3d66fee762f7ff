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
#include "shape/DimExpr.h"

namespace hpu::ir {

/// A dimension in shape inference: a size, or a free one with or without a name.
struct SymDim {
  int64_t size = 0;              ///< mlir::ShapedType::kDynamic when free.
  mlir::StringAttr symbol = {};  ///< Null or empty: anonymous.
  bool isFree() const { return mlir::ShapedType::isDynamic(size); }
  bool operator==(const SymDim& other) const {
    if (isFree() != other.isFree()) return false;
    return isFree() ? symbol && symbol == other.symbol : size == other.size;
  }
};
using SymShape = llvm::SmallVector<SymDim>;

/// The size as an expression; nullopt for an anonymous free dimension.
std::optional<shape::DimExpr> exprOf(const SymDim& dim);
/// A dimension of that size: known when the expression is a number, and anonymous when there is none.
SymDim dimOf(mlir::MLIRContext* context, const std::optional<shape::DimExpr>& size);

/// More dimensions than any op makes of a tensor that a recipe can hold (recipe::kMaxRank), views in between included.
inline constexpr int64_t kMostDims = 64;

bool compatibleTypes(mlir::TypeRange a, mlir::TypeRange b);

/// Sizes with the names of the free ones, taken from the type's layout.
SymShape symShape(mlir::RankedTensorType type);
/// A row-major tensor type; the names of free dims go into its layout.
mlir::RankedTensorType tensorType(llvm::ArrayRef<SymDim> shape, mlir::Type element);

/// The order of the dims from slowest to fastest; {0, 1, ...} for row-major.
llvm::SmallVector<int64_t> physicalOrder(mlir::RankedTensorType type);
bool isRowMajor(mlir::RankedTensorType type);
/// The same type with another physical order (names of free dims are kept).
mlir::RankedTensorType withOrder(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> order);
/// Element strides of a dense tensor in its physical order; the shape must be static.
llvm::SmallVector<int64_t> denseStrides(mlir::RankedTensorType type);

/// NumPy broadcasting of two shapes; nullopt when they do not broadcast. Of two free dimensions with different names
/// the result is a choice: the second where the first is 1.
std::optional<SymShape> broadcastShapes(llvm::ArrayRef<SymDim> a, llvm::ArrayRef<SymDim> b);

/// Between MLIR's element types and ours; kInvalid / null for what we do not have.
ElementType elementType(mlir::Type type);
mlir::Type mlirElementType(mlir::MLIRContext* context, ElementType type);
/// "1x3x224x224xf32"
std::string typeToString(mlir::RankedTensorType type);

}  // namespace hpu::ir
