// SPDX-License-Identifier: Apache-2.0
// The binary interface between a recipe's native TPC kernels and whoever calls them.
// The one thing to know: it is plain C and versioned with the recipe format; kernels call nothing, keep
// no state and touch only the operands' elements that their slice of the index space selects.
#pragma once

#include <cstdint>

extern "C" {

/// What one call of a kernel gets.
struct HpuKernelArgs {
  /// buffers[i] points at logical element (0, ..., 0) of operand i, inputs first, then outputs. For a
  /// ring operand the caller has shifted it, so that the slice's own elements lie in the ring's slot.
  void* const* buffers;
  /// The slice: computes index-space points lo[d] <= p[d] < hi[d].
  const int64_t* lo;
  const int64_t* hi;
  /// Sizes of the kernel's symbolic dimensions, in the order of the recipe's table; may be null.
  const int64_t* dims;
  /// `scratchBytes` of the kernel's descriptor, 64-byte aligned, private to the call; may be null for 0.
  void* scratch;
};

using HpuKernelFn = void (*)(const HpuKernelArgs*);
}
