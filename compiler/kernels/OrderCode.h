// SPDX-License-Identifier: Apache-2.0
// What OrderKernel tells the host's code of kernels that order rows: the numbers in HpuKernelArgs::dims.
// The one thing to know: both sides include this, and nothing else holds them together.
#pragma once

#include <cstdint>

namespace hpu::kernels::order {

inline constexpr int64_t kScratchBytes = 80 * 1024;
inline constexpr int64_t kMostRank = 8;

/// How the bits of an element order.
enum class Kind : int64_t { kUnsigned, kSigned, kBfloat, kFloat16, kFloat32, kFloat64 };

/// Rows of so many elements are ordered without memory of the result: where indices are not asked for.
inline constexpr int64_t kMostWithoutIndices = kScratchBytes / 16;

/// Places in HpuKernelArgs::dims. kIndices, kValues: which operand of the kernel they are, or -1. From kStrides on: of
/// each dim the stride of the operand, then that of the indices, then that of the values (0 of what is not there).
enum Number { kRank, kAxis, kKind, kLargest, kSize, kCount, kIndices, kValues, kStrides };

}  // namespace hpu::kernels::order
