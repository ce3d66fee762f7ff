// SPDX-License-Identifier: Apache-2.0
// Reading and making hpu.constant ops, whatever holds their bytes (small attributes or mapped
// resources). The one thing to know: large constants are read in place and never copied into
// attributes.
#pragma once

#include <optional>
#include <vector>

#include "compiler/dialect/hpu/HpuOps.h"
#include "compiler/interp/Tensor.h"
#include "mlir/IR/PatternMatch.h"

namespace hpu::normalize {

/// The constant that defines `value`, or null.
ir::ConstantOp constantOf(mlir::Value value);

/// The one number that all elements of a float or integer constant have, seen through reshape and
/// expand; constants of more than 64 elements that are not stored as splats are not searched.
std::optional<double> splatOf(mlir::Value value);
/// splatOf, compared with a tolerance of 1e-6 of `number` (constants of a model are f32 roundings).
bool isSplat(mlir::Value value, double number);

/// All elements of a static f32 constant; nullopt for anything else.
std::optional<std::vector<float>> floatsOf(mlir::Value value);
/// All elements of a static integer constant of at most 64 elements.
std::optional<llvm::SmallVector<int64_t>> integersOf(mlir::Value value);

/// A new constant of the tensor's elements.
mlir::Value makeConstant(mlir::OpBuilder& builder, mlir::Location loc, const interp::Tensor& tensor,
                         llvm::StringRef name);
/// A new f32 constant; `values` has one element for each of the shape.
mlir::Value makeFloats(mlir::OpBuilder& builder, mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                       llvm::ArrayRef<float> values);
/// A constant of `type` with all elements `number`.
mlir::Value makeSplat(mlir::OpBuilder& builder, mlir::Location loc, mlir::RankedTensorType type, double number);

/// The elements of a constant along one channel dim: `value` broadcasts against a result of `rank`
/// dims with `channels` elements at dim `channel` and is 1 elsewhere. nullopt when it is not such a
/// constant.
std::optional<std::vector<float>> perChannel(mlir::Value value, int64_t rank, int64_t channel, int64_t channels);

/// [1, C, 1, 1]-like shape.
llvm::SmallVector<int64_t> channelShape(int64_t rank, int64_t channel, int64_t channels);

/// The same bytes with another shape of as many elements.
mlir::ElementsAttr reshapeConstant(mlir::ElementsAttr value, mlir::RankedTensorType type);

/// The location of an op that replaces all of `ops`.
mlir::Location fusedLoc(mlir::OpBuilder& builder, llvm::ArrayRef<mlir::Operation*> ops);

}  // namespace hpu::normalize
