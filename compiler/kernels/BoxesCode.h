// SPDX-License-Identifier: Apache-2.0
// What BoxesKernel tells the host's code of kernels that select boxes: the numbers in HpuKernelArgs::dims.
// The one thing to know: both sides include this, and nothing else holds them together.
#pragma once

#include <cstdint>

namespace hpu::kernels::boxes {

inline constexpr int64_t kScratchBytes = 80 * 1024;

/// What of an operand is; kNone: it is not there.
enum class Kind : int64_t { kFloat32, kBfloat, kFloat16, kInt64, kNone };

/// An operand: which one, what of, and its strides.
enum Part { kOperand, kKind, kStride0, kStride1, kStride2, kParts };
/// Places in HpuKernelArgs::dims: the number of boxes, of operands and result kParts each.
enum Number {
  kCentred,
  kCount,
  kBoxes,
  kScores = kBoxes + kParts,
  kOrder = kScores + kParts,
  kMost = kOrder + kParts,
  kOverlap = kMost + kParts,
  kThreshold = kOverlap + kParts,
  kResult = kThreshold + kParts,
  kNumbers = kResult + kParts
};

}  // namespace hpu::kernels::boxes
