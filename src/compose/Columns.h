// SPDX-License-Identifier: Apache-2.0
// Columns of the blocks of an image, and convolutions whose taps lie where data says, which are products of columns.
#pragma once

#include <vector>

#include "compose/Emitter.h"

namespace hpu::compose {

/// Blocks of an image of any number of dims; one entry a dim.
struct Blocks {
  std::vector<int64_t> image, kernel, strides, dilations, padBegin, padEnd;
};

/// The image that the columns [N, C * block, places] add up to, [N, C, image...] (col2im).
Value foldColumns(Emitter& c, Value columns, const Blocks& blocks);

struct DeformableWindow {
  int64_t strides[2] = {1, 1}, dilations[2] = {1, 1}, padBegin[2] = {0, 0};
  int64_t groups = 1, offsetGroups = 1;
};
/// A convolution of an image [N, C, H, W] with the weights [OC, C / groups, KH, KW] whose taps are displaced by
/// `offset` [N, 2 * offsetGroups * KH * KW, OH, OW] (of each tap the rows, then the columns) and weighted by `mask`
/// (half as many; may be null). All f32.
Value deformableConvolution(Emitter& c, Value x, Value w, Value offset, Value mask, const DeformableWindow& window);

}  // namespace hpu::compose
