// SPDX-License-Identifier: Apache-2.0
// Samples of an image at the places of a grid, 2-D and 3-D, and their gradients.
// Here an image is [N, C, (D,) H, W] and a grid [N, ..., 2 or 3], both f32, with the fastest dim of the image first in
// the grid's last dim; -1 and 1 are the image's ends. A sample is the sum of some elements along each dim, its taps.
#pragma once

#include "compose/Emitter.h"

namespace hpu::compose {

struct GridSampling {
  enum class Mode { kLinear, kNearest, kCubic };  ///< Cubic: 2-D only.
  enum class Padding { kZeros, kBorder, kReflection };
  Mode mode = Mode::kLinear;
  Padding padding = Padding::kZeros;
  bool alignsCorners = false;  ///< The ends are the middles of the outermost elements, else their outer edges.
};

/// [N, C, ...] with the grid's dims.
Value gridSample(Emitter& c, Value image, Value grid, const GridSampling& how);

/// The grid [N, sizes..., 2 or 3] that the matrices [N, 2, 3] or [N, 3, 4] map the middles of an image's elements to.
/// `sizes`: [(D,) H, W].
Value affineGrid(Emitter& c, Value matrices, const Shape& sizes, bool alignsCorners);

struct GridGradients {
  Value image, grid;  ///< f32; null where not wanted.
};
/// `g`: of the samples.
GridGradients gridSampleBackward(Emitter& c, Value g, Value image, Value grid, const GridSampling& how, bool wantsImage,
                                 bool wantsGrid);

}  // namespace hpu::compose
