// SPDX-License-Identifier: Apache-2.0
// createOp: makes an op of the hpu dialect by its mnemonic, with inferred result types.
// The one thing to know: a wrong operand or attribute is a failure with a diagnostic at `loc`, never a
// crash; on failure nothing is inserted.
//
//   FailureOr<Operation*> op = createOp(builder, loc, "transpose", {x}, {{"perm", int64Array}});
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace hpu::ir {

/// For attributes that the caller knows to be complete: the importer's way.
mlir::FailureOr<mlir::Operation*> createOp(mlir::OpBuilder& builder, mlir::Location loc, llvm::StringRef mnemonic,
                                           mlir::ValueRange operands,
                                           llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

/// For operands and attributes from a user: also checks that all are there and that none is unknown.
mlir::FailureOr<mlir::Operation*> createCheckedOp(mlir::OpBuilder& builder, mlir::Location loc,
                                                  llvm::StringRef mnemonic, mlir::ValueRange operands,
                                                  llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

/// True when `attribute` is of the kind that the op declares for `name`.
bool attributeFits(mlir::OperationName op, llvm::StringRef name, mlir::Attribute attribute);

/// Whether some memory could hold a tensor of the type's known sizes. Where they come from a file or an option their
/// product may be no number at all.
bool fitsMemory(mlir::RankedTensorType type);

/// A location that names a node of the source model and its op: `loc(fused<"Conv">["conv1"])`.
mlir::Location nodeLocation(mlir::MLIRContext* context, llvm::StringRef node, llvm::StringRef op);

}  // namespace hpu::ir
