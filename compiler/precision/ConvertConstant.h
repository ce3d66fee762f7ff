// SPDX-License-Identifier: Apache-2.0
// Constants in another element type, converted at compile time.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"

namespace hpu::precision {

/// The f32 constant in bf16, rounded to nearest even; finite numbers stay finite: the mask value
/// -3.4e38, which would round to -inf and make a fully masked softmax row NaN, becomes the least
/// bf16 number.
mlir::ElementsAttr narrowToBf16(mlir::ElementsAttr value);

}  // namespace hpu::precision
