// SPDX-License-Identifier: Apache-2.0
// Samples of an image at the places of a grid, 2-D and 3-D.
#include "compose/GridSample.h"
#include "pytorch/record/Call.h"
#include "pytorch/record/ops/Families.h"

namespace hpu_torch {
namespace {

using hpu::compose::GridSampling;

/// Arguments from `first`: interpolation_mode, padding_mode, align_corners, with PyTorch's numbers.
GridSampling samplingOf(Call& c, size_t first) {
  return {static_cast<GridSampling::Mode>(c.integer(first)), static_cast<GridSampling::Padding>(c.integer(first + 1)),
          c.flag(first + 2)};
}

/// input, grid, ..
void gridSample(Call& c) {
  c.out(0, hpu::compose::gridSample(c, c.f32(0), c.f32(1), samplingOf(c, 2)), c.meta(0).type);
}

/// grad_output, input, grid, .., output_mask -> dInput, dGrid
void gridSampleBackward(Call& c) {
  const bool wantsImage = c.ints(6)[0] != 0;
  const auto gradients =
      hpu::compose::gridSampleBackward(c, c.f32(0), c.f32(1), c.f32(2), samplingOf(c, 3), wantsImage, true);
  if (wantsImage) c.out(0, gradients.image, c.meta(1).type);
  c.out(1, gradients.grid, c.meta(2).type);
}

}  // namespace

const std::vector<Row>& gridOps() {
  static const auto& rows = *new std::vector<Row>{
      {"grid_sampler_2d grid_sampler_3d", gridSample, {}, Row::kOwnShapes},
      {"grid_sampler_2d_backward grid_sampler_3d_backward", gridSampleBackward, {}, Row::kOwnShapes},
  };
  return rows;
}

}  // namespace hpu_torch
