// SPDX-License-Identifier: Apache-2.0
// The implementations behind Convert.h by CPU level, so that tests can run each one.
#pragma once

#include "base/CpuFeatures.h"
#include "numerics/Convert.h"

namespace hpu::numerics {

struct ConvertKernels {
  void (*bf16ToF32)(const uint16_t*, float*, size_t);
  void (*f32ToBf16)(const float*, uint16_t*, size_t);
  void (*f16ToF32)(const uint16_t*, float*, size_t);
  void (*f32ToF16)(const float*, uint16_t*, size_t);
  void (*fp8ToF32)(Fp8Format, const uint8_t*, float*, size_t);
  void (*f32ToFp8)(Fp8Format, const float*, uint8_t*, size_t, Overflow);
};

/// The kernels for a level, which the CPU must have.
const ConvertKernels& convertKernels(base::CpuLevel level);

}  // namespace hpu::numerics
