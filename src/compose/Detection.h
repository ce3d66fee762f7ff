// SPDX-License-Identifier: Apache-2.0
// What detectors make of boxes.
#pragma once

#include <cstdint>

#include "compose/Emitter.h"

namespace hpu::compose {

struct RoiAlignment {
  int64_t height = 1, width = 1;  ///< Of the result.
  int64_t samples = 1;            ///< Along each dim of each element of the result.
  double scale = 1;               ///< From the boxes' coordinates to the image's elements.
  bool isHalfPixel = true;  ///< Elements' middles are at .5; else at whole numbers, and boxes are at least 1 large.
  bool isMax = false;       ///< The largest weighted tap, as ONNX has it; else the mean of the samples.
};
constexpr int64_t kMostRoiSamples = 8;

/// [R, C, height, width]: samples of the images [N, C, H, W] inside of boxes [R, 4] (x1, y1, x2, y2), each in image
/// `batch` ([R], integers). f32.
Value roiAlign(Emitter& c, Value images, Value boxes, Value batch, const RoiAlignment& how);

/// [R, C, height, width]: the largest element of each part of boxes [R, 5] (the image, x1, y1, x2, y2; both ends are
/// inside) of the images [N, C, H, W], 0 where a part has none. Coordinates are rounded to elements. f32.
Value roiMaxPool(Emitter& c, Value images, Value boxes, int64_t height, int64_t width, double scale);

/// Of boxes [B, N, 4] with scores [B, C, N] those that are selected of each class, by falling score: i64 [B, C, N],
/// indices and then -1. The other operands are numbers of one element: the most that are selected of a class, how much
/// of the union of two boxes may be their intersection, and what the score has to be above (null: anything).
/// Centred boxes are (x, y, width, height) of their middles, others two opposite corners, y first.
Value selectBoxes(Emitter& c, Value boxes, Value scores, Value most, Value overlap, Value threshold, bool isCentred);

struct UniqueRows {
  Value places;   ///< [n], i64: where each distinct row is first, in their order; then zeros.
  Value inverse;  ///< [n], i64: which distinct row each one is.
  Value counts;   ///< [n], i64: how many there are of each; then zeros.
  Value count;    ///< How many are distinct; i64, rank 0.
};
/// The distinct ones among the rows [n, m]: by size, the first element first, or in the order in which they come. All
/// pairs of rows are compared.
UniqueRows uniqueRows(Emitter& c, Value rows, bool isSorted);

}  // namespace hpu::compose
