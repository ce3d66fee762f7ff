// SPDX-License-Identifier: Apache-2.0
// Single elements of tensors of any type. The one thing to know: a number is rounded to the tensor's type, so reading
// it back may give another one.
#pragma once

#include "tools/common/HostTensor.h"

namespace hpu::randomtest {

/// f16, bf16, f32 and f64: the types whose results have errors.
bool isFloat(ElementType type);
/// Rounds to the tensor's type (to nearest even; integers are clamped).
void setNumber(tools::HostTensor& tensor, int64_t index, double value);

}  // namespace hpu::randomtest
