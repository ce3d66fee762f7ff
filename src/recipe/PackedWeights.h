// SPDX-License-Identifier: Apache-2.0
// The blocked layout of constant MME weights (BPacking::kBlocked): what the compiler writes and the MME reads.
// The one thing to know: it is the same for every CPU variant and for gemm and conv, so a recipe holds
// each weight once.
//
// For a weight seen as `taps` matrices of K x N (gemm: taps = batch; conv: taps = groups * KH * KW,
// tap = (group * KH + kh) * KW + kw, K = C/groups, N = OC/groups):
//     [tap][N-block][k][n in block],   n-block = kPackedN columns,
// the last block zero-padded to kPackedN. One (tap, N-block) panel is therefore a dense K x kPackedN
// row-major matrix, that a micro-kernel streams from front to back.
#pragma once

#include <cstdint>

#include "hpu/status.h"
#include "hpu/types.h"

namespace hpu::recipe {

/// Columns of a panel: four AVX-512 or eight AVX2 registers of f32, one 256-byte TPC vector.
inline constexpr int64_t kPackedN = 64;

struct PackedShape {
  int64_t taps = 1, k = 0, n = 0;
  int64_t panels() const { return (n + kPackedN - 1) / kPackedN; }
  int64_t panelElements() const { return k * kPackedN; }
  int64_t elements() const { return taps * panels() * panelElements(); }
  /// Element offset of panel (tap, nBlock).
  int64_t panelOffset(int64_t tap, int64_t nBlock) const { return (tap * panels() + nBlock) * panelElements(); }
};

/// Packs from a strided source (element strides of tap, k, n) of 1-, 2- or 4-byte elements into `dst`
/// (shape.elements() elements). Convolution weights [OC, C/groups, KH, KW] are packed group by group
/// (taps = KH * KW, tap stride 1, k stride KH * KW, n stride C/groups * KH * KW), each after the last;
/// transposed ones [C, OC/groups, KH, KW] likewise with the strides of k and n exchanged.
/// Errors: kInvalidArgument for another element size.
Status packWeights(const PackedShape& shape, ElementType type, const void* src, int64_t tapStride, int64_t kStride,
                   int64_t nStride, void* dst);

}  // namespace hpu::recipe
