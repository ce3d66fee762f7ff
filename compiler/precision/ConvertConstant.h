// SPDX-License-Identifier: Apache-2.0
// Constants in another element type, converted at compile time.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"

namespace hpu::precision {

/// The f32 constant divided by `scale` (a power of two) in `element`, a narrower float type, rounded to
/// nearest even; finite numbers stay finite: the mask value -3.4e38, which would round to -inf and make a
/// fully masked softmax row NaN, becomes the least number of the type. Null when the constant's data is
/// missing or of another size than its type says.
mlir::ElementsAttr narrowConstant(mlir::ElementsAttr value, mlir::Type element, double scale = 1);

/// The largest magnitude of an f32 constant's finite elements; nullopt when its data is missing.
std::optional<double> largestMagnitude(mlir::ElementsAttr value);

}  // namespace hpu::precision
