// SPDX-License-Identifier: Apache-2.0
// Outputs whose sizes depend on data. The one thing to know: the function's last result is then a vector of i64, the
// *sizes*, that no model has: an element of it says how much of a dimension of another result there is.
#pragma once

#include <cstdint>
#include <vector>

#include "mlir/IR/BuiltinOps.h"

namespace hpu::ir {

/// Of result `output`, dimension `dim` has as many elements as element `element` of the sizes says, at most its size.
struct DataSize {
  uint32_t output = 0, dim = 0, element = 0;
  bool operator==(const DataSize&) const = default;
};

/// Of a module, or of the program that is made of it: by output and dimension. Empty where no output has such a size.
std::vector<DataSize> dataSizes(mlir::Operation* moduleOrProgram);
void setDataSizes(mlir::Operation* moduleOrProgram, const std::vector<DataSize>& sizes);

/// What the result of sizes is called.
inline constexpr llvm::StringLiteral kDataSizesName = "data sizes";

}  // namespace hpu::ir
