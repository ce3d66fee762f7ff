// SPDX-License-Identifier: Apache-2.0
// Packing of an MME product: `factor` neighbouring pixels of a row of a convolution's result (rows of a gemm's) are
// computed as one with `factor` times as many columns, so that few output channels fill more of the array.
// The one thing to know: only the array's work is packed, results are those of the plain product: its other products
// are with zeros. Nothing but prices depends on it.
//
// A convolution with weights [OC, C, KH, KW], packed by p, has weights [p*OC, C, KH, packedTaps], the stride p*strideW
// and, channels last, the same bytes of the result: [N, OH, OW/p, p*OC] is [N, OH, OW, OC].
#pragma once

#include <cstdint>
#include <string>

#include "recipe/Recipe.h"

namespace hpu::recipe {

/// More pixels than any array needs; keeps the packed sizes in range.
inline constexpr int64_t kMaxPackingFactor = 64;

/// Why the product cannot be packed by `factor` (1: never a reason), to follow its name in a message; empty when it
/// can: the weights are packed constants (that zeros can be put between), shared by the batch, of one group; a
/// convolution's result is channels last, the rows of a GEMM's A and C lie one behind the other. A transposed
/// convolution takes multiples of its stride, as each group of pixels needs the same weights, and no dilation. The
/// sizes must fit together (verifyMmeShapes).
std::string packingObstacle(const MmeDesc& mme, int64_t factor);

/// Taps along W of one column of the packed convolution: what `packingFactor` neighbouring pixels look at together, at
/// a distance of the greatest common divisor of stride and dilation. Of a gemm: the factor.
int64_t packedTaps(const MmeDesc& mme);

/// Bytes of B as the array reads it packed; of a product that is not packed, those of PackedWeights.h.
int64_t packedWeightBytes(const MmeDesc& mme);

}  // namespace hpu::recipe
