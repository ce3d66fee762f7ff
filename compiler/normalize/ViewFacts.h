// SPDX-License-Identifier: Apache-2.0
// What makes a view superfluous; shared by the patterns that remove it and the verifier that none
// is left.
#pragma once

#include "mlir/IR/Operation.h"

namespace hpu::normalize {

/// A reshape, transpose, slice, expand, cast, pad or concat whose result equals its operand.
bool isIdentityView(mlir::Operation* op);
/// A transpose of a transpose, a reshape of a reshape, an expand of an expand.
bool isStackedView(mlir::Operation* op);

}  // namespace hpu::normalize
