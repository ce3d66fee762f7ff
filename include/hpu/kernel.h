/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: what TPC kernels are called with; plain C, for custom ops in object code (docs/custom-ops.md).
   The one thing to know: a kernel computes a box of its index space, which is its result's, keeps no state, calls
   nothing outside of its object and touches only what that box of its operands needs. Boxes are computed beside each
   other, by several threads. The layout of this struct is versioned with the recipe format. */
#ifndef HPU_KERNEL_H
#define HPU_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one call of a kernel gets. */
struct HpuKernelArgs {
  /* buffers[i] points at logical element (0, ..., 0) of operand i, inputs first, then outputs. For an
     operand in a ring of SRAM the caller has shifted it, so that the box's own elements lie in the ring's slot. */
  void* const* buffers;
  /* The box: computes index-space points lo[d] <= p[d] < hi[d]. */
  const int64_t* lo;
  const int64_t* hi;
  /* Of a custom op: of each operand, in the order of `buffers`, its sizes and then its strides in elements, one a
     dimension; then the attributes of the node, integers as they are and floats as the bits of a double. (Of other
     kernels: the sizes that their code asks for; may be null.) */
  const int64_t* dims;
  /* So many bytes as the kernel has declared, 64-byte aligned, private to the call; may be null for 0. */
  void* scratch;
};

typedef void (*HpuKernelFn)(const struct HpuKernelArgs*);

#ifdef __cplusplus
}
#endif

#endif
