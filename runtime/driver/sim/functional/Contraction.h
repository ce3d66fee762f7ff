// SPDX-License-Identifier: Apache-2.0
// Contraction: the one normal form of gemm, conv2d and transposed conv2d that the simulated MME
// executes. The one thing to know: C[z, y, x, n] = sum over taps t and depth k of A[z, y*sy + dy_t,
// x*sx + dx_t, k] * B_t[k, n], where a point outside of A's y/x extents counts as zero; a gemm has
// one tap, its rows are x.
#pragma once

#include <cstdint>
#include <vector>

#include "hpu/status.h"
#include "recipe/PackedWeights.h"
#include "recipe/Recipe.h"

namespace hpu::sim {

/// One step of a window: input offset and which K x N matrix of the weights it multiplies with.
struct Tap {
  int64_t dy = 0, dx = 0;
  int64_t packedIndex = 0;  ///< Tap number in the packed layout, counted from the outer dimension's own.
  int64_t bOffset = 0;      ///< Strided weights: elements from the outer dimension's own first one.
};

/// Output points (py + stepY * i, px + stepX * j) that share their taps: a conv has one phase, a
/// transposed one stepY * stepX of them.
struct Phase {
  int64_t py = 0, px = 0;
  int64_t countY = 0, countX = 0;  ///< How many i and j there are.
  std::vector<Tap> taps;           ///< Those that meet A somewhere, by ascending dy, then dx.
};

/// A dimension outside of the pixels and channels: a batch of a gemm, the groups of a conv.
struct OuterDim {
  int64_t extent = 1;
  int64_t aStride = 0, bStride = 0, cStride = 0;  ///< Elements; bStride of packed weights in taps.
  int dim = 0;                                    ///< Dimension of C ...
  int64_t dimStep = 1;                            ///< ... and how far a step goes in it.
};

struct Contraction {
  ElementType abType = ElementType::kInvalid, cType = ElementType::kInvalid;
  int64_t depth = 0, columns = 0;  ///< K and N of one tap's matrix.
  std::vector<OuterDim> outer;     ///< Slowest first.
  std::vector<Phase> phases;

  // Pixels. y and x count the points of a phase's grid (the largest phase's).
  int64_t extentZ = 1, extentY = 1, extentX = 1;
  int64_t outY = 1, outX = 1;  ///< C's own extents: extentY * stepY or a little less.
  int64_t stepY = 1, stepX = 1;
  int64_t inY = 1, inX = 1;                        ///< A's extents.
  int64_t strideY = 1, strideX = 1;                ///< Input points per grid point.
  int64_t aZ = 0, aY = 0, aX = 0, aK = 0;          ///< Element strides of A.
  int64_t cZ = 0, cY = 0, cX = 0, cN = 0;          ///< Element strides of C.
  int dimZ = -1, dimY = -1, dimX = -1, dimN = -1;  ///< Dimensions of C, -1: not there.

  bool packed = false;
  recipe::PackedShape packedShape;  ///< Of one outer step's taps: `taps` is not used.
  int64_t bK = 0, bN = 0;           ///< Strides of strided weights.
  int64_t window = 1;               ///< Positions of the whole window, also those that are no taps.

  std::vector<int64_t> lo;  ///< The box of C that is computed: where (z, y, x, n) = 0 lies.
  std::vector<int64_t> hi;
  int64_t aBase = 0, bBase = 0,
          cBase = 0;       ///< Elements (packed b: taps) added to the operands' offsets.
  int64_t columnBase = 0;  ///< First column of the box in the packed layout.
};

/// The contraction that computes the box [lo, hi) of `mme`'s C. Errors: kUnimplemented for element
/// types that the MME does not multiply.
StatusOr<Contraction> makeContraction(const recipe::MmeDesc& mme, const std::vector<int64_t>& lo,
                                      const std::vector<int64_t>& hi);

}  // namespace hpu::sim
