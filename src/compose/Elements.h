// SPDX-License-Identifier: Apache-2.0
// Elements of constants: which kind they are, and one type's as another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "hpu/types.h"
#include "numerics/ElementKinds.h"

namespace hpu::compose {

using numerics::isFloat;
using numerics::isInteger;

/// `count` elements of one element type as another type; floats round to nearest even, integers wrap.
/// Errors: kUnimplemented for a pair that nothing converts; kInvalidArgument for a wrong number of bytes.
StatusOr<std::vector<std::byte>> convertElements(const std::vector<std::byte>& data, ElementType from, ElementType to,
                                                 int64_t count);

}  // namespace hpu::compose
