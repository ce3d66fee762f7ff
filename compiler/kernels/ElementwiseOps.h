// SPDX-License-Identifier: Apache-2.0
// The table of elementwise ops: what each one computes on a lane.
// The one thing to know: adding an elementwise op to the kernel compiler is one row in
// ElementwiseOps.cpp.
#pragma once

#include "compiler/kernels/VectorMath.h"
#include "hpu/types.h"
#include "llvm/ADT/ArrayRef.h"
#include "mlir/Support/TypeID.h"

namespace hpu::kernels {

/// The element types that an op is defined on (of its data operands).
enum class Domain : uint8_t { Float, Number, Integer, Bool, Any };

struct ElementwiseContext {
  ElementType in;                 ///< Of the first data operand (of the second for `where`).
  ElementType out;                ///< Of the result.
  llvm::ArrayRef<double> params;  ///< The attributes named in the row, in that order.
};

// Tags of ops that only kernels have.
struct SubOfRounded {};  ///< x - y, with x rounded before: VectorMath::subOfRounded.
struct ExpOrZero {};     ///< VectorMath::expOrZero.
struct GatherIndex {};   ///< The position along an axis that a gather reads; the axis's size is a parameter.
// Of a resize along one dimension, with ir::ResizeDim's and ir::linearTap's arithmetic, for sizes that are operands.
struct ResizeCoordinate {};  ///< Of a position, with the sizes of operand and result; mode and scale are parameters.
struct ResizeNearest {};     ///< Of a coordinate and the last element: the element; the mode is a parameter.
struct ResizeLow {};         ///< Of the same: the tap below.
struct ResizeFraction {};    ///< Of the same: how far the coordinate is above that.
struct ResizeHigh {};        ///< Of low tap and fraction: the tap above, or the same where that would weigh nothing.
struct ResizeWeight {};      ///< Of a fraction: the high tap's weight.
struct GatherIndexOf {};     ///< The same; the size, and that less 1, are operands.
struct SortKey {};  ///< An integer that is the larger the earlier its number is to be picked; largest (or smallest)
                    ///< first, and NaN as the largest, is a parameter.

struct ElementwiseOp {
  mlir::TypeID op;  ///< As kind() says it.
  int arity;
  Domain domain;
  bool heavy;  ///< Costs more than keeping its result in local memory does.
  mlir::Value (*emit)(VectorMath&, llvm::ArrayRef<mlir::Value>, const ElementwiseContext&);
  const char* params[2] = {nullptr, nullptr};  ///< Names of the op's attributes.

  template <typename Op>
  bool is() const {
    return op == mlir::TypeID::get<Op>();
  }
};

/// Null when there is no such elementwise op.
const ElementwiseOp* findElementwise(mlir::TypeID op);

/// The element type that values have inside a kernel: f32 for every narrower float, otherwise their own.
ElementType computedAs(ElementType type);
/// Its MLIR type; i1 for bool.
mlir::Type computeType(mlir::MLIRContext* context, ElementType type);
bool isFloatType(ElementType type);
bool isSignedType(ElementType type);
/// Whether kernels can load and store the type; others are a clear error.
bool isKernelType(ElementType type);

}  // namespace hpu::kernels

MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::SubOfRounded)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::ExpOrZero)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::GatherIndex)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::GatherIndexOf)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::SortKey)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeCoordinate)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeNearest)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeLow)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeFraction)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeHigh)
MLIR_DECLARE_EXPLICIT_TYPE_ID(hpu::kernels::ResizeWeight)
